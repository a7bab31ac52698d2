"""The models of a benchmark by precision: all stay on the device where they fit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from energyscope.benchmarking.memory import release

if TYPE_CHECKING:
    from energyscope.loading.variants import Variant

SHARE_OF_FREE = 0.7  # the rest is for activations


class ModelCache:
    """Returns models by precision. Where they do not all fit, one at a time is loaded, again and again.

    Those in ``given`` are loaded already, and stay.
    """

    def __init__(
        self,
        load: Callable[[str], Variant],
        device: torch.device,
        *,
        together: bool,
        given: Mapping[str, Variant] | None = None,
    ) -> None:
        self.together = together
        self.device = device
        self._load = load
        self._given = dict(given or {})
        self._held: dict[str, Variant] = {}

    def take(self, precision: str) -> Variant:
        """Return a precision's model, loaded where it is not yet; errors of loading are raised."""
        variant = self._given.get(precision) or self._held.get(precision)
        if variant is not None:
            return variant
        self.make_room(precision)
        self._held[precision] = self._load(precision)
        return self._held[precision]

    def make_room(self, precision: str) -> None:
        """Drop the models that `take` would drop, so that the one it loads can be counted by itself."""
        if not self.together and precision not in self._held and precision not in self._given:
            self.clear()

    def drop(self, precision: str) -> None:
        """Drop a model that cannot be used after all."""
        self._held.pop(precision, None)
        release(self.device)

    def clear(self) -> None:
        """Drop every model that was loaded here."""
        self._held.clear()
        release(self.device)


def fit_together(sizes: list[int | None], free: int | None) -> bool:
    """Return whether models of some sizes (bytes) fit together in the ``free`` memory; unknown: no.

    One that does not even fit alone does not count: it will not be loaded.
    """
    if free is None or None in sizes:
        return False
    return sum(size for size in sizes if size is not None and size <= free) <= SHARE_OF_FREE * free
