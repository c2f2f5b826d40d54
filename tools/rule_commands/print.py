"""`ivm print FILE [NAME]`: the rows of a relation or view; without a name, a list of all."""

import argparse
from typing import Any

from ivm import Workspace
from ivm.sql import names_of

from ..cli.answers import answer, common, plain, table, version_or_name
from ..cli.rows import answer_rows, row_options
from ..cli.workspace_options import on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument("name", nargs="?", help="a relation or view")
    parser.add_argument(
        "--at", type=version_or_name, metavar="VERSION", help="as of a version or tag"
    )
    row_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print rows, or the list of relations and views; return the exit code."""
    if options.at is not None and options.name is None:
        raise argparse.ArgumentError(None, "--at needs the name of a relation or view")
    with opened(options, "r") as workspace:
        if options.name is None:
            data = contents(workspace)
            answer(options, data, listing(data))
            return 0
        past = workspace if options.at is None else workspace.at(options.at)
        answer_rows(options, past[options.name])
    return 0


def contents(workspace: Workspace) -> dict[str, Any]:
    """Return the names of installed blocks, and each relation and view with its number of rows."""
    known = workspace.predicates
    with workspace.store.snapshot() as snap:
        relations = {name for name in snap if name not in known or known[name].extensional}
        predicates = {
            name: {
                "kind": "relation" if name in relations else "view",
                "rows": len(workspace[name]),
            }
            for name in names_of(snap, workspace.blocks)
        }
    return {"installed": list(workspace.blocks), "predicates": predicates}


def listing(data: dict[str, Any]) -> str:
    """Return the contents as text."""
    rows = [(name, entry["kind"], entry["rows"]) for name, entry in data["predicates"].items()]
    installed = ", ".join(map(plain, data["installed"])) or "nothing"
    return f"installed: {installed}" + (
        "\n" + table(rows, ("name", "kind", "rows")) if rows else ""
    )
