"""The parser's tree: the text as the user wrote it, one node for each construct, with its place."""

from dataclasses import dataclass

from ivm.errors import Where
from ivm.lang.ir import Aggregate, Const, Placed, Type, Var

BAG = "lang:bag"  # a statement that makes a view a bag, as in lang:bag(v).
MARKED = "`?` marks an argument or a value of an atom that may be null, as in p(x?) or f[x] = y?"


@dataclass(frozen=True, slots=True)
class Anonymous(Placed):
    """`_`: a variable that occurs nowhere else; `_?` if it is `marked`."""

    marked: bool = False


@dataclass(frozen=True, slots=True)
class Application(Placed):
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


Node = Var | Const | Anonymous | Application | Operation


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


Formula = Application | Operation | Not | And | Or


@dataclass(frozen=True, slots=True)
class Declaration:
    """`name(x, y) -> int(x), int(y).` or `name[x] = y -> ...`, as written."""

    head: Application | Operation
    types: tuple[tuple[str, Type, Where], ...]  # variable, type text, place


@dataclass(frozen=True, slots=True)
class Clause(Placed):
    """`heads <- aggregate body.`; the body of `c[x] = a[x] + b[x].` is empty."""

    heads: tuple[Application | Operation, ...]
    body: And
    aggregates: tuple[tuple[Aggregate, tuple[Node, ...]], ...]  # each with its terms
    text: str = ""
    groups: And = And(())  # the body after `for`, which says which groups have a row in any case


@dataclass(frozen=True, slots=True)
class Change(Placed):
    """`+ head`, `- head` or `^ head`."""

    action: str
    head: Application | Operation


Statement = Declaration | Clause | Change


def split(head: Application | Operation) -> tuple[Application, Node | None]:
    """Split a head into its call and its value, which is None for a relation."""
    if isinstance(head, Application):
        return head, None
    assert isinstance(head.left, Application)
    return head.left, head.right
