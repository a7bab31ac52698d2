"""The command line's surface, its speed, and one clear line for every bad input."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest
import tiny_models

OPTIONS_OF_RUN = {
    "--benchmark-precision", "--trials", "--budget", "--objective", "--plan-precisions",
    "--workloads", "--levers", "--export", "--export-format",
    "--granularity", "--layers", "--precision", "--weights", "--phase", "--execution", "--sampling", "--device",
    "--gpu-id", "--whole-gpu", "--meter", "--watts", "--sample-interval", "--passes", "--target-interval",
    "--component-budget", "--window", "--methods", "--joint", "--heads", "--adaptive", "--predict", "--stride",
    "--adapter", "--stages", "--batch-size", "--sequence-length", "--data",
    "--text-column", "--label-column", "--max-examples", "--seed", "--trust-remote-code", "--name", "--root",
    "--dry-run", "--quiet", "--json", "--help", "--context-length", "--kv-cache", "--new-tokens", "--device-map",
    "--double-quant", "--compute-dtype", "--skip-modules", "--tensor-parallel", "--resume", "--new-run", "--tag",
    "--note", "--price", "--carbon", "--rate",
}  # fmt: skip


def commands_of_app():
    """Return every command by its name."""
    import typer

    from energyscope.cli.app import app

    group = typer.main.get_command(app)
    return {name: group.get_command(None, name) for name in group.list_commands(None)}


def started(*arguments, cwd, **environment):
    """Run a command as a user does, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "energyscope", *arguments],
        cwd=cwd, env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "200", **environment},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def refused(done, code, *words):
    """Check for an exit code, no traceback, and one line with some words."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert [word for word in words if word not in done.stderr] == []


@pytest.mark.parametrize(
    "words", [("run", "tiny-gpt2", "--batch-size", "many"), ("run", "--batchsize", "1"), ("rnu",)]
)
def test_what_the_command_line_does_not_know_is_one_line(words, tmp_path, command):
    """GIVEN a wrong type, option or command THEN one line says so and which help lists what there is."""
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("energyscope: ")
    assert "--help)" in done.stderr


def test_the_commands_are_these(tmp_path):
    """No command is lost or added by accident."""
    from energyscope.cli.app import COMMANDS

    assert list(COMMANDS) == [
        "demo", "run", "sweep", "benchmark", "serving", "plan", "figures", "export", "report", "compare", "pool",
        "laws", "predict", "prepare", "models", "check-adapter", "examples", "runs", "show", "doctor",
    ]  # fmt: skip


def test_the_list_of_commands_says_what_their_own_help_says():
    """GIVEN the help on all commands, which imports none, THEN each line is the first of the command's help."""
    from energyscope.cli.app import COMMANDS

    assert {name: command.help.splitlines()[0] for name, command in commands_of_app().items()} == COMMANDS


def test_the_options_of_run_are_these(tmp_path, command):
    """No option of `run` is lost or added by accident."""
    words = command("run", "--help", cwd=tmp_path).stdout.split()
    assert {word.strip("│,") for word in words if word.startswith("--")} >= OPTIONS_OF_RUN
    parameters = commands_of_app()["run"].params
    assert {
        option for parameter in parameters for option in parameter.opts if option.startswith("--")
    } == OPTIONS_OF_RUN - {"--help"}


@pytest.mark.parametrize("statement", ["import energyscope", "import energyscope.cli.app"])
def test_importing_is_light(statement, tmp_path):
    """Neither the package nor the command line imports torch, transformers, altair, pandas or numpy."""
    heavy = "{'torch', 'transformers', 'altair', 'pandas', 'numpy'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}; import sys; print({heavy} or '')"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ""


@pytest.mark.alone
def test_help_is_fast(tmp_path):
    """`--help` takes at most twice the work of importing typer and rich: a heavy import takes ten times."""
    ours, bare = ("-m", "energyscope", "--help"), ("-c", "import typer, rich")

    def seconds(arguments):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, check=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime

    # The processor's time, and in turns, so that whatever else the machine does slows both.
    turns = [(seconds(ours), seconds(bare)) for _ in range(9)]
    assert min(ours for ours, _ in turns) <= 2 * min(bare for _, bare in turns)


def test_an_unknown_model_gets_a_suggestion(tmp_path, command):
    """A misspelt model name is refused with what was probably meant."""
    refused(command("run", "tiny-gtp2", cwd=tmp_path), 2, "did you mean 'tiny-gpt2'", "`energyscope models` lists")
    unlike = command("run", "nosuch", cwd=tmp_path)
    refused(unlike, 2, "): `energyscope models` lists")
    assert "gpt" not in unlike.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("content", "words"), [(None, ["weights"]), (b"not a safetensors file", [])])
def test_weights_that_cannot_be_read(tmp_path, command, content, words):
    """A folder without weights, or with broken ones, is refused, and nothing is written."""
    folder = tiny_models.save_model(tmp_path / "model", "gpt2")
    (folder / "model.safetensors").unlink()
    if content is not None:
        (folder / "model.safetensors").write_bytes(content)
    refused(command("run", str(folder), cwd=tmp_path), 1, *words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "detr"}, ["'detr'", "adapter"]),
        (
            {"model_type": "mistral", "architectures": ["MistralForTokenClassification"]},
            ["is no causal", "adapter"],
        ),
        ({"model_type": "my-own"}, ["my-own"]),
    ],
)
def test_a_model_of_another_task(tmp_path, command, change, words):
    """A family without an adapter whose components cannot be found is refused with how to get one."""
    folder = tiny_models.save_model(tmp_path / "model", "gpt2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    refused(command("run", str(folder), cwd=tmp_path), 1, *words)


def test_a_model_that_is_not_cached_without_network(tmp_path):
    """Without network and cache, the line says so."""
    refused(started("run", "gpt2", cwd=tmp_path, HF_HOME=str(tmp_path / "cache")), 1, "random")
    assert not (tmp_path / "runs").exists()


def test_a_gpu_that_is_not_there(tmp_path):
    """`--device cuda` without a GPU is refused with what to do."""
    done = started("run", "tiny-gpt2", "--device", "cuda", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    refused(done, 1, "--device cpu")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "tiny-gpt2", "--granularity", "finest"),
        ("run", "tiny-gpt2", "--precision", "fp6"),
        ("run", "tiny-gpt2", "--passes", "0"),
        ("run", "tiny-gpt2", "--sequence-length", "100000"),
        ("run", "tiny-gpt2", "--name", "a/b"),
        ("run", "tiny-gpt2", "--gpu-id", "1", "--device", "cpu"),
        ("run", "tiny-gpt2", "--whole-gpu", "--device", "cpu"),
        ("run", "tiny-gpt2", "--execution", "cuda-graph", "--device", "cpu"),
        ("run", "tiny-gpt2", "--sampling", "triggered", "--execution", "cuda-graph"),
        ("run", "tiny-gpt2", "--meter", "nvml", "--device", "cpu"),
        ("run", "tiny-gpt2", "--meter", "nvlm"),
        ("run", "tiny-gpt2", "--data", "missing.jsonl"),
        ("run", "tiny-gpt2", "--root", "/proc/runs"),
        ("run", "tiny-gpt2", "--dry-run", "--sequence-length", "100000"),
        ("run", "tiny-gpt2", "--dry-run", "--data", "missing.jsonl"),
        ("run", "tiny-gpt2", "--dry-run", "--name", "a/b"),
        ("compare", "one"),
    ],
)
def test_bad_usage_exits_with_2(arguments, tmp_path, command):
    """Options that cannot be are refused with exit code 2 and one line."""
    refused(command(*arguments, cwd=tmp_path), 2)
    assert not (tmp_path / "runs").exists()


def test_unreadable_runs(tmp_path, command):
    """A run that is missing, damaged or from a newer version is refused with what to do."""
    refused(command("report", "nothing", cwd=tmp_path), 1, "energyscope runs")
    folder = tmp_path / "runs" / "damaged"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{")
    refused(command("report", "damaged", cwd=tmp_path), 1, "cannot be read")
    (folder / "run.json").write_text('{"schema": 99}')
    refused(command("report", "damaged", cwd=tmp_path), 1, "upgrade")


def test_debug_shows_the_traceback(tmp_path, command):
    """`--debug` shows where an error was raised, at either end of the line."""
    for arguments in (("--debug", "run", "gtp2"), ("run", "gtp2", "--debug")):
        done = command(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" in done.stderr


def test_dry_run_measures_nothing(tmp_path, command):
    """`--dry-run` says what would be measured and about how long, and writes nothing."""
    done = command(
        "run", "llama-3.2-1b", "--weights", "random", "--granularity", "fine", "--dry-run", "--json", cwd=tmp_path
    )
    plan = json.loads(done.stdout)
    assert plan["parameters"] == 1_235_814_400
    assert plan["kinds"]["layer"] == 16
    assert plan["profile_seconds"] > 10
    assert plan["stage_seconds"]["profile"] == [plan["profile_seconds"], plan["profile_seconds_most"]]
    assert "ablate" in plan["skipped"]
    assert plan["stages_without_time"] == {}
    assert list(tmp_path.iterdir()) == []


def test_dry_run_says_what_is_measured_in_words(tmp_path, command):
    """GIVEN no --json THEN the plan is sentences: subjects by what they are, windows, time and ablations."""
    arguments = ("--granularity", "fine", "--dry-run", "--device", "cpu", "--heads", "each")
    done = command("run", "tiny-gpt2", *arguments, cwd=tmp_path)
    for words in (
        "25 single components", "6 kinds as means over layers", "overhead between the parts of ",
        "5 windows, about", "264 changes of the model, each compared on the evaluation data",
        "time: benchmark ", ", correlate ", ", report ", "time in all: about ",
    ):  # fmt: skip
        assert words in done.stdout
    assert "time unknown" not in done.stdout
    done = command("run", "llama-3.2-1b", "--device", "cpu", "--dry-run", cwd=tmp_path)
    assert ", not counting benchmark, ablate\n" in done.stdout
    assert "ablate: time unknown (no pass over the data was timed, for which a dry run loads only" in done.stdout
    arguments = ("--sampling", "triggered", "--passes", "2", "--device", "cpu", "--dry-run")
    assert "reads around 50 calls" in command("run", "tiny-gpt2", *arguments, cwd=tmp_path).stdout


def test_models_lists_names_and_adapters(tmp_path, command):
    """`models` names the bundled models, the short names and the adapters."""
    listed = json.loads(command("models", "--json", cwd=tmp_path).stdout)
    names = {entry["name"] for entry in listed["models"]}
    assert {
        "tiny-gpt2",
        "tiny-distilbert",
        "tiny-llama",
        "gpt2",
        "distilbert",
        "llama-3.3-70b",
        "opt-125m",
    } <= names
    assert {entry["name"] for entry in listed["adapters"]} >= {"distilbert", "gpt2", "llama"}


def test_doctor_gives_a_verdict(tmp_path, command):
    """`doctor` ends with a verdict, on a machine without a GPU too."""
    findings = json.loads(command("doctor", "--json", "--device", "cpu", cwd=tmp_path).stdout)
    assert findings["verdict"] == "energy-only-modelled"


def test_the_version_is_the_packages(tmp_path):
    """`--version` prints the installed version."""
    from importlib.metadata import version

    assert started("--version", cwd=tmp_path).stdout.strip() == f"energyscope {version('energyscope-llm')}"
