"""What a benchmark says: a text table while it runs, JSON for machines, an HTML page with bars for people."""

import html
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .measure import Result

PACKAGES = ("pagestore", "numpy", "numba", "duckdb", "polars", "lmdb", "pyarrow")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; color: #222 }
h2 { font-size: 1.1em; margin: 2em 0 .3em } td { padding: 0 .8em 0 0; white-space: nowrap }
td.n { text-align: right; font-variant-numeric: tabular-nums } .bar { fill: #b8c4d6 } .ours { fill: #2f6db5 }
"""


def as_text(result: Result) -> str:
    """One line a side: median, spread, ratio to ours, counts."""
    lines = [result.row]
    for side, times in result.times.items():
        lines.append(
            f"  {side:<28}{result.median(side):>12,.3f} {result.unit:<4}"
            f"[{min(times):,.3f} to {max(times):,.3f}]  x {result.ratio(side):.2f}  {_counts(result, side)}".rstrip()
        )
    return "\n".join(lines)


def _counts(result: Result, side: str) -> str:
    return "  ".join(f"{name} {count:,.10g}" for name, count in result.counts.get(side, {}).items())


def machine() -> dict[str, object]:
    """Where the figures were taken."""
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


def write(results: Sequence[Result], title: str, folder: Path) -> tuple[Path, Path]:
    """Writes `title`.json and `title`.html into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(result) | {"medians": {side: result.median(side) for side in result.times}} for result in results]
    data, page = folder / f"{title}.json", folder / f"{title}.html"
    data.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
    page.write_text(_page(results, title), encoding="utf-8")
    return data, page


def _page(results: Sequence[Result], title: str) -> str:
    sections = "".join(f"<h2>{html.escape(result.row)}</h2>{_bars(result)}" for result in results)
    about = html.escape(json.dumps(machine()))
    return (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1><p>Medians; the first side is ours. {about}</p>{sections}"
    )


def _bars(result: Result) -> str:
    longest = max(result.median(side) for side in result.times)
    rows = []
    for index, side in enumerate(result.times):
        median = result.median(side)
        kind = "bar" if index else "bar ours"
        rows.append(
            f"<tr><td>{html.escape(side)}<td class=n>{median:,.3f} {result.unit}<td class=n>&times; "
            f"{result.ratio(side):.2f}<td><svg width=400 height=14><rect class='{kind}' height=14 "
            f"width={max(1, 400 * median / longest):.0f} /></svg><td>{_counts(result, side)}"
        )
    return f"<table>{''.join(rows)}</table>"
