"""What devices take while they wait for a component that runs on another one."""

from __future__ import annotations

import pytest
from test_aggregate import COMMON, component, entry

from energyscope.accounting.aggregate import attribute
from energyscope.accounting.records import IdlePower

BOTH = ["cuda:0", "cuda:1"]
TREE = [
    {**component("model", "model", "model", None), "devices": BOTH},
    {**component("h.0", "layer", "layer", "model", 0, calls=2), "devices": ["cuda:0"]},
    {**component("h.1", "layer", "layer", "model", 1), "devices": ["cuda:1"]},
]
ENERGY = {"node:model": [6.0, 7.0], "node:h.0": [4.0, 1.0], "node:h.1": [1.5, 5.0]}


def rows(devices=BOTH, tree=TREE, energy=ENERGY):
    targets = [{"key": key, "what": "node", "members": [key.removeprefix("node:")]} for key in energy]
    header = {**COMMON, "devices": devices, "tree": tree, "subjects": targets}
    windows = [
        {**entry(key, number, sum(each)), "devices": each} for key, each in energy.items() for number in range(5)
    ]
    return {row.component: row for row in attribute(header, windows, IdlePower(100.0)).rows}


def test_a_component_leaves_the_other_device_waiting():
    """Its energy is the sum over the devices, and the other one's share stands apart, per pass of the model."""
    by_component = rows()
    assert by_component["h.0"].energy_mj == pytest.approx(2 * 5.0)
    assert by_component["h.0"].waiting_mj == pytest.approx(2 * 1.0)
    assert by_component["h.1"].waiting_mj == pytest.approx(1.5)
    assert (by_component["h.0"].device, by_component["h.1"].device) == ("cuda:0", "cuda:1")


def test_a_model_on_both_waits_as_much_as_its_parts():
    """Where a component is on all devices, what waits is what its children leave waiting."""
    by_component = rows()
    assert by_component["model"].device == "cuda:0+cuda:1"
    assert by_component["model"].waiting_mj == pytest.approx(2 * 1.0 + 1.5)


def test_nothing_waits_on_one_device():
    """On one device there is no such share: it is unknown to be anything, not 0."""
    assert {row.waiting_mj for row in rows(devices=["cuda:0"]).values()} == {None}


def test_an_unknown_share_stays_unknown():
    """GIVEN a device whose energy is unknown THEN neither the component nor the model has a waiting share."""
    by_component = rows(energy={**ENERGY, "node:h.0": [4.0, 1.0]}, tree=[*TREE, {
        **component("h.2", "layer", "layer", "model", 2), "devices": ["cuda:0"],
    }])  # fmt: skip
    assert by_component["h.2"].waiting_mj is None
    assert by_component["model"].waiting_mj is None
