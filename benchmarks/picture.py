"""A picture of lines over sizes, or of single measurements, as SVG: a title, axes with names and
units, the spread; for light and dark pages.

10^4 |          ___---   evaluated anew
     |    __---
10^2 |------------------ maintained      the band is from quartile to quartile
     +------------------
      10^3        10^6   edges
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import ceil, cos, floor, log10, pi, sin
from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT, LEFT, RIGHT, TOP = 720, 380, 88, 24, 56
LEGEND = 22  # pixels of a line of the legend
LIGHT = {"ink": "#1f2328", "faint": "#59636e", "grid": "#d8dee4", "paper": "#ffffff"}
DARK = {"ink": "#e6edf3", "faint": "#9198a1", "grid": "#3d444d", "paper": "#0d1117"}
COLOURS = (("#1f5fae", "#79b8ff"), ("#b34700", "#ffab70"), ("#22733a", "#7ee787"), ("#7a3e9d",
    "#d2a8ff"),
           ("#59636e", "#9198a1"), ("#a40e4c", "#ff9bce"), ("#1f2328", "#e6edf3"))  # fmt: skip
# also without colours the lines differ, and so do the marks by how many corners they have
DASHES = "none", "7 4", "2 3", "9 3 2 3", "1 5", "12 4", "4 2"
CORNERS = 24, 3, 4, 5, 6, 3, 4


class Spread(NamedTuple):
    """The first quartile, the median and the third quartile of some measurements."""

    low: float
    middle: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the quartiles."""
    return Spread(*np.percentile(values, (25, 50, 75)).tolist())


class Picture(NamedTuple):
    """What a picture says beside its lines; `logarithmic` is the axis up, as that of the sizes
    is.
    """

    title: str
    across: str
    up: str
    logarithmic: bool = False

    def drawn(self, sizes: Sequence[int], lines: Mapping[str, Sequence[Spread]]) -> str:
        """Return the lines as SVG, each with its name in the legend and a band for its spread."""
        values = [one for line in lines.values() for spread in line for one in spread]
        plot = _Plot((sizes[0], sizes[-1]), values, self.logarithmic)
        inside = [plot.line(i, sizes, spreads) for i, spreads in enumerate(lines.values())]
        return self._framed(plot, sizes, lines, inside)

    def scattered(
        self,
        points: Mapping[str, Sequence[tuple[float, float]]],
        lines: Mapping[str, Callable[[float], float]],
    ) -> str:
        """Return measurements (x, y), each x and y at least 1, and functions of x, as SVG; both
        axes are logarithmic.
        """
        across, up = zip(*(one for some in points.values() for one in some), strict=True)
        power = ceil(log10(max(across)))
        at = [10.0**i for i in range(power + 1)]
        ends = [[line(at[0]), line(at[-1])] for line in lines.values()]
        plot = _Plot((1, at[-1]), [*up, *(y for pair in ends for y in pair)], True)
        marks = [[plot.mark(i, x, y) for x, y in some] for i, some in enumerate(points.values())]
        inside = marks[::-1] + [  # of marks at one place the first is seen: later ones go further
            [plot.path(len(points) + i, at, map(line, at))] for i, line in enumerate(lines.values())
        ]
        return self._framed(plot, at, [*points, *lines], inside)

    def _framed(
        self,
        plot: "_Plot",
        ticks: Sequence[float],
        names: Iterable[str],
        inside: Iterable[list[str]],
    ) -> str:
        """Return a drawing with its title, its axes, and a line of the legend for each name."""
        bottom, names = TOP + HEIGHT, [*names]
        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} "
            f"{bottom + 66 + LEGEND * len(names)}' "
            f"width='{WIDTH}' font-family='system-ui, sans-serif' font-size='13' role='img'>",
            f"<title>{escape(self.title)}</title><style>{_style()}</style>",
            "<rect class='paper' width='100%' height='100%'/>",
            _text(LEFT, 24, self.title, "ink", "font-size='16' font-weight='600'"),
            _text(LEFT, TOP - 12, self.up, "faint"),
            _text(WIDTH - RIGHT, bottom + 40, self.across, "faint", "text-anchor='end'"),
        ]
        for value in plot.ticks:
            y = plot.y(value)
            parts.append(
                f"<line class='grid' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}'/>"
            )
            parts.append(_text(LEFT - 8, y + 4, _number(value), "faint", "text-anchor='end'"))
        parts += [
            _text(plot.x(n), bottom + 20, _number(n), "faint", "text-anchor='middle'")
            for n in ticks
        ]
        for i, (name, drawn) in enumerate(zip(names, inside, strict=True)):
            at = bottom + 62 + LEGEND * i
            parts += drawn
            parts.append(
                _mark(i, LEFT + 17, at - 4)
                if drawn[0].startswith("<polygon class='dot")
                else f"<line class='line{i}' x1='{LEFT}' x2='{LEFT + 34}' y1='{at - 4}' y2='{at - 4}'/>"
            )
            parts.append(_text(LEFT + 44, at, name, "ink"))
        return "\n".join([*parts, "</svg>\n"])


class _Plot:
    """Where sizes, between two ends, and values are in the picture."""

    def __init__(
        self, ends: tuple[float, float], values: Sequence[float], logarithmic: bool
    ) -> None:
        self._first, self._last = log10(ends[0]), max(log10(ends[1]), log10(ends[0]) + 1)
        self._log, most = logarithmic, max(values)
        if logarithmic:
            self._low, self._high = floor(log10(max(1e-9, min(values)))), ceil(log10(most) + 1e-9)
            self.ticks: list[float] = [10.0**power for power in range(self._low, self._high + 1)]
        else:
            step = _step(most)
            self._low, self._high = 0, ceil(most / step)
            self.ticks = [step * i for i in range(self._high + 1)]
            self._step = step

    def x(self, size: float) -> float:
        return (
            LEFT
            + 24
            + (WIDTH - LEFT - RIGHT - 48) * (log10(size) - self._first) / (self._last - self._first)
        )

    def y(self, value: float) -> float:
        at = log10(max(value, 10.0**self._low)) if self._log else value / self._step
        return TOP + HEIGHT * (1 - (at - self._low) / (self._high - self._low))

    def line(self, number: int, sizes: Sequence[int], spreads: Sequence[Spread]) -> list[str]:
        """Return a band and a line."""
        there = [(self.x(n), self.y(s.high)) for n, s in zip(sizes, spreads, strict=True)]
        back = [(self.x(n), self.y(s.low)) for n, s in zip(sizes, spreads, strict=True)][::-1]
        return [
            f"<polygon class='band{number}' points='{_points([*there, *back])}'/>",
            self.path(number, sizes, (s.middle for s in spreads)),
            *(self.mark(number, n, s.middle) for n, s in zip(sizes, spreads, strict=True)),
        ]

    def path(self, number: int, across: Sequence[float], up: Iterable[float]) -> str:
        """Return a line from point to point."""
        points = [(self.x(x), self.y(y)) for x, y in zip(across, up, strict=True)]
        return f"<polyline class='line{number}' points='{_points(points)}'/>"

    def mark(self, number: int, x: float, y: float) -> str:
        """Return one measurement."""
        return _mark(number, self.x(x), self.y(y))


def _mark(number: int, x: float, y: float) -> str:
    """Return a mark, whose corners tell its number."""
    corners = CORNERS[number]
    turns = [2 * pi * (i + 0.5) / corners + pi / 2 for i in range(corners)]
    around = [(x + 3.5 * cos(turn), y + 3.5 * sin(turn)) for turn in turns]
    return f"<polygon class='dot{number}' points='{_points(around)}'/>"


def _step(most: float) -> float:
    """Return the distance of ticks up to a value: 1, 2 or 5 times a power of ten, for at most
    eight.

    >>> _step(97), _step(8), _step(12)
    (20.0, 1.0, 2.0)
    """
    power = 10.0 ** floor(log10(most / 8 or 1))
    return next(step * power for step in (1, 2, 5, 10) if step * power * 8 >= most)


def _number(value: float) -> str:
    """Return a number for people.

    >>> _number(1000), _number(0.5), _number(2.0e6)
    ('1,000', '0.5', '2,000,000')
    """
    return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}"


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _text(x: float, y: float, content: str, kind: str, more: str = "") -> str:
    return f"<text class='{kind}' x='{x:.1f}' y='{y:.1f}' {more}>{escape(content)}</text>"


def _style() -> str:
    """Return the colours, for light pages and for dark ones."""
    return f"{_colours(LIGHT, 0)} @media (prefers-color-scheme: dark) {{ {_colours(DARK, 1)} }}"


def _colours(page: Mapping[str, str], dark: int) -> str:
    rules = [
        f".{name} {{ {'stroke' if name == 'grid' else 'fill'}: {colour} }}"
        for name, colour in page.items()
    ]
    for i, (pair, dash) in enumerate(zip(COLOURS, DASHES, strict=True)):
        rules.append(
            f".line{i} {{ fill: none; stroke: {pair[dark]}; stroke-width: 2; stroke-dasharray: "
            f"{dash} }}"
        )
        rules.append(
            f".band{i} {{ fill: {pair[dark]}; opacity: 0.18 }} .dot{i} {{ fill: {pair[dark]} }}"
        )
    return " ".join(rules)
