#!/usr/bin/env bash
# sqlglot 30.30.0 with its extra `c`: a parser of one's own, as sqlglot describes for dialects, can no longer be made.
#
# The extra installs sqlglotc, whose compiled modules lie beside sqlglot's own and are imported in their place. The class
# of a parser that inherits from a dialect's is still defined without an error. To make one is a TypeError: "interpreted
# classes cannot inherit from compiled". So a package that extends the parser works until something else in the same
# environment asks for the faster sqlglot, and then fails at its first statement.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/own.py" <<'PYTHON'
from sqlglot.dialects.dialect import Dialect

duckdb = Dialect.get_or_raise("duckdb")


class Own(type(duckdb).parser_class):
    pass


try:
    text = "SELECT 1 AS a"
    print(Own(dialect=duckdb).parse(duckdb.tokenize(text), text)[0].sql())
except TypeError as error:
    print("TypeError:", error)
PYTHON
"$folder/venv/bin/pip" install --quiet sqlglot==30.30.0
without=$("$folder/venv/bin/python" "$folder/own.py")
"$folder/venv/bin/pip" install --quiet 'sqlglot[c]==30.30.0' sqlglotc==30.30.0
with=$("$folder/venv/bin/python" "$folder/own.py")
echo "without sqlglotc: $without; with it: $with"
test "$without" = "SELECT 1 AS a"
test "$with" = "TypeError: interpreted classes cannot inherit from compiled"
