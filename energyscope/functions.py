"""Functions that a module calls, as components of their own: the attention core is one.

Scaled dot product attention is no module: it cannot be hooked or replayed. A `FunctionCall` stands for the calls
of one function by one module, its caller. To see or to answer these calls, the function is replaced on its owner
while the caller's forward runs, and at no other time:

    caller.forward:      |-- query, key, value --|-- core --|-- output --|
    owner.function:  own | stand-in ...................................  | own

So the calls of other modules stay as they are, and no code has to track which layer is running.
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

    ``path`` is the function's dotted path; calls are only seen if they look it up on its owner. The owner is a
    module, or a class: a method's first argument is the object that it is called on. The caller is not a child,
    and is not kept alive.
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
        """Call the function; through `nn.Module.__call__` only for hooks, since in the model it is no module."""
        if self._forward_hooks or self._forward_pre_hooks:
            return super().__call__(*args, **kwargs)
        return self.function(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, also while the caller's calls are answered by a stand-in."""
        return self.function(*args, **kwargs)

    def extra_repr(self) -> str:
        """Name the function where the module is printed."""
        return self.path

    @property
    def owner(self) -> Any:
        """The object that has the function as attribute; resolved each time, since a module cannot be copied."""
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

    def answer(*args: Any, **kwargs: Any) -> Any:  # a plain function: a class hands it the object it is called on
        return stand_in(*args, **kwargs)

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


@contextmanager
def routed(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Route calls of functions through those of the modules that are a `FunctionCall`, so that hooks see them.

    Other modules are left as they are: the model calls them itself.
    """
    with ExitStack() as stack:
        for module in modules:
            if isinstance(module, FunctionCall):
                stack.enter_context(answered(module, module))
        yield


@contextmanager
def exchanged_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace one module's forward as long as the context lasts."""
    before = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:  # accelerate puts its own forward on the instance
            module.forward = before
