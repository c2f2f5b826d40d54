"""`ivm uninstall FILE NAME`: remove an installed block with its views and relations."""

import argparse

from ..cli.answers import answer, common
from ..cli.workspace_options import opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("name", help="the block's name; `ivm print FILE` lists the names")


def run(options: argparse.Namespace) -> int:
    """Remove the block, and print the version; the exit code."""
    with opened(options) as workspace:
        workspace.uninstall(options.name)
        version = workspace.store.version
        answer(options, {"name": options.name, "version": version}, f"{options.name} gone, version {version}")
    return 0
