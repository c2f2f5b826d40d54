"""Declarations: `name(x, y) -> int(x), int(y).` makes an extensional predicate."""

from collections.abc import Iterable

from ivm.errors import RedefinitionError, RuleTypeError
from ivm.lang.ir import Predicate, Type, Var
from ivm.lang.syntax_tree import Call, Clause, Declaration, Node, Operation, Statement
from ivm.lang.types import column_type


def declare(declarations: Iterable[Declaration], predicates: dict[str, Predicate]) -> None:
    """Add the declared predicates to `predicates`.  Raises RedefinitionError, RuleTypeError."""
    for declaration in declarations:
        predicate = _declared(declaration)
        before = predicates.setdefault(predicate.name, predicate)
        if before is not predicate:
            verb = "declared" if before.extensional else "derived by the rule"
            reason = f"{predicate.name} is {verb} at {before.where} already: use another name"
            raise RedefinitionError(predicate.where, reason)


def split(head: Call | Operation) -> tuple[Call, Node | None]:
    """Split a head into its call and its value, which is None for a relation."""
    if isinstance(head, Call):
        return head, None
    assert isinstance(head.left, Call)
    return head.left, head.right


def last_head(statements: Iterable[Statement]) -> str:
    """Return the name of the last rule's first head; "" if there is no rule."""
    heads = [split(statement.heads[0])[0].name for statement in statements if isinstance(statement, Clause)]
    return heads[-1] if heads else ""


def _declared(declaration: Declaration) -> Predicate:
    call, value = split(declaration.head)
    terms = call.args if value is None else (*call.args, value)
    columns = tuple(_column(term, call) for term in terms)
    types = _types(declaration, columns, call)
    marked = {variable: where for variable, text, where in declaration.types if text.endswith("?")}
    for key in columns[: call.keys or 0] if value is None else columns[:-1]:
        if key in marked:
            reason = f"{key} is a key, and a key is never null: only a function's value may be"
            raise RuleTypeError(marked[key], reason)
    if value is not None and not call.args and marked:
        reason = f"the value of {call.name}[] is the key of its one row, and a key is never null: leave the ? out, and "
        raise RuleTypeError(marked[columns[0]], f"{reason}delete the row, `-{call.name}[].`, where there is no value")
    nullable = tuple(place for place, column in enumerate(columns) if column in marked)
    if value is None:
        return Predicate(call.name, types, None, True, columns, nullable, call.keys, where=call.where)
    return Predicate(call.name, types[:-1], types[-1], True, columns, nullable, where=call.where)


def _column(term: Node, call: Call) -> str:
    if isinstance(term, Var):
        return term.name
    reason = f"a declaration names its columns, as in {call.name}(x, y) -> int(x), int(y)."
    raise RuleTypeError(term.where, reason)


def _types(declaration: Declaration, columns: tuple[str, ...], call: Call) -> tuple[Type, ...]:
    found: dict[str, Type] = {}
    for variable, text, where in declaration.types:
        if variable not in columns:
            reason = f"{variable} is no column of {call.name}, which has {', '.join(columns)}"
            raise RuleTypeError(where, reason)
        if variable in found:
            raise RedefinitionError(where, f"column {variable} of {call.name} is given two types")
        found[variable] = column_type(text.removesuffix("?"), where)
        if text == "uint64?":  # null is the least word, so values have other words than in uint64
            raise RuleTypeError(where, f"rules take no uint64 that may be null: store {variable} as int64? or decimal?")
    for column in columns:
        if columns.count(column) > 1:
            raise RedefinitionError(call.where, f"{call.name} has two columns named {column}")
        if column not in found:
            reason = f"column {column} of {call.name} has no type: add int({column}) or the like"
            raise RuleTypeError(call.where, reason)
    return tuple(found[column] for column in columns)
