"""Functions that a module calls: exchanged while their caller runs, and at no other time."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import nn
from torch.nn import functional

from energyscope.errors import ModelError
from energyscope.functions import FunctionCall, answered, routed

SOFTMAX = "torch.nn.functional.softmax"
GELU = "torch.nn.functional.gelu"


class Caller(nn.Module):
    """Calls two functions, then another module that calls one of them."""

    def __init__(self, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(functional.softmax(x, dim=-1))
        return x if self.inner is None else self.inner(x)


def answer(value: float):
    return lambda x, **_kwargs: torch.full_like(x, value)


def test_a_function_call_calls_the_function() -> None:
    """It passes all arguments on, has no weights, and does not hold its caller as a child."""
    call = FunctionCall(SOFTMAX, Caller())
    x = torch.randn(2, 3)
    assert torch.equal(call(x, dim=0), functional.softmax(x, dim=0))
    assert not list(call.parameters())
    assert not list(call.children())
    assert SOFTMAX in repr(call)


def test_a_function_call_can_be_copied() -> None:
    """GIVEN a round over copies THEN a copy calls the same function and has the same caller."""
    caller = Caller()
    copied = copy.deepcopy(FunctionCall(SOFTMAX, caller))
    x = torch.randn(2, 3)
    assert torch.equal(copied(x, dim=0), functional.softmax(x, dim=0))
    assert copied.caller is caller


@pytest.mark.parametrize("path", ["torch.nn.functional.hardmax", "no_such_library.function", "torch.no.function"])
def test_an_unknown_function_is_an_error(path: str) -> None:
    """GIVEN a path that leads nowhere THEN the error names it."""
    with pytest.raises(ModelError, match=f"no function '{path}'"):
        FunctionCall(path, Caller())


def test_hooks_see_the_callers_calls() -> None:
    """WHEN calls are routed THEN hooks on the component fire, once for each call, and may change its output."""
    caller = Caller()
    call = FunctionCall(SOFTMAX, caller)
    seen = []
    call.register_forward_hook(lambda _module, args, output: (seen.append(args[0]), output * 0)[1])
    x = torch.randn(2, 3)
    with routed([caller, call]):
        assert torch.equal(caller(x), torch.zeros(2, 3))
    assert len(seen) == 1
    assert torch.equal(seen[0], x)
    caller(x)
    assert len(seen) == 1


def test_only_the_callers_calls_are_answered() -> None:
    """Another module's calls of the function, inside or outside of the caller, are its own."""
    inner = Caller()
    outer = Caller(inner)
    x = torch.randn(2, 3)
    with answered(FunctionCall(SOFTMAX, inner), answer(7.0)):
        expected = functional.gelu(torch.full((2, 3), 7.0))
        assert torch.equal(outer(x), expected)
        assert torch.equal(Caller()(x), functional.gelu(functional.softmax(x, dim=-1)))


def test_the_innermost_caller_answers() -> None:
    """GIVEN a caller inside a caller THEN each gets its own answer, also after the inner one has returned."""
    inner, order = Caller(), []
    outer = Caller(inner)
    outer.inner.register_forward_hook(lambda *_: functional.softmax(torch.ones(1, 1), dim=-1) and None)
    with (
        answered(FunctionCall(SOFTMAX, outer), lambda x, **_: order.append("outer") or x),
        answered(FunctionCall(SOFTMAX, inner), lambda x, **_: order.append("inner") or x),
    ):
        outer(torch.zeros(1, 1))
    assert order == ["outer", "inner", "outer"]


def test_two_functions_of_one_caller() -> None:
    """A caller's calls of two functions are answered apart."""
    caller = Caller()
    with answered(FunctionCall(SOFTMAX, caller), answer(1.0)), answered(FunctionCall(GELU, caller), answer(2.0)):
        assert torch.equal(caller(torch.zeros(1, 2)), torch.full((1, 2), 2.0))
    assert torch.equal(caller(torch.zeros(1, 1)), functional.gelu(torch.ones(1, 1)))


def test_the_component_itself_reaches_the_function() -> None:
    """WHILE the caller's calls are answered, calling the component still computes."""
    caller = Caller()
    call = FunctionCall(SOFTMAX, caller)
    with answered(call, lambda x, **kwargs: call(x, **kwargs) + 1):
        assert torch.equal(caller(torch.zeros(1, 1)), functional.gelu(torch.full((1, 1), 2.0)))


def test_everything_is_restored_after_an_error() -> None:
    """GIVEN a stand-in that fails THEN the function and the caller's forward are what they were."""
    caller, own = Caller(), functional.softmax

    def fails(*_args, **_kwargs):
        raise RuntimeError("stand-in")

    def run() -> None:
        with answered(FunctionCall(SOFTMAX, caller), fails):
            caller(torch.zeros(1, 1))

    with pytest.raises(RuntimeError, match="stand-in"):
        run()
    assert functional.softmax is own
    assert "forward" not in caller.__dict__


def test_a_forward_of_the_instances_own_is_kept() -> None:
    """GIVEN a forward on the instance, as accelerate puts there, THEN it runs inside and is there afterwards."""
    caller = Caller()
    original = caller.forward
    caller.forward = own = lambda x: original(x) + 1
    with answered(FunctionCall(GELU, caller), answer(3.0)):
        assert torch.equal(caller(torch.zeros(1, 1)), torch.full((1, 1), 4.0))
    assert caller.forward is own


def test_the_caller_is_not_kept_alive() -> None:
    """WHEN the model is gone THEN the component says so, and does not hold its memory."""
    call = FunctionCall(SOFTMAX, Caller())
    gc.collect()
    with pytest.raises(ModelError, match="is gone"):
        _ = call.caller
