"""The parser's tree: the text as the user wrote it, one node for each construct, with its place."""

from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from ivm.lang.ir import Aggregate, Const, Placed, Type, Var

BAG = "lang:bag"  # a statement that makes a view a bag, as in lang:bag(v).
# a statement that makes one an equivalence, as in lang:equivalence(v).
EQUIVALENCE = "lang:equivalence"
NESTING_MAX = 100  # the passes recurse over the tree
TOO_DEEP = f"nested deeper than {NESTING_MAX} levels: give the inner parts views of their own"
MARKED = "`?` marks an argument or a value of an atom that may be null, as in p(x?) or f[x] = y?"


@dataclass(frozen=True, slots=True)
class Anonymous(Placed):
    """`_`: a variable that occurs nowhere else; `_?` if it is `marked`."""

    marked: bool = False


@dataclass(frozen=True, slots=True)
class Application(Placed):
    """`name(args)`, or `name[args]` if `function`; for `name[args] = (values)` args and values,
    `keys` of them args.
    """

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


Folds = tuple[tuple[Aggregate, tuple[Node, ...]], ...]  # aggregates with their terms


@dataclass(frozen=True, slots=True)
class Aggregation(Placed):
    """`agg<<result = op(terms) for groups>> item` in a body, where other variables are those of
    its groups.
    """

    aggregates: tuple[tuple[Aggregate, tuple[Node, ...]], ...]
    item: "Formula"
    groups: "Formula | None" = None


@dataclass(frozen=True, slots=True)
class Typed(Placed):
    """`type(variable)` to the right of `->`, as in `decimal(8, 2)?(p)`."""

    type: Type
    variable: str


Formula = Application | Operation | Not | And | Or | Aggregation | Typed


@dataclass(frozen=True, slots=True)
class Declaration:
    """`name(x, y) -> int(x), int(y).` or `name[x] = y -> ...`; a column in a relation of
    `others` has its type.
    """

    head: Application | Operation
    types: tuple[Typed, ...]
    others: tuple[Formula, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint(Placed):
    """`left -> item, item, ... .`: whatever satisfies `left` has to satisfy each item."""

    left: Formula
    items: tuple[Formula, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Clause(Placed):
    """`heads <- aggregate body.`; the body of `c[x] = a[x] + b[x].` is empty."""

    heads: tuple[Application | Operation, ...]
    body: And
    aggregates: tuple[tuple[Aggregate, tuple[Node, ...]], ...]  # each with its terms
    text: str = ""
    groups: And = And(())  # the body after `for`, which says which groups have a row in any case


@dataclass(frozen=True, slots=True)
class Subsumption(Placed):
    """`lesser <= greater <- body.`: the row `lesser` of a view makes way for the row `greater`
    where `body` holds.
    """

    lesser: Application
    greater: Application
    body: And = And(())
    text: str = ""


@dataclass(frozen=True, slots=True)
class Change(Placed):
    """`+ head`, `- head` or `^ head`; with a `body`, one for each of its bindings."""

    action: str
    head: Application | Operation
    body: And | None = None
    aggregates: tuple[tuple[Aggregate, tuple[Node, ...]], ...] = ()
    text: str = ""


def of_whole(body: Formula | None) -> tuple[Folds, Formula | None, Formula | None]:
    """Return the aggregates at the beginning of a body, their groups, and the body without them."""
    match body:
        case Aggregation():
            return body.aggregates, body.groups, body.item
        case And((Aggregation() as first, *others)) | Or((Aggregation() as first, *others)):
            return first.aggregates, first.groups, replace(body, items=(first.item, *others))
        case Or((And((Aggregation() as first, *near)), *others)):
            return first.aggregates, first.groups, Or((And((first.item, *near)), *others))
    return (), None, body


def parts_of(part: "Formula | Node | Subsumption") -> tuple[Formula | Node, ...]:
    """Return the formulas and terms that a formula or a term consists of."""
    match part:
        case Application():
            return part.args
        case Operation():
            return part.left, part.right
        case Not():
            return (part.item,)
        case And() | Or():
            return part.items
        case Subsumption():
            return part.lesser, part.greater, part.body
        case Aggregation():
            terms = (term for fold, terms in part.aggregates for term in (*fold.results, *terms))
            return (*terms, part.item, *(() if part.groups is None else (part.groups,)))
    return ()


def walk(part: "Formula | Node | Subsumption", within: bool = True) -> list[Formula | Node]:
    """Return a formula or a term and all that it consists of, each before its parts; unless
    `within`, nothing that is inside aggregates.
    """
    parts: list[Any] = []
    left: list[Any] = [part]
    while left:
        parts.append(left.pop())
        if within or not isinstance(parts[-1], Aggregation):
            left += reversed(parts_of(parts[-1]))
    return parts


def variables_in(part: "Formula | Node | Subsumption") -> list[Var]:
    """Return every occurrence of a variable in a formula or a term."""
    return [inner for inner in walk(part) if isinstance(inner, Var)]


def names_in(*parts: "Formula | Node | Subsumption | None") -> list[str]:
    """Return the names of the predicates in formulas and terms, where there is one."""
    inner = (node for part in parts if part is not None for node in walk(part))
    return [atom.name for atom in inner if isinstance(atom, Application)]


Statement = Declaration | Constraint | Clause | Subsumption | Change


def is_head(item: Formula) -> TypeGuard[Application | Operation]:
    """Return whether a formula is p(x, y) or f[x] = y."""
    if isinstance(item, Operation):
        return item.op == "=" and isinstance(item.left, Application) and not is_alone(item)
    return isinstance(item, Application)


def is_alone(item: Formula) -> bool:
    """Return whether a formula is a term alone, as f[x] or true, compared with true."""
    return (
        isinstance(item, Operation)
        and isinstance(item.right, Const)
        and item.right.where == item.left.where
    )


def items_of(formula: Formula | None) -> list[Formula]:
    """Return the formulas of a conjunction, nested conjunctions flattened."""
    if isinstance(formula, And):
        return [inner for item in formula.items for inner in items_of(item)]
    return [] if formula is None else [formula]


def split(head: Application | Operation) -> tuple[Application, Node | None]:
    """Split a head into its call and its value, which is None for a relation."""
    if isinstance(head, Application):
        return head, None
    assert isinstance(head.left, Application)
    return head.left, head.right
