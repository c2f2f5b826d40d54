"""Ask the real engines again: `python -m tests.support.sql.record_dialects [spark] [postgres]
[sqlite] [here]`.

Writes their answers to `fixtures/dialects/*.json`, with which the tests compare the product; `here`
writes what the product says itself, and `docs/dialects.md`. Spark needs pyspark and Java,
PostgreSQL its server (Debian: postgresql-15); the answers of an engine that is not installed stay
as they were.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.sql import dialect_page
from tests.support.sql.check_dialect import all_said, in_common
from tests.support.sql.dialect_cases import DIALECTS, FIXTURES, Case, cases, common
from tests.support.sql.engines import Missing, answers, open_engine


def main(names: list[str]) -> None:
    """Record the answers of some engines, or of all and the product."""
    for name in [one for one in names or ("duckdb", *DIALECTS) if one != "here"]:
        try:
            with open_engine(name) as engine:
                found = {one.expression: asked(one, engine.rows) for one in cases(name)}
                plain = {
                    one: answers(engine.rows, [f"SELECT {one} AS v"])[0]
                    for one in common()
                    if one[:1] != "#"
                }
        except Missing as error:
            print(f"{name}: {error}")
            continue
        write(name, {"version": engine.version, "answers": found, "common": plain})
        print(f"{name}: {engine.version}, {len(found) + len(plain)} expressions")
    if not names or "here" in names:
        with tempfile.TemporaryDirectory() as folder:
            said = {name: all_said(f"{folder}/{name}.pages", name) for name in DIALECTS}
            plain = in_common(f"{folder}/w.pages")
        write(
            "here",
            {
                **{name: {k: [*v] for k, v in found.items()} for name, found in said.items()},
                "common": plain,
            },
        )
        Path("docs/dialects.md").write_text(dialect_page.text(), encoding="utf-8")


def asked(one: Case, rows: Any) -> list[Any]:
    """Return the sorted rows of each query of a case; row by row if the query of all rows fails."""
    found = answers(rows, one.queries)
    if one.one_by_one and isinstance(found[0], dict):
        found = answers(rows, one.one_by_one)
        if all(each == found[0] for each in found):
            return found[:1]
    return [each if isinstance(each, dict) else sorted(each, key=repr) for each in found]


def write(name: str, found: dict[str, Any]) -> None:
    """Write a file of answers, an expression a line."""
    parts = []
    for key, value in found.items():
        shown = json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            lines = (
                f"  {json.dumps(k, ensure_ascii=False)}: {json.dumps(v, ensure_ascii=False)}"
                for k, v in value.items()
            )
            shown = "{\n" + ",\n".join(lines) + "\n }"
        parts.append(f' "{key}": {shown}')
    FIXTURES.mkdir(exist_ok=True)
    (FIXTURES / f"{name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
