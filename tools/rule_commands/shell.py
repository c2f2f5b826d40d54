"""`ivm shell FILE`: rules, edits and SQL, statement by statement.

A rule or an edit ends with a full stop at the end of a line, a statement of SQL with a semicolon.
Edits are executed, rules are evaluated as queries, and a line that begins with a full stop or a
colon is a command.  At a terminal the store is opened to write for one statement only, so an idle
shell keeps nobody waiting.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

from ivm import IvmError, Workspace
from ivm.lang.ir import show_name
from ivm.lang.parse import parse
from ivm.lang.syntax_tree import Change
from ivm.sql import names_of, wide_names
from pagestore.errors import PagestoreError

from ..cli.answers import answer, common, complain, number, tell, version_or_name
from ..cli.entered import WORDS, is_sql, is_whole, meant
from ..cli.progress import removed_if_empty
from ..cli.rows import answer_rows
from ..cli.workspace_options import block_name, on_branch, opened, text_of
from .print import contents, listing
from .trace import answer_trace
from .uninstall import said

HELP = """\
+edge(1, 2). -edge(3, 4).          edits, one transaction, up to a full stop at the end of a line
q(x) <- edge(x, y), tri(x, y, _).  a query
SELECT x FROM edge;                statements of SQL, up to a semicolon
edge                               the rows of a relation or view
.install FILE [NAME]               install the rules of a file
.replace FILE [NAME]               install them in place of those of that name
.uninstall NAME                    remove them and their views; relations stay
.list                              relations and views
.print NAME                        the rows of one
.explain NAME                      how a view is maintained, and why
.why tri(1, 2, 3)                  why a row is in a view, or why it is not
.trace tri 3 4                     how its evaluation differs between versions; with none, its operations
.at VERSION                        read an older version or a tag from now on; .at alone returns to the newest
.timing                            say after each statement how long it took, or no longer
.help                              this help; help and ? do, too
.quit                              end the shell; exit, quit and Ctrl-D do, too
Ctrl-C clears the line, or stops the statement that runs. A command may begin with a colon instead of a full stop."""
ALIASES = {
    "help": "help", "?": "help", "\\?": "help", "exit": "quit", "quit": "quit", "\\q": "quit",
    "\\d": "list",
}  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument(
        "--limit", type=number, default=50, help="print at most this many rows (50)"
    )


def run(options: argparse.Namespace) -> int:
    """Run a terminal's or stdin's statements; return 1 if one failed without a terminal."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        from ..cli.prompt import statements as prompted

        shell = Shell(None, options)
        tell(f"{options.file}: `help` lists what can be entered, Ctrl-D ends")
        try:
            _run_all(shell, prompted(shell.is_whole, shell.names))
        finally:
            shell.close()
        return 0
    with removed_if_empty(Path(options.file)), opened(options, create=True) as workspace:
        shell = Shell(workspace, options)
        return int(_run_all(shell, statements(sys.stdin, shell.is_whole)))


def _run_all(shell: "Shell", given: Iterator[str]) -> bool:
    """Run statements until one ends the shell; return whether one failed."""
    failed = False
    for statement in given:
        try:
            if not shell.run(statement):
                break
        except (IvmError, PagestoreError, OSError) as error:
            failed = True
            for line in getattr(error, "lines", [str(error)]):
                complain(line)
        except KeyboardInterrupt:
            if not shell.interactive:
                raise
            complain("stopped")
    return failed


def statements(lines: Iterator[str], ends: Callable[[str], bool]) -> Iterator[str]:
    """Yield commands, a line each, and texts of lines up to one where the statement `ends`."""
    text = ""
    for line in lines:
        text += line if text else line.lstrip()
        if ends(text):
            yield text.strip()
            text = ""
    if text.strip():
        yield text.strip()


def is_command(text: str) -> bool:
    """Return whether a text is a command of the shell: one line."""
    first = text.strip().rstrip(".;").removesuffix("()")
    return text.lstrip().startswith((":", ".")) or first in ALIASES


def spelled(name: str, text: str) -> str:
    """Return a name as a text of SQL or rules writes it, in quotes if need be.

    >>> spelled("unit price", "SELECT "), spelled("unit price", "q(x) <- "), spelled("price", "SELECT ")
    ('"unit price"', '`unit price`', 'price')
    """
    if is_sql(text):
        return (
            name if re.fullmatch(r"[^\W\d]\w*", name) else f'"{name.replace(chr(34), 2 * chr(34))}"'
        )
    return show_name(name)


def words_of(text: str) -> list[str]:
    """Return the words of a command, of which a name may be in quotes.

    >>> words_of('explain `unit price`'), words_of('"unit price" 3 4')
    (['explain', 'unit price'], ['unit price', '3', '4'])
    """
    return [
        quoted[1:-1] if quoted else word
        for quoted, word in re.findall(r"(\"[^\"]*\"|`[^`]*`)(?!\S)|(\S+)", text)
    ]


def is_edit(text: str) -> bool:
    """Return whether a text of rules has an edit.  Raises RuleSyntaxError."""
    return any(isinstance(statement, Change) for statement in parse(text, "exec"))


class Shell:
    """Runs statements and prints their answers, over one workspace, or over one that is opened
    for each statement.
    """

    def __init__(self, workspace: Workspace | None, options: argparse.Namespace) -> None:
        self.options, self.interactive = options, workspace is None
        self._kept = workspace  # also from BEGIN to COMMIT
        self._version: int | str | None = None
        self._timing = False

    def run(self, statement: str) -> bool:
        """Run one statement; return whether the shell goes on.  Raises IvmError, PagestoreError."""
        started = time.perf_counter()
        goes_on = self._run(statement)
        if self._timing and goes_on:
            tell(f"{time.perf_counter() - started:.3f} s")
        return goes_on

    def _run(self, statement: str) -> bool:
        if is_command(statement):
            words = statement.strip()
            alias = ALIASES.get(words.rstrip(".;").removesuffix("()"))
            name, _, rest = (alias or words[1:]).partition(" ")
            if name == "quit":
                return False
            self.command(name.rstrip(";"), rest.strip())
        elif (relation := self._named(statement)) is not None:
            self.rows(relation)
        elif is_sql(statement):
            self.sql(statement)
        elif word := meant(statement):
            raise IvmError(f"this is neither a statement of SQL nor a rule: did you mean {word}?")
        elif is_edit(statement):
            with self.opened(writes=True) as workspace:
                version = workspace.exec(statement)
            answer(self.options, {"version": version}, f"version {version}")
        else:
            with self.opened() as workspace:
                answer_rows(self.options, self.past(workspace).query(statement))
        return True

    def close(self) -> None:
        """Close a workspace that a transaction of SQL has left open."""
        if self._kept is not None and self.interactive:
            self._kept.close()
            self._kept = None

    @contextmanager
    def opened(self, writes: bool = False) -> Iterator[Workspace]:
        """Yield the workspace; one to write is closed then, unless a transaction of SQL is open."""
        if writes and self._version is not None:
            raise IvmError(
                f"this is version {self._version}, which does not change: .at returns to the "
                f"newest one"
            )
        if self._kept is not None:
            yield self._kept
            return
        there = Path(self.options.file).exists()
        with removed_if_empty(Path(self.options.file)):
            workspace = opened(self.options, "rw" if writes or not there else "r", create=not there)
            try:
                yield workspace
            finally:
                if workspace.store.mode == "rw" and workspace.in_sql_transaction:
                    self._kept = workspace
                else:
                    workspace.close()

    def past(self, workspace: Workspace) -> Any:
        """Return the workspace, or the version that is read."""
        return workspace if self._version is None else workspace.at(self._version)

    def sql(self, statements: str) -> None:
        """Run statements of SQL, and print the rows of the last one."""
        from ivm.sql import reads_only

        with self.opened(writes=not reads_only(statements)) as workspace:
            answers = self.past(workspace).sql(statements)
            if answers is not None:
                answer_rows(self.options, answers, "NULL")
        if self.interactive and self._kept is not None and not self._kept.in_sql_transaction:
            self.close()

    # -- at a terminal

    def is_whole(self, text: str) -> bool:
        """Return whether a text needs no further line."""
        return is_command(text) or is_whole(text) or self._named(text) is not None

    def names(self, text: str = "") -> Iterator[str]:
        """Yield what can be completed in a text: commands, words of SQL, relations, views and
        their columns.
        """
        yield from (f".{name}" for name in self.commands())
        yield from WORDS
        if not Path(self.options.file).exists():
            return
        with self.opened() as workspace, workspace.store.snapshot() as snap:
            for name in names_of(snap, workspace.blocks):
                columns = snap[name].schema.names if name in snap and snap[name].info.schema else ()
                yield from (spelled(word, text) for word in (name, *columns))

    def _named(self, text: str) -> str | None:
        """Return the name of a relation or view that is all of a text."""
        name = re.sub(r"[.;\s]+$", "", text.strip())
        if not re.fullmatch(r"[\w:]+|\"[^\"]+\"|`[^`]+`", name) or not (
            self._kept or Path(self.options.file).exists()
        ):
            return None
        with self.opened() as workspace, workspace.store.snapshot() as snap:
            (name,) = words_of(name)
            return name if name in (*snap, *wide_names(snap)) else None

    # -- commands

    def commands(self) -> dict[str, Callable[..., None]]:
        """Return the commands that begin with a full stop, by name."""
        return {
            "install": self.install,
            "replace": self.replace,
            "uninstall": self.uninstall,
            "list": self.list,
            "print": self.rows,
            "explain": self.explain,
            "why": self.why,
            "trace": self.trace,
            "at": self.at,
            "timing": self.timing,
            "help": lambda: answer(self.options, {"help": HELP}, HELP),
        }

    def command(self, name: str, rest: str) -> None:
        """Run a command. Raises IvmError for another name, or number of words."""
        commands = self.commands()
        if name not in commands:
            raise IvmError(f"there is no .{name}; .help lists the commands")
        words = [rest] if name == "why" else words_of(rest)
        try:
            given = signature(commands[name]).bind(*words)
        except TypeError:
            raise IvmError(
                f".{name} does not take {len(words)} words; .help shows what it takes"
            ) from None
        commands[name](*given.args)

    def install(self, file: str, name: str | None = None) -> None:
        """.install FILE [NAME]"""
        with self.opened(writes=True) as workspace:
            workspace.install(text_of(file), name or block_name(file))

    def replace(self, file: str, name: str | None = None) -> None:
        """.replace FILE [NAME]"""
        with self.opened(writes=True) as workspace:
            workspace.install(text_of(file), name or block_name(file), replace=True)

    def uninstall(self, name: str) -> None:
        """.uninstall NAME"""
        with self.opened(writes=True) as workspace:
            removal = workspace.uninstall(name)
        answer(self.options, removal._asdict(), said(removal))

    def list(self) -> None:
        """.list"""
        with self.opened() as workspace:
            data = contents(workspace)
        answer(self.options, data, listing(data))

    def explain(self, view: str) -> None:
        """.explain NAME"""
        with self.opened() as workspace:
            text = workspace.explain(view)
        answer(self.options, {"view": view, "explain": text}, text)

    def why(self, row: str) -> None:
        """.why tri(1, 2, 3)"""
        with self.opened() as workspace:
            reasons = workspace.why(row, version=self._version)
        answer(self.options, reasons.data, str(reasons))

    def trace(self, view: str, old: str | None = None, new: str | None = None) -> None:
        """.trace NAME [OLD [NEW]]"""
        versions = [None if version is None else version_or_name(version) for version in (old, new)]
        with self.opened() as workspace:
            answer_trace(self.options, workspace, view, versions[0], versions[1] or self._version)

    def at(self, version: str | None = None) -> None:
        """.at [VERSION]"""
        asked = None if version is None else version_or_name(version)
        with self.opened() as workspace:
            if asked is not None:
                workspace.at(asked).close()  # raises an error that says which versions are kept
            now = workspace.store.version if asked is None else asked
        self._version = asked
        answer(
            self.options,
            {"version": now},
            f"reading version {now}" + ", the newest" * (asked is None),
        )

    def timing(self) -> None:
        """.timing"""
        self._timing = not self._timing
        answer(
            self.options, {"timing": self._timing}, f"timing is {'on' if self._timing else 'off'}"
        )

    def rows(self, name: str) -> None:
        """.print NAME"""
        with self.opened() as workspace:
            answer_rows(self.options, self.past(workspace)[name])
