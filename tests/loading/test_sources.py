"""What short names without an adapter mean, and what serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from test_adapters import MINIMAL

from energyscope.adapters import Adapter, Checkpoint
from energyscope.errors import ModelError
from energyscope.loading import load_model, model_names, named_model, sources
from energyscope.loading.files import model_files
from energyscope.loading.options import LoadOptions

SIZES = {
    "vocab_size": 60, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32,
}  # fmt: skip
MISTRAL = Checkpoint("owner/mistral", SIZES, model_type="mistral", architecture="MistralForCausalLM")
LLAMA = replace(MISTRAL, model_type="llama", architecture="LlamaForCausalLM")
RANDOM = LoadOptions(device=torch.device("cpu"), weights="random")


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let a test decide which names there are without an adapter, of ours and of other packages."""

    def names(ours: dict[str, Checkpoint], others: dict[str, Checkpoint] | None = None) -> None:
        def listed(*, own: bool) -> Iterator[tuple[str, Checkpoint]]:
            yield from (ours if own else others or {}).items()

        monkeypatch.setattr(sources, "models_without_adapter", listed)

    return names


def adapter_of(name: str, **options: Any) -> str:
    source = named_model(name)
    assert source is not None
    with model_files(source, replace(RANDOM, **options)) as files:
        return files.adapter.name


def test_a_name_is_built_and_found_by_structure(named: Callable[..., None]) -> None:
    """GIVEN a name of a type without an adapter THEN its true shape is built, and it is measured by structure."""
    named({"tiny-mistral": MISTRAL})
    loaded = load_model("tiny-mistral", weights="random", device="cpu")
    assert (loaded.adapter.name, loaded.source, loaded.tokenizer) == ("auto", "owner/mistral", None)
    assert [note.code for note in loaded.notes] == ["found-by-structure"]
    assert loaded.model.config.hidden_size == 16


def test_the_adapter_of_its_type_serves_a_name(named: Callable[..., None]) -> None:
    """GIVEN a name of a type that an adapter serves THEN that one does, unless structure is asked for."""
    named({"tiny-llama2": LLAMA})
    assert adapter_of("tiny-llama2") == "llama"
    assert adapter_of("tiny-llama2", adapter="auto") == "auto"


def test_another_packages_adapter_serves_our_name(
    named: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN another package's adapter for the type THEN it serves our name rather than structure."""

    def other(_: str = "") -> Iterator[Adapter]:
        yield replace(MINIMAL, name="mistral", model_types=("mistral",))

    named({"tiny-mistral": MISTRAL})
    monkeypatch.setattr("energyscope.adapter_registry.other_adapters", other)
    assert adapter_of("tiny-mistral") == "mistral"


def test_names_of_other_packages_follow_ours(named: Callable[..., None]) -> None:
    """GIVEN one name in two packages THEN ours has it; the others' are found, and listed behind ours."""
    named({"tiny-mistral": MISTRAL}, {"tiny-mistral": LLAMA, "their-llama": LLAMA})
    assert [named_model(name).checkpoint for name in ("tiny-mistral", "Their-Llama")] == [MISTRAL, LLAMA]
    assert list(model_names())[-2:] == ["tiny-mistral", "their-llama"]


def test_a_name_without_a_configuration_is_refused(named: Callable[..., None]) -> None:
    """GIVEN a name with no configuration THEN random weights are refused in one line."""
    named({"shapeless": replace(MISTRAL, configuration={})})
    with pytest.raises(ModelError, match="no configuration of shapeless is stated beside its short name"):
        load_model("shapeless", weights="random", device="cpu")


def test_the_architecture_is_the_task(named: Callable[..., None]) -> None:
    """GIVEN a name whose architecture classifies THEN that is its task, and not the type's usual one."""
    named({"classes": replace(MISTRAL, architecture="MistralForSequenceClassification")})
    source = named_model("classes")
    assert source is not None
    with model_files(source, RANDOM) as files:
        assert files.adapter.task == "classification"
