"""Costs of what a server does, from its answers and the counter alone: a simulated server has known ones."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import served_builder
from simulated_server import SimulatedServer

from energyscope.metering.ticks import Ticks
from energyscope.serving.amounts import amounts_of
from energyscope.serving.document import Measured, serving_document
from energyscope.serving.energy import fit_serving
from energyscope.serving.requests import Answer, Load, Served, Shape
from energyscope.settings.serving import ServingSettings


def measured(server: SimulatedServer, **options: Any) -> list[Measured]:
    return served_builder.measured(server, ServingSettings.of(served_builder.URL, **options))


@pytest.mark.parametrize(("late_s", "rates"), [(0.0, ()), (0.08, ()), (0.0, ("2", "8"))])
def test_costs_are_found(late_s: float, rates: tuple[str, ...]) -> None:
    """GIVEN a counter that may be late THEN each cost is within 5 % of the true one (with its active time)."""
    server = SimulatedServer(late_s=late_s)
    document, _ = serving_document(measured(server, rates=rates))
    costs = {cost["cause"]: cost["value"] for cost in document["costs"]}
    true = {
        "time": server.time,
        "requests": server.requests + 0.004 * server.active,  # a prompt takes 4 ms, and 40 us a token
        "prompt": server.prompt + 4e-5 * server.active,
        "steps": server.steps + 0.006 * server.active,
        "tokens": server.tokens + 5e-5 * server.active,
        "context": server.context,
    }
    assert costs == pytest.approx(true, rel=0.05)


def test_tokens_of_a_phase_cost_what_they_do() -> None:
    """GIVEN loads of prompts and of answers THEN a token costs what the server draws for it beyond idle power."""
    server = SimulatedServer()
    document, _ = serving_document(measured(server))
    for phase in document["phases"]:
        if phase["phase"] == "prompt":
            start = (server.requests + 0.004 * server.active) / phase["prompt_tokens"]
            true = start + server.prompt + 4e-5 * server.active
        else:
            step = (server.steps + 0.006 * server.active) / phase["together"]
            context = server.context * phase["context"] / 1e3
            true = step + server.tokens + 5e-5 * server.active + context
        assert phase["value"] == pytest.approx(true, rel=0.03), phase["load"]
    assert document["idle_w"]["value"] == pytest.approx(server.time, rel=0.005)
    assert document["idle_w"]["low"] < document["idle_w"]["value"] < document["idle_w"]["high"]


def test_work_of_a_request_alone_is_that_of_its_tokens() -> None:
    """GIVEN one user THEN work is what its prompt and its steps draw beyond idle power."""
    server = SimulatedServer()
    _, rows = serving_document(measured(server))
    (row,) = (row for row in rows if row.kind == "request" and row.users == 1)
    prompt = server.requests + 0.004 * server.active + 512 * (server.prompt + 4e-5 * server.active)
    step = server.steps + server.tokens + 0.00605 * server.active + server.context * (512 + 64) / 1e3
    assert row.work_j == pytest.approx(prompt + 127 * step, rel=0.02)


def test_loads_in_which_requests_failed_tell_nothing_of_tokens() -> None:
    """GIVEN failures in a load of prompts THEN it has no phase: what was done for them is not known."""
    parts = measured(SimulatedServer(), seconds=5, users=(1, 4))
    broken = [with_failures(part) if part.served.load.name == "prompts of 256 by 4" else part for part in parts]
    names = [{phase["load"] for phase in serving_document(each)[0]["phases"]} for each in (parts, broken)]
    assert names[0] - names[1] == {"prompts of 256 by 4"}


def with_failures(part: Measured) -> Measured:
    answers = [
        replace(answer, error="it broke") if answer.number % 3 == 0 else answer for answer in part.served.answers
    ]
    return replace(part, served=replace(part.served, answers=answers))


def test_requests_of_other_shapes_are_predicted() -> None:
    """GIVEN loads that nothing was fitted to THEN their energy is predicted within 1 %."""
    document, _ = serving_document(measured(SimulatedServer()))
    assert len(document["held_out"]) == 4
    assert max(abs(part["error"]) for part in document["held_out"]) < 0.01


def test_an_engine_that_waits_has_a_power_of_its_own() -> None:
    """GIVEN an engine that has requests and often does nothing THEN active seconds cost what they do."""
    server = SimulatedServer(active=60.0)
    rng = random.Random(0)
    loads = [part.served for part in measured(server, seconds=4)]
    for number, wait_s in enumerate((0.02, 0.05, 0.1, 0.2)):
        since_s, answers = server.now_s, []
        while server.now_s < since_s + 6:
            sent_s = server.now_s
            server._go_on(server.now_s + wait_s * rng.uniform(0.9, 1.1))
            server._compute({"prompt": 64, "chunks": []})
            answers.append(Answer(f"waits {number}", len(answers), 1, 64, sent_s, sent_s, server.now_s,
                                  (server.now_s,), prompt_tokens=64, new_tokens=1))  # fmt: skip
        load = Load(f"waits {number}", "prompt", 6.0, (Shape(64, 1),), users=1)
        loads.append(Served(load, since_s, server.now_s, answers))
    fit = fit_serving([server.ticks()], loads)
    assert fit is not None
    assert "active" in fit.causes
    assert fit.costs()["active"].value == pytest.approx(60.0, rel=0.15)


def test_steps_are_counted() -> None:
    """GIVEN many users THEN their texts tell how many decode steps the server took, within 0.1 %."""
    server = SimulatedServer()
    load = server.serve(Load("answers", "answer", 5.0, (Shape(16, 100), Shape(300, 40)), users=7, ramp_s=0.5))
    steps = {text for answer in load.answers for text in answer.chunks_s[1:]}
    counted = amounts_of([load]).between(np.array([load.begin_s, load.end_s]), ("steps",))[0, 0]
    assert counted == pytest.approx(len(steps), rel=0.001)


def test_a_request_costs_less_among_others_and_its_idle_share_is_told_apart() -> None:
    """GIVEN 1 to 32 users THEN a request's energy falls, and work and idle share add up to it."""
    _, rows = serving_document(measured(SimulatedServer()))
    curve = sorted((row for row in rows if row.kind == "request"), key=lambda row: row.users or 0)
    energies = [row.request_j for row in curve]
    assert energies == sorted(energies, reverse=True)
    assert energies[0] > 5 * energies[-1]
    for row in curve:
        assert row.work_j + row.idle_j == pytest.approx(row.request_j)
        assert row.work_low_j <= row.work_j <= row.work_high_j
        assert row.request_low_j <= row.request_j <= row.request_high_j
        assert row.quality in {"A", "B", "C"}


def in_pieces(load: Served, tokens: int) -> Served:
    """Return a load whose texts brought several tokens each."""
    answers = [
        replace(answer, chunks_s=tuple(answer.chunks_s[tokens - 1 :: tokens]))
        if answer.new_tokens > tokens
        else answer
        for answer in load.answers
    ]
    return replace(load, answers=answers)


def test_texts_of_several_tokens_cost_no_less() -> None:
    """GIVEN a server that sends 8 tokens at once THEN times and energies of a token are about the same."""
    parts = measured(SimulatedServer())
    pieces = [replace(part, served=in_pieces(part.served, 8)) for part in parts]
    (one, rows), (other, rough) = serving_document(parts), serving_document(pieces)
    for phase, again in zip(one["phases"], other["phases"], strict=True):
        assert again["value"] == pytest.approx(phase["value"], rel=0.1)
    for row, again in zip(rows, rough, strict=True):
        if row.kind == "request":
            assert again.tpot_p50_s == pytest.approx(row.tpot_p50_s, rel=0.05)
            assert "texts-of-many-tokens" in again.reasons


def test_boards_share_the_noise_of_requests() -> None:
    """GIVEN eight boards that draw the same THEN the interval of a request is relatively as wide as of one."""
    parts = measured(SimulatedServer(), seconds=5, users=(1, 4))
    _, rows = serving_document(parts)
    _, eight = serving_document([replace(part, ticks=part.ticks * 8) for part in parts])
    for row, boards in zip(rows, eight, strict=True):
        if row.request_j:
            assert boards.request_high_j / boards.request_j == pytest.approx(row.request_high_j / row.request_j)


def test_a_server_slower_than_requests_arrive_is_told_of() -> None:
    """GIVEN requests that pile up THEN the row says so; not where they are answered in time."""
    load = Load(
        "requests at 10 per second", "request", 10.0, (Shape(8, 8),) * 100, arrivals_s=tuple(np.arange(100) / 10)
    )
    ticks = (SimulatedServer(pieces=[(90.0, 200.0, 1e4)]).ticks(),)
    for seconds, said in ((0.1, False), (0.5, True)):  # of a request, one after the other
        ends = [100 + max(n / 10, seconds * n) + seconds for n in range(100)]
        answers = [
            Answer(load.name, n, 8, 8, 100 + n / 10, 100 + n / 10, end, (end,), prompt_tokens=8, new_tokens=1)
            for n, end in enumerate(ends)
        ]
        _, (row,) = serving_document([Measured(Served(load, 100.0, max(ends), answers), ticks)])
        assert ("slower-than-arrivals" in row.reasons) == said


def test_a_load_that_failed_has_no_energy() -> None:
    """GIVEN requests of which none was answered THEN there is a reason, and no number."""
    server = SimulatedServer()
    pause = server.serve(Load("pause", "pause", 4.0))
    load = Load("requests by 1", "request", 4.0, (Shape(8, 8),), users=1)
    refused = Answer(load.name, 0, 8, 8, 101.0, 101.0, 101.1, error="429 Too Many Requests")
    part = Measured(Served(load, pause.begin_s, pause.end_s, [refused]), (server.ticks(),))
    document, (row,) = serving_document([part])
    assert (row.requests, row.failed, row.request_j, row.quality) == (0, 1, None, "invalid")
    assert row.reasons == "no-answers"
    assert document["costs"] == []
    assert document["notes"] == ["costs-not-separable"]


def test_a_counter_that_was_reset_gives_no_energy() -> None:
    """GIVEN a reset in the middle of a load THEN its row says nothing of energy, and others do."""
    server = SimulatedServer()
    parts = measured(server, seconds=5, users=(1, 4))
    spoilt = next(part for part in parts if part.served.load.name == "requests by 4")
    middle = (spoilt.served.begin_s + spoilt.served.end_s) / 2

    def cut(ticks: Ticks) -> Ticks:
        fallen = np.where(ticks.time_s > middle, ticks.energy_mj - ticks.energy_mj[0], ticks.energy_mj)
        return Ticks(ticks.before_s, ticks.after_s, fallen)

    _, rows = serving_document(
        [Measured(part.served, (cut(part.ticks[0]),)) if part is spoilt else part for part in parts]
    )
    assert next(row for row in rows if row.load == "requests by 4").request_j is None
    assert next(row for row in rows if row.load == "requests by 1").request_j is not None


def test_what_is_kept_is_read_back_as_it_was() -> None:
    """GIVEN the journal's lines THEN the document made of them is the same."""
    parts = measured(SimulatedServer(), seconds=5, users=(1, 4))
    again = [Measured.of(part.entry()) for part in parts]
    assert serving_document(again) == serving_document(parts)


def test_several_boards_add_up() -> None:
    """GIVEN two boards that draw the same THEN costs and energies are twice those of one."""
    parts = measured(SimulatedServer(), seconds=5, users=(1, 4))
    one, rows = serving_document(parts)
    two, doubled = serving_document([Measured(part.served, part.ticks * 2) for part in parts])
    assert [cost["value"] for cost in two["costs"]] == pytest.approx([2 * cost["value"] for cost in one["costs"]])
    for row, both in zip(rows, doubled, strict=True):
        assert both.request_j == pytest.approx(2 * row.request_j)
