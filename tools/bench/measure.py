"""One row of a benchmark: several sides do the same work in turns, so that a slow minute hits all of them.

Each side runs once untimed (to warm caches, compile kernels and compare answers), then `rounds` times. Reports give
medians and their ratio to the first side's, which is this project's.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SLOW_SECONDS = 4.0  # another system whose first run takes longer is not run again
MANY = 50  # with fewer times no 99th percentile is given


@dataclass
class Side:
    """One system at one piece of work. `run` does it once and returns its answer, which all sides must agree on.

    `before` runs untimed before each run, to undo it; `counts` returns, after the last run, numbers besides time:
    operations, pages, bytes, syncs.
    """

    name: str
    run: Callable[[], Any]
    before: Callable[[], object] = lambda: None
    counts: Callable[[], Mapping[str, float]] = dict


@dataclass
class Row:
    """A piece of work; `scale` turns the seconds of a run into `unit`: 1e3 for ms, 1e6 / n for µs each.

    In its turn a side runs `stretch` times in a row, after one run that does not count: otherwise short work would
    always find the caches full of the other sides' data. `things` says what a run processes, such as (1000, "edges");
    the report gives their number per second. If a row is `told`, nothing is timed: a run returns its figure, in `unit`.
    """

    name: str
    sides: Sequence[Side]
    rounds: int = 5
    unit: str = "ms"
    scale: float = 1e3
    stretch: int = 1
    things: tuple[int, str] | None = None
    told: bool = False


@dataclass
class Result:
    """The times of every side, in the row's unit, and its counts."""

    row: str
    unit: str
    times: dict[str, list[float]]
    counts: dict[str, dict[str, float]] = field(default_factory=dict)

    def median(self, side: str) -> float:
        """The median of a side's times."""
        return statistics.median(self.times[side])

    def percentile(self, side: str) -> float | None:
        """The 99th percentile; None for fewer than MANY times."""
        times = sorted(self.times[side])
        return times[round(0.99 * (len(times) - 1))] if len(times) >= MANY else None

    def ratio(self, side: str) -> float:
        """The median as a multiple of the first side's."""
        ours = next(iter(self.times))
        return self.median(side) / self.median(ours)


def is_ours(side: str, first: str) -> bool:
    """Is a side the first one, or a variant of the first?

    >>> is_ours("ivm, two threads", "ivm, one thread"), is_ours("DuckDB", "ivm")
    (True, False)
    """
    return side.partition(",")[0] == first.partition(",")[0]


class Disagreement(ValueError):
    """Two sides gave different answers to the same work, so their times mean nothing."""


def measure(row: Row, progress: Callable[[str], None] = lambda text: None) -> Result:
    """Run the sides in turns.  Raises Disagreement."""
    times = _told(row, progress) if row.told else _timed(row, progress)
    result = Result(row.name, row.unit, times, {side.name: dict(side.counts()) for side in row.sides})
    if row.things:
        number, things = row.things
        for side in row.sides:
            result.counts[side.name][f"{things}/s"] = round(number / (result.median(side.name) / row.scale))
    return result


def _told(row: Row, progress: Callable[[str], None]) -> dict[str, list[float]]:
    """The figures that the runs return."""
    times: dict[str, list[float]] = {side.name: [] for side in row.sides}
    for turn in range(row.rounds):
        for side in row.sides:
            progress(f"{row.name}: {side.name}, {turn + 1} of {row.rounds}")
            side.before()
            times[side.name].append(side.run())
    return times


def _timed(row: Row, progress: Callable[[str], None]) -> dict[str, list[float]]:
    times = {side.name: _first(row, side, progress) for side in row.sides}
    answers = {name: answer for name, (answer, _) in times.items()}
    if any(answer != answers[row.sides[0].name] for answer in answers.values()):
        raise Disagreement(f"{row.name}: {' and '.join(answers)} differ: {answers}")
    others = [
        side.name for side in row.sides if not is_ours(side.name, row.sides[0].name)
    ]  # this project may have compiled kernels
    slow = {name: [times[name][1] * row.scale] for name in others if times[name][1] > SLOW_SECONDS}
    taken = {side.name: slow.get(side.name, []) for side in row.sides}
    with _no_collections():
        for turn in range(0, row.rounds, row.stretch):
            for side in row.sides:
                if side.name not in slow:
                    progress(f"{row.name}: {side.name}, {turn + 1} of {row.rounds}")
                    stretch = min(row.stretch, row.rounds - turn)
                    taken[side.name] += [s * row.scale for s in _seconds(side, stretch, int(row.stretch > 1))]
    return taken


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep garbage collection from visiting the objects that exist now, which would fill the caches each turn."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _first(row: Row, side: Side, progress: Callable[[str], None]) -> tuple[Any, float]:
    """The answer of a first run, and its seconds, which count only if the side is too slow for a second run."""
    progress(f"{row.name}: {side.name}, warming up")
    side.before()
    began = time.perf_counter()
    answer = side.run()
    return answer, time.perf_counter() - began


def _seconds(side: Side, runs: int, warming: int) -> list[float]:
    """The seconds of `runs` runs in a row, after `warming` runs that do not count, without garbage collection."""
    seconds = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(warming + runs):
            side.before()
            began = time.perf_counter()
            side.run()
            seconds.append(time.perf_counter() - began)
    finally:
        gc.enable()
    return seconds[warming:]
