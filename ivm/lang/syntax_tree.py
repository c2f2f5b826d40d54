"""The parser's tree: the text as the user wrote it, one node for each construct, with its place."""

from dataclasses import dataclass

from ivm.errors import Where
from ivm.lang.ir import Aggregate, Const, Placed, Type, Var

MARKED = "`?` marks an argument or a value of an atom that may be null, as in p(x?) or f[x] = y?"


@dataclass(frozen=True, slots=True)
class Anonymous(Placed):
    """`_`: a variable that occurs nowhere else; `_?` if it is `marked`."""

    marked: bool = False


@dataclass(frozen=True, slots=True)
class Call(Placed):
    """`name(args)`, or `name[args]` if `function`; for `name[args] = (values)` args and values, `keys` of them args."""

    name: str
    args: tuple["Node", ...]
    function: bool
    keys: int | None = None


@dataclass(frozen=True, slots=True)
class Operation(Placed):
    """`left op right`: arithmetic (+ - * /) or a comparison (= != < <= > >=)."""

    op: str
    left: "Node"
    right: "Node"


Node = Var | Const | Anonymous | Call | Operation


@dataclass(frozen=True, slots=True)
class Not(Placed):
    """`!item`"""

    item: "Formula"


@dataclass(frozen=True, slots=True)
class And:
    """`item, item, ...`"""

    items: tuple["Formula", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """`item ; item ; ...`"""

    items: tuple["Formula", ...]


Formula = Call | Operation | Not | And | Or


@dataclass(frozen=True, slots=True)
class Declaration:
    """`name(x, y) -> int(x), int(y).` or `name[x] = y -> ...`, as written."""

    head: Call | Operation
    types: tuple[tuple[str, Type, Where], ...]  # variable, type text, place


@dataclass(frozen=True, slots=True)
class Clause(Placed):
    """`heads <- aggregate body.`; the body of `c[x] = a[x] + b[x].` is empty."""

    heads: tuple[Call | Operation, ...]
    body: And
    aggregates: tuple[tuple[Aggregate, tuple[Node, ...]], ...]  # each with its terms
    text: str = ""


@dataclass(frozen=True, slots=True)
class Change(Placed):
    """`+ head`, `- head` or `^ head`."""

    action: str
    head: Call | Operation


Statement = Declaration | Clause | Change
