"""Measured servers are compared load by load: verdicts, page, JSON and the gate for scripts."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest
import simulated_server
from page_gallery import HOSTILE
from run_builder import build_run
from served_builder import build_served
from simulated_server import SimulatedServer

from energyscope.comparison.served import (
    EACH_TOKEN,
    FIRST_TOKEN,
    IDLE_ENGINE,
    PER_NEW_TOKEN,
    PER_REQUEST,
    WORK,
    compare_served,
)
from energyscope.reporting.section import tables
from energyscope.reporting.serving.comparison import SERVED, ComparedServers, ServedAnswer, figures
from energyscope.reporting.serving.comparison_page import served_comparison_page
from energyscope.serving.curve import median_s
from energyscope.serving.run import load_serving

QUICK = {"users": (1, 2, 4), "seconds": 5}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Runs of one engine before and after a change, with other requests, and with other users."""
    root = tmp_path_factory.mktemp("runs")
    build_served(root / "before", **QUICK)
    build_served(root / "again", SimulatedServer(noise=0.004), **QUICK)
    build_served(root / "worse", SimulatedServer(steps=1.44, noise=0.004), **QUICK)
    build_served(root / "prompts", SimulatedServer(steps=1.44, noise=0.004), **QUICK, prompt_tokens="256")
    build_served(root / "users", SimulatedServer(steps=1.44, noise=0.004), users=(1, 8), seconds=5)
    return root


def pair(root, *names):
    """Return the comparison of two runs."""
    return compare_served([load_serving(name, root) for name in names]).pairs[0]


def verdicts(pair, name):
    """Return the verdict of a quantity at each load."""
    return {point.load: item.verdict for point in pair.points for item in point.rows if item.name == name}


def answer(root, *names):
    """Return the first answer of a comparison."""
    return ServedAnswer(ComparedServers.of([load_serving(name, root) for name in names]).others[0])


def changed(path, source, **changes):
    """Copy a run, with other values in sections of run.json."""
    shutil.copytree(source, path)
    document = json.loads((path / "run.json").read_text(encoding="utf-8"))
    for section, values in changes.items():
        document[section] |= values
    (path / "run.json").write_text(json.dumps({**document, "name": path.name}), encoding="utf-8")


def test_a_costlier_engine_is_told_from_the_same_one(root):
    """GIVEN steps that cost a fifth more THEN requests and tokens take more, and the idle engine does not."""
    worse = pair(root, "before", "worse")
    assert set(verdicts(worse, PER_REQUEST).values()) == set(verdicts(worse, PER_NEW_TOKEN).values()) == {"more"}
    assert set(verdicts(worse, WORK).values()) == {"more"}
    costs = {item.name: item.verdict for item in worse.costs}
    assert costs["generated token (answers by 1)"] == "more"
    assert costs["prompt token (prompts of 1024 by 1)"] == costs[IDLE_ENGINE] == "no-difference-shown"
    assert {item.verdict for item in pair(root, "before", "again").every}.isdisjoint({"less", "more"})


def test_runs_of_earlier_versions_are_read(root, tmp_path):
    """GIVEN rows without limits of work, and without slots THEN work has no verdict, and the rest is compared."""
    for name in ("before", "worse"):
        changed(tmp_path / name, root / name)
        table = pd.read_csv(tmp_path / name / "serving.csv")
        table = table.drop(columns=["work_low_j", "work_high_j"]).assign(slots=None)
        table.to_csv(tmp_path / name / "serving.csv", index=False)
    earlier = pair(tmp_path, "before", "worse")
    assert set(verdicts(earlier, PER_REQUEST).values()) == {"more"}
    assert not {"more", "less", "no-difference-shown"} & set(verdicts(earlier, WORK).values())


def test_the_energy_of_a_token_is_that_of_its_request(root):
    """GIVEN answers of 128 tokens THEN a token has their 128th, with its interval."""
    rows = {item.name: item for item in pair(root, "before", "worse").points[0].rows}
    request, token = rows[PER_REQUEST].baseline, rows[PER_NEW_TOKEN].baseline
    assert 128 * token.value == pytest.approx(request.value)
    assert 128 * token.low == pytest.approx(request.low)


def test_a_slower_engine_is_slow_and_not_costly(root, tmp_path, monkeypatch):
    """GIVEN steps that take a fifth longer THEN each token takes more time, and the first does not."""
    monkeypatch.setattr(simulated_server, "STEP_S", 1.2 * simulated_server.STEP_S)
    build_served(tmp_path / "slow", SimulatedServer(noise=0.004), **QUICK)
    slow = pair(root, str(root / "before"), str(tmp_path / "slow"))
    assert verdicts(slow, EACH_TOKEN)["requests by 4"] == "more"
    assert verdicts(slow, FIRST_TOKEN)["requests by 4"] == "no-difference-shown"
    item = next(item for item in slow.points[2].rows if item.name == EACH_TOKEN)
    assert item.relative.value == pytest.approx(1.18, abs=0.03)


def test_latencies_without_their_requests_have_no_verdict(root, tmp_path):
    """GIVEN a damaged file of requests THEN medians stay, without interval and verdict."""
    changed(tmp_path / "damaged", root / "worse")
    (tmp_path / "damaged" / "requests.parquet").write_bytes(b"PAR1 and no more")
    damaged = pair(root, str(root / "before"), str(tmp_path / "damaged"))
    item = next(item for item in damaged.points[1].rows if item.name == FIRST_TOKEN)
    assert item.other.value > 0
    assert (item.verdict, str(item.reason)) == ("not-comparable", "interval-unknown")
    assert verdicts(damaged, PER_REQUEST)["requests by 2"] == "more"


def test_without_energies_latencies_are_compared(root, tmp_path, command):
    """GIVEN loads too short for an energy THEN the answer says so, and latencies are shown; nothing is judged."""
    for name in ("a", "b"):
        changed(tmp_path / name, root / "before")
        loads = pd.read_csv(tmp_path / name / "serving.csv")
        loads[["request_j", "request_low_j", "request_high_j", "token_j"]] = None
        loads.to_csv(tmp_path / name / "serving.csv", index=False)
        serving = json.loads((tmp_path / name / "serving.json").read_text(encoding="utf-8"))
        (tmp_path / name / "serving.json").write_text(json.dumps({**serving, "phases": []}), encoding="utf-8")
    done = command("compare", "a", "b", "--root", ".", cwd=tmp_path)
    assert "no measured energy in common" in done.stdout
    assert "Only latencies are compared." in done.stdout
    assert "Time per token" in done.stdout
    assert command("compare", "a", "b", "--root", ".", "--fail-if-more-than", "5%", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("values", "half"),
    [([], None), ([1.0, 2.0, 3.0], 0), ([0.5] * 40, 0), ([1.0, 2.0, 3.0, 4.0], 3.182 * (5 / 3) ** 0.5)],
)
def test_the_interval_of_a_median_is_that_of_its_parts(values, half):
    """GIVEN times THEN the interval is that of one more part's median; few have none."""
    item = median_s(values)
    if half is None:
        assert item is None
    elif len(values) < 4:
        assert (item.value, item.known) == (2.0, False)
    else:
        assert item.above == pytest.approx(half, rel=1e-3)


def test_of_other_requests_tokens_are_compared(root):
    """GIVEN another prompt THEN requests have no verdict, and tokens lead the answer."""
    other = pair(root, "before", "prompts")
    assert [condition.name for condition in other.requests] == ["--prompt-tokens"]
    assert {item.verdict for point in other.points for item in point.rows} == {"not-comparable"}
    assert str(other.points[0].rows[0].reason) == 'other-conditions(names=["--prompt-tokens"])'
    said = answer(root, "before", "prompts")
    assert "per generated token (answers by 4): shown" in said.sentence
    assert "The requests differ (--prompt-tokens): only tokens" in said.cause
    assert any("--prompt-tokens" in note for note in said.curve().notes)
    compared = ComparedServers.of([load_serving(name, root) for name in ("before", "prompts")])
    differ = tables(SERVED.shown(compared))["differ"]
    assert {"name": "--prompt-tokens", "0": "512", "1": "256"} in differ.rows


def test_loads_of_one_run_are_named(root):
    """GIVEN other users THEN the loads that both have are compared, and those of one run alone are named."""
    other = pair(root, "before", "users")
    assert list(verdicts(other, PER_REQUEST)) == ["requests by 1"]
    said = answer(root, "before", "users")
    assert "per request at 1 user: shown" in said.sentence
    assert "In before alone, and not compared: requests by 2 and requests by 4." in said.cause
    assert "In users alone, and not compared: requests by 8." in said.cause


def test_energies_of_another_board_have_no_verdict(root, tmp_path):
    """GIVEN another board THEN no energy has a verdict, and the answer says so."""
    changed(tmp_path / "board", root / "worse", device={"measured": ["GPU-bbbb"]})
    said = answer(root, str(root / "before"), str(tmp_path / "board"))
    assert {item.verdict for item in said.against.pair.every} == {"not-comparable"}
    assert "not comparable (other GPU board)" in said.sentence
    assert "sensors of two boards may differ" in said.trust
    assert "The GPU board differs." in said.cause


def test_another_engine_is_what_is_asked(root, tmp_path):
    """GIVEN another model THEN there are verdicts, and the cause names it."""
    changed(tmp_path / "model", root / "worse", model={"name": "other"})
    said = answer(root, str(root / "before"), str(tmp_path / "model"))
    assert said.sentence.startswith("model takes ")
    assert said.sentence.endswith("more energy than before per request at 4 users: shown.")
    assert said.cause.endswith("The model differs.")


def test_the_page_has_both_curves_and_all_numbers(root, tmp_path):
    """GIVEN three runs THEN the answer comes first, the chart has both runs, each other run has its tables."""
    source = ComparedServers.of([load_serving(name, root) for name in ("before", "worse", "users")])
    page = served_comparison_page(source, tmp_path).replace("\xa0", " ").replace("\u202f", " ")
    for one in source.others:
        assert ServedAnswer(one).sentence.replace("\u202f", " ") in page
    assert page.index('class="answer"') < page.index('id="load-curves"') < page.index('id="curve"')
    (figure,) = figures(source)
    assert [view.when for view in figure.views] == [{"other": "1"}, {"other": "2"}]
    assert [row["run"] for row in figure.views[1].table.rows] == ["before"] * 3 + ["users"] * 2
    named = tables(SERVED.shown(source))
    assert len(named["curve-1"].rows) == 15
    assert len(named["curve-2"].rows) == 5
    assert {"costs-1", "costs-2", "same"} <= set(named)
    assert [row["baseline"].unit for row in named["curve-1"].rows[:4]] == ["J", "J", "J", "s"]


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_words_of_others_are_only_shown_here_too(tmp_path, words):
    """GIVEN servers whose texts would break a page THEN they are escaped."""
    runs = [build_served(tmp_path / name, words=words, users=(1, 2), seconds=2) for name in ("a", "b")]
    page = served_comparison_page(ComparedServers.of(runs), tmp_path).partition('id="payload"')[0]  # JSON after it
    assert "<script>window.hacked" not in page
    assert "<img src=x" not in page


def test_modelled_servers_are_compared_by_time(root, tmp_path):
    """GIVEN a modelled meter THEN the answer says that its joules are, and no cost is made up."""
    for name in ("a", "b"):
        changed(tmp_path / name, root / "before", sensor={"meter": "modelled", "modelled": True})
    said = answer(tmp_path, "a", "b")
    assert "(MODELLED)" in said.sentence
    assert "time x stated watts" in said.trust
    assert "both-modelled" in said.against.pair.remarks


def test_the_command_writes_a_page_or_json(root, command):
    """GIVEN two servers THEN the page stands where those of runs do, and --json is the comparison alone."""
    done = command("compare", "before", "worse", "--root", ".", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "worse against before" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("comparisons/before-vs-worse.html")
    assert (root / "comparisons" / "before-vs-worse.html").is_file()
    named = command("compare", "worse", "--baseline", "before", "--root", ".", "--json", cwd=root)
    document = json.loads(named.stdout)
    assert document["baseline"] == "before"
    assert document["pairs"][0]["points"][0]["rows"][0]["verdict"] == "more"
    assert "per request at 4 users: shown" in document["answers"][0]["sentence"]


@pytest.mark.parametrize(
    ("other", "limit", "code", "says"),
    [
        ("worse", "5%", 3, "worse: energy per request (requests by 1) is 1"),
        ("worse", "20%", 0, ""),
        ("again", "0%", 0, ""),
        ("prompts", "5%", 1, "cannot be judged against before: other --prompt-tokens"),
        ("worse", "0.05", 2, "write it with %"),
    ],
)
def test_the_gate_is_that_of_runs(root, other, limit, code, says, command):
    """GIVEN a limit THEN more is 3, what cannot be judged 1, bad usage 2, all else 0; and a line says why."""
    done = command(
        "compare", "before", other, "--root", ".", "--no-report", "--fail-if-more-than", limit, cwd=root
    )
    assert done.returncode == code, done.stderr
    assert says in done.stderr


def test_a_server_is_not_compared_with_a_model(root, tmp_path, command):
    """GIVEN a run of a model beside one of a server THEN one line says what to compare."""
    build_run(tmp_path / "model")
    done = command("compare", str(root / "before"), str(tmp_path / "model"), cwd=root)
    assert done.returncode == 2
    assert "is of a server: compare it with another" in done.stderr
