"""UPDATE and DELETE."""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.edits.target import Target


def update(target: Target, node: exp.Update) -> int:
    """UPDATE: return the number of rows that have new values."""
    query = exp.Select().from_(target.table())
    if source := node.args.get("from_"):
        query = query.join(source.this.copy(), join_type="cross")
    if node.args.get("where"):
        query = query.where(node.args["where"].this.copy())
    return target.replace(target.pairs(query, target.assignments(node.expressions)), node)


def delete(target: Target, node: exp.Delete) -> int:
    """DELETE: return the number of rows that are gone."""
    whole = bool(node.args.get("returning"))
    names = target.names if whole else target.key_names()
    query = exp.select(*(exp.column(name, target.alias, quoted=True) for name in names)).from_(
        target.table()
    )
    for source in node.args.get("using") or ():
        query = query.join(source.copy(), join_type="cross")
    if node.args.get("where"):
        query = query.where(node.args["where"].this.copy())
    return target.remove(target.rows(query, [None] * len(names)), whole)
