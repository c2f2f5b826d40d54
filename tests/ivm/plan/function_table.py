"""The table of functions of terms in docs/functions.md, from the registry.

python -m tests.ivm.plan.function_table > docs/functions.md
"""

from ivm.lang.functions import ALIASES, FUNCTIONS, USERS, Signature

HEAD = """# Functions of terms

All functions that a term of a rule may call, with the types of their arguments and results.
[Rules](rules.md#functions-of-terms) says what they do. `number` is int64, float64 or any decimal; `exact number` is
int64 or any decimal; `moment` a date or a timestamp; `alike` arguments share one type; `any` is any type. Arguments in
parentheses may be left out, and `...` is any number of the last. A function with a mark in the last column may have no
value, and then fails.

| function | result | other names | may fail |
|---|---|---|---|
"""


def table() -> str:
    """The page, made from the registry."""
    names = sorted(name for name in FUNCTIONS if name[0].isalpha() and name not in USERS)
    return HEAD + "".join(map(_line, names))


def _line(name: str) -> str:
    signature = FUNCTIONS[name]
    others = ", ".join(f"`{one}`" for one, of in sorted(ALIASES.items()) if of == name)
    gives = signature.gives if isinstance(signature.gives, str) else GIVEN[signature.gives.__name__]
    return f"| `{name}[{_arguments(signature)}]` | {gives} | {others} | {'yes' * signature.may_fail} |\n"


def _arguments(signature: Signature) -> str:
    must, may = signature.takes[: signature.least], signature.takes[signature.least :]
    shown = ", ".join(must) + f"({''.join(f', {one}' for one in may)})" * bool(
        may and not signature.open
    )
    return shown + ", ..." * signature.open


GIVEN = {
    "_first": "the type of the first",
    "_second": "the type of the second",
    "_rounded": "the type of the first, a decimal with so many digits",
    "_whole": "the type of the first, a decimal without digits after the point",
    "_decimal": "a decimal with so many digits after the point",
    "_long_sum": "a decimal of 38 digits, as many of them after the point as an argument has",
    "_long_product": "a decimal of 38 digits",
    "_joined": "a decimal of 38 digits, so many of them after the point",
    "_powered": "int64 of two int64, else float64",
    "_divided": "a decimal with so many digits after the point",
}

if __name__ == "__main__":
    print(table(), end="")
