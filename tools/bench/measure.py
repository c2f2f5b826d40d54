"""One row of a benchmark: the same work by several sides in turns, so that a slow minute hits them all.

Each side runs once untimed (caches warm, kernels compiled, answers compared), then `rounds` times. What
counts are medians, and their ratio to the first side's, which is ours.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SLOW_SECONDS = 4.0  # a side of others whose first run takes longer is not run again
MANY = 50  # times from which a 99th percentile says something


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
    """A piece of work; `scale` turns the seconds of a run into `unit`: 1e3 for ms, 1e6 / n for µs each.

    A side runs `stretch` times in a row when its turn comes, and once more before: short work one by one would always
    find the caches full of the others' data. `things` are what a run gets through, such as (1000, "edges"): the report
    tells how many that makes a second. Of a row that is `told`, a run returns its own figure, in `unit`; nothing is
    timed.
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
    """Times of every side in the row's unit, and what was counted."""

    row: str
    unit: str
    times: dict[str, list[float]]
    counts: dict[str, dict[str, float]] = field(default_factory=dict)

    def median(self, side: str) -> float:
        return statistics.median(self.times[side])

    def percentile(self, side: str) -> float | None:
        """The 99th, if there are times enough for one."""
        times = sorted(self.times[side])
        return times[round(0.99 * (len(times) - 1))] if len(times) >= MANY else None

    def ratio(self, side: str) -> float:
        """How many times as long as our side it takes."""
        ours = next(iter(self.times))
        return self.median(side) / self.median(ours)


def is_ours(side: str, first: str) -> bool:
    """Is a side the first one, or a variant of it?

    >>> is_ours("ivm, two threads", "ivm, one thread"), is_ours("DuckDB", "ivm")
    (True, False)
    """
    return side.partition(",")[0] == first.partition(",")[0]


class Disagreement(ValueError):
    """Two sides gave different answers to the same work, so their times mean nothing."""


def measure(row: Row, progress: Callable[[str], None] = lambda text: None) -> Result:
    """Runs the sides in turns."""
    times = _told(row, progress) if row.told else _timed(row, progress)
    result = Result(row.name, row.unit, times, {side.name: dict(side.counts()) for side in row.sides})
    if row.things:
        number, things = row.things
        for side in row.sides:
            result.counts[side.name][f"{things}/s"] = round(number / (result.median(side.name) / row.scale))
    return result


def _told(row: Row, progress: Callable[[str], None]) -> dict[str, list[float]]:
    """The figures that the runs give themselves."""
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
    others = [side.name for side in row.sides if not is_ours(side.name, row.sides[0].name)]  # ours may have compiled
    slow = {name: [times[name][1] * row.scale] for name in others if times[name][1] > SLOW_SECONDS}
    taken = {side.name: slow.get(side.name, []) for side in row.sides}
    with _settled():
        for turn in range(0, row.rounds, row.stretch):
            for side in row.sides:
                if side.name not in slow:
                    progress(f"{row.name}: {side.name}, {turn + 1} of {row.rounds}")
                    stretch = min(row.stretch, row.rounds - turn)
                    taken[side.name] += [s * row.scale for s in _seconds(side, stretch, int(row.stretch > 1))]
    return taken


@contextmanager
def _settled() -> Iterator[None]:
    """What there is now is no garbage: to look at it before every turn would leave the caches full of it."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _first(row: Row, side: Side, progress: Callable[[str], None]) -> tuple[Any, float]:
    """The answer of a first run, and its seconds, which count only where nobody would wait for a second one."""
    progress(f"{row.name}: {side.name}, warming up")
    side.before()
    began = time.perf_counter()
    answer = side.run()
    return answer, time.perf_counter() - began


def _seconds(side: Side, runs: int, warming: int) -> list[float]:
    """Of some runs in a row, behind some that do not count, without the collector of garbage in between."""
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
