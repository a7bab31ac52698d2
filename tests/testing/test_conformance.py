"""The conformance kit: every check passes on a sound adapter, and fails on what it is for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from faulty_models import adapter, config
from task_models import task_model

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import Part, Task
from energyscope.components import component_tree
from energyscope.loading.libraries import silence_libraries
from energyscope.testing import Conformance, check_adapter
from energyscope.testing.conformance import behaviour, structure
from energyscope.testing.conformance.tiny import tiny_model
from energyscope.workloads import profile_inputs

LAYER = "model.layers.{layer}"
ORDER = [
    "declaration", "import", "model", "paths", "calls", "weights", "once", "FLOPs", "sums", "replay", "decode",
    "ablation", "removal", "traces",
]  # fmt: skip


def failed(report: Conformance) -> dict[str, str]:
    """Return the details of the checks that failed, by name."""
    return {check.name: check.detail for check in report.checks if check.passed is False}


def test_a_sound_adapter_passes_every_check() -> None:
    """GIVEN no fault THEN every check is made and passes, but for the import: the value has no module."""
    report = check_adapter(adapter(), config())
    assert report.problems == []
    assert report.passed
    assert [check.name for check in report.checks] == ORDER
    assert [check.name for check in report.checks if check.passed is None] == ["import"]
    assert (report.adapter, report.model) == ("faulty", "FaultyForCausalLM")
    assert "a tied head is one weight with its embedding" in report["once"].detail


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Part("mlp.up", f"{LAYER}.mlp.up", "fine"), f"the model has no module {LAYER}.mlp.up"),
        (Part("other", f"{LAYER}.mlp", "fine", function="torch.nn.functional.gone"), "no function 'torch.nn"),
    ],
)
def test_a_part_that_does_not_resolve(part: Part, words: str) -> None:
    """GIVEN a part of a name that no module or function has THEN it is named, and other checks still pass."""
    report = check_adapter(adapter(part), config())
    assert words in failed(report)["paths"]
    assert "weights" not in failed(report)


def test_an_optional_part_may_be_absent_or_not_called() -> None:
    """GIVEN the same parts, optional THEN nothing fails, and the details name them."""
    absent = Part("mlp.up", f"{LAYER}.mlp.up", "fine", optional=True)
    silent = Part("other", "side", "coarse", optional=True)
    report = check_adapter(adapter(absent, silent), config("unused"))
    assert set(failed(report)) == {"weights"}  # those of the spare linear belong to nothing that is called
    assert f"optional and not in this model: {LAYER}.mlp.up" in report["paths"].detail
    assert "optional and not called: side" in report["calls"].detail


def test_a_list_of_layers_that_is_none() -> None:
    """GIVEN ``layers`` that is another module THEN the paths say so."""
    wrong = adapter(
        Part("layer", "model.norm.{layer}", "coarse", optional=True), layers=("model.layers", "model.norm")
    )
    assert "no list of layers model.norm" in failed(check_adapter(wrong, config()))["paths"]


def test_a_part_that_is_never_called() -> None:
    """GIVEN a module that no forward pass calls, not optional THEN it is named."""
    report = check_adapter(adapter(Part("other", "side", "coarse")), config("unused"))
    assert "not called, and not declared optional: side" in failed(report)["calls"]


def test_a_forward_pass_that_fails() -> None:
    """GIVEN a model that cannot be run THEN one check says so, and nothing else is tried."""
    report = check_adapter(adapter(), config("broken"))
    assert failed(report) == {"calls": "no forward pass can be run: ValueError: no such input"}
    assert [check.name for check in report.checks] == ORDER[:5]


def test_weights_that_no_part_owns() -> None:
    """GIVEN an adapter without the embedding THEN its weights are named with their share."""
    detail = failed(check_adapter(adapter(without="embedding"), config()))["weights"]
    assert "in none: model.embed_tokens.weight" in detail
    assert not detail.startswith("100")


def test_a_block_that_no_part_owns() -> None:
    """GIVEN an adapter without the MLP THEN its linears, all of them, are what works in no block."""
    report = check_adapter(adapter(without="mlp"), config())
    assert set(failed(report)) == {"FLOPs", "sums"}
    for name in ("gate_proj", "up_proj", "down_proj"):
        assert f"model.layers.0.mlp.{name}" in report["FLOPs"].detail + report["sums"].detail


def test_parts_that_do_not_sum_to_their_parent() -> None:
    """GIVEN an MLP without its last linear THEN its parts do two thirds of its work, and the linear is named."""
    report = check_adapter(adapter(without="mlp.down"), config())
    assert set(failed(report)) == {"sums"}
    assert "model.layers.0.mlp: its parts do 66.7% of its FLOPs; outside them: model.layers.0.mlp.down_proj" in (
        report["sums"].detail
    )


@pytest.mark.parametrize(
    ("attention", "function"),
    [
        ("sdpa", "torch.nn.functional.scaled_dot_product_attention"),
        ("eager", "transformers.models.llama.modeling_llama.eager_attention_forward"),
    ],
)
def test_a_function_that_is_no_part(attention: str, function: str) -> None:
    """GIVEN an attention whose core is no part THEN the function that it calls is named, fused or not."""
    report = check_adapter(adapter(without="attention.core"), config(attn_implementation=attention))
    assert set(failed(report)) == {"sums"}
    assert re.search(
        rf"layers.1.self_attn: its parts do [\d.]+% of its FLOPs; outside them: {function}", report["sums"].detail
    )
    core = Part("attention.core", f"{LAYER}.self_attn", "fine", function=function)
    assert check_adapter(adapter(core, without="attention.core"), config(attn_implementation=attention)).passed


def test_work_in_a_components_own_code() -> None:
    """GIVEN an MLP with a product that is neither a module nor a known function THEN that is told, and passes."""
    report = check_adapter(adapter(), config("own code"))
    assert report.problems == []
    assert re.search(
        r"layers.0.mlp: its parts do [\d.]+% of its FLOPs, its own code the rest", report["sums"].detail
    )


def test_a_part_that_works_outside_its_parent() -> None:
    """GIVEN a linear that lies in the MLP and is called elsewhere THEN the MLP's parts do more than it does."""
    part = Part("other", f"{LAYER}.mlp.side", "fine")
    detail = failed(check_adapter(adapter(part), config("elsewhere")))["sums"]
    assert re.match(
        r"model.layers.0.mlp: its parts do 1\d\d.\d% of its FLOPs: some of it is counted twice", detail
    )


def test_two_components_that_hold_one_module() -> None:
    """GIVEN a block that holds another layer's MLP THEN both are named: its energy would count twice."""
    report = check_adapter(adapter(Part("other", "tail", "coarse")), config("overlap"))
    assert "tail holds model.layers.1.mlp, which is no part of it" in failed(report)["once"]


def test_tied_weights_that_are_two_parameters() -> None:
    """GIVEN a head and an embedding that share memory, and are one parameter or two THEN two would count twice."""
    loaded = tiny_model(adapter(), config())
    tree = component_tree(loaded.model, loaded.adapter, "fine")
    loaded.model.lm_head.weight = loaded.model.model.embed_tokens.weight
    assert structure.once(tree, loaded.model).passed
    loaded.model.lm_head.weight = torch.nn.Parameter(loaded.model.model.embed_tokens.weight.data)
    check = structure.once(tree, loaded.model)
    assert check.detail == (
        "model.embed_tokens.weight and lm_head.weight share their memory, and are not one parameter"
    )


def test_a_module_with_state() -> None:
    """GIVEN an MLP that counts its calls THEN its replay differs, and a pass leaves its counter changed."""
    report = check_adapter(adapter(without="mlp."), config("counter"))
    assert "model.layers.0.mlp" in failed(report)["replay"]
    assert failed(report)["traces"] == "a forward pass leaves model.layers.0.mlp.count"


def test_a_step_that_changes_its_cache() -> None:
    """GIVEN an attention that writes to the KV cache THEN both caches are told, and prefill is not."""
    report = check_adapter(adapter(), config("scribble"))
    for kind in ("dynamic", "static"):
        assert f"{kind} cache: other outputs than in the step" in failed(report)["decode"]
        assert (
            f"{kind} cache: its keys, values, states or length are others than before" in failed(report)["decode"]
        )
    assert "replay" not in failed(report)


def test_a_cache_that_cannot_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a cache that replay refuses THEN it fails a family that decodes by default, and no other."""

    def refuse(*_args: object, **_words: object) -> None:
        raise ValueError("no such layer")

    monkeypatch.setattr(behaviour, "decode_step", refuse)
    assert behaviour.decode(tiny_model(adapter(phase="both"), config())).passed is False
    check = behaviour.decode(tiny_model(adapter(phase="prefill"), config()))
    assert (check.passed, check.detail.count("ValueError: no such layer")) == (None, 2)


def test_a_part_whose_removal_does_not_reach_the_output() -> None:
    """GIVEN a module whose output nobody reads THEN its kind is named, and the ablation itself is sound."""
    report = check_adapter(adapter(Part("other", "side", "coarse")), config("unheard"))
    assert set(failed(report)) == {"removal"}
    assert report["removal"].detail.startswith("side (")


def test_outputs_that_cannot_be_compared() -> None:
    """GIVEN a model whose logits are not finite THEN the ablation fails, and removal is not known."""
    report = check_adapter(adapter(), config("infinite"))
    assert "not finite" in failed(report)["ablation"]
    assert report["removal"].passed is None


def test_a_forward_pass_that_leaves_hooks() -> None:
    """GIVEN a model that registers a hook in each pass THEN the module is named."""
    assert failed(check_adapter(adapter(), config("hooks")))["traces"] == "a forward pass leaves hooks of lm_head"


def test_what_measuring_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a hook, a weight or a function that is not what it was THEN each is told as measuring's."""
    loaded = tiny_model(adapter(), config())
    traces = behaviour.Traces(loaded, profile_inputs(loaded, sequence_length=4).inputs)
    assert traces.check(traces.of_a_pass()).passed
    loaded.model.lm_head.register_forward_pre_hook(lambda *_: None)
    loaded.model.lm_head.weight[0, 0] += 1
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", lambda *_: None)
    detail = traces.check([]).detail
    assert detail.startswith("measuring leaves ")
    for words in (
        "hooks of lm_head",
        "lm_head.weight",
        "a replaced torch.nn.functional.scaled_dot_product_attention",
    ):
        assert words in detail


def test_a_declaration_that_is_not_valid() -> None:
    """GIVEN an unknown kind THEN the declaration fails as `Adapter.problems` says, and no model is built."""
    report = check_adapter(adapter(Part("mpl", "side", "coarse")))  # type: ignore[arg-type]
    assert "unknown kind 'mpl'" in failed(report)["declaration"]
    assert report.model is None


def test_operations_whose_work_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN FLOPs that cannot be counted THEN two checks say so instead of passing."""
    loaded = tiny_model(adapter(), config())
    inputs = profile_inputs(loaded, sequence_length=4).inputs
    tree = structure.called_tree(loaded.model, loaded.adapter, "fine", inputs)
    unknown = {name: replace(work, flops=None) for name, work in structure.count_work(tree, inputs).items()}
    monkeypatch.setattr(structure, "count_work", lambda *_: unknown)
    assert [check(tree, inputs).passed for check in (structure.flops, structure.sums)] == [None, None]


@pytest.mark.parametrize(
    ("task", "path", "instead"),
    [
        ("masked-token", "", ()),
        ("image-classification", "", ()),
        ("embedding", "pooler", (Part("pooler", "pooler", "coarse", optional=True),)),
        (
            "sequence-to-sequence",
            "shared",
            tuple(Part("embedding", f"{stack}.embed_tokens", "coarse") for stack in ("encoder", "decoder")),
        ),
    ],
)
def test_models_of_other_tasks(task: Task, path: str, instead: tuple[Part, ...]) -> None:
    """GIVEN encoders, images or two stacks THEN each check is made.

    A pooler that mean embeddings do not read and a table that is not called are found, if not declared so.
    """
    declared = task_model(task).adapter
    others = tuple(part for part in declared.parts if part.path != path)
    report = check_adapter(replace(declared, parts=(*others, *instead)))
    assert report.problems == []
    steps = set() if task == "sequence-to-sequence" else {"decode"}
    assert {check.name for check in report.checks if check.passed is None} == {"import", *steps}
    if path:
        wrong = Part("other", path, "coarse")
        assert path in "".join(check_adapter(replace(declared, parts=(*others, wrong))).problems)


def test_an_installed_adapter_is_imported_too() -> None:
    """GIVEN an installed adapter, by value or by name THEN its module's import is checked."""
    silence_libraries()
    for given in (load_adapter("gpt2"), "gpt2"):
        assert check_adapter(given)["import"].detail.startswith("energyscope_adapters.gpt2:adapter in ")
