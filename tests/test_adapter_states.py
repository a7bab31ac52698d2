"""Adapters of other packages are looked at in processes of their own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from energyscope import adapter_registry, adapter_states, user_files
from energyscope.errors import ModelError, UsageError
from energyscope.loading.sources import find_model

GOOD = """from energyscope.adapters import Adapter, Checkpoint, Part
adapter = Adapter({name!r}, ({name!r},), "next-token", "layers", (Part("layer", "layers.{{layer}}", "coarse"),),
                  checkpoints={{{name!r} + "-1b": Checkpoint("owner/x")}})
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install packages of one adapter each into a folder of the test."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(user_files.typer, "get_app_dir", lambda _: str(tmp_path / "settings"))

    def add(name: str, code: str, group: str = adapter_registry.GROUP) -> Path:
        metadata = site / f"{name}_adapter-0.3.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-adapter\nVersion: 0.3\n")
        points = f"[{group}]\n{name} = {name}_adapter:adapter\n"
        (metadata / "entry_points.txt").write_text(points)
        file = site / f"{name}_adapter.py"
        file.write_text(code)
        importlib.invalidate_caches()
        adapter_registry.installed.cache_clear()
        return file

    return add


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    adapter_registry.installed.cache_clear()
    yield
    for cached in (adapter_registry.installed, adapter_registry._imported, adapter_registry._log_once):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import sys; sys.exit('no licence')", "exits the process (no licence)"),
        ("import os; os._exit(7)", "its import ended the process (exit code 7)"),
        ("import time; time.sleep(60)", "its import takes more than 2 s"),
        ("raise OSError('broken')", "cannot be imported: OSError: broken"),
        ("import os; os.write(1, b'\\xff\\n'); raise ValueError", "cannot be imported: ValueError"),
        ("adapter = 3", "is not an energyscope.adapters.Adapter"),
    ],
)
def test_a_broken_adapter_is_told_and_harms_no_other(
    install: Install, monkeypatch: pytest.MonkeyPatch, code: str, problem: str
) -> None:
    """GIVEN a package that fails, exits or hangs beside a good one THEN each has its state, and we go on."""
    monkeypatch.setattr(adapter_states, "IMPORT_LIMIT_S", 2.0 if "sleep" in code else 60.0)
    install("bad", code)
    install("good", GOOD.format(name="good"))
    found = adapter_states.states()
    assert problem in (found["bad"].problem or "")
    if "sleep" not in code:  # a busy machine takes more than 2 s for any
        assert found["good"].models == {"good-1b": "owner/x"}
    assert found["gpt2"].problem is None


@pytest.mark.parametrize(
    ("code", "problem"),
    [("import time; time.sleep(60)", "takes more than 2 s"), ("import os; os._exit(7)", "ended the process")],
)
def test_an_adapter_that_never_ends_stops_no_look_up(
    install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: str, problem: str
) -> None:
    """GIVEN a package that hangs or ends the process WHEN a model or it is looked for THEN it is named, once."""
    monkeypatch.setattr(adapter_states, "IMPORT_LIMIT_S", 2.0 if "sleep" in code else 60.0)
    name = "hanging" if "sleep" in code else "ending"
    install(name, code)
    asked: list[str] = []
    inner = adapter_states._asked
    monkeypatch.setattr(adapter_states, "_asked", lambda one, group: asked.append(one) or inner(one, group))
    with pytest.raises(UsageError, match="no model is called 'gpt3'"):
        find_model("gpt3")
    (message,) = caplog.messages
    assert f"'{name}' ({name}-adapter 0.3" in message
    assert problem in message
    with pytest.raises(ModelError, match=problem):
        adapter_registry.load_adapter(name)
    assert asked == [name]


def test_an_adapter_that_was_fine_is_not_asked_again(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a good package THEN the first look-up asks a process of its own, and a later one what was kept."""
    install("fine", GOOD.format(name="fine"))
    asked: list[str] = []
    monkeypatch.setattr(
        adapter_states, "_asked", lambda name, group: asked.append(name) or {"model_types": [name]}
    )
    for _ in range(2):
        assert find_model("fine-1b").source == "owner/x"
        adapter_registry._imported.cache_clear()
        sys.modules.pop("fine_adapter", None)
    assert asked == ["fine"]


def test_states_are_kept_until_something_changes(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN 20 packages looked at once THEN none is imported again, but where its file changes or one asks."""
    files = [install(f"family{number}", GOOD.format(name=f"family{number}")) for number in range(20)]
    asked: list[str] = []

    def answer(name: str, group: str) -> dict[str, object]:
        asked.append(name)
        return {"model_types": [name]}

    monkeypatch.setattr(adapter_states, "_asked", answer)
    assert adapter_states.states()["family3"].model_types == ("family3",)
    assert len(asked) == 20
    adapter_states.states()
    assert len(asked) == 20
    monkeypatch.setattr(adapter_states, "_asked", lambda name, group: asked.append(name) or {"problem": "broken"})
    install("broken", "")
    assert adapter_states.states()["broken"].problem == adapter_states.states()["broken"].problem == "broken"
    assert asked[20:] == ["broken", "broken"]
    del asked[20:]
    files[0].write_text("changed = True\n" + files[0].read_text())
    adapter_states.states()
    assert asked[20:] == ["broken", "family0"]
    adapter_states.states(again=True)
    assert len(asked) == 22 + 21


def test_tables_of_models_have_states_too(install: Install) -> None:
    """GIVEN tables of two packages, one of which exits THEN each has its state, apart from adapters."""
    install("bad", "import os; os._exit(7)", adapter_registry.MODELS)
    code = "from energyscope.adapters import Checkpoint\n"
    code += "adapter = {'new-1b': Checkpoint('owner/new', {}, model_type='new', architecture='NewForCausalLM')}"
    install("good", code, adapter_registry.MODELS)
    tables = adapter_states.states(adapter_registry.MODELS)
    assert tables["bad"].problem == "its import ended the process (exit code 7)"
    assert tables["good"].models == {"new-1b": "owner/new"}
    assert tables["energyscope"].models["opt-125m"] == "facebook/opt-125m"
    assert not {"bad", "good"} & set(adapter_states.states())
