"""`ivm exec FILE '+edge(1, 2). -edge(3, 4).' [--dry-run]`: run one transaction, and print its
changes to the views.
"""

import argparse

import pyarrow as pa

import ivm
from ivm.sql import wide_names

from ..cli.answers import answer, cell_text, common
from ..cli.workspace_options import argument_or_stdin, changes, on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument("text", help="edits; - reads them from stdin")
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would change; nothing is stored"
    )
    parser.add_argument("--rows", action="store_true", help="show every row that changed in a view")


def run(options: argparse.Namespace) -> int:
    """Run the edits, and print the version and the changes; return the exit code."""
    text = argument_or_stdin(
        options.text.removeprefix(" ")
    )  # before the store is opened, so that no writer waits while the user types
    with opened(options) as workspace:
        before, views = workspace.store.version, _views(workspace)
        if options.dry_run:
            version, changes_of, _ = workspace.preview(text)
            deltas = {name: changes_of[name] for name in views if name in changes_of}
        else:
            version = workspace.exec(text)
            deltas = _deltas(workspace, views, version) if version != before else {}
    changed = {name: changes(delta) for name, delta in deltas.items()}
    lines = [f"version {version}" + ", nothing is stored" * options.dry_run]
    for name, rows in changed.items():
        come = sum(sign == "+" for sign, _ in rows)
        lines.append(f"{name}: {come:,} new, {len(rows) - come:,} removed")
        if options.rows:
            lines += [f"  {sign} {', '.join(map(cell_text, row))}" for sign, row in rows]
    answer(options, {"version": version, "changes": changed}, "\n".join(lines))
    return 0


def _views(workspace: ivm.Workspace) -> list[str]:
    with workspace.store.snapshot() as snap:
        views = [name for name, one in workspace.predicates.items() if not one.extensional]
        return [*views, *wide_names(snap)]


def _deltas(workspace: ivm.Workspace, views: list[str], version: int) -> dict[str, pa.Table]:
    """Return how a version's views differ from those it was made from, by view, where they do."""
    parent = next(entry.parent for entry in workspace.store.history() if entry.version == version)
    with workspace.at(parent) as old, workspace.at(version) as now:
        deltas = {name: now.changes(name, old) for name in views}
    return {name: delta for name, delta in deltas.items() if delta is not None and delta.num_rows}
