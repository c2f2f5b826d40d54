"""Compile rules from text: `compile` for rules to install, `query` for a query that is evaluated once.

    >>> program = compile("edge(x, y) -> int(x), int(y).  path(x, z) <- edge(x, y), edge(y, z).")
    >>> program.predicates["path"].keys
    ('int64', 'int64')
    >>> [head.predicate for rule in program.rules for head in rule.heads]
    ['path']

The passes, one file each: parse (text to tree), hoist and normalise (tree to rules), check with
declarations, names, safety, infer, aggregate, dependencies and edits (rules to a program).
"""

from dataclasses import replace

from ivm.errors import RuleError, RuleSyntaxError, Where
from ivm.lang.program import Program

NOTHING = Program()


def compile(text: str, known: Program = NOTHING, source: str = "rules", merging: bool = True) -> Program:
    """Return the program that `text` adds to the installed program `known`; `merging` as for `check`.

    Raises a RuleError with file (here `source`), line and column at the first fault; see ivm.errors.
    """
    return _checked(text, known, source, merging)[0]


def query(text: str, known: Program, source: str = "query") -> Program:
    """Compile a query; `answer` names the first head of the text's last rule, the others are helpers.

    Raises as `compile` does, and RuleError for declarations, for edits, and for heads that are installed already.
    """
    program, answer = _checked(text, known, source)
    if not program.rules:
        raise RuleSyntaxError(Where(source, 1, 1), "a query is a rule, as in q(x) <- edge(x, y).")
    for statement in (*program.edits, *(p for p in program.predicates.values() if p.extensional)):
        raise RuleError(statement.where, "a query holds rules only: install declarations, exec edits")
    for rule in program.rules:
        for head in rule.heads:
            if head.predicate in known.predicates:
                raise RuleError(head.where, f"{head.predicate} is installed: name the query otherwise")
    return replace(program, answer=answer)


def _checked(text: str, known: Program, source: str, merging: bool = True) -> tuple[Program, str]:
    """Return a text's program and its last rule's head; import the passes on demand."""
    from ivm.lang.check import check
    from ivm.lang.declarations import last_head
    from ivm.lang.parse import parse, shown

    statements = parse(text, source)
    try:
        return check(statements, known, merging), last_head(statements)
    except RuleSyntaxError as error:
        raise shown(error, text) from None


__all__ = ["NOTHING", "Program", "compile", "query"]
