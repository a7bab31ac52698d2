"""The profile stage measures every component of a real model, and its journal alone gives the same books."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import tiny_models

from energyscope.loading import load_model
from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.stages.profile import ProfileSettings, profile, recover
from energyscope.stages.records import idle_power, passes_of
from energyscope.stages.session import Effort
from energyscope.workloads import profile_inputs

PASSES = 3


@pytest.fixture(scope="module", params=["distilbert", "gpt2", "llama"])
def measured(request, tmp_path_factory):
    """Return a profile of a tiny model of each family, with its journal and its progress."""
    folder = tiny_models.save_model(tmp_path_factory.mktemp("model"), request.param)
    loaded = load_model(str(folder))
    entries, steps = [], []
    with MeterGroup([ModelledMeter(65.0)]) as meter:
        books = profile(
            loaded,
            profile_inputs(loaded, sequence_length=8),
            meter,
            ProfileSettings(granularity="fine", effort=Effort(PASSES, window_s=0.03, budget_s=0.1)),
            journal=entries.append,
            progress=lambda *step: steps.append(step),
        )
    return books, entries, steps


def test_every_component_has_a_row_with_energy(measured):
    """All rows carry energy, time, windows and a grade; the root is the first."""
    rows = measured[0].rows
    assert rows[0].kind == "model"
    assert all(row.energy_mj > 0 and row.time_us > 0 for row in rows)
    assert {row.windows for row in rows[1:]} == {PASSES}
    assert rows[0].windows == PASSES + 1


def test_sub_components_are_means_and_blocks_are_not(measured):
    """At fine granularity only sub-components inside layers are marked as their kind's mean."""
    for row in measured[0].rows:
        assert row.reused == (row.level == "sub-component" and row.layer is not None)


def test_modelled_joules_have_no_static_share(measured):
    """Time x watts cannot be split: static and dynamic energy are unknown, not 0."""
    assert all(row.static_mj is None and row.dynamic_mj is None for row in measured[0].rows)
    assert idle_power(measured[1]) is None


def test_the_model_is_the_anchor_of_every_pass(measured):
    """The whole model is measured before the first pass, between passes and after the last."""
    assert [one["index"] for one in passes_of(measured[1])] == list(range(PASSES + 1))
    assert all(one["anchor_mj"] > 0 for one in passes_of(measured[1]))


def test_subjects_are_shuffled_between_passes(measured):
    """Each pass visits every subject once, in another order."""
    orders = [
        [entry["subject"] for entry in measured[1] if entry.get("pass") == number and "window" in entry]
        for number in range(PASSES)
    ]
    once = [list(dict.fromkeys(order)) for order in orders]  # stalled windows are taken again at the end
    assert Counter(once[0]) == Counter(once[1])
    assert once[0] != once[1]


def test_the_journal_gives_the_same_books(measured):
    """GIVEN only the journal, through JSON, THEN the rows and the closure are the same."""
    again = recover(json.loads(json.dumps(measured[1])))
    assert again.rows == measured[0].rows
    assert again.closure == measured[0].closure


def test_a_journal_cut_short_still_gives_books(measured):
    """GIVEN half of the journal THEN what was measured has energy, and the rest is None with a reason."""
    half = measured[1][: len(measured[1]) // (PASSES + 2)]
    rows = recover(half).rows
    assert rows[0].energy_mj is not None
    missing = [row for row in rows if row.energy_mj is None]
    assert missing
    assert all("not measured" in row.reasons for row in missing)


def test_progress_counts_up_to_its_total(measured):
    """Progress never runs past its total and names what is measured."""
    done = [step[2] for step in measured[2]]
    assert done == sorted(done)
    assert all(one[2] < one[3] for one in measured[2])
    assert done[-1] == measured[2][-1][3] - 1
    assert any("glue" in step[1] for step in measured[2])


def test_a_repeated_window_replaces_the_first(measured):
    """GIVEN a second window of the same subject and pass THEN only it counts."""
    entries = measured[1]
    again = json.loads(json.dumps(next(entry for entry in entries if entry.get("subject") == "node:model")))
    again["window"]["energy_mj"] *= 2
    row = recover([*entries, again]).rows[0]
    assert row.windows == PASSES + 1
    assert row.energy_mj > measured[0].rows[0].energy_mj
