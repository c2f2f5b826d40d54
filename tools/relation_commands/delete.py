"""`pagestore delete FILE RELATION`: delete some rows of a relation, with their lists; views are
maintained.

--from and --to bound the key: values of its first columns, with commas between; the first is
included, the last not. --where has a column, one of = != < <= > >=, and a value, as files of CSV
have it.
"""

import argparse
import re
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.errors import SchemaError
from pagestore.host import Schema

from ..cli.answers import answer, common, counted, opened, plain
from ..loading.casts import REFUSALS, cast_to, said
from ..loading.edit import delete_below
from ..loading.elements import lists_of

CONDITION = re.compile(r"(.+?)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
TESTS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument("relation")
    parser.add_argument(
        "--from", dest="low", metavar="A,B", help="the least key, or the first values of it"
    )
    parser.add_argument(
        "--to",
        dest="high",
        metavar="A,B",
        help="the first key that stays, or the first values of it",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="such as 'price>=10'; with several, all must be true",
    )
    parser.add_argument("--dry-run", action="store_true", help="only count the rows")


def run(options: argparse.Namespace) -> int:
    """Remove the rows; return the exit code."""
    name = options.relation
    if not (options.low or options.high or options.where):
        raise argparse.ArgumentError(
            None, "say which rows with --from, --to or --where; `truncate` removes all"
        )
    with opened(options, "rw") as store:
        with store.transaction(f"delete from {name}") as txn:
            relation, keys = txn[name], len(txn[name].schema.key)
            part = relation.range(
                _key(relation.schema, options.low), _key(relation.schema, options.high)
            )
            conditions = [_condition(relation.schema, text) for text in options.where]
            hits = [*(part.words_where(reduce(and_, conditions)) if conditions else part.words())]
            count = sum(words.shape[1] for words in hits)
            for words in () if options.dry_run else hits:
                for list_name in lists_of(txn, name):
                    delete_below(txn, txn[list_name], np.ascontiguousarray(words[:keys]))
                for batch in relation.record_batches(words):
                    relation.delete(
                        batch if relation.info.bag else batch.select(relation.schema.key),
                        every=True,
                    )
            if options.dry_run:
                txn.rollback()
        done = "would be removed" if options.dry_run else "removed"
        data = {
            "removed": 0 if options.dry_run else count,
            "found": count,
            "version": store.version,
        }
        answer(options, data, f"{plain(name)}: {counted(count, 'row')} {done}")
    return 0


def _key(schema: Schema, text: str | None) -> tuple[Any, ...]:
    """Parse the first values of a key.  Raises SchemaError."""
    texts = text.split(",") if text else []
    if len(texts) > len(schema.key):
        raise SchemaError(
            f"{text!r} has {len(texts)} values, and the key is {','.join(schema.key)}"
        )
    return tuple(
        _value(schema, name, text).as_py() for name, text in zip(schema.key, texts, strict=False)
    )


def _condition(schema: Schema, text: str) -> pc.Expression:
    """Parse a condition.  Raises SchemaError."""
    parts = CONDITION.fullmatch(text)
    if parts is None:
        raise SchemaError(
            f"{text!r} is not a condition: it is written COLUMN=VALUE, with one of "
            f"{' '.join(TESTS)}"
        )
    name, test, value = (part.strip() for part in parts.groups())
    return TESTS[test](pc.field(name), _value(schema, name, value))


def _value(schema: Schema, name: str, text: str) -> pa.Scalar:
    """Parse a value of a column.  Raises SchemaError."""
    if name not in schema.names:
        raise SchemaError(f"no column {name!r}; there are {', '.join(schema.names)}")
    kind = schema.arrow.field(name).type
    try:
        return cast_to(pa.array([text]), kind)[0]
    except REFUSALS:
        raise SchemaError(f"{text!r} is not a value of column {name} ({said(kind)})") from None
