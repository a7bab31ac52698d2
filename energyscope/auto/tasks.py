"""What a model without an adapter is for: its configuration names a class, and the class has a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from energyscope.adapters import Task
from energyscope.errors import ModelError


@dataclass(frozen=True)
class AutoTask:
    """A task, the transformers class that loads its models, that class's table of models, and the default data."""

    task: Task
    auto_class: str
    table: str
    dataset: str | None


NEXT_TOKEN = AutoTask("next-token", "AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "wikitext2")
CLASSIFICATION = AutoTask(
    "classification", "AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", None
)
TASKS = (NEXT_TOKEN, CLASSIFICATION)
_MASKED = "MODEL_FOR_MASKED_LM_MAPPING_NAMES"


def task_of(config: Any) -> AutoTask:
    """Return the task of the class that a configuration names, else what its model type is mostly for.

    Raises:
        ModelError: that class is for another task, or transformers has no class for a supported one.

    """
    model_type = str(config.model_type)
    for architecture in getattr(config, "architectures", None) or []:
        for task in TASKS:
            remote = (getattr(config, "auto_map", None) or {}).get(task.auto_class, "")
            if architecture in _classes(task.table, model_type) or remote.endswith(f".{architecture}"):
                return task
        if "For" in architecture:
            raise ModelError(
                f"{architecture} is neither a causal language model nor a text classifier: without an adapter of "
                "its own (adapters/README.md), such a model cannot be measured yet"
            )
    serving = [task for task in TASKS if _classes(task.table, model_type)]
    if not serving:
        raise ModelError(
            f"transformers has no causal language model and no text classifier of type {model_type!r}: "
            "write an adapter in about 30 lines (adapters/README.md)"
        )
    return serving[-1] if _classes(_MASKED, model_type) else serving[0]


def _classes(table: str, model_type: str) -> tuple[str, ...]:
    from transformers.models.auto import modeling_auto

    names = getattr(modeling_auto, table).get(model_type, ())
    return (names,) if isinstance(names, str) else tuple(names)
