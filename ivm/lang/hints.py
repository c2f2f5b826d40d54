"""Find probable mistakes in a text: words of other languages as terms, and variables that are used
once.

    q(c) <- region[c] = null.       refused: null would be a variable, and any region would do
    q(c) <- region[c] = r.          a warning: `_` says that any region will do

Find all mistakes of a text, once one has been found: each statement is parsed, and those at fault
are left out.

    p(x) <- q(x), , r(x).       a mistake
    s(x) <- p(x).               none, though nothing derives p now
    t(x) <- nothing(x).         a mistake

Only texts from users are checked, never installed ones.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ivm.errors import RuleError, RuleSyntaxError, RuleWarning, UnknownPredicateError, Where
from ivm.lang import syntax_tree
from ivm.lang.declarations import mentioned
from ivm.lang.ir import Aggregate, Var
from ivm.lang.parse import parse, shown
from ivm.lang.program import Program

SHOWN = 3  # names of variables in a warning
NULLS = "null", "Null", "NULL", "None", "NONE", "nil", "NIL"
BOOLEANS = {"TRUE": "true", "True": "true", "FALSE": "false", "False": "false"}
CLOCKS = (
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "sysdate",
)  # fmt: skip
ANY_CASE = (
    "and", "or", "not", "is", "like", "ilike", "between", "exists", "select", "where", "having",
    "distinct",
)  # fmt: skip
UPPER = (
    "ALL", "ANY", "AS", "ASC", "BY", "CASE", "DEFAULT", "DESC", "ELSE", "END", "EXCEPT", "FROM",
    "GROUP", "IN", "INTERSECT", "INTO", "JOIN", "LIMIT", "OFFSET", "ON", "ORDER", "OVER",
    "PARTITION", "SET", "SOME", "THEN", "UNION", "UNKNOWN", "USING", "VALUES", "WHEN", "WITH",
)  # fmt: skip
NULL_REMEDY = (
    "a row whose value is null is not there, so write `!f[x] = _` where f has no value, and "
    "`f[x] = _` where it has one"
)
WRITE_NULL = (
    "null is written as None, in a transaction: `txn.set(name, rows)`, or in a text with its "
    'type, as null["int"]'
)


def with_hints(program: Program, text: str) -> Program:
    """Return a program that was parsed from a text, with its warnings; otherwise as `hints`."""
    return replace(program, warnings=tuple(_hints(program.statements, text)))


def hints(text: str, source: str) -> list[RuleWarning]:
    """Return a warning for each variable of a text that is used once; one for all of a rule with
    more than a few.

    Raises RuleSyntaxError, with the remedy, for a word such as NULL or CURRENT_DATE that is used as
    a variable.

    >>> for warning in hints("p(x) <- q(x, y), r(_z).", "rules"):
    ...     print(warning)
    rules:1:14: y is used once: write `_` where any value will do, or `_y`
    """
    return _hints(parse(text, source), text)


def _hints(statements: Iterable[syntax_tree.Statement], text: str) -> list[RuleWarning]:
    warnings, lines = list[RuleWarning](), text.split("\n")
    for statement in statements:
        if isinstance(statement, syntax_tree.Clause) and syntax_tree.split(statement.heads[0])[
            0
        ].name not in (syntax_tree.BAG, syntax_tree.EQUIVALENCE):
            uses = [
                *_variables(
                    (statement.heads, statement.body, statement.aggregates, statement.groups)
                )
            ]
            times = Counter(variable.name for variable in uses)
            lone = [v for v in uses if times[v.name] == 1 and not v.name.startswith("_")]
            warnings += map(_used_once, lone) if len(lone) <= SHOWN else [_all_used_once(lone)]
        elif isinstance(statement, syntax_tree.Constraint):
            uses = [*_variables((statement.left, *statement.items))]
        elif isinstance(statement, syntax_tree.Subsumption):
            uses = [*_variables(syntax_tree.parts_of(statement))]
        elif isinstance(statement, syntax_tree.Change):
            uses = [*_variables((*syntax_tree.split(statement.head), statement.body or ()))]
        else:
            continue
        for variable in uses:
            if not _is_quoted(variable, lines):
                _refuse_word(variable, isinstance(statement, syntax_tree.Change), text)
    return warnings


def _used_once(variable: Var) -> RuleWarning:
    name = variable.name
    remedy = "write `_` where any value will do" + f", or `_{name}`" * name.isidentifier()
    return RuleWarning(f"{variable.where}: {name} is used once: {remedy}")


def _all_used_once(lone: list[Var]) -> RuleWarning:
    names = ", ".join(variable.name for variable in lone[:SHOWN])
    others = f"{names} and {len(lone) - SHOWN} other variables of this rule are used once"
    return RuleWarning(f"{lone[0].where}: {others}: write `_` where any value will do")


def _refuse_word(variable: Var, in_edit: bool, text: str) -> None:
    """Raise RuleSyntaxError for a variable whose name is a keyword or value of other languages."""
    name, lower = variable.name, variable.name.lower()
    if name in NULLS:
        remedy = WRITE_NULL if in_edit else NULL_REMEDY
    elif name in BOOLEANS:
        remedy = f"write `{BOOLEANS[name]}`"
    elif lower in CLOCKS:
        remedy = "rules know no clock: write the date, as in #2013-01-31#, or keep it in a function, as in `today[]`"
    elif lower in ANY_CASE or name in UPPER:
        remedy = (
            "it is a word of SQL; here `,` is and, `;` is or, `!` is not; put a variable of "
            "that name in backquotes"
        )
    else:
        return
    error = RuleSyntaxError(
        variable.where, f"`{name}` is not a value in rules, but would be a variable: {remedy}"
    )
    raise shown(error, text)


def _is_quoted(variable: Var, lines: Sequence[str]) -> bool:
    line = lines[variable.where.line - 1]
    return line[variable.where.column - 1 :].startswith("`")


def _variables(node: object) -> Iterator[Var]:
    """Yield every occurrence of a variable in a tree."""
    match node:
        case Var():
            yield node
        case tuple():
            for part in node:
                yield from _variables(part)
        case syntax_tree.Application():
            yield from _variables(node.args)
        case syntax_tree.Operation():
            yield from _variables((node.left, node.right))
        case Aggregate():
            yield from node.results
        case syntax_tree.And() | syntax_tree.Or():
            yield from _variables(node.items)
        case syntax_tree.Not() | syntax_tree.Aggregation():
            yield from _variables(syntax_tree.parts_of(node))


# -- all mistakes of a text

MOST = 20  # mistakes that are told at once
# What holds points that end no statement, then any other character.
TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|`[^`\n]*`|//[^\n]*|/\*.*?\*/|#[^#\n]*#|\d+\.\d+|.', re.DOTALL
)
JOINED = re.compile(r"\.(\d|decl\b|input\b|output\b|type\b)")  # points of other things
NAME = re.compile(r"[+^-]?\s*([^\W\d][\w:]*)")


class Part(NamedTuple):
    """A statement of a text: its places as (line, column), the first and that after the last,
    and what it parses to.
    """

    begin: tuple[int, int]
    end: tuple[int, int]
    statements: tuple[syntax_tree.Statement, ...]


def with_others(
    error: RuleError,
    text: str,
    source: str,
    check: Callable[[tuple[syntax_tree.Statement, ...]], object],
) -> RuleError:
    """Return the first mistake of a text, with the `others` in order, given one; `check` raises
    those of statements.

    O(mistakes * checking the text).
    """
    errors, parts, lost = list[RuleError](), list[Part](), set[str]()
    for start, end in _statements(text):
        before = re.sub(r"[^\n]", " ", text[:start])  # so that places are those in the whole text
        try:
            parts.append(
                Part(
                    _place(text, start), _place(text, end), parse(before + text[start:end], source)
                )
            )
        except RuleError as mistake:  # kept without its frames, which refer to the others found
            if isinstance(mistake, RuleSyntaxError):
                mistake.text = text.split("\n")[mistake.where.line - 1]
            errors.append(mistake.with_traceback(None))
            lost.update(NAME.findall(text[start:end])[:1])
    while parts and len(errors) < MOST:
        try:
            check(tuple(statement for part in parts for statement in part.statements))
            break
        except RuleError as mistake:
            if not (isinstance(mistake, UnknownPredicateError) and mistake.name in lost):
                errors.append(mistake.with_traceback(None))
            at = [part for part in parts if _is_within(mistake.where, part, source)]
            if not at:
                break
            lost |= mentioned(at[0].statements)[1]
            parts.remove(at[0])
    first, *others = sorted(
        {(one.where, one.reason): one for one in errors}.values(), key=lambda one: one.where
    ) or [error]
    first.others = tuple(others)
    return first


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each statement of a text begins and ends, after its point."""
    start = 0
    for token in TOKEN.finditer(text):
        ends = token[0] == "." and not JOINED.match(text, token.start())
        if ends or (token.end() == len(text) and text[start:].strip()):
            space = len(text[start:]) - len(text[start:].lstrip())
            yield start + space, token.end()
            start = token.end()


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _is_within(where: Where, part: Part, source: str) -> bool:
    return where.source == source and part.begin <= (where.line, where.column) < part.end
