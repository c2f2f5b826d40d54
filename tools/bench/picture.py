"""A picture of lines over sizes, as SVG: a title, axes with names and units, the spread; for light
and dark pages.

10^4 |          ___---   evaluated anew
     |    __---
10^2 |------------------ maintained      the band is from quartile to quartile
     +------------------
      10^3        10^6   edges
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, RIGHT, TOP = 720, 380, 88, 24, 56
LEGEND = 22  # pixels of a line of the legend
LIGHT = {"ink": "#1f2328", "faint": "#59636e", "grid": "#d8dee4", "paper": "#ffffff"}
DARK = {"ink": "#e6edf3", "faint": "#9198a1", "grid": "#3d444d", "paper": "#0d1117"}
COLOURS = (("#1f5fae", "#79b8ff"), ("#b34700", "#ffab70"), ("#22733a", "#7ee787"), ("#7a3e9d",
    "#d2a8ff"),
           ("#59636e", "#9198a1"))  # fmt: skip
DASHES = "none", "7 4", "2 3", "9 3 2 3", "1 5"  # also without colours the lines differ


class Spread(NamedTuple):
    """The first quartile, the median and the third quartile of some measurements."""

    low: float
    middle: float
    high: float


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
        plot = _Plot(sizes, lines, self.logarithmic)
        bottom = TOP + HEIGHT
        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} "
            f"{bottom + 66 + LEGEND * len(lines)}' "
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
            for n in sizes
        ]
        for i, (name, spreads) in enumerate(lines.items()):
            parts += plot.line(i, sizes, spreads)
            at = bottom + 62 + LEGEND * i
            parts.append(
                f"<line class='line{i}' x1='{LEFT}' x2='{LEFT + 34}' y1='{at - 4}' y2='{at - 4}'/>"
            )
            parts.append(_text(LEFT + 44, at, name, "ink"))
        return "\n".join([*parts, "</svg>\n"])


class _Plot:
    """Where sizes and values are in the picture."""

    def __init__(
        self, sizes: Sequence[int], lines: Mapping[str, Sequence[Spread]], logarithmic: bool
    ) -> None:
        values = [one for line in lines.values() for spread in line for one in spread]
        self._first, self._last = log10(sizes[0]), max(log10(sizes[-1]), log10(sizes[0]) + 1)
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
        middle = [(self.x(n), self.y(s.middle)) for n, s in zip(sizes, spreads, strict=True)]
        return [
            f"<polygon class='band{number}' points='{_points([*there, *back])}'/>",
            f"<polyline class='line{number}' points='{_points(middle)}'/>",
            *(f"<circle class='dot{number}' cx='{x:.1f}' cy='{y:.1f}' r='3'/>" for x, y in middle),
        ]


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
