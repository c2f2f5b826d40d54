"""`pagestore dump FILE -o OUT`: the content as a compressed stream that later releases read."""

import argparse
import sys

from pagestore.tooling import written

from ..cli.answers import answer, common, opened, size, version_or_name
from ..cli.progress import Progress


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("-o", "--output", default="-", help="a file, or - for stdout")
    parser.add_argument("--relation", action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--version", action="append", type=version_or_name, help="this one; may be repeated"
    )
    parser.add_argument(
        "--all-versions", action="store_true", help="every version of the main branch that is kept"
    )


def run(options: argparse.Namespace) -> int:
    """Write the dump; return the exit code."""
    if options.output == "-" and sys.stdout.isatty():
        raise argparse.ArgumentError(
            None, "a dump is not a text for a terminal: name a file with -o, or use a pipe"
        )
    with opened(options) as store, Progress("dump", options.quiet) as progress:
        versions = options.version
        if options.all_versions:
            versions = [info.version for info in store.history(branch="main") if info.version]
        progress(f"to {options.output}")
        if options.output == "-":
            store.dump(sys.stdout.buffer, versions, options.relation)
        else:
            with written(options.output, options.file) as out:
                store.dump(out, versions, options.relation)
                held = out.tell()
            progress.clear()
            answer(
                options,
                {"output": options.output, "bytes": held},
                f"{options.output}: {size(held)}",
            )
    return 0
