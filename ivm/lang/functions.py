"""Functions of terms: what a row says of one, and where all of them are found by their names.

    abs[x]    round[x, 2]    string:upper[s]    datetime:year[d]    if[x < 3, "few", "many"]    coalesce[x, 0]

The arguments in brackets may be comparisons, which are terms of type bool there.  A predicate of
the same name takes precedence.  Each is one row beside what evaluates it, in a file of `ivm/terms`:
its names, what it takes and gives, and whether it may fail.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from re import findall, fullmatch
from typing import Any, NamedTuple

from ivm.errors import OptionError
from ivm.lang import ir
from ivm.lang.types import TEXTS, column_type, common, decimal_scale, scale, zone_of
from pagestore.host import YEARS

COUNTED = "int64", *YEARS  # types whose words are the numbers that count their values
WHOLE = (*COUNTED, "uint64")  # types of values that whole numbers count
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


class Function(NamedTuple):
    """What a function takes, gives and does.

    `takes` are the kinds of its parameters, the last repeated if it is `open`; those of a kind
    `alike` share one type. `gives` is a type, or a function of the arguments' types and constants.
    One that is not `strict` may have a value where an argument is null.  One that `may_fail` does
    not if its constants are `sure`.  `compute` takes what ivm/terms/operands.py says.
    """

    signature: str
    takes: tuple[str, ...]
    gives: "ir.Type | Callable[[Sequence[ir.Type], Sequence[ir.Const | None]], ir.Type]"
    least: int  # the fewest arguments
    open: bool
    may_fail: bool
    strict: bool = True
    sure: "Callable[[Sequence[ir.Term]], bool] | None" = None
    compute: "Callable[..., Any] | None" = None
    sql: str = ""  # its names there, and perhaps the type of its result, as in "sign -> TINYINT"

    def kind(self, place: int) -> str:
        """Return the kind of a parameter."""
        return self.takes[min(place, len(self.takes) - 1)]

    def admits(self, count: int) -> bool:
        """Return whether the function takes so many arguments."""
        return self.least <= count and (self.open or count <= len(self.takes))

    @property
    def arity(self) -> str:
        """How many arguments it takes, in words."""
        to = f" to {len(self.takes)}" if self.least < len(self.takes) else ""
        more = " or more" if self.open else to
        return f"{self.least}{more} argument{'s' * (bool(more) or self.least != 1)}"


RESULT_KINDS = "alike", "any", "moment", "number"  # first words: as the argument of that kind
FUNCTIONS: dict[str, Function] = {}
ALIASES: dict[str, str] = {}  # their other names, of SQL, LogiQL and Soufflé


def _type_of(place: int, types: Sequence[ir.Type], _: Sequence[ir.Const | None]) -> ir.Type:
    return types[place]


def define(
    name: str,
    signature: str,
    compute: Callable[..., Any] | None = None,
    also: str = "",
    sql: str = "",
    gives: Callable[[Sequence[ir.Type], Sequence[ir.Const | None]], ir.Type] | None = None,
    strict: bool = True,
    sure: Callable[[Sequence[ir.Term]], bool] | None = None,
) -> None:
    """Add a function under its name and, with blanks between, what it is called `also`, and in SQL.

    string, string? -> string       the second argument may be left out
    int64, int64... -> int64        any number of the last one
    alike... -> alike               arguments of one type, and a result of that type
    number, number -> int64?        for some arguments it has no value, and fails
    """
    parameters, _, result = signature.partition(" -> ")
    marked = parameters.split(", ")
    takes = tuple(type_.removesuffix("...").removesuffix("?") for type_ in marked)
    given = result.removesuffix("?")
    if given.partition(" ")[0] in RESULT_KINDS and not gives:
        gives = partial(_type_of, takes.index(given))
    FUNCTIONS[name] = Function(
        signature,
        takes,
        gives or given,
        sum("?" not in type_ for type_ in marked),
        marked[-1].endswith("..."),
        result.endswith("?"),
        strict,
        sure,
        compute,
        sql,
    )
    ALIASES.update(dict.fromkeys(also.split(), name))


def is_kind(type_: ir.Type, kind: str) -> bool:
    """Return whether a type is of a kind of parameters."""
    match kind:
        case "number":
            return type_ in ("int64", "float64") or decimal_scale(type_) is not None
        case "exact number":
            return type_ == "int64" or decimal_scale(type_) is not None
        case "moment":
            return type_ in YEARS or zone_of(type_) is not None
        case "clock":
            return type_ == "time" or is_kind(type_, "moment")
        case "alike countable":
            return type_ in (*WHOLE, "float64") or scale(type_) is not None
        case "step":
            return type_ in ("int64", "float64") or scale(type_) is not None
        case "any" | "alike":
            return True
    if decimal_scale(kind) is not None:
        return common(type_, kind) is not None
    return type_ == kind or (kind == "string" and type_ in TEXTS)


for _name in COMPARISONS:  # which become comparisons
    define(_name, "alike, alike -> bool")


def call_may_fail(call: ir.Call) -> bool:
    """Return whether a function may have no value for some arguments, given its constants."""
    signature = FUNCTIONS[call.name]
    return signature.may_fail and not (signature.sure and signature.sure(call.args))


USERS: dict[str, str] = {}  # the signatures of users' functions, as text
DECLARATION = "lang:function"  # as in lang:function("f", "float64, float64 -> float64").


def declare_function(name: str, signature: str) -> str:
    """Make a name that of a function of users, and return its signature in the form in which it is
    stored.

    Raises OptionError for a name that is taken, also by the same name with another signature, and
    for a bad signature.

    >>> declare_function("haversine", "float, decimal(8, 2) -> float")
    'float64, decimal(8,2) -> float64'
    """
    takes, arrow, gives = signature.partition("->")
    if not arrow or not fullmatch(ir.WORD, name) or name in ir.RESERVED:
        reason = (
            "a function has a name like geo:distance and a signature like float, float -> float"
        )
        raise OptionError(f"{name!r} with {signature!r}: {reason}")
    types = [
        column_type(type_.replace(" ", ""), ir.NOWHERE)
        for type_ in findall(r"[^,(]+(?:\([^)]*\))?", takes)
        if type_.strip()
    ]
    result = column_type(gives.replace(" ", ""), ir.NOWHERE)
    text = f"{', '.join(types)} -> {result}"
    if (
        name in ALIASES
        or USERS.get(name, text) != text
        or (name in FUNCTIONS and name not in USERS)
    ):
        was = f": {USERS[name]}" if name in USERS else ""
        raise OptionError(f"there is a function {name!r} already{was}; use another name")
    USERS[name] = text
    define(name, f"{text}?")
    return text


def users_functions(nodes: Iterable[ir.Term | ir.Literal]) -> Iterator[str]:
    """Yield the names of the functions of users in some terms or literals."""
    for node in nodes:
        match node:
            case ir.Call():
                yield from [node.name] if node.name in USERS else []
                yield from users_functions(node.args)
            case ir.Binary() | ir.Compare():
                yield from users_functions((node.left, node.right))
            case ir.Negation():
                yield from users_functions(node.body)


def function_named(name: str) -> str | None:
    """Return a function's name in FUNCTIONS, by that or another name; None for others."""
    return name if name in FUNCTIONS else ALIASES.get(name)
