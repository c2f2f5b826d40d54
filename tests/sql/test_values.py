"""Functions, operators and casts over edge values, as columns and as constants, equal to what
DuckDB gives.
"""

import re
from itertools import product
from pathlib import Path

import pytest

import ivm
from ivm.sql.functions.scalar import names
from tests.support.sql.calls import CASTS, ELSEWHERE, FORMS, OPERATORS
from tests.support.sql.edges import Case, cases
from tests.support.sql.side_by_side import DuckDB, Product, differences, is_named
from tests.support.sql.texts import TEXTS

EVERY = [
    case
    for form in (*(form for forms in FORMS.values() for form in forms), *OPERATORS, *CASTS)
    for case in cases(form)
]
PARTS = 8


def _different(chosen: list[Case], folder: Path, most: int) -> list[str]:
    """Return where the product has another outcome than DuckDB that docs/sql.md does not name."""
    with ivm.open(folder / "t.pages", threads=1) as workspace:
        product_, duck = Product(workspace), DuckDB()
        return [
            str(one)
            for case in chosen
            for one in differences(case, duck, product_, most)
            if not is_named(one.expected, one.found)
        ]


@pytest.mark.parametrize("type_", TEXTS)
def test_a_text_is_read_as_a_value_where_duckdb_reads_it(type_: str, tmp_path: Path) -> None:
    chosen = [
        Case(f"{cast}({{text}} AS {type_})", (f"texts of {type_}",))
        for cast in ("TRY_CAST", "CAST")
    ]
    found = _different(chosen, tmp_path, 10**6)
    assert not found, "\n".join(found)


@pytest.mark.filterwarnings("ignore")
def test_some_functions_over_edge_values_give_what_duckdb_gives(tmp_path: Path) -> None:
    found = _different(EVERY[:: len(EVERY) // 60], tmp_path, 6)
    assert not found, "\n".join(found)


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_all_functions_over_edge_values_give_what_duckdb_gives(part: int, tmp_path: Path) -> None:
    found = _different(EVERY[part::PARTS], tmp_path, 40)
    assert not found, "\n".join(found)


def test_each_function_is_in_the_table() -> None:
    text = " ".join(form for forms in (*FORMS.values(), OPERATORS, CASTS) for form in forms).lower()
    missing = {name for name in names() if not re.search(rf"\b{name}\b", text)}
    assert missing <= ELSEWHERE


NULLS = [  # which have the type of the null that is one of a type
    "CAST(NULL AS {}) + {}", "{} * CAST(NULL AS {})", "coalesce(CAST(NULL AS {}), {})", "[CAST(NULL AS {}), {}]",
    "coalesce(CAST(NULL AS {}), CAST(NULL AS {}))", "nullif({}, CAST(NULL AS {}))",
]  # fmt: skip
NUMBERS = ["TINYINT", "INTEGER", "BIGINT", "UINTEGER", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)",
    "DECIMAL(18,3)",
           "DECIMAL(18,0)", "DECIMAL(9,9)", "DECIMAL(25,3)", "DECIMAL(38,10)"]  # fmt: skip
TYPED = ["{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} % {}", "coalesce({}, {})",
    "greatest({}, {})", "[{}, {}]",
         "CASE WHEN true THEN {} ELSE {} END"]  # fmt: skip
SINGLE = ["ceil({})", "floor({})", "trunc({})", "round({})", "round({}, 1)", "round({}, -1)",
    "abs({})", "-({})",
          "sign({})", "even({})", "sqrt({})", "{} + 1", "{} * 2", "{} + 1.5", "{} // 2", "sum({})",
          "avg({})",
          "min({})"]  # fmt: skip


def test_operations_have_duckdbs_types(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "t.pages", threads=1) as workspace:
        workspace.sql(
            f"CREATE TABLE t ({', '.join(f'c{n} {kind}' for n, kind in enumerate(NUMBERS))})"
        )
        duck = DuckDB().connection
        duck.execute(
            f"CREATE TABLE t ({', '.join(f'c{n} {kind}' for n, kind in enumerate(NUMBERS))})"
        )
        pairs = list(product(range(len(NUMBERS)), repeat=2))
        forms = [(form, pair) for form in TYPED for pair in pairs] + [
            (form, (n,)) for form in SINGLE for n in range(len(NUMBERS))
        ]
        forms += [(form, pair) for form in NULLS for pair in pairs]
        wrong = []
        for form, places in forms:
            value = re.sub(
                r"AS c(\d+)",
                lambda match: f"AS {NUMBERS[int(match[1])]}",
                form.format(*(f"c{n}" for n in places)),
            )
            query = f"DESCRIBE SELECT {value} AS v FROM t"
            try:
                expected = duck.execute(query).fetchall()[0][1]
            except Exception:  # which DuckDB refuses
                continue
            try:
                (found,) = workspace.sql(query).to_arrow()["column_type"].to_pylist()  # type: ignore[union-attr]
            except ivm.IvmError:
                continue  # refused by name
            if found != expected:
                wrong.append(
                    f"{form} of {', '.join(NUMBERS[n] for n in places)}: {expected}, not {found}"
                )
        assert not wrong, "\n".join(wrong)
