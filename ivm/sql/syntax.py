"""Say what is wrong with a text that does not parse, or parses as half a statement, or as
something else, and with its parameters, which are put in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType

from ivm.lang.aggregate import OPERATIONS
from ivm.sql.errors import SqlError, SqlSyntaxError, counted
from ivm.sql.literals import literal

Parameters = Sequence[Any] | Mapping[str, Any] | None

PLACE = "place"  # in the meta of a `?`: where it begins in the text
TOKEN = re.compile(r"<Token token_type: .*?, text: (.*?), line: .*?>")  # as sqlglot shows one
LACKING = re.compile(r"Required keyword: '\w+' missing for <class '.*?'>")
WORD = re.compile(r"[^\W\d]\w*")
CREATED = re.compile(
    r"create\b.*?\bas\s+(?=[(\s]*(?:select|from|with|values)\b)", re.IGNORECASE | re.DOTALL
)
QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
PLACES = re.compile(rf"({QUOTED.pattern})|(\$\d+)", re.DOTALL)
STARTS = (
    "SELECT", "FROM", "WITH", "VALUES", "PIVOT", "UNPIVOT", "INSERT", "UPDATE", "DELETE", "MERGE",
    "TRUNCATE", "CREATE", "REBASE",
    "DROP", "ALTER", "COPY", "DESCRIBE", "SHOW", "EXPLAIN", "BEGIN", "COMMIT", "ROLLBACK",
)  # fmt: skip
WORDS = (
    *STARTS, "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "LEFT", "RIGHT",
    "INNER", "OUTER", "CROSS", "UNION", "EXCEPT", "INTERSECT", "DISTINCT", "BETWEEN", "CASE",
    "WHEN", "THEN", "ELSE", "INTO", "SET", "USING", "TABLE", "VIEW", "MATERIALIZED", "INDEX",
    "COLUMN", "COLUMNS", "RENAME", "PRIMARY", "REFERENCES", "DEFAULT", "WINDOW", "PARTITION",
    "QUALIFY", "RETURNING", "CONFLICT", "EXISTS", "LIKE", "TABLES",
)  # fmt: skip
MISTAKEN = {
    "GROUP": "after GROUP comes BY", "ORDER": "after ORDER comes BY",
    "PARTITION": "after PARTITION comes BY", "TOP": "the number of rows comes last, as in LIMIT 5",
}  # fmt: skip
TOO_DEEP = "this text nests too deep: give its inner parts a MATERIALIZED VIEW of their own, or write fewer parentheses"
TAKES = {  # how many arguments DuckDB's functions take of which the parser would read others
    **dict.fromkeys(("epoch_ms", "log10", "log2", "sha256", "to_binary", "to_timestamp"), (1, 1)),
    **dict.fromkeys(("array_position", "list_position", "list_indexof", "ifnull"), (2, 2)),
    **dict.fromkeys(("element_at", "map_extract", "multiply", "divide", "array_intersect"), (2, 2)),
    **dict.fromkeys(("arg_max", "arg_min", "argmax", "argmin", "max_by", "min_by"), (2, 3)),
    **{op: (1, 1 + len(of.constants)) for op, of in OPERATIONS.items() if of.sql and of.constants},
    **dict.fromkeys(("quantile_disc", "quantile"), (1, 2)),
    "add": (2, 2), "map": (0, 2), "map_concat": (2, 99),
    **dict.fromkeys(("if", "lpad", "rpad"), (3, 3)),
    **dict.fromkeys(("array_slice", "list_slice"), (3, 4)),
    "list_sort": (1, 3), "array_sort": (1, 3), "columns": (1, 1),
}  # fmt: skip
SIGNS = {"!": "x! is written factorial(x), and !x is NOT x"}


def spaced(text: str) -> str:
    """Return a text with blanks around each `$1`, since the parser takes `$1,$2` for the beginning
    of a quoted text.
    """
    if re.search(r"\$\d+[^\s$]+\$", text) is None:
        return text
    return PLACES.sub(lambda match: match[1] or f" {match[2]} ", text)


def syntax_error(error: SqlglotError, text: str) -> SqlError:
    """Return the error of a text that does not parse."""
    if isinstance(error, TokenError):
        return _unclosed(text)
    details = getattr(error, "errors", None)
    if not details:
        return SqlError(str(error).split("\n")[0])
    first = details[0]
    line, column, marked = first.get("line") or 1, first.get("col") or 1, first.get("highlight")
    place = line, max(1, column - len(marked or "") + 1)
    reason = (
        str(first.get("description", ""))
        .rstrip(".")
        .replace("Invalid expression / Unexpected token", "not expected")
    )
    reason = LACKING.sub("something is missing here", reason)
    reason = TOKEN.sub(
        lambda token: "the end" if token[1] == "SENTINEL" else f"`{token[1]}`", reason
    )
    reason = f"`{marked}`: " * bool(marked) + reason[:1].lower() + reason[1:]
    meant = f": {SIGNS[marked]}" if marked in SIGNS else _meant(text, place)
    return SqlSyntaxError(f"{reason}{meant}", place, _line(text, place[0]))


def no_statement(node: exp.Expr) -> SqlError:
    """Return the error of what parses, but is not a statement that is evaluated."""
    shown = node.sql(dialect="duckdb")
    word = (WORD.findall(shown) or [shown])[0]
    near = f": did you mean {_near(word, STARTS)}?" if _near(word, STARTS) else ""
    if word.upper() in STARTS:
        return SqlError(
            f"{word.upper()} does not go on like this: {shown[:50]}; docs/sql.md shows how it does",
            node,
        )
    if isinstance(node, exp.Comment):
        near = ": comments are not kept, leave it out"
    if isinstance(node, exp.Summarize):
        near = ": write SELECT count(x), count(DISTINCT x), min(x), max(x), avg(x) FROM t"
    return SqlError(
        f"no statement begins with {word}{near or '; docs/sql.md lists the statements'}", node
    )


def query_in_place(command: str, text: str) -> str:
    """Return the query of a CREATE ... AS with blanks before it as in the whole text; empty if it
    has none.

    The parser takes a CREATE for a command if its query does not parse: alone, this says where and
    why.
    """
    begin, query = text.find(command), CREATED.match(command)
    if begin < 0 or query is None:
        return ""
    return re.sub(r"\S", " ", text[: begin + query.end()]) + command[query.end() :]


def refuse_halves(nodes: Sequence[exp.Expr]) -> None:
    """Raise SqlError for a statement that parses though a part is missing; `nodes` are all of
    it, itself first.
    """
    for part in nodes:
        # whose UPDATE and INSERT may have nothing else
        of_merge = isinstance(part.parent, exp.When)
        if part is nodes[0] or (
            isinstance(part, exp.Update | exp.Insert | exp.OnConflict) and not of_merge
        ):
            for missing in _lacks(part):
                raise SqlError(missing, part if part.find(exp.Identifier) else nodes[0])


def _lacks(part: exp.Expr) -> Iterator[str]:
    """Yield what a part of a statement lacks."""
    table = part.this if isinstance(part.this, exp.Expression) else None
    if isinstance(part, exp.Create) and part.expression is None:
        kind, columns = part.args.get("kind"), isinstance(table, exp.Schema)
        if kind == "VIEW" or (kind == "TABLE" and not columns):
            either = ", or (column type, ...)" * (kind == "TABLE")
            yield f"CREATE {kind} lacks what follows the name: AS SELECT ...{either}"
    if isinstance(part, exp.Select) and not part.expressions and part.args.get("from_"):
        inner = part.args["from_"].this
        if isinstance(inner, exp.Select):  # as sqlglot reads SELECT from FROM t
            yield 'SELECT lacks its columns; a column that is named "from" is written in quotes'
    if isinstance(part, exp.Delete) and table is None:
        yield "FROM is missing: write DELETE FROM table WHERE ..."
    if isinstance(part, exp.Update) and not [
        part_of for part_of in part.expressions if isinstance(part_of, exp.EQ)
    ]:
        yield "a value is missing: write SET column = value"
    if (
        isinstance(part, exp.Insert)
        and not isinstance(part.expression, exp.Expression)
        and not part.args.get("default")
    ):
        yield "the rows are missing: write INSERT ... VALUES (...)"
    if isinstance(part, exp.OnConflict) and not part.args.get("action"):
        yield "ON CONFLICT lacks what to do: DO NOTHING, or DO UPDATE SET column = value"


def _unclosed(text: str) -> SqlError:
    """Return the error of a quote or a comment that is not closed."""
    rest = QUOTED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    opened = re.search(r"['\"]|/\*", rest)
    if opened is None:
        return SqlError("a sign in this text is not one of SQL")
    before = text[: opened.start()].split("\n")
    place = len(before), len(before[-1]) + 1
    what = "comment" if opened[0] == "/*" else "quote"
    return SqlSyntaxError(f"this {what} is not closed", place, _line(text, place[0]))


def _meant(text: str, place: tuple[int, int]) -> str:
    """Return a guess at the mistake: of the word before a place, else of the first one."""
    lines = text.split("\n")
    before = WORD.findall(
        "\n".join([*lines[: place[0] - 1], lines[place[0] - 1][: place[1] - 1]]).rpartition(";")[2]
    )
    if before and before[-1].upper() in MISTAKEN:
        return f": {MISTAKEN[before[-1].upper()]}"
    for word, words in [(one, STARTS) for one in before[:1]] + [
        (one, WORDS) for one in before[:-3:-1]
    ]:
        near = _near(word, words)
        # orders
        if (
            near
            and word.upper() not in words
            and (words is STARTS or not word.upper().startswith(near))
        ):
            return f": did you mean {near} instead of {word}?"
    return ""


def _near(word: str, words: tuple[str, ...]) -> str:
    """Return the one of some words that a misspelt one may be; empty if none is near."""
    return next(iter(get_close_matches(word.upper(), words, 1, 0.75)), "") if len(word) > 2 else ""


def _line(text: str, number: int) -> str:
    return "".join(text.split("\n")[number - 1 : number])


def parsed(text: str, dialect: str) -> list[exp.Expr]:
    """Return the statements of a text.  Raises SqlglotError, also for arguments of a function
    that have no meaning.
    """
    kind = Dialect.get_or_raise(dialect)
    with reading(text):
        tokens = kind.tokenize(text)
        words = " ".join(
            token.text.upper() for token in tokens if token.token_type != TokenType.STRING
        )
        if "STRICT CORRESPONDING" in words:  # whose first word the parser leaves out
            raise SqlError("STRICT is not evaluated: write CORRESPONDING, or name the columns")
        tree = _parser(type(kind))(dialect=kind).parse(tokens, text)
    # that has only a comment
    return [node for node in tree if node is not None and not isinstance(node, exp.Semicolon)]


@contextmanager
def reading(text: str) -> Iterator[None]:
    """Turn what the parser raises for a text that it does not expect into a SqlError."""
    try:
        yield
    except RecursionError:
        raise SqlError(TOO_DEEP) from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, SqlError | SqlglotError):
            raise
        raise SqlError(f"this text cannot be read as a statement: {text[:60]}") from error


def placeholders(base: type[Parser]) -> dict[TokenType, Any]:
    """Return how a parser reads parameters, with which each `?` knows its place in the text: a tree
    has its parts in another order.
    """

    def read(parser: Any) -> exp.Placeholder:
        made = exp.Placeholder()
        made.meta[PLACE] = parser._prev.start  # noqa: SLF001
        return made

    return {**base.PLACEHOLDER_PARSERS, TokenType.PLACEHOLDER: read}


class _NamingPivots(Parser):
    """Reads names of values in the IN of a statement PIVOT."""

    _pivot: Token | None = None  # after the PIVOT of the statement that is read

    def _parse_simplified_pivot(self, is_unpivot: bool | None = None) -> exp.Pivot:
        around, self._pivot = self._pivot, self._curr
        try:
            return super()._parse_simplified_pivot(is_unpivot)
        finally:
            self._pivot = around

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        if self._pivot is not None:
            before = self._tokens[self._tokens.index(self._pivot) : self._index]
            alias = alias or not sum((t.text == "(") - (t.text == ")") for t in before)
        return super()._parse_in(this, alias=alias)


@cache
def _parser(kind: type[Dialect]) -> type[Parser]:
    """Return the parser of a dialect, which refuses arguments that it would leave out of the
    tree, and as many as the function does not take.
    """
    base: type[Parser] = kind.parser_class

    class Checked(_NamingPivots, base):  # type: ignore[misc, valid-type]
        PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = placeholders(base)
        PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **base.PRIMARY_PARSERS,
            TokenType.BYTE_STRING: lambda _, token: exp.Literal.string(token.text),  # E'...'
        }
        HISTORICAL_DATA_KIND: ClassVar[set[str]] = {*base.HISTORICAL_DATA_KIND, "BRANCH"}
        ALTER_RENAME_REQUIRES_COLUMN = False

        def _parse_statement(self) -> exp.Expr | None:
            words = [token.text.upper() for token in (self._curr, self._next) if token]
            if words in (["MERGE", "BRANCH"], ["REBASE", "BRANCH"]):
                self._advance()
                command: exp.Expr = self._parse_as_command(self._prev)
                return command
            statement: exp.Expr | None = super()._parse_statement()
            return statement

        def _parse_function_call(self, *how: Any, **named: Any) -> exp.Expr | None:
            tokens = self._tokens[self._index :]
            call: exp.Expr | None = super()._parse_function_call(*how, **named)
            name = tokens[0].text if call is not None and tokens else ""
            if name.lower() in TAKES and len(tokens) > 2 and tokens[1].text == "(":
                least, most = TAKES[name.lower()]
                if not least <= (given := _number_of_arguments(tokens)) <= most:
                    takes = f"{least}" if least == most else f"{least} to {most}"
                    some = f"{takes} argument{'s' * (most > 1)}"
                    self.raise_error(f"{name.lower()} takes {some}, and not {given}", tokens[0])
            return call

        def validate_expression(  # type: ignore[override]
            self, expression: exp.Expr, args: list[Any] | None = None
        ) -> exp.Expr:
            valid: exp.Expr = super().validate_expression(expression, args)
            if args and (lost := _left_out(valid, args)) is not None:
                self.raise_error(f"{lost.sql(dialect='duckdb')} has no meaning for this function")
            return valid

    return Checked


def _number_of_arguments(tokens: Sequence[Token]) -> int:
    """Return how many arguments a call has, whose name and `(` are the first tokens."""
    depth, given = 0, int(tokens[2].text != ")")
    for token in tokens[1:]:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if not depth or (depth == 1 and token.token_type == TokenType.ORDER_BY):
            break
        given += depth == 1 and token.token_type == TokenType.COMMA
    return given


def _left_out(made: exp.Expr, args: list[Any]) -> exp.Expr | None:
    """Return an argument of a function of which nothing is in the tree: neither itself nor
    another constant for it.
    """
    if isinstance(made, exp.ArraySort):  # whose defaults, written out, are no arguments
        return None
    given, constants, left = {id(arg): arg for arg in args if isinstance(arg, exp.Expr)}, 0, [made]
    while left:
        node = left.pop()
        if given.pop(id(node), None) is None:
            inside = [] if isinstance(node, exp.JSONPath) else [*node.iter_expressions()]
            constants += not inside
            left += inside
    return [*given.values()][-1] if len(given) > constants - (not made.args) else None


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow)


def regroup(nodes: Sequence[exp.Expr]) -> None:
    """Let `~` take all arithmetic after it, as in DuckDB and PostgreSQL: `~a + 1` is `~(a + 1)`.

    The `nodes` are those of a tree, each after those below it, in which the parser has let `~` bind
    tightest.
    """
    for node in nodes:
        if not isinstance(node, _ARITHMETIC):
            continue
        last = node.this
        while isinstance(last, (*_ARITHMETIC, exp.Neg)):
            last = last.this if isinstance(last, exp.Neg) else last.expression
        if isinstance(last, exp.BitwiseNot):
            left = node.this
            node.replace(left)
            node.set("this", last.this.unnest())
            last.set("this", exp.Paren(this=node))


def regroup_maps(nodes: Sequence[exp.Expr]) -> None:
    """Let `MAP {...}[k]` be the value of a key of a map: the parser makes a map of `{...}[k]`."""
    for node in nodes:
        if isinstance(node, exp.ToMap) and isinstance(node.this, exp.Bracket):
            inner = node.this
            node.replace(inner)
            while isinstance(inner.this, exp.Bracket):
                inner = inner.this
            struct = inner.this
            inner.set("this", node)
            node.set("this", struct)


def path_of(node: exp.Lambda) -> exp.Paren | None:
    """Return `j -> 'a'` among the arguments of a function of JSON, which parses as a lambda;
    None for a lambda.
    """
    parent = node.parent
    called = (
        parent.name
        if isinstance(parent, exp.Anonymous)
        else parent.key
        if isinstance(parent, exp.Func)
        else ""
    )
    if (
        not called.lower().startswith("json")
        or len(node.expressions) != 1
        or not isinstance(node.this, exp.Literal)
    ):
        return None
    path = exp.JSONExtract(this=exp.column(node.expressions[0].copy()), expression=node.this.copy())
    return exp.Paren(this=path)  # so that it does not become a lambda where its text is read again


def with_parameters(statements: list[exp.Expr], parameters: Parameters) -> list[exp.Expr]:
    """Return statements with `?`, `$1` and `:name` replaced by the parameters; `?` are counted
    over all of them.
    """
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping | None):
        raise SqlError(f"{parameters!r} is not a list of parameters: write [{parameters!r}]")
    places = [
        (number, place)
        for number, node in enumerate(statements)
        for place in node.find_all(exp.Placeholder, exp.Parameter, bfs=False)
    ]
    if not places:
        if parameters:
            raise SqlError(
                f"{len(parameters)} parameters are given, and the text has none: write ? or :name"
            )
        return statements
    # a part of which a translation makes copies has one value
    positional = {(n, p.meta.get(PLACE, -1)): p for n, p in places if _is_positional(p)}
    if positional and (
        isinstance(parameters, Mapping) or parameters is None or len(parameters) != len(positional)
    ):
        count = 0 if parameters is None else len(parameters)
        raise SqlError(
            f"{counted(len(positional), 'parameter')} wanted, and {count} given: give a list of "
            f"them",
            next(iter(positional.values())),
        )
    given = parameters if isinstance(parameters, Sequence) else ()
    values = dict(zip(sorted(positional), given, strict=False))
    for number, place in places:
        is_positional = _is_positional(place)
        at = number, place.meta.get(PLACE, -1)
        place.replace(literal(values[at] if is_positional else _named(place, parameters)))
    return statements


def _is_positional(place: exp.Expr) -> bool:
    return isinstance(place, exp.Placeholder) and not place.this


def _named(place: exp.Expr, parameters: Parameters) -> Any:
    name = place.name
    if isinstance(parameters, Mapping) and name in parameters:
        return parameters[name]
    if name.isdigit() and isinstance(parameters, Sequence) and 1 <= int(name) <= len(parameters):
        return parameters[int(name) - 1]
    raise SqlError(f"no parameter {name} is given", place)
