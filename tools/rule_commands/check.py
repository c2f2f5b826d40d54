"""`ivm check FILE.logiql`: compile rules, and print what is wrong with them; nothing is installed.

With --format github the lines are annotations for a workflow of GitHub, which shows them at their
place.
"""

import argparse
import re
from typing import NamedTuple

import ivm
from ivm.errors import RuleError, RuleWarning, UnknownPredicateError

from ..cli.answers import answer, common, counted, plain
from ..cli.workspace_options import block_name, text_of

PLACE = re.compile(r"[^:]*:(\d+):(\d+): (.*)", re.DOTALL)  # as warnings begin


class Finding(NamedTuple):
    """An error or a warning, and its place in a file."""

    level: str
    file: str
    line: int
    column: int
    said: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser, file=False)
    parser.add_argument("rules", nargs="+", help="files of rules; each may use those before it")
    parser.add_argument(
        "--store", metavar="FILE", help="a store whose relations and views the rules may use"
    )
    parser.add_argument(
        "--format", choices=["text", "github"], default="text", help="how faults are written (text)"
    )


def run(options: argparse.Namespace) -> int:
    """Print the faults; return 1 if there is an error."""
    faults = check(options.rules, options.store)
    errors = sum(finding.level == "error" for finding in faults)
    lines = [_github(fault) if options.format == "github" else _line(fault) for fault in faults]
    if options.format == "text":
        lines.append(f"{counted(len(options.rules), 'file')}: {counted(errors, 'error')}")
    answer(
        options, {"errors": errors, "findings": [one._asdict() for one in faults]}, "\n".join(lines)
    )
    return int(errors > 0)


def check(files: list[str], store: str | None) -> list[Finding]:
    """Compile the rules of files, over those of a store if one is given, and return what is
    wrong with them.
    """
    files_of = {block_name(file): file for file in files}
    texts = {name: text_of(file) for name, file in files_of.items()}
    with (
        ivm.open(":memory:")
        if store is None
        else ivm.open(store, mode="r", create=False) as workspace
    ):
        return [
            _finding(files_of[name], said, store is not None)
            for name, said in workspace.lint(texts)
        ]


def _finding(file: str, said: Exception, with_store: bool) -> Finding:
    if isinstance(said, RuleError):
        reason = said.reason
        if isinstance(said, UnknownPredicateError) and not with_store:
            ending = " Or" if reason.endswith("?") else ", or"
            reason = f"{reason.removesuffix('.')}{ending} give the store that has it with --store"
        return Finding("error", file, said.where.line, said.where.column, reason)
    level = "warning" if isinstance(said, RuleWarning) else "error"
    place = PLACE.match(str(said))
    if place:
        return Finding(level, file, int(place[1]), int(place[2]), place[3])
    return Finding(level, file, 1, 1, str(said))


def _line(finding: Finding) -> str:
    return f"{plain(finding.file)}:{finding.line}:{finding.column}: {finding.level}: {plain(finding.said)}"


def _github(finding: Finding) -> str:
    said = finding.said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{finding.level} file={plain(finding.file)},line={finding.line},col={finding.column}::{plain(said)}"
