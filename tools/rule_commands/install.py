"""`ivm install FILE RULES [--name NAME] [--replace]`: install declarations and rules, fill and
maintain their views.
"""

import argparse
from pathlib import Path

from ..cli.answers import answer, common, counted, number, plain
from ..cli.progress import removed_if_empty
from ..cli.workspace_options import block_name, limits, on_branch, opened, text_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument("rules", help="a file of declarations, rules and edits; - is stdin")
    parser.add_argument(
        "--name",
        help="the name to install them under (by default the file's name without its ending)",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="in place of the rules of that name; relations and unchanged views stay",
    )
    parser.add_argument(
        "--granularity", type=number, default=1, help="operations that share one interval"
    )
    parser.add_argument("--maintenance", choices=("auto", "match", "probe"), default="auto")
    limits(parser)


def run(options: argparse.Namespace) -> int:
    """Install the rules, and print the rows of each new view; return the exit code."""
    text = text_of(options.rules)
    name = options.name or block_name(options.rules)
    with removed_if_empty(Path(options.file)), opened(options, create=True) as workspace:
        before = set(workspace)
        workspace.install(
            text,
            name,
            granularity=options.granularity,
            maintenance=options.maintenance,
            rows_max=options.rows_max,
            rounds_max=options.rounds_max,
            replace=options.replace,
        )
        names = [n for n in workspace if n not in before or n in workspace.evaluated]
        rows = {new: len(workspace[new]) for new in names}
        lines = [f"{plain(new)}: {counted(count, 'row')}" for new, count in rows.items()]
        lines += [f"{plain(old)}: removed" for old in before if old not in workspace]
        data = {"name": name, "version": workspace.store.version, "rows": rows}
        answer(
            options,
            data,
            "\n".join([f"{plain(name)} installed, version {data['version']}", *lines]),
        )
    return 0
