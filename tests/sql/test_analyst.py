"""What an analyst asks of customers, orders and events, kept under random edits, equal to
DuckDB's answers.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import ivm
from tests.support.sql.oracle import Both

TABLES, QUERIES = (
    [line for line in part.splitlines() if not line.startswith("--")]
    for part in Path(__file__).with_name("analyst.sql").read_text().split("\n\n")
)
PARTS = 14
DAYS = [f"2023-0{month}-{day}" for month in (1, 1, 1, 2, 5, 6) for day in (10, 11, 12, 28)]
MEANS = [f"{day} 10:{minute}:00" for day in DAYS for minute in (10, 45)]
VALUES: dict[str, dict[str, list[object]]] = {  # what columns may have; None is null
    "customers": {
        "id": [*range(1, 13)], "name": ["Ann Lee", "Bob Ray", "Cy Lee", "ann lee"],
        "city": [None, "Berlin", "Paris", "Rome"], "joined": [None, *DAYS], "segment": [None, "smb",
        "ent", "free"],
        "credit": [None, 0, 99.5, 250.25, 1200], "email": [None, "u1@x.com", "U2@y.com",
        "u33@x.org"],
        "referred_by": [None, None, *range(1, 13)],
    },
    "orders": {
        "id": [*range(1, 31)], "customer_id": [None, *range(1, 14)], "placed": [None, *MEANS],
        "status": ["new", "paid", "shipped", "cancelled"], "total": [None, 1.99, 50, 120.5, 333.33,
        480],
        "discount": [None, None, 0, 5, 12.5], "items": [None, *range(6)], "note": [None, "", "gift",
        "call back"],
    },
    "events": {
        "customer_id": [None, *range(1, 13)], "happened": [*MEANS], "kind": ["view", "cart",
        "buy"],
        "page": [None, "/", "/a", "/b?x=1"], "ms": [None, 5, 40, 60, 900], "weight": [None, 0, 0.25,
        1.5],
    },
}  # fmt: skip


def literal(value: object) -> str:
    """Return a value as SQL writes it."""
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def edits(random: Random) -> Iterator[str]:
    """Yield edits of one or several rows without end."""
    while True:
        table = random.choice([*VALUES])
        chosen = {name: literal(random.choice(values)) for name, values in VALUES[table].items()}
        column, kind = random.choice([name for name in chosen if name != "id"]), random.random()
        by = random.choice(["id", "customer_id"]) if table == "orders" else next(iter(chosen))
        if kind < 0.5:
            ignore = "" if table == "events" else "OR IGNORE "
            yield f"INSERT {ignore}INTO {table} VALUES ({', '.join(chosen.values())})"
        elif kind < 0.8:
            yield f"UPDATE {table} SET {column} = {chosen[column]} WHERE {by} = {chosen[by]}"
        else:
            yield f"DELETE FROM {table} WHERE {by} IS NOT DISTINCT FROM {chosen[by]}"


def run(queries: list[str], random: Random, folder: Path) -> None:
    """Keep queries under thirty edits.  Raises Differs."""
    with ivm.open(folder / "shop.pages", threads=1) as workspace:
        both, some = Both(workspace), edits(random)
        for statement in (*TABLES, *(next(some) for _ in range(100))):
            both.run(statement)
        for number, query in enumerate(queries):
            both.keep(f"v{number}", query)
        both.compare()
        for _ in range(15):
            with workspace.transaction() as txn:
                for edit in [next(some) for _ in range(random.choice([1, 1, 4]))]:
                    both.duck.execute(edit)
                    txn.sql(edit)
            both.compare()


@pytest.mark.filterwarnings("ignore")
def test_some_questions_are_answered_as_by_duckdb(tmp_path: Path) -> None:
    run(QUERIES[::PARTS], Random(1), tmp_path)


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("seed", range(3))
def test_all_questions_are_answered_as_by_duckdb(part: int, seed: int, tmp_path: Path) -> None:
    run(QUERIES[part::PARTS], Random(seed), tmp_path)
