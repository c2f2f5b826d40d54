"""MERGE: the first WHEN that fits decides for each pair of rows; all read the state before.

    WHEN MATCHED                   a row of the table and one of the source    UPDATE, DELETE
    WHEN NOT MATCHED [BY TARGET]   a row of the source alone                   INSERT
    WHEN NOT MATCHED BY SOURCE     a row of the table alone                    UPDATE, DELETE

DO NOTHING leaves the rows that fit, also for the WHENs that follow.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from sqlglot import exp

from ivm.sql.edits.literals import Row
from ivm.sql.edits.target import Pair, Target, is_default
from ivm.sql.errors import SqlError

MATCHED, NO_SOURCE, NO_TARGET = "MATCHED", "NOT MATCHED BY SOURCE", "NOT MATCHED"


class Case(NamedTuple):
    """A WHEN: which rows it is about, their query without a select list, and what is then done."""

    kind: str
    query: exp.Select
    then: exp.Expr


class Effects:
    """What the WHENs of a statement do."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.deleted: list[Row] = []
        self.added: list[Row] = []


def merge(target: Target, node: exp.Merge) -> int:
    """MERGE: return the number of rows that are new, have new values, or are gone."""
    effects = Effects()
    for case in _cases(target, node):
        word = case.then.name.upper() if isinstance(case.then, exp.Var) else case.then.key.upper()
        match word:
            case "DO NOTHING":
                continue
            case "UPDATE" if case.kind != NO_TARGET:
                assigned = _assigned(target, node, case)
                effects.pairs += target.pairs(case.query, assigned)
            case "DELETE" if case.kind != NO_TARGET:
                names = target.names
                columns = (exp.column(name, target.alias, quoted=True) for name in names)
                effects.deleted += target.rows(
                    case.query.select(*columns, append=False), [None] * len(names)
                )
            case "INSERT" if case.kind == NO_TARGET:
                effects.added += _inserted(target, node, case)
            case _:
                raise SqlError(
                    f"WHEN {case.kind} THEN {word} is not evaluated: {_allowed(case.kind)}",
                    case.then,
                )
    _refuse_twice(target, effects, node)
    gone = target.remove(effects.deleted, whole=True)
    return gone + target.replace(effects.pairs, node) + target.add(effects.added, node)


def _allowed(kind: str) -> str:
    return "INSERT or DO NOTHING" if kind == NO_TARGET else "UPDATE, DELETE or DO NOTHING"


def _cases(target: Target, node: exp.Merge) -> list[Case]:
    """Return the WHENs, each with the rows that no WHEN of its kind before it takes."""
    source, on = node.args["using"], _on(target, node)
    rows = exp.Select().from_(target.table())
    queries = {
        MATCHED: rows.join(source.copy(), using=node.args["using_cond"] or None,
        on=node.args["on"] or None),
        NO_SOURCE: rows.where(_none(exp.select("1").from_(source.copy()).where(on.copy()))),
        NO_TARGET: exp.Select().from_(source.copy()).where(
            _none(exp.select("1").from_(target.table()).where(on.copy()))
        ),
    }  # fmt: skip
    cases: list[Case] = []
    finished: set[str] = set()
    for when in node.args["whens"].expressions:
        kind = (
            MATCHED if when.args["matched"] else NO_SOURCE if when.args.get("source") else NO_TARGET
        )
        if kind in finished:
            raise SqlError(
                f"WHEN {kind} comes after one without a condition, which takes all rows", when
            )
        query, condition = queries[kind], when.args.get("condition")
        if condition is None:
            finished.add(kind)
        else:
            holds = exp.Coalesce(this=condition.copy(), expressions=[exp.false()])
            queries[kind] = query.where(exp.not_(holds))
            query = query.where(condition.copy())
        cases.append(Case(kind, query, when.args["then"]))
    return cases


def _on(target: Target, node: exp.Merge) -> exp.Expr:
    """Return the condition by which rows match."""
    if node.args.get("on"):
        on: exp.Expr = node.args["on"]
        return on
    names, source = [arg.name for arg in node.args["using_cond"]], node.args["using"].alias_or_name
    return exp.and_(
        *(
            exp.EQ(
                this=exp.column(name, target.alias, quoted=True),
                expression=exp.column(name, source, quoted=True),
            )
            for name in names
        )
    )


def _none(query: exp.Select) -> exp.Expr:
    return exp.not_(exp.Exists(this=query))


def _refuse_twice(target: Target, effects: Effects, node: exp.Merge) -> None:
    """Raise SqlError if several rows of the source change or remove one row of the table."""
    rows = Counter([*(old for old, _ in effects.pairs), *effects.deleted])
    most = target.counts(rows) if target.bag else Counter(dict.fromkeys(rows, 1))
    if any(times > most[row] for row, times in rows.items()):
        raise SqlError(
            f"several rows of the source match one row of {target.name}: select one of them, as "
            "with DISTINCT or GROUP BY",
            node,
        )


def _assigned(target: Target, node: exp.Merge, case: Case) -> dict[int, exp.Expr]:
    """Return what UPDATE assigns; with `*`, or without SET, the source's columns in their order."""
    nodes = case.then.expressions
    if nodes and not isinstance(nodes[0], exp.Star):
        return target.assignments(nodes)
    if case.kind == NO_SOURCE:
        raise SqlError(
            "WHEN NOT MATCHED BY SOURCE has no row to take values from: write SET column = value",
            case.then,
        )
    return dict(enumerate(_columns(target, node)))


def _columns(target: Target, node: exp.Merge) -> list[exp.Expr]:
    """Return the columns of the source, which are as many as those of the table."""
    source = node.args["using"]
    names = target.names_of(exp.select("*").from_(source.copy()))
    if len(names) != len(target.names):
        raise target.misfit(len(names), len(target.names), node)
    return [exp.column(name, source.alias_or_name, quoted=True) for name in names]


def _inserted(target: Target, node: exp.Merge, case: Case) -> list[Row]:
    """Return the rows of an INSERT of a MERGE."""
    then = case.then
    named, given = then.this, then.expression
    if isinstance(named, exp.Star) or not (named or given):
        places, values = [*range(len(target.names))], _columns(target, node)
    elif (
        not given
        and isinstance(named, exp.Tuple)
        and [*map(is_default, named.expressions)] == [True]
    ):
        places, values = [], []  # DEFAULT VALUES
    elif isinstance(given, exp.Tuple):
        places, values = target.places(named.expressions if named else [], then), given.expressions
    else:
        raise SqlError(
            "INSERT: write INSERT (columns) VALUES (values), INSERT *, or INSERT DEFAULT VALUES",
            then,
        )
    if len(values) != len(places):
        raise target.misfit(len(values), len(places), then)
    values = [target.assigned(value, place) for place, value in zip(places, values, strict=True)]
    query = case.query.select(*values or [exp.true()], append=False)
    rows = target.rows(query, [target.columns[p] for p in places] or [None])
    return [target.whole(row[: len(places)], places, then) for row in rows]
