"""Resume: what is done stays, what is lacking is measured, and cells of another board are refused."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyscope.errors import DeviceError, RunError, UsageError
from energyscope.runs import sweeps
from energyscope.runs.method import REVISION
from energyscope.runs.schema import LAWS_JSON
from energyscope.runs.store import load_run
from energyscope.runs.sweeps import (
    LOCK_FILE,
    TABLE_FILE,
    Sweep,
    is_being_measured,
    load_sweep,
    sweep_lock,
    write_sweep,
)
from energyscope.settings.run import RunSettings
from energyscope.stages import resume_sweep as resuming
from energyscope.stages import sweep as module
from energyscope.stages.resume_sweep import preview_resume, resume, settings_in
from energyscope.stages.sweep import SweepSettings, sweep


def settings(root: Path, **options: Any) -> SweepSettings:
    run = RunSettings(
        "tiny-gpt2", root=root, granularity="coarse", layers="kinds", phase="prefill", device="cpu", passes=2,
        component_budget_s=0.05, window_s=0.03,
    )  # fmt: skip
    return SweepSettings(run, **{"lengths": (8,), "batch_sizes": (1, 2, 4), "name": "swept", **options})


def stop_at(monkeypatch: pytest.MonkeyPatch, batch: int, error: type[BaseException], *, begun: bool) -> None:
    """Let the cell of a batch size fail, before or after its run directory is made."""
    real = module.run_loaded

    def stopped(chosen: RunSettings, *rest: Any, **options: Any) -> Any:
        if chosen.batch_size != batch:
            return real(chosen, *rest, **options)
        if begun:
            folder = chosen.root / str(chosen.name)
            folder.mkdir()
            (folder / "left-behind").touch()
        raise error

    monkeypatch.setattr(module, "run_loaded", stopped)


@pytest.fixture(scope="module")
def one_interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was stopped in its second cell, of which a part lies there."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 2, KeyboardInterrupt, begun=True)
        with pytest.raises(KeyboardInterrupt) as caught:
            sweep(settings(root))
    assert f"energyscope sweep --resume {root / 'swept'}" in caught.value.__notes__[0]
    return root / "swept"


@pytest.fixture
def interrupted(one_interrupted: Path, tmp_path: Path) -> Iterator[Path]:
    """That sweep, for a test to go on with: afterwards it is as it was."""
    shutil.copytree(one_interrupted, tmp_path / "before")
    yield one_interrupted
    shutil.rmtree(one_interrupted)
    shutil.copytree(tmp_path / "before", one_interrupted)


def states(made: Sweep) -> list[str]:
    return [cell.state for cell in made.cells]


def test_what_is_lacking_is_measured_and_what_is_done_stays(interrupted: Path) -> None:
    """The finished cell's run is untouched; the half-finished one is made anew, and the waiting one is there."""
    before = (interrupted / "fp32-b1-s8" / "run.json").read_bytes()
    resumed = resume(interrupted)
    assert states(resumed) == ["done"] * 3
    assert (interrupted / "fp32-b1-s8" / "run.json").read_bytes() == before
    assert not (interrupted / "fp32-b2-s8" / "left-behind").exists()
    assert load_run(interrupted / "fp32-b4-s8").document["workload"]["batch_size"] == 4
    assert (interrupted / "sweep.csv").read_text(encoding="utf-8").count(",done,") == 3


def test_an_end_that_was_cut_off_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a sweep with all cells, killed before its table and laws, THEN these are made without a model."""
    made = sweep(settings(tmp_path, batch_sizes=(1,)))
    for name in (TABLE_FILE, LAWS_JSON):
        (made.path / name).unlink()
    monkeypatch.setattr(module, "load", lambda *_: pytest.fail("nothing is to be loaded"))
    assert states(resume(made.path)) == ["done"]
    assert all((made.path / name).is_file() for name in (TABLE_FILE, LAWS_JSON))


def test_a_sweep_of_failures_alone_says_how_to_try_again(tmp_path: Path) -> None:
    """GIVEN cells that all did not fit THEN resume is refused with the option that tries them again."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 1, DeviceError, begun=False)
        with pytest.raises(DeviceError):
            sweep(settings(tmp_path, batch_sizes=(1,)))
    with pytest.raises(RunError, match="--retry tries them again"):
        resume(tmp_path / "swept")
    assert states(resume(tmp_path / "swept", retry=True)) == ["done"]


def test_the_settings_are_read_back_as_they_were(interrupted: Path) -> None:
    """Every cell gets the settings that it would have had, precision ``auto`` as what it had come to mean."""
    [asked] = replace(settings(interrupted.parent), precisions=("fp32",), name=None).subjects()
    read = settings_in(load_sweep(interrupted))
    assert read == asked


def test_failures_are_tried_again_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a cell that did not fit THEN resume leaves it, loads nothing, and `retry` measures it."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 2, DeviceError, begun=True)
        made = sweep(settings(tmp_path))
    assert states(made) == ["done", "does not fit", "done"]
    loads = []
    real = module.load
    monkeypatch.setattr(module, "load", lambda *rest: (loads.append(rest), real(*rest))[1])
    assert states(resume(made.path)) == ["done", "does not fit", "done"]
    assert loads == []
    assert states(resume(made.path, retry=True)) == ["done"] * 3
    assert len(loads) == 1


def test_an_interrupted_resume_can_be_resumed(interrupted: Path) -> None:
    """GIVEN Ctrl-C again, in the last cell, THEN the second one is kept."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 4, KeyboardInterrupt, begun=False)
        with pytest.raises(KeyboardInterrupt):
            resume(interrupted)
    assert states(load_sweep(interrupted)) == ["done", "done", "interrupted"]
    assert states(resume(interrupted)) == ["done"] * 3


@pytest.mark.parametrize(
    ("section", "key", "value", "complaint"),
    [
        ("device", "name", "Another CPU", "on Another CPU, not "),
        ("device", "measured", ["GPU-1234"], "on GPU-1234, not "),
        ("environment", "torch", "1.0", "with torch 1.0, not "),
        ("sensor", "meter", "nvml", "by the meter nvml, not modelled"),
    ],
)
def test_cells_of_another_board_or_software_are_refused(
    interrupted: Path, section: str, key: str, value: Any, complaint: str
) -> None:
    """GIVEN finished cells from elsewhere THEN nothing is removed or measured, and one line says what differs."""
    file = interrupted / "fp32-b1-s8" / "run.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    document[section][key] = value
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError, match=complaint):
        resume(interrupted)
    assert complaint in str(preview_resume(interrupted)[0].stopped)
    assert states(load_sweep(interrupted)) == ["done", "interrupted", "waiting"]
    assert (interrupted / "fp32-b2-s8" / "left-behind").exists()


def test_cells_by_an_older_method_are_refused(interrupted: Path) -> None:
    """GIVEN finished prefills in CUDA graphs of before a change of the method THEN no newer ones are added."""
    file = interrupted / "fp32-b1-s8" / "run.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document.pop("method") == REVISION
    graphs = {**document, "settings": {**document["settings"], "execution": "cuda-graph"}}
    file.write_text(json.dumps(graphs), encoding="utf-8")
    with pytest.raises(UsageError, match=r"by method 0 against 1 \(prefills in CUDA graphs"):
        resume(interrupted)
    file.write_text(json.dumps(document), encoding="utf-8")
    assert states(resume(interrupted)) == ["done"] * 3, "it does not concern eager cells"


def test_a_sweep_that_is_being_measured_is_left_alone(interrupted: Path) -> None:
    """GIVEN another holder THEN resume is refused; once it has gone, by whatever way, it is not."""
    with sweep_lock(interrupted), pytest.raises(RunError, match="by another process"):
        resume(interrupted)
    with sweep_lock(interrupted):
        pass


def test_a_plan_of_a_sweep_that_is_being_measured_opens_no_meter(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN another holder THEN the plan is refused as the sweep would be, and the board is left to that one."""
    monkeypatch.setattr(resuming, "open_meters", lambda *_: pytest.fail("the board is being measured"))
    with sweep_lock(interrupted):
        [plan] = preview_resume(interrupted)
    assert (plan.held, "by another process" in str(plan.stopped)) == (True, True)


def test_whoever_asks_keeps_nobody_from_measuring(interrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a reader that asks whether a sweep is held just when one begins THEN it is waited for."""
    with sweep_lock(interrupted):
        pass
    with (interrupted / LOCK_FILE).open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        monkeypatch.setattr(sweeps.time, "sleep", lambda _: fcntl.flock(asking, fcntl.LOCK_UN))
        with sweep_lock(interrupted):
            assert is_being_measured(interrupted)


def test_a_sweep_that_cannot_be_written_is_one_line(interrupted: Path) -> None:
    """GIVEN a lock file that cannot be opened THEN the refusal says what to do."""
    (interrupted / LOCK_FILE).unlink()
    (interrupted / LOCK_FILE).symlink_to(LOCK_FILE)
    with pytest.raises(RunError, match="cannot be written"):
        resume(interrupted)


def test_broken_settings_are_one_line(interrupted: Path) -> None:
    """GIVEN sweep.json with settings of another version THEN the file is named."""
    made = load_sweep(interrupted)
    for broken in ({}, {**made.settings, "run": {**made.settings["run"], "unheard": 1}}):
        write_sweep(replace(made, settings=broken))
        with pytest.raises(RunError, match=r"settings in .*sweep\.json cannot be read"):
            resume(interrupted)


def test_a_link_in_a_cells_place_is_not_followed(interrupted: Path, tmp_path: Path) -> None:
    """GIVEN a link where a cell is to be made anew THEN what it points to is kept."""
    other = tmp_path / "other"
    (interrupted / "fp32-b2-s8").rename(other)
    (interrupted / "fp32-b2-s8").symlink_to(other)
    with pytest.raises(RunError, match="is a link"):
        resume(interrupted)
    assert (other / "left-behind").exists()


def test_what_would_be_resumed_is_foreseen(interrupted: Path) -> None:
    """GIVEN a sweep of this board THEN its plan has the cells that it lacks, and nothing is done about them."""
    [plan] = preview_resume(interrupted)
    assert ([cell.name for cell in plan.cells], plan.done) == (["fp32-b2-s8", "fp32-b4-s8"], 1)
    assert plan.stopped is None
    assert states(load_sweep(interrupted)) == ["done", "interrupted", "waiting"]
