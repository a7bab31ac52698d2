"""Which adapters are found, and which one serves a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_adapters import MINIMAL

from energyscope import adapter_registry as registry
from energyscope import user_files
from energyscope.adapters import Adapter, Checkpoint
from energyscope.errors import ModelError, UsageError

Register = Callable[..., None]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Register]:
    """Let a test decide which entry points are installed beside our own, and what they lead to."""
    monkeypatch.setattr(user_files.typer, "get_app_dir", lambda _: str(tmp_path))
    groups = (registry.GROUP, registry.MODELS)
    own = [entry.point for group in groups for entry in registry.installed(group).values() if entry.own]
    caches = registry.installed, registry._imported, registry._log_once

    def register(*points: EntryPoint, without_own: bool = False, **values: Any) -> None:
        monkeypatch.setitem(sys.modules, "planted", SimpleNamespace(**values))
        known = [*points, *([] if without_own else own)]
        monkeypatch.setattr(registry, "entry_points", lambda group: [one for one in known if one.group == group])
        for cached in caches:
            cached.cache_clear()

    yield register
    for cached in caches:
        cached.cache_clear()


def point(name: str, value: str, package: str = "other-adapters", group: str = registry.GROUP) -> EntryPoint:
    found = EntryPoint(name, value, group)
    return found._for(SimpleNamespace(name=package, version="1.2"))


def serving(name: str, *model_types: str, **more: Any) -> Adapter:
    return replace(MINIMAL, name=name, model_types=model_types, **more)


def test_shipped_adapters_are_found_as_entry_points() -> None:
    """WHEN the package is installed THEN its adapters are found like anybody else's, with their package."""
    own = {name: entry for name, entry in registry.installed().items() if entry.own}
    assert {"distilbert", "gpt2", "llama"} <= set(own)
    assert own["gpt2"].origin.startswith("energyscope-llm ")


def test_shipped_adapters_are_valid_and_named_as_registered() -> None:
    """Every adapter's own name is its entry point's, and its declaration has no problem."""
    for name in registry.installed():
        adapter = registry.load_adapter(name)
        assert adapter.name == name
        assert adapter.problems() == []


def test_shipped_adapters_load_without_torch() -> None:
    """WHEN all adapters are imported THEN torch and transformers are not."""
    code = (
        "import sys; from energyscope.adapter_registry import own_adapters; own_adapters();"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_unknown_adapter_suggests_the_nearest() -> None:
    """WHEN a name is mistyped THEN the error suggests the right one."""
    with pytest.raises(UsageError, match="did you mean 'gpt2'"):
        registry.load_adapter("gtp2")


def exits() -> None:
    sys.exit("no licence")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("no_such_module:adapter", "cannot be imported: ModuleNotFoundError: No module named"),
        ("math:pi", "is not an energyscope.adapters.Adapter"),
        ("planted:wrong", "is not valid: task: 'x' is unknown"),
        ("planted:other", "is not valid: name: it is 'other', and the entry point's is 'broken'"),
    ],
)
def test_a_broken_adapter_is_one_clear_error(registered: Register, value: str, complaint: str) -> None:
    """GIVEN an entry point that does not lead to an adapter THEN asking for it names its package, and why."""
    registered(point("broken", value), wrong=serving("broken", "new", task="x"), other=serving("other", "new"))
    with pytest.raises(ModelError, match=r"'broken' \(other-adapters 1.2, .*" + complaint):
        registry.load_adapter("broken")


def test_an_import_that_exits_is_an_error(registered: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a package whose import calls sys.exit THEN energyscope goes on, and says so."""
    monkeypatch.setattr(EntryPoint, "load", lambda _: exits())
    registered(point("exiting", "planted:adapter"))
    with pytest.raises(ModelError, match=r"exits the process \(no licence\)"):
        registry.load_adapter("exiting")


def test_a_broken_adapter_costs_no_other_model(registered: Register, caplog: pytest.LogCaptureFixture) -> None:
    """GIVEN a broken package and a good one THEN it is not imported for our models, and else named and skipped."""
    registered(
        point("a-broken", "no_such_module:adapter"), point("good", "planted:good"), good=serving("good", "new")
    )
    assert registry.adapter_for("gpt2").name == "gpt2"
    assert caplog.messages == []
    assert registry.adapter_for("new").name == "good"
    assert registry.adapter_for("new").name == "good"
    (message,) = caplog.messages
    assert "'a-broken' (other-adapters 1.2" in message
    assert message.endswith("(skipped)")


def test_a_models_own_adapter_is_imported_first(registered: Register) -> None:
    """GIVEN an adapter named like a model THEN it comes before others, which may be slow to import."""
    registered(
        point("a", "planted:a"), point("new", "planted:new"), a=serving("a", "x"), new=serving("new", "new")
    )
    assert next(iter(registry.other_adapters("new-0.6b"))).name == "new"


def test_two_packages_with_one_name_break_only_that_name(registered: Register) -> None:
    """GIVEN two packages with one adapter name THEN neither wins, and all others work; ours keeps its name."""
    registered(
        point("same", "one:adapter", "one"), point("same", "two:adapter", "two"), point("gpt2", "one:gpt2", "one")
    )
    with pytest.raises(ModelError, match=r"the adapter name 'same' is used by one 1\.2 and two 1\.2"):
        registry.load_adapter("same")
    assert registry.installed()["gpt2"].rivals == ("one 1.2",)
    assert registry.load_adapter("gpt2").model_types == ("gpt2",)


def test_a_model_type_of_ours_is_taken_over_only_by_name(registered: Register) -> None:
    """GIVEN another package's adapter for GPT-2 THEN ours serves it, unless the other is named."""
    registered(point("mine", "planted:mine"), mine=serving("mine", "gpt2"))
    assert registry.adapter_for("gpt2").name == "gpt2"
    assert registry.adapter_for("gpt2", name="mine").name == "mine"
    with pytest.raises(UsageError, match="--adapter mine serves gpt2, and this model is of type 'llama'"):
        registry.adapter_for("llama", name="mine")


def test_two_others_for_one_model_type_are_refused(registered: Register) -> None:
    """GIVEN two adapters of other packages that serve one type THEN one must be named."""
    registered(point("a", "planted:a"), point("b", "planted:b"), a=serving("a", "new"), b=serving("b", "new"))
    with pytest.raises(ModelError, match="a and b both serve model type 'new': choose one by --adapter NAME"):
        registry.adapter_for("new")
    assert registry.adapter_for("new", name="b").name == "b"


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("GPT2ForSequenceClassification", "classes"),
        ("GPT2LMHeadModel", "gpt2"),
        ("GPT2Model", "gpt2"),
        (None, "gpt2"),
    ],
)
def test_the_task_is_part_of_the_match(registered: Register, architecture: str | None, name: str) -> None:
    """GIVEN an adapter for GPT-2 as a classifier THEN it serves a model with that head, and ours all others."""
    registered(point("classes", "planted:classes"), classes=serving("classes", "gpt2", task="classification"))
    assert registry.adapter_for("gpt2", (architecture,) if architecture else ()).name == name


def test_model_type_without_adapter_lists_the_known_ones() -> None:
    """WHEN no adapter serves a model THEN the error says which are served and what to do."""
    with pytest.raises(ModelError, match=r"'mamba' \(known: .*gpt2.*adapters/README.md"):
        registry.adapter_for("mamba")


NEW = Checkpoint("owner/new", {"hidden_size": 8}, model_type="new", architecture="NewForCausalLM")


def table(name: str, value: str) -> EntryPoint:
    return point(name, value, group=registry.MODELS)


def test_shipped_names_are_found_as_entry_points() -> None:
    """WHEN the package is installed THEN its table of models is found like anybody else's."""
    (entry,) = [entry for entry in registry.installed(registry.MODELS).values() if entry.own]
    assert entry.origin.startswith("energyscope-llm ")
    assert dict(registry.models_without_adapter(own=True))["opt-125m"].hub_id == "facebook/opt-125m"


def test_another_package_adds_names(registered: Register) -> None:
    """GIVEN tables of other packages, one named like an adapter THEN their names follow, and ours stay ours."""
    registered(
        table("gpt2", "planted:a"), table("b", "planted:b"), a={"new-1b": NEW}, b={"new-2b": NEW, "opt-125m": NEW}
    )
    names = [name for name, _ in registry.models_without_adapter(own=False)]
    assert names == ["new-2b", "opt-125m", "new-1b"]
    assert registry.load_adapter("gpt2").model_types == ("gpt2",)


@pytest.mark.parametrize(
    ("models", "complaint"),
    [
        (NEW, "is not a mapping of names to energyscope.adapters.Checkpoint"),
        ({"new": "owner/new"}, "is not valid: checkpoints: 'new' is no Checkpoint"),
        ({"new": replace(NEW, model_type=None)}, "'new' has model_type=None: give that of its config.json"),
        ({"new": replace(NEW, architecture=3)}, "'new' has architecture=3: give that of its config.json"),
        ({"tiny-gpt2": NEW}, "'tiny-gpt2' is the name of a bundled model"),
    ],
)
def test_a_broken_table_costs_no_other(
    registered: Register, caplog: pytest.LogCaptureFixture, models: object, complaint: str
) -> None:
    """GIVEN a table that declares something wrong THEN it is named and skipped, and the next one is used."""
    registered(
        table("a-broken", "planted:broken"), table("good", "planted:good"), broken=models, good={"new": NEW}
    )
    assert dict(registry.models_without_adapter(own=False)) == {"new": NEW}
    (message,) = caplog.messages
    assert message.startswith("energyscope: the table of models 'a-broken' (other-adapters 1.2, planted:broken) ")
    assert complaint in message
