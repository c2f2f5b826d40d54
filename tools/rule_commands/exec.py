"""`ivm exec FILE '+edge(1, 2). -edge(3, 4).'`: run one transaction, and print its changes to the
views.
"""

import argparse

import pyarrow as pa

import ivm
from ivm.sql import wide_names

from ..cli.answers import answer, cell_text, common
from ..cli.workspace_options import argument_or_stdin, changes, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("text", help="edits; - reads them from stdin")
    parser.add_argument("--branch", default="main", help="the branch to edit (default: main)")
    parser.add_argument("--rows", action="store_true", help="show every row that changed in a view")


def run(options: argparse.Namespace) -> int:
    """Run the edits, and print the version and the changes; return the exit code."""
    text = argument_or_stdin(
        options.text.removeprefix(" ")
    )  # before the store is opened, so that no writer waits while the user types
    with opened(options) as workspace:
        before = workspace.store.branches.get(options.branch)
        version = workspace.exec(text, options.branch)
        deltas = _deltas(workspace, options.branch, version) if version != before else {}
    changed = {name: changes(delta) for name, delta in deltas.items()}
    lines = [f"version {version}"]
    for name, rows in changed.items():
        come = sum(sign == "+" for sign, _ in rows)
        lines.append(f"{name}: {come:,} new, {len(rows) - come:,} removed")
        if options.rows:
            lines += [f"  {sign} {', '.join(map(cell_text, row))}" for sign, row in rows]
    answer(options, {"version": version, "changes": changed}, "\n".join(lines))
    return 0


def _deltas(workspace: ivm.Workspace, branch: str, version: int) -> dict[str, pa.Table]:
    """Return how a version's views differ from those that it was made from, by view, where they
    do.
    """
    parent = next(
        one.parent for one in workspace.store.history(branch=branch) if one.version == version
    )
    views = [name for name, one in workspace.predicates.items() if not one.extensional]
    with workspace.at(parent) as old, workspace.at(version) as now:
        found = {name: now.changes(name, old) for name in (*views, *wide_names(now.snapshot))}
    return {name: delta for name, delta in found.items() if delta is not None and delta.num_rows}
