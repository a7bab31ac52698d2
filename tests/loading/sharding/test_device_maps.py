"""What --device-map may say: words and files, and one clear line for what cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from energyscope.errors import DeviceError, UsageError
from energyscope.loading.sharding.device_maps import check_device_map, map_devices, read_map, uses_host

CPU = torch.device("cpu")


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Return a function that writes a map and returns its path."""

    def write(content: Any) -> str:
        path = tmp_path / "map.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that lets torch count so many GPUs."""

    def count(number: int) -> list[torch.device]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        return [torch.device("cuda", index) for index in range(number)]

    return count


def test_a_file_names_gpus_by_number_or_name(written: Any) -> None:
    """GIVEN both spellings and the host THEN each module has one name of its device, in the file's order."""
    text = written({"": 0, "model.layers.1": "cuda:1", "lm_head": "cpu"})
    assert read_map(text) == {"": "cuda:0", "model.layers.1": "cuda:1", "lm_head": "cpu"}
    assert uses_host(text)
    assert not uses_host(written({"": 0}))
    assert not uses_host("auto")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "cannot be read as JSON"),
        ("[1]", "must be one JSON object"),
        ("{}", "must be one JSON object"),
        ({"lm_head": "disk"}, "'lm_head' on disk, whose energy is not measured: use cpu"),
        ({"lm_head": -1}, "'lm_head' on -1: use a GPU's number, cuda:N or cpu"),
        ({"lm_head": True}, "'lm_head' on True"),
        ({"lm_head": "cuda"}, "'lm_head' on 'cuda'"),
        ({"lm_head": "tpu:0"}, "'lm_head' on 'tpu:0'"),
        ({"lm_head": ["cpu"]}, "'lm_head' on"),
    ],
)
def test_a_file_that_is_no_map_is_refused(written: Any, content: Any, complaint: str) -> None:
    """WHEN a file is not a map of modules to devices THEN one line says what is wrong with it."""
    with pytest.raises(UsageError) as error:
        check_device_map(written(content))
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("blanced", "did you mean 'balanced'"), ("absent/map.json", "auto, balanced, sequential, or a JSON file")],
)
def test_a_missing_file_may_be_a_mistyped_word(text: str, hint: str) -> None:
    """WHEN there is no such file THEN the line offers the word that was meant, or all that may be given."""
    with pytest.raises(UsageError, match=f"{text}.*is not a file.*{hint}"):
        check_device_map(text)


def test_words_need_gpus(gpus: Any) -> None:
    """GIVEN no GPU THEN a word that spreads a model over GPUs is refused, and so it is beside --device cpu."""
    gpus(0)
    with pytest.raises(DeviceError, match=r"--device-map auto spreads a model over GPUs, and .*--device cpu"):
        map_devices("auto")
    gpus(2)
    with pytest.raises(UsageError, match="--device cpu names none"):
        map_devices("balanced", "cpu")


def test_a_word_takes_all_gpus_in_the_order_that_is_asked_for(gpus: Any) -> None:
    """GIVEN three GPUs THEN all are taken, the one named first; GPUs that are listed are all, in their order."""
    first, second, third = gpus(3)
    assert map_devices("auto") == (first, second, third)
    assert map_devices("auto", "cuda:1") == (second, first, third)
    assert map_devices("sequential", "auto", [third, first]) == (third, first)


def test_a_files_gpus_are_taken_in_its_order(gpus: Any, written: Any) -> None:
    """GIVEN a file THEN its GPUs are taken in its order, its first for the inputs; the host is none of them."""
    first, second = gpus(2)
    text = written({"a": 1, "b": "cpu", "c": 0})
    assert map_devices(text) == (second, first)
    assert map_devices(text, "cuda:1", [first, second]) == (second, first)
    with pytest.raises(UsageError, match=r"inputs on cuda:1, and --device says cuda:0: leave --device out"):
        map_devices(text, "cuda:0")
    with pytest.raises(UsageError, match=r"uses cuda:1, cuda:0, and --gpu-id names cuda:1"):
        map_devices(text, "auto", [second])


def test_a_file_for_the_cpu_alone_needs_no_gpu(gpus: Any, written: Any) -> None:
    """GIVEN a file that names the CPU only THEN it works with and without GPUs, and not beside another device."""
    gpus(0)
    text = written({"": "cpu"})
    assert map_devices(text) == map_devices(text, "cpu") == map_devices(text, "auto", [CPU]) == (CPU,)
    gpus(1)
    assert map_devices(text) == (CPU,)
    with pytest.raises(UsageError, match=r"inputs on cpu, and --device says cuda"):
        map_devices(text, "cuda")


def test_a_gpu_that_is_not_there_is_named_with_those_that_are(gpus: Any, written: Any) -> None:
    """WHEN a file names more GPUs than there are THEN the line lists them; without any it says why."""
    text = written({"": 3})
    gpus(2)
    with pytest.raises(DeviceError, match=r"names cuda:3, which is not there: this machine has cuda:0, cuda:1"):
        map_devices(text)
    gpus(0)
    with pytest.raises(DeviceError, match=r"names cuda:3, and .*: name cpu alone"):
        map_devices(text)


def test_checking_a_map_imports_no_torch(written: Any) -> None:
    """WHEN settings are checked THEN a map is read without importing torch."""
    code = (
        "import sys; from energyscope.loading.sharding.device_maps import check_device_map; "
        "check_device_map(sys.argv[1]); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, written({"": 0})], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
