"""What tokens, requests and a year of them take in kWh, money and CO2e."""

from __future__ import annotations

import json

import pytest
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run
from served_builder import build_served

from energyscope.reporting.run.budget import budget_table, priced, section
from energyscope.reporting.run.generation import phase_table
from energyscope.reporting.run.report import Report

GIVEN = {"price": 0.3, "carbon": 400, "rate": 2}


@pytest.fixture(scope="module")
def generation(tmp_path_factory):
    """Return a run of a generation with profile and trace."""
    return build_inference(tmp_path_factory.mktemp("generation") / "run", Inference(layers=2, contexts=(1024,)))


def test_units_are_a_million_tokens_and_requests(generation):
    """GIVEN a generation THEN kWh of a million prompt tokens, generated tokens and requests, and no money."""
    report = Report(generation)
    table = budget_table(report)
    named = {row["unit"]: row["kwh"] for row in table.rows}
    assert [column.key for column in table.columns] == ["unit", "kwh"]
    (tokens,) = (kwh for unit, kwh in named.items() if unit.startswith("a million generated tokens at 1,024"))
    (workload,) = (workload for workload in report.workloads if workload.context == 1024)
    assert tokens.value == pytest.approx(workload.energy.value / 1e3 / 3.6e6 * 1e6 / workload.tokens)
    assert tokens.low < tokens.value < tokens.high
    (requests,) = (kwh for unit, kwh in named.items() if unit.startswith("a million requests of "))
    whole = next(row["energy"] for row in phase_table(report).rows if row["part"] == "generation")
    assert requests.value == pytest.approx(whole.value / 1e3 / 3.6e6 * 1e6)


def test_money_and_co2e_are_by_what_the_user_states(generation):
    """GIVEN price, CO2e and requests per second THEN each unit has both, and a year of requests is a row."""
    rows = budget_table(Report(priced(generation, GIVEN))).rows
    for row in rows:
        assert row["money"].value == pytest.approx(0.3 * row["kwh"].value)
        assert row["co2e"].value == pytest.approx(0.4 * row["kwh"].value)
    (year,), (million,) = (
        [row for row in rows if row["unit"].startswith(name)] for name in ("a year", "a million r")
    )
    assert year["kwh"].value == pytest.approx(million["kwh"].value * 2 * 365.25 * 86_400 / 1e6)


def test_a_classifier_has_inputs(tmp_path):
    """GIVEN a forward pass of several inputs THEN a million of them, and a year; without a profile, nothing."""
    run = build_run(tmp_path / "run")
    report = Report(priced(run, {"rate": 1}))
    batch = run.document["workload"]["batch_size"]
    million, year = budget_table(report).rows
    assert million["unit"].startswith("a million inputs of ")
    assert million["kwh"].value == pytest.approx(report.main.energy.value / batch / 1e3 / 3.6e6 * 1e6)
    assert year["unit"].startswith("a year of 1 inputs of ")
    assert section(Report(build_run(tmp_path / "none", Shape(profile=False)))) is None


def test_report_keeps_what_is_stated(tmp_path, command):
    """WHEN a page is rendered with a price THEN it shows money, and so does `show` afterwards."""
    build_run(tmp_path / "runs" / "one")
    command("report", "one", "--price", "0.3", cwd=tmp_path)
    assert json.loads((tmp_path / "runs/one/run.json").read_text(encoding="utf-8"))["settings"]["price"] == 0.3
    shown = command("show", "one", "--table", "budget", cwd=tmp_path)
    assert "money" in shown.stdout
    assert "co2e" not in shown.stdout


@pytest.mark.parametrize("modelled", [False, True])
def test_show_counts_what_is_stated_and_keeps_nothing(tmp_path, command, modelled):
    """WHEN a run is shown with a price THEN it has money, modelled joules are marked, and its file stays."""
    run = build_run(tmp_path / "runs" / "one", Shape(modelled=modelled))
    before = (run.path / "run.json").read_bytes()
    assert "Money" in command("show", "one", "--price", "0.3", cwd=tmp_path).stdout
    assert "Money" not in command("show", "one", cwd=tmp_path).stdout
    names, *rows = (
        line.split("\t")
        for line in command(
            "show", "one", "--carbon", "400", "--table", "budget", cwd=tmp_path
        ).stdout.splitlines()
    )
    assert {"co2e", "co2e_low"} < set(names)
    assert {row[-1] == "MODELLED" for row in rows} == {modelled}
    document = json.loads(command("show", "one", "--rate", "2", "--json", cwd=tmp_path).stdout)
    assert [row["unit"].split()[1] for row in document["budget"]] == ["million", "year"]
    assert (run.path / "run.json").read_bytes() == before


def test_a_run_without_energy_has_no_price(tmp_path, command):
    """WHEN a run of no profile is shown with a price THEN a line says what it lacks."""
    build_run(tmp_path / "runs" / "none", Shape(profile=False))
    done = command("show", "none", "--price", "0.3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "none has no energy for --price" in done.stderr


def test_a_price_beside_another_table_is_refused(tmp_path, command):
    """WHEN a table that has no money is asked for with a price THEN a line says so."""
    build_run(tmp_path / "runs" / "one", Shape(layers=1))
    done = command("show", "one", "--price", "0.3", "--table", "kinds", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "leave out --table kinds" in done.stderr


@pytest.mark.parametrize("name", ["show", "report"])
def test_a_price_of_nothing_is_refused(tmp_path, command, name):
    """WHEN a price is 0 THEN `show` and `report` refuse it as `run` does, and keep nothing."""
    run = build_run(tmp_path / "runs" / "one", Shape(layers=1))
    done = command(name, "one", "--price", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--price must be above 0, not 0" in done.stderr
    assert not (run.path / "report.html").exists()


@pytest.mark.parametrize("name", ["show", "report"])
def test_a_server_has_no_price_of_a_model(tmp_path, command, name):
    """WHEN a server is asked for with a price of models THEN a line says what that is of, and nothing changes."""
    run = build_served(tmp_path / "runs" / "served", users=(1, 2), seconds=2)
    before = (run.path / "run.json").read_bytes()
    done = command(name, "served", "--price", "0.3", cwd=tmp_path)
    assert done.returncode == 2
    assert "are of runs of models" in done.stderr
    assert (run.path / "run.json").read_bytes() == before
