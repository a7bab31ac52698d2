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
    dataset: str | None = None


NEXT_TOKEN = AutoTask("next-token", "AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "wikitext2")
CLASSIFICATION = AutoTask(
    "classification", "AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES"
)
TEXT_TO_TEXT = AutoTask(
    "sequence-to-sequence", "AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"
)
SPEECH_TO_TEXT = AutoTask(
    "sequence-to-sequence", "AutoModelForSpeechSeq2Seq", "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES"
)
MASKED_TOKEN = AutoTask("masked-token", "AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "wikitext2")
IMAGE = AutoTask(
    "image-classification", "AutoModelForImageClassification", "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"
)
EMBEDDING = AutoTask("embedding", "AutoModel", "MODEL_MAPPING_NAMES")
# a class may be in several tables (BartForConditionalGeneration is a masked language model too): the first counts
TASKS = (NEXT_TOKEN, CLASSIFICATION, TEXT_TO_TEXT, SPEECH_TO_TEXT, MASKED_TOKEN, IMAGE, EMBEDDING)
_SUPPORTED = "causal, masked or sequence-to-sequence language model, text or image classifier"


def task_of(config: Any) -> AutoTask:
    """Return the task of the class that a configuration names, else what its model type is mostly for.

    Raises:
        ModelError: that class is for another task, or transformers has no class for a supported one.

    """
    model_type = str(config.model_type)
    for architecture in getattr(config, "architectures", None) or []:
        for task in TASKS:
            remote = (getattr(config, "auto_map", None) or {}).get(task.auto_class, "")
            if architecture in _classes(task, model_type) or remote.endswith(f".{architecture}"):
                return task
        if "For" in architecture:
            raise ModelError(
                f"{architecture} is no {_SUPPORTED}: without an adapter of its own (adapters/README.md), such a "
                "model cannot be measured"
            )
    return _usual_task(model_type, encodes_and_decodes=bool(getattr(config, "is_encoder_decoder", False)))


def _usual_task(model_type: str, *, encodes_and_decodes: bool) -> AutoTask:
    serving = [task for task in TASKS if _classes(task, model_type) and task is not EMBEDDING]
    if not serving:
        raise ModelError(
            f"transformers has no {_SUPPORTED} of type {model_type!r}: write an adapter in about 30 lines "
            "(adapters/README.md)"
        )
    if encodes_and_decodes:
        return next((task for task in serving if task.task == "sequence-to-sequence"), serving[0])
    is_encoder = MASKED_TOKEN in serving and CLASSIFICATION in serving
    return CLASSIFICATION if is_encoder else serving[0]


def _classes(task: AutoTask, model_type: str) -> tuple[str, ...]:
    from transformers.models.auto import modeling_auto

    names = getattr(modeling_auto, task.table).get(model_type, ())
    return (names,) if isinstance(names, str) else tuple(names)
