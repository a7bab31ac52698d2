"""What a model's forward is fed: the names and shapes of its tensors, by its class and configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Content = Literal["tokens", "mask", "features"]
IMAGE_SIZE = 224  # pixels, of models that state none: they take any
SAMPLES = 16000  # of sound at its usual rate: a second
_CHANNELS = 3


@dataclass(frozen=True)
class Input:
    """A tensor that a forward takes by this name: token ids, a mask of ones, or numbers (an image, sound)."""

    name: str
    shape: tuple[int, ...]
    content: Content


def model_inputs(model: Any, batch_size: int, length: int) -> tuple[Input, ...]:
    """Return what a transformers model needs for one forward pass of so many examples.

    ``length`` is in tokens, of the encoder and of the decoder alike; images and sound have the size that the
    configuration states, whatever the length.
    """
    return tuple(_inputs(model, batch_size, length))


def takes(model: Any, name: str) -> bool:
    """Tell whether a model's forward has an argument of this name."""
    return name in inspect.signature(model.forward).parameters


def reads_tokens(model: Any) -> bool:
    """Tell whether a model is fed tokens, if only by its decoder: images alone have no length to choose."""
    return any(item.content == "tokens" for item in model_inputs(model, 1, 1))


def main_input(model: Any) -> str:
    """Return the name of a model's first input: ``input_ids``, ``pixel_values``, ``input_features``, ..."""
    return str(getattr(model, "main_input_name", None) or "input_ids")


def _inputs(model: Any, batch: int, length: int) -> Iterator[Input]:
    main = main_input(model)
    if main == "input_ids":
        yield Input("input_ids", (batch, length), "tokens")
        if takes(model, "attention_mask"):
            yield Input("attention_mask", (batch, length), "mask")
    else:
        yield Input(main, (batch, *_feature_shape(model.config, main)), "features")
    if model.config.is_encoder_decoder and takes(model, "decoder_input_ids"):
        yield Input("decoder_input_ids", (batch, length), "tokens")


def _feature_shape(config: Any, name: str) -> tuple[int, ...]:
    """Return the shape of one example's numbers: pixels (C, H, W), log-mel features, or samples of sound."""
    if name == "pixel_values":
        return (int(_stated(config, "num_channels") or _CHANNELS), *_image_size(config))
    if (channels := _stated(config, "input_feat_per_channel")) is not None:  # Speech2Text
        return (SAMPLES // 160, int(channels))
    if (bins := _stated(config, "num_mel_bins")) is None:
        return (SAMPLES,)
    if (positions := _stated(config, "max_source_positions")) is not None:
        return (int(bins), 2 * int(positions))  # two frames of sound become one position (Whisper)
    return (int(_stated(config, "max_length") or SAMPLES // 160), int(bins))


def _image_size(config: Any) -> tuple[int, int]:
    size = _stated(config, "image_size") or IMAGE_SIZE
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return int(height), int(width)


def _stated(config: Any, name: str) -> Any:
    """Return what a configuration, or that of its part that sees or hears, says; None if it says nothing."""
    parts = (config, *(getattr(config, part, None) for part in ("vision_config", "encoder", "audio_config")))
    values = (getattr(part, name, None) for part in parts if part is not None and not isinstance(part, dict))
    return next((value for value in values if value is not None), None)
