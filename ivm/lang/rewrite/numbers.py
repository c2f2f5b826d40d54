"""Replace the relations that list numbers and parts of texts, which nothing stores, by joins and
comparisons.

    p(x, i) <- a(x), range(0, x, i).            i from 0 to x - 1; range(x, y, step, i) leaves numbers out

    p$range0(x, n) <- a(x), n = $count[0, x, 1].                 how many they are
    p(x, i) <- a(x), p$range0(x, n), p$blocks(b), b < n, p$units(u), b + u < n, i = $nth[0, x, 1, b,
    u, n].

    string:split(s, ",", i, part)               is the same of numbers 1 to the number of parts, with
                                                part = string:split_part[s, ",", i]

The units are the numbers below UNITS and the blocks multiples of UNITS, so the join seeks to the
last of each, and lists only numbers of the range.  A number that something else binds is compared
with the ends instead.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from itertools import count
from re import findall

from ivm.errors import ArityError, SafetyError
from ivm.lang.columns import binding, bound_by
from ivm.lang.ir import (
    NOWHERE,
    Atom,
    Binary,
    Call,
    Compare,
    Const,
    Disjunct,
    Literal,
    Negation,
    Rule,
    Term,
    Var,
    marked,
    variables,
)
from ivm.lang.program import Program
from pagestore.host import KEYS_MAX

RANGES, SPLITS = ("range", "int:range"), ("string:split", "split")
FORMS = {
    "range": "range(from, to, x) or range(from, to, step, x)",
    "split": "string:split(s, separator, i, part)",
}
DIGIT = 16
UNITS = DIGIT**3
LISTED_MAX = UNITS**2  # numbers of one range


def list_numbers(program: Program, known: Program) -> Program:
    """Replace atoms of `range` and `string:split` unless these are predicates. Raises RuleError."""
    taken = {
        *program.over(known),
        *(head.predicate for rule in program.rules for head in rule.heads),
    }
    lists = _Lists(taken)
    rules = [made for rule in program.rules for made in lists.rules(rule)]
    return replace(program, rules=(*lists.digits(), *rules))


class _Lists:
    """Replaces the atoms of a program; `taken` has the names of predicates."""

    def __init__(self, taken: set[str]) -> None:
        self._taken, self._digits, self._where = taken, "", NOWHERE

    def rules(self, rule: Rule) -> Iterator[Rule]:
        """Yield the helpers of a rule, then the rule that reads them; only the rule itself if it
        lists nothing.
        """
        if not any(self._lists(x) for disjunct in rule.body for x in disjunct):
            yield rule
            return
        numbering = _OneRule(rule, self._taken, self)
        body = tuple(numbering.conjunction(disjunct, ()) for disjunct in rule.body)
        yield from numbering.helpers
        yield replace(rule, body=body)

    def _lists(self, literal: Literal) -> bool:
        if isinstance(literal, Negation):
            return any(map(self._lists, literal.body))
        return isinstance(literal, Atom) and is_list(literal, self._taken)

    def name_of(self, kind: str, rule: Rule) -> str:
        """Return the name of the units or the blocks, which are helpers of the first rule that
        lists numbers.
        """
        if not self._digits:
            self._digits, self._where = rule.heads[0].predicate, rule.where
        return f"{self._digits}${kind}"

    def digits(self) -> Iterator[Rule]:
        """Yield the rules of units and blocks, if a rule lists numbers."""
        if not self._digits:
            return
        x, y, z, n = map(Var, "xyzn")
        digit, units, blocks = (f"{self._digits}${kind}" for kind in ("digits", "units", "blocks"))
        where = self._where
        digits = tuple((Compare("=", x, Const(value, "int64")),) for value in range(DIGIT))
        yield Rule(
            (Atom(digit, (x,)),),
            digits,
            where=self._where,
            text=f"{digit}(x) <- x = 0 ; x = 1 ; ... ; x = {DIGIT - 1}.",
        )
        number = Binary("+", _times(Binary("+", _times(x, DIGIT), y), DIGIT), z)
        made = Atom(digit, (x,)), Atom(digit, (y,)), Atom(digit, (z,)), Compare("=", n, number)
        yield Rule(
            (Atom(units, (n,)),),
            (made,),
            where=where,
            text=f"{units}(n) <- the numbers below {UNITS}",
        )
        multiple = Atom(units, (x,)), Compare("=", n, _times(x, UNITS))
        yield Rule(
            (Atom(blocks, (n,)),),
            (multiple,),
            where=where,
            text=f"{blocks}(n) <- their multiples by {UNITS}",
        )


def _times(term: Term, number: int) -> Binary:
    return Binary("*", term, Const(number, "int64"))


def is_list(atom: Atom, taken: Container[str]) -> bool:
    """Return whether an atom lists numbers or parts of texts.  Raises ArityError if malformed."""
    if atom.predicate in taken or atom.predicate not in (*RANGES, *SPLITS):
        return False
    lengths = (3, 4) if atom.predicate in RANGES else (4,)
    if len(atom.terms) not in lengths:
        form = FORMS["range" if atom.predicate in RANGES else "split"]
        raise ArityError(
            atom.where,
            f"{atom.predicate} takes {' or '.join(map(str, lengths))} arguments: write {form}",
        )
    return True


class _OneRule:
    """Replaces the atoms of one rule, whose helpers are in `helpers`."""

    def __init__(self, rule: Rule, taken: set[str], lists: _Lists) -> None:
        self._rule, self._taken, self._lists = rule, taken, lists
        self.helpers: list[Rule] = []
        taken_here = {*findall(r"\w+", str(rule))}
        self._fresh = (Var(name) for n in count(1) if (name := f"nth{n}") not in taken_here)

    def conjunction(self, literals: Disjunct, around: Disjunct) -> Disjunct:
        """Return a conjunction that lists nothing, in which literals `around` hold too.  Raises
        SafetyError.
        """
        literals = tuple(made for x in literals for made in self._without_splits(x))
        waiting = [x for x in literals if isinstance(x, Atom) and is_list(x, self._taken)]
        literals_made = [x for x in literals if x not in waiting]
        while waiting:
            known = [*around, *(x for x in literals_made if not isinstance(x, Negation))]
            bound = bound_by(known)
            ready = next((x for x in waiting if bound.issuperset(variables(*x.terms[:-1]))), None)
            if ready is None:
                raise self._endless(waiting[0], bound)
            waiting.remove(ready)
            moved, made = self._listed(ready, bound, tuple(known))
            literals_made = [*(x for x in literals_made if x not in moved), *made]
        known = [*around, *(x for x in literals_made if not isinstance(x, Negation))]
        return tuple(
            replace(x, body=body, exists=(*x.exists, *_more(body, x, known)))
            if isinstance(x, Negation)
            and (body := self.conjunction(x.body, tuple(known))) != x.body
            else x
            for x in literals_made
        )

    def _without_splits(self, literal: Literal) -> Iterator[Literal]:
        if (
            not isinstance(literal, Atom)
            or literal.predicate not in SPLITS
            or not is_list(literal, self._taken)
        ):
            yield literal
            return
        text, separator, number, part = literal.terms
        end, where = next(self._fresh), literal.where
        parts = Call("string:parts", (text, separator), where=where)
        yield Compare(
            "=", end, Binary("+", parts, Const(1, "int64", where=where), where=where), where=where
        )
        yield Atom(RANGES[0], (Const(1, "int64", where=where), end, number), where=where)
        term = Call("string:split_part", (text, separator, number), where=where)
        yield (
            Compare("=", part, term, where=where)
            if isinstance(part, Var)
            else Compare("=", term, part, where=where)
        )

    def _endless(self, atom: Atom, bound: set[Var]) -> SafetyError:
        lacking = next(v for v in variables(*atom.terms[:-1]) if v not in bound)
        name = "`_`" if lacking.name.startswith("_") else lacking.name
        reason = "without an end it would list numbers forever; bind it by an atom or an equation"
        return SafetyError(
            lacking.where, f"{name} is not bound, which {atom.predicate} needs: {reason}"
        )

    def _listed(
        self, atom: Atom, bound: set[Var], known: Disjunct
    ) -> tuple[Disjunct, list[Literal]]:
        """Return literals that hold for a range's numbers, and before them those they replace."""
        low, high, *steps, number = atom.terms
        where = atom.where
        first = Const(1, "int64", where=where)
        step = steps[0] if steps else first
        if isinstance(number, Const) or number in bound:
            inside = Call("$within", (number, low, high, step), where=where)
            listed: list[Literal] = [
                Compare("=", inside, Const(True, "bool", where=where), where=where)
            ]
            # infer leaves out the first where they are whole numbers
            if step == first and isinstance(number, Var):
                listed += [
                    Compare(">=", number, low, where=where),
                    Compare("<", number, high, where=where),
                ]
            return (), listed
        size, moved, helper = self._size((low, high, step), known, atom)
        block, unit = next(self._fresh), next(self._fresh)
        number_of = Call("$nth", (low, high, step, block, unit, size), where=where)
        return moved, [
            helper,
            Atom(self._lists.name_of("blocks", self._rule), (block,), where=where),
            *_below(block, size),
            Atom(self._lists.name_of("units", self._rule), (unit,), where=where),
            *_below(Binary("+", block, unit, where=where), size),
            Compare("=", number, number_of, where=where),
        ]

    def _size(
        self, ends: tuple[Term, ...], known: Disjunct, atom: Atom
    ) -> tuple[Var, Disjunct, Atom]:
        """Return a variable for the size of a range, the literals that bind its ends, and the
        helper's atom for them.

        The literals are none if they stay, since the helper has only the ends. Adds the helper's
        rule.
        """
        size, where, needed = next(self._fresh), atom.where, variables(*ends)
        literals = binding(needed, known)
        columns = tuple(dict.fromkeys([*needed, *variables(*literals)]))
        moves = len(literals) > 1 and len(columns) < KEYS_MAX
        names = (f"{self._rule.heads[0].predicate}$range{n}" for n in count())
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        bare = (replace(v, marked=False) for v in (columns if moves else needed))
        head = Atom(name, (*bare, size), where=where)
        equation = Compare("=", size, Call("$count", ends, where=where), where=where)
        text = f"{self._rule.text}  (its {atom.predicate})"
        self.helpers.append(Rule((head,), ((*literals, equation),), where=where, text=text))
        return size, literals if moves else (), marked(head)


def _below(term: Term, size: Var) -> tuple[Compare, Compare]:
    """Return that a number is below a size, and a bound that always holds, so that plans count
    on a short range.
    """
    least = Binary("-", size, Const(LISTED_MAX + 1, "int64", where=size.where), where=size.where)
    return Compare("<", term, size, where=size.where), Compare(">=", term, least, where=size.where)


def rows_of(predicate: str) -> int | None:
    """Return how many rows the helper of units or blocks has; None for other predicates."""
    return UNITS if predicate.endswith(("$units", "$blocks")) else None


def _more(body: Disjunct, negation: Negation, known: Iterable[Literal]) -> tuple[Var, ...]:
    """Return the variables that a negation has after its lists are replaced, and had not before."""
    around = {*variables(*known), *variables(*negation.body), *negation.exists}
    return tuple(v for v in variables(*body) if v not in around)
