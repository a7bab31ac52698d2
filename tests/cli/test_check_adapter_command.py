"""`energyscope check-adapter`: verdicts, exit codes, and what it can be given."""

from __future__ import annotations

import json

import pytest

LLAMA = """from dataclasses import replace
from energyscope_adapters.llama import adapter as llama
adapter = replace(llama, name="mine", parts=tuple(part for part in llama.parts if part.kind != {without!r}))
"""
TINY = {
    "vocab_size": 60, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 32,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(LLAMA.format(without=""))
    (tmp_path / "tiny.json").write_text(json.dumps({"model_type": "llama", **TINY}))
    return tmp_path


def test_a_sound_adapter(folder, command):
    """GIVEN a file and a configuration THEN each check has its verdict, and the exit code is 0."""
    done = command("check-adapter", "mine.py", "--config", "tiny.json", cwd=folder)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert "The adapter 'mine' on a tiny LlamaForCausalLM" in lines[0]
    verdicts = {words[1].strip(): words[2].strip() for line in lines if len(words := line.split("│")) > 2}
    assert {verdicts[name] for name in ("import", "calls", "FLOPs", "replay", "removal", "traces")} == {"passed"}
    assert "no check failed" in lines[-1]


def test_a_faulty_adapter_as_json(folder, command):
    """GIVEN an adapter without a part THEN the exit code is 1, and JSON names the check and the component."""
    (folder / "mine.py").write_text(LLAMA.format(without="mlp.down"))
    done = command("check-adapter", "mine:adapter", "--json", "--config", "tiny.json", cwd=folder)
    document = json.loads(done.stdout)
    assert (done.returncode, document["passed"], document["adapter"]) == (1, False, "mine")
    (wrong,) = [check for check in document["checks"] if check["passed"] is False]
    assert wrong["name"] == "sums"
    assert "model.layers.0.mlp.down_proj" in wrong["detail"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lama"], "no adapter is called 'lama'"),
        (["nowhere.py"], "there is no file nowhere.py"),
        (
            ["nowhere:adapter"],
            "nowhere:adapter cannot be imported: ModuleNotFoundError: No module named",
        ),
        (["empty.py"], "empty.py cannot be imported: AttributeError: module 'empty' has no attribute 'adapter'"),
        (["broken.py"], "broken.py cannot be imported: OSError: broken"),
        (["llama", "--config", "broken.py"], "--config broken.py cannot be read"),
        (["llama", "--config", "list.json"], "--config list.json holds no object"),
        (["llama", "--adapter", "auto"], "--adapter requires a model folder"),
        (["empty"], "empty holds no config.json"),
    ],
)
def test_a_bad_argument(folder, command, words, message):
    """GIVEN no adapter, one that cannot be imported, or no configuration THEN one line says so."""
    (folder / "empty.py").write_text("")
    (folder / "broken.py").write_text("raise OSError('broken')")
    (folder / "list.json").write_text("[]")
    (folder / "empty").mkdir()
    done = command("check-adapter", *words, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1 if words == ["empty"] else 2, "", 1)
    assert message in done.stderr


@pytest.mark.parametrize("options", [[], ["--adapter", "auto"]])
def test_a_model_folder(folder, command, options):
    """GIVEN a large model's configuration THEN the adapter that serves it, or auto's, is checked on a tiny one."""
    (folder / "model").mkdir()
    large = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_key_value_heads": 8}
    (folder / "model" / "config.json").write_text(json.dumps(large))
    done = command("check-adapter", "model", *options, cwd=folder)
    assert done.returncode == 0, done.stdout
    assert f"The adapter '{'auto' if options else 'qwen2'}' on a tiny Qwen2ForCausalLM" in done.stdout
