"""`pagestore history FILE`: the retained versions, newest first."""

import argparse

from ..cli.answers import answer, common, number, opened, table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("--limit", type=number, help="list at most this many")
    parser.add_argument("--branch", help="only versions of this branch")


def run(options: argparse.Namespace) -> int:
    """Print the versions; return the exit code."""
    with opened(options) as store:
        versions = store.history(options.limit, options.branch)
        rows = [
            (
                v.version,
                f"{v.timestamp:%Y-%m-%d %H:%M:%S}",
                v.branch,
                f"{v.parent} {v.merged or ''}".strip() if v.version else "",
                " ".join(v.tags),
                v.message,
            )
            for v in versions
        ]
        data = {"versions": [v._asdict() for v in versions]}
        names = ("version", "time (UTC)", "branch", "made from", "tags", "message")
        answer(options, data, table(rows, names))
    return 0
