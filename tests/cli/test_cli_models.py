"""`energyscope models --explain`, and a run of a model that no adapter serves."""

from __future__ import annotations

import json
import runpy

import pytest
import tiny_models
import transformers

SIZES = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64, "vocab_size": tiny_models.VOCABULARY,
}  # fmt: skip


@pytest.fixture(scope="module")
def mistral(tmp_path_factory):
    """A folder with the configuration of a tiny Mistral, and nothing else."""
    folder = tmp_path_factory.mktemp("models") / "my-mistral"
    config = transformers.AutoConfig.for_model("mistral", architectures=["MistralForCausalLM"], **SIZES)
    config.save_pretrained(folder)
    return folder


def test_explain_prints_kinds_with_reasons(tmp_path, command, mistral):
    """GIVEN a configuration alone THEN each component has kind, path, granularity and reason."""
    done = command("models", "--explain", str(mistral), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("MistralForCausalLM", "attention.query", "linear named q_proj", "100.00% of", "of a known kind"):
        assert words in done.stdout


def test_explain_as_json(tmp_path, command, mistral):
    """WHEN a machine asks THEN it gets the same as JSON."""
    document = json.loads(command("models", "--explain", str(mistral), "--json", cwd=tmp_path).stdout)
    parts = {part["path"]: part["kind"] for part in document["parts"]}
    assert (document["adapter"], document["layers"], document["in_no_part"]) == ("auto", "model.layers", {})
    assert parts["model.layers.{layer}.mlp.down_proj"] == "mlp.down"


def test_explain_a_short_name_without_an_adapter(tmp_path, command):
    """GIVEN a short name that no adapter serves THEN its true shape is explained without its files."""
    document = json.loads(command("models", "--explain", "opt-125m", "--json", cwd=tmp_path).stdout)
    assert (document["adapter"], document["class"], document["parameters"]) == (
        "auto",
        "OPTForCausalLM",
        125_239_296,
    )


def test_explain_says_which_adapter_a_run_uses(tmp_path, command):
    """GIVEN a model with an adapter THEN what auto finds is shown, and that a run does not use it."""
    assert "a run uses the adapter 'gpt2'" in " ".join(
        command("models", "--explain", "gpt2", cwd=tmp_path).stdout.split()
    )


def test_as_adapter_writes_a_file_once(tmp_path, command, mistral):
    """WHEN it is written THEN it loads; WHEN the file exists THEN nothing is overwritten."""
    arguments = ("models", "--explain", str(mistral), "--as-adapter", "mistral.py")
    assert "written: mistral.py" in command(*arguments, cwd=tmp_path).stdout
    assert runpy.run_path(str(tmp_path / "mistral.py"))["adapter"].problems() == []
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "mistral.py exists" in done.stderr


def test_as_adapter_needs_a_model(tmp_path, command):
    """`--as-adapter` alone is refused."""
    done = command("models", "--as-adapter", "mistral.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "require --explain MODEL" in done.stderr


def test_a_run_without_an_adapter_says_so(tmp_path, command, mistral):
    """WHEN no adapter serves the type THEN the run names auto: a line, a chip at its end, and in run.json."""
    options = ("--weights", "random", "--device", "cpu", "--granularity", "coarse", "--stages", "profile")
    done = command("run", str(mistral), *options, "--passes", "1", "--name", "auto", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "load: no adapter for 'mistral': components were found by structure (auto)" in done.stdout
    assert "\u00b7 auto \u00b7" in " ".join(done.stdout.split())
    document = json.loads((tmp_path / "runs" / "auto" / "run.json").read_text())
    assert document["model"]["adapter"] == "auto"
    assert [note for note in document["warnings"] if note.startswith("found-by-structure")]


def test_in_a_pipe_lists_are_tab_separated(tmp_path, command):
    """GIVEN a pipe THEN models and adapters are lines of cells, which other programs read."""
    lines = command("models", cwd=tmp_path).stdout.splitlines()
    assert lines[0] == "name\tweights"
    assert "tiny-gpt2\tin this package" in lines
    assert any(line.startswith("gpt2\tgpt2\t") for line in lines)
