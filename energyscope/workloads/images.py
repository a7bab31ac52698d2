"""Images of a folder as evaluation data, prepared by the model's own image processor; its folders are classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from energyscope.errors import DataError, UsageError
from energyscope.failures import first_line
from energyscope.loading import LoadedModel
from energyscope.model_inputs import main_input
from energyscope.workloads.evaluation import Example, Tokenized, evenly
from energyscope.workloads.texts import Row, Texts
from energyscope.workloads.tokenized import class_indices

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def holds_images(folder: Path) -> bool:
    """Tell whether a folder, or a folder in it, holds an image."""
    return folder.is_dir() and next(_images(folder), None) is not None


def folder_images(loaded: LoadedModel, folder: Path, most: int | None) -> Tokenized:
    """Return images as examples; of more than ``most``, evenly spaced ones.

    An image's class is the name of the folder that it is in; images in ``folder`` itself have none, and only
    outputs can be compared on them.

    Raises:
        DataError: a folder's name is no class of the model, some images have a class and some none, an image
            cannot be read, or the model has no image processor.
        UsageError: the model sees no images, or Pillow is missing.

    """
    if main_input(loaded.model) != "pixel_values":
        raise UsageError(f"{folder} holds images, and {loaded.name} takes {main_input(loaded.model)}")
    files = sorted(_images(folder))
    chosen = [files[place] for place in evenly(len(files), most)]
    labels = [path.parent.name if path.parent != folder else None for path in chosen]
    if len({label is None for label in labels}) > 1:
        raise DataError(f"{folder} holds images beside folders of images: put each into a folder of its class")
    classes: Sequence[int | None] = [None] * len(chosen)
    if labels[0] is not None and loaded.adapter.task == "image-classification":
        rows = tuple(
            Row(str(path), label, number)
            for number, (path, label) in enumerate(zip(chosen, labels, strict=True), start=1)
        )
        classes = class_indices(loaded, Texts(str(folder), rows, label_column="folder", unit="image"))
    processor = _processor(loaded)
    examples = [
        Example([], label, index=index, features=_pixels(processor, path))
        for index, (path, label) in enumerate(zip(chosen, classes, strict=True))
    ]
    return Tokenized(str(folder), loaded.adapter.task, examples, (), None)


def _images(folder: Path) -> Iterator[Path]:
    """Yield the images in a folder and below it, hidden folders left out."""
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in ENDINGS and not hidden and path.is_file():
            yield path


def _processor(loaded: LoadedModel) -> Any:
    import transformers

    try:
        return transformers.AutoImageProcessor.from_pretrained(loaded.source)
    except ImportError as error:
        raise UsageError("images need Pillow: pip install 'energyscope-llm[images]'") from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{loaded.name} has no image processor (preprocessor_config.json) at {loaded.source}: "
            "give its inputs as tensors with --data FILE.safetensors"
        ) from error


def _pixels(processor: Any, path: Path) -> Any:
    """Return one image as the processor prepares it, float32 (C, H, W)."""
    try:
        from PIL import Image

        with Image.open(path) as image:
            return processor(images=[image.convert("RGB")], return_tensors="pt")["pixel_values"][0].float()
    except ImportError as error:
        raise UsageError("images need Pillow: pip install 'energyscope-llm[images]'") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read as an image: {first_line(error)}") from error
