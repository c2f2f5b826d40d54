"""`pagestore tag FILE [NAME [VERSION]] [--delete]`: list, set and delete names of versions."""

import argparse

from ..cli.answers import answer, common, opened, plain, version_or_name


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("name", nargs="?", help="without a name, the tags are listed")
    parser.add_argument(
        "version", nargs="?", type=version_or_name, help="the newest one by default"
    )
    parser.add_argument("--delete", action="store_true", help="delete the name")


def run(options: argparse.Namespace) -> int:
    """Set or delete a tag if named, and print all tags; return the exit code."""
    if options.delete and not options.name:
        raise argparse.ArgumentError(None, "--delete needs the name of a tag")
    if options.delete and options.version is not None:
        raise argparse.ArgumentError(
            None, "--delete takes a name back, whatever its version: leave the version out"
        )
    if options.name == "":
        raise argparse.ArgumentError(None, "a tag needs a name")
    with opened(options, "rw" if options.name else "r") as store:
        if options.delete:
            store.untag(options.name)
        elif options.name:
            store.tag(options.name, options.version)
        tags = store.tags
        answer(
            options,
            {"tags": tags},
            "\n".join(f"{plain(tag)} {version}" for tag, version in sorted(tags.items())),
        )
    return 0
