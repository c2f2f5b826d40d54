"""The table of functions of terms in docs/functions.md, from the registry.

python -m tests.ivm.plan.function_table > docs/functions.md
"""

from ivm.lang.functions import ALIASES, FUNCTIONS, USERS
from ivm.sql.functions.rows import PRIVATE

HEAD = """# Functions of terms

All functions that a term of a rule may call, with the types of their arguments and results.
[Rules](rules.md#functions-of-terms) says what they do. `number` is int64, float64 or any decimal; `exact number` is
int64 or any decimal; `moment` a date or a timestamp; `clock` these or a time; `alike` arguments share one type; `any`
is any type. A result of one of these has the type of that argument; the rules say how many digits a `decimal` has.
An argument with `?` may be left out, and one with `...` repeated. A function with a mark in the last column may have no
value, and then fails. SQL has more functions than it names here: [SQL](sql.md) lists all.

| function | result | other names | in SQL | may fail |
|---|---|---|---|---|
"""


def table() -> str:
    """The page, made from the registry."""
    names = sorted(name for name in FUNCTIONS if name[0].isalpha() and name not in USERS)
    return HEAD + "".join(map(_line, names))


def _line(name: str) -> str:
    takes, _, gives = FUNCTIONS[name].signature.partition(" -> ")
    others = ", ".join(f"`{one}`" for one, of in sorted(ALIASES.items()) if of == name)
    may_fail = "yes" * FUNCTIONS[name].may_fail
    words = FUNCTIONS[name].sql.partition(" -> ")[0].split()
    in_sql = ", ".join(f"`{word}`" for word in words if word not in PRIVATE)
    return f"| `{name}[{takes}]` | {gives.removesuffix('?')} | {others} | {in_sql} | {may_fail} |\n"


if __name__ == "__main__":
    print(table(), end="")
