"""Loads are sent as they say, from a process of its own, and all that comes of them is told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
from fake_nvml.waiting import wait_until
from openai_server import CHAT, OpenAIServer

from energyscope.errors import RunError
from energyscope.serving.client import Sender
from energyscope.serving.endpoint import FIELDS, Endpoint
from energyscope.serving.openai_api import BODY_BYTES, KEY_VARIABLES, ServerError, open_session
from energyscope.serving.process import Client
from energyscope.serving.requests import Answer, Load, Served, Shape
from energyscope.serving.streaming import Stream

SHAPE = Shape(words=20, max_tokens=8)
KEY = "sk-very-secret-1234"
TEXT = b'data: {"choices": [{"text": "a", "finish_reason": null}]}\n\n'
LAST = b'data: {"choices": [{"text": "a", "finish_reason": "length"}]}\n\n'
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": None}


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    """Keys of whoever runs the tests stay out of them."""
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def endpoint_of(server, **facts):
    return Endpoint(server.url, "tiny", fields=FIELDS, **facts)


def users(count, seconds=0.5, **more):
    return Load("users", "request", seconds, (SHAPE,), users=count, **more)


def sent(server, *loads, timeout_s=10.0, **facts):
    """Return what became of loads, sent from here: a process of its own takes longer to start."""

    async def send():
        async with open_session(timeout_s) as session:
            sender = Sender(session, endpoint_of(server, **facts), records.append)
            return [await sent_by(sender, load) for load in loads]

    async def sent_by(sender, load):
        await sender.send(load)
        *answers, end = json.loads(json.dumps(records))
        records.clear()
        return Served.of(load, [Answer.of(record["answer"]) for record in answers], end["done"])

    records = []
    return asyncio.run(send())


def fed(*pieces):
    stream = Stream()
    for place, piece in enumerate(pieces):
        stream.feed(piece, float(place))
    stream.end()
    return stream


def running(pid):
    """Tell whether a process runs: neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_events_are_read_whole_or_in_pieces():
    """GIVEN several events in one piece THEN each with text counts; GIVEN one in pieces THEN once it is whole."""
    assert fed(TEXT + TEXT, LAST + DONE).chunks_s == [0.0, 0.0, 1.0]
    whole = TEXT + LAST + DONE
    stream = fed(*(whole[place : place + 1] for place in range(len(whole))))
    assert stream.chunks_s == [whole.index(b"\n"), whole.index(b"\n", len(TEXT))]
    assert fed(TEXT.replace(b"\n", b"\r\n"), b"data:[DONE]\r\n").done
    assert fed(b": comment\n\nevent: message\n", LAST.rstrip()).chunks_s == [1.0]


@pytest.mark.parametrize(
    ("choice", "texts"),
    [
        ({"delta": {"role": "assistant", "content": ""}}, 0),
        ({"delta": {"content": "a"}}, 1),
        ({"delta": {"content": None, "reasoning_content": "a"}}, 1),
        ({"delta": {"reasoning": "a"}}, 1),
        ({"delta": {}, "finish_reason": "stop"}, 0),
        ({"text": ""}, 0),
        ("nonsense", 0),
    ],
)
def test_only_text_is_text(choice, texts):
    """GIVEN deltas with a role or an end alone THEN they are no text; reasoning is, as it is generated too."""
    event = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
    assert len(fed(event, DONE).chunks_s) == texts


@pytest.mark.parametrize("usage", [USAGE, {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}])
def test_usage_is_that_of_the_last_event(usage):
    """GIVEN usage, and events without any after it THEN its tokens are known; of nonsense they are not."""
    event = json.dumps({"choices": [], "usage": usage}).encode()
    stream = fed(LAST, b"data: " + event + b"\n\n", b'data: {"choices": [], "usage": null}\n\n', DONE)
    assert (stream.tokens("prompt_tokens"), stream.tokens("completion_tokens")) == (9, 3)
    assert stream.cached_tokens == (usage["prompt_tokens_details"] or {}).get("cached_tokens")
    wrong = fed(b'data: {"usage": {"prompt_tokens": "9", "completion_tokens": true}}\n', DONE)
    assert (wrong.tokens("prompt_tokens"), wrong.tokens("completion_tokens")) == (None, None)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([TEXT], "ended early"),
        ([], "ended early"),
        ([b"data: {half\n"], "not JSON: {half"),
        ([b"data: " + 99999 * b"[" + b"\n"], "not JSON"),
        ([b'data: {"error": {"message": "no memory"}}\n'], "broke off: no memory"),
        ([b'error: {"message": "slot lost"}\n'], "broke off: slot lost"),
        ([b"data: " + (BODY_BYTES + 1) * b"x"], "without end"),
    ],
)
def test_an_answer_that_is_not_complete_is_an_error(pieces, words):
    """GIVEN no end, no JSON, an error amid the stream, or an event without end THEN it is said in a line."""
    with pytest.raises(ServerError, match=words) as caught:
        fed(*pieces)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_users_send_one_request_after_another(api):
    """GIVEN three users THEN at most three requests are under way at a time, and each answer is told in full."""
    with OpenAIServer() as server:
        (served,) = sent(server, users(3, ramp_s=0.1), api=api)
    assert served.end_s - served.begin_s >= 0.5
    assert served.unsent == 0
    assert sorted(answer.number for answer in served.answers) == list(range(len(served.answers)))
    for answer in served.answers:
        assert (answer.prompt_tokens, answer.cached_tokens, answer.new_tokens) == (25, 3, 8)
        assert (answer.finish, answer.error, answer.words, answer.load) == ("length", None, 20, "users")
        assert len(answer.chunks_s) == 8
        times_s = [served.begin_s, answer.due_s, answer.sent_s, *answer.chunks_s, answer.ended_s, served.end_s]
        assert all(one <= two + 1e-5 for one, two in pairwise(times_s))
        assert answer.sent_s < served.begin_s + 0.5 + 0.3
    moments = [answer.sent_s for answer in served.answers]
    at_once = [sum(a.sent_s <= at_s < a.ended_s for a in served.answers) for at_s in moments]
    assert max(at_once) == 3
    assert {request["path"] for request in server.received} == {CHAT if api == "chat" else "/v1/completions"}


def test_users_begin_within_the_ramp():
    """GIVEN a ramp THEN users begin at times of their own, the same ones for the same load."""
    with OpenAIServer() as server:
        loads = sent(server, *2 * [replace(users(6, 0.5), ramp_s=0.4)])
    begins = [min(a.due_s - load.begin_s for a in load.answers) for load in loads]
    assert begins[0] == pytest.approx(begins[1], abs=1e-3)
    assert all(0 < begin < 0.4 for begin in begins)


def test_users_ask_until_each_has_had_its_rounds():
    """GIVEN rounds that take longer than the load's seconds THEN each user is answered so often."""
    with OpenAIServer() as server:
        (served,) = sent(server, users(3, 0.01, ramp_s=0.1, rounds=4))
    assert len(served.answers) >= 12
    ends = sorted(answer.ended_s - served.begin_s for answer in served.answers)
    assert served.load.seconds == pytest.approx(ends[-3], abs=1e-3)  # the others had a request under way
    assert sum(end > served.load.seconds + 1e-3 for end in ends) <= 2


def test_nobody_waits_for_rounds_of_a_user_whose_requests_fail():
    """GIVEN a server that refuses all THEN no user asks four times: at most once more while others ask first."""
    with OpenAIServer(fail_every=1) as server:
        (served,) = sent(server, users(3, 0.01, rounds=4))
    assert 3 <= len(served.answers) <= 6
    assert all(answer.error for answer in served.answers)


def test_shapes_are_taken_in_turn_and_prompts_are_fresh():
    """GIVEN two shapes THEN they alternate; no two prompts are alike but in the words that they share."""
    load = replace(users(1, 0.3), shapes=(Shape(20, 2), Shape(30, 3)), shared_words=10, seed=5)
    with OpenAIServer() as server:
        sent(server, load, replace(load, name="again"))
    lengths = [len(text.split()) for text in server.prompts]
    assert lengths[:4] == [20, 30, 20, 30]
    assert [body["max_tokens"] for body in server.bodies[:4]] == [2, 3, 2, 3]
    assert len({" ".join(text.split()[:10]) for text in server.prompts}) == 1
    assert len({" ".join(text.split()[10:]) for text in server.prompts}) == len(lengths)


def test_a_text_of_the_user_is_sent_as_it_is():
    """GIVEN a text THEN it is the prompt, and the extra fields ask for exactly so many tokens."""
    load = Load("trace", "request", 0.1, (Shape(2, 3, "Grüße, Welt"),), arrivals_s=(0.0,))
    with OpenAIServer() as server:
        sent(server, load)
    assert server.bodies == [
        {
            "model": "tiny",
            "prompt": "Grüße, Welt",
            "max_tokens": 3,
            "stream": True,
            "ignore_eos": True,
            "min_tokens": 3,
            "stream_options": {"include_usage": True},
        }
    ]


def test_a_schedule_is_kept_whatever_is_unanswered():
    """GIVEN a server that stalls THEN requests go out at their times all the same, and fail in the end."""
    load = Load("open", "request", 0.4, 40 * (SHAPE,), arrivals_s=tuple(0.01 * n for n in range(40)))
    with OpenAIServer(stall_after=2) as server:
        (served,) = sent(server, load, timeout_s=1.0)
    assert len(server.bodies) == 40
    assert all(0 <= answer.sent_s - answer.due_s < 0.3 for answer in served.answers)
    assert all("did not answer within 1 s" in answer.error for answer in served.answers)
    assert all(len(answer.chunks_s) == 2 for answer in served.answers)
    assert all(0.9 < answer.ended_s - answer.sent_s < 3 for answer in served.answers)


def test_nothing_is_sent_after_the_load():
    """GIVEN arrivals after its seconds THEN they are not sent but counted; the load lasts its seconds at least."""
    load = Load("open", "request", 0.2, 3 * (SHAPE,), arrivals_s=(5.0, 0.0, 0.2))
    with OpenAIServer() as server:
        (served,) = sent(server, load)
    assert len(served.answers) == 2
    assert served.unsent == 1
    assert 0.2 <= served.end_s - served.begin_s < 3


def test_a_pause_sends_nothing():
    """GIVEN neither users nor arrivals THEN time passes."""
    with OpenAIServer() as server:
        (served,) = sent(server, Load("pause", "pause", 0.2))
    assert 0.2 <= served.end_s - served.begin_s < 2
    assert server.received == []
    assert served.answers == []


@pytest.mark.parametrize(
    ("ills", "words"),
    [
        ({"fail_every": 2, "fail_status": 500}, "answered 500"),
        ({"fail_every": 2, "fail_status": 429}, "takes no more requests now (429)"),
        ({"cut_after": 2}, "broke"),
        ({"error_event": True}, "broke off: out of memory"),
        ({"streams": False}, "did not stream"),
    ],
)
def test_what_fails_is_an_answer_with_an_error(ills, words):
    """GIVEN a server that refuses or breaks off THEN the answer says so in a line, and the load goes on."""
    with OpenAIServer(**ills) as server:
        (served,) = sent(server, users(2, 0.3))
    errors = [answer.error for answer in served.answers if answer.error]
    assert errors
    assert all(words in error and error.isprintable() and len(error) < 320 for error in errors)
    if "fail_every" in ills:
        assert len(errors) == len(served.answers) // 2


def test_a_server_without_done_and_usage():
    """GIVEN a stream without [DONE], but with a finish_reason THEN it is complete, its tokens unknown."""
    with OpenAIServer(done_marker=False, usage=False) as server:
        (served,) = sent(server, users(1, 0.2))
    assert {(answer.error, answer.new_tokens, answer.finish) for answer in served.answers} == {
        (None, None, "length")
    }


def test_a_user_waits_longer_after_each_failure():
    """GIVEN a server that refuses all THEN a user waits 0.2, 0.4, ... s: three requests in a second."""
    with OpenAIServer(fail_every=1) as server:
        (served,) = sent(server, users(1, 1.0))
    gaps = [two.due_s - one.ended_s for one, two in pairwise(served.answers)]
    assert gaps == pytest.approx([0.2, 0.4][: len(gaps)], abs=1e-3)
    assert 2 <= len(served.answers) <= 3


def test_connections_are_used_again():
    """GIVEN one request after another THEN they share a connection, though the answer ended with [DONE]."""
    with OpenAIServer() as server:
        (served,) = sent(server, users(1, 0.4))
    assert len(served.answers) > 5
    assert len({request["from"] for request in server.received}) < len(served.answers) / 2


def test_no_server_is_an_error_of_the_answer():
    """GIVEN a server that went away THEN answers say so."""
    with OpenAIServer() as server:
        pass
    (served,) = sent(server, users(1, 0.1))
    assert "start it, or check address and port" in served.answers[0].error


def test_the_key_is_sent_and_in_no_answer(monkeypatch):
    """GIVEN a key THEN requests have it; a server that repeats it gets it into no answer."""
    monkeypatch.setenv("ENERGYSCOPE_API_KEY", KEY)
    with OpenAIServer(key=KEY, fail_every=2) as server, Client(endpoint_of(server)) as client:
        served = client.send(users(2, 0.3))
        command = Path(f"/proc/{client._process.pid}/cmdline").read_text()
    assert "Bearer ***" in next(answer.error for answer in served.answers if answer.error)
    assert KEY not in repr(served) + command + repr(client)


def test_answers_are_told_as_they_end():
    """GIVEN a function THEN it gets each answer when it ends; the process tells its CPU time."""
    told = []
    with OpenAIServer() as server, Client(endpoint_of(server)) as client:
        served = client.send(users(2, 0.3), told.append)
        assert 0 < client.cpu_s() < 10
    assert told == list(served.answers)
    assert client.cpu_s() is None


@pytest.mark.bench
def test_twenty_streams_a_second_take_at_most_half_a_core():
    """GIVEN 20 requests/s of 128 streamed tokens from a server of its own THEN the client uses half a core."""
    rate, requests = 20.0, 200
    due = tuple(number / rate for number in range(requests))
    load = Load("requests", "request", requests / rate, (Shape(512, 128),) * requests, arrivals_s=due)
    server = [sys.executable, str(Path(__file__).with_name("openai_server.py"))]
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        endpoint = Endpoint(process.stdout.readline().strip(), "tiny", fields=FIELDS)
        with Client(endpoint) as client:
            client.send(users(1, 0.3))  # starts it
            before = client.cpu_s()
            served = client.send(load)
            used = client.cpu_s() - before
        process.stdin.close()
    assert sum(len(answer.chunks_s) for answer in served.answers) == requests * 128
    assert used / load.seconds < 0.5


def test_a_process_that_dies_is_told_with_its_last_words():
    """GIVEN a client that is killed, or that fails THEN the error says how; GIVEN one not started THEN that."""
    with OpenAIServer() as server, Client(endpoint_of(server)) as client:
        client.send(Load("pause", "pause", 0.0))
        os.kill(client._process.pid, signal.SIGKILL)
        with pytest.raises(RunError, match=r"was killed \(SIGKILL\)"):
            client.send(users(1))
    with (
        Client(Endpoint("http://host", "m", api="none")) as client,
        pytest.raises(RunError, match="KeyError: 'none'"),
    ):
        client.send(users(1))
    with pytest.raises(RunError, match="not started"):
        Client(endpoint_of(server)).send(users(1))


def test_a_client_is_stopped_amid_a_load():
    """GIVEN Ctrl-C amid a load THEN the process is gone at once, and so are its requests."""

    pids = []

    def interrupt(answer):
        pids.append(client._process.pid)
        raise KeyboardInterrupt

    with OpenAIServer() as server:
        client = Client(endpoint_of(server))
        with pytest.raises(KeyboardInterrupt), client:
            client.send(users(2, 30.0), interrupt)
        assert not running(pids[0])
        wait_until(lambda: not server._running, "the server to have nothing to do")


def test_ctrl_c_of_the_terminal_is_not_for_the_process():
    """GIVEN a process THEN it is in a group of its own."""
    with OpenAIServer() as server, Client(endpoint_of(server)) as client:
        assert os.getpgid(client._process.pid) != os.getpgid(0)


def test_the_process_ends_when_its_parent_is_killed():
    """GIVEN a parent that is killed amid a load THEN the client ends, and leaves no word."""
    code = (
        "import sys\nfrom energyscope.serving.process import Client\n"
        "from energyscope.serving.endpoint import Endpoint\n"
        "from energyscope.serving.requests import Load, Shape\n"
        "with Client(Endpoint(sys.argv[1], 'tiny')) as client:\n"
        "    print(client._process.pid, flush=True)\n"
        "    client.send(Load('a', 'request', 60.0, (Shape(9, 99),), users=3))\n"
    )
    with OpenAIServer() as server:
        parent = subprocess.Popen([sys.executable, "-c", code, server.url], stdout=subprocess.PIPE, text=True)
        pid = int(parent.stdout.readline())
        wait_until(lambda: server.bodies, "a request")
        parent.kill()
        parent.communicate()
        wait_until(lambda: not running(pid), "the client's end")


def test_standard_input_that_closes_amid_a_load_ends_it():
    """GIVEN the process alone THEN it speaks lines of JSON, and ends without an error when its input closes."""
    with OpenAIServer() as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "energyscope.serving.client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        documents = [{**asdict(endpoint_of(server)), "timeout_s": 5.0}, users(1, 60.0).document()]
        process.stdin.write("".join(json.dumps(document) + "\n" for document in documents))
        process.stdin.flush()
        assert set(json.loads(process.stdout.readline())) == {"answer"}
        begin_s = time.monotonic()
        _, errors = process.communicate(timeout=10)
    assert time.monotonic() - begin_s < 5
    assert (process.returncode, errors) == (0, "")
