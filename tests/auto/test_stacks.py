"""Lists of layers: which are stacks, which give way to the lists inside, and which are numbered through."""

from __future__ import annotations

from torch import nn

from energyscope.auto.stacks import find_stacks, numbered_stacks


class Block(nn.Module):
    """A layer: a container of a linear."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Linear(4, 4)


class Stage(nn.Module):
    """Most of it is its blocks."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
        self.reduction = nn.Linear(4, 2)


class ToyAttention(nn.Linear):
    """An attention by its class."""


class AttendingStage(Stage):
    """A layer with a list of MLPs, as MobileBERT has it."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks)
        self.attention = ToyAttention(4, 4)


def model_of(**lists: nn.Module) -> nn.Module:
    model = nn.Module()
    for name, module in lists.items():
        model.add_module(name, module)
    return model


def test_encoder_and_decoder_are_two_stacks() -> None:
    """GIVEN two lists of layers THEN both are stacks, in the model's order, numbered through."""
    encoder, decoder = (model_of(layers=nn.ModuleList([Block(), Block()])) for _ in range(2))
    stacks = find_stacks(model_of(encoder=encoder, decoder=decoder))
    assert list(stacks) == ["encoder.layers", "decoder.layers"]
    assert numbered_stacks(stacks) == ("encoder.layers", "decoder.layers")


def test_stages_give_way_to_their_blocks() -> None:
    """GIVEN a list of stages of blocks THEN each stage's blocks are a stack."""
    stacks = find_stacks(model_of(stages=nn.ModuleList([Stage(2), Stage(3)])))
    assert list(stacks) == ["stages.0.blocks", "stages.1.blocks"]


def test_layers_with_an_attention_of_their_own_are_no_stages() -> None:
    """GIVEN layers that hold an attention beside a list of MLPs THEN they are the stack."""
    assert list(find_stacks(model_of(layer=nn.ModuleList([AttendingStage(2), AttendingStage(2)])))) == ["layer"]


def test_lists_side_by_side_are_numbered_once() -> None:
    """GIVEN attentions in one list and MLPs in the next (XLM) THEN the layers are numbered by the first."""
    lists = {name: nn.ModuleList([Block(), Block()]) for name in ("attentions", "ffns")}
    stacks = find_stacks(model_of(**lists))
    assert list(stacks) == ["attentions", "ffns"]
    assert numbered_stacks(stacks) == ("attentions",)
