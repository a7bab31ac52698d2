"""Resume of a run: what is finished stays, what is lacking is measured, and changed conditions are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyscope.errors import ModelError, RunError, UsageError
from energyscope.generation.generator import GenerateSettings
from energyscope.runs.locks import write_lock
from energyscope.runs.schema import (
    BEGUN_AGAIN,
    ENERGY_FILE,
    IMPACT_FILE,
    JOURNAL_FILE,
    KEPT_BEFORE,
    REPORT_FILE,
    RUN_FILE,
    SWEEP_FILE,
)
from energyscope.runs.store import Run, RunStore, lacking_stages, load_run, read_document, read_journal
from energyscope.runs.windows import windows_of
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.stages import phases
from energyscope.stages import run as module
from energyscope.stages.candidates import Candidates
from energyscope.stages.registry import STAGES
from energyscope.stages.resume_run import changes, settings_in
from energyscope.stages.run import resume, run
from energyscope.stages.sampling_budget import PREHEAT_S
from energyscope.stages.trials import Trials

OPTIONS: dict[str, Any] = {
    "device": "cpu", "stages": ("generate", "profile", "ablate", "correlate"), "granularity": "coarse",
    "layers": "kinds", "phase": "both", "sequence_length": 8, "context_lengths": (8,), "new_tokens": 4,
    "passes": 2, "component_budget_s": 0.05, "window_s": 0.03, "max_examples": 2, "methods": ("zero",),
    "name": "stopped",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _few_generations() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("energyscope.stages.generate.MODELLED_GENERATIONS_S", 0.3)
        yield


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that failed in the second phase of its profile, after some of that phase's windows."""
    root = tmp_path_factory.mktemp("runs")
    profile, begun = phases.profile, []

    def failing(*args: Any, journal: Any, **options: Any) -> Any:
        begun.append(options["phase_name"])
        if len(begun) < 2:
            return profile(*args, journal=journal, **options)

        def full(entry: Any) -> None:
            journal(entry)
            if "window" in entry:
                raise ModelError("planted")

        return profile(*args, journal=full, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phases, "profile", failing)
        with pytest.raises(ModelError, match="planted"):
            run("tiny-llama", root=root, **OPTIONS)
    return root / "stopped"


@pytest.fixture
def stopped(failed: Path, tmp_path: Path) -> Path:
    """A copy of that run, for a test to go on with."""
    return Path(shutil.copytree(failed, tmp_path / "stopped"))


@pytest.fixture(scope="module")
def resumed(failed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That run, resumed to its end."""
    return resume(shutil.copytree(failed, tmp_path_factory.mktemp("resumed") / "stopped")).path


@pytest.fixture
def done(resumed: Path, tmp_path: Path) -> Path:
    """A copy of the run that was resumed to its end."""
    return Path(shutil.copytree(resumed, tmp_path / "done"))


def shape(done: Run) -> Any:
    """Return what two runs with the same settings have alike: their stages, rows, and columns that are known."""
    assert done.energy is not None
    assert done.impact is not None
    rows = done.energy[["component", "phase", "context_length", "passes"]].astype(str).to_numpy().tolist()
    states = {name: stage["state"] for name, stage in done.document["stages"].items()}
    return states, rows, done.impact[["component", "method"]].to_numpy().tolist(), sorted(done.generation or {})


def test_what_is_finished_stays_and_the_rest_is_measured(stopped: Path, tmp_path: Path) -> None:
    """GIVEN a run that failed in a second phase THEN the result is a whole run's; what was finished is kept."""
    before = read_journal(stopped)
    first = before[-1]["scene"]
    kept = [entry for entry in before if entry["stage"] != "profile" or entry["scene"] != first]
    assert lacking_stages(stopped) == ["profile", "ablate", "correlate"]

    done = resume(stopped)
    assert lacking_stages(done.path) == []
    assert shape(done) == shape(run("tiny-llama", root=tmp_path / "whole", **OPTIONS))
    after = read_journal(stopped)
    assert after[: len(kept)] == kept
    begins = [entry for entry in after if "header" in entry]
    assert sum(entry.get("scene") == first for entry in begins) == 1, "the phase was begun again"
    assert sum(entry["stage"] == "generate" for entry in begins) == 1, "generations were not"
    assert any("taken up again" in note.words for note in map(_reason, done.document["warnings"]))


def _reason(text: str) -> Any:
    from energyscope.reasons import read

    return read(text)


def test_a_finished_run_is_returned_as_it_is(done: Path) -> None:
    """GIVEN a run that was resumed to its end THEN resuming it again measures and writes nothing."""
    before = load_run(done).document
    files = {file.name: file.stat().st_mtime_ns for file in done.iterdir()}
    assert resume(done).document == before
    assert {file.name: file.stat().st_mtime_ns for file in done.iterdir()} == files


@pytest.mark.parametrize("stage", ["correlate", "report"])
def test_any_stage_may_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """GIVEN a run that failed after its ablations, which add to what is known of the data, THEN it goes on."""
    failing = next(each for each in STAGES if each.name == stage)

    def planted(_: Any) -> None:
        raise ModelError("planted")

    stages = [replace(each, run=planted) if each is failing else each for each in STAGES]
    monkeypatch.setattr(module, "STAGES", stages)
    options = {
        **OPTIONS,
        "phase": "prefill",
        "context_lengths": (),
        "stages": ("profile", "ablate", "correlate", "report"),
    }
    with pytest.raises(ModelError, match="planted"):
        run("tiny-llama", root=tmp_path, **options)
    monkeypatch.undo()
    assert lacking_stages(tmp_path / "stopped")[0] == stage
    done = resume(tmp_path / "stopped")
    assert lacking_stages(done.path) == []
    assert (done.path / REPORT_FILE).is_file()


def test_a_page_of_a_part_is_made_again(done: Path) -> None:
    """GIVEN a page that was made of what a run had, or that was lost, THEN resuming makes it."""
    document = read_document(done)
    document["settings"]["stages"].append("report")
    document["stages"]["report"] = {"state": "done", "reason": None, "seconds": None}
    document["stages"]["correlate"]["state"] = "running"
    (done / RUN_FILE).write_text(json.dumps(document))
    (done / REPORT_FILE).write_text("a part")
    assert lacking_stages(done) == ["correlate", "report"]
    resume(done)
    assert len((done / REPORT_FILE).read_text()) > 10_000
    (done / REPORT_FILE).unlink()
    assert lacking_stages(done) == ["report"]
    before = read_journal(done)
    resume(done)
    assert (done / REPORT_FILE).is_file()
    assert read_journal(done) == before, "of a journal that was compressed"


def test_the_table_has_a_phase_that_was_finished_just_before(done: Path) -> None:
    """GIVEN a run that was killed between the end of a phase and its rows THEN they are written."""
    whole = load_run(done).energy
    assert whole is not None
    document = read_document(done)
    document["stages"]["profile"]["state"] = "running"
    (done / RUN_FILE).write_text(json.dumps(document))
    (done / ENERGY_FILE).unlink()
    again = resume(done)
    assert again.energy is not None
    assert again.energy.equals(whole)


def test_the_first_phase_of_a_process_warms_the_board(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a first phase that was finished before THEN the second one begins on a warm board, too."""
    asked: list[float] = []
    profile = phases.profile

    def noting(*args: Any, **options: Any) -> Any:
        asked.append(args[3].sampling_budget.preheat_s)
        return profile(*args, **options)

    monkeypatch.setattr(phases, "profile", noting)
    resume(stopped)
    assert asked == [PREHEAT_S]


def test_a_cell_of_a_sweep_is_left_to_its_sweep(stopped: Path) -> None:
    """GIVEN a run in the folder of a sweep, which holds its state, THEN it is refused with the sweep's command."""
    (stopped.parent / SWEEP_FILE).write_text("{}")
    with pytest.raises(UsageError, match="sweep --resume"):
        resume(stopped)


def test_a_line_that_a_crash_cut_short_is_no_end(stopped: Path) -> None:
    """GIVEN a journal whose last line is cut THEN what comes behind it is read."""
    with (stopped / JOURNAL_FILE).open("a") as journal:
        journal.write('{"stage": "profile", "scene": "pre')
    done = resume(stopped)
    assert lacking_stages(done.path) == []
    assert any(entry["stage"] == "ablate" for entry in read_journal(stopped))


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("environment", "torch", "1.0", "torch"),
        ("model", "weights_digest", "0", "weights digest"),
        ("workload", "evaluation", {"digest": "0"}, "input's evaluation"),
        ("device", "uuid", "GPU-other", "device's uuid"),
    ],
)
def test_changed_conditions_are_refused_by_name(
    stopped: Path, section: str, key: str, value: Any, said: str
) -> None:
    """GIVEN other versions, weights, data or board THEN one line names what changed, and nothing is written."""
    document = read_document(stopped)
    document[section][key] = value
    (stopped / RUN_FILE).write_text(json.dumps(document))
    journal = (stopped / JOURNAL_FILE).read_bytes()
    with pytest.raises(UsageError, match=said):
        resume(stopped)
    assert (stopped / JOURNAL_FILE).read_bytes() == journal
    assert read_document(stopped) == document


def test_a_refused_resume_hides_no_journal(done: Path) -> None:
    """GIVEN a finished run without its page, resumed with other versions, THEN its journal is read as before."""
    document = read_document(done)
    document["settings"]["stages"].append("report")
    document["stages"]["report"]["state"] = "running"
    document["environment"]["torch"] = "1.0"
    (done / RUN_FILE).write_text(json.dumps(document))
    before = read_journal(done)
    with pytest.raises(UsageError, match="torch"):
        resume(done)
    assert before
    assert read_journal(done) == before


def test_only_joules_depend_on_the_board() -> None:
    """GIVEN another board, after another start of the machine THEN what is not measured in joules may go on."""
    common: dict[str, Any] = {"model": {}, "workload": {}, "environment": {"platform": "one"}}
    before = {**common, "device": {"uuid": "GPU-1", "driver": "580"}, "boot": "one"}
    now = {**common, "device": {"uuid": "GPU-2", "driver": "580"}, "boot": "two"}
    assert not list(changes(before, now, joules=False))
    uuid, start = changes(before, now, joules=True)
    assert uuid == "device's uuid (GPU-1, now GPU-2)"
    assert start.startswith("start of the machine")


def test_a_run_that_is_being_measured_is_left_alone(stopped: Path) -> None:
    """GIVEN a process that writes to the run THEN another one does not."""
    with write_lock(stopped), pytest.raises(RunError, match="another process"):
        resume(stopped)


def test_settings_come_back_as_they_were(stopped: Path) -> None:
    """GIVEN what a run keeps of its settings THEN it makes the same ones; what cannot be read is refused."""
    settings = settings_in(read_document(stopped))
    assert json.loads(json.dumps(settings.document())) == read_document(stopped)["settings"]
    with pytest.raises(RunError, match="start a new run"):
        settings_in({"settings": {"model": "x", "granularity": "coarse"}})


def test_entries_before_a_new_begin_do_not_count(stopped: Path) -> None:
    """GIVEN a stage, and a phase, that were begun again THEN only what was measured since then is read."""
    entries = [
        {"stage": "benchmark", "note": 1}, {"stage": "profile", "scene": "a", "note": 1},
        {"stage": "profile", "scene": "b", "note": 1}, {"stage": "benchmark", BEGUN_AGAIN: True},
        {"stage": "profile", "scene": "b", BEGUN_AGAIN: True}, {"stage": "benchmark", "note": 2},
    ]  # fmt: skip
    (stopped / JOURNAL_FILE).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert read_journal(stopped) == [entries[1], entries[5]]


ABLATED: dict[str, Any] = {
    "device": "cpu", "stages": ("ablate",), "granularity": "coarse", "max_examples": 4,
    "methods": ("zero", "mean"), "predict": False, "name": "stopped",
}  # fmt: skip


def stopped_after(number: int, kind: Callable[[Any], Any], root: Path, options: dict[str, Any]) -> Path:
    """A run that was interrupted when so many entries of a kind were in its journal."""
    journal, seen = RunStore.journal, []

    def stopping(store: RunStore, entry: Any) -> None:
        journal(store, entry)
        seen.extend([entry] if kind(entry) else [])
        if len(seen) == number:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunStore, "journal", stopping)
        with pytest.raises(KeyboardInterrupt):
            run("tiny-gpt2", root=root, **options)
    return root / "stopped"


@pytest.fixture(scope="module")
def one_ablation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted in its ablations, when three changes were finished."""
    return stopped_after(3, lambda entry: entry.get("rows"), tmp_path_factory.mktemp("ablation"), ABLATED)


@pytest.fixture(scope="module")
def whole_ablation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run without the interruption."""
    return run("tiny-gpt2", root=tmp_path_factory.mktemp("whole"), **ABLATED).path


@pytest.fixture
def stopped_ablation(one_ablation: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(one_ablation, tmp_path / "stopped"))


def changes_of(path: Path) -> list[tuple[str, str]]:
    rows = [entry["rows"][0] for entry in read_journal(path) if entry.get("rows")]
    return [(row["component"], row["method"]) for row in rows]


def test_ablations_go_on_with_the_changes_that_are_missing(stopped_ablation: Path, whole_ablation: Path) -> None:
    """GIVEN a run that was stopped in its ablations THEN each change is kept once, as in a whole run's table."""
    path = stopped_ablation
    before = read_journal(path)
    resume(path)
    after = read_journal(path)
    assert after[: len(before)] == before
    assert len(changes_of(path)) == len(set(changes_of(path))) > 3
    assert (path / IMPACT_FILE).read_text() == (whole_ablation / IMPACT_FILE).read_text()


@pytest.mark.parametrize("spoilt", ["original", "last change"])
def test_ablations_begin_again_where_the_model_gives_something_else(
    stopped_ablation: Path, whole_ablation: Path, spoilt: str
) -> None:
    """GIVEN another original, or a last change that gives another effect, THEN nothing from before counts."""
    path = stopped_ablation
    lines = [json.loads(line) for line in (path / JOURNAL_FILE).read_text().splitlines()]
    if spoilt == "original":
        next(line for line in lines if "original" in line)["original"] = "0"
    else:
        lines[-1]["rows"][0]["value"] = 7.0
    (path / JOURNAL_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = resume(path)
    assert done.impact is not None
    assert 7.0 not in done.impact["value"].tolist()
    assert (path / IMPACT_FILE).read_text() == (whole_ablation / IMPACT_FILE).read_text()
    assert changes_of(path) == changes_of(whole_ablation)


PROFILED: dict[str, Any] = {
    "device": "cpu", "stages": ("profile",), "granularity": "coarse", "layers": "kinds", "phase": "prefill",
    "sequence_length": 8, "passes": 3, "component_budget_s": 0.05, "window_s": 0.03, "name": "stopped",
}  # fmt: skip


@pytest.fixture(scope="module")
def one_profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted in the last pass of its profile, after the model's window and another one."""
    root = tmp_path_factory.mktemp("profile")
    return stopped_after(2, lambda entry: "window" in entry and entry["pass"] == 2, root, PROFILED)


@pytest.fixture
def stopped_profile(one_profile: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(one_profile, tmp_path / "stopped"))


def test_a_profile_goes_on_after_its_last_whole_pass(stopped_profile: Path, tmp_path: Path) -> None:
    """GIVEN a profile that was stopped in a pass THEN those before it stay, and the rows are a whole run's."""
    path = stopped_profile
    before = read_journal(path)
    kept = [entry for entry in before if entry.get("pass", -1) < 2]
    done = resume(path)
    after = read_journal(path)
    assert after[: len(kept)] == kept
    assert len(kept) > len(before) // 2
    taken = [(entry["subject"], entry["pass"]) for entry in after if "window" in entry]
    for key in {key for key, _ in taken}:
        assert {number for own, number in taken if own == key} >= {0, 1, 2}
    whole = run("tiny-gpt2", root=tmp_path / "whole", **PROFILED)
    columns = ["component", "kind", "layer", "phase"]
    assert done.energy is not None
    assert whole.energy is not None
    assert done.energy[columns].astype(str).equals(whole.energy[columns].astype(str))
    assert len([entry for entry in after if "header" in entry]) == 1


def test_a_profile_of_something_else_begins_again(stopped_profile: Path) -> None:
    """GIVEN whole passes whose header describes another tree THEN none of them counts."""
    path = stopped_profile
    lines = [json.loads(line) for line in (path / JOURNAL_FILE).read_text().splitlines()]
    next(line for line in lines if "header" in line)["header"]["tree"][0]["flops"] = 1.0
    (path / JOURNAL_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    begins = [line["begin_s"] for line in lines if "window" in line]
    resume(path)
    assert min(entry["begin_s"] for entry in read_journal(path) if "window" in entry) > max(begins)


def test_passes_before_one_that_was_cut_off_still_count(stopped: Path) -> None:
    """GIVEN entries that a stage was begun again from a pass on THEN those before it count, and its header."""
    entries = [
        {"stage": "profile", "scene": "a", "header": {}}, {"stage": "profile", "scene": "a", "pass": 0},
        {"stage": "profile", "scene": "a", "pass": 1}, {"stage": "profile", "scene": "b", "pass": 1},
        {"stage": "profile", "scene": "a", BEGUN_AGAIN: True, KEPT_BEFORE: 1},
        {"stage": "profile", "scene": "a", "pass": 1, "again": True},
    ]  # fmt: skip
    (stopped / JOURNAL_FILE).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert read_journal(stopped) == [entries[0], entries[1], entries[3], entries[5]]


BENCHMARKED: dict[str, Any] = {
    "device": "cpu", "stages": ("benchmark",), "sequence_length": 8, "max_examples": 4, "name": "stopped",
    "benchmark": BenchmarkSettings(
        precisions=("fp32", "bf16"), batch_sizes=(1, 2), trials=3, num_iters=4, warmup_steps=1, trial_seconds=0.05
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def one_benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted in its benchmark, when six trials were finished."""
    return stopped_after(6, lambda entry: "row" in entry, tmp_path_factory.mktemp("benchmark"), BENCHMARKED)


@pytest.fixture
def stopped_benchmark(one_benchmark: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(one_benchmark, tmp_path / "stopped"))


def test_a_benchmark_goes_on_after_its_last_whole_block(stopped_benchmark: Path, tmp_path: Path) -> None:
    """GIVEN 6 of 3 x 4 trials THEN the first four stay as they were, and no cell has a trial twice."""
    path = stopped_benchmark
    before = [entry["row"] for entry in read_journal(path) if "row" in entry]
    done = resume(path)
    after = [entry["row"] for entry in read_journal(path) if "row" in entry]
    assert len(before) == 6
    assert len(after) == 12
    assert after[:4] == before[:4]
    assert after[4:6] != before[4:6]
    assert done.trials is not None
    assert not done.trials.duplicated(["precision", "batch_size", "sequence_length", "trial"]).any()
    assert done.benchmark is not None
    assert [model["precision"] for model in done.benchmark["models"]] == ["fp32", "bf16"]
    assert [entry["precision"] for entry in done.benchmark["predictions"]] == ["fp32", "bf16"]
    assert [cell["trials"] for cell in done.benchmark["cells"]] == [3] * 4
    whole = run("tiny-gpt2", root=tmp_path / "whole", **BENCHMARKED)
    assert whole.trials is not None
    key = ["precision", "batch_size", "sequence_length", "trial"]
    assert done.trials[key].to_numpy().tolist() == whole.trials[key].to_numpy().tolist(), "the order of trials"


def test_a_benchmark_of_other_cells_begins_again(stopped_benchmark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a cell that no longer fits when a run is resumed THEN no trial from before counts."""
    path = stopped_benchmark
    before = [entry["row"] for entry in read_journal(path) if "row" in entry]
    fitting = Candidates._cells_of
    monkeypatch.setattr(Candidates, "_cells_of", lambda self, precision: fitting(self, precision)[:1])
    done = resume(path)
    after = [entry["row"] for entry in read_journal(path) if "row" in entry]
    assert done.trials is not None
    assert done.trials["batch_size"].tolist() == [1] * 6
    assert not [row for row in after if row in before]


def test_trials_that_failed_are_measured_when_a_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a benchmark of which every trial failed THEN a resume measures them: the cause may be gone."""

    def failing(*_: Any) -> Any:
        raise ModelError("no memory is left")

    monkeypatch.setattr(Trials, "_run_loop", failing)
    with pytest.raises(ModelError, match="no trial of the benchmark could be measured"):
        run("tiny-gpt2", root=tmp_path, **BENCHMARKED)
    monkeypatch.undo()
    done = resume(tmp_path / "stopped")
    assert done.trials is not None
    assert len(done.trials) == 12
    assert done.benchmark is not None
    assert not [note for note in done.benchmark["notes"] if "no memory" in note]


def test_trials_of_an_older_journal_are_measured_anew(stopped_benchmark: Path) -> None:
    """GIVEN trials whose entries do not say their block THEN none of them counts beside the new ones."""
    path = stopped_benchmark
    lines = [json.loads(line) for line in (path / JOURNAL_FILE).read_text().splitlines()]
    for line in lines:
        line.pop("pass", None)
    (path / JOURNAL_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    resume(path)
    assert len([entry for entry in read_journal(path) if "row" in entry]) == 12


GENERATED: dict[str, Any] = {
    "device": "cpu", "stages": ("generate",), "sequence_length": 8, "new_tokens": 4, "phase": "both",
    "name": "stopped",
}  # fmt: skip


def names_of(path: Path) -> list[str]:
    """Return the names of a run's windows: one that was taken twice has a name that ends with ``.2``."""
    return list(windows_of(read_journal(path)))


@pytest.mark.parametrize(
    ("key", "number"),
    [("phase", 1), ("header", 1), ("step_context", 1), ("generation", 4), ("loop_tokens", 4), ("loop_tokens", 5),
     ("tokens", 2)],
)  # fmt: skip
def test_a_generation_goes_on_with_what_is_missing(tmp_path: Path, key: str, number: int) -> None:
    """GIVEN a run that was stopped anywhere in its generations THEN what was finished stays, and is there once."""
    path = stopped_after(number, lambda entry: key in entry, tmp_path, GENERATED)
    before, windows = read_journal(path), names_of(path)
    assert len([entry for entry in before if key in entry]) == number
    done = resume(path)
    after = read_journal(path)
    assert after[: len(before)] == before
    assert names_of(path)[: len(windows)] == windows
    assert not [name for name in names_of(path) if "." in name]
    assert len([entry for entry in after if "header" in entry]) == 1
    assert len([entry for entry in after if entry.get("phase") == "load"]) == 1
    passes = GenerateSettings.passes
    assert [name for name in names_of(path) if name.startswith("detokenize")] == [
        f"detokenize#{n}" for n in range(passes)
    ]
    loop = [entry for entry in after if "loop_tokens" in entry]
    assert len(loop) == 2 * passes + (number == 5), "a pair that was cut off begins again"
    assert done.generation is not None
    assert len(done.generation["marks"]) == len([entry for entry in after if "generation" in entry])
    assert done.generation["loop"]["windows"] == 2 * passes
    assert all(phase["energy_j"] for phase in done.generation["phases"])


def test_a_whole_trace_is_not_taken_up(tmp_path: Path) -> None:
    """GIVEN a run that was stopped after its trace THEN no generation is added, and its phases stay."""
    path = stopped_after(1, lambda entry: "loop_tokens" in entry, tmp_path, GENERATED)
    before = load_run(path).generation
    done = resume(path).generation
    assert before is not None
    assert done is not None
    assert done["marks"] == before["marks"]
    assert done["phases"][2:4] == before["phases"][2:4]


def test_generations_of_something_else_begin_again(tmp_path: Path) -> None:
    """GIVEN generations whose header says other tokens THEN none of them counts, and the load does."""
    path = stopped_after(2, lambda entry: "generation" in entry, tmp_path, GENERATED)
    lines = [json.loads(line) for line in (path / JOURNAL_FILE).read_text().splitlines()]
    next(line for line in lines if "header" in line)["header"]["new_tokens"] = 5
    (path / JOURNAL_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    load = next(line for line in lines if line.get("phase") == "load")
    last = max(line["generation"]["end_s"] for line in lines if "generation" in line)
    resume(path)
    after = read_journal(path)
    assert min(entry["generation"]["begin_s"] for entry in after if "generation" in entry) > last
    assert [entry for entry in after if entry.get("phase") == "load"] == [load]
    assert len([entry for entry in after if "header" in entry]) == 1
