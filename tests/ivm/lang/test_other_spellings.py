"""What people of LogiQL, Soufflé and SQL write first: the same rows maintained, from scratch and
by the slow truth.
"""

import pytest

import ivm
from ivm.errors import ConstraintError, RuleError, RuleTypeError
from ivm.rules.compile import compile

NAMES = {
    "int8": "int64", "int32": "int64", "int[8]": "int64", "int[64]": "int64", "uint8": "int64",
    "uint[32]": "int64",
    "uint[64]": "uint64", "number": "int64", "unsigned": "int64", "symbol": "string",
    "float[32]": "float64",
    "float[64]": "float64", "float32": "float64", "double": "float64", "boolean": "bool",
    "integer": "int64",
    "int[32]?": "int64",
}  # fmt: skip


@pytest.mark.parametrize(("name", "type_"), NAMES.items())
def test_other_languages_names_of_types_are_names_of_ours(name, type_):
    assert compile(f"f[x] = v -> int(x), {name}(v).").predicates["f"].value == type_


@pytest.mark.parametrize("name", ["int[7]", "int[128]", "string[8]", "uint[64]?"])
def test_a_size_that_no_type_has_is_refused(name):
    with pytest.raises(RuleTypeError):
        compile(f"f[x] = v -> int(x), {name}(v).")


def test_a_program_of_sized_types_runs():
    with ivm.open(":memory:") as workspace:
        workspace.install(
            'size[n] = s -> symbol(n), int[32](s). +size["a"] = 7. big(n) <- size[n] = s, s > 5.'
        )
        assert [*workspace["big"]] == [("a",)]


@pytest.mark.parametrize(
    ("type_", "least", "greatest"),
    [
        ("int8", -128, 127),
        ("int[16]", -32768, 32767),
        ("int32", -(2**31), 2**31 - 1),
        ("uint8", 0, 255),
        ("uint16", 0, 65535),
        ("uint[32]", 0, 2**32 - 1),
        ("int8?", -128, 127),
    ],
)
def test_a_size_is_a_range(type_, least, greatest):
    with ivm.open(":memory:") as workspace:
        workspace.install(f"f[x] = v -> int(x), {type_}(v).")
        workspace.exec(
            f"+f[1] = {least}. +f[2] = {greatest}." + '+f[3] = null["int"].' * type_.endswith("?")
        )
        for value in (least - 1, greatest + 1):
            with pytest.raises(ConstraintError) as caught:
                workspace.exec(f"^f[1] = {value}.")
            assert str(caught.value) == (
                f"main:1:1: `f[x] = v -> int(x), {type_}(v).` does not hold for x = 1, v = "
                f"{value}: nothing was changed"
            )
        workspace.install(f"r(x) -> {type_.removesuffix('?')}(x).", "r")
        with pytest.raises(ConstraintError):
            workspace.exec(f"+r({greatest + 1}).")
        assert workspace.check() == []


FLAGS = "flag[x] = b -> int(x), boolean(b). name(x, s) -> int(x), string(s). "


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("p(x) <- flag[x].", "p(x) <- flag[x] = true."),
        ("p(x) <- name(x, _), !flag[x].", "p(x) <- name(x, _), !flag[x] = true."),
        ("p(x) <- name(x, _), (flag[x] ; x = 3).", "p(x) <- name(x, _), (flag[x] = true ; x = 3)."),
        ("p(x) <- name(x, _), (flag[x + 1]).", "p(x) <- name(x, _), flag[x + 1] = true."),
        (
            'p(x) <- name(x, s), string:contains[s, "a"].',
            'p(x) <- name(x, s), string:contains[s, "a"] = true.',
        ),
        (
            'p(x) <- name(x, s), !contains[s, "a"], flag[x].',
            'p(x) <- name(x, s), !contains[s, "a"] = true, flag[x].',
        ),
        ("n[] = c <- agg<<c = count()>> flag[x].", "n[] = c <- agg<<c = count()>> flag[x] = true."),
    ],
)
def test_a_boolean_function_alone_is_a_condition(text, same, views):
    mirror = views(
        FLAGS + text + same.replace("p(x) <-", "same(x) <-").replace("n[] =", "same[] =")
    )
    mirror.insert("name", (1, "ab"), (2, "b"), (3, "b"), (4, "ba"))
    mirror.insert("flag", (1, True), (2, False), (3, True))
    mirror.insert("flag", (1, False), (2, True))
    mirror.delete("flag", (3, True))
    assert [*mirror.workspace["same"]] == [*mirror.workspace[text[0]]]
    assert mirror.workspace.check() == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "x % 2",
            "1:59: a condition is an atom, a comparison as in x = y, or a function whose value is "
            "a boolean",
        ),
        (
            "x",
            "1:59: a condition is an atom, a comparison as in x = y, or a function whose value is "
            "a boolean",
        ),
        (
            "size[x]",
            "1:59: size has no boolean values: write size[...] = _ where any value will do",
        ),
        ("abs[x]", "int64 = bool: the sides of a comparison need one type"),
    ],
)
def test_what_is_no_condition_is_refused_with_a_remedy(body, says):
    with pytest.raises(RuleError) as caught:
        compile(f"size[x] = y -> int(x), int(y). p(x) <- size[x] = _      , {body}.")
    assert says in str(caught.value)
