"""`ivm trace FILE VIEW [OLD [NEW]]`: what iterators do when a view is evaluated, or how that differs
between two versions; also as a picture.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from ivm import Workspace

from ..cli.answers import answer, common, counted, number, plain, version_or_name
from ..cli.workspace_options import on_branch, opened
from .trace_picture import page, picture

Version = int | str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument("view")
    parser.add_argument(
        "old", type=version_or_name, nargs="?", help="a version or tag, to compare with a later one"
    )
    parser.add_argument(
        "new", type=version_or_name, nargs="?", help="the later one; by default the newest"
    )
    parser.add_argument(
        "--limit", type=number, default=50, help="print at most this many operations (50)"
    )
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw where most happens, as a picture"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page: the picture, and all operations"
    )


def run(options: argparse.Namespace) -> int:
    """Print operations, and draw them; return the exit code."""
    with opened(options, "r") as workspace:
        answer_trace(options, workspace, options.view, options.old, options.new)
        for file, draw in ((options.svg, picture), (options.html, page)):
            if file:
                text = draw(workspace, options.view, options.old, options.new)
                file.write_text(text, encoding="utf-8")
    return 0


def answer_trace(
    options: argparse.Namespace,
    workspace: Workspace,
    view: str,
    old: Version | None = None,
    new: Version | None = None,
) -> None:
    """Print a view's operations at the newest version, or those that differ between two."""
    before = [] if old is None else workspace.trace(view, old)
    after = workspace.trace(view, new)
    data: dict[str, Any] = {"view": view, "steps": len(after)}
    if old is None:
        rows = [(" ", step) for step in after]
        end = f"{plain(view)}: {counted(len(after), 'operation')}"
    else:
        to = workspace.store.version if new is None else new
        data["distance"] = distance = workspace.trace_distance(view, old, to)
        lost = Counter(step.place for step in before) - Counter(step.place for step in after)
        won = Counter(step.place for step in after) - Counter(step.place for step in before)
        rows = [("-", step) for step in before if step.place in lost]
        rows += [("+", step) for step in after if step.place in won]
        end = f"{plain(view)}: {distance:,} of {len(after):,} trace rows differ"
    data["operations"] = [
        {"sign": sign.strip(), **step._asdict()} for sign, step in rows[: options.limit]
    ]
    lines = [f"{sign} {step}".rstrip() for sign, step in rows[: options.limit]]
    left = len(rows) - len(lines)
    answer(options, data, "\n".join([*lines, *["..."] * bool(left), end]))
