"""Edits in a text: `+edge(1, 2). -edge(3, 4). ^price["tea"] = 3.50.`"""

from collections.abc import Mapping
from dataclasses import replace

from ivm.errors import ArityError, RedefinitionError, RuleSyntaxError, RuleTypeError
from ivm.lang.declarations import split
from ivm.lang.infer import typed_atom
from ivm.lang.ir import Atom, Const, Edit, Predicate
from ivm.lang.names import check_arity, unknown
from ivm.lang.syntax_tree import Anonymous, Call, Change, Node
from ivm.lang.types import stands_for_null


def edit(change: Change, predicates: Mapping[str, Predicate]) -> Edit:
    """Return the edit of an extensional predicate, its constants typed by the columns.  Raises RuleError."""
    call, value = split(change.head)
    predicate = predicates.get(call.name)
    if predicate is None:
        function, _, column = call.name.rpartition(":")
        if function in predicates and column in predicates[function].columns:
            reason = f"{call.name} is one column of {function}, which is edited by whole rows: {predicates[function]}"
            raise ArityError(call.where, reason)
        raise unknown(call.name, call.where, predicates)
    if not predicate.extensional:
        raise RedefinitionError(call.where, f"{call.name} is a view: edit the relations that its rules read")
    _check_action(change, call, predicate)
    args = tuple(_constant(arg) for arg in call.args)
    if value is None or isinstance(value, Anonymous):
        return _without_value(change, Atom(call.name, args, where=call.where), predicate)
    atom = Atom(call.name, args, _constant(value), where=call.where)
    check_arity(atom, predicate)
    return _made(change, typed_atom(atom, predicate), predicate)


def _check_action(change: Change, call: Call, predicate: Predicate) -> None:
    if change.action == "^" and predicate.value is None and predicate.key_count is None:
        raise ArityError(change.where, f"^ sets a function's value, and {call.name} is a relation: write +")


def _without_value(change: Change, atom: Atom, predicate: Predicate) -> Edit:
    """Return the edit of a relation's row, or the deletion of a function's key with any value."""
    if change.action == "-" and predicate.value is not None:
        predicate = replace(predicate, value=None, columns=predicate.columns[:-1], nullable=())
    elif change.action == "-" and predicate.key_count is not None and len(atom.args) == predicate.key_count:
        columns, keys = predicate.columns[: predicate.key_count], predicate.keys[: predicate.key_count]
        predicate = replace(predicate, keys=keys, columns=columns, key_count=None)  # with any values
    check_arity(atom, predicate)
    return _made(change, typed_atom(atom, predicate), predicate)


def _made(change: Change, atom: Atom, predicate: Predicate) -> Edit:
    """Return the edit.  Raises RuleTypeError if a nullable column is given the value that encodes null."""
    for place in predicate.nullable:
        term = atom.terms[place] if place < len(atom.terms) else None
        if isinstance(term, Const) and stands_for_null(term):
            raise RuleTypeError(
                term.where, f"{term} stands for a null in a column of {predicate.stored_types[place]}: take another "
                f"number, or declare the column without the question mark"
            )  # fmt: skip
    args = tuple(arg for arg in atom.args if isinstance(arg, Const))
    value = atom.value if isinstance(atom.value, Const) else None
    return Edit(change.action, atom.predicate, args, value, where=change.where)


def _constant(node: Node) -> Const:
    if isinstance(node, Const):
        return node
    raise RuleSyntaxError(node.where, "an edit holds constants only")
