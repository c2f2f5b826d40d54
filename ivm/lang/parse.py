"""Parse text into a tree by lark's LALR parser over syntax.lark; each node has its place in the
text.

>>> [clause] = parse("p(x) <- q(x, 3).")
>>> clause.body.items[0].args[1]
Const(value=3, type='int64')

Word syntax errors: what the parser expected at a place, and what it found.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import lark
from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError
from lark.tree import Meta

from ivm.errors import RuleSyntaxError, RuleTypeError, Where
from ivm.lang.foreign_syntax import habit_at, remedy_for, stray, typed_column
from ivm.lang.ir import Aggregate, Const, Placed, Var
from ivm.lang.syntax_tree import (
    MARKED,
    NESTING_MAX,
    TOO_DEEP,
    Aggregation,
    And,
    Anonymous,
    Application,
    Change,
    Clause,
    Constraint,
    Declaration,
    Formula,
    Node,
    Not,
    Operation,
    Or,
    Statement,
    Subsumption,
    Typed,
    is_alone,
    is_head,
    items_of,
    of_whole,
    variables_in,
)
from ivm.lang.types import LITERAL_MAX, LITERALS, RANGES, column_type, is_named
from pagestore.host import user_cache

OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "propagate_positions": True,
    "maybe_placeholders": True,
}
FINER = re.compile(r"[.,]\d{6}0*[1-9]")  # digits of a second that Python would drop
SEAL = sha256().digest_size  # bytes


def parse(text: str, source: str = "rules") -> tuple[Statement, ...]:
    """Return the statements of a text in order.  Raises RuleSyntaxError with the place and what
    was expected there.
    """
    if not isinstance(text, str):
        raise RuleSyntaxError(
            Where(source, 1, 1), f"{text!r} is not a text; rules, edits and queries are texts"
        )
    # a byte order mark, which editors on Windows write
    return _parsed(text.removeprefix("\ufeff"), source)


@lru_cache(maxsize=32)
def _parsed(text: str, source: str) -> tuple[Statement, ...]:
    """Parse, with a cache for a text that many stores share, as cells do."""
    try:
        tree = _parser().parse(text)
        _check_depth(tree, source)
        return tuple(Builder(text, source).transform(tree))
    except (UnexpectedToken, UnexpectedCharacters, UnexpectedEOF) as error:
        raise shown(complaint(error, text, source), text) from None
    except RuleSyntaxError as error:
        raise shown(error, text) from None
    except VisitError as error:
        raise shown(error.orig_exc, text) from None


def _check_depth(tree: Any, source: str) -> None:
    """Raise RuleSyntaxError for a tree deeper than NESTING_MAX."""
    nodes = [(tree, 0)]
    while nodes:
        node, depth = nodes.pop()
        if depth > NESTING_MAX:
            raise RuleSyntaxError(Where(source, node.meta.line, node.meta.column), TOO_DEEP)
        nodes += [(child, depth + 1) for child in node.children if isinstance(child, Tree)]


@cache
def _parser() -> Lark:
    """Return the parser. Making its tables takes longer than parsing a program, so they are
    cached with the kernels.
    """
    grammar = Path(__file__).with_name("syntax.lark").read_text()
    file = user_cache() / "syntax.tables"
    with suppress(OSError):
        cached = file.read_bytes()
        seal, tables = cached[:SEAL], cached[SEAL:]
        if seal == _seal(grammar, tables):
            return Lark.load(BytesIO(tables))
    parser = Lark(grammar, **OPTIONS)
    made = BytesIO()
    parser.save(made)
    with suppress(OSError):
        file.write_bytes(_seal(grammar, made.getvalue()) + made.getvalue())
    return parser


def _seal(grammar: str, tables: bytes) -> bytes:
    """Return the hash that validates cached tables: they must be whole, and of this grammar,
    lark and Python.
    """
    return sha256(
        f"{grammar} {OPTIONS} {lark.__version__} {sys.version} ".encode() + tables
    ).digest()


@v_args(meta=True)
class Builder(Transformer[Token, list[Statement]]):
    """Turns lark's tree into syntax_tree.py's, bottom up: a method for each rule of syntax.lark."""

    def __init__(self, text: str, source: str):
        super().__init__()
        self.text, self.source = text, source

    def at(self, place: Meta | Token) -> Where:
        """Return the place of a lark node."""
        return Where(self.source, place.line or 1, place.column or 1)

    def NAME(self, token: Token) -> Token:
        """Return a name without its parts' quotes: `` `Order Date` ``, `` shop:`Order Date` ``."""
        return token.update(value=token.replace("`", ""))

    def at_offset(self, start: int) -> Where:
        """Return the place of a character of the text."""
        return Where(
            self.source,
            self.text.count("\n", 0, start) + 1,
            start - self.text.rfind("\n", 0, start),
        )

    def whole(self, token: Token) -> Any:
        """Convert a token of digits to a number."""
        self.check_length(token)
        return int(token)

    def check_length(self, token: Token) -> None:
        """Raise RuleTypeError for a number of more than LITERAL_MAX digits; Python limits their
        length, too.
        """
        if len(token) > LITERAL_MAX:
            reason = f"a number of {len(token):,} digits: no type holds it, and {LITERAL_MAX:,} are the most read"
            raise RuleTypeError(self.at(token), reason)

    # -- statements

    def start(self, meta: Meta, statements: list[Any]) -> list[Statement]:
        """Return the statements of a text; an edit statement holds several."""
        return [s for item in statements for s in (item if isinstance(item, list) else [item])]

    def dominance(self, meta: Meta, parts: list[Any]) -> Subsumption:
        """`p(args) <= p(args)`, the head of an order."""
        name, args, op, other, others = parts
        if op != "<=":
            raise RuleSyntaxError(
                self.at(op), "an order of rows is written p(x, y) <= p(x, z) <- ..."
            )
        lesser, greater = (
            Application(str(n), a or (), False, where=self.at(n))
            for n, a in ((name, args), (other, others))
        )
        return Subsumption(lesser, greater, where=self.at(meta))

    def rule(self, meta: Meta, parts: list[Any]) -> Clause | Subsumption:
        """`heads <- aggregate body.`, or without an aggregate."""
        if previous := re.search(
            r"@previous\b", _without_texts(self.text[meta.start_pos : meta.end_pos])
        ):
            where = self.at_offset(meta.start_pos + previous.start())
            raise RuleSyntaxError(
                where, "only edits from rules read @previous, as in +p(x) <- q@previous(x)"
            )
        if isinstance(parts[0], Subsumption):
            text = self.text[meta.start_pos : meta.end_pos]
            return replace(parts[0], body=_conjunction(parts[1]), text=text)
        heads = tuple(self.head(item, meta) for item in items_of(parts[0]))
        aggregates, groups, body = of_whole(parts[1])
        shown = {v.name for head in heads for v in variables_in(head)}
        if (
            all(isinstance(head, Application) for head in heads)
            and not _results(aggregates) <= shown
        ):
            aggregates, groups, body = (), None, parts[1]  # it is one of the formulas of the body
        text, where = self.text[meta.start_pos : meta.end_pos], self.at(meta)
        return Clause(
            heads,
            _conjunction(body),
            aggregates,
            where=where,
            text=text,
            groups=_conjunction(groups),
        )

    def head(self, item: Formula, meta: Meta) -> Application | Operation:
        """Return a head of a rule, which has been parsed as a formula.  Raises RuleSyntaxError
        for another formula.
        """
        if not is_head(item):
            where = item.where if isinstance(item, Placed) else self.at(meta)
            reason = "the head of a rule is p(x, y) or f[x] = y; several are joined by `,`"
            if is_alone(item):
                reason = "a function in the head of a rule has a value, as in f[x] = y"
            raise RuleSyntaxError(where, reason)
        return item

    def fact(self, meta: Meta, parts: list[Any]) -> Clause | Subsumption:
        """A rule without a body, as `c[x] = a[x] + b[x].`"""
        return self.rule(meta, [parts[0], None])

    def demand(self, meta: Meta, parts: list[Any]) -> list[Statement]:
        """`head -> type(column), ....`, a declaration; `formula -> formula.`, a constraint; or
        both in one.
        """
        left, right = parts
        if (
            right is None
            and isinstance(left, Operation)
            and left.left == Application(_name(left.left), (), True)
        ):
            head = replace(left, right=Var("holds"))
            return [Declaration(head, (Typed("bool", "holds"),))]
        items = [_as_type(item) for item in items_of(right)]
        types = tuple(item for item in items if isinstance(item, Typed))
        others = tuple(item for item in items if not isinstance(item, Typed))
        if not items:
            reason = (
                "types or what has to hold is missing after `->`, as in p(x) -> int(x). or p(x) -> "
                "q(x). or, for an entity, p(x), p:id(x : n) -> int(n)."
            )
            raise RuleSyntaxError(self.at(meta), reason)
        if types and (entity := _entity(left, types, others)):
            return entity
        if types and not is_head(left):
            reason = "a type is declared for the columns of one relation or function, as in p(x, y) -> int(x), int(y)."
            if any(":" in variable.name for variable in variables_in(left)):
                reason = "a colon between an entity and its value has spaces: person(p), name(p : n) -> string(n)."
            raise RuleSyntaxError(types[0].where, reason)
        text = " ".join(self.text[meta.start_pos : meta.end_pos].split())
        declared: list[Statement] = [Declaration(left, types, others)] if types else []
        held = (*others, *(bound for type_ in types for bound in _range_of(type_)))
        return [*declared, *([Constraint(left, held, text, where=self.at(meta))] if held else [])]

    def named_type(self, meta: Meta, parts: list[Token]) -> Typed:
        """`type?(column)`"""
        name, _, variable = parts
        return Typed(f"{name}?", str(variable), where=self.at(meta))

    def sized_type(self, meta: Meta, parts: list[Any]) -> Typed:
        """`type[size](column)`"""
        call, nullable, variable = parts
        size = call.args[0] if isinstance(call, Application) and len(call.args) == 1 else None
        if not isinstance(size, Const):
            raise RuleSyntaxError(self.at(meta), "a type with a size is written as in int[32](x)")
        return Typed(f"{call.name}[{size}]{nullable or ''}", str(variable), where=self.at(meta))

    def scaled_type(self, meta: Meta, parts: list[Any]) -> Typed:
        """`decimal(digits, scale)(column)`"""
        name, args, nullable, variable = parts
        if not all(isinstance(arg, Const) for arg in args):
            zoned = "one with a time zone in backquotes, as in `timestamp(UTC)`(x)"
            reason = f"a decimal type is written as in decimal(8, 2)(x), and {zoned}"
            raise RuleSyntaxError(self.at(meta), reason)
        return Typed(
            f"{name}({','.join(map(str, args))}){nullable or ''}",
            str(variable),
            where=self.at(meta),
        )

    def edits(self, meta: Meta, edits: list[Any]) -> list[Change]:
        """`+edit. -edit.`, or several of them in one statement, or `+edit <- aggregate body.`"""
        *changes, body = edits
        if body is None:
            return changes
        aggregates, groups, body = of_whole(body)
        if groups is not None:
            raise RuleSyntaxError(
                self.at(meta), "an edit has no `for`: derive a view with it, and read that"
            )
        text = self.text[meta.start_pos : meta.end_pos]
        return [
            replace(change, body=_conjunction(body), aggregates=aggregates, text=text)
            for change in changes
        ]

    def edit(self, meta: Meta, parts: list[Any]) -> Change:
        """`+head`, `-head` or `^head`."""
        return Change(str(parts[0]), parts[1], where=self.at(meta))

    def bare(self, meta: Meta, parts: list[Any]) -> Change:
        """An edit whose head has no value: `-f[x]`."""
        return self.edit(meta, parts)

    def aggregate(self, meta: Meta, parts: list[Any]) -> tuple[tuple[Any, ...], Formula | None]:
        """`agg<<result = op(terms), ... for body>>`: aggregates with their terms, and the body."""
        *folds, groups = parts[1:]
        return tuple(folds), groups

    def fold(self, meta: Meta, parts: list[Any]) -> tuple[Aggregate, tuple[Node, ...]]:
        """`result = op(terms) else constant`, and the terms."""
        name, _, op, terms, absent = parts
        if isinstance(absent, Var) and absent.name == "null":
            absent = Const(None, "int64", where=absent.where)
        if absent is not None and not isinstance(absent, Const):
            raise RuleSyntaxError(absent.where, "`else` takes a constant, or null")
        return Aggregate(
            str(op), Var(str(name), where=self.at(name)), absent=absent, where=self.at(op)
        ), terms or ()

    def placed(self, meta: Meta, parts: list[Any]) -> tuple[Aggregate, tuple[Node, ...]]:
        """`(place, result) = op(terms)`, and the terms."""
        place, result, _, op, terms = parts
        place, result = (Var(str(name), where=self.at(name)) for name in (place, result))
        return Aggregate(str(op), result, place=place, where=self.at(op)), terms or ()

    # -- formulas

    def disjunction(self, meta: Meta, items: list[Formula]) -> Formula:
        """`formula ; formula`"""
        return items[0] if len(items) == 1 else Or(tuple(items))

    def conjunction(self, meta: Meta, items: list[Formula]) -> And:
        """`formula, formula`"""
        return And(tuple(items))

    def group(self, meta: Meta, parts: list[Formula]) -> Formula:
        """`(formula)`"""
        return And((parts[0],)) if isinstance(parts[0], Aggregation) else parts[0]

    def aggregation(self, meta: Meta, parts: list[Any]) -> Aggregation:
        """`agg<<result = op(terms)>> formula`, which is about the whole body at its beginning."""
        (aggregates, groups), item = parts
        return Aggregation(aggregates, item, groups, where=self.at(meta))

    def negation(self, meta: Meta, parts: list[Formula]) -> Not:
        """`!formula`"""
        return Not(parts[0], where=self.at(meta))

    def relation(self, meta: Meta, parts: list[Any]) -> Application | Operation:
        """`name(args)`; `name()` is the function `name[] = true`."""
        if not parts[1]:
            call, where = Application(str(parts[0]), (), True, where=self.at(meta)), self.at(meta)
            return Operation(
                "=",
                call,
                Const(True, "bool", where=where._replace(column=where.column + 1)),
                where=where,
            )
        return Application(str(parts[0]), parts[1], False, where=self.at(meta))

    def reference(self, meta: Meta, parts: list[Token]) -> Application:
        """`name(entity : value)`, a relation of both"""
        name, entity, colon, value = parts
        if is_named(value):
            raise RuleSyntaxError(self.at(colon), typed_column(value))
        args = tuple(Var(str(arg), where=self.at(arg)) for arg in (entity, value))
        return Application(str(name), args, False, where=self.at(meta))

    def function(self, meta: Meta, parts: list[Any]) -> Operation | Application:
        """`name[args] = value`, or `name[args] = (value, value, ...)`, a relation of all these."""
        call, value = parts[0], parts[-1]
        if not isinstance(value, list):
            return Operation("=", call, value, where=self.at(meta))
        if not isinstance(call, Application):
            raise RuleSyntaxError(
                self.at(meta), "only a function has several values, as in f[x] = (y, z)"
            )
        return Application(call.name, (*call.args, *value), False, len(call.args), where=call.where)

    def values(self, meta: Meta, terms: list[Any]) -> list[Any]:
        """`(value, value, ...)`"""
        return terms

    def compare(self, meta: Meta, parts: list[Any]) -> Operation:
        """`term < term`, with any comparison; a function's value may be marked, `f[x] = y?`."""
        left, op, right = parts
        if (
            isinstance(right, Var | Anonymous)
            and right.marked
            and not isinstance(left, Application)
        ):
            raise RuleSyntaxError(right.where, MARKED)
        return Operation(str(op), left, right, where=self.at(meta))

    def condition(self, meta: Meta, parts: list[Any]) -> Operation:
        """`function[args]` alone, which is `function[args] = true`."""
        (call,) = parts
        if not isinstance(call, Application) and not _is_truth(call):
            reason = "a condition is an atom, a comparison as in x = y, or a function whose value is a boolean"
            raise RuleSyntaxError(self.at(meta), reason)
        return Operation("=", call, Const(True, "bool", where=call.where), where=call.where)

    def chain(self, meta: Meta, parts: list[Any]) -> And:
        """`term <= term < term`: each two neighbours are compared."""
        links = zip(parts[::2], parts[1::2], parts[2::2], strict=False)
        return And(
            tuple(Operation(str(op), left, right, where=left.where) for left, op, right in links)
        )

    def membership(self, meta: Meta, parts: list[Any]) -> Formula:
        """`term in (term, ...)`: a function, and for numbers the bounds that a join can seek by."""
        left, _, *among = parts
        where = self.at(meta)
        call = Application("in", (left, *among), True, where=where)
        found: list[Formula] = [Operation("=", call, Const(True, "bool", where=where), where=where)]
        numbers = [one for one in among if isinstance(one, Const) and one.type == "int64"]
        if isinstance(left, Var) and len(numbers) == len(among):
            least, *_, greatest = sorted([*numbers, *numbers], key=lambda one: int(str(one.value)))
            found += [
                Operation(op, left, end, where=where)
                for op, end in ((">=", least), ("<=", greatest))
            ]
        return And(tuple(found))

    # -- terms

    def args(self, meta: Meta, args: list[Any]) -> tuple[Any, ...]:
        """`term, term, ...`"""
        return tuple(args)

    def application(self, meta: Meta, parts: list[Any]) -> Application | Const:
        """`name[args]` inside a term; `null["int"]` is a null of that type."""
        name, args = parts
        if (
            name == "null"
            and args
            and isinstance(args[0], Const)
            and isinstance(args[0].value, str)
        ):
            type_ = args[0].value.replace(" ", "")
            return Const(None, column_type(type_, args[0].where), where=self.at(meta))
        return Application(str(parts[0]), parts[1] or (), True, where=self.at(meta))

    def binary(self, meta: Meta, parts: list[Any]) -> Operation:
        """`term + term`, with any of + - * / % ^."""
        return Operation(str(parts[1]), parts[0], parts[2], where=self.at(parts[1]))

    def minus(self, meta: Meta, parts: list[Any]) -> Node:
        """`-term`; for a literal number, the negative number."""
        term = parts[1]
        if (
            isinstance(term, Const)
            and isinstance(term.value, int | float | Decimal)
            and term.type != "bool"
        ):
            return Const(-term.value, term.type, where=self.at(meta))
        return Operation("-", Const(0, "int64", where=self.at(meta)), term, where=self.at(meta))

    def variable(self, meta: Meta, parts: list[Token]) -> Var:
        """A variable."""
        return Var(str(parts[0]), where=self.at(meta))

    def anonymous(self, meta: Meta, parts: list[Token]) -> Anonymous:
        """`_`"""
        return Anonymous(where=self.at(meta))

    def marked(self, meta: Meta, parts: list[Token]) -> Var:
        """`x?`, a variable that may be null."""
        return Var(str(parts[0]), marked=True, where=self.at(meta))

    def marked_anonymous(self, meta: Meta, parts: list[Token]) -> Anonymous:
        """`_?`"""
        return Anonymous(True, where=self.at(meta))

    # -- constants

    def int(self, meta: Meta, parts: list[Token]) -> Const:
        """`3`"""
        return Const(self.whole(parts[0]), "int64", where=self.at(meta))

    def decimal(self, meta: Meta, parts: list[Token]) -> Const:
        """`3.50`"""
        self.check_length(parts[0])
        scale = len(parts[0].partition(".")[2])
        return Const(Decimal(parts[0]), f"decimal(18,{scale})", where=self.at(meta))

    def float(self, meta: Meta, parts: list[Token]) -> Const:
        """`3.5e0`"""
        value = float(parts[0])
        if value in (float("inf"), float("-inf")):
            raise RuleTypeError(self.at(meta), f"{parts[0]} is beyond the range of float64")
        return Const(value, "float64", where=self.at(meta))

    def string(self, meta: Meta, parts: list[Token]) -> Const:
        """`"text"`, with the escapes of JSON."""
        try:
            value = json.loads(parts[0], strict=False)
            value.encode()  # half of a surrogate pair has no bytes
        except ValueError:
            reason = f"{parts[0]} holds an unknown escape: as in JSON, a backslash is written \\\\"
            raise RuleSyntaxError(self.at(meta), reason) from None
        return Const(value, "string", where=self.at(meta))

    def moment(self, meta: Meta, parts: list[Token]) -> Const:
        """`#2013-01-31#`, or with a time of day, or that alone: `#17:05:00#`."""
        text = parts[0][1:-1].strip()
        if FINER.search(text):
            reason = f"#{text}# is finer than microseconds: write at most six digits of a second"
            raise RuleSyntaxError(self.at(meta), reason)
        try:
            if ":" in text[:3] and not time.fromisoformat(text).tzinfo:
                return Const(time.fromisoformat(text), LITERALS[time], where=self.at(meta))
            if len(text) <= 10:
                return Const(date.fromisoformat(text), LITERALS[date], where=self.at(meta))
            moment = datetime.fromisoformat(text)
        except ValueError:
            reason = (
                f"#{text}# is not a date or timestamp: write #2013-01-31# or #2013-01-31 17:05:00#"
            )
            raise RuleSyntaxError(self.at(meta), reason) from None
        if moment.tzinfo is not None:
            reason = f"#{text}# has a time zone: write it in UTC, without the zone"
            raise RuleSyntaxError(self.at(meta), reason)
        return Const(moment, "timestamp", where=self.at(meta))

    def true(self, meta: Meta, parts: list[Token]) -> Const:
        """`true`"""
        return Const(True, "bool", where=self.at(meta))

    def false(self, meta: Meta, parts: list[Token]) -> Const:
        """`false`"""
        return Const(False, "bool", where=self.at(meta))


def _without_texts(text: str) -> str:
    """Return a text with spaces for its strings and comments."""
    return re.sub(
        r'"(\\.|[^"\\\n])*"|//[^\n]*|/\*(.|\n)*?\*/', lambda match: " " * len(match[0]), text
    )


def _name(node: Node) -> str:
    return node.name if isinstance(node, Application) else ""


def _is_truth(term: Node) -> bool:
    return isinstance(term, Const) and term.type == "bool"


def _as_type(item: Formula) -> Formula:
    """Return `int(x)`, which has been parsed as an atom, as a type; any other formula as it is."""
    if (
        isinstance(item, Application)
        and not item.function
        and is_named(item.name)
        and len(item.args) == 1
    ):
        (variable,) = item.args
        if isinstance(variable, Var) and not variable.marked:
            return Typed(item.name, variable.name, where=item.where)
    return item


def _entity(
    left: Formula, types: tuple[Typed, ...], others: tuple[Formula, ...]
) -> list[Statement]:
    """Return what `person(p), name(p : n) -> string(n).` declares: a person is its name."""
    match left, types:
        case (
            And(
                (
                    Application(_, (Var() as one,), False) as entity,
                    Application(_, (first, Var() as value), False) as mode,
                )
            ),
            (Typed(variable=named) as typed,),
        ) if first == one and named == value.name and not others:
            same = Operation("=", value, one, where=mode.where)
            text = f"{mode.name}({one.name}, {value.name}) <- {entity.name}({one.name}), {value.name} = {one.name}."
            rule = Clause((mode,), And((entity, same)), (), text, where=mode.where)
            return [Declaration(entity, (replace(typed, variable=one.name),)), rule]
    return []


def _range_of(typed: Typed) -> Iterator[Operation]:
    """Yield the comparisons that a value of a type smaller than a word satisfies."""
    name = typed.type.removesuffix("?")
    for op, bound in zip((">=", "<="), RANGES.get(name, ()), strict=False):
        variable = Var(typed.variable, where=typed.where)
        constant = Const(bound, "int64", where=typed.where)
        yield Operation(op, variable, constant, where=typed.where)


def _conjunction(body: Formula | None) -> And:
    return And(()) if body is None else body if isinstance(body, And) else And((body,))


def _results(aggregates: tuple[Any, ...]) -> set[str]:
    return {v.name for fold, _ in aggregates for v in fold.results}


_WORDS = {
    "$END": "the end", "AGG": "`agg<<`", "BANG": "`!`", "CARET": "`^`", "COMMA": "`,`",
    "DOT": "`.`", "COMPARE": "a comparison", "EQUAL": "`=`", "INT": "a number", "LPAR": "`(`",
    "LSQB": "`[`", "NAME": "a name", "RPAR": "`)`", "RSQB": "`]`", "SEMICOLON": "`;`",
    "_END": "`>>`", "_HAS": "`->`", "_IF": "`<-`", "PLUS": "`+`", "MINUS": "`-`", "NULLABLE": "`?`",
    "IN": "`in`",
}  # fmt: skip
_TERM = {
    "INT", "DECIMAL", "FLOAT", "STRING", "MOMENT", "TRUE", "FALSE", "UNDERSCORE", "PARAMETER",
}  # fmt: skip
_ARITHMETIC = {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CARET"}


def complaint(error: Any, text: str, source: str) -> RuleSyntaxError:
    """Convert an error of lark while parsing `text`."""
    habit = habit_at(text, error.pos_in_stream)
    if habit is not None:
        start, remedy = habit
        line = text.count("\n", 0, start) + 1
        return RuleSyntaxError(Where(source, line, start - text.rfind("\n", 0, start)), remedy)
    if not isinstance(error, UnexpectedToken) or text.startswith("/*", error.pos_in_stream):
        where = Where(source, error.line, error.column)
        return RuleSyntaxError(where, stray(text[error.pos_in_stream :]))
    expected = _expected(_likely(error.accepts or error.expected))
    if error.token.type == "$END":
        return RuleSyntaxError(_end(text, source), f"expected {expected} before the text ends")
    where = Where(source, error.line, error.column)
    return RuleSyntaxError(
        where, f"expected {expected} but found `{error.token}`{remedy_for(error.token)}"
    )


def _likely(accepted: set[str]) -> set[str]:
    """Return what may come next without what seldom does: an aggregate within a body, and the
    order of rows.
    """
    seldom = (
        {"AGG"} if "DOT" not in accepted else {"COMPARE"} if "EQUAL" not in accepted else set[str]()
    )
    return accepted - seldom


def shown(error: Exception, text: str) -> Exception:
    """Return the error; add the line of the text to a syntax error."""
    if isinstance(error, RuleSyntaxError):
        error.text = error.text or text.split("\n")[error.where.line - 1]
    return error


def _end(text: str, source: str) -> Where:
    lines = text.rstrip().split("\n")
    return Where(source, len(lines), len(lines[-1]) + 1)


def _expected(terminals: set[str]) -> str:
    """Describe the terminals of a place; those that start a term are one word, as are operators."""
    words = set[str]()
    terminals = terminals - {"ELSE", "FOR", "COLON"}
    if {"LPAR", "LSQB", "COMPARE"} <= terminals:  # after a name, which is rarely a term alone
        terminals = {"LPAR", "LSQB", "COMPARE", "EQUAL"}
    elif "DOT" in terminals:  # after `)`, which rarely ends the size of a type
        terminals = terminals - {"LPAR", "NULLABLE"}
    if "MOMENT" in terminals:
        words |= {"a term"} if "BANG" not in terminals else {"an atom", "a comparison"}
        terminals = terminals - _TERM - {"NAME", "LPAR", "MINUS", "BANG"}
    if "STAR" in terminals:
        words.add("arithmetic")
        terminals = terminals - _ARITHMETIC - {"NULLABLE"}
    if "CARET" in terminals:
        return "a rule, a declaration or an edit"
    *most, last = sorted(words | {_WORDS[t] for t in terminals})
    return f"{', '.join(most)} or {last}" if most else last
