"""Folders of images: classes by folder, the model's own processor, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from task_models import task_model

from energyscope.errors import DataError, EnergyscopeError
from energyscope.loading import LoadedModel
from energyscope.workloads import load_evaluation, profile_inputs
from energyscope.workloads.images import holds_images

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def classifier(tmp_path: Path) -> LoadedModel:
    """A classifier of cats, dogs and owls whose folder has an image processor for 16 x 16 pixels."""
    from transformers import ViTImageProcessor

    folder = tmp_path / "model"
    ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    loaded = task_model("image-classification")
    loaded.model.config.label2id = {"cat": 0, "dog": 1, "owl": 2}
    return replace(loaded, source=str(folder), weights="pretrained")


def images(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 30), (40 * number, 10, 90)).save(folder / name)
    return folder


def test_folders_are_classes(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN folders by the names of classes, THEN each image is prepared as the model wants it, with its class."""
    data = images(tmp_path / "data", "owl/a.png", "cat/b.jpg", "cat/c.png", ".cache/d.png")
    evaluation = load_evaluation(classifier, data=str(data))
    (batch,), labels = evaluation.batches, evaluation.labels
    assert batch["pixel_values"].shape == (3, 3, 16, 16)
    assert labels is not None
    assert labels[0].tolist() == [0, 0, 2]
    timed = profile_inputs(classifier, batch_size=1, evaluation=evaluation).inputs["pixel_values"]
    assert torch.equal(timed, batch["pixel_values"][:1])


def test_images_without_folders_have_no_class(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN images in the folder itself, THEN only outputs can be compared."""
    evaluation = load_evaluation(classifier, data=str(images(tmp_path / "data", "a.png", "b.png")))
    assert (evaluation.examples, evaluation.labels, evaluation.labelled) == (2, None, False)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("cow/a.png",), "image 1, has the label 'cow' in column 'folder'.*knows 0 .cat."),
        (("cat/a.png", "b.png"), "put each into a folder of its class"),
    ],
)
def test_what_is_no_class_is_named(
    classifier: LoadedModel, tmp_path: Path, names: tuple[str, ...], words: str
) -> None:
    """GIVEN a folder that is no class, or images beside folders, THEN the message says so."""
    with pytest.raises(DataError, match=words):
        load_evaluation(classifier, data=str(images(tmp_path / "data", *names)))


def test_a_broken_image_is_named(classifier: LoadedModel, tmp_path: Path) -> None:
    """GIVEN a file that is no image, THEN it is named."""
    data = images(tmp_path / "data", "a.png")
    (data / "b.png").write_bytes(b"no image")
    with pytest.raises(EnergyscopeError, match=r"b.png cannot be read as an image"):
        load_evaluation(classifier, data=str(data))


def test_a_picture_beside_texts_is_no_folder_of_images_to_a_language_model(tmp_path: Path) -> None:
    """GIVEN texts with a picture beside them, THEN a model that reads is given the texts."""
    from energyscope.loading import load_model

    data = images(tmp_path / "data", "figure.png")
    (data / "test.jsonl").write_text('{"text": "the cat sees a dog"}\n' * 3, encoding="utf-8")
    assert holds_images(data)
    assert load_evaluation(load_model("tiny-gpt2", device="cpu"), data=str(data)).examples == 3
