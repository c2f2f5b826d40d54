"""PostgreSQL's functions, casts and operators in questions about `pg_catalog` and its relations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ivm.sql.literals import list_items
from ivm.sql.naming.names import output_name
from ivm.sql.system.objects import DIALECT
from ivm.sql.system.postgres_types import ARRAY_IN, NUMERIC, TYPES
from ivm.sql.system.relations import is_empty, is_system
from ivm.sql.system.session import BESIDE

TRUE = (
    "pg_table_is_visible pg_type_is_visible pg_function_is_visible pg_operator_is_visible "
    "pg_conversion_is_visible pg_ts_config_is_visible "
    "has_table_privilege has_schema_privilege has_database_privilege has_any_column_privilege"
)
NOTHING = (
    "obj_description col_description shobj_description pg_get_triggerdef pg_tablespace_location "
    "pg_get_statisticsobjdef_columns pg_get_serial_sequence pg_get_partkeydef pg_get_function_result"
)
ZERO = "pg_stat_get_numscans pg_relation_size pg_table_size pg_total_relation_size pg_database_size"
FIRST = "pg_get_expr quote_ident pg_get_ruledef"  # which are their first argument
NULLS = ("reloptions", "relacl", "nspacl", "datacl", "attacl", "polroles", "prattrs", "stxkind",
         "typacl", "defaclacl", "fdwacl", "fdwoptions", "setconfig")  # fmt: skip
TEXT = exp.DataType.build("TEXT")


def _length(items: exp.Expr) -> exp.Expr:
    """Return how many items a list has, as a number if it is written out."""
    if isinstance(items, exp.Array):
        return exp.Literal.number(len(items.expressions))
    return exp.ArraySize(this=items.copy())


def _text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def _null() -> exp.Expr:
    return exp.Cast(this=exp.null(), to=TEXT.copy())


def _looked_up(table: str, key: str, value: str, what: exp.Expr) -> exp.Expr:
    """Return the value of the only row of a relation of the system with a key.

    Its columns are named anew, so that those of the question keep their meaning.
    """
    columns = {"system_key": key, "system_value": value}
    named = [exp.alias_(exp.column(column), name) for name, column in columns.items()]
    relation = exp.to_table(f"pg_catalog.{table}")
    relation.meta[DIALECT] = "postgres"
    inner = exp.select(*named).from_(relation, copy=False).subquery("system_rows", copy=False)
    where = exp.EQ(this=exp.column("system_key", "system_rows"), expression=what.copy())
    return exp.Subquery(this=exp.select("system_value").from_(inner).where(where))


def _of_index(oid: exp.Expr, number: exp.Expr | None = None) -> exp.Expr:
    """Return the text that would create an index, or the name of one of its columns."""
    if number is None or number.name == "0":
        return _looked_up("pg_index", "indexrelid", "definition", oid)
    parts = [exp.cast(oid.copy(), "TEXT"), _text("."), exp.cast(number.copy(), "TEXT")]
    return _looked_up("pg_index_keys", "place", "name", exp.Concat(expressions=parts))


def _format_type(oid: exp.Expr, modifier: exp.Expr | None = None) -> exp.Expr:
    """Return the name of a type by its oid, a decimal with its digits."""
    case = exp.Case(this=oid.copy())
    for kind in TYPES:
        shown: exp.Expr = _text(kind.shown)
        if kind is NUMERIC and modifier is not None:
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
            shown = exp.Case(ifs=[exp.If(this=plain, true=_text(kind.shown))], default=shown)
        case = case.when(exp.Literal.number(kind.oid), shown)
        case = case.when(exp.Literal.number(kind.array), _text(f"{kind.shown}[]"))
    return case


CALLS: dict[str, Callable[..., exp.Expr]] = {
    **dict.fromkeys(TRUE.split(), lambda *_: exp.true()),
    **dict.fromkeys(NOTHING.split(), lambda *_: _null()),
    **dict.fromkeys(FIRST.split(), lambda first, *_: first.copy()),
    "pg_relation_is_publishable": lambda *_: exp.false(),
    "pg_get_userbyid": lambda *_: _text("ivm"), "pg_encoding_to_char": lambda *_: _text("UTF8"),
    "pg_size_pretty": lambda *_: _text("0 bytes"), "array_lower": lambda *_: exp.Literal.number(1),
    "array_upper": lambda first, *_: _length(first),
    **dict.fromkeys(ZERO.split(), lambda *_: exp.Literal.number(0)), "format_type": _format_type,
    "pg_get_indexdef": lambda oid, *more: _of_index(oid, *more[:1]),
    "pg_get_constraintdef": lambda oid, *_: _looked_up("pg_constraint", "oid", "definition", oid),
    "pg_get_viewdef": lambda oid, *_: _looked_up("pg_class", "oid", "definition", oid),
    "pg_partition_ancestors": lambda oid, *_: exp.cast(oid.copy(), "BIGINT"),
    "to_regtype": lambda name: _looked_up("pg_type", "typname", "oid", name),
    "to_regclass": lambda name: _looked_up("pg_class", "relname", "oid", name),
}  # fmt: skip
NAMES = {
    "regclass": ("pg_class", "relname"), "regtype": ("pg_type", "typname"),
    "regnamespace": ("pg_namespace", "nspname"), "regproc": ("pg_proc", "proname"),
    "regrole": ("pg_roles", "rolname"),
}  # fmt: skip
OF_VALUES = {"array_lower", "array_upper", "pg_size_pretty", *FIRST.split()}
ALONE = CALLS.keys() - OF_VALUES  # asked without a relation, too
OF_KEY = {"generate_subscripts": "n", "unnest": "x", "_pg_expandarray": "x"}  # a row a column
PLAIN = {"name": "TEXT", "oid": "BIGINT", '"char"': "TEXT", "char": "TEXT"}


def simplify(node: exp.Expr, nodes: Sequence[exp.Expr]) -> None:
    """Put a question about `pg_catalog` in terms of its relations; `nodes` are all its parts."""
    for part in nodes:
        if isinstance(part, exp.Cast):
            _cast(part)
        elif isinstance(part, exp.Table) and part.this.name.lower() == "pg_get_keywords":
            part.set("this", exp.to_identifier("pg_get_keywords"))
    tables, calls = node.find_all(exp.Table), node.find_all(exp.Anonymous)
    if not any(map(is_system, tables)) and all(c.name.lower() not in ALONE for c in calls):
        return
    node.meta[BESIDE] = True
    for part in [*node.find_all(exp.Dot)]:
        _part_of_key(part)
    for part in [*node.find_all(exp.Anonymous)]:
        of_index = any(given.name.lower() == "indkey" for given in part.expressions)
        if of_index and (column := OF_KEY.get(part.name.lower())):
            _key_of(part, column)
        else:
            _split(part)
    for select in [*node.find_all(exp.Select)][::-1]:  # what is within another before it
        _empty(select)
    for part in [*node.walk(bfs=False)][::-1]:  # what is within a call before the call
        _call(part)


def _call(node: exp.Expr) -> None:
    """Let a call, or an operator, be what it means here."""
    if isinstance(node, exp.Operator) and str(node.args["operator"]).endswith(".~"):
        node.replace(exp.RegexpLike(this=node.this, expression=node.expression))
    elif isinstance(node, exp.Collate):
        node.replace(node.this)
    elif isinstance(node, exp.Anonymous | exp.ArrayToString):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else "array_to_string"
        given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        is_list = name == "array" and isinstance(given[0], exp.Query)
        if is_list or (name == "array_to_string" and _is_null(given[0])):
            node.replace(_null())
        elif call := CALLS.get(name):
            node.replace(call(*given))


def _split(call: exp.Anonymous) -> None:
    """Let a text that is taken apart be a list, and one in FROM a table of one row."""
    name, given = call.name.lower(), call.expressions
    if name not in ("string_to_array", "parse_ident") or not all(each.is_string for each in given):
        return
    if name == "parse_ident":
        parts = [p.strip('"') if '"' in p else p.lower() for p in given[0].name.split(".")]
    elif given[0].name and given[1].name:
        parts = given[0].name.split(given[1].name)
    else:
        return
    items = exp.Array(expressions=[*map(_text, parts)])
    table = call.parent
    if not isinstance(table, exp.Table):
        call.replace(items)
    elif alias := table.alias:
        table.replace(exp.select(exp.alias_(items, alias)).subquery(alias, copy=False))


def _part_of_key(node: exp.Dot) -> None:
    """Let `(information_schema._pg_expandarray(i.indkey)).n`, and `.x` of such a value that has
    a name, be a column of a relation.
    """
    part = node.expression.name.lower()
    if part not in ("n", "x") or not isinstance(node.this, exp.Paren):
        return
    inner = node.this.this
    if isinstance(inner, exp.Column):
        node.replace(inner)
    elif isinstance(inner, exp.Dot | exp.Anonymous):
        _key_of(inner, part)
        node.replace(node.this.this)


def _key_of(call: exp.Expr, part: str) -> None:
    """Let a call that gives a row for each column of an index be a join with `pg_index_keys`."""
    whole = call.parent if isinstance(call.parent, exp.Dot) else call
    index = call.find(exp.Column)
    select = call.parent_select
    if index is None or not isinstance(select, exp.Select):
        return
    keys = "system_keys"
    if all(join.alias_or_name != keys for join in select.args.get("joins") or ()):
        relation = exp.alias_(exp.to_table("pg_catalog.pg_index_keys"), keys, table=True)
        relation.meta[DIALECT] = "postgres"
        same = exp.EQ(
            this=exp.column("indexrelid", keys), expression=exp.column("indexrelid", index.table)
        )
        select.join(relation, on=same, copy=False)
    column = exp.column(part, keys)
    whole.replace(exp.alias_(column, part) if isinstance(whole.parent, exp.Select) else column)


def _is_null(node: exp.Expr) -> bool:
    """Return whether a value is null, or follows from options or rights, which nothing here has."""
    return isinstance(node.unnest().this, exp.Null) or any(
        column.name.lower() in NULLS for column in node.find_all(exp.Column)
    )


def _items(node: exp.Cast) -> list[exp.Expr] | None:
    """Return the items of the list that `'{a,b}'::text[]` is."""
    types = node.to.expressions
    if not node.to.is_type(exp.DataType.Type.ARRAY) or not types or not node.this.is_string:
        return None
    if (values := list_items(node.this.name)) is None:
        return None
    shown = [exp.null() if item is None else _text(item) for item in values]
    return [exp.cast(item, types[0].copy()) for item in shown]


def _put_list(node: exp.Cast, items: list[exp.Expr]) -> None:
    """Let a list be written out; `x <> ALL (list)` and `x = ANY (list)` look among its items."""
    among = node.find_ancestor(exp.All, exp.Any)
    whole = among.parent if among is not None and among.this.unnest() is node else None
    if items and isinstance(whole, exp.NEQ if isinstance(among, exp.All) else exp.EQ):
        among_items = exp.In(this=whole.this, expressions=items)
        whole.replace(exp.Not(this=among_items) if isinstance(among, exp.All) else among_items)
    else:
        node.replace(exp.cast(exp.Array(expressions=items), node.to.copy()))


def _cast(node: exp.Cast) -> None:
    """Let a cast to one of PostgreSQL's own types, or of the text of a list, be what it is here."""
    if (items := _items(node)) is not None:
        _put_list(node, items)
    elif (meaning := _meaning(node)) is not None:
        node.replace(meaning)


def _meaning(node: exp.Cast) -> exp.Expr | None:
    """Return what a cast to one of PostgreSQL's own types is here."""
    is_own = isinstance(node.to, exp.ObjectIdentifier | exp.PseudoType)
    kind = node.to.this if is_own else node.to.args.get("kind")
    if kind is None or not (is_own or node.to.this == exp.DataType.Type.USERDEFINED):
        return None
    word = (kind.name if isinstance(kind, exp.Expr) else str(kind)).lower().rpartition(".")[2]
    if word in ("text", *PLAIN):
        return exp.Cast(this=node.this, to=exp.DataType.build(PLAIN.get(word, "TEXT")))
    if word == "regproc" and node.this.name.endswith("array_in"):
        return exp.Literal.number(ARRAY_IN)
    if word not in NAMES:
        return None
    table, name = NAMES[word]
    given: exp.Expr = node.this
    if isinstance(given, exp.Literal) and given.is_string:
        plain = given.name.rpartition(".")[2].strip('"')
        if plain.isdigit():
            return exp.Literal.number(int(plain))
        return _looked_up(table, name, "oid", _text(plain))
    if isinstance(given, exp.Parameter | exp.Placeholder):
        return _looked_up(table, name, "oid", given)
    outer = node.parent
    if isinstance(outer, exp.Cast) and outer.to.sql().upper() in ("OID", "BIGINT", "INT"):
        return given
    return _looked_up(table, "oid", name, given)


def _empty(select: exp.Select) -> None:
    """Let a SELECT that joins a relation which never has rows here have none, so that what it
    computes of them needs no meaning.
    """
    source = select.args.get("from_")
    tables = [source.this] if source else []
    tables += [part.this for part in select.args.get("joins") or () if not part.side]
    lacks = any(isinstance(part, exp.Table) and is_empty(part) for part in tables)
    if not lacks or select.args.get("group") or select.is_star:
        return
    if any(part.parent_select is select for part in select.find_all(exp.AggFunc)):
        return
    names = [output_name(part) or f"column{n}" for n, part in enumerate(select.expressions)]
    select.set("expressions", [exp.alias_(exp.null(), name, quoted=True) for name in names])
    for part in ("from_", "joins", "order"):
        select.set(part, None)
    select.set("where", exp.Where(this=exp.false()))
