"""An adapter package from outside: the one in adapters/README.md, built, installed and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Command

README = Path(__file__).parents[2] / "adapters" / "README.md"
NAMED_BLOCK = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
TINY = {
    "vocab_size": 60,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 32,
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the README's package, install it into a folder of its own, and return the folder."""
    source = tmp_path_factory.mktemp("package")
    files = dict(NAMED_BLOCK.findall(README.read_text(encoding="utf-8")))
    assert set(files) == {"energyscope_qwen3.py", "pyproject.toml"}
    for name, content in files.items():
        (source / name).write_text(content, encoding="utf-8")
    target = tmp_path_factory.mktemp("site")
    command = "-m pip install --quiet --no-deps --no-build-isolation --no-index --target".split()  # noqa: SIM905
    subprocess.run([sys.executable, *command, str(target), str(source)], check=True)
    return target


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Qwen3 in a local folder."""
    import transformers

    folder = tmp_path_factory.mktemp("models") / "tiny-qwen3"
    transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**TINY)).save_pretrained(folder)
    return folder


def python(code: str, *arguments: str, path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


MAIN = "from energyscope.cli import main; main()"


def test_readme_adapter_passes_the_checks_that_authors_make(installed: Path, tmp_path: Path) -> None:
    """GIVEN the installed package THEN `energyscope check-adapter` finds nothing wrong with it."""
    done = python(MAIN, "check-adapter", "qwen3", "--json", path=installed, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {check["name"]: check["passed"] for check in json.loads(done.stdout)["checks"]}
    assert set(checks.values()) == {True}


def test_readme_adapter_is_found_and_valid(installed: Path, tmp_path: Path) -> None:
    """GIVEN the installed package THEN its adapter is listed beside ours, and its checkpoint's size is true."""
    code = """if True:
        import json, torch, transformers
        from energyscope.adapter_registry import load_adapter
        from energyscope.components import component_tree
        adapter = load_adapter("qwen3")
        shape = dict(adapter.checkpoints["qwen3-0.6b"].configuration)
        with torch.device("meta"):
            model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**shape))
        tree = component_tree(model, adapter, "fine")
        owned = {id(p) for component in list(tree)[1:] for p in component.module.parameters()}
        count = sum(p.numel() for p in model.parameters())
        print(json.dumps([count, all(id(p) in owned for p in model.parameters())]))
    """
    done = python(code, path=installed, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [596_049_920, True]


def test_models_lists_the_adapter(installed: Path, tmp_path: Path) -> None:
    """WHEN models are listed THEN the package's short name and family are among them."""
    done = python(MAIN, "models", "--json", path=installed, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert "qwen3-0.6b" in {model["name"] for model in listed["models"]}
    assert {"qwen3", "gpt2"} <= {adapter["name"] for adapter in listed["adapters"]}


@pytest.mark.slow
def test_run_measures_the_family(installed: Path, model: Path, tmp_path: Path) -> None:
    """WHEN a model of the package's family is run THEN its components are measured and reported."""
    done = python(
        MAIN, "run", str(model), "--granularity", "fine", "--device", "cpu", "--name", "qwen",
        "--trials", "1", "--benchmark-precision", "fp32,int8",
        "--methods", "zero", "--no-predict", "--joint", "off",
        "--passes", "2", "--window", "0.03", "--component-budget", "0.1", "--max-examples", "8",
        path=installed, folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    table = (tmp_path / "runs" / "qwen" / "per_layer_energy.csv").read_text(encoding="utf-8")
    assert "model.layers.1.mlp.gate_proj,mlp.gate,1," in table
    trials = (tmp_path / "runs" / "qwen" / "benchmark_results.csv").read_text(encoding="utf-8")
    assert len(trials.splitlines()) == 1 + 2
    assert (tmp_path / "runs" / "qwen" / "report.html").stat().st_size > 10_000


def test_without_the_package_components_are_found(model: Path, tmp_path: Path, command: Command) -> None:
    """GIVEN no such package THEN auto serves the model, and finds all that the package's adapter declares."""
    done = command("models", "--explain", str(model), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["adapter"] == "auto"
    paths = {part["path"] for part in document["parts"]}
    assert {"model.layers.{layer}.self_attn.q_norm", "model.layers.{layer}.mlp.gate_proj", "lm_head"} <= paths
