"""`ivm shell FILE`: rules and edits line by line.

A statement ends with a full stop at the end of a line, one of SQL with a semicolon.  Edits are executed, rules are
evaluated as queries, and a line that begins with a colon is a command.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path

from ivm import IvmError, Workspace
from ivm.lang.parse import parse
from ivm.lang.syntax_tree import Change
from pagestore.errors import PagestoreError

from ..cli.answers import answer, common, complain, number
from ..cli.progress import removed_if_empty
from ..cli.rows import answer_rows
from ..cli.workspace_options import block_name, opened, text_of
from .print import contents, listing
from .uninstall import said

WORDS = (
    "SELECT", "WITH", "FROM", "VALUES", "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "DROP", "ALTER",
    "DESCRIBE", "SHOW", "EXPLAIN", "BEGIN", "COMMIT", "ROLLBACK",
)  # fmt: skip
HELP = """\
+edge(1, 2). -edge(3, 4).          edits, one transaction
q(x) <- edge(x, y), tri(x, y, _).  a query
SELECT x FROM edge;                statements of SQL, up to a semicolon
:install FILE [NAME]               install the rules of a file
:replace FILE [NAME]               install them in place of those of that name
:uninstall NAME                    remove them and their views; relations stay
:list                              relations and views
:print NAME                        the rows of one
:explain NAME                      how a view is maintained, and why
:quit"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("--limit", type=number, default=50, help="print at most this many rows (50)")


def run(options: argparse.Namespace) -> int:
    """Run statements of stdin; return 1 if one failed and stdin is not a terminal."""
    failed = False
    with removed_if_empty(Path(options.file)), opened(options, create=True) as workspace:
        shell = Shell(workspace, options)
        for statement in statements(sys.stdin, sys.stdin.isatty()):
            try:
                if statement == ":quit":
                    break
                shell.run(statement)
            except (IvmError, PagestoreError, OSError) as error:
                failed = True
                complain(str(error))
    return int(failed and not sys.stdin.isatty())


def statements(lines: Iterator[str], prompting: bool) -> Iterator[str]:
    """Yield commands, a line each, and texts up to a line that ends with a full stop."""
    if prompting:
        import readline  # noqa: F401  (line editing and a history for input)

        lines = _prompted()
    text = ""
    for line in lines:
        text += line if text else line.lstrip()
        ends = ";" if is_sql(text) else "."
        if text.startswith(":") or text.rstrip().endswith(ends):
            yield text.strip()
            text = ""
    if text.strip():
        yield text.strip()


def _prompted() -> Iterator[str]:
    while True:
        try:
            yield input("ivm> ") + "\n"
        except EOFError:
            print()
            return


def is_sql(text: str) -> bool:
    """Return whether a text begins as a statement of SQL does, with a word that no rule begins with."""
    first, _, rest = text.lstrip().partition(" ")
    return first.strip(";\n").upper() in WORDS and not rest.lstrip().startswith(("(", "<-", "->"))


class Shell:
    """Runs statements over a workspace and prints their answers."""

    def __init__(self, workspace: Workspace, options: argparse.Namespace):
        self.workspace, self.options = workspace, options

    def run(self, statement: str) -> None:
        """Run one statement.  Raises IvmError, PagestoreError."""
        if statement.startswith(":"):
            name, *words = statement[1:].split() or [""]
            self.command(name, words)
        elif is_sql(statement):
            self.sql(statement)
        elif any(isinstance(s, Change) for s in parse(statement, "exec")):
            version = self.workspace.exec(statement)
            answer(self.options, {"version": version}, f"version {version}")
        else:
            answer_rows(self.options, self.workspace.query(statement))

    def sql(self, statements: str) -> None:
        """Run statements of SQL, and print the rows of the last one."""
        found = self.workspace.sql(statements)
        if found is not None:
            answer_rows(self.options, found)

    def command(self, name: str, words: list[str]) -> None:
        """Run a command that begins with a colon.  Raises IvmError if there is none, or for a wrong number of words."""
        commands: dict[str, Callable[..., None]] = {
            "install": self.install,
            "replace": self.replace,
            "uninstall": self.uninstall,
            "list": self.list,
            "print": self.rows,
            "explain": self.explain,
            "help": lambda: answer(self.options, {"help": HELP}, HELP),
        }
        if name not in commands:
            raise IvmError(f"there is no :{name}; :help lists the commands")
        try:
            given = signature(commands[name]).bind(*words)
        except TypeError:
            raise IvmError(f":{name} does not take {len(words)} words; :help shows what it takes") from None
        commands[name](*given.args)

    def install(self, file: str, name: str | None = None) -> None:
        """:install FILE [NAME]"""
        self.workspace.install(text_of(file), name or block_name(file))

    def replace(self, file: str, name: str | None = None) -> None:
        """:replace FILE [NAME]"""
        self.workspace.install(text_of(file), name or block_name(file), replace=True)

    def uninstall(self, name: str) -> None:
        """:uninstall NAME"""
        removal = self.workspace.uninstall(name)
        answer(self.options, removal._asdict(), said(removal))

    def list(self) -> None:
        """:list"""
        data = contents(self.workspace)
        answer(self.options, data, listing(data))

    def explain(self, view: str) -> None:
        """:explain NAME"""
        text = self.workspace.explain(view)
        answer(self.options, {"view": view, "explain": text}, text)

    def rows(self, name: str) -> None:
        """:print NAME"""
        answer_rows(self.options, self.workspace[name])
