"""A measurement of a server from the command line to its run directory, against a stand-in server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from openai_server import OpenAIServer

import energyscope
from energyscope.reasons import words
from energyscope.reporting.serving.page import serving_page
from energyscope.reporting.serving.served import Server
from energyscope.serving.run import load_serving

QUICK = (
    *("--prompt-tokens", "64", "--new-tokens", "16", "--users", "1,3"),
    *("--seconds", "0.3", "--meter", "modelled"),
)
SHORT = ("--prompt-tokens", "64", "--new-tokens", "16", "--users", "1", "--seconds", "0.1")
BRIEF = (*SHORT, "--meter", "modelled")
BOARD = (
    "gpu GPU-aaaa Fake H200\nprocess {pid} 4000\nat 0 power_w 200\nat 0 period_s 0.05\n"
    "at 0 clock_mhz 1400\nat 0 throttle 8"
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measure a stand-in server once, by the modelled meter."""
    place = tmp_path_factory.mktemp("served")
    with OpenAIServer() as server:
        words = [sys.executable, "-m", "energyscope", "serving", server.url, *QUICK, "--name", "served"]
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=200, check=False)
    return done, place / "runs" / "served", server


def test_a_server_is_measured(measured):
    """GIVEN a server THEN each load has a row, each request its times, and the answer is told."""
    done, path, server = measured
    assert done.returncode == 0, done.stderr
    assert "MODELLED" in done.stdout
    run = load_serving(path)
    assert set(run.loads["kind"]) == {"prompt", "answer", "request", "mixture"}
    assert (run.loads["failed"] == 0).all()
    requests = pd.read_parquet(path / "requests.parquet")
    asked = requests[requests["load"] == "requests by 3"]
    assert (asked["new_tokens"] == 16).all()
    assert (asked["chunks_s"].map(len) > 1).all()
    assert requests["prompt_tokens"].sum() > 0
    assert len(set(server.prompts)) > 0.9 * len(server.prompts)  # no cache of prefixes knows them
    assert run.serving["costs"] == []  # a modelled power tells nothing apart
    assert run.serving["notes"][0] == "modelled-power-is-constant"


def test_its_page_and_tables_say_it_again(measured, command):
    """GIVEN the run THEN `show`, `report` and `runs` know it, and `run --resume` names the right command."""
    _, path, _ = measured
    shown = command("show", "served", cwd=path.parents[1])
    assert "Load curve" in shown.stdout
    table = command("show", "served", "--table", "curve", cwd=path.parents[1])
    assert table.stdout.splitlines()[0].startswith("asked\t")
    unknown = command("show", "served", "--table", "energy", cwd=path.parents[1])
    assert (unknown.returncode, "it has curve" in unknown.stderr) == (2, True)
    assert json.loads(command("show", "served", "--json", cwd=path.parents[1]).stdout)["loads"]
    (path / "report.html").unlink()
    assert command("report", "served", cwd=path.parents[1]).returncode == 0
    assert "Load curve" in (path / "report.html").read_text(encoding="utf-8")
    assert "served" in command("runs", cwd=path.parents[1]).stdout
    other = command("run", "--resume", "served", cwd=path.parents[1])
    assert other.returncode == 2
    assert "energyscope serving --resume" in other.stderr


def test_a_server_that_dies_leaves_what_was_measured_and_the_rest_is_sent_later(tmp_path, command):
    """GIVEN a server that answers nothing any more THEN the run fails, is kept, and goes on later."""
    server = OpenAIServer()
    with server:
        words = [
            sys.executable,
            "-m",
            "energyscope",
            "serving",
            server.url,
            *QUICK,
            "--name",
            "cut",
            "--timeout",
            "2",
        ]
        process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        journal = tmp_path / "runs" / "cut" / "journal.jsonl"
        deadline = time.monotonic() + 60
        while not (journal.is_file() and len(journal.read_text().splitlines()) >= 3):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        server.fail_every = 1
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "requests without an answer" in error
    assert "energyscope serving --resume runs/cut" in error
    kept = len(journal.read_text().splitlines())
    assert kept >= 3
    before = load_serving(tmp_path / "runs" / "cut")
    with OpenAIServer() as other:
        document = json.loads((tmp_path / "runs" / "cut" / "run.json").read_text())
        document["settings"]["url"] = other.url  # the stand-in takes another port each time
        (tmp_path / "runs" / "cut" / "run.json").write_text(json.dumps(document))
        done = command("serving", "--resume", "cut", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = load_serving(tmp_path / "runs" / "cut")
    assert len(after.loads) > len(before.loads)
    assert after.document["stages"]["serving"]["state"] == "done"
    assert command("serving", "--resume", "cut", cwd=tmp_path).returncode == 0


def test_the_engine_is_found_and_measured_on_its_gpu(tmp_path, fake_nvml, command):
    """GIVEN two GPUs THEN the one that the server's process uses is measured, and a foreign process is told of."""
    board = BOARD.format(pid=os.getpid())
    fake_nvml(f"gpu GPU-bbbb Other\nat 0 power_w 90\nat 0 period_s 0.05\n{board}\nprocess 1 500")
    with OpenAIServer() as server:
        done = command("serving", server.url, *SHORT, "--name", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = load_serving(tmp_path / "runs" / "found")
    assert run.document["device"]["measured"] == ["GPU-aaaa"]
    assert run.document["sensor"]["meter"] == "nvml"
    assert any("other-process" in str(reasons) for reasons in run.loads["reasons"])
    assert (run.loads["clock_mhz"] == 1400).all()
    assert all("slowed-by-heat" in str(reasons) for reasons in run.loads["reasons"])
    assert "Load curve" in serving_page(Server(run))


def test_which_gpu_is_asked_where_nothing_tells(tmp_path, fake_nvml, command):
    """GIVEN two GPUs, neither with the server's process, THEN one line asks for --gpu-id, and nothing is made."""
    fake_nvml("gpu GPU-aaaa One\nat 0 power_w 200\ngpu GPU-bbbb Two\nat 0 power_w 200")
    with OpenAIServer() as server:
        done = command("serving", server.url, *SHORT, "--name", "none", cwd=tmp_path)
    assert done.returncode == 2
    assert "--gpu-id" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_python_code_gets_the_same(tmp_path):
    """GIVEN the function of the Python API THEN it takes numbers, and returns loads and results."""
    with OpenAIServer() as server:
        run = energyscope.measure_server(
            server.url, prompt_tokens=32, new_tokens=8, users=(1,), seconds=0.2, meter="modelled", root=tmp_path
        )
    assert run.modelled
    assert run.loads.set_index("load").loc["requests by 1", "new_tokens"] == 8


def test_no_prompt_is_sent_twice(tmp_path, command):
    """GIVEN two measurements of one server with one seed THEN the second one's prompts are fresh."""
    with OpenAIServer() as server:
        for name in ("one", "two"):
            assert command("serving", server.url, *BRIEF, "--name", name, cwd=tmp_path).returncode == 0
        sent = Counter(text for text in server.prompts if len(text.split()) > 8)
    assert sum(count > 1 for count in sent.values()) == 2  # what finds out how many tokens a word has


def test_prompts_are_counted_where_the_server_states_nothing(tmp_path, command):
    """GIVEN a server without usage THEN prompts are counted by a tokenizer, and answers by their texts."""
    tokenizer = str(Path(energyscope.__file__).parent / "bundled" / "tiny-llama")
    with OpenAIServer(usage=False) as server:
        wrong = command("serving", server.url, *BRIEF, "--tokenizer", "none-here", cwd=tmp_path)
        done = command("serving", server.url, *BRIEF, "--tokenizer", tokenizer, "--name", "counted", cwd=tmp_path)
    assert (wrong.returncode, "--tokenizer none-here cannot be loaded" in wrong.stderr) == (2, True)
    assert done.returncode == 0, done.stderr
    run = load_serving(tmp_path / "runs" / "counted")
    row = run.loads.set_index("load").loc["requests by 1"]
    assert row["prompt_tokens"] == pytest.approx(64, rel=0.1)
    assert row["new_tokens"] == 16
    assert {"texts-counted", "prompts-counted"} <= set(run.serving["notes"])
    assert "prompt-tokens-unknown" not in run.serving["notes"]


def test_a_context_that_is_assumed_is_said(tmp_path, command):
    """GIVEN a server that refuses a long prompt without a number THEN a note says what was assumed."""
    notes, quick = [], BRIEF
    for name, too_long in (("assumed", "too long"), ("known", "at most {context} tokens")):
        with OpenAIServer(context=4000, too_long=too_long) as server:
            done = command("serving", server.url, *quick, "--name", name, cwd=tmp_path)
            long = command("serving", server.url, *quick, "--prompt-tokens", "3000", "--dry-run", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        notes.append(load_serving(tmp_path / "runs" / name).document["serving"]["notes"])
        assert long.returncode == (2 if name == "assumed" else 0)
        assert ("context of 2048 (assumed" in long.stderr) == (name == "assumed")
    assert ["context-assumed(tokens=2048)" in each for each in notes] == [True, False]
    assert "does not state its context: 2,048 tokens" in words("context-assumed(tokens=2048)")


def test_another_machine_is_refused(tmp_path, command):
    """GIVEN an address of another machine THEN the line says that its GPUs cannot be read here."""
    with OpenAIServer() as server:
        port = server.url.rpartition(":")[2]
        done = command("serving", f"http://192.0.2.1:{port}", *BRIEF, "--timeout", "1", cwd=tmp_path)
    assert done.returncode in {1, 2}
    assert "192.0.2.1" in done.stderr


def test_no_key_reaches_a_file(tmp_path, command):
    """GIVEN a key in the environment THEN it is sent, and no file or line holds it."""
    with OpenAIServer(key="sk-secret") as server:
        refused = command("serving", server.url, *BRIEF, cwd=tmp_path)
        done = command(
            "serving", server.url, *BRIEF, "--name", "kept", cwd=tmp_path, ENERGYSCOPE_API_KEY="sk-secret"
        )
    assert refused.returncode == 1
    assert "ENERGYSCOPE_API_KEY" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert "sk-secret" not in done.stdout + done.stderr
    for file in (tmp_path / "runs" / "kept").iterdir():
        assert b"sk-secret" not in file.read_bytes()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nonsense",), "http://localhost:8000"),
        (("http://127.0.0.1:1", "--users", "0"), "--users must be 1 or more"),
        (("http://127.0.0.1:1", "--prompt-tokens", "many"), "512:lognormal"),
        (("http://127.0.0.1:1", "--rate", "0"), "above 0"),
        (("http://127.0.0.1:1", "--trace", "no.jsonl"), "no.jsonl is no file"),
        ((), "give the server's address"),
    ],
)
def test_bad_input_is_one_line(words, says, tmp_path, command):
    """GIVEN options that cannot be THEN one line says what to give, before anything is sent."""
    done = command("serving", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_trace_is_sent_at_its_times(tmp_path, command):
    """GIVEN a trace with texts and times THEN its requests are sent so, and a bad line is named."""
    trace = tmp_path / "trace.jsonl"
    lines = [{"prompt": f"the story of number {n}", "max_tokens": 4 + n, "time": n / 10} for n in range(6)]
    trace.write_text("\n".join(map(json.dumps, lines)))
    with OpenAIServer() as server:
        done = command("serving", server.url, *BRIEF, "--trace", "trace.jsonl", "--name", "traced", cwd=tmp_path)
        trace.write_text('{"prompt": "the story"}')
        bad = command("serving", server.url, *BRIEF, "--trace", "trace.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    requests = pd.read_parquet(tmp_path / "runs" / "traced" / "requests.parquet")
    timed = requests[requests["load"] == "requests at the trace's times"].sort_values("due_s")
    assert timed["new_tokens"].tolist() == [4, 5, 6, 7, 8, 9]
    assert timed["due_s"].tolist() == pytest.approx([n / 10 for n in range(6)], abs=1e-4)
    assert bad.returncode == 2
    assert "line 1: max_tokens is no number of tokens" in bad.stderr
