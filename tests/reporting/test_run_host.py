"""The host's joules on a page, in the terminal and in a comparison: a line, and nothing else changes."""

from __future__ import annotations

import html
import io
import json
import shutil

import pandas as pd
import pytest
from generation_builder import Inference, build_inference
from rich.console import Console
from run_builder import Shape, build_run
from test_golden import words_of

from energyscope.comparison.compare import compare
from energyscope.exporting import collapsed, metrics
from energyscope.format import quantity
from energyscope.reasons import reason
from energyscope.reporting.run.answer import Answer
from energyscope.reporting.run.host import how_read
from energyscope.reporting.run.page import run_page
from energyscope.reporting.run.report import Report
from energyscope.reporting.run.terminal import record, run_tables, show
from energyscope.runs import schema
from energyscope.runs.store import load_run

DOMAINS = {"host_domains": ["package-0", "package-1", "dram"], "host_reason": None, "host_idle_w": 90.0}
PER_TOKEN = {"value": 0.42, "low": 0.41, "high": 0.43}


def add_host(run, path, **sensor):
    """Return a copy of a run, of the same name, whose host drew a tenth of what the device did."""
    copy = path / run.path.name
    shutil.copytree(run.path, copy)
    energy = pd.read_csv(copy / schema.ENERGY_FILE)
    energy["host_energy_mj"] = energy.energy_mj / 10
    energy["host_ci_low_mj"], energy["host_ci_high_mj"] = energy.energy_mj * 0.097, energy.energy_mj * 0.103
    energy["host_quality"] = "B"
    energy.to_csv(copy / schema.ENERGY_FILE, index=False)
    edit(copy / schema.RUN_FILE, lambda document: document["sensor"].update({**DOMAINS, **sensor}))
    if run.generation:
        edit(copy / schema.GENERATION_JSON, lambda document: document.update(
            host={"energy_j": {"value": 54.0}, "joules_per_generated_token": PER_TOKEN}
        ))  # fmt: skip
    return load_run(copy)


def edit(file, change):
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


@pytest.fixture(params=["eager", "graph", "generation"])
def run(request, tmp_path):
    place = tmp_path / "plain" / "run"
    if request.param == "generation":
        return build_inference(place, Inference(layers=2, contexts=(1024,), alternatives=True))
    return build_run(place, Shape(execution="cuda-graph" if request.param == "graph" else "eager"))


@pytest.fixture
def with_host(run, tmp_path):
    return add_host(run, tmp_path / "host")


def shown(run):
    """Return the lines of `energyscope show`, on a terminal as wide as its longest sentence, without the place."""
    console = Console(width=400, file=io.StringIO())
    show(run, console)
    lines = console.file.getvalue().splitlines()
    return [line.replace(str(run.path), "RUN") for line in lines]


def test_the_line_stands_beside_the_totals(with_host):
    """GIVEN a host's joules THEN page and terminal name them, whose they are, the GPU's, and both together."""
    report = Report(with_host)
    device = report.main.energy.value
    (line, *_) = [line for line in shown(with_host) if line.startswith("Host: ")]
    page = html.unescape(words_of(run_page(with_host))).replace("\u00a0", " ")
    assert "(package + DRAM, whole machine) beside the GPU's" in line
    assert line.strip() in page
    assert f"host + device {quantity(device * 1.1, 'mJ')}." in line
    assert "was read at both ends of each window; its joules are in no share, rank or advice" in page


def test_each_generated_token(tmp_path):
    """GIVEN a traced generation THEN the host's joules of a token stand beside the GPU's of whole generations."""
    run = add_host(build_inference(tmp_path / "plain" / "run", Inference(layers=2, contexts=(1024,))), tmp_path)
    line = next(line for line in shown(run) if "a generated token" in line)
    device_mj = 1e3 / run.generation["rates"]["tokens_per_joule"]["value"]
    assert "Host: 420 mJ ± 10 a generated token" in line
    assert f"beside the GPU's {device_mj:,.0f} mJ" in line


def test_no_share_rank_headline_or_advice_depends_on_it(run, with_host):
    """WHEN a run's host is taken out THEN answer, advice, tables, exports and the terminal are the same bytes."""
    assert [line for line in shown(with_host) if not line.startswith("Host: ")] == shown(run)
    plain, beside = (Answer(Report(each)) for each in (run, with_host))
    assert (plain.record(), plain.stats, plain.chips) == (beside.record(), beside.stats, beside.chips)
    assert plain.changes == beside.changes
    tables = [run_tables(each) for each in (run, with_host)]
    for name in tables[0]:
        if name != "settings":
            assert tables[0][name].delimited() == tables[1][name].delimited(), name
    assert json.dumps(record(run)["answer"]) == json.dumps(record(with_host)["answer"])
    assert collapsed.content(run) == collapsed.content(with_host)
    assert metrics.content(run) == metrics.content(with_host)


def test_a_comparison_has_a_line_where_both_have_one(run, with_host, tmp_path):
    """GIVEN a host in both runs THEN its difference is a line of its own, never what is compared; else none."""
    other = add_host(run, tmp_path / "other")
    both, one = compare([with_host, other]), compare([run, other])
    of_both, of_one = ([item.name for item in each.pairs[0].whole] for each in (both, one))
    assert [name for name in of_both if name not in of_one] == ["host, whole machine"]
    assert "host, whole machine" not in one.pairs[0].unmeasured
    assert [(at, item) for _, at, item in both.energies()] == [(at, item) for _, at, item in one.energies()]
    if run.generation:
        assert both.generations[0].rows[-1].name == "host per generated token"
        assert len(both.generations[0].rows) == len(one.generations[0].rows) + 1


def test_where_it_was_not_read_the_page_says_why_once(tmp_path):
    """GIVEN counters for root alone THEN the page says so where it says how it was measured, and nowhere else."""
    run = build_run(tmp_path / "run", sensor={"host_domains": [], "host_reason": "only root may read them"})
    page = words_of(run_page(run))
    assert page.count("The host's joules were not read: only root may read them.") == 1
    assert "Host: " not in page
    assert not [line for line in shown(run) if "ost's" in line]


def test_where_some_is_missing_page_and_terminal_name_the_stage(tmp_path):
    """GIVEN a counter that was lost in one stage THEN the page and `show` say once in which, and why."""
    why = reason("in-stage", stage="generate", why=reason("meter-unusable", error="the counter is gone"))
    run = build_run(tmp_path / "run", sensor={"host_domains": ["package-0"], "host_reason": str(why)})
    text = "Some are missing: generate: the counter is gone."
    assert words_of(run_page(run)).count(text) == 1
    assert [line for line in shown(run) if text in line] == [how_read(Report(run))]


def test_a_run_that_did_not_try_says_nothing(tmp_path):
    """GIVEN a run from before the host was read, or of a modelled meter, THEN no word of it."""
    page = words_of(run_page(build_run(tmp_path / "run")))
    assert "host's joules" not in page
    assert "host's counter" not in page
