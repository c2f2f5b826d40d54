"""Reports of a benchmark: text while it runs, JSON for machines, an HTML page with plots for people."""

import html
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from math import log10
from pathlib import Path

from .measure import Result, is_ours

PACKAGES = ("pagestore", "numpy", "numba", "duckdb", "polars", "lmdb", "pyarrow")
WIDTH, HEIGHT = 320, 14
LIMIT = "(limit)"  # marks the name of a side that is not a system but a limit of the machine
LOGARITHMIC_FROM = 30  # ratio of the longest to the shortest bar from which the scale is logarithmic
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76em; margin: 2em auto; padding: 0 1em; color: #222 }
h2 { font-size: 1.05em; margin: 2em 0 .2em } .note { color: #777; font-size: .85em }
table { border-collapse: collapse } td, th { padding: 0 .9em 0 0; white-space: nowrap; vertical-align: top }
th { color: #777; font-weight: normal; font-size: .85em; text-align: right } th.l { text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums } svg { vertical-align: middle }
td.c { white-space: normal; color: #666; font-size: .85em }
.bar { fill: #b8c4d6 } .ours { fill: #2f6db5 } .spread { stroke: #222; stroke-width: 1.5 }
"""


def as_text(result: Result) -> str:
    """One line for each side: median, ratio to the first, 99th percentile or spread; its counts on a line below."""
    widest = max(28, *map(len, result.times))
    lines = [result.row]
    for side in result.times:
        median = f"{figure(result.median(side)):>9} {result.unit}"
        lines.append(f"  {side:<{widest}}{median:<14}x {result.ratio(side):<8.2f}{_spread(result, side)}".rstrip())
        if result.counts.get(side):
            lines.append(f"      {_counts(result, side)}")
    return "\n".join(lines)


def figure(value: float) -> str:
    """A measured number with three significant digits.

    >>> figure(0.012345), figure(1.2345), figure(123.45), figure(54321.0)
    ('0.0123', '1.23', '123', '54,321')
    """
    digits = 2 - int(log10(value) // 1) if value > 0 else 0
    return f"{value:,.{max(0, digits)}f}"


def _spread(result: Result, side: str) -> str:
    times, high = result.times[side], result.percentile(side)
    if high is not None:
        return f"99 % within {figure(high)}"
    return f"{figure(min(times))} to {figure(max(times))}" if len(times) > 1 else ""


def _counts(result: Result, side: str) -> str:
    return ", ".join(f"{name} {count:,.10g}" for name, count in result.counts.get(side, {}).items())


def machine() -> dict[str, object]:
    """The machine and the versions that the figures were measured with."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "packages": versions,
    }


def write(results: Sequence[Result], title: str, folder: Path, about: str = "") -> tuple[Path, Path]:
    """Write `title`.json and `title`.html into `folder`, and return their paths; `about` says what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"{title}.json", folder / f"{title}.html"
    rows = [asdict(result) | _figures(result) for result in results]
    data.write_text(json.dumps({"about": about, "machine": machine(), "rows": rows}, indent=1))
    page.write_text(_page(results, title, about), encoding="utf-8")
    return data, page


def _figures(result: Result) -> dict[str, dict[str, float | None]]:
    sides = list(result.times)
    return {
        "medians": {side: result.median(side) for side in sides},
        "ratios": {side: result.ratio(side) for side in sides},
        "percentiles": {side: result.percentile(side) for side in sides},
    }


def _page(results: Sequence[Result], title: str, about: str) -> str:
    sections = "".join(f"<h2>{html.escape(result.row)}</h2>{_table(result)}" for result in results)
    place = machine()
    packages = place.pop("packages")
    assert isinstance(packages, dict)
    where = ", ".join(f"{name} {value}" for name, value in [*place.items(), *packages.items()])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1><p>{html.escape(about)}<p class=note>Medians; the first side is ours, and the ratio is to "
        f"it. A line across a bar goes from the least to the 99th percentile, or to the most. {html.escape(where)}"
        f"</p>{_overview(results)}{sections}</html>\n"
    )


def _overview(results: Sequence[Result]) -> str:
    """A line for each piece of work: the first side, and the fastest other system."""
    lines = []
    for result in results:
        ours = next(iter(result.times))
        others = [side for side in result.times if not is_ours(side, ours) and LIMIT not in side]
        if others:
            best = min(others, key=result.median)
            lines.append(
                f"<tr><td>{html.escape(result.row)}<td class=n>{figure(result.median(ours))} {result.unit}"
                f"<td class=n>&times; {result.ratio(best):.2f}<td>{html.escape(best)}"
            )
    head = "<tr><th><th>ours<th>fastest of the others<th class=l>which is"
    return f"<h2>At a glance</h2><table>{head}{''.join(lines)}</table>" if lines else ""


def _table(result: Result) -> str:
    medians = [result.median(side) for side in result.times]
    spread = min(medians) * LOGARITHMIC_FROM < max(medians)
    rows = "".join(_line(result, side, spread) for side in result.times)
    scale = "logarithmic" if spread else ""
    high = "99 %" if any(result.percentile(side) for side in result.times) else ""
    head = f"<tr><th><th>median<th>{high}<th>ratio<th class=l>{scale}<th class=l>"
    return f"<table>{head}{rows}</table>"


def _line(result: Result, side: str, logarithmic: bool) -> str:
    high = result.percentile(side)
    cells = [
        f"<td>{html.escape(side)}",
        f"<td class=n>{figure(result.median(side))} {result.unit}",
        f"<td class=n>{'' if high is None else figure(high)}",
        f"<td class=n>&times; {result.ratio(side):.2f}",
        f"<td>{_bar(result, side, logarithmic)}",
        f"<td class=c>{html.escape(_counts(result, side))}",
    ]
    return "<tr>" + "".join(cells)


def _bar(result: Result, side: str, logarithmic: bool) -> str:
    """The median as a bar, with the spread as a line on it."""
    medians = [result.median(side) for side in result.times]
    least, most = min(medians), max(medians)

    def x(value: float) -> float:
        part = (log10(value / least) + 0.3) / (log10(most / least) + 0.3) if logarithmic else value / most
        return min(WIDTH, max(1.0, 0.8 * WIDTH * part))

    times = result.times[side]
    lo, hi = x(min(times)), x(result.percentile(side) or max(times))
    kind = "bar ours" if side == next(iter(result.times)) else "bar"
    line = f"<line class=spread x1={lo:.0f} x2={hi:.0f} y1={HEIGHT // 2} y2={HEIGHT // 2} />" if hi - lo > 1 else ""
    return (
        f"<svg width={WIDTH} height={HEIGHT}><rect class='{kind}' height={HEIGHT} width={x(result.median(side)):.0f} />"
        f"{line}</svg>"
    )
