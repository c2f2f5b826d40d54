"""`pagestore vacuum FILE [--keep N] [--dry-run]`: drop old versions and texts, cut the file."""

import argparse

import ivm as ivm  # registers its host, which reports the texts in its rules

from ..cli.answers import answer, common, counted, number, opened, size


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument(
        "--keep", type=number, metavar="N", help="keep the newest N versions of each branch"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be dropped")


def run(options: argparse.Namespace) -> int:
    """Drop versions, or say which, and print what was freed; return the exit code."""
    with opened(options, "rw") as store:
        done = store.vacuum(keep_versions=options.keep, dry_run=options.dry_run)
        versions, pages = counted(len(done.dropped), "version"), counted(done.pages_freed, "page")
        lines = [
            f"{versions} would be dropped, and at least {pages} free"
            if options.dry_run
            else f"{versions} dropped, {pages} free, {size(done.bytes_cut)} cut off"
        ]
        if done.texts_removed:
            lines.append(
                f"{counted(done.texts_removed, 'text')} in no version any more left the dictionary"
            )
        if done.texts_kept:
            lines.append(f"texts stay: {done.texts_kept}")
        lines += [f"version {version} stays: {reason}" for version, reason in done.kept.items()]
        answer(options, done._asdict(), "\n".join(lines))
    return 0
