"""Find the names that a text reads but neither declares nor derives."""

from collections.abc import Iterator

from ivm.lang.declarations import split
from ivm.lang.parse import parse
from ivm.lang.syntax_tree import And, Call, Change, Clause, Declaration, Formula, Node, Not, Operation, Or


def mentioned(text: str, source: str) -> set[str]:
    """Return the predicates that a text reads or edits, but does not define.  Raises RuleSyntaxError.

    >>> sorted(mentioned("p(x) <- q(x), !r[x] = s[x + 1], t(x). t(x) -> int(x).", "rules"))
    ['q', 'r', 's']
    """
    needed, own = set[str](), set[str]()
    for statement in parse(text, source):
        match statement:
            case Declaration():
                own.add(split(statement.head)[0].name)
            case Clause():
                own |= {split(head)[0].name for head in statement.heads}
                parts = (statement.body, *(split(head)[1] for head in statement.heads))
                terms = [arg for head in statement.heads for arg in split(head)[0].args]
                folded = [term for _, given in statement.aggregates for term in given]
                needed |= {name for part in (*parts, *terms, *folded) for name in _names(part)}
            case Change():
                needed |= set(_names(statement.head))
    return needed - own


def _names(part: Formula | Node | None) -> Iterator[str]:
    """Yield the names of the predicates in a formula or a term."""
    match part:
        case Call():
            yield part.name
            for term in part.args:
                yield from _names(term)
        case Operation():
            yield from _names(part.left)
            yield from _names(part.right)
        case Not():
            yield from _names(part.item)
        case And() | Or():
            for item in part.items:
                yield from _names(item)
