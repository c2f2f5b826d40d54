#!/usr/bin/env bash
# DuckDB 2.0.1 refuses the parts of a moment that does not exist, but carries them over where the moment has a time zone.
#
# make_timestamp(2024, 2, 30, 0, 0, 0) and make_date(2024, 2, 30) are errors. make_timestamptz of the same parts is
# 1 March, and its hour 40 is four in the afternoon of the next day. So a query that takes on a time zone begins to
# accept dates that it refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb

db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
for refused in "make_timestamp(2024, 2, 30, 0, 0, 0)", "make_timestamp(2024, 1, 1, 40, 0, 0)", "make_date(2024, 2, 30)":
    try:
        raise AssertionError(db.execute(f"SELECT {refused}").fetchone())
    except duckdb.ConversionException:
        pass
shown = [
    db.execute(f"SELECT make_timestamptz({parts}, 0, 0)::VARCHAR").fetchone()[0]
    for parts in ("2024, 2, 30, 0", "2024, 1, 1, 40")
]
assert shown == ["2024-03-01 00:00:00+00", "2024-01-02 16:00:00+00"], shown
print(*shown, sep="\n")
PYTHON
