"""The task of a configuration."""

from __future__ import annotations

from typing import Any

import pytest
from auto_models import config

from energyscope.auto import tasks
from energyscope.auto.tasks import CLASSIFICATION, NEXT_TOKEN, AutoTask, task_of
from energyscope.errors import ModelError


@pytest.mark.parametrize(
    ("family", "changes", "task"),
    [
        ("mistral", {}, NEXT_TOKEN),
        ("mistral", {"architectures": ["MistralForCausalLM"]}, NEXT_TOKEN),
        ("mistral", {"architectures": ["MistralForSequenceClassification"]}, CLASSIFICATION),
        ("roberta", {}, CLASSIFICATION),
        ("roberta", {"architectures": ["RobertaForCausalLM"]}, NEXT_TOKEN),
        ("roberta", {"architectures": ["RobertaForMaskedLM"]}, tasks.MASKED_TOKEN),
        ("roberta", {"architectures": ["RobertaModel"]}, tasks.EMBEDDING),
        ("bart", {"architectures": ["BartForConditionalGeneration"]}, tasks.TEXT_TO_TEXT),
        ("bart", {}, tasks.TEXT_TO_TEXT),
        ("t5", {}, tasks.TEXT_TO_TEXT),
        ("whisper", {"architectures": ["WhisperForConditionalGeneration"]}, tasks.SPEECH_TO_TEXT),
        ("vit", {}, tasks.IMAGE),
        ("clip", {"architectures": ["CLIPForImageClassification"]}, tasks.IMAGE),
        ("own", {"architectures": ["OwnForCausalLM"], "auto_map": {"AutoModelForCausalLM": "own.OwnForCausalLM"}},
         NEXT_TOKEN),
    ],
)  # fmt: skip
def test_the_class_decides_else_the_model_type(family: str, changes: dict[str, Any], task: AutoTask) -> None:
    """GIVEN a class in the configuration THEN its task; without one, that of the type: encoders classify."""
    import transformers

    described = transformers.PretrainedConfig(**changes) if family == "own" else config(family, **changes)
    described.model_type = family
    assert task_of(described) is task


@pytest.mark.parametrize(
    ("family", "architecture", "words"),
    [
        ("roberta", "RobertaForTokenClassification", "RobertaForTokenClassification is no causal, masked or"),
        ("vits", None, "transformers has no causal, masked or"),
    ],
)
def test_other_tasks_are_refused(family: str, architecture: str | None, words: str) -> None:
    """GIVEN a class for another task THEN the error names it."""
    import transformers

    described = transformers.AutoConfig.for_model(family, architectures=architecture and [architecture])
    with pytest.raises(ModelError, match=words):
        task_of(described)
