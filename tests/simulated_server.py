"""A server with continuous batching in simulation: its answers and its counter's ticks, from known costs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from energyscope.metering.ticks import Ticks
from energyscope.serving.client import Asking
from energyscope.serving.requests import Answer, Load, Served

PROMPT_S, PROMPT_TOKEN_S = 0.004, 4e-5
STEP_S, STEP_SEQUENCE_S = 0.006, 5e-5
PERIOD_S = 0.1


@dataclass
class SimulatedServer:
    """What each cause costs (see `CAUSES`), and how noisy the counter is. Time goes on from load to load."""

    time: float = 90.0
    active: float = 40.0
    requests: float = 0.3
    prompt: float = 0.02
    steps: float = 1.2
    tokens: float = 0.05
    context: float = 0.02
    noise: float = 0.005
    late_s: float = 0.0
    now_s: float = 100.0
    pieces: list[tuple[float, float, float]] = field(default_factory=list)  # begin (s), end (s), J

    def serve(self, load: Load, tokens_per_word: float = 1.0) -> Served:
        """Send the shapes of a load, as its docstring says."""
        begin_s = self.now_s
        rng = np.random.default_rng(len(load.name) + load.seed)
        if load.users is None and load.arrivals_s is None:
            self._go_on(begin_s + load.seconds, active=False)
            return Served(load, begin_s, self.now_s, [])
        shapes = itertools.cycle(load.shapes)
        first_s = begin_s + np.array(load.arrivals_s or rng.uniform(0, load.ramp_s, load.users))
        due = sorted((at_s, user) for user, at_s in enumerate(first_s))
        asking = Asking(load, begin_s)
        waiting: list[dict] = []
        running: list[dict] = []
        done: list[dict] = []
        while due or waiting or running:
            while due and due[0][0] <= self.now_s:
                sent_s, user = due.pop(0)
                if load.users is None or asking.goes_on(sent_s):
                    shape = next(shapes)
                    prompt = round(shape.words * tokens_per_word)
                    waiting.append(
                        {"sent": sent_s, "prompt": prompt, "most": shape.max_tokens, "chunks": [], "user": user}
                    )
            if waiting:
                running += self._compute(waiting.pop(0))
            elif running:
                self._step(running)
            elif due:
                self._go_on(due[0][0], active=False)
            for answer in [answer for answer in running if len(answer["chunks"]) >= answer["most"]]:
                running.remove(answer)
                done.append({**answer, "end": self.now_s})
                if load.users is not None:
                    asking.ended(answer["user"], self._answer(load, len(done), done[-1]))
                    due.append((self.now_s, answer["user"]))
            due.sort()
        answers = [self._answer(load, number, answer) for number, answer in enumerate(done)]
        return Served(replace(load, seconds=asking.until_s - begin_s), begin_s, self.now_s, answers)

    def ticks(self) -> Ticks:
        """Return what a counter showed of all this."""
        rng = np.random.default_rng(1)
        begin_s, end_s = self.pieces[0][0], self.pieces[-1][1]
        edges = np.array([begin_s, *(piece[1] for piece in self.pieces)])
        energy = np.concatenate([[0.0], np.cumsum([piece[2] for piece in self.pieces])])
        times_s = np.arange(begin_s + 0.03, end_s, PERIOD_S)
        shown = np.interp(times_s - self.late_s, edges, energy)
        rises = np.diff(shown, prepend=0.0) * (1 + self.noise * rng.standard_normal(len(shown)))
        seen = times_s + rng.uniform(-0.0003, 0.0003, len(times_s))
        return Ticks(seen - 0.0005, seen + 0.0005, 1e3 * np.cumsum(rises))

    def _go_on(self, until_s: float, joules: float = 0.0, *, active: bool = True) -> None:
        seconds = until_s - self.now_s
        joules += seconds * (self.time + (self.active if active else 0.0))
        self.pieces.append((self.now_s, until_s, joules))
        self.now_s = until_s

    def _compute(self, answer: dict) -> list[dict]:
        self._go_on(
            self.now_s + PROMPT_S + PROMPT_TOKEN_S * answer["prompt"],
            self.requests + self.prompt * answer["prompt"],
        )
        answer["chunks"].append(self.now_s)
        return [answer]

    def _step(self, running: Sequence[dict]) -> None:
        context = sum(answer["prompt"] + len(answer["chunks"]) for answer in running) / 1e3
        joules = self.steps + self.tokens * len(running) + self.context * context
        self._go_on(self.now_s + STEP_S + STEP_SEQUENCE_S * len(running), joules)
        for answer in running:
            answer["chunks"].append(self.now_s)

    def _answer(self, load: Load, number: int, answer: dict) -> Answer:
        return Answer(
            load.name,
            number,
            answer["most"],
            answer["prompt"],
            answer["sent"],
            answer["sent"],
            answer["end"],
            tuple(answer["chunks"]),
            prompt_tokens=answer["prompt"],
            new_tokens=len(answer["chunks"]),
        )
