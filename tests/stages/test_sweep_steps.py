"""One count over all cells: it only grows, its total stays, and it ends at the end."""

from __future__ import annotations

from energyscope.stages.sweep import STAGE, SweepSteps

Said = list[tuple[str, int, int]]


def steps(cells: int) -> tuple[SweepSteps, Said]:
    reported: Said = []

    def keep(stage: str, label: str, done: int, total: int) -> None:
        assert stage == STAGE
        reported.append((label, done, total))

    return SweepSteps(keep, cells), reported


def test_windows_of_all_cells_are_one_count() -> None:
    """GIVEN two cells of ten windows, one taking five more, THEN the count grows to 20 and the total stays 20."""
    sweep_steps, reported = steps(2)
    sweep_steps.loading("bf16", 2)
    for name, total in (("bf16-b1-s8", 10), ("bf16-b1-s16", 15)):
        sweep_steps.begin(name)
        for done in range(total):
            sweep_steps.step("profile", "mlp", done, 10 if done < 5 else total)
        sweep_steps.end()
    counted = [(done, total) for _, done, total in reported if total > 1]
    assert [done for done, _ in counted] == sorted(done for done, _ in counted)
    assert {total for _, total in counted} == {20}
    assert counted[-1] == (20, 20)
    assert reported[0] == ("loading in bf16 for 2 cells", 0, 1)
    assert reported[-1][0] == "2/2 bf16-b1-s16"


def test_cells_that_fail_or_are_not_tried_are_behind() -> None:
    """GIVEN a first cell that is done, one that fails at once and a precision that fails THEN all are counted."""
    sweep_steps, reported = steps(4)
    sweep_steps.begin("bf16-b1-s8")
    sweep_steps.step("profile", "mlp", 5, 10)
    sweep_steps.end()
    sweep_steps.begin("bf16-b1-s16")
    sweep_steps.end()
    assert reported[-1][1:] == (20, 40)
    sweep_steps.loading("nf4", 1)
    sweep_steps.skip(1)
    sweep_steps.begin("fp32-b1-s8")
    assert reported[-1] == ("4/4 fp32-b1-s8", 30, 40)
    sweep_steps.end()
    assert reported[-1][1:] == (40, 40)
