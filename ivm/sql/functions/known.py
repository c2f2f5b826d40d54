"""Refuse a statement of which the translation has not read every argument, so that nothing is left
out in silence.

A function or an operator is watched while it is translated (`reading`): an argument that nothing
read is refused.  The clauses around them are read piece by piece, in many places: `CLAUSES` has the
arguments of each kind of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.errors import IvmError
from ivm.sql.errors import SqlError, written

_QUERY = {"with_", "order", "limit", "offset"}
_SET = {"this", "expression", "distinct", "by_name", "side", "kind", "on", *_QUERY}
CLAUSES: dict[type[exp.Expr], set[str]] = {
    exp.Select: {"expressions", "from_", "joins", "where", "group", "having", "windows", "qualify",
        "distinct", *_QUERY},
    exp.Union: _SET, exp.Except: _SET, exp.Intersect: _SET,
    exp.Subquery: {"this", "alias", "pivots", "joins", *_QUERY},
    exp.Values: {"expressions", "alias", "pivots", *_QUERY},
    exp.Table: {"this", "db", "catalog", "alias", "joins", "pivots", "quoted"},
    exp.TableAlias: {"this", "columns"}, exp.With: {"expressions", "recursive"},
    exp.CTE: {"this", "alias", "materialized"}, exp.From: {"this"}, exp.Where: {"this"},
    exp.Having: {"this"}, exp.Qualify: {"this"},
    exp.Join: {"this", "on", "using", "side", "kind", "method"}, exp.Lateral: {"this", "alias"},
    exp.Unnest: {"expressions", "alias", "offset"}, exp.Group: {"expressions", "all"},
    exp.Rollup: {"expressions"}, exp.Cube: {"expressions"}, exp.GroupingSets: {"expressions"},
    exp.Order: {"this", "expressions"}, exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Limit: {"expression", "limit_options"}, exp.Offset: {"expression"},
    exp.Fetch: {"count", "direction", "limit_options"},
    exp.LimitOptions: {"percent", "rows", "with_ties"}, exp.Distinct: {"expressions", "on"},
    exp.Star: {"except_", "replace", "rename"}, exp.Alias: {"this", "alias"},
    exp.PivotAlias: {"this", "alias"}, exp.Aliases: {"this", "expressions"},
    exp.Column: {"this", "table", "db", "catalog"}, exp.Identifier: {"this", "quoted"},
    exp.Dot: {"this", "expression"}, exp.Var: {"this"}, exp.Literal: {"this", "is_string"},
    exp.Boolean: {"this"}, exp.Null: set(), exp.Paren: {"this"}, exp.Tuple: {"expressions"},
    exp.Window: {"this", "alias", "over", "partition_by", "order", "spec"},
    exp.WindowSpec: {"kind", "start", "start_side", "end", "end_side", "exclude"},
    exp.Filter: {"this", "expression"}, exp.WithinGroup: {"this", "expression"},
    exp.IgnoreNulls: {"this"}, exp.RespectNulls: {"this"},
    exp.DataType: {"this", "expressions", "nested", "kind"}, exp.DataTypeParam: {"this"},
    exp.ColumnDef: {"this", "kind"}, exp.Interval: {"this", "unit", "fraction_in_string"},
    exp.IntervalSpan: {"this", "expression"}, exp.Lambda: {"this", "expressions"},
    exp.Comprehension: {"this", "expression", "iterator", "condition"},
    exp.Slice: {"this", "expression", "step"}, exp.PropertyEQ: {"this", "expression"},
    exp.JSONPath: {"expressions"}, exp.JSONPathRoot: set(), exp.JSONPathKey: {"this", "quoted"},
    exp.JSONPathSubscript: {"this"}, exp.JSONKeyValue: {"this", "expression"},
    exp.Pivot: {"this", "expressions", "fields", "using", "columns", "group", "unpivot", "alias",
        "into", "include_nulls", "default_on_null", "identify_pivot_strings",
        "prefixed_pivot_columns", "pivot_column_naming", "value_columns_first"},
    exp.UnpivotColumns: {"this", "expressions"},
}  # fmt: skip
STATEMENTS: dict[type[exp.Expr], set[str]] = {
    exp.Insert: {"this", "expression", "alternative", "by_name", "conflict", "default", "ignore",
        "overwrite", "returning", "with_"},
    exp.OnConflict: {"action", "conflict_keys", "constraint", "duplicate", "expressions",
    "index_predicate", "where"},
    exp.Returning: {"expressions"},
    exp.Update: {"this", "expressions", "from_", "where", "returning", "with_"},
    exp.Delete: {"this", "using", "where", "returning", "with_"},
    exp.Merge: {"this", "using", "on", "using_cond", "whens", "returning", "with_"},
    exp.When: {"matched", "source", "then", "condition"}, exp.TruncateTable: {"expressions"},
    exp.Create: {"this", "kind", "expression", "properties", "replace", "exists", "unique"},
    exp.Drop: {"tables", "kind", "exists", "materialized", "cascade", "restrict"},
    exp.Alter: {"this", "kind", "actions"}, exp.Index: {"this", "table", "params"},
    exp.IndexParameters: {"columns", "using", "where"},
    exp.ColumnDef: {"this", "kind", "constraints"}, exp.RenameColumn: {"this", "to"},
    exp.AlterRename: {"this"}, exp.AddConstraint: {"expressions"},
    exp.PrimaryKey: {"expressions", "include"}, exp.ForeignKey: {"expressions", "reference"},
    exp.Reference: {"this"}, exp.UniqueColumnConstraint: {"this", "include"},
    exp.CheckColumnConstraint: {"this"}, exp.PrimaryKeyColumnConstraint: {"include"},
    exp.Copy: {"this", "kind", "files", "params", "credentials"}, exp.Credentials: set(),
    exp.CopyParameter: {"this", "expression"}, exp.Transaction: set(), exp.Commit: set(),
    exp.Rollback: {"savepoint"},
}  # fmt: skip
# what the parser notes of a function that is as DuckDB has it
SAME: dict[type[exp.Expr], set[str]] = {
    exp.DPipe: {"safe"}, exp.Concat: {"safe", "coalesce"}, exp.ConcatWs: {"safe", "coalesce"},
    exp.Div: {"safe", "typed"}, exp.TryCast: {"safe"}, exp.RegexpReplace: {"single_replace"},
    exp.RegexpExtract: {"null_if_pos_overflow"}, exp.DateDiff: {"date_part_boundary"},
    exp.Encode: {"charset"}, exp.Greatest: {"ignore_nulls"}, exp.Least: {"ignore_nulls"},
    exp.Count: {"big_int"}, exp.Array: {"value_constructor"},
}  # fmt: skip
# whose translation reads what they say
WATCHED = (exp.Condition, exp.Func, exp.AtTimeZone, exp.JSONPathPart)
WORDS = {
    "sample": "a sample of the rows",
    "version": "time travel",
    "when": "time travel",
    "symmetric": "SYMMETRIC",
    "key_expressions": "USING KEY",
    "with_ties": "WITH TIES",
    "locks": "FOR UPDATE or FOR SHARE",  # other dialects than its own do not write it
}


def refuse_unknown(node: exp.Expr) -> None:
    """Raise SqlError for a part of a query's clauses that would be left out."""
    for part in node.walk():
        _refuse_others(part, CLAUSES)
        if type(part) not in CLAUSES and not isinstance(part, WATCHED):
            raise SqlError(f"{_shown(part)} is not evaluated", part)


def refuse_unknown_statement(node: exp.Expr) -> None:
    """Raise SqlError for a part of a statement around its queries that would be left out."""
    for part in node.walk():
        _refuse_others(part, STATEMENTS)


def _refuse_others(part: exp.Expr, kinds: dict[type[exp.Expr], set[str]]) -> None:
    if (known := kinds.get(type(part))) is None:
        return
    for key, value in part.args.items():
        if value and key not in known:
            raise _refused(part, key, value)


@contextmanager
def reading(node: exp.Expr) -> Iterator[None]:
    """Watch what is read of a function. Raises SqlError at the end if something was not."""
    if type(node) in CLAUSES or isinstance(node.args, _Arguments):
        yield
        return
    node.args = seen = _Arguments(node.args)
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        if isinstance(error, IvmError):
            raise
        raise SqlError(
            f"{_shown(node)} lacks an argument, or has one of a form that it does not take", node
        ) from error
    finally:
        node.args = seen.plain()
    for key, value in seen.unread():
        if key not in SAME.get(type(node), ()):
            raise _refused(node, key, value)


def _refused(node: exp.Expr, key: str, value: object) -> SqlError:
    value = value[0] if type(value) is list else value
    what = WORDS.get(key) or (_shown(value) if isinstance(value, exp.Expr) else _word(key, value))
    return SqlError(f"{what} is not evaluated, in {_shown(node)}: leave it out", node)


def _word(key: str, value: object) -> str:
    return value if isinstance(value, str) else key.strip("_").replace("_", " ").upper()


def _shown(node: exp.Expr) -> str:
    """Return a part of a statement as text, cut short, or its kind if DuckDB has no text for it."""
    try:
        return written(node)[:60]
    except (ValueError, SqlglotError):
        return node.key.upper()


class _Arguments(dict[str, Any]):
    """The arguments of a node, and which of them were read; whoever copies all has read them."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.left = {key for key, value in args.items() if value}
        self.lists: dict[str, _Members] = {}

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        self.left.discard(key)
        return (
            self.lists.setdefault(key, _Members(value)) if type(value) is list and value else value
        )

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401

    def items(self) -> Any:
        self.left.clear()
        for list_ in self.lists.values():
            list_.left.clear()
        return super().items()

    def unread(self) -> Iterator[tuple[str, Any]]:
        """Yield names and values of what was not read, of a list the first member that was not."""
        for key in sorted(self.left):
            value = super().__getitem__(key)
            yield key, value
        for key, list_ in self.lists.items():
            if list_.left:
                yield key, super(_Members, list_).__getitem__(min(list_.left))

    def plain(self) -> dict[str, Any]:
        """Return the arguments as the parser has them, with what was set meanwhile."""
        return {
            key: [*value] if isinstance(value, _Members) else value
            for key, value in super().items()
        }


class _Members(list[Any]):
    """Members of a list of arguments, and the places of those that were read."""

    def __init__(self, members: list[Any]) -> None:
        super().__init__(members)
        self.left = {*range(len(members))}

    def __getitem__(self, place: Any) -> Any:
        self.left -= (
            {*range(len(self))[place]} if isinstance(place, slice) else {range(len(self))[place]}
        )
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Any]:
        for place, one in enumerate(super().__iter__()):
            self.left.discard(place)
            yield one
