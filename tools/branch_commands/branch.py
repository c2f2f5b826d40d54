"""`pagestore branch FILE [NAME [VERSION]] [--delete]`: list, begin and delete branches."""

import argparse

from ..cli.answers import answer, common, opened, plain, version_or_name


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("name", nargs="?", help="without a name, the branches are listed")
    parser.add_argument(
        "version", nargs="?", type=version_or_name, help="where it begins: main's newest by default"
    )
    parser.add_argument("--delete", action="store_true", help="delete the branch and its versions")


def run(options: argparse.Namespace) -> int:
    """Begin or delete a branch if named, and print all branches; return the exit code."""
    if options.delete and (not options.name or options.version is not None):
        raise argparse.ArgumentError(None, "--delete needs the name of a branch, and nothing else")
    with opened(options, "rw" if options.name else "r") as store:
        if options.delete:
            store.delete_branch(options.name)
        elif options.name:
            store.branch(options.name, options.version)
        branches = store.branches
        lines = [f"{plain(name)} {version}" for name, version in sorted(branches.items())]
        answer(options, {"branches": branches}, "\n".join(lines))
    return 0
