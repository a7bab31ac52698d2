"""Devices by index, UUID and MIG id, and from CUDA to NVML by UUID alone."""

from __future__ import annotations

import pytest

from energyscope.errors import MeterError, UsageError
from energyscope.metering.nvml.devices import (
    Gpu,
    find_gpu,
    list_gpus,
    measured_gpu,
    resolve_gpus,
)

TWO = "gpu GPU-1a2b-00 Fake H200\ngpu GPU-1a9f-11 Fake T4"
SPLIT = "gpu GPU-1a2b-00 Fake A100\nat 0 mig_mode 1\nmig MIG-77aa-00 1g.10gb\nmig MIG-77bb-00 2g.20gb"


@pytest.mark.parametrize("name", ["1", "GPU-1a9f-11", "GPU-1a9", "1a9", "1A9F-11", "gpu-1a9f"])
def test_a_gpu_has_many_names(fake_nvml, name):
    """Index, whole UUID and the beginning of one, with and without GPU-, all mean the same GPU."""
    fake_nvml(TWO)
    assert resolve_gpus([name]) == [Gpu("GPU-1a9f-11", 1, "Fake T4")]


@pytest.mark.parametrize("name", ["2", "GPU-ffff", "", "GPU-", "MIG-1a2b"])
def test_an_unknown_name_lists_what_there_is(fake_nvml, name):
    """The error names every GPU of the machine."""
    fake_nvml(TWO)
    with pytest.raises(UsageError, match=r"no GPU is called.*0 = GPU-1a2b-00 \(Fake H200\), 1 = GPU-1a9f-11"):
        resolve_gpus([name])


def test_an_ambiguous_name_is_refused(fake_nvml):
    """A beginning that fits two GPUs is not guessed."""
    fake_nvml(TWO)
    with pytest.raises(UsageError, match="2 devices are called 'GPU-1a'"):
        resolve_gpus(["GPU-1a"])


def test_a_uuid_that_begins_another_is_exact(fake_nvml):
    """GIVEN one UUID that begins with another THEN the whole name means the shorter."""
    fake_nvml("gpu GPU-1a\ngpu GPU-1a2b")
    assert resolve_gpus(["GPU-1a"])[0].index == 0


def test_a_gpu_is_never_counted_twice(fake_nvml):
    """Two names of one GPU are refused."""
    fake_nvml(TWO)
    with pytest.raises(UsageError, match="twice"):
        resolve_gpus(["1", "GPU-1a9f"])


def test_cuda_and_nvml_meet_by_uuid(fake_nvml):
    """WHEN NVML numbers the GPUs otherwise THEN CUDA's GPU is still the same board."""
    machine = fake_nvml(TWO)
    assert find_gpu("1a9f-11").index == 1
    machine.write("\n".join(reversed(TWO.splitlines())))
    assert find_gpu("GPU-1a9f-11") == Gpu("GPU-1a9f-11", 0, "Fake T4")


def test_a_gpu_that_nvml_does_not_know_is_an_error(fake_nvml):
    """Energy of some other board is never shown instead."""
    fake_nvml(TWO)
    with pytest.raises(MeterError, match="does not know"):
        find_gpu("dead-beef")


def test_slices_are_found_with_their_parent(fake_nvml):
    """GIVEN a GPU in MIG mode THEN its slices are listed, and CUDA's bare UUID of one finds it."""
    fake_nvml(SPLIT)
    whole, first, second = list_gpus()
    assert whole.split
    assert not whole.mig
    assert (first.mig, first.parent_uuid, first.index) == (True, "GPU-1a2b-00", 0)
    assert first.name == "1g.10gb"
    assert find_gpu("77bb-00") == second == resolve_gpus(["MIG-77bb"])[0]


@pytest.mark.parametrize(("name", "note"), [("MIG-77aa-00", "whole-gpu-of-slice"), ("0", "whole-gpu")])
def test_a_slice_is_refused_or_measured_whole_and_labelled(fake_nvml, name, note):
    """The energy of a slice cannot be read: the error says what to do, and the whole GPU carries a label."""
    fake_nvml(SPLIT)
    (gpu,) = resolve_gpus([name])
    with pytest.raises(MeterError, match="--whole-gpu"):
        measured_gpu(gpu)
    assert measured_gpu(gpu, whole_gpu=True) == ("GPU-1a2b-00", note)


def test_an_ordinary_gpu_carries_no_label(fake_nvml):
    """Asking for the whole of a GPU that is not split changes nothing."""
    fake_nvml(TWO)
    assert measured_gpu(find_gpu("1a2b-00"), whole_gpu=True) == ("GPU-1a2b-00", None)


def test_mig_mode_without_slices_counts_as_split(fake_nvml):
    """A GPU in MIG mode is told even while it has no slices."""
    fake_nvml("gpu GPU-1a2b\nat 0 mig_mode 1")
    assert list_gpus()[0].split


def test_gpus_of_others_are_not_offered(fake_nvml):
    """A GPU that this user may not open is left out; the others keep NVML's numbers."""
    fake_nvml("gpu GPU-1a2b\nat 0 fail nvmlDeviceGetHandleByIndex_v2 4\ngpu GPU-1a9f")
    assert [(gpu.uuid, gpu.index) for gpu in list_gpus()] == [("GPU-1a9f", 1)]


def test_boards_that_know_no_mig_are_whole(fake_nvml):
    """GIVEN a board that does not understand questions about MIG THEN it is an ordinary GPU."""
    fake_nvml("gpu GPU-1a2b\nat 0 fail nvmlDeviceGetMigMode 3\nat 0 fail nvmlDeviceGetMaxMigDeviceCount 3")
    assert not list_gpus()[0].split
