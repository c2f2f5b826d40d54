"""`pagestore backup FILE OUT [--since VERSION]`: the newest version's pages, while others read and write."""

import argparse

from ..cli.answers import answer, common, opened, version_or_name
from ..cli.new_file import written
from ..cli.progress import Progress


def arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("output")
    parser.add_argument(
        "--since", type=version_or_name, metavar="VERSION",
        help="only what is younger than an earlier backup's, which is still retained: a number, or its tag",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    with opened(options) as store, Progress("backup", options.quiet) as progress:
        progress(f"to {options.output}")
        with written(options.output, options.file) as out:
            version = store.backup(out, options.since)
        progress.clear()
        answer(options, {"version": version}, f"{options.output} holds version {version}")
    return 0
