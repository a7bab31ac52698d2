"""Attribution: rows, overhead, unexplained energy and closure follow from the windows by arithmetic."""

from __future__ import annotations

import pytest

from energyscope.accounting.aggregate import attribute
from energyscope.accounting.records import IdlePower
from energyscope.reasons import reason, split

COMMON = {
    "phase": "prefill", "precision": "fp32", "execution": "eager", "batch_size": 1, "context_length": 8,
    "device": "cuda:0", "meter": "nvml", "passes": 5,
}  # fmt: skip


def component(name, kind, level, parent, layer=None, calls=1):
    return {
        "name": name, "kind": kind, "layer": layer, "level": level, "parent": parent, "calls": calls,
        "parameters": 10, "weight_bytes": 40,
    }  # fmt: skip


TREE = [
    component("model", "model", "model", None),
    component("wte", "embedding", "block", "model"),
    component("h.0", "layer", "layer", "model", 0),
    component("h.0.attn", "attention", "block", "h.0", 0),
    component("h.0.mlp", "mlp", "block", "h.0", 0),
    component("h.1", "layer", "layer", "model", 1),
    component("h.1.attn", "attention", "block", "h.1", 1),
    component("h.1.mlp", "mlp", "block", "h.1", 1),
]
SUBJECTS = [
    *(
        {"key": f"node:{part['name']}", "what": "node", "members": [part["name"]]}
        for part in TREE
        if part["kind"] != "mlp"
    ),
    {"key": "group:h.{layer}.mlp", "what": "group", "members": ["h.0.mlp", "h.1.mlp"]},
    {"key": "glue:model", "what": "glue", "members": ["model"]},
    {"key": "glue:h.{layer}", "what": "glue", "members": ["h.0", "h.1"]},
]  # fmt: skip
ENERGY = {
    "node:model": 100.0, "node:wte": 5.0, "node:h.0": 42.0, "node:h.1": 44.0, "node:h.0.attn": 15.0,
    "node:h.1.attn": 16.0, "group:h.{layer}.mlp": 24.0, "glue:model": 6.0, "glue:h.{layer}": 2.0,
}  # fmt: skip


def tree_with(name, **changes):
    """Return the tree with another description of one component."""
    return [{**part, **changes} if part["name"] == name else part for part in TREE]


def entry(key, number, energy, **extra):
    figures = {"energy_mj": energy, "time_us": energy and energy * 5, "naive_mj": energy and energy * 1.1}
    window = {**figures, "power_w": 200.0, "ticks": 3, "calls": 100, "seconds": 0.4, "reason": None}
    return {"subject": key, "pass": number, "window": window, "clock_mhz": 1980.0, "throttle": 0, **extra}


def books(energies=ENERGY, idle_w=100.0, passes=5, extra=None, tree=TREE):
    entries = [
        entry(
            key,
            number,
            None if value is None else value * (1 + 0.001 * (3 * number % passes - passes // 2)),
            **(extra or {}).get(key, {}),
        )
        for key, value in energies.items()
        for number in range(passes)
    ]
    attribution = attribute({**COMMON, "tree": tree, "subjects": SUBJECTS}, entries, IdlePower(idle_w))
    return attribution, {row.component: row for row in attribution.rows}


def five(key, energy, **extra):
    return [entry(key, number, energy, **extra) for number in range(5)]


def five_of_each(energies):
    return [window for key, energy in energies.items() for window in five(key, energy)]


def test_unexplained_is_what_children_and_glue_leave():
    """node = children + overhead + unexplained, for the model and for a layer, and it may be negative."""
    _, rows = books()
    assert rows["model"].glue_mj == pytest.approx(6.0)
    assert rows["model"].self_mj == pytest.approx(100 - 5 - 42 - 44)
    assert rows["model"].unexplained_mj == pytest.approx(3.0)
    assert rows["h.0"].unexplained_mj == pytest.approx(42 - 15 - 24 - 2)
    _, rows = books({**ENERGY, "glue:h.{layer}": 5.0})
    assert rows["h.0"].unexplained_mj == pytest.approx(-2.0)


def test_a_kinds_mean_is_marked_reused():
    """A value that was not measured on that very layer is marked, and says of how many layers it is the mean."""
    _, rows = books()
    assert rows["h.0.mlp"].reused
    assert rows["h.1.mlp"].energy_mj == rows["h.0.mlp"].energy_mj
    assert reason("kind-mean", layers=2) in split(rows["h.0.mlp"].reasons)
    assert not rows["h.0.attn"].reused


def test_static_is_idle_power_times_time():
    """static = idle watts x time, dynamic the rest; unknown idle leaves both unknown, not 0."""
    _, rows = books()
    assert rows["wte"].static_mj == pytest.approx(100.0 * 25e-6 * 1e3)
    assert rows["wte"].dynamic_mj == pytest.approx(5.0 - 2.5)
    _, rows = books(idle_w=None)
    assert rows["wte"].static_mj is None
    assert rows["wte"].dynamic_mj is None


def test_values_are_per_forward_pass():
    """A component that is called twice in a pass costs two calls' energy and time."""
    _, rows = books(tree=tree_with("wte", calls=2))
    assert rows["wte"].energy_mj == pytest.approx(10.0)
    assert rows["wte"].time_us == pytest.approx(50.0)
    assert rows["wte"].power_w == pytest.approx(200.0)


def test_what_was_not_measured_is_unknown():
    """An interrupted run's missing targets are None with a reason, and so is what would need them."""
    energies = {key: value for key, value in ENERGY.items() if "attn" not in key}
    attribution, rows = books(energies)
    assert rows["h.0.attn"].energy_mj is None
    assert split(rows["h.0.attn"].reasons) == [reason("ended-before-measured")]
    assert rows["h.0"].unexplained_mj is None
    assert "layers" not in attribution.closure


@pytest.mark.parametrize(("execution", "host_bound"), [("eager", True), ("cuda-graph", False)])
def test_the_host_does_not_set_the_pace_of_graphs(execution, host_bound):
    """GIVEN a host that hardly waited THEN it set the pace of eager calls; a graph's launch may have waited."""
    entries = [each | {"waited_share": 0.001} for each in five_of_each(ENERGY)]
    header = {**COMMON, "execution": execution, "tree": TREE, "subjects": SUBJECTS}
    assert {row.host_bound for row in attribute(header, entries, IdlePower(100.0)).rows} == {host_bound}


def test_windows_without_a_value_keep_their_reason():
    """Windows that gave nothing make the row invalid, not zero."""
    nothing = dict.fromkeys(("energy_mj", "time_us", "power_w", "naive_mj"))
    window = {**nothing, "ticks": 0, "calls": 1, "seconds": 0.1, "reason": reason("counter-reset")}
    _, rows = books({**ENERGY, "node:wte": None}, extra={"node:wte": {"window": window}})
    assert rows["wte"].energy_mj is None
    assert rows["wte"].quality == "invalid"
    assert split(rows["wte"].reasons) == [reason("counter-reset")]


def test_heat_and_clocks_lower_the_grade():
    """Thermal throttling always counts; the power cap only where clocks were more than 1 % apart."""
    assert books()[1]["wte"].quality == "A"
    assert books(extra={"node:wte": {"guard": [reason("slowed-by-heat")]}})[1]["wte"].quality == "C"
    assert books(extra={"node:wte": {"throttle": 0x04}})[1]["wte"].quality == "A"
    capped = books(extra={"node:wte": {"throttle": 0x04, "clock_mhz": 1700.0}})[1]["wte"]
    assert capped.quality == "C"
    (clocks,) = split(capped.reasons)
    assert clocks.code == "other-clocks"
    assert clocks.values["change"] == pytest.approx(1700 / 1980 - 1, abs=1e-3)


def test_activity_is_the_mean_over_windows_whatever_the_calls():
    """Shares are not per call: their means stand in the row, with the part that limits it."""
    shares = {"sm": 0.9, "tensor": 0.1, "cuda_cores": 0.2, "dram": 0.7, "memory_w": 60.0, "reason": None}
    entries = five_of_each(ENERGY)
    for window, dram in zip(
        [item for item in entries if item["subject"] == "node:wte"], (0.6, 0.8) * 3, strict=False
    ):
        window["window"]["activity"] = {**shares, "dram": dram}
    header = {**COMMON, "tree": tree_with("wte", calls=3), "subjects": SUBJECTS}
    rows = {row.component: row for row in attribute(header, entries, IdlePower(100.0)).rows}
    row = rows["wte"]
    assert (row.sm_activity, row.dram_activity) == pytest.approx((0.9, 0.68))
    assert (row.limited_by, row.memory_power_w) == ("memory", 60.0)
    assert rows["h.0.attn"].limited_by is None


def test_a_row_says_why_its_activity_is_unknown():
    """GIVEN windows too short for the board's counters THEN the row has that reason, and its grade stays."""
    why = reason("activity-not-sampled", seconds=0.08)
    entries = five_of_each(ENERGY)
    for window in entries:
        window["window"]["activity"] = {"reason": why}
    rows = attribute({**COMMON, "tree": TREE, "subjects": SUBJECTS}, entries, IdlePower(100.0)).rows
    row = next(row for row in rows if row.component == "wte")
    assert (row.sm_activity, row.quality) == (None, "A")
    assert split(row.reasons) == [why]


def test_shares_and_proportional_attribution():
    """Shares are of the measured parent and model; time-proportional energy is the time share x the model."""
    _, rows = books()
    assert rows["h.0.attn"].share_of_total == pytest.approx(0.15)
    assert rows["h.0.attn"].share_of_parent == pytest.approx(15 / 42)
    assert rows["h.0.attn"].proportional_mj == pytest.approx(15.0)
    assert rows["model"].share_of_parent is None


def test_a_stalled_window_is_replaced_but_shows_in_the_spread():
    """GIVEN a window taken again THEN the mean is of the new one, the spread of the first, and the row says so."""
    slow = entry("node:wte", 0, 8.0)
    others = [entry("node:wte", number, 5.0) for number in range(1, 5)]
    again = entry("node:wte", 0, 5.0)
    targets = {**COMMON, "tree": TREE, "subjects": SUBJECTS}
    row = next(row for row in attribute(targets, [slow, *others, again], None).rows if row.component == "wte")
    assert row.energy_mj == pytest.approx(5.0)
    assert row.windows == 5
    assert row.spread_between_passes > 0.2
    assert reason("retaken-windows", windows=1) in split(row.reasons)


def test_calls_with_other_shapes_are_invalid():
    """A component whose calls differ in shape is not the first call's energy times their number."""
    _, rows = books(tree=tree_with("wte", calls=2, varied=True))
    assert rows["wte"].quality == "invalid"
    assert reason("varying-inputs") in split(rows["wte"].reasons)


def test_unknown_throttling_is_said():
    """A board that does not answer is not taken for one that did not throttle."""
    assert split(books(extra={"node:wte": {"throttle": None}})[1]["wte"].reasons) == [reason("throttling-unknown")]


def books_of(targets, entries, *, header=None, tree=TREE, idle_w=100.0):
    """Return the attribution of other targets, and their rows by name."""
    attribution = attribute(
        {**COMMON, "tree": tree, "subjects": targets, **(header or {})}, entries, IdlePower(idle_w)
    )
    return attribution, {row.component: row for row in attribution.rows}


def node(name, *stands_in):
    return {"key": f"node:{name}", "what": "node", "members": [name, *stands_in]}


def test_a_sampled_layer_stands_in_for_its_neighbours():
    """GIVEN a layer that was measured for another too THEN the other's value is marked, and says whose it is."""
    targets = [node("model"), node("wte"), node("h.0", "h.1"), node("h.0.attn", "h.1.attn")]
    energies = {"node:model": 100.0, "node:wte": 5.0, "node:h.0": 42.0, "node:h.0.attn": 15.0}
    entries = five_of_each(energies)
    attribution, rows = books_of(targets, entries)
    assert rows["h.1"].energy_mj == rows["h.0"].energy_mj == pytest.approx(42.0)
    assert (rows["h.0"].reused, rows["h.1"].reused) == (False, True)
    assert rows["h.1"].reasons == reason("measured-on", component="h.0")
    assert rows["h.0"].reasons == ""
    assert rows["h.1.attn"].reasons == reason("measured-on", component="h.0.attn")
    assert attribution.closure["model"]["energy"] == pytest.approx(0.89)


def test_rows_that_share_a_measurement_do_not_share_their_reasons():
    """GIVEN a kind's mean without work, or refused, THEN each row gives each reason once."""
    group = {"key": "group:mlp", "what": "group", "members": ["h.0.mlp", "h.1.mlp"]}
    for outcome in ({"empty": True}, {"unavailable": "it waits"}):
        _, rows = books_of([node("model"), group], [{"subject": "group:mlp", "pass": 0, **outcome}])
        assert rows["h.0.mlp"].reasons == rows["h.1.mlp"].reasons
        assert [note.code for note in split(rows["h.1.mlp"].reasons)].count("kind-mean") == 1


def test_headers_of_earlier_versions_are_read():
    """GIVEN a header without passes, notes, FLOPs and bytes THEN the parts add up all the same, these unknown."""
    header = {key: value for key, value in COMMON.items() if key != "passes"}
    entries = five_of_each(ENERGY)
    attribution = attribute({**header, "tree": TREE, "subjects": SUBJECTS}, entries, None)
    assert attribution.closure["model"]["energy"] == pytest.approx(0.97)
    assert attribution.differential == {}
    assert {(row.flops, row.bytes, row.differential_mj) for row in attribution.rows} == {(None, None, None)}


def test_flops_and_bytes_reach_the_row_and_unknown_ones_say_why():
    """What is known of a component's work is in its row; what is not has its reason."""
    tree = [
        {**TREE[0], "flops": 1e9, "executed_flops": 6e8, "bytes": 2e6, "work_reason": None},
        {
            **TREE[1],
            "flops": None,
            "bytes": 3e6,
            "work_reason": reason("operation-unknown", operation="its_kernel"),
        },
    ]
    _, rows = books(tree=tree, energies={"node:model": 100.0, "node:wte": 5.0})
    assert (rows["model"].flops, rows["model"].executed_flops, rows["model"].bytes) == (1e9, 6e8, 2e6)
    assert (rows["wte"].flops, rows["wte"].executed_flops, rows["wte"].bytes) == (None, None, 3e6)
    assert [note.values.get("why") for note in split(rows["wte"].reasons)] == [tree[1]["work_reason"]]


def test_each_devices_energy_is_listed_per_forward_pass():
    """GIVEN two devices and two calls a pass THEN each device's energy counts twice; unknown ones stay empty."""
    tree = [TREE[0], {**TREE[1], "calls": 2}]
    listed = five("node:wte", 5.0, devices=[3.0, 2.0])
    partly = five("node:model", None, devices=[60.0, None])
    _, rows = books_of([node("model"), node("wte")], [*listed, *partly], tree=tree)
    assert rows["wte"].devices_mj == "6;4"
    assert rows["model"].devices_mj == "60;"
    assert books()[1]["wte"].devices_mj is None


def test_a_differential_is_shared_among_its_kind_by_calls():
    """GIVEN 40 mJ less without a kind, of which one member is called thrice, THEN that one has 30 of them."""
    without = {"key": "without:mlp", "what": "without", "members": ["h.0.mlp", "h.1.mlp"]}
    entries = five_of_each({**ENERGY, "without:mlp": 60.0})
    attribution, rows = books_of([*SUBJECTS, without], entries, tree=tree_with("h.1.mlp", calls=3))
    assert attribution.differential["mlp"]["energy_mj"] == pytest.approx(40.0)
    assert attribution.differential["mlp"]["ratio"] == pytest.approx(96 / 40)
    assert rows["h.0.mlp"].differential_mj == pytest.approx(10.0)
    assert rows["h.1.mlp"].differential_mj == pytest.approx(30.0)
    assert rows["wte"].differential_mj is None


def test_glue_has_its_interval_time_idle_energy_and_work():
    """A parent's overhead is given with its interval, its time, its idle energy and its work, per forward pass."""
    _, rows = books()
    model = rows["model"]
    assert model.glue_ci_low_mj < model.glue_mj < model.glue_ci_high_mj
    assert model.glue_time_us == pytest.approx(30.0)
    assert model.glue_static_mj == pytest.approx(3.0)
    assert model.glue_dynamic_mj == pytest.approx(model.glue_mj - 3.0)
    assert model.glue_dynamic_ci_low_mj < model.glue_dynamic_mj < model.glue_dynamic_ci_high_mj
    assert rows["wte"].glue_mj is None


def test_others_on_the_device_lower_the_grade_of_what_was_measured_beside_them():
    """GIVEN a process in the idle time before a window THEN that row is C with its name, and others stay A."""
    entries = [
        *five("node:model", 100.0), {"pass": 0, "idle_w": 100.0, "bystanders": ["process 7"]},
        entry("node:wte", 0, 5.0), {"pass": 1, "idle_w": 100.0, "bystanders": []},
        *(entry("node:wte", number, 5.0) for number in range(1, 5)),
        *five("node:h.0", 42.0),
    ]  # fmt: skip
    _, rows = books_of([node("model"), node("wte"), node("h.0")], entries)
    assert (rows["wte"].quality, rows["wte"].reasons) == ("C", "process 7")
    assert rows["h.0"].quality == "A"


def test_others_beside_windows_that_do_not_count_do_not_count():
    """GIVEN a process beside a window that was taken again, or gave way to pauses, THEN the grade is clean."""
    before = [{"pass": 0, "idle_w": 100.0, "bystanders": ["process 7"]}, *five("node:wte", 9.0)]
    after = {"pass": 5, "idle_w": 100.0, "bystanders": []}
    again = five("node:wte", 5.0)
    paused = [entry("node:wte", number, 5.0, rest_us=25.0) for number in range(5, 10)]
    for kept in (again, paused):
        _, rows = books_of([node("model"), node("wte")], [*before, after, *kept])
        assert rows["wte"].quality == "A"
        assert rows["wte"].energy_mj == pytest.approx(5.0)


def test_intervals_are_per_forward_pass_too():
    """GIVEN three calls a pass THEN the ends of the interval are three calls' as well."""
    once, thrice = books()[1]["wte"], books(tree=tree_with("wte", calls=3))[1]["wte"]
    assert thrice.energy_ci_low_mj == pytest.approx(3 * once.energy_ci_low_mj)
    assert thrice.energy_ci_high_mj == pytest.approx(3 * once.energy_ci_high_mj)
    assert thrice.naive_mj == pytest.approx(3 * once.naive_mj)
