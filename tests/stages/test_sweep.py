"""A sweep: each cell a run, what they share done once, and cells that fail recorded while the others go on."""

from __future__ import annotations

import csv
import weakref
from pathlib import Path
from typing import Any

import pytest

from energyscope.errors import DeviceError, RunError, UsageError
from energyscope.reasons import reason
from energyscope.runs.store import load_run
from energyscope.runs.sweeps import TABLE_FILE, Sweep, SweepCell, load_sweep, runs_of, write_sweep
from energyscope.settings.run import RunSettings
from energyscope.stages import sweep as module
from energyscope.stages.sweep import SweepSettings, sweep

COMMON: dict[str, Any] = {
    "granularity": "coarse", "layers": "kinds", "phase": "prefill", "device": "cpu", "passes": 2,
    "component_budget_s": 0.05, "window_s": 0.03,
}  # fmt: skip


def settings(root: Path, **options: Any) -> SweepSettings:
    known = {*COMMON, "model", "execution"}
    run = {**COMMON, **{name: options.pop(name) for name in list(options) if name in known}}
    model = run.pop("model", "tiny-gpt2")
    return SweepSettings(RunSettings(model, root=root, **run), **{"lengths": (16, 8), "name": "swept", **options})


def fail_batches(monkeypatch: pytest.MonkeyPatch, batches: set[int], error: BaseException) -> None:
    """Let the cells of some batch sizes fail."""
    real = module.run_loaded

    def run_loaded(chosen: RunSettings, *rest: Any, **options: Any) -> Any:
        if chosen.batch_size in batches:
            raise error
        return real(chosen, *rest, **options)

    monkeypatch.setattr(module, "run_loaded", run_loaded)


@pytest.fixture(scope="module")
def loads() -> list[str]:
    return []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, loads: list[str]) -> Sweep:
    patch = pytest.MonkeyPatch()
    real = module.load

    def counted(chosen: RunSettings, *rest: Any) -> Any:
        loads.append(chosen.precision)
        return real(chosen, *rest)

    patch.setattr(module, "load", counted)
    try:
        return sweep(settings(tmp_path_factory.mktemp("runs"), batch_sizes=(1, 2)))
    finally:
        patch.undo()


def test_each_cell_is_a_run_of_its_own(made: Sweep) -> None:
    """Every length with every batch size is there, smallest first, and its run has its own shape and energy."""
    assert [cell.name for cell in made.cells] == ["fp32-b1-s8", "fp32-b1-s16", "fp32-b2-s8", "fp32-b2-s16"]
    assert {cell.state for cell in made.cells} == {"done"}
    for cell in made.cells:
        run = load_run(made.path / cell.name)
        shape = (run.document["workload"]["batch_size"], run.document["workload"]["sequence_length"])
        assert shape == (cell.batch_size, cell.tokens)
        assert run.energy is not None
        assert run.energy["energy_mj"].iloc[0] > 0
        assert cell.seconds is not None


def test_what_cells_share_is_done_once(made: Sweep, loads: list[str]) -> None:
    """The model is loaded once for a precision, whatever the number of cells."""
    assert loads == ["fp32"]


def test_a_sweep_is_read_back_as_it_was(made: Sweep) -> None:
    """sweep.json holds the cells and how they ended; a folder without it is no sweep."""
    assert load_sweep(made.path).cells == made.cells
    with pytest.raises(RunError, match="energyscope sweep"):
        load_sweep(made.path / "fp32-b1-s8")


def test_a_sweep_stands_for_the_runs_of_its_cells(made: Sweep) -> None:
    """Where runs are asked for, a sweep's name gives all of its cells, and a cell's path that one."""
    assert [run.name for run in runs_of(made.name, made.path.parent)] == [cell.name for cell in made.cells]
    assert [run.name for run in runs_of(str(made.path / "fp32-b2-s8"))] == ["fp32-b2-s8"]
    with pytest.raises(RunError, match="no run"):
        runs_of("nowhere", made.path.parent)
    with pytest.raises(RunError, match="is a sweep: name one of the runs in it"):
        load_run(made.name, made.path.parent)


def test_a_sweep_without_a_measured_cell_is_no_source(tmp_path: Path) -> None:
    """It has nothing to learn from, and the message names the file with the reasons."""
    write_sweep(Sweep(tmp_path, "empty", "tiny-gpt2", "now", None, {}, [SweepCell("fp32", 1, 8, "prefill")]))
    with pytest.raises(RunError, match=r"no cell of the sweep .* was measured: .*sweep\.json"):
        runs_of(str(tmp_path))


def test_the_table_has_a_line_for_each_cell(made: Sweep) -> None:
    """sweep.csv has what the runs' model rows have, and the energy by the tokens of the whole batch."""
    with (made.path / TABLE_FILE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["cell"] for row in rows] == [cell.name for cell in made.cells]
    energy = made.runs()["fp32-b2-s16"].energy
    assert energy is not None
    assert float(rows[3]["energy_mj"]) == pytest.approx(energy["energy_mj"].iloc[0])
    assert float(rows[3]["energy_per_token_mj"]) == pytest.approx(energy["energy_mj"].iloc[0] / 32)


def test_a_cell_that_does_not_fit_is_recorded_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a batch for which no memory is left THEN its cell says so, and the next one is measured."""
    fail_batches(monkeypatch, {2}, DeviceError("no memory is left for the inputs"))
    swept = sweep(settings(tmp_path, lengths=(8,), batch_sizes=(1, 2, 4)))
    assert [cell.state for cell in swept.cells] == ["done", "does not fit", "done"]
    assert swept.cells[1].reason == reason("failed", error="no memory is left for the inputs")
    assert "does not fit" in (swept.path / TABLE_FILE).read_text(encoding="utf-8")
    assert list(swept.runs()) == ["fp32-b1-s8", "fp32-b4-s8"]


def test_a_sweep_of_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN cells that all do not fit THEN the sweep fails with the first reason, and its table keeps them all."""
    fail_batches(monkeypatch, {1}, DeviceError("no memory is left for the inputs"))
    with pytest.raises(DeviceError, match=r"no cell .* \(fp32-b1-s8: no memory is left"):
        sweep(settings(tmp_path))
    assert (tmp_path / "swept" / TABLE_FILE).read_text(encoding="utf-8").count("does not fit") == 2


def test_a_model_that_does_not_fit_leaves_no_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a load that fails with a model half built THEN nothing of it is left for the next precision."""
    real, built, left = module.load, [], []

    class Part:
        """What there is of a model."""

    def half_built() -> None:
        part = Part()
        built.append(weakref.ref(part))
        raise MemoryError

    def refused(chosen: RunSettings, *rest: Any) -> Any:
        if chosen.precision == "bf16":
            left.append(built[0]() is not None)
            return real(chosen, *rest)
        try:
            half_built()
        except MemoryError as error:
            raise DeviceError("cpu ran out of memory") from error

    monkeypatch.setattr(module, "load", refused)
    sweep(settings(tmp_path, lengths=(8,), precisions=("fp32", "bf16")))
    assert left == [False]


def test_an_interrupted_sweep_keeps_its_finished_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN Ctrl-C in the second cell THEN the first is done, the third waits, and a note says where."""
    fail_batches(monkeypatch, {2}, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as caught:
        sweep(settings(tmp_path, lengths=(8,), batch_sizes=(1, 2, 4)))
    assert str(tmp_path / "swept") in caught.value.__notes__[0]
    swept = load_sweep(tmp_path / "swept")
    assert [cell.state for cell in swept.cells] == ["done", "interrupted", "waiting"]


def test_a_precision_that_cannot_be_loaded_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN two precisions of which one does not fit THEN its cells say so, and the other's are measured."""
    real = module.load

    def refused(chosen: RunSettings, *rest: Any) -> Any:
        if chosen.precision == "fp32":
            raise DeviceError("cpu ran out of memory")
        return real(chosen, *rest)

    monkeypatch.setattr(module, "load", refused)
    swept = sweep(settings(tmp_path, lengths=(8,), precisions=("fp32", "bf16")))
    assert [(cell.name, cell.state) for cell in swept.cells] == [("fp32-b1-s8", "failed"), ("bf16-b1-s8", "done")]
    monkeypatch.setattr(module, "load", lambda *_: refused(RunSettings("tiny-gpt2", precision="fp32")))
    with pytest.raises(DeviceError, match="ran out of memory"):
        sweep(settings(tmp_path, lengths=(8,), name="none"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"lengths": ()}, "--sequence-length names nothing"),
        ({"lengths": (8, 100_000)}, "--sequence-length 100000 is too long"),
        ({"lengths": (100_000,), "phase": "decode"}, "--context-length 100000"),
        ({"batch_sizes": (0,)}, "--batch-size must be 1 or more"),
        ({"phase": "both"}, "one phase"),
        ({"executions": ("both",)}, "'both' is not known"),
        ({"executions": ("cuda-graph",)}, "needs an NVIDIA GPU"),
        ({"models": ("tiny-gpt2", "a/tiny-gpt2")}, "both called tiny-gpt2"),
        ({"gpus": ("0",), "engine": "ray"}, "--gpus is for --engine local"),
        ({"engine": "slurm", "slurm": ("partition",)}, "give KEY=VALUE"),
        ({"engine": "local", "each_gpu": True}, "none is visible"),
        ({"precisions": ()}, "--precision names nothing"),
        ({"precisions": ("fp7",)}, "fp7"),
        ({"phase": "decode", "model": "tiny-distilbert"}, "generates no text"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    """A bad option is one line, and leaves no directory."""
    with pytest.raises(UsageError, match=complaint):
        sweep(settings(tmp_path, **options))
    assert not (tmp_path / "swept").exists()


def test_decode_steps_are_swept_over_contexts(tmp_path: Path) -> None:
    """GIVEN --phase decode THEN lengths are contexts, and each cell's run has that one step."""
    swept = sweep(settings(tmp_path, model="tiny-llama", phase="decode", lengths=(8, 24)))
    assert [cell.name for cell in swept.cells] == ["fp32-b1-c8", "fp32-b1-c24"]
    assert [run.scenes[0]["name"] for run in swept.runs().values()] == ["decode@8", "decode@24"]
