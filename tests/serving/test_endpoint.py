"""What a server can be asked is found out with a few requests, and what it cannot is said in one line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict

import pytest
from openai_server import CHAT, OpenAIServer

from energyscope.errors import EnergyscopeError, UsageError
from energyscope.serving import openai_api
from energyscope.serving.endpoint import ELSEWHERE, FIELDS, VERSIONS, Endpoint, find_endpoint, limit_in
from energyscope.serving.openai_api import BODY_BYTES, ServerError, api_key, base_of
from energyscope.serving.prompts import WORDS, prompt

KEY = "sk-very-secret-1234"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    """Keys of whoever runs the tests stay out of them."""
    for name in openai_api.KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def find(server, url=None, **options):
    return asyncio.run(find_endpoint(url or server.url, **{"timeout_s": 10.0, **options}))


def refused(server, url=None, **options):
    """Return the line that says why nothing can be asked."""
    with pytest.raises(EnergyscopeError) as caught:
        find(server, url, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


ENDINGS = ["", "/", "/v1", "/v1/", "/v1/models", "/v1/chat/completions", "/v1/completions"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_address_is_taken_with_and_without_its_path(ending):
    """GIVEN an address as people copy it THEN its base is the same."""
    assert base_of(f"http://gpu:8000{ending}") == "http://gpu:8000"
    assert base_of(f"https://host/models/a{ending}") == "https://host/models/a"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://host:port", "http://[1"])
def test_what_is_no_address_is_refused(url):
    """GIVEN no address THEN the error shows one."""
    with pytest.raises(UsageError, match="such as http://localhost:8000"):
        base_of(url)


@pytest.mark.parametrize("url", [f"http://me:{KEY}@host", f"http://host?key={KEY}", f"me:{KEY}@host"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(url):
    """GIVEN an address with a password or a query THEN it would stand in documents: it is refused, unseen."""
    with pytest.raises(UsageError, match="ENERGYSCOPE_API_KEY") as caught:
        base_of(url)
    assert KEY not in str(caught.value)


def test_all_is_found_of_a_server_that_knows_all():
    """GIVEN a server like vLLM THEN all that can be known is, after six requests."""
    entry = {"max_model_len": 4096, "owned_by": "vllm"}
    documents = {"/version": {"version": "0.11.2"}}
    with OpenAIServer(entry=entry, documents=documents, tokens_per_word=1.25, overhead_tokens=7) as server:
        endpoint = find(server)
    assert endpoint == Endpoint(server.url, "tiny", "completions", 4096, "vllm", FIELDS, 1.25, 7.0, "0.11.2")
    assert len(server.received) == 6
    assert all(body["max_tokens"] == 1 and body["stream"] for body in server.bodies)
    assert len(set(server.prompts[-2:])) == 2


def test_an_endpoint_travels_as_json():
    """GIVEN an endpoint THEN its JSON makes the same one."""
    endpoint = Endpoint("http://host", "m", fields=("ignore_eos",), tokens_per_word=1.5)
    assert Endpoint.of(json.loads(json.dumps(asdict(endpoint)))) == endpoint


def test_the_context_of_llama_cpp():
    """GIVEN llama.cpp THEN its slots' context counts, else that of `meta`; nonsense is passed over."""
    entry = {"meta": {"n_ctx_train": 8192}}
    with OpenAIServer(entry=entry) as server:
        assert find(server).context_tokens == 8192
    slots = {"/props": {"default_generation_settings": {"n_ctx": 512}, "total_slots": 4}}
    with OpenAIServer(entry=entry, documents=slots) as server:
        assert find(server).context_tokens == 512
        assert max(map(server._tokens, server.bodies)) < 512
    with OpenAIServer(
        entry={"max_model_len": "many", "meta": [], "owned_by": None},
        documents={"/props": {"default": 3}},
        context=777,
    ) as server:
        endpoint = find(server)
    assert endpoint.context_tokens == 777
    assert endpoint.owner is None


def test_the_context_of_text_generation_inference():
    """GIVEN /info THEN its limit is taken, and no long prompt is sent."""
    with OpenAIServer(documents={"/info": {"max_input_tokens": 1024, "max_total_tokens": 1536}}) as server:
        assert find(server).context_tokens == 1536
        assert max(map(server._tokens, server.bodies)) < 200


@pytest.mark.parametrize(
    ("path", "document", "version"),
    [
        ("/props", {"build_info": "b6500-abc"}, "b6500-abc"),
        ("/info", {"version": "3.3.4"}, "3.3.4"),
        ("/server_info", {"version": "0.5.6"}, "0.5.6"),
        ("/get_server_info", {"version": "0.5.1\n"}, "0.5.1"),
        ("/version", {"version": 3}, None),
    ],
)
def test_the_version_of_an_engine(path, document, version):
    """GIVEN where an engine states its version THEN it is known, as a line's part; GIVEN no text THEN None."""
    with OpenAIServer(documents={path: document}) as server:
        assert find(server).version == version


def test_a_server_that_states_no_context_is_asked_once():
    """GIVEN no stated context THEN one long prompt tells: by its error, its cut or its answer."""
    with OpenAIServer(context=4096) as server:
        assert find(server).context_tokens == 4096
        assert sum(server._tokens(body) > 200 for body in server.bodies) == 1
    with OpenAIServer(context=3000, cuts=True, tokens_per_word=1.5) as server:
        assert find(server).context_tokens == 3000
    with OpenAIServer(tokens_per_word=1.5) as server:
        assert find(server, context_tokens=4000).context_tokens == pytest.approx(10_000, rel=0.01)
    with OpenAIServer(usage=False) as server:
        assert find(server).context_tokens == 5120


def test_a_server_that_streams_no_usage_is_asked_without_a_stream():
    """GIVEN usage and errors only in answers in one piece THEN they tell tokens of a word, and the context."""
    with OpenAIServer(
        usage=False, plain_usage=True, tokens_per_word=5.0, context=4096, breaks_long=True
    ) as server:
        endpoint = find(server)
    assert (endpoint.tokens_per_word, endpoint.overhead_tokens) == (5.0, 5.0)
    assert endpoint.context_tokens == 4096


@pytest.mark.parametrize("too_long", ["too long", "{sent} tokens are too many", "token limits: {context}, 9"])
def test_a_limit_that_no_error_names(too_long):
    """GIVEN an error without one limit, THEN none is made up; a number that can be none is not in the way."""
    with OpenAIServer(context=1000, too_long=too_long) as server:
        assert find(server).context_tokens == (1000 if "9" in too_long else None)


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 5121 tokens (5120 in", 4096),
        ("The input (5120 tokens) is longer than the model's context length (4,096 tokens).", 4096),
        ("`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 5120 `inputs` tokens and 1 `max_new_t", 2048),
        ("request (5120 tokens) exceeds the available context size (512 tokens), try increasing it", 512),
        ("between 512 and 1024", None),
        ("error 32x at v4.096 of llama-70b: 12", None),
    ],
)  # fmt: skip
def test_limits_as_engines_word_them(message, limit):
    """GIVEN errors as engines write them THEN the limit is the one number that it can be."""
    assert limit_in(message, 5120) == limit


@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_chat_where_there_are_no_completions(status):
    """GIVEN a server with the chat API alone THEN that is used."""
    with OpenAIServer(paths=(CHAT,), missing_status=status) as server:
        endpoint = find(server)
    assert endpoint.api == "chat"
    assert server.bodies[-1]["messages"][0]["role"] == "user"
    assert endpoint.tokens_per_word == 1.0


def test_an_api_that_is_asked_for_is_the_only_one_tried():
    """GIVEN --api chat THEN no completions are asked for; GIVEN one that is not there THEN it is named."""
    with OpenAIServer() as server:
        assert find(server, api="chat").api == "chat"
        others = {path for path, _ in (*ELSEWHERE, *VERSIONS)}
        assert {request["path"] for request in server.received} == {"/v1/models", CHAT, *others}
    with OpenAIServer(paths=(CHAT,)) as server:
        assert "/v1/completions answered 404" in refused(server, api="completions")


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("unknown", [("ignore_eos",), ("ignore_eos", "min_tokens"), FIELDS])
def test_fields_that_a_server_refuses_are_left_out(unknown, status):
    """GIVEN a server that refuses some extra fields THEN the others are kept, and sent."""
    with OpenAIServer(unknown=unknown, unknown_status=status) as server:
        endpoint = find(server)
    assert endpoint.fields == tuple(name for name in FIELDS if name not in unknown)
    assert set(FIELDS) & set(server.bodies[-1]) == set(endpoint.fields)


def test_without_usage_tokens_are_not_known():
    """GIVEN a server without usage THEN what a word has in tokens is None."""
    with OpenAIServer(usage=False) as server:
        endpoint = find(server)
    assert endpoint.tokens_per_word is None
    assert endpoint.overhead_tokens is None


def test_a_small_context_is_not_overrun():
    """GIVEN a context of 64 tokens THEN the probes stay within it."""
    with OpenAIServer(entry={"max_model_len": 64}) as server:
        assert find(server).tokens_per_word == 1.0
    assert max(len(text.split()) for text in server.prompts) <= 16


def test_one_of_several_models_must_be_named():
    """GIVEN several models THEN they are listed; a misspelt name is corrected; the right one is taken."""
    with OpenAIServer(models=("qwen-7b", "llama-8b")) as server:
        assert "--model: qwen-7b, llama-8b" in refused(server)
        assert "did you mean 'llama-8b'?" in refused(server, model="lama-8b")
        assert find(server, model="llama-8b").model == "llama-8b"


def test_a_server_without_a_list_needs_a_name():
    """GIVEN no /v1/models THEN --model is asked for, and is enough."""
    with OpenAIServer(models=None) as server:
        assert "--model" in refused(server)
        assert find(server, model="any").model == "any"


def test_a_broken_list_of_models_needs_a_name():
    """GIVEN a list that fails (`transformers serve` without a cache), or an empty one THEN a name is enough."""
    with OpenAIServer(list_status=500) as server:
        assert "answered 500" in refused(server)
        assert find(server, model="tiny").model == "tiny"
    with OpenAIServer(models=()) as server:
        assert "give --model" in refused(server)


def test_a_model_that_the_server_does_not_have():
    """GIVEN a server that knows the model's name no more THEN its own words are shown."""
    with OpenAIServer(entry={"id": "gone"}) as server:
        message = refused(server)
    assert "answered 404 (check --model" in message
    assert "the model gone does not exist" in message


def test_the_key_is_sent_and_never_shown(monkeypatch):
    """GIVEN a key THEN it comes from the first variable, goes to the server, and is in no message or document."""
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    monkeypatch.setenv("ENERGYSCOPE_API_KEY", KEY + "\n")
    with OpenAIServer(key=KEY) as server:
        assert KEY not in repr(find(server))
    assert {request["headers"]["Authorization"] for request in server.received} == {f"Bearer {KEY}"}
    with OpenAIServer(fail_every=1) as server:  # its text repeats the key
        message = refused(server)
    assert "Bearer ***" in message
    assert KEY not in message


def test_a_wrong_or_missing_key_names_the_variable(monkeypatch):
    """GIVEN a server that needs a key THEN the variable is named: to be set, or to be checked."""
    with OpenAIServer(key=KEY) as server:
        assert "(401): set ENERGYSCOPE_API_KEY" in refused(server)
        assert "Authorization" not in server.received[-1]["headers"]
        monkeypatch.setenv("OPENAI_API_KEY", "wrong-one")
        message = refused(server)
    assert "check the key in OPENAI_API_KEY" in message
    assert "wrong-one" not in message


def test_a_key_that_cannot_be_sent_is_refused_unseen(monkeypatch):
    """GIVEN a key with a line break amid it THEN the variable is named, and not the key."""
    monkeypatch.setenv("ENERGYSCOPE_API_KEY", f"{KEY}\r\nX-Other: 1")
    with pytest.raises(UsageError, match="ENERGYSCOPE_API_KEY holds") as caught:
        api_key()
    assert KEY not in str(caught.value)


def test_a_redirect_is_named_and_not_followed(monkeypatch):
    """GIVEN a server that redirects THEN the error says where to, and nobody there is asked."""
    monkeypatch.setenv("ENERGYSCOPE_API_KEY", KEY)
    with OpenAIServer() as other, OpenAIServer(redirect=other.url) as server:
        assert f"redirects to {other.url}" in refused(server)
        assert other.received == []


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    """GIVEN a proxy in the environment THEN the server itself is asked."""
    with OpenAIServer() as proxy, OpenAIServer() as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        find(server)
        assert proxy.received == []


def test_a_server_error_shows_the_first_of_its_words():
    """GIVEN a 500 with a long text of control characters THEN 200 printable characters of it are shown."""
    with OpenAIServer(fail_every=1) as server:
        message = refused(server)
    assert "answered 500 (its log may say more): boom" in message
    assert message.isprintable()
    assert len(message) < 320


def test_a_server_at_its_limit():
    """GIVEN 429 THEN it is said, and the API is not taken for missing."""
    with OpenAIServer(fail_every=1, fail_status=429) as server:
        assert "takes no more requests now (429)" in refused(server)
    assert len(server.bodies) == 1


def test_a_server_that_does_not_stream():
    """GIVEN an answer in one piece THEN the error says so."""
    with OpenAIServer(streams=False) as server:
        assert "did not stream its answer" in refused(server)


def test_no_server_at_the_address():
    """GIVEN a port without a server THEN it is said in words."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "(Connection refused): start it" in refused(None, f"http://127.0.0.1:{port}")


def test_a_server_that_is_silent():
    """GIVEN a server that takes connections and says nothing THEN the time limit ends it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin_s = time.monotonic()
        message = refused(None, f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2)
    assert "within 0.2 s: raise --timeout" in message
    assert time.monotonic() - begin_s < 5


def test_tls_where_none_is_spoken():
    """GIVEN https:// before a server without TLS THEN http:// is advised."""
    with OpenAIServer() as server:
        assert "try http://" in refused(server, server.url.replace("http:", "https:"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>no</html>", "is not the list of models"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"data": [1]}', "is not the list of models"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"data": []}', "lists no model"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "broke"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "answered 503: no message"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + (BODY_BYTES + 9) * b"[", "is not the list of models"),
    ],
)
def test_what_is_no_openai_api(answer, words):
    """GIVEN something else at the address THEN the error says so, and no more than a MiB is read."""

    def respond():
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            with contextlib.suppress(OSError):  # not all of it is read
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        answering = threading.Thread(target=respond)
        answering.start()
        with pytest.raises(ServerError, match=re.escape(words)):
            asyncio.run(find_endpoint(url))
        answering.join()


def test_prompts_share_what_they_are_told_to_and_no_more():
    """GIVEN a seed THEN the first words are shared by all loads and requests, and the rest is of the request."""
    one, two, other = prompt(40, 10, 3, "a", 0), prompt(60, 20, 3, "b", 7), prompt(40, 10, 4, "a", 0)
    assert one.split()[:10] == two.split()[:10] != other.split()[:10]
    assert one.split()[10:20] != two.split()[10:20]
    assert prompt(40, 10, 3, "a", 0) == one
    assert len(one.split()) == 40
    assert len(prompt(5, 10, 3, "a", 0).split()) == 5
    assert len({prompt(12, 0, 3, "a", number) for number in range(100)}) == 100
    assert len({prompt(3, 0, 3, "a", number) for number in range(100)}) > 95
    assert len(set(WORDS)) == len(WORDS) >= 200


def test_the_command_line_does_not_import_aiohttp():
    """GIVEN the package and the modules of this room THEN aiohttp and torch wait until something is sent."""
    code = (
        "import sys, energyscope, energyscope.cli, energyscope.serving.endpoint, energyscope.serving.process\n"
        "print([name for name in ('aiohttp', 'torch') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
