"""Functions, operators and casts over edge values, as columns and as constants, equal to what DuckDB gives."""

from pathlib import Path

import pytest

import ivm
from tests.support.sql.calls import FORMS
from tests.support.sql.edges import Case, cases
from tests.support.sql.side_by_side import DuckDB, Product, differences
from tests.support.sql.texts import TEXTS


def _different(chosen: list[Case], folder: Path, most: int) -> list[str]:
    with ivm.open(folder / "t.pages", threads=1) as workspace:
        product, duck = Product(workspace), DuckDB()
        return [str(one) for case in chosen for one in differences(case, duck, product, most)]


@pytest.mark.parametrize("type_", TEXTS)
def test_a_text_is_read_as_a_value_where_duckdb_reads_it(type_: str, tmp_path: Path) -> None:
    forms = [f"{cast}({{}} AS {type_})" for cast in ("TRY_CAST", "CAST")]
    found = _different([Case(form.replace("{}", "{text}"), (f"texts of {type_}",)) for form in forms], tmp_path, 10**6)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["left", "right", "substring", "repeat", "lpad", "replace", "date_diff"])
def test_a_function_over_edge_values_gives_what_duckdb_gives(name: str, tmp_path: Path) -> None:
    found = _different([case for form in FORMS[name][:2] for case in cases(form)], tmp_path, 12)
    assert not found, "\n".join(found)
