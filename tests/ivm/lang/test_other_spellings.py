"""What people of LogiQL, Soufflé and SQL write first: the same rows maintained, from scratch and by the slow truth."""

import pytest

import ivm
from ivm.engine.compile import compile
from ivm.errors import RuleTypeError

NAMES = {
    "int8": "int64", "int32": "int64", "int[8]": "int64", "int[64]": "int64", "uint8": "int64", "uint[32]": "int64",
    "uint[64]": "uint64", "number": "int64", "unsigned": "int64", "symbol": "string", "float[32]": "float64",
    "float[64]": "float64", "float32": "float64", "double": "float64", "boolean": "bool", "integer": "int64",
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
        workspace.install('size[n] = s -> symbol(n), int[32](s). +size["a"] = 7. big(n) <- size[n] = s, s > 5.')
        assert [*workspace["big"]] == [("a",)]
