"""A lower power limit is proposed where a load is at the limit or slowed by memory; it is never set."""

from __future__ import annotations

import pytest
from generation_builder import Inference, build_inference

from energyscope.reporting.run import changes
from energyscope.reporting.run.power_limit import lower_limit, lower_limit_sentence
from energyscope.reporting.run.report import Report
from energyscope.runs.schema import ALTERNATIVES_JSON
from energyscope.runs.store import RunStore, load_run

BOARD = {
    "power_limit_w": 700.0, "default_power_limit_w": 700.0, "min_power_limit_w": 200.0, "uuid": "GPU-aaaa",
    "mig": False,
}  # fmt: skip


def report_of(path, power_w=690.0, at_limit=True, limited_by=None, **board):
    """Return a run whose own setting of decoding ran so."""
    run = build_inference(path, Inference(layers=2), device={**BOARD, **board})
    document = run.alternatives
    base = next(row for row in document["rows"] if (row["what"], row["phase"]) == ("base", "decode"))
    base |= {"power_w": {"value": power_w, "low": None, "high": None}}
    base |= {"at_power_limit": at_limit, "limited_by": limited_by}
    RunStore.open(path).write_json(ALTERNATIVES_JSON, document)
    return Report(load_run(path))


def test_a_load_at_the_limit_is_told_what_to_try(tmp_path):
    """GIVEN decoding at the limit of 700 W THEN the command, how to go back and how to measure it, no saving."""
    report = report_of(tmp_path / "run")
    sentence = lower_limit_sentence(report)
    assert sentence == (
        "Decoding ran at the board's power limit of 700 W, so a lower one may save energy. That was not measured "
        "here; energyscope sweep --power-limit measures it. As root, nvidia-smi -i GPU-aaaa -pl 550 sets one to "
        "try (the board allows 200 W and more), and -pl 700 the present one again. Run this again with it: "
        "energyscope compare tells what it saves."
    )
    assert changes.section(report).data["power_limit"] == sentence


def test_a_load_that_memory_slows_is_told_so(tmp_path):
    """GIVEN decoding at 420 W that memory slows THEN 330 W is proposed, for that reason."""
    report = report_of(tmp_path / "run", 420.0, at_limit=False, limited_by="memory")
    assert lower_limit(report).try_w == 330.0
    assert lower_limit_sentence(report).startswith(
        "Memory sets the pace of decoding, at 420 W, so lower clocks may cost little time. That was not"
    )


def test_no_limit_below_what_the_board_allows_is_proposed(tmp_path):
    """GIVEN 240 W at a board that allows 200 W THEN 200 W is proposed; of 190 W nothing."""
    assert lower_limit(report_of(tmp_path / "a", 240.0, limited_by="memory")).try_w == 200.0
    assert lower_limit(report_of(tmp_path / "b", 190.0, limited_by="memory")) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"at_limit": False}, {"at_limit": None}, {"at_limit": False, "limited_by": "tensor cores"},
        {"power_w": 300.0}, {"spread": ["GPU-aaaa", "GPU-bbbb"]},
        {"power_limit_w": 500.0}, {"min_power_limit_w": None}, {"mig": True}, {"uuid": None},
    ],
)  # fmt: skip
def test_without_cause_nothing_is_proposed(tmp_path, changed):
    """GIVEN power to spare, a limit lowered already, a MIG slice, or a board that is silent THEN no sentence."""
    assert lower_limit_sentence(report_of(tmp_path / "run", **changed)) == ""


def test_modelled_joules_propose_nothing(tmp_path):
    """GIVEN no sensor THEN no sentence."""
    run = build_inference(tmp_path / "run", Inference(layers=2, modelled=True), device=BOARD)
    assert lower_limit(Report(run)) is None
