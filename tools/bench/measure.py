"""One row of a benchmark: the same work by several sides in turns, so that a slow minute hits them all.

Each side runs once untimed (caches warm, kernels compiled, answers compared), then `rounds` times. What
counts are medians, and their ratio to the first side's, which is ours.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Side:
    """One system at one piece of work. `run` does it once and returns its answer, the same for all sides.

    `before` puts things back, untimed; `counts` tells after the last run what it took besides time:
    operations, pages, bytes, syncs.
    """

    name: str
    run: Callable[[], Any]
    before: Callable[[], object] = lambda: None
    counts: Callable[[], Mapping[str, float]] = dict


@dataclass
class Row:
    """A piece of work; `scale` turns the seconds of a run into `unit`: 1e3 for ms, 1e6 / n for µs each."""

    name: str
    sides: Sequence[Side]
    rounds: int = 5
    unit: str = "ms"
    scale: float = 1e3


@dataclass
class Result:
    """Times of every side in the row's unit, and what was counted."""

    row: str
    unit: str
    times: dict[str, list[float]]
    counts: dict[str, dict[str, float]] = field(default_factory=dict)

    def median(self, side: str) -> float:
        return statistics.median(self.times[side])

    def ratio(self, side: str) -> float:
        """How many times as long as our side it takes."""
        ours = next(iter(self.times))
        return self.median(side) / self.median(ours)


class Disagreement(ValueError):
    """Two sides gave different answers to the same work, so their times mean nothing."""


def measure(row: Row, progress: Callable[[str], None] = lambda text: None) -> Result:
    """Runs the sides in turns."""
    answers = {}
    for side in row.sides:
        progress(f"{row.name}: {side.name}, warming up")
        side.before()
        answers[side.name] = side.run()
    for name, answer in answers.items():
        if answer != answers[row.sides[0].name]:
            raise Disagreement(f"{row.name}: {row.sides[0].name} and {name} differ: {answers}")
    times: dict[str, list[float]] = {side.name: [] for side in row.sides}
    for turn in range(row.rounds):
        for side in row.sides:
            progress(f"{row.name}: {side.name}, {turn + 1} of {row.rounds}")
            side.before()
            times[side.name].append(_seconds(side.run) * row.scale)
    return Result(row.name, row.unit, times, {side.name: dict(side.counts()) for side in row.sides})


def _seconds(run: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began
    finally:
        gc.enable()
