"""`pagestore backup FILE OUT [--since VERSION]`: copy the newest version's pages, while others
read and write.
"""

import argparse

from pagestore.tooling import written

from ..cli.answers import answer, common, opened, version_or_name
from ..cli.progress import Progress


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("output")
    parser.add_argument(
        "--since",
        type=version_or_name,
        metavar="VERSION",
        help="only pages younger than this version of an earlier backup, a number or a tag; it "
        "must still be retained",
    )


def run(options: argparse.Namespace) -> int:
    """Write the backup, and print its version; return the exit code."""
    with opened(options) as store, Progress("backup", options.quiet) as progress:
        progress(f"to {options.output}")
        with written(options.output, options.file) as out:
            version = store.backup(out, options.since)
        progress.clear()
        answer(options, {"version": version}, f"{options.output} holds version {version}")
    return 0
