"""Functions that a module calls, as components of their own: the attention core is one.

Scaled dot product attention is no module: nothing can be hooked or replayed there. A `FunctionCall` stands for
the calls that one module, its caller, makes of one function. To see or to answer these calls, the function is
exchanged on its owner while the caller's forward runs, and at no other time:

    caller.forward:      |-- query, key, value --|-- core --|-- output --|
    owner.function:  own | stand-in ...................................  | own

So the calls of other modules are left alone, and nothing has to know which layer is running.
"""

from __future__ import annotations

import functools
import pkgutil
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from energyscope.errors import ModelError


class FunctionCall(nn.Module):
    """The calls of one function by one module. It has no weights; calling it calls the function itself.

    ``path`` is the function's dotted path; it is called by attribute of its owner, else its calls are not seen.
    The owner is a module, or a class: of a method, the object that it is called on is the first argument.
    The caller is not a child, and is not kept alive.
    """

    def __init__(self, path: str, caller: nn.Module) -> None:
        """Find the function.

        Raises:
            ModelError: there is no such function.

        """
        super().__init__()
        self.path = path
        self.name = path.rpartition(".")[2]
        try:
            self.function: Callable[..., Any] = getattr(self.owner, self.name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ModelError(
                f"there is no function {path!r}: its adapter was written for other versions of its libraries"
            ) from error
        self._caller = weakref.ref(caller)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; through PyTorch's machinery only for hooks: in the model it is no module's call."""
        if self._forward_hooks or self._forward_pre_hooks:
            return super().__call__(*args, **kwargs)
        return self.function(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, also where the caller's calls of it are answered by something else."""
        return self.function(*args, **kwargs)

    def extra_repr(self) -> str:
        """Name the function where the module is printed."""
        return self.path

    @property
    def owner(self) -> Any:
        """What the function is an attribute of; found again each time, since a module cannot be copied."""
        return pkgutil.resolve_name(self.path.rpartition(".")[0])

    @property
    def caller(self) -> nn.Module:
        """The module whose calls these are.

        Raises:
            ModelError: the model is gone.

        """
        caller = self._caller()
        if caller is None:
            raise ModelError(f"the module that called {self.path} is gone: keep the model as long as its tree")
        return caller


@contextmanager
def answered(call: FunctionCall, stand_in: Callable[..., Any]) -> Iterator[None]:
    """Let a stand-in answer the caller's calls of the function, as long as the context lasts.

    It adds well under a microsecond to the caller's forward. For one caller and function, contexts do not nest:
    the outer one answers.
    """
    original = call.caller.forward
    owner, name = call.owner, call.name
    answer = _method(stand_in) if isinstance(owner, type) else stand_in

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        before = getattr(owner, name)
        setattr(owner, name, answer)
        try:
            return original(*args, **kwargs)
        finally:
            setattr(owner, name, before)

    with exchanged_forward(call.caller, forward):
        yield


def _method(stand_in: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a class hands the object that it is called on, as it does for its own."""

    def method(*args: Any, **kwargs: Any) -> Any:
        return stand_in(*args, **kwargs)

    return method


@contextmanager
def routed(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let the functions' calls go through those of the modules that are a `FunctionCall`, so that hooks see them.

    Ordinary modules are left as they are: the model calls them itself.
    """
    with ExitStack() as stack:
        for module in modules:
            if isinstance(module, FunctionCall):
                stack.enter_context(answered(module, module))
        yield


@contextmanager
def exchanged_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Give one module another forward as long as the context lasts."""
    before = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:  # accelerate puts its own forward on the instance
            module.forward = before
