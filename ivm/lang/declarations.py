"""Declarations: `name(x, y) -> int(x), int(y).` makes an extensional predicate.

Edits in a text: `+edge(1, 2). -edge(3, 4). ^price["tea"] = 3.50.`

Find the names that a text reads but neither declares nor derives.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from ivm.errors import (
    ArityError,
    ConstructError,
    RedefinitionError,
    RuleSyntaxError,
    RuleTypeError,
    UnknownPredicateError,
    Where,
)
from ivm.lang.functions import ALIASES as FUNCTION_NAMES
from ivm.lang.functions import DECLARATION, FUNCTIONS, declare_function
from ivm.lang.infer import check_arity, typed_atom
from ivm.lang.ir import Atom, Const, Edit, Negation, Predicate, Rule, Type, Var, atoms, unmarked
from ivm.lang.program import DerivedEdit, Program
from ivm.lang.syntax_tree import (
    BAG,
    Anonymous,
    Application,
    Change,
    Clause,
    Constraint,
    Declaration,
    Formula,
    Node,
    Operation,
    Statement,
    Subsumption,
    is_head,
    names_in,
    split,
)
from ivm.lang.types import ALIASES, KNOWN, column_type, stands_for_null, widest
from ivm.names import ASSERTED, WHOLE, asserted_of, is_made, split_column


def declare(program: Program, known: Program, stored: Mapping[str, Predicate]) -> Program:
    """Make predicates of a program's declarations, and add those that only the store declares.

    Raises RedefinitionError, RuleTypeError, UnknownPredicateError.
    """
    predicates = {**program.over(known), **stored}
    waiting = [statement for statement in program.statements if isinstance(statement, Declaration)]
    waiting += _implied(program, {*predicates, *(split(one.head)[0].name for one in waiting)})
    known_types = predicates if waiting else {}  # a question declares nothing
    firsts = _enumerated(program) | {
        n: kind.types[0] if kind.types else "int64" for n, kind in known_types.items()
    }
    while waiting:  # a column may have the type of one that is declared later
        ready = [one for one in waiting if all(a.name in firsts for a in _untyped(one))] or waiting
        for declaration in ready:
            predicate = _declared(declaration, firsts)
            firsts.setdefault(predicate.name, predicate.types[0] if predicate.types else "int64")
            before = predicates.setdefault(predicate.name, predicate)
            if before is not predicate:
                verb = "declared" if before.extensional else "derived by the rule"
                reason = f"{predicate.name} is {verb} at {before.where} already: use another name"
                raise RedefinitionError(predicate.where, reason)
        waiting = [declaration for declaration in waiting if declaration not in ready]
    left = tuple(one for one in program.statements if not isinstance(one, Declaration))
    return replace(program.defining(predicates, known), statements=left, stored=tuple(stored))


def _enumerated(program: Program) -> dict[str, Type]:
    """Return the types of the first columns of views with facts in a text, as colour("red")."""
    types = dict[str, Type]()
    for clause in (
        statement
        for statement in program.statements
        if isinstance(statement, Clause) and not statement.body.items
    ):
        for call, _ in map(split, clause.heads):
            if call.args and isinstance(call.args[0], Const):
                types.setdefault(call.name, call.args[0].type)
    return types


def _implied(program: Program, names: set[str]) -> Iterator[Declaration]:
    """Yield declarations of relations that constraints give all types of, as edge(x, y) ->
    vertex(x), vertex(y).
    """
    derived = {
        split(head)[0].name
        for statement in program.statements
        if isinstance(statement, Clause)
        for head in statement.heads
    }
    for statement in program.statements:
        if not isinstance(statement, Constraint) or not is_head(statement.left):
            continue
        call, value = split(statement.left)
        terms = {*call.args} if value is None else {*call.args, value}
        if call.name not in names | derived and terms == {
            a.args[0] for a in _of_one_column(statement.items)
        }:
            names.add(call.name)
            yield Declaration(statement.left, (), statement.items)


def _of_one_column(items: Iterable[Formula]) -> Iterator[Application]:
    for item in items:
        if isinstance(item, Application) and len(item.args) == 1 and isinstance(item.args[0], Var):
            yield item


def _untyped(declaration: Declaration) -> list[Application]:
    """Return the atoms that give types to columns which have none in a declaration."""
    typed = {typing.variable for typing in declaration.types}
    return [atom for atom in _of_one_column(declaration.others) if str(atom.args[0]) not in typed]


def _declared(declaration: Declaration, firsts: Mapping[str, Type]) -> Predicate:
    call, value = split(declaration.head)
    terms = call.args if value is None else (*call.args, value)
    columns = tuple(_column(term, call) for term in terms)
    types = _types(declaration, columns, call, firsts)
    marked = {typing.variable for typing in declaration.types if typing.type.endswith("?")}
    nullable = tuple(place for place, column in enumerate(columns) if column in marked)
    if value is None:
        return Predicate(
            call.name, types, None, True, columns, nullable, call.keys, where=call.where
        )
    return Predicate(call.name, types[:-1], types[-1], True, columns, nullable, where=call.where)


def _column(term: Node, call: Application) -> str:
    if isinstance(term, Var) and term.marked:
        raise RuleTypeError(
            term.where,
            f"the question mark belongs to the type of {term.name}, as in int?({term.name})",
        )
    if isinstance(term, Var):
        return term.name
    reason = f"a declaration names its columns, as in {call.name}(x, y) -> int(x), int(y)."
    raise RuleTypeError(term.where, reason)


def _types(
    declaration: Declaration,
    columns: tuple[str, ...],
    call: Application,
    firsts: Mapping[str, Type],
) -> tuple[Type, ...]:
    types: dict[str, Type] = {}
    for type_ in declaration.types:
        variable, text, where = type_.variable, type_.type, type_.where
        if variable not in columns:
            reason = f"{variable} is not a column of {call.name}, which has {', '.join(columns)}"
            raise RuleTypeError(where, reason)
        if variable in types:
            raise RedefinitionError(where, f"column {variable} of {call.name} is given two types")
        types[variable] = column_type(text.removesuffix("?"), where)
        if types[variable] == "uint64" and text.endswith(
            "?"
        ):  # null is the least word, so values have other words than in uint64
            raise RuleTypeError(
                where,
                f"rules take no uint64 that may be null: store {variable} as int64? or decimal?",
            )
    for atom in _untyped(declaration):
        types.setdefault(*_of_first_column(atom, firsts))
    for column in columns:
        if columns.count(column) > 1:
            raise RedefinitionError(call.where, f"{call.name} has two columns named {column}")
        if column not in types:
            reason = f"column {column} of {call.name} has no type: add int({column}) or the like"
            raise RuleTypeError(call.where, reason)
    return tuple(types[column] for column in columns)


def _of_first_column(atom: Application, firsts: Mapping[str, Type]) -> tuple[str, Type]:
    """Return the column of a declaration that an atom is about, and its type, which is that of
    the atom's relation.
    """
    (column,) = atom.args
    assert isinstance(column, Var)
    if atom.name not in firsts:
        raise neither(atom)
    return column.name, firsts[atom.name]


def derive_declared(program: Program, known: Program) -> Program:
    """Make views of all rows of the relations that are declared and derived, which other rules read
    instead.

    edge(x, y) -> int(x), int(y).    edge(y, x) <- edge(x, y).

    edge$all(x, y) <- edge(x, y).    edge$all(y, x) <- edge$all(x, y).

    Rules of orders and equivalences (rewrite/closures.py) read edge$asserted, which is edge,
    instead of the first. Raises RedefinitionError, ConstructError.
    """
    predicates = program.over(known)
    heads = [head for rule in program.rules for head in rule.heads]
    derived = {
        h.predicate: h
        for h in heads
        if h.predicate in predicates and predicates[h.predicate].extensional
    }
    for head in derived.values():
        _check_derivable(head, predicates[head.predicate], known)
    whole = {n for n in predicates if n + WHOLE in predicates} | derived.keys()
    if not whole:
        return program
    read = {
        atom.predicate
        for rule in program.rules
        for body in rule.body
        for atom in body
        if isinstance(atom, Atom)
    }
    rules = [_all_asserted(predicates[name]) for name in derived if name + ASSERTED not in read]
    for rule in program.rules:
        heads_ = tuple(_whole(head, whole) for head in rule.heads)
        body = tuple(tuple(_whole(x, whole) for x in disjunct) for disjunct in rule.body)
        rules.append(replace(rule, heads=heads_, body=body))
    answer = program.answer and program.answer + WHOLE * (program.answer in derived)
    return replace(program, rules=tuple(rules), answer=answer)


def _check_derivable(head: Atom, predicate: Predicate, known: Program) -> None:
    if predicate.name in known.predicates:
        raise RedefinitionError(
            head.where,
            f"{predicate.name} is declared at {predicate.where}, in another text: put its rules "
            "there, or derive a view of another name",
        )
    if predicate.key_count is not None:
        raise ConstructError(
            head.where,
            f"{predicate.name} has several values, and rules derive one: derive a view of another "
            f"name",
        )
    check_arity(head, predicate)


def _all_asserted(predicate: Predicate) -> Rule:
    """Return the rule that a relation's view of all rows has those of transactions."""
    row = tuple(
        Var(name, marked=place in predicate.nullable)
        for place, name in enumerate(predicate.columns)
    )
    is_function = predicate.value is not None
    args, value = (row[:-1], row[-1]) if is_function else (row, None)
    stored = Atom(predicate.name, args, value, where=predicate.where)
    head = unmarked(replace(stored, predicate=predicate.name + WHOLE), row)
    return Rule(
        (head,), ((stored,),), where=predicate.where, text=f"{stored}, as transactions have it"
    )


def _whole(literal: Any, whole: Container[str]) -> Any:
    """Return a literal that reads views of all rows, or rows of transactions if it says so."""
    match literal:
        case Atom() if (stored := asserted_of(literal.predicate)) in whole:
            return replace(literal, predicate=stored)
        case Atom() if literal.predicate in whole:
            return replace(literal, predicate=literal.predicate + WHOLE)
        case Negation():
            return replace(literal, body=tuple(_whole(inner, whole) for inner in literal.body))
    return literal


def make_edits(program: Program, known: Program) -> Program:
    """Make edits of a program's changes, constants typed by the columns. Raises RuleError."""
    predicates = program.over(known)
    edits = tuple(_edit(one, predicates) for one in program.statements if isinstance(one, Change))
    left = tuple(statement for statement in program.statements if not isinstance(statement, Change))
    return replace(program, edits=edits, statements=left)


def mark_bags(program: Program, known: Program) -> Program:
    """Make bags of the views that `lang:bag(v).` names.  Raises RuleSyntaxError, RuleTypeError."""
    predicates, left = program.over(known), list[Statement]()
    for statement in program.statements:
        head = split(statement.heads[0])[0] if isinstance(statement, Clause) else None
        if head is None or head.name != BAG:
            left.append(statement)
            continue
        variable = head.args[0] if len(head.args) == 1 else None
        if not isinstance(variable, Var):
            raise RuleSyntaxError(head.where, f"{BAG} takes the name of a view, as in {BAG}(v).")
        predicates[variable.name] = _as_bag(variable, predicates, program.rules)
    return replace(program.defining(predicates, known), statements=tuple(left))


def _as_bag(variable: Var, predicates: Mapping[str, Predicate], rules: Sequence[Rule]) -> Predicate:
    """Return a view of this text as a bag.  Raises RuleTypeError unless it counts or adds."""
    name = variable.name
    ops = [
        aggregate.op
        for rule in rules
        for head, aggregate in zip(rule.heads, rule.aggregates, strict=False)
        if head.predicate == name
    ]
    found = predicates.get(name)
    if found is None or ops not in (["count"], ["sum"]) or found.value != "int64" or not found.keys:
        raise RuleTypeError(
            variable.where,
            f"{name} is not a view of this text that counts rows, as in {name}[x] = n <- "
            "agg<<n = count()>> edge(x, _), or adds multiplicities by sum",
        )
    return replace(found, bag=True)


def _edit(change: Change, predicates: Mapping[str, Predicate]) -> Edit | DerivedEdit:
    """Return the edit of an extensional predicate, typed by the columns. Raises RuleError."""
    call, value = split(change.head)
    predicate = predicates.get(call.name)
    if predicate is None:
        function, column = split_column(call.name)
        if function in predicates and column in predicates[function].columns:
            reason = f"{call.name} is one column of {function}, which is edited by whole rows: {predicates[function]}"
            raise ArityError(call.where, reason)
        raise unknown(call.name, call.where, predicates)
    if not predicate.extensional:
        raise RedefinitionError(
            call.where, f"{call.name} is a view: edit the relations that its rules read"
        )
    _check_action(change, call, predicate)
    if change.body is not None:
        return _derived(change, predicate)
    args = tuple(_constant(arg) for arg in call.args)
    if value is None or isinstance(value, Anonymous):
        return _without_value(change, Atom(call.name, args, where=call.where), predicate)
    atom = Atom(call.name, args, _constant(value), where=call.where)
    check_arity(atom, predicate)
    return _made(change, typed_atom(atom, predicate), predicate)


def _derived(change: Change, predicate: Predicate) -> DerivedEdit:
    """Return the edits from a rule, whose query has the columns of the predicate, or those of its
    key.

    Where a value is given, two values for one key are a conflict, but for deletions.
    """
    assert change.body is not None
    (call, value), columns = split(change.head), predicate.columns
    types = tuple(map(widest, predicate.types))
    keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
    if change.action == "-" and value is None and len(call.args) == keys:  # whatever the values
        columns, types = columns[:keys], types[:keys]
    else:
        written = Atom(
            call.name,
            tuple(Var("x") for _ in call.args),
            None if value is None else Var("x"),
            where=call.where,
        )
        check_arity(written, predicate)
    name, as_function = f"{predicate.name}$edited", value is not None and change.action != "-"
    terms = call.args if value is None else (*call.args, value)
    head: Application | Operation = Application(name, terms, False, where=call.where)
    if as_function and value is not None:
        head = Operation(
            "=", Application(name, call.args, True, where=call.where), value, where=call.where
        )
    form = Predicate(
        name,
        types[:-1] if as_function else types,
        types[-1] if as_function else None,
        False,
        columns,
    )
    clause = Clause((head,), change.body, change.aggregates, where=change.where, text=change.text)
    query = Program({name: replace(form, where=predicate.where)}, statements=(clause,))
    return DerivedEdit(change.action, predicate.name, columns, query, where=change.where)


def _check_action(change: Change, call: Application, predicate: Predicate) -> None:
    if change.action == "^" and predicate.value is None and predicate.key_count is None:
        raise ArityError(
            change.where, f"^ sets a function's value, and {call.name} is a relation: write +"
        )


def _without_value(change: Change, atom: Atom, predicate: Predicate) -> Edit:
    """Return the edit of a relation's row, or the deletion of a function's key with any value."""
    if change.action == "-" and predicate.value is not None:
        predicate = replace(predicate, value=None, columns=predicate.columns[:-1], nullable=())
    elif (
        change.action == "-"
        and predicate.key_count is not None
        and len(atom.args) == predicate.key_count
    ):
        columns = predicate.columns[: predicate.key_count]
        keys = predicate.keys[: predicate.key_count]
        # with any values
        predicate = replace(predicate, keys=keys, columns=columns, key_count=None)
    check_arity(atom, predicate)
    return _made(change, typed_atom(atom, predicate), predicate)


def _made(change: Change, atom: Atom, predicate: Predicate) -> Edit:
    """Return the edit.  Raises RuleTypeError for a null in a column that is never null, and for
    a value that encodes null in one that may be null.
    """
    for place, given in enumerate(atom.terms):
        if isinstance(given, Const) and given.value is None and place not in predicate.nullable:
            raise RuleTypeError(
                given.where, f"{predicate.columns[place]} of {predicate.name} is never null"
            )
    for place in predicate.nullable:
        term = atom.terms[place] if place < len(atom.terms) else None
        if isinstance(term, Const) and stands_for_null(term):
            raise RuleTypeError(
                term.where,
                f"{term} stands for a null in a column of {predicate.stored_types[place]}: take "
                "another number, or declare the column without the question mark",
            )
    args = tuple(arg for arg in atom.args if isinstance(arg, Const))
    value = atom.value if isinstance(atom.value, Const) else None
    return Edit(change.action, atom.predicate, args, value, where=change.where)


def _constant(node: Node) -> Const:
    if isinstance(node, Const):
        return node
    dated = (
        "; a date is written #2013-01-31#" if isinstance(node, Operation) and node.op == "-" else ""
    )
    raise RuleSyntaxError(node.where, f"an edit holds constants only{dated}")


def declare_functions(program: Program) -> Program:
    """Return the program without statements that declare functions, whose names are those of
    functions from now on.

    Raises RuleSyntaxError, OptionError.
    """
    left = []
    for statement in program.statements:
        head = split(statement.heads[0])[0] if isinstance(statement, Clause) else None
        if head is None or head.name != DECLARATION:
            left.append(statement)
            continue
        match head.args:
            case (Const(str(name)), Const(str(signature))):
                declare_function(name, signature)
            case _:
                reason = f'{DECLARATION} takes a name and a signature, as in {DECLARATION}("f", "float, int -> float").'
                raise RuleSyntaxError(head.where, reason)
    return replace(program, statements=tuple(left))


def mentioned(statements: Iterable[Statement]) -> tuple[set[str], set[str]]:
    """Return the names that some statements read or edit, and the names of the predicates that they
    define.

    >>> from ivm.lang.parse import parse
    >>> [*map(sorted, mentioned(parse("p(x) <- q(x), !r[x] = s[x + 1], t(x). t(x) -> int(x).")))]
    [['q', 'r', 's', 't'], ['p', 't']]
    """
    needed, defined = set[str](), set[str]()
    for statement in statements:
        match statement:
            case Declaration():
                defined.add(split(statement.head)[0].name)
            case Clause():
                heads = [split(head) for head in statement.heads]
                defined |= {call.name for call, _ in heads}
                terms = (term for call, value in heads for term in (*call.args, value))
                folded = (term for _, given in statement.aggregates for term in given)
                needed |= {*names_in(statement.body, statement.groups, *terms, *folded)}
            case Constraint():
                needed |= {*names_in(statement.left, *statement.items)}
            case Subsumption():
                needed |= {*names_in(statement.body)}
            case Change():
                folded = (term for _, given in statement.aggregates for term in given)
                needed |= {*names_in(statement.head, statement.body, *folded)}
    return needed, defined


COMPARED_MAX = 200  # characters of a name compared for suggestions; comparison takes quadratic time


def check_names(rules: Iterable[Rule], names: set[str]) -> None:
    """Raise UnknownPredicateError at the first atom of a body whose predicate is not in `names`."""
    for rule in rules:
        for disjunct in rule.body:
            for atom in atoms(disjunct):
                if atom.predicate not in names:
                    raise unknown(atom.predicate, atom.where, names)


def neither(atom: Application) -> UnknownPredicateError:
    """Return the error for `itn(x)` to the right of `->`, which was probably meant as a type."""
    close = get_close_matches(atom.name, ALIASES, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"the types are {KNOWN}"
    error = UnknownPredicateError(
        atom.where, f"{atom.name} is neither a type nor a predicate: {remedy}"
    )
    error.name = atom.name
    return error


def unknown(name: str, where: Where, names: Iterable[str]) -> UnknownPredicateError:
    """Return the error for a name that nothing declares or derives."""
    short = [known for known in (name, *names) if not is_made(known) and len(known) <= COMPARED_MAX]
    close = get_close_matches(name, short[1:], n=1) if short[:1] == [name] else []
    remedy = f"did you mean {close[0]}?" if close else f"declare it, as in {name}(x) -> int(x)."
    functions = (
        () if close else get_close_matches(name, (*FUNCTIONS, *FUNCTION_NAMES), n=1, cutoff=0.75)
    )
    if functions:
        remedy = f"did you mean the function {functions[0]}[...]?"
    error = UnknownPredicateError(where, f"nothing declares or derives {name}: {remedy}")
    error.name = name
    return error
