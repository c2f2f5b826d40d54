"""Measures of how the code is laid out, each with what it may be at most: `python -m tests.walks`
prints them.

    lines of ivm/plan in files that evaluate             0      it decides, and evaluates nothing
    classes in the chain of Engine                       1

What is not reached yet has a `held` above its `most`: it may not grow.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PRODUCT = ("pagestore", "ivm", "tools")


class Gate(NamedTuple):
    """A measure: its value now, what it is to be at most, and what it may be at most until then."""

    name: str
    value: float
    most: float
    held: float | None = None

    @property
    def holds(self) -> bool:
        """Whether it is no more than is allowed."""
        return self.value <= (self.most if self.held is None else self.held)

    def __str__(self) -> str:
        reached = (
            "reached"
            if self.value <= self.most
            else f"held at {self.held:g}"
            if self.held
            else "NOT reached"
        )
        return f"{self.name:68} {self.value:>9g} {self.most:>9g}   {reached}"


def files(*folders: str) -> dict[str, str]:
    """The sources of folders, by path from the top."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def imports(source: str) -> Iterator[tuple[str, str]]:
    """The modules and names that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


EVALUATES = {"Batch", "Evaluator", "Pages", "Tree", "read_batches", "Join", "FlatJoin", "evaluate"}


def evaluating_lines() -> int:
    """The lines of the files of plan/ that take rows, pages or trees."""
    sources = files("ivm/plan").values()
    return sum(len(s.splitlines()) for s in sources if EVALUATES & {name for _, name in imports(s)})


def chain_of_engine() -> tuple[int, int]:
    """How many classes Engine is made of, and how many methods are overridden among them."""
    from ivm.engine.engine import Engine

    chain = [one for one in Engine.__mro__ if one is not object]
    methods = [name for one in chain for name in vars(one) if not name.startswith("__")]
    return len(chain), len(methods) - len({*methods})


WAY = re.compile(
    r"\bisinstance\((?:[\w.]+\.)?(?:way|plan\.way)\b|\.way\.upkeep\b|\bplan\.probes\b|\.choice =="
)
DECIDES = ("ivm/plan/", "ivm/ways/", "ivm/explain.py")


def tests_of_ways() -> int:
    """The lines that ask which way a plan goes, where neither the plan is made, nor followed,
    nor explained.
    """
    sources = files("ivm")
    outside = (source for file, source in sources.items() if not file.startswith(DECIDES))
    return sum(bool(WAY.search(line)) for source in outside for line in source.splitlines())


COST = re.compile(
    r"^[A-Z_]+ = [\d.]+(?: << \d+)?  # .*\b(?:costs?|measured|in the time of|iterator "
    r"operations?|milliseconds?|ms)\b",
    re.MULTILINE,
)


def files_with_costs() -> int:
    """The files with a constant that says what something costs."""
    return sum(bool(COST.search(source)) for source in files("ivm").values())


TOLD = re.compile(
    r""""\$" (?:not )?in\b|(?:starts|ends)with\(f?"[^"]*[$]|partition\("(?:\$|:part)"\)|remove\w+\("\$"\)"""
    r"""|(?:starts|ends)with\([A-Z]+\)|remove\w+\([A-Z]+\)|":part" in\b|:part"\)|rpartition\(":"\)|\[0\] == "[$_]\""""
)


JSON_PATH = re.compile(r"\b(?:path|text)\.")  # begins with the same sign


def names_told() -> int:
    """The lines of ivm that tell what a thing is by characters of its name, outside names.py."""
    sources = {file: source for file, source in files("ivm").items() if file != "ivm/names.py"}
    lines = (line for source in sources.values() for line in code(source))
    return sum(bool(TOLD.search(line)) and not JSON_PATH.search(line) for line in lines)


def code(source: str) -> Iterator[str]:
    """The lines of a file without its comments and docstrings."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string.startswith('"""')
        ):
            for number in range(token.start[0], token.end[0] + 1):
                first = token.start[1] if number == token.start[0] else 0
                lines[number - 1] = lines[number - 1][:first]
    yield from lines


def importers(module: str) -> int:
    """How many files of ivm import a module."""
    return sum(any(one == module for one, _ in imports(source)) for source in files("ivm").values())


def naming(word: str) -> int:
    """The files of the product that have a word as a text of its own."""
    named = re.compile(rf'"(?:\w+:)?{word}"')
    return sum(bool(named.search(source)) for source in files(*PRODUCT).values())


VAGUE = {"one", "found", "own", "wanted"}  # words that may hide a noun


def vague_names() -> int:
    """The places of the product that bind a variable or a parameter whose name hides a noun."""
    nodes = (node for source in files(*PRODUCT).values() for node in ast.walk(ast.parse(source)))
    return sum(
        node.arg in VAGUE
        if isinstance(node, ast.arg)
        else isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
        for node in nodes
    )


def widths() -> tuple[float, float, int]:
    """The part of lines of the product over 100 columns, in per cent, their average length, and
    their number.
    """
    lines = [line for source in files(*PRODUCT).values() for line in source.splitlines()]
    long = sum(len(line) > 100 for line in lines)
    return (
        round(100 * long / len(lines), 1),
        round(sum(map(len, lines)) / len(lines), 1),
        len(lines),
    )


def gates(walked: Mapping[str, tuple[int, int, int]]) -> list[Gate]:
    """Every measure; `walked` has the files, moves and climbs of walks."""
    chain, overridden = chain_of_engine()
    long, average, lines = widths()
    found = [
        Gate("lines of ivm/plan in files that evaluate", evaluating_lines(), 0),
        Gate("classes in the chain of Engine", chain, 1),
        Gate("methods that are overridden in it", overridden, 0),
        Gate("tests of which way a plan goes, outside plan, ways and explain", tests_of_ways(), 10),
        Gate("files of ivm with measured costs", files_with_costs(), 8),
        Gate("places of ivm that tell a thing by its name, outside names.py", names_told(), 5),
        *(
            Gate(f"files that import {name}", importers(name), 13, held)
            for name, held in ROOMS.items()
        ),
        Gate(
            "files of the product that name a SQL function (levenshtein)", naming("levenshtein"), 1
        ),
        Gate("files of the product that name a column type (date)", naming("date"), 5),
        Gate(
            "files of the product that name an aggregate (quantile_cont)",
            naming("quantile_cont"),
            2,
        ),
        Gate("variables named one, found, own or wanted", vague_names(), 800),
        Gate("lines over 100 columns, per cent", long, 0.5, 14),
        Gate("average length of a line", average, 45, 56),
        Gate("lines of the product", lines, 95_000, 134_080),
    ]
    for name, (limits, held) in WALKS.items():
        for what, value, most, at in zip(
            ("files", "moves", "climbs"), walked[name], limits, held, strict=True
        ):
            found.append(Gate(f"{name}: {what}", value, most, at))
    return found


ROOMS = {"ivm.wide": None, "ivm.terms.evaluator": None, "ivm.join.join": None}
WALKS: Mapping[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "a query of SQL to its rows": ((70, 700, 5), (123, 1108, 5)),
    "the same query as a rule": ((60, 450, 3), (93, 623, 3)),
}
