"""Functions of terms: their names, what they take, and the types of their results.

    abs[x]    round[x, 2]    string:upper[s]    datetime:year[d]    if[x < 3, "few", "many"]    coalesce[x, 0]

The arguments in brackets may be comparisons, which are terms of type bool there.  A predicate of
the same name takes precedence.  `ivm/terms/numbers.py` evaluates them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from re import findall, fullmatch
from typing import NamedTuple

from ivm.errors import OptionError
from ivm.lang.ir import (
    NOWHERE,
    RESERVED,
    WORD,
    Binary,
    Call,
    Compare,
    Const,
    Literal,
    Negation,
    Term,
    Type,
)
from ivm.lang.types import (
    DIGITS_MAX,
    TEXTS,
    WIDE_MAX,
    column_type,
    common,
    decimal_scale,
    scale,
    wide_scale,
    widest,
    zone_of,
)

WHOLE = "int64", "uint64", "date", "timestamp"  # types of values that whole numbers count
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


class Signature(NamedTuple):
    """What a function takes and gives.

    `takes` are the kinds of its parameters, the last repeated if it is `open`; those of a kind
    `alike` share one type. `gives` is a type, or a function of the arguments' types and constants.
    A function that is not `strict` may have a value where an argument is null.  One that `may_fail`
    does not if its constants are `sure`.
    """

    takes: tuple[str, ...]
    gives: "Type | Callable[[Sequence[Type], Sequence[Const | None]], Type]"
    least: int  # the fewest arguments
    open: bool = False
    strict: bool = True
    may_fail: bool = False
    sure: "Callable[[Sequence[Term]], bool] | None" = None

    def kind(self, place: int) -> str:
        """Return the kind of a parameter."""
        return self.takes[min(place, len(self.takes) - 1)]

    def admits(self, count: int) -> bool:
        """Return whether the function takes so many arguments."""
        return self.least <= count and (self.open or count <= len(self.takes))


def is_kind(type_: Type, kind: str) -> bool:
    """Return whether a type is of a kind of parameters."""
    match kind:
        case "number":
            return type_ in ("int64", "float64") or decimal_scale(type_) is not None
        case "exact number":
            return type_ == "int64" or decimal_scale(type_) is not None
        case "moment":
            return type_ in ("date", "timestamp") or zone_of(type_) is not None
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


def _first(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return types[0]


def _second(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return types[1]


def _rounded(types: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    digits = decimal_scale(types[0])
    if digits is None:
        return types[0]
    return widest(_of_scale(types[0], max(0, min(_whole_number(constants), digits))))


def _whole(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return widest(_of_scale(types[0], 0))


def _of_scale(type_: Type, digits: int) -> Type:
    """Return the decimal type of as many words as another with so many digits after the point;
    others as they are.
    """
    if decimal_scale(type_) is None:
        return type_
    return f"decimal({WIDE_MAX if scale(type_) is None else DIGITS_MAX},{digits})"


def _decimal(_types: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    most = constants[2].value if len(constants) > 2 and constants[2] is not None else DIGITS_MAX
    most = most if isinstance(most, int) and DIGITS_MAX <= most <= WIDE_MAX else DIGITS_MAX
    return f"decimal({most},{max(0, min(_whole_number(constants), most))})"


def _long_sum(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return f"decimal({WIDE_MAX},{max(decimal_scale(type_) or 0 for type_ in types)})"


def _long_product(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return f"decimal({WIDE_MAX},{min(sum(decimal_scale(type_) or 0 for type_ in types), WIDE_MAX)})"


def _joined(_: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    value = constants[0].value if constants[0] is not None else 0
    return f"decimal({WIDE_MAX},{max(0, min(value, WIDE_MAX)) if isinstance(value, int) else 0})"


def _powered(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return "int64" if set(types) == {"int64"} else "float64"


def _divided(types: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    most = WIDE_MAX if any(wide_scale(type_) is not None for type_ in types) else DIGITS_MAX
    return f"decimal({most},{max(0, min(_whole_number(constants[1:]), most))})"


def _whole_number(constants: Sequence[Const | None]) -> int:
    """Return the second argument, a number of digits, which must be a constant; 0 if there is
    none.
    """
    value = constants[1].value if len(constants) > 1 and constants[1] is not None else 0
    return value if isinstance(value, int) else 0


UNITS = (
    "millennium",
    "century",
    "isoyear",
    "decade",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
)


def _of_known_unit(args: Sequence[Term]) -> bool:
    return isinstance(args[-1], Const) and str(args[-1].value).lower() in UNITS


def _begins_in_time(args: Sequence[Term]) -> bool:
    """Return whether a unit of every moment begins in the year 1 or later, as those of more than
    a year may not.
    """
    return isinstance(args[-1], Const) and str(args[-1].value).lower() in UNITS[3:]


def _of_known_base(args: Sequence[Term]) -> bool:
    return isinstance(args[1], Const) and args[1].value in (2, 16)


FILLED = 1 << 20  # characters, up to which a text is filled up without failing


def _is_filled(args: Sequence[Term]) -> bool:
    """Return whether a text is filled up by a text that is not empty, and not to too many
    characters.
    """
    size, filling = args[1:]
    small = isinstance(size, Const) and isinstance(size.value, int) and size.value <= FILLED
    return small and isinstance(filling, Const) and bool(filling.value)


def _plain(gives: Type, *takes: str, least: int | None = None, may_fail: bool = False) -> Signature:
    return Signature(takes, gives, len(takes) if least is None else least, may_fail=may_fail)


_COMPARED = Signature(("alike", "alike"), "bool", 2)
FUNCTIONS: dict[str, Signature] = {
    **dict.fromkeys(COMPARISONS, _COMPARED),
    "if": Signature(("bool", "alike", "alike"), _second, 3, strict=False),
    "coalesce": Signature(("alike",), _first, 1, open=True, strict=False),
    "is_null": Signature(("any",), "bool", 1, strict=False),
    "same": Signature(("alike", "alike"), "bool", 2, strict=False),
    "try": Signature(("any",), _first, 1, strict=False),
    "and": Signature(("bool",), "bool", 1, open=True, strict=False),
    "or": Signature(("bool",), "bool", 1, open=True, strict=False),
    "not": _plain("bool", "bool"),
    "abs": Signature(("number",), _first, 1, may_fail=True),
    "sign": _plain("int64", "number"),
    "mod": Signature(("int64", "int64"), "int64", 2, may_fail=True),
    "float:ratio": _plain("float64", "float64", "float64"),
    "ratio": _plain("float64", "float64", "float64", may_fail=True),
    "fmod": _plain("float64", "float64", "float64"),
    "round": Signature(("number", "int64"), _rounded, 1, may_fail=True),
    "floor": Signature(("number",), _whole, 1),
    "ceil": Signature(("number",), _whole, 1, may_fail=True),
    "trunc": _plain("int64", "number", may_fail=True),
    "sqrt": _plain("float64", "float64", may_fail=True),
    "exp": _plain("float64", "float64"),
    "ln": _plain("float64", "float64", may_fail=True),
    "pow": _plain("float64", "float64", "float64", may_fail=True),
    "power": Signature(("number", "number"), _powered, 2, may_fail=True),
    "divide": Signature(("number", "number", "int64"), _divided, 3, may_fail=True),
    "in": Signature(("alike",), "bool", 2, open=True),
    "least": Signature(("alike",), _first, 1, open=True),
    "greatest": Signature(("alike",), _first, 1, open=True),
    **{
        name: _plain("float64", "float64", may_fail=True)
        for name in (
            "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
            "asinh", "acosh",
            "atanh",
        )
    },
    "atan2": _plain("float64", "float64", "float64"),
    **{f"bit_{name}": _plain("int64", "int64", "int64") for name in ("and", "or", "xor")},
    "bit_not": _plain("int64", "int64"),
    "shift_left": _plain("int64", "int64", "int64", may_fail=True),
    "shift_right": _plain("int64", "int64", "int64", may_fail=True),
    "shift_right_unsigned": _plain("int64", "int64", "int64", may_fail=True),
    **{name: Signature(("int64",), "int64", 2, open=True) for name in ("land", "lor", "lxor")},
    "lnot": _plain("int64", "int64"),
    "hash": _plain("int64", "any"),
    "bshl": _plain("int64", "int64", "int64"),
    "bshr": _plain("int64", "int64", "int64"),
    "bshru": _plain("int64", "int64", "int64"),
    "int": _plain("int64", "any", may_fail=True),
    "to_number": _plain("int64", "any", may_fail=True),
    "float": _plain("float64", "any", may_fail=True),
    "float:nearest": _plain("float64", "float64"),
    "float:single": _plain("float64", "float64"),
    "float:narrow": _plain("float64", "float64", may_fail=True),
    "within": Signature(("alike", "alike", "alike"), _first, 3, may_fail=True),
    "bool": _plain("bool", "any", may_fail=True),
    "decimal": Signature(("any", "int64", "int64"), _decimal, 2, may_fail=True),
    "decimal:add": Signature(("exact number", "exact number"), _long_sum, 2, may_fail=True),
    "decimal:subtract": Signature(("exact number", "exact number"), _long_sum, 2, may_fail=True),
    "decimal:multiply": Signature(("exact number", "exact number"), _long_product, 2,
    may_fail=True),
    "decimal:quotient": Signature(("exact number", "exact number"), "decimal(38,0)", 2,
    may_fail=True),
    "decimal:mod": Signature(("exact number", "exact number"), _long_sum, 2, may_fail=True),
    "decimal:part": _plain("int64", "exact number", "int64"),
    "decimal:joined": Signature(("int64",), _joined, 2, open=True, may_fail=True),
    "string": _plain("string", "any"),
    "date": _plain("date", "any", may_fail=True),
    "datetime": _plain("timestamp", "any", may_fail=True),
    "datetime:utc": _plain("timestamp(UTC)", "timestamp"),
    "datetime:zoned": _plain("timestamp(UTC)", "string", may_fail=True),
    "time": _plain("time", "any", may_fail=True),
    "gcd": Signature(("int64", "int64"), "int64", 2, may_fail=True),
    "bit_count": _plain("int64", "int64"),
    "string:elapsed": _plain("string", "int64"),
    "string:single": _plain("string", "float64"),
    "string:bytes": _plain("int64", "string"),
    "string:uuid": _plain("string", "string", may_fail=True),
    "string:whole_json": _plain("string", "string", may_fail=True),
    "string:strip_accents": _plain("string", "string"),
    "string:json": _plain("string", "string", "string", may_fail=True),
    "json:at": _plain("string", "string", "string", may_fail=True),
    "json:kind": _plain("string", "string", "string", may_fail=True),
    "json:length": _plain("int64", "string", "string", may_fail=True),
    "json:keys": _plain("string", "string", "string", may_fail=True),
    "json:valid": _plain("bool", "string"),
    "list:part": _plain("string", "string", "int64", "int64"),
    "list:length": _plain("int64", "string", may_fail=True),
    "list:count": _plain("int64", "string", may_fail=True),
    "list:unique": _plain("int64", "string", may_fail=True),
    "list:position": _plain("int64", "string", "string", may_fail=True),
    **{
        name: _plain("bool", "string", "string", may_fail=True)
        for name in ("list:contains", "list:any_in", "list:all_in")
    },
    "list:sort": _plain("string", "string", "string", may_fail=True),
    "list:reverse": _plain("string", "string", may_fail=True),
    "list:fold": _plain("string", "string", "string", "string", may_fail=True),
    "list:joined": _plain("string", "string", "string", may_fail=True),
    "list:concat": _plain("string", "string", "string"),
    "list:range": _plain("string", "int64", "int64", "int64", may_fail=True),
    "list:split": _plain("string", "string", "string"),
    "list:split_by": _plain("string", "string", "string", may_fail=True),
    "list:matches": _plain("string", "string", "string", "int64", may_fail=True),
    "list:of_key": _plain("string", "string", "string", may_fail=True),
    "list:column": _plain("string", "string", "int64", may_fail=True),
    "list:flat": _plain("string", "string", may_fail=True),
    "string:word": _plain("string", "string", "int64", may_fail=True),
    "string:place": _plain("int64", "string", "string", may_fail=True),
    **{f"string:{name}": _plain("string", "string")
       for name in ("hex", "bits", "sha1", "base64", "url_encode", "url_decode")},
    "string:digits": Signature(("int64", "int64"), "string", 2, may_fail=True, sure=_of_known_base),
    **{f"string:{name}": _plain("int64", "string", "string") for name in ("levenshtein",
    "damerau_levenshtein")},
    "string:hamming": _plain("int64", "string", "string", may_fail=True),
    "string:jaccard": _plain("float64", "string", "string", may_fail=True),
    "string:length": _plain("int64", "string"),
    "string:lower": _plain("string", "string"),
    "string:upper": _plain("string", "string"),
    "string:reverse": _plain("string", "string"),
    "string:trim": _plain("string", "string", "string", least=1),
    "string:ltrim": _plain("string", "string", "string", least=1),
    "string:rtrim": _plain("string", "string", "string", least=1),
    "string:concat": Signature(("string",), "string", 1, open=True),
    "string:substring": _plain("string", "string", "int64", "int64", least=2),
    "string:left": _plain("string", "string", "int64"),
    "string:right": _plain("string", "string", "int64"),
    "string:lpad": Signature(("string", "int64", "string"), "string", 3, may_fail=True,
    sure=_is_filled),
    "string:rpad": Signature(("string", "int64", "string"), "string", 3, may_fail=True,
    sure=_is_filled),
    "string:replace": _plain("string", "string", "string", "string"),
    "string:repeat": _plain("string", "string", "int64", may_fail=True),
    "string:position": _plain("int64", "string", "string"),
    "string:starts_with": _plain("bool", "string", "string"),
    "string:ends_with": _plain("bool", "string", "string"),
    "string:contains": _plain("bool", "string", "string"),
    "string:like": _plain("bool", "string", "string"),
    "string:ilike": _plain("bool", "string", "string"),
    "string:split_part": _plain("string", "string", "string", "int64"),
    "string:regexp_matches": _plain("bool", "string", "string", may_fail=True),
    "string:regexp_full_match": _plain("bool", "string", "string", may_fail=True),
    "string:regexp_replace": _plain("string", "string", "string", "string", may_fail=True),
    "match": _plain("bool", "string", "string"),
    "substr": _plain("string", "string", "int64", "int64"),
    "string:format": Signature(("string", "any"), "string", 1, open=True, may_fail=True),
    "string:parts": _plain("int64", "string", "string"),
    "string:ord": _plain("int64", "string", may_fail=True),
    "string:chr": _plain("string", "int64", may_fail=True),
    "string:sha256": _plain("string", "string"),
    "string:md5": _plain("string", "string"),
    **{
        f"datetime:{part}": _plain("int64", "moment")
        for part in ("year", "month", "day", "quarter", "week", "weekday", "isoweekday", "yearday",
        "epoch")
    },
    **{
        f"datetime:{part}": _plain("int64", "clock")
        for part in ("hour", "minute", "second")
    },
    "datetime:truncate": Signature(("moment", "string"), "timestamp", 2, may_fail=True,
    sure=_begins_in_time),
    "datetime:difference": Signature(
        ("moment", "moment", "string"), "int64", 3, may_fail=True, sure=_of_known_unit
    ),
    "datetime:whole_months": _plain("int64", "moment", "moment"),
    "date:of_parts": _plain("date", "int64", "int64", "int64", may_fail=True),
    "datetime:format": _plain("string", "moment", "string"),
    "datetime:parse": _plain("timestamp", "string", "string", may_fail=True),
    "datetime:add_months": Signature(("moment", "int64"), _first, 2, may_fail=True),
}  # fmt: skip
FUNCTIONS |= {  # of lang/rewrite/numbers.py
    "$count": _plain("int64", "alike countable", "alike countable", "step"),
    "$nth": Signature(
        ("alike countable", "alike countable", "step", "int64", "int64", "int64"),
        _first,
        6,
        may_fail=True,
    ),
    "$within": _plain(
        "bool", "alike countable", "alike countable", "alike countable", "step", may_fail=True
    ),
}
# Functions of SQL's dialects: what each gives, and what it takes (terms/dialects.py).
_ONE_TEXT = ("string",)
DIALECT_FUNCTIONS: dict[str, tuple[Type, tuple[str, ...]]] = {
    **{f"{dialect}:number": ("string", ("float64",)) for dialect in ("spark", "postgres",
    "sqlite")},
    **{f"spark:{name}": ("string", _ONE_TEXT)
       for name in ("initcap", "soundex", "mask", "sha512", "sha384", "sha224", "url_encode",
       "url_decode")},
    **{f"{dialect}:upper": ("string", _ONE_TEXT) for dialect in ("spark", "postgres", "sqlite")},
    "sqlite:lower": ("string", _ONE_TEXT),
    "postgres:initcap": ("string", _ONE_TEXT),
    "spark:crc32": ("int64", _ONE_TEXT),
    "spark:format_number": ("string", ("number", "int64")),
    "spark:bround": ("float64", ("float64", "int64")),
    "spark:round": ("float64", ("float64", "int64")),
    **{f"{dialect}:substring": ("string", ("string", "int64", "int64")) for dialect in ("spark",
    "postgres", "sqlite")},
    "spark:substring_index": ("string", ("string", "string", "int64")),
    "text:translate": ("string", ("string", "string", "string")),
    **{f"spark:{name}": ("string", ("string", "int64", "string")) for name in ("lpad", "rpad")},
    "spark:conv": ("string", ("string", "int64", "int64")),
    "spark:locate": ("int64", ("string", "string", "int64")),
    "spark:whole": ("int64", _ONE_TEXT),
    "spark:float": ("float64", _ONE_TEXT),
    "spark:date": ("date", _ONE_TEXT),
    "spark:moment": ("timestamp", _ONE_TEXT),
    "sqlite:whole": ("int64", _ONE_TEXT),
    "sqlite:real": ("float64", _ONE_TEXT),
    "postgres:truth": ("bool", _ONE_TEXT),
    "spark:months_between": ("float64", ("timestamp", "timestamp", "bool")),
    "spark:date_format": ("string", ("timestamp", "string")),
    "spark:read_moment": ("timestamp", ("string", "string")),
    "postgres:to_char": ("string", ("timestamp", "string")),
    "postgres:read_moment": ("timestamp", ("string", "string")),
}  # fmt: skip
# whose last argument may be repeated or left out
OPEN_FUNCTIONS: dict[str, tuple[Type, tuple[str, ...]]] = {
    "spark:format": ("string", ("string", "any")),
    "sqlite:date": ("string", ("string", "string")),
}
FUNCTIONS |= {
    name: _plain(gives, *takes, may_fail=True) for name, (gives, takes) in DIALECT_FUNCTIONS.items()
}
FUNCTIONS |= {
    name: Signature(takes, gives, 1, open=True, may_fail=True)
    for name, (gives, takes) in OPEN_FUNCTIONS.items()
}
ALIASES = {  # names of SQL, LogiQL and Soufflé
    **{name: f"string:{name}" for name in ("upper", "lower", "trim", "ltrim", "rtrim", "reverse",
    "contains", "like")},
    **{name: f"string:{name}" for name in ("ilike", "starts_with", "ends_with", "position",
    "replace", "ord", "chr")},
    **{name: f"string:{name}" for name in ("md5", "sha256", "split_part", "concat", "substring",
    "length")},
    **{name: f"string:{name}" for name in ("regexp_matches", "regexp_full_match", "regexp_replace",
    "format")},
    "cat": "string:concat", "strlen": "string:length", "to_string": "string", "to_float": "float",
    "min": "least", "max": "greatest", "band": "bit_and", "bor": "bit_or", "bxor": "bit_xor",
    "bnot": "bit_not",
    "ceiling": "ceil", "log": "ln", "to_unsigned": "to_number", "itou": "int", "utoi": "int",
    "itof": "float", "utof": "float", "ftoi": "trunc",
    "ftou": "trunc", "string:hash": "hash",
    **{f"{kind}:abs": "abs" for kind in ("int", "float", "decimal")}, "int:mod": "mod",
    "float:sqrt": "sqrt",
    "float:pow": "pow", "int:float:convert": "float", "float:int:convert": "int",
    "string:int64:convert": "int",
    "int64:string:convert": "string", "datetime:date": "date",
}  # fmt: skip


def call_may_fail(call: Call) -> bool:
    """Return whether a function may have no value for some arguments, given those that are
    constants.
    """
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
    if not arrow or not fullmatch(WORD, name) or name in RESERVED:
        reason = (
            "a function has a name like geo:distance and a signature like float, float -> float"
        )
        raise OptionError(f"{name!r} with {signature!r}: {reason}")
    types = [
        column_type(one.replace(" ", ""), NOWHERE)
        for one in findall(r"[^,(]+(?:\([^)]*\))?", takes)
        if one.strip()
    ]
    result = column_type(gives.replace(" ", ""), NOWHERE)
    text = f"{', '.join(types)} -> {result}"
    if (
        name in ALIASES
        or USERS.get(name, text) != text
        or (name in FUNCTIONS and name not in USERS)
    ):
        was = f": {USERS[name]}" if name in USERS else ""
        raise OptionError(f"there is a function {name!r} already{was}; use another name")
    USERS[name] = text
    FUNCTIONS[name] = Signature(tuple(types), result, len(types), may_fail=True)
    return text


def users_functions(nodes: Iterable[Term | Literal]) -> Iterator[str]:
    """Yield the names of the functions of users in some terms or literals."""
    for node in nodes:
        match node:
            case Call():
                yield from [node.name] if node.name in USERS else []
                yield from users_functions(node.args)
            case Binary() | Compare():
                yield from users_functions((node.left, node.right))
            case Negation():
                yield from users_functions(node.body)


def function_named(name: str) -> str | None:
    """Return the name in FUNCTIONS of a function, given that or another of its names; None for
    other names.
    """
    return name if name in FUNCTIONS else ALIASES.get(name)
