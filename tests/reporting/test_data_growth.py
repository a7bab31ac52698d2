"""What a decode step is spent on as its context grows."""

from __future__ import annotations

from pathlib import Path

import pytest
from generation_builder import Inference, build_inference

from energyscope.reporting.data.growth import CACHE, CORE, GROUPS, MLP, PROJECTIONS, REST, STEP, growth
from energyscope.reporting.data.scenes import scenes_data


def test_groups_add_up_to_the_step(tmp_path: Path) -> None:
    """At every context, attention, cache, projections, MLP and the rest are the whole step."""
    found = growth(scenes_data(build_inference(tmp_path / "run")))
    assert found is not None
    assert found.contexts == [128, 1024, 8192]
    assert found.groups == [CORE, CACHE, PROJECTIONS, MLP, REST]
    for context in found.contexts:
        parts = [found.at(group, context) for group in found.groups]
        step = found.at(STEP, context)
        assert step is not None
        assert sum(part.value for part in parts if part) == pytest.approx(step.value)
        assert all(part is not None and part.known for part in parts)


def test_the_groups_hold_every_kind_of_attention(tmp_path: Path) -> None:
    """The projections are query, key, value and output of all layers; the core stands alone."""
    scenes = scenes_data(build_inference(tmp_path / "run"))
    found = growth(scenes)
    assert found is not None
    kinds = {entry.kind: entry.energy.value for entry in scenes[1].energy.kinds}
    expected = sum(kinds[f"attention.{part}"] for part in ("query", "key", "value", "output"))
    projections, core = found.at(PROJECTIONS, 1024), found.at(CORE, 1024)
    assert projections is not None
    assert core is not None
    assert projections.value == pytest.approx(expected)
    assert core.value == pytest.approx(kinds["attention.core"])


def test_the_model_alone_is_a_point_of_the_whole_step_only(tmp_path: Path) -> None:
    """GIVEN the model at 192 tokens without components, THEN the step has that point and no group has."""
    found = growth(scenes_data(build_inference(tmp_path / "run", Inference(step_as_scene=True))))
    assert found is not None
    assert [point.context for point in found.whole] == [128, 192, 1024, 8192]
    assert {point.context for point in found.points} == {128, 1024, 8192}


def test_a_dynamic_cache_is_said_to_copy_itself_with_the_joules_of_that(tmp_path: Path) -> None:
    """The label names the copy and what it takes at each context."""
    found = growth(scenes_data(build_inference(tmp_path / "run")))
    assert found is not None
    assert found.cache.startswith("The cache is dynamic: it copies itself whole at each step.")
    assert found.cache.count("mJ") == 3


def test_a_static_cache_writes_one_slot(tmp_path: Path) -> None:
    """The label says that attention reads the full length."""
    found = growth(scenes_data(build_inference(tmp_path / "run", Inference(kv_cache="static"))))
    assert found is not None
    assert "writes one slot, and attention reads its full length" in found.cache


def test_what_further_context_costs_is_the_difference(tmp_path: Path) -> None:
    """The cost of 1,000 more tokens is that of the step between the first and the last context."""
    found = growth(scenes_data(build_inference(tmp_path / "run")))
    assert found is not None
    low, high = found.at(STEP, 128), found.at(STEP, 8192)
    assert low is not None
    assert high is not None
    each = (high.value - low.value) * 1000 / (8192 - 128)
    assert f"each further 1,000 tokens of context cost {each:.1f} mJ" in found.said[1]


def test_a_difference_that_cannot_be_told_is_not_a_cost(tmp_path: Path) -> None:
    """GIVEN contexts whose intervals overlap, THEN the sentence says that it cannot be told."""
    found = growth(scenes_data(build_inference(tmp_path / "run", Inference(contexts=(128, 129)))))
    assert found is not None
    assert found.said[1].startswith(
        "Whether further context adds energy to a step cannot be told: from 128 to 129 tokens it changes by"
    )


def test_modelled_joules_say_so(tmp_path: Path) -> None:
    """The sentences of a modelled run carry the word."""
    found = growth(scenes_data(build_inference(tmp_path / "run", Inference(modelled=True))))
    assert found is not None
    assert "MODELLED" in found.said[0]


@pytest.mark.parametrize("contexts", [(1024,), ()])
def test_one_context_shows_no_growth(tmp_path: Path, contexts: tuple[int, ...]) -> None:
    """GIVEN fewer than two contexts with components, THEN there is nothing to compare."""
    shape = Inference(contexts=contexts, generation=False, alternatives=False)
    assert growth(scenes_data(build_inference(tmp_path / "run", shape))) is None


def test_the_groups_have_an_order() -> None:
    """What grows comes first, the rest last."""
    assert GROUPS[0] == CORE
    assert GROUPS[-1] == REST
