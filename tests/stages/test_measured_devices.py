"""Where the model runs and what is measured: GPUs are named NVML's way and found among CUDA's by UUID alone."""

from __future__ import annotations

import json

import pytest
import torch

from energyscope.errors import DeviceError, MeterError, UsageError
from energyscope.settings.run import RunSettings
from energyscope.stages import measured_devices
from energyscope.stages.measured_devices import MeasuredDevices, find_devices, open_meters

TWO = "gpu GPU-1a2b-00 Fake H200\nat 0 power_w 200\ngpu GPU-1a9f-11 Fake T4\nat 0 power_w 50"
SPLIT = "gpu GPU-1a2b-00 Fake A100\nat 0 mig_mode 1\nmig MIG-77aa-00 1g.10gb\nmig MIG-77bb-00 2g.20gb"


@pytest.fixture
def cuda(monkeypatch):
    """Return a function that lets CUDA see GPUs of these UUIDs, in this order."""

    def sees(*uuids):
        seen = {uuid: torch.device("cuda", index) for index, uuid in enumerate(uuids)}
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(uuids))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(measured_devices, "visible_gpus", lambda: seen)
        monkeypatch.setattr(measured_devices, "cuda_uuid", lambda device: uuids[device.index])

    return sees


def settings(**changes):
    return RunSettings("gpt2", **changes)


@pytest.mark.parametrize("name", ["1", "GPU-1a9f-11", "GPU-1a9", "1a9f"])
@pytest.mark.parametrize(("order", "device"), [(("1a2b-00", "1a9f-11"), "cuda:1"), (("1a9f-11",), "cuda:0")])
def test_a_gpu_is_found_by_its_uuid(fake_nvml, cuda, name, order, device):
    """GIVEN CUDA numbers the GPUs otherwise, or sees one of them only, THEN the model goes to the named one."""
    fake_nvml(TWO)
    cuda(*order)
    assert find_devices(settings(gpu_id=(name,))) == MeasuredDevices(torch.device(device), ("GPU-1a9f-11",))


def test_gpus_of_rocm_are_not_named_by_nvml(fake_nvml, cuda, monkeypatch):
    """GIVEN torch with ROCm WHEN --gpu-id is given THEN one line says what to use; without it the GPU is known."""
    fake_nvml(TWO)
    cuda("AMD-e65a2c0a3ec2b6b1")
    monkeypatch.setattr(torch.version, "hip", "6.4.1")
    with pytest.raises(UsageError, match=r"--gpu-id names NVIDIA's GPUs: .*HIP_VISIBLE_DEVICES"):
        find_devices(settings(gpu_id=("0",)))
    assert find_devices(settings()).gpus == ("AMD-e65a2c0a3ec2b6b1",)


def test_an_index_is_nvmls_whatever_its_order(fake_nvml, cuda):
    """WHEN NVML's order changes THEN the same index is another board, on CUDA's side too."""
    machine = fake_nvml(TWO)
    cuda("1a2b-00", "1a9f-11")
    assert find_devices(settings(gpu_id=("0",))) == MeasuredDevices(torch.device("cuda:0"), ("GPU-1a2b-00",))
    machine.write("gpu GPU-1a9f-11 Fake T4\ngpu GPU-1a2b-00 Fake H200")
    assert find_devices(settings(gpu_id=("0",))) == MeasuredDevices(torch.device("cuda:1"), ("GPU-1a9f-11",))


def test_several_gpus_are_measured_and_the_model_runs_on_the_first(fake_nvml, cuda):
    """GIVEN two ids THEN the meters read both, and their order is the caller's."""
    fake_nvml(TWO)
    cuda("1a2b-00", "1a9f-11")
    asked = settings(gpu_id=("1", "0"))
    devices = find_devices(asked)
    assert devices == MeasuredDevices(torch.device("cuda:1"), ("GPU-1a9f-11", "GPU-1a2b-00"))
    group = open_meters(asked, devices.gpus)
    assert [meter.device for meter in group.meters] == list(devices.gpus)
    assert group.name == "nvml"


def test_without_a_name_the_models_gpu_is_measured(cuda):
    """GIVEN only --device THEN that GPU is measured, by CUDA's UUID of it."""
    cuda("1a2b-00", "1a9f-11")
    assert find_devices(settings(device="cuda:1")) == MeasuredDevices(torch.device("cuda:1"), ("1a9f-11",))
    assert find_devices(settings()) == MeasuredDevices(torch.device("cuda:0"), ("1a2b-00",))


def test_a_device_that_names_another_gpu_is_refused(fake_nvml, cuda):
    """WHEN --device and --gpu-id name two GPUs THEN neither wins; the same one twice is no contradiction."""
    fake_nvml(TWO)
    cuda("1a9f-11", "1a2b-00")
    with pytest.raises(UsageError, match=r"--gpu-id 1 is cuda:0 .* --device cuda:1 another GPU"):
        find_devices(settings(gpu_id=("1",), device="cuda:1"))
    assert find_devices(settings(gpu_id=("1",), device="cuda:0")).device == torch.device("cuda:0")
    assert find_devices(settings(gpu_id=("0",), device="cuda")).device == torch.device("cuda:1")


def test_a_gpu_that_cuda_does_not_see_is_refused(fake_nvml, cuda):
    """GIVEN a GPU hidden by CUDA_VISIBLE_DEVICES THEN the error lists what the process may use."""
    fake_nvml(TWO)
    cuda("1a2b-00")
    with pytest.raises(DeviceError, match=r"does not see GPU-1a9f-11 .*cuda:0 = 1a2b-00.*CUDA_VISIBLE_DEVICES"):
        find_devices(settings(gpu_id=("1",)))


def test_on_the_cpu_there_is_nothing_to_name(monkeypatch):
    """GIVEN no CUDA THEN the CPU is taken, and whatever needs a GPU is refused before anything is loaded."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_devices(settings()) == MeasuredDevices(torch.device("cpu"), ())
    for change in ({"gpu_id": ("0",)}, {"whole_gpu": True}, {"execution": "cuda-graph"}, {"execution": "both"}):
        with pytest.raises(UsageError, match="the model runs on the CPU"):
            find_devices(settings(**change))


def mapped(device_map, **changes):
    return settings(device_map=str(device_map), **changes)


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a device map and returns its path."""

    def write(**entries):
        path = tmp_path / "map.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        return path

    return write


def test_a_word_measures_every_gpu_that_the_model_may_take(cuda):
    """GIVEN --device-map auto THEN all visible GPUs are measured, the one of --device first."""
    cuda("1a2b-00", "1a9f-11")
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    assert find_devices(mapped("auto")) == MeasuredDevices(first, ("1a2b-00", "1a9f-11"), (first, second))
    devices = find_devices(mapped("sequential", device="cuda:1"))
    assert devices == MeasuredDevices(second, ("1a9f-11", "1a2b-00"), (second, first))
    assert find_devices(settings()).devices == (first,)


def test_a_word_takes_the_gpus_that_are_named_in_their_order(fake_nvml, cuda):
    """GIVEN --gpu-id and a word THEN the model may take those alone, in NVML's names and CUDA's devices alike."""
    fake_nvml(TWO)
    cuda("1a9f-11", "1a2b-00")
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    devices = find_devices(mapped("auto", gpu_id=("0", "1")))
    assert devices == MeasuredDevices(second, ("GPU-1a2b-00", "GPU-1a9f-11"), (second, first))
    assert find_devices(mapped("auto", gpu_id=("1",))) == MeasuredDevices(first, ("GPU-1a9f-11",), (first,))
    assert find_devices(settings(gpu_id=("0", "1"))).devices == (second,)


def test_a_file_measures_the_gpus_that_it_names(fake_nvml, cuda, file):
    """GIVEN a file THEN its GPUs are measured, its first for the inputs, and --gpu-id may only agree."""
    fake_nvml(TWO)
    cuda("1a2b-00", "1a9f-11")
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    both = file(transformer=1, lm_head=0)
    assert find_devices(mapped(both)) == MeasuredDevices(second, ("1a9f-11", "1a2b-00"), (second, first))
    devices = find_devices(mapped(both, gpu_id=("0", "1")))
    assert devices == MeasuredDevices(second, ("GPU-1a9f-11", "GPU-1a2b-00"), (second, first))
    with pytest.raises(UsageError, match=r"uses cuda:1, cuda:0, and --gpu-id names cuda:0: leave --gpu-id out"):
        find_devices(mapped(both, gpu_id=("0",)))
    assert find_devices(mapped(file(transformer=1, lm_head="cpu"))) == MeasuredDevices(
        second, ("1a9f-11",), (second,)
    )


def test_a_graph_is_captured_on_one_device(cuda, file):
    """WHEN a map may use several GPUs, or the host beside one, THEN --execution cuda-graph is refused."""
    cuda("1a2b-00", "1a9f-11")
    with pytest.raises(UsageError, match="what one device does by itself, and --device-map auto may use 2 GPUs"):
        find_devices(mapped("auto", execution="cuda-graph"))
    with pytest.raises(UsageError, match="may use host memory beside the GPU: use --execution eager"):
        find_devices(mapped(file(transformer=0, lm_head="cpu"), execution="both"))
    assert find_devices(mapped(file(transformer=0, lm_head=0), execution="cuda-graph")).gpus == ("1a2b-00",)
    cuda("1a2b-00")
    assert find_devices(mapped("auto", execution="cuda-graph")).devices == (torch.device("cuda:0"),)


def test_a_map_without_gpus_runs_on_the_cpu_alone(monkeypatch, file):
    """GIVEN no CUDA THEN a file for the CPU is the CPU's model, with its refusals; a word is refused."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    alone = file(transformer="cpu", lm_head="cpu")
    assert find_devices(mapped(alone)) == MeasuredDevices(torch.device("cpu"), ())
    for change in ({"gpu_id": ("0",)}, {"whole_gpu": True}, {"execution": "cuda-graph"}, {"execution": "both"}):
        with pytest.raises(UsageError, match="the model runs on the CPU"):
            find_devices(mapped(alone, **change))
    with pytest.raises(DeviceError, match="spreads a model over GPUs"):
        find_devices(mapped("auto"))


@pytest.mark.parametrize(
    ("seen", "named"),
    [("77bb-00", "MIG-77bb-00"), ("77bb-00", "GPU-1a2b-00"), ("1a2b-00", "MIG-77bb-00"), ("77bb-00", "0")],
)
def test_a_slice_and_its_gpu_belong_together(fake_nvml, cuda, seen, named):
    """GIVEN MIG THEN a slice or its GPU may be named, and only --whole-gpu measures, labelled."""
    fake_nvml(SPLIT)
    cuda(seen)
    devices = find_devices(settings(gpu_id=(named,)))
    assert devices.device == torch.device("cuda:0")
    with pytest.raises(MeterError, match="--whole-gpu"):
        open_meters(settings(gpu_id=(named,)), devices.gpus)
    (meter,) = open_meters(settings(gpu_id=(named,), whole_gpu=True), devices.gpus).meters
    assert meter.device == "GPU-1a2b-00"
    assert {"whole-gpu", "whole-gpu-of-slice"} & {note.code for note in meter.describe()["notes"]}


def test_two_slices_of_one_gpu_count_once(fake_nvml):
    """WHEN two slices of one GPU are measured whole THEN they are refused: its joules would count twice."""
    fake_nvml(SPLIT)
    with pytest.raises(UsageError, match="GPU-1a2b-00 twice"):
        open_meters(settings(whole_gpu=True), ("MIG-77aa-00", "MIG-77bb-00"))


def test_the_stated_watts_reach_the_meter():
    """--watts are the modelled meter's."""
    (modelled,) = open_meters(settings(meter="modelled", watts=12.0), ()).meters
    assert modelled.describe()["watts"] == 12.0


def test_the_sampling_interval_reaches_the_meter(monkeypatch):
    """--sample-interval and --whole-gpu are handed to every meter."""
    asked = []
    monkeypatch.setattr(
        measured_devices, "open_meter", lambda name, **options: asked.append((name, options)) or Stub()
    )
    open_meters(settings(meter="nvidia-smi", sample_interval_s=0.25, whole_gpu=True), ("GPU-1a2b-00",))
    ((name, options),) = asked
    assert name == "nvidia-smi"
    assert (options["gpu_uuid"], options["interval_s"], options["whole_gpu"]) == ("GPU-1a2b-00", 0.25, True)


class Stub:
    name, device, modelled = "nvidia-smi", "GPU-1a2b-00", False


def test_a_meter_without_a_counter_is_refused_for_triggered_sampling(fake_nvml):
    """WHEN auto ends at a meter that integrates THEN triggered sampling is refused before the model is loaded."""
    fake_nvml(f"{TWO}\nat 0 fail nvmlDeviceGetTotalEnergyConsumption 3")
    with pytest.raises(UsageError, match=r"nvml-power meter .*no counter.*--sampling replay"):
        open_meters(settings(sampling="triggered"), ("GPU-1a9f-11",))
    assert open_meters(settings(sampling="triggered"), ("GPU-1a2b-00",)).name == "nvml"
