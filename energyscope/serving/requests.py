"""Requests to a server: what is to be sent, and what became of each. Plain data that travels between processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self


@dataclass(frozen=True)
class Shape:
    """One request to be sent: random words as its prompt, or a ``text`` of the user's, and most new tokens."""

    words: int
    max_tokens: int
    text: str | None = None


@dataclass(frozen=True)
class Load:
    """Requests that belong together: sent by a number of users, or at given times.

    ``users`` send each their next request when their last one ended, for ``seconds`` and until each of them has
    had ``rounds`` answers, and begin within the first ``ramp_s`` at random; ``shapes`` are taken in turn, again
    from the first after the last. Where ``arrivals_s`` are given (after the load's begin, one for each shape),
    requests go out then, whatever is still unanswered. A load with neither is a pause. The first
    ``shared_words`` of every prompt are the same in all loads of a ``seed``; all others are fresh, so that no
    cache of prefixes knows them: ``nonce`` makes them so from one measurement to the next.
    """

    name: str
    kind: str
    seconds: float
    shapes: tuple[Shape, ...] = ()
    users: int | None = None
    arrivals_s: tuple[float, ...] | None = None
    ramp_s: float = 0.0
    rounds: int = 0
    shared_words: int = 0
    seed: int = 0
    nonce: str = ""

    @property
    def request_name(self) -> str:
        """What the fresh words of its prompts depend on beside the seed."""
        return f"{self.nonce} {self.name}"

    def document(self) -> dict[str, Any]:
        """Return the load as plain data."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the load of plain data."""
        known = dict(document)
        known["shapes"] = tuple(Shape(**shape) for shape in known["shapes"])
        if known["arrivals_s"] is not None:
            known["arrivals_s"] = tuple(known["arrivals_s"])
        return cls(**known)


@dataclass(frozen=True)
class Answer:
    """What became of a request. Times are on the monotonic clock (s).

    ``due_s`` is when it should have been sent, ``sent_s`` when it was; ``chunks_s`` are the times at which text
    came, ``ended_s`` when the answer ended or failed. Tokens are those of the server's ``usage``, None where it
    gave none. ``error`` says in one line why it failed, None where it did not.
    """

    load: str
    number: int
    max_tokens: int
    words: int
    due_s: float
    sent_s: float
    ended_s: float
    chunks_s: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    new_tokens: int | None = None
    finish: str | None = None
    error: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the answer of plain data."""
        return cls(**{**document, "chunks_s": tuple(document["chunks_s"])})


@dataclass(frozen=True)
class Served:
    """A load that was sent: between which times (s, monotonic clock), and what became of its requests.

    Its ``load.seconds`` are those for which users asked. ``unsent`` requests were due after them.
    """

    load: Load
    begin_s: float
    end_s: float
    answers: Sequence[Answer]
    unsent: int = 0

    @classmethod
    def of(cls, load: Load, answers: Sequence[Answer], done: Mapping[str, Any]) -> Self:
        """Return a load that was sent, by what the client said at its end."""
        return cls(replace(load, seconds=done["seconds"]), done["begin_s"], done["end_s"], answers, done["unsent"])
