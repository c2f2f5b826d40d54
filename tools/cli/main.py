"""The console scripts `pagestore` and `ivm`: a table of commands, one module each, imported when
chosen.

A command's module offers `arguments(parser)` and `run(options) -> exit code`. Exit code 0 means
fine, 1 that problems were found, 2 wrong usage. Errors of both packages end here, as one sentence
on stderr and exit code 1, or the module's `FAILED` if 1 means something else for it. A command that
receives Ctrl-C, TERM or HUP undoes what it has begun, and its exit code is 128 plus the signal's
number.
"""

import argparse
import gc
import os
import re
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from types import FrameType, ModuleType

from .examples import epilog

PAGESTORE = {
    "info": "what a store's file is, and what is in it",
    "stat": "pages by relation, by version and by reader",
    "fsck": "check every invariant; save what reads of a damaged store",
    "history": "the versions that are kept",
    "diff": "what changed in a relation from one version to another",
    "tag": "list, set and delete tags: names of versions, which stay what they are",
    "branch": "list, begin and delete branches: lines of versions, to which commits add",
    "merge": "bring to a branch the changes of another; views follow",
    "rebase": "begin a branch anew on the newest version of another",
    "revert": "take back what one version changed",
    "cherry-pick": "bring to a branch what one version of another changed",
    "pull": "bring here what a branch of another copy of the store changed",
    "push": "bring to another copy of the store what a branch changed here",
    "vacuum": "drop old versions and cut the file",
    "compact": "make the file as small as its content",
    "backup": "copy a version's pages, whole or since an earlier backup, while others read and "
    "write",
    "dump": "write the content as one stream",
    "restore": "make a store from a dump, or from backups",
    "page": "draw one page for a human",
    "bench": "this store compared with others, if installed: loads, reads, commits",
    "prepare": "make raw tables ready to load, with Spark: typed, checked, sorted, with a manifest",
    "load": "load files (Parquet, CSV, JSON lines, Arrow) into a relation: make it, add, change, "
    "replace, delete",
    "print": "the rows of a relation, printed or written to a file; or what there is",
    "delete": "remove some rows of a relation: those of a range of keys, or for which conditions "
    "are true",
    "drop": "remove a relation",
    "rename": "give a relation another name",
    "truncate": "remove all rows of a relation",
    "completion": "a script that completes this program's commands in bash, zsh or fish",
}
IVM = {
    "install": "install the rules of a file: fill their views, and maintain them from then on",
    "uninstall": "remove an installed block and its views",
    "exec": "run edits as one transaction, and say what they changed in the views",
    "query": "evaluate rules once and store nothing",
    "sql": "run statements of SQL",
    "declare": "the relations of a store, as rules know them",
    "print": "the rows of a relation or view; or what there is",
    "explain": "how a view is evaluated and maintained, and why",
    "why": "why a row is in a view, or why not; which edits changed a view",
    "make": "the smallest edits by which a view has a row, or has it no more",
    "check": "compile rules and print what is wrong with them; nothing is installed",
    "fsck": "compare views and indices with what follows from relations, and repair them",
    "trace": "what iterators do when a view is evaluated, and how that differs between versions",
    "watch": "the changes of a relation or view, as commits of any process make them",
    "shell": "edits and questions line by line",
    "serve": "a server for clients of PostgreSQL and MySQL: psql, drivers, tools that draw",
    "studio": "a page in the browser: rows, rules, questions, edits with a preview, why, history",
    "mcp": "a server for agents, on stdin and stdout: questions, why, edits with a preview",
    "bench": "these joins and views compared with others, if installed",
    "completion": "a script that completes this program's commands in bash, zsh or fish",
    "demo": "rules over a year of flights: load, change, and watch the views follow",
}
OF_BRANCHES = "branch", "merge", "rebase", "revert", "cherry-pick", "pull", "push"
OF_RELATIONS = "prepare", "load", "print", "delete", "drop", "rename", "truncate"
MODULES = {
    **{("pagestore", name): f"relation_commands.{name}" for name in OF_RELATIONS},
    **{("pagestore", name): f"branch_commands.{name.replace('-', '_')}" for name in OF_BRANCHES},
    ("pagestore", "bench"): "bench.store",
    ("ivm", "bench"): "bench.views",
    ("ivm", "demo"): "demo.demo",
    ("ivm", "studio"): "serving.studio",
    ("ivm", "mcp"): "serving.mcp",
    ("ivm", "serve"): "serving.serve",
    ("pagestore", "completion"): "cli.completion",
    ("ivm", "completion"): "cli.completion",
}  # all others are in the program's folder of commands, named like the command
FOLDERS = {"pagestore": "store_commands", "ivm": "rule_commands"}


AGAIN = 0.01  # seconds after which a signal is sent again


def pagestore(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `pagestore`, from sys.argv unless given; return the exit code."""
    return _dispatch("pagestore", PAGESTORE, arguments)


def ivm(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `ivm`, from sys.argv unless given; return the exit code."""
    return _dispatch("ivm", IVM, arguments)


def _dispatch(program: str, commands: Mapping[str, str], arguments: Sequence[str] | None) -> int:
    signals: list[int] = []
    try:
        with _stopped_by_signals(signals):
            code = _run(program, commands, list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except _Terminated:
        code = 1
    except ImportError as error:  # numpy makes one of what interrupts its import
        if not signals and not _is_interrupted(error):
            raise
        code = 128 + signal.SIGINT
    finally:
        if arguments is None:
            # the process ends, and looking for cycles then takes longer than many a command
            gc.freeze()
    return 128 + signals[0] if signals and code else code  # also if undoing failed with an error


def _is_interrupted(error: BaseException | None) -> bool:
    """Return whether an error comes from Ctrl-C."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt)
        or _is_interrupted(error.__cause__)
        or _is_interrupted(error.__context__)
    )


class _Terminated(BaseException):
    """A terminating signal arrived; unwinds the command like Ctrl-C."""


@contextmanager
def _stopped_by_signals(signals: list[int]) -> Iterator[None]:
    """Raise _Terminated in the main thread at the first terminating signal, and append its number to
    `signals`.

    A second one ends the process at once. Signals that the process ignores (`nohup`) or handles are
    left alone. One that arrives where Python drops exceptions, such as while a generator is closed,
    is sent again.
    """

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        signals.append(number)
        raise _Terminated

    def dropped(found: "sys.UnraisableHookArgs") -> None:
        if not isinstance(found.exc_value, _Terminated | KeyboardInterrupt):
            before(found)
            return
        number = signals.pop() if isinstance(found.exc_value, _Terminated) else signal.SIGINT
        if number in ours:
            signal.signal(number, end)
        again = threading.Timer(
            AGAIN, lambda: os.kill(os.getpid(), number) if sys.unraisablehook is dropped else None
        )
        again.daemon = True
        again.start()

    before = sys.unraisablehook
    ours: list[int] = []
    if threading.current_thread() is threading.main_thread():
        ours = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    try:
        sys.unraisablehook = dropped
        for number in ours:
            signal.signal(number, end)
        yield
    finally:
        sys.unraisablehook = before
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _as_text(word: str) -> str:
    """Prefix an edit like -edge(1,2). with a space: argparse would take it for an option."""
    return f" {word}" if re.match(r"-[^\W\d][^(\[=]*[(\[]|-`", word) else word


def _run(program: str, commands: Mapping[str, str], words: list[str]) -> int:
    _open_streams()
    parser, choices = _parser(program, commands, words)
    options = _parsed(parser, choices, words)
    module = _module(program, options.command)
    from ivm.errors import IvmError, OptionError, RuleWarning  # not above: --help needs no kernels
    from pagestore.errors import PagestoreError

    from .answers import complain, plain
    from .progress import compiling_shown, filling_shown

    name = f"{program} {options.command}"
    try:
        shown = filling_shown(name, getattr(options, "quiet", False))
        with warnings.catch_warnings(), compiling_shown(), shown:
            warnings.simplefilter("always", RuleWarning)
            warnings.showwarning = lambda warning, *_: complain(f"{name}: {warning}")
            code: int = module.run(options)
        sys.stdout.flush()
        return code
    except (argparse.ArgumentError, OptionError) as error:
        choices[options.command].error(plain(error))
    except BrokenPipeError:
        # the reader has closed the pipe; else Python would report it again at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (IvmError, PagestoreError, OSError) as error:
        _complain_of(name, error, options)
        return getattr(module, "FAILED", 1)
    except MemoryError as error:
        reason = error or "it was refused"
        complain(f"{name}: there is too little memory ({reason}); free some")
        return getattr(module, "FAILED", 1)


def _complain_of(name: str, error: Exception, options: argparse.Namespace) -> None:
    """Print an error of a command as sentences, and what mends a damaged store."""
    from pagestore.errors import CorruptionError
    from pagestore.tooling import in_words

    from .answers import complain

    said = in_words(error) if isinstance(error, OSError) else str(error)
    # only errors whose lines are plain already have it
    first, *more = getattr(error, "lines", [said])
    complain(f"{name}: {first}")
    for line in (*more, *getattr(error, "__notes__", ())):
        complain(f"  {line}")
    damaged = isinstance(error, CorruptionError) and error.page
    if damaged and "file" in options and options.command != "fsck":
        remedy = f"pagestore fsck {shlex.quote(options.file)}"
        complain(f"`{remedy}` says what else is damaged; with --salvage OUT it saves what reads")


def _parser(
    program: str, commands: Mapping[str, str], words: list[str]
) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of a program, and those of its commands; exit where there is no such
    command.

    Only the command that the words begin with is imported, and has its arguments.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        # a terminal's encoding may lack stored characters
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    choices = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in commands.items():
        command = choices.add_parser(name, help=summary, description=summary)
        if words[:1] == [name]:
            chosen = _module(program, name)
            command.formatter_class = _Help
            chosen.arguments(command)
            command.epilog = epilog(program, name, command.epilog or "")
            command.set_defaults(program=program, tree=partial(_tree, program, commands))
    if words and not words[0].startswith("-") and words[0] not in commands:
        from .answers import plain

        meant = get_close_matches(words[0], commands, 1)
        remedy = f"did you mean {meant[0]}?" if meant else f"`{program} --help` lists them"
        parser.error(f"there is no command {plain(words[0])!r}: {remedy}")
    return parser, choices.choices


def _parsed(
    parser: argparse.ArgumentParser,
    commands: Mapping[str, argparse.ArgumentParser],
    words: list[str],
) -> argparse.Namespace:
    """Parse the words of a command, whose options may stand anywhere; exit where they are wrong,
    or for --help.
    """
    if words[:1] == ["exec"]:
        words = [words[0], *map(_as_text, words[1:])]
    if not words or words[0] not in commands:
        return parser.parse_args(words)
    return commands[words[0]].parse_intermixed_args(words[1:], argparse.Namespace(command=words[0]))


def _tree(program: str, commands: Mapping[str, str]) -> dict[str, tuple[str, list[str]]]:
    """Return what each command does, and its options."""
    from .completion import options_of

    return {
        name: (summary, options_of(_module(program, name).arguments))
        for name, summary in commands.items()
    }


class _Help(argparse.HelpFormatter):
    """Fills a description, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class _Version(argparse.Action):
    """Print the version and exit. Imported only here, since --help needs no kernels."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from pagestore import __version__

        print(parser.prog, __version__)
        parser.exit()


def _open_streams() -> None:
    """Reopen standard streams that are closed, so that commands may read and print."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open until the process ends


def _module(program: str, command: str) -> ModuleType:
    module = MODULES.get((program, command), f"{FOLDERS[program]}.{command}")
    return import_module(f"..{module}", __package__)
