"""Names and arities: checks that each atom refers to a predicate, in the right form."""

from collections.abc import Iterable
from difflib import get_close_matches

from ivm.errors import ArityError, UnknownPredicateError, Where
from ivm.lang.ir import Atom, Predicate, Rule
from ivm.lang.traverse import atoms

COMPARED_MAX = 200  # characters of a name compared for suggestions; comparison takes quadratic time


def check_names(rules: Iterable[Rule], names: set[str]) -> None:
    """Raise UnknownPredicateError at the first atom of a body whose predicate is not among `names`."""
    for rule in rules:
        for disjunct in rule.body:
            for atom in atoms(disjunct):
                if atom.predicate not in names:
                    raise unknown(atom.predicate, atom.where, names)


def unknown(name: str, where: Where, names: Iterable[str]) -> UnknownPredicateError:
    """Return the error for a name that nothing declares or derives."""
    short = [known for known in (name, *names) if "$" not in known and len(known) <= COMPARED_MAX]
    close = get_close_matches(name, short[1:], n=1) if short[:1] == [name] else []
    remedy = f"did you mean {close[0]}?" if close else f"declare it, as in {name}(x) -> int(x)."
    return UnknownPredicateError(where, f"nothing declares or derives {name}: {remedy}")


def check_arity(atom: Atom, predicate: Predicate) -> None:
    """Raise ArityError unless the atom has its predicate's form."""
    is_function = predicate.value is not None
    if (atom.value is not None) != is_function:
        kind = "function" if is_function else "relation"
        raise ArityError(atom.where, f"{atom.predicate} is a {kind}: write {_form(predicate)}")
    if len(atom.args) != len(predicate.keys):
        wanted = f"{len(predicate.keys)} argument{'s' * (len(predicate.keys) != 1)}"
        reason = f"{atom.predicate} takes {wanted}, not {len(atom.args)}: {_form(predicate)}"
        raise ArityError(atom.where, reason)


def _form(predicate: Predicate) -> str:
    if predicate.value is None:
        return f"{predicate.name}({', '.join(predicate.columns)})"
    *keys, value = predicate.columns
    return f"{predicate.name}[{', '.join(keys)}] = {value}"
