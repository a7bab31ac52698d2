"""The reference workload on simulated boards of known joules, kept for each board, and carried by its runs."""

from __future__ import annotations

import platform
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fake_powercap import one_socket
from simulated import measure

import energyscope
from energyscope import user_files
from energyscope.adapters import Adapter
from energyscope.comparison.basis import TOTAL
from energyscope.comparison.boards import board_factor
from energyscope.diagnostics.reference_layer import ON_CPU, ON_GPU, reference_layer
from energyscope.metering.counter import meter as counter
from energyscope.metering.group import MeterGroup
from energyscope.stages import doctor, reference, settling
from energyscope.stages.facts import device_facts
from energyscope.stages.reference import carried_reference, conditions_of, kept_reference, outdated, record_of
from energyscope.stages.sampling_budget import SamplingBudget
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu, SimulatedSensor

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
FACTS = {"type": "cuda", "uuid": "GPU-a", "name": "H200", "driver": "580", "power_limit_w": 700.0}
TRUE_MJ, TIME_US = 50.0, 130.0
SAMPLING_S = 819e-6
LAYER = ((0.2, 0.1), (0.3, 0.4), (0.1, 0.05), (0.4, 0.45))  # attention, products, what waits for memory, products


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    """Keep references in a folder of the test."""
    monkeypatch.setattr(user_files.typer, "get_app_dir", lambda name: str(tmp_path / "settings"))


def measured(board="GPU-a", energy_mj=TRUE_MJ, *, seed=0, noise=0.003, time_us=TIME_US, sampling_s=0.0):
    """Measure a workload of known joules on a simulated board; return the record, and how long it took (s)."""
    gpu = SimulatedGpu(
        SimulatedSensor(period_s=0.1, sampling_s=sampling_s), SimulatedBoard(seed=seed, window_noise=noise)
    )
    begin_s = gpu.now()
    call = SimulatedCall(energy_mj, time_us, LAYER)
    budget = reference.sampling_budget(MeterGroup([gpu]))
    session = measure(gpu, {"node:model": [call]}, sampling_budget=budget, sampling_s=SAMPLING_S)
    record = record_of(session.row("model"), ON_GPU, {**FACTS, "uuid": board}, "nvml")
    return record, gpu.now() - begin_s


def factor(first, second):
    documents = [{"device": {"reference": record}} for record in (first, second)]
    return board_factor(*documents, TOTAL).factor


def test_a_measurement_takes_about_forty_seconds_and_finds_the_joules():
    """GIVEN a board of known joules THEN its interval holds them, its work is without idle power; in 45 s."""
    record, seconds = measured()
    assert seconds < 45
    assert record["low_mj"] < TRUE_MJ < record["high_mj"]
    idle_mj = SimulatedBoard().idle_w * TIME_US / 1e3
    assert record["dynamic_low_mj"] < TRUE_MJ - idle_mj < record["dynamic_high_mj"]
    assert (record["workload"], record["board"], record["windows"]) == ("transformer-layer-1", "GPU-a", 6)
    assert record["time_us"] == pytest.approx(TIME_US, rel=0.001)
    assert record["power_w"] == pytest.approx(1e3 * TRUE_MJ / TIME_US, rel=0.01)


def test_the_same_board_again_is_no_other_board():
    """GIVEN one board measured twice, up to 0.4 % off by chance, THEN the factor's interval contains 1."""
    pairs = [
        (measured(seed=seed)[0], measured("again", TRUE_MJ * (1 + shift), seed=100 + seed)[0])
        for seed, shift in enumerate([0.004, -0.004, 0.0, 0.003, -0.003] * 4)
    ]
    assert sum(factor(*pair).excludes(1.0) for pair in pairs) == 0


@pytest.mark.parametrize("true", [0.95, 1.03])
def test_the_factor_of_two_boards_is_found(true):
    """GIVEN boards that truly differ by some percent THEN the factor is theirs, within 1 %, and it is shown."""
    pairs = [(measured(seed=seed)[0], measured("b", true * TRUE_MJ, seed=50 + seed)[0]) for seed in range(20)]
    factors = [factor(*pair) for pair in pairs]
    assert [item.value for item in factors] == pytest.approx([true] * 20, rel=0.01)
    assert sum(item.excludes(true) for item in factors) <= 1
    assert all(item.excludes(1.0) for item in factors)


@pytest.mark.parametrize("time_us", [SAMPLING_S * 1e6 / 8, SAMPLING_S * 1e6 / 4, SAMPLING_S * 1e6 / 3 + 0.05])
def test_a_layer_in_step_with_the_sensor_is_measured_right(time_us):
    """GIVEN a board that takes the layer in a fraction of its sensor's interval THEN the joules are right."""
    record, _ = measured(time_us=time_us, sampling_s=SAMPLING_S, noise=0.001)
    assert record["energy_mj"] == pytest.approx(TRUE_MJ, rel=0.01)


def test_a_board_that_is_too_noisy_has_none():
    """GIVEN windows that scatter by 10 % THEN there is no energy, and the reason says how wide the interval is."""
    record, _ = measured(noise=0.1)
    assert record["energy_mj"] is None
    assert "wide-interval" in record["reason"]


def kept(facts=FACTS, meter="nvml", shape=ON_GPU, **changed):
    record = {
        "board": reference.board_of(facts),
        **conditions_of(facts, meter, shape),
        "energy_mj": 50.0,
        **changed,
    }
    user_files.add(reference.FILE, {record["board"]: record})
    return record


def test_a_run_carries_what_its_board_took():
    """GIVEN a reference kept for one board THEN its runs carry it, and those of another board carry none."""
    record = kept()
    assert carried_reference(FACTS, "nvml", CUDA) == record
    assert carried_reference({**FACTS, "uuid": "GPU-b"}, "nvml", CUDA) is None


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"driver": "570"}, "driver"), ({"torch": "2.0"}, "PyTorch"), ({"power_limit_w": 500.0}, "power limit"),
        ({"workload": "transformer-layer-0"}, "workload"), ({"meter": "nvml-power"}, "meter"),
    ],
)  # fmt: skip
def test_a_reference_of_other_conditions_is_not_carried(changed, name):
    """GIVEN that another driver, PyTorch, limit, workload or meter was used THEN no run carries it."""
    record = kept(**changed)
    assert carried_reference(FACTS, "nvml", CUDA) is None
    assert outdated(record, FACTS, "nvml", CUDA) == [name]
    assert kept_reference(FACTS) == record


@pytest.mark.parametrize("damage", ["", "[]", '{"GPU-a": 3}'])
def test_a_damaged_file_is_no_reference(tmp_path, damage):
    """GIVEN a file that holds no references THEN there is none."""
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / reference.FILE).write_text(damage)
    assert carried_reference(FACTS, "nvml", CUDA) is None


def test_it_is_written_into_run_json(tmp_path):
    """GIVEN a reference of this machine by a run's meter THEN the run's device holds it; else nothing."""
    layer, states = reference_layer(replace(ON_CPU, hidden=64, inner=64), CPU)
    whole = Adapter("whole", (), "embedding", layers=(), parts=())

    def device(name):
        run = energyscope.profile(
            layer, {"states": states}, adapter=whole, root=tmp_path, name=name, meter="modelled", window_s=0.02,
            passes=2, component_budget_s=0.05, target_interval=0.9,
        )  # fmt: skip
        return run.document["device"]

    assert device("without")["reference"] is None
    record = kept(device_facts(CPU), "modelled", ON_CPU)
    assert device("with")["reference"] == record


@pytest.mark.slow
def test_the_doctor_measures_a_processor(tmp_path, monkeypatch):
    """GIVEN counters that rise by 48 W THEN a pass takes 48 W x its time, is kept, and shown without measuring."""
    monkeypatch.setenv("ENERGYSCOPE_POWERCAP", str(tmp_path / "powercap"))
    monkeypatch.setattr(reference, "LEAST_GRADES", ("A", "B", "C", "invalid"))  # other tests run beside it
    short = SamplingBudget(passes=2, budget_s=0.1, window_s=0.3, preheat_s=0.1, idle_each_pass=False)
    monkeypatch.setattr(reference, "sampling_budget", lambda meter: short)
    monkeypatch.setattr(settling, "LEADS_S", (0.0,))
    monkeypatch.setattr(counter, "OtherLoad", lambda: SimpleNamespace(notes=[], signs=lambda own_bytes: []))
    with one_socket(tmp_path / "powercap").writing():
        found = doctor.examine("cpu", reference=True)["reference"]
        again = doctor.examine("cpu")["reference"]
    assert found["workload"] == "small-transformer-layer-1"
    assert found["energy_mj"] == pytest.approx(48 * found["time_us"] / 1e3, rel=0.05)
    assert again == {**found, "outdated": []}
    assert carried_reference(device_facts(CPU), "rapl", CPU) == found
    assert platform.node() not in found["board"]  # run files do not say what a machine is called


def test_without_a_sensor_there_is_a_reason():
    """GIVEN a processor without counters THEN the reference is unknown, with the reason, and not kept."""
    findings = doctor.examine("cpu", reference=True)
    assert findings["reference"] == {"energy_mj": None, "reason": findings["verdict"]}
    assert doctor.examine("cpu")["reference"] is None
