"""The parts of a statement that are understood: any other is refused, so that nothing is left out in silence."""

from sqlglot import exp

from ivm.sql.errors import SqlError

KNOWN = {
    "this", "expression", "expressions", "low", "high", "ifs", "default", "true", "false", "unit", "query",
    "distinct", "ignore_nulls", "safe", "coalesce", "big_int", "is_left", "position", "fill_pattern", "decimals",
    "start", "length", "substr", "replacement", "to", "_type", "is_string", "quoted", "alias", "columns", "table",
    "using", "on", "side", "kind", "method", "joins", "from_", "where", "group", "having", "order", "limit", "offset",
    "with_", "recursive", "partition_by", "spec", "over", "start_side", "end", "end_side", "nulls_first", "desc",
    "quantile", "separator", "date_part_boundary", "is_end_exclusive", "step", "value_constructor", "nested",
    "windows", "qualify", "except_", "replace", "rename", "by_name", "all", "lateral", "pivots", "fields", "unpivot",
    "default_on_null", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "direction",
    "count", "limit_options", "rows", "operation_modifiers", "exclude", "laterals", "into", "name", "outer",
    "delimiter", "part_index", "times", "include_nulls", "value_columns_first", "modifiers", "single_replace",
    "null_if_pos_overflow", "format", "year", "month", "day", "scale", "typed", "flag", "asc",
    "hour", "min", "sec", "zone", "charset", "keys", "values", "for_", "null_propagation", "field", "iterator",
    "condition",
}  # fmt: skip

WORDS = {"version": "time travel", "when": "time travel", "symmetric": "SYMMETRIC", "sample": "a sample of the rows"}


def refuse_unknown(node: exp.Expr) -> None:
    """Raise SqlError for a part of a query that would be left out."""
    for part in node.walk():
        for key, value in part.args.items():
            if not value or key in KNOWN or (key == "negate" and isinstance(part, exp.Like | exp.ILike)):
                continue
            if (key == "materialized" and isinstance(part, exp.CTE)) or (
                key in ("db", "catalog") and isinstance(part, exp.Column)
            ):
                continue
            shown = part.sql(dialect="duckdb")
            what = WORDS.get(key, key.strip("_"))
            raise SqlError(f"{what} is not evaluated, in {shown[:60]}", part)
