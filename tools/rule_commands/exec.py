"""`ivm exec FILE '+edge(1, 2). -edge(3, 4).'`: run one transaction, and print its changes to the views."""

import argparse
from functools import partial

import pyarrow as pa

from ..cli.answers import answer, common, plain
from ..cli.workspace_options import argument_or_stdin, changes, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("text", help="edits; - reads them from stdin")
    parser.add_argument("--rows", action="store_true", help="show every row that changed in a view")


def run(options: argparse.Namespace) -> int:
    """Run the edits, and print the version and the changes; return the exit code."""
    deltas: dict[str, pa.Table] = {}
    text = argument_or_stdin(
        options.text.removeprefix(" ")
    )  # before the store is opened, so that no writer waits while the user types
    with opened(options) as workspace:
        for name in (n for n, p in workspace.predicates.items() if not p.extensional):
            workspace.subscribe(name, partial(deltas.__setitem__, name))
        version = workspace.exec(text)
    changed = {name: changes(delta) for name, delta in deltas.items()}
    lines = [f"version {version}"]
    for name, rows in changed.items():
        come = sum(sign == "+" for sign, _ in rows)
        lines.append(f"{name}: {come:,} new, {len(rows) - come:,} removed")
        if options.rows:
            lines += [f"  {sign} {', '.join(map(plain, row))}" for sign, row in rows]
    answer(options, {"version": version, "changes": changed}, "\n".join(lines))
    return 0
