"""PostgreSQL's functions, casts and operators in questions about `pg_catalog`, in terms of its
relations here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ivm.sql.naming.names import output_name
from ivm.sql.system.objects import DIALECT
from ivm.sql.system.postgres_types import NUMERIC, TYPES
from ivm.sql.system.relations import is_empty, is_system

TRUE = (
    "pg_table_is_visible pg_type_is_visible pg_function_is_visible pg_operator_is_visible "
    "has_table_privilege has_schema_privilege has_database_privilege has_any_column_privilege"
)
NOTHING = (
    "obj_description col_description shobj_description pg_get_triggerdef pg_tablespace_location "
    "pg_get_statisticsobjdef_columns pg_get_serial_sequence pg_get_partkeydef pg_get_function_result"
)
FIRST = "pg_get_expr quote_ident pg_get_ruledef"  # which are their first argument
NULLS = ("reloptions", "relacl", "nspacl", "datacl", "attacl", "polroles", "prattrs", "stxkind")
TEXT = exp.DataType.build("TEXT")


def _text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def _null() -> exp.Expr:
    return exp.Cast(this=exp.null(), to=TEXT.copy())


def _looked_up(table: str, key: str, value: str, what: exp.Expr) -> exp.Expr:
    """Return the value of the only row of a relation of the system with a key.

    Its columns are named anew, so that those of the question keep their meaning.
    """
    named = [
        exp.alias_(exp.column(key), "system_key"),
        exp.alias_(exp.column(value), "system_value"),
    ]
    relation = exp.to_table(f"pg_catalog.{table}")
    relation.meta[DIALECT] = "postgres"
    inner = exp.select(*named).from_(relation, copy=False).subquery("system_rows", copy=False)
    where = exp.EQ(this=exp.column("system_key", "system_rows"), expression=what.copy())
    return exp.Subquery(this=exp.select("system_value").from_(inner).where(where))


def _format_type(oid: exp.Expr, modifier: exp.Expr | None = None) -> exp.Expr:
    """Return the name of a type by its oid, a decimal with its digits."""
    found = exp.Case(this=oid.copy())
    for one in TYPES:
        shown: exp.Expr = _text(one.shown)
        if one is NUMERIC and modifier is not None:
            digits = exp.Sub(this=modifier.copy(), expression=exp.Literal.number(4))
            parts = (
                exp.IntDiv(this=exp.paren(digits.copy()), expression=exp.Literal.number(1 << 16)),
                exp.Mod(this=exp.paren(digits.copy()), expression=exp.Literal.number(1 << 16)),
            )
            shown = exp.Concat(
                expressions=[
                    _text("numeric("), exp.Cast(this=parts[0], to=TEXT.copy()), _text(","),
                    exp.Cast(this=parts[1], to=TEXT.copy()), _text(")"),
                ]
            )  # fmt: skip
            plain = exp.EQ(this=modifier.copy(), expression=exp.Literal.number(-1))
            shown = exp.Case(ifs=[exp.If(this=plain, true=_text(one.shown))], default=shown)
        found = found.when(exp.Literal.number(one.oid), shown)
        found = found.when(exp.Literal.number(one.array), _text(f"{one.shown}[]"))
    return found


CALLS: dict[str, Callable[..., exp.Expr]] = {
    **dict.fromkeys(TRUE.split(), lambda *_: exp.true()),
    **dict.fromkeys(NOTHING.split(), lambda *_: _null()),
    **dict.fromkeys(FIRST.split(), lambda first, *_: first.copy()),
    "pg_relation_is_publishable": lambda *_: exp.false(),
    "pg_get_userbyid": lambda *_: _text("ivm"),
    "pg_encoding_to_char": lambda *_: _text("UTF8"),
    "pg_size_pretty": lambda *_: _text("0 bytes"),
    "pg_get_keywords": lambda *_: _null(),
    **dict.fromkeys(
        ("pg_relation_size", "pg_table_size", "pg_total_relation_size", "pg_database_size"),
        lambda *_: exp.Literal.number(0),
    ),
    "format_type": _format_type,
    "pg_get_indexdef": lambda oid, *_: _looked_up("pg_index", "indexrelid", "definition", oid),
    "pg_get_constraintdef": lambda oid, *_: _looked_up("pg_constraint", "oid", "definition", oid),
    "pg_get_viewdef": lambda oid, *_: _looked_up("pg_class", "oid", "definition", oid),
    "pg_partition_ancestors": lambda oid, *_: exp.Cast(
        this=oid.copy(), to=exp.DataType.build("BIGINT")
    ),
    "to_regtype": lambda name: _looked_up("pg_type", "typname", "oid", name),
    "to_regclass": lambda name: _looked_up("pg_class", "relname", "oid", name),
}
NAMES = {
    "regclass": ("pg_class", "relname"), "regtype": ("pg_type", "typname"),
    "regnamespace": ("pg_namespace", "nspname"), "regproc": ("pg_proc", "proname"),
    "regrole": ("pg_roles", "rolname"),
}  # fmt: skip
PLAIN = {"name": "TEXT", "oid": "BIGINT", '"char"': "TEXT", "char": "TEXT"}


def simplify(node: exp.Expr, nodes: Sequence[exp.Expr]) -> None:
    """Put a question about `pg_catalog` in terms of its relations; `nodes` are all its parts."""
    asks = any(isinstance(one, exp.Table) and is_system(one) for one in nodes)
    for one in nodes:
        if isinstance(one, exp.Cast) and (found := _cast(one)) is not None:
            one.replace(found)
    if not asks:
        return
    for select in [*node.find_all(exp.Select)]:
        _empty(select)
    for one in [*node.walk(bfs=False)][::-1]:  # what is within a call before the call
        if isinstance(one, exp.Operator) and str(one.args["operator"]).endswith(".~"):
            one.replace(exp.RegexpLike(this=one.this, expression=one.expression))
        elif isinstance(one, exp.Collate):
            one.replace(one.this)
        elif isinstance(one, exp.Anonymous | exp.ArrayToString):
            name = one.name.lower() if isinstance(one, exp.Anonymous) else "array_to_string"
            given = one.expressions if isinstance(one, exp.Anonymous) else [one.this]
            is_list = name == "array" and isinstance(given[0], exp.Query)
            if is_list or (name == "array_to_string" and _is_null(given[0])):
                one.replace(_null())
            elif call := CALLS.get(name):
                one.replace(call(*given))


def _is_null(node: exp.Expr) -> bool:
    """Return whether a value follows from options or rights, which nothing here has."""
    return any(one.name.lower() in NULLS for one in node.find_all(exp.Column))


def _cast(node: exp.Cast) -> exp.Expr | None:
    """Return what a cast to one of PostgreSQL's own types is here."""
    is_own = isinstance(node.to, exp.ObjectIdentifier | exp.PseudoType)
    kind = node.to.this if is_own else node.to.args.get("kind")
    if kind is None or not (is_own or node.to.this == exp.DataType.Type.USERDEFINED):
        return None
    word = (kind.name if isinstance(kind, exp.Expr) else str(kind)).lower().rpartition(".")[2]
    if word in ("text", *PLAIN):
        return exp.Cast(this=node.this, to=exp.DataType.build(PLAIN.get(word, "TEXT")))
    if word not in NAMES:
        return None
    table, name = NAMES[word]
    given: exp.Expr = node.this
    if isinstance(given, exp.Literal) and given.is_string:
        plain = given.name.rpartition(".")[2].strip('"')
        if plain.isdigit():
            return exp.Literal.number(int(plain))
        return _looked_up(table, name, "oid", _text(plain))
    if isinstance(node.parent, exp.Cast) and node.parent.to.sql().upper() in (
        "OID",
        "BIGINT",
        "INT",
    ):
        return given
    return _looked_up(table, "oid", name, given)


def _empty(select: exp.Select) -> None:
    """Let a SELECT that joins a relation which never has rows here have none, so that what it
    computes of them needs no meaning.
    """
    source = select.args.get("from_")
    tables = [source.this] if source else []
    tables += [one.this for one in select.args.get("joins") or () if not one.side]
    lacks = any(isinstance(one, exp.Table) and is_empty(one) for one in tables)
    if not lacks or select.args.get("group") or select.is_star:
        return
    if any(one.parent_select is select for one in select.find_all(exp.AggFunc)):
        return
    names = [output_name(one) or f"column{n}" for n, one in enumerate(select.expressions)]
    select.set("expressions", [exp.alias_(_null(), name, quoted=True) for name in names])
    for part in ("from_", "joins", "order"):
        select.set(part, None)
    select.set("where", exp.Where(this=exp.false()))
