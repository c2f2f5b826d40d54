"""`pagestore pull FILE OTHER [BRANCH]`: bring here what a branch of another copy changed."""

import argparse

import ivm as ivm  # registers its host, so that views follow
import pagestore

from ..cli.answers import common, opened
from .merge import answer_merge, on_conflict


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    of_copies(parser, "pull")
    on_conflict(parser)


def of_copies(parser: argparse.ArgumentParser, method: str) -> None:
    """Add what pull and push have in common; `method` is the store's."""
    parser.set_defaults(method=method)
    parser.add_argument("other", help="the file of another copy of the store")
    parser.add_argument("branch", nargs="?", default="main", help="main by default")
    parser.add_argument("--into", help="the branch that changes (default: of the same name)")


def run(options: argparse.Namespace) -> int:
    """Bring the changes over, and print the version that has them; return the exit code."""
    with (
        opened(options, "rw" if options.method == "pull" else "r") as store,
        pagestore.open(
            options.other, "r" if options.method == "pull" else "rw", create=False
        ) as other,
    ):
        changed = store if options.method == "pull" else other
        before = changed.branches.get(options.into or options.branch)
        given = {"on_conflict": options.on_conflict} if options.method == "pull" else {}
        call = getattr(store, options.method)
        answer_merge(options, call(other, options.branch, options.into, **given), before)
    return 0
