"""Magic sets: pass a query's constants into the recursion that it reads, so that only relevant rows
are derived.

    reach(x, y) <- edge(x, y).          reach(x, z) <- reach(x, y), edge(y, z).          q(y) <- reach(1, y).

    reach$needed1(x) <- reach$seed1(x).                                        1, and values demanded because of it
    reach$1(x, y) <- reach$needed1(x), edge(x, y).
    reach$1(x, z) <- reach$needed1(x), reach$1(x, y), edge(y, z).             q(y) <- reach$1(1, y).

The digits say which columns are bound: 1 where a value is given. If each demand leads only to
demands for other values of these columns, as in `reach(x, z) <- edge(x, y), reach(y, z)`, the
answer is the same for all demanded values. Then rows are derived without those columns:

    reach$needed1(y) <- reach$needed1(x), edge(x, y).          reach$for1(z) <- reach$needed1(x), edge(x, z).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ivm.lang import ir
from ivm.lang.program import Program, Stratum, in_order, strata_of
from ivm.lang.rewrite.parameters import GIVEN
from ivm.terms.evaluator import may_fail

SHOWN = 3  # constants in a note
Given = tuple[int, ...]  # the bound columns of a predicate


def pass_constants(program: Program) -> Program:
    """Rewrite a query so that recursion which is read with constants derives only what these
    demand.

    The rows of constants that this begins with are its seeds; a note says so for each rewritten
    view.
    """
    predicates = program.predicates
    for views in [stratum.recursive for stratum in strata_of(program.rules) if stratum.recursive]:
        # Rewriting a stratum also replaces the rules of other strata that read it.
        (stratum,) = (one for one in strata_of(program.rules) if one.recursive == views)
        if _is_plain(stratum, predicates):
            program = _Magic(program, stratum).rewritten() or program
    return program


def _is_plain(stratum: Stratum, predicates: Mapping[str, ir.Predicate]) -> bool:
    """Return whether a stratum has only relations and no arithmetic that can fail, since skipped
    rows hide errors.
    """
    return not any(
        rule.aggregates
        or predicates[rule.heads[0].predicate].value is not None
        or may_fail(disjunct, set(), rule.types)
        for rule in stratum.rules
        for disjunct in rule.body
    )


class _Magic:
    """Rewrites one stratum of a program."""

    def __init__(self, program: Program, stratum: Stratum) -> None:
        self._before, self._stratum = program, stratum
        self._predicates = dict(program.predicates)
        self._made: list[ir.Rule] = []
        self._waiting: list[tuple[str, Given]] = []
        self._calls: dict[tuple[str, Given], list[tuple[str, Given]]] = {}
        # those with a rule that demands by some of its literals only
        self._partly: set[tuple[str, Given]] = set()
        self._seeds: dict[str, list[tuple[ir.Const, ...]]] = {}

    def rewritten(self) -> Program | None:
        """Return the program with the stratum rewritten; None if a rule needs all its rows."""
        program, recursive = self._before, self._stratum.recursive
        within = {id(rule) for rule in self._stratum.rules}
        outside = [rule for rule in program.rules if id(rule) not in within]
        calls = [self._called(disjunct) for rule in outside for disjunct in rule.body]
        asked = [call for some in calls for call in some]
        if program.answer in recursive or not asked or not all(given for _, given, _ in asked):
            return None
        for name, given, constants in asked:
            seeds = self._seeds.setdefault(_named(name, "seed", given), [])
            seeds += [constants] if constants not in seeds else []
            self._ask(name, given)
        while self._waiting:
            if not self._adorn(*self._waiting.pop()):
                return None
        factored = {call for call in self._calls if self._is_same_for_all(*call)}
        rules = [self._answered(rule, factored) for rule in outside]
        made = [rule for rule in self._made if not self._is_left_out(rule, factored)]
        for name in self._seeds:
            kept = self._predicates[name.replace("$seed", "$needed")]
            self._predicates[name] = replace(kept, name=name, extensional=True)
        notes = dict.fromkeys(self._note(name, given) for name, given, _ in asked)
        new = in_order((*made, *rules))
        used = {name for rule in new for name in (*rule.reads, *rule.writes)}
        predicates = {
            name: predicate for name, predicate in self._predicates.items() if name in used
        }
        found_seeds = {**program.seeds, **self._seeds}
        return replace(
            program,
            predicates=predicates,
            rules=new,
            seeds=found_seeds,
            notes=(*program.notes, *notes),
        )

    def _note(self, name: str, given: Given) -> str:
        seeds = self._seeds[_named(name, "seed", given)]
        columns = ", ".join(self._predicates[name].columns[i] for i in given)
        values = "; ".join(", ".join(map(str, row)) for row in seeds[:SHOWN]) + (
            "; ..." if len(seeds) > SHOWN else ""
        )
        return f"of {name} only rows that {columns} = {values} leads to"

    # -- calls from outside the stratum

    def _called(self, disjunct: ir.Disjunct) -> list[tuple[str, Given, tuple[ir.Const, ...]]]:
        """Return the stratum's atoms in a conjunction: for each its name, its columns bound to
        constants, and these.
        """
        known = _constants(disjunct, self._before)
        return [
            (atom.predicate, given, tuple(_constant(atom.args[i], known) for i in given))
            for atom in ir.atoms(disjunct)
            if atom.predicate in self._stratum.recursive
            for given in [
                tuple(
                    i
                    for i, term in enumerate(atom.args)
                    if isinstance(term, ir.Const) or term in known
                )
            ]
        ]

    def _answered(self, rule: ir.Rule, factored: set[tuple[str, Given]]) -> ir.Rule:
        """Return a rule from outside the stratum, reading the rewritten views."""

        def literal(one: ir.Literal, known: Mapping[ir.Var, ir.Const]) -> ir.Literal:
            match one:
                case ir.Negation():
                    return replace(one, body=tuple(literal(inner, known) for inner in one.body))
                case ir.Atom() if one.predicate in self._stratum.recursive:
                    given = tuple(
                        i for i, t in enumerate(one.args) if isinstance(t, ir.Const) or t in known
                    )
                    if (one.predicate, given) in factored:
                        left = tuple(term for i, term in enumerate(one.args) if i not in given)
                        return replace(
                            one, predicate=_named(one.predicate, "for", given), args=left
                        )
                    return replace(one, predicate=_named(one.predicate, "", given))
            return one

        body = tuple(
            tuple(literal(one, _constants(disjunct, self._before)) for one in disjunct)
            for disjunct in rule.body
        )
        return replace(rule, body=body)

    # -- rules of the stratum

    def _ask(self, name: str, given: Given) -> None:
        """Define the predicates of a view that is read with some columns bound, and queue its
        rules for rewriting.
        """
        if (name, given) in self._calls:
            return
        self._calls[name, given] = []
        self._waiting.append((name, given))
        whole = self._predicates[name]
        some = _with_columns(whole, _named(name, "needed", given), given)
        left = tuple(i for i in range(len(whole.keys)) if i not in given)
        self._define(replace(whole, name=_named(name, "", given)))
        self._define(some)
        self._define(_with_columns(whole, _named(name, "for", given), left))
        if _named(name, "seed", given) in self._seeds:
            args = tuple(map(ir.Var, some.columns))
            types = dict(zip(some.columns, some.keys, strict=True))
            head, seed = (ir.Atom(_named(name, kind, given), args) for kind in ("needed", "seed"))
            self._made.append(
                ir.Rule(
                    (head,),
                    ((seed,),),
                    types=types,
                    text="(the constants that are needed)",
                    where=whole.where,
                )
            )

    def _define(self, predicate: ir.Predicate) -> None:
        self._predicates[predicate.name] = predicate

    def _adorn(self, name: str, given: Given) -> bool:
        """Rewrite the rules of a view that is read with columns bound; False if they need all
        rows of some view.
        """
        for rule in self._stratum.rules:
            (head,) = rule.heads
            for disjunct in rule.body if head.predicate == name else ():
                if not self._adorn_one(rule, head, disjunct, given):
                    return False
        return True

    def _adorn_one(self, rule: ir.Rule, head: ir.Atom, disjunct: ir.Disjunct, given: Given) -> bool:
        values = tuple(head.args[i] for i in given)
        asking = ir.Atom(_named(head.predicate, "needed", given), values, where=head.where)
        known = {*ir.variables(asking), *_constants(disjunct, self._before)}
        done: list[ir.Atom] = [asking]
        left = [x for x in disjunct if isinstance(x, ir.Atom)]
        rest = tuple(x for x in disjunct if not isinstance(x, ir.Atom))
        while left:
            atom = min(left, key=lambda x: self._place(x, known))
            left.remove(atom)
            if atom.predicate in self._stratum.recursive:
                columns = tuple(
                    i for i, t in enumerate(atom.args) if isinstance(t, ir.Const) or t in known
                )
                if not columns:
                    return False
                self._ask(atom.predicate, columns)
                self._calls[head.predicate, given].append((atom.predicate, columns))
                if not self._pass_on(rule, atom, columns, done, rest) or left:
                    self._partly.add((head.predicate, given))
                atom = replace(atom, predicate=_named(atom.predicate, "", columns))
            done.append(atom)
            known |= {*ir.variables(atom)}
        new = replace(head, predicate=_named(head.predicate, "", given))
        self._made.append(replace(rule, heads=(new,), body=((*done, *rest),)))
        if not self._calls_of(disjunct):
            free = tuple(term for i, term in enumerate(head.args) if i not in given)
            new = replace(head, predicate=_named(head.predicate, "for", given), args=free)
            self._made.append(replace(rule, heads=(new,), body=((*done, *rest),)))
        return True

    def _calls_of(self, disjunct: ir.Disjunct) -> bool:
        return any(atom.predicate in self._stratum.recursive for atom in ir.atoms(disjunct))

    def _place(self, atom: ir.Atom, known: set[ir.Var]) -> tuple[bool, bool]:
        """Return an atom's sort key: those with a known value first, of these first those
        outside the stratum.
        """
        shares = any(isinstance(term, ir.Const) or term in known for term in atom.args)
        return not shares, atom.predicate in self._stratum.recursive

    def _pass_on(
        self,
        rule: ir.Rule,
        atom: ir.Atom,
        columns: Given,
        done: Sequence[ir.Atom],
        rest: Sequence[ir.Literal],
    ) -> bool:
        """Add the rule that demands a view's rows by the atoms before it; return whether it has
        all other literals.
        """
        fresh = {
            i: ir.Var(f"given${i}", where=atom.where)
            for i in columns
            if isinstance(atom.args[i], ir.Const)
        }
        args = tuple(fresh.get(i, atom.args[i]) for i in columns)
        head = ir.Atom(_named(atom.predicate, "needed", columns), args, where=atom.where)
        if (head,) == tuple(done):
            return True  # this is demanded already
        held = {v for one in done for v in ir.variables(one)}
        fixed = [ir.Compare("=", var, atom.args[i]) for i, var in fresh.items()]
        kept = [x for x in rest if held.issuperset(ir.variables(x)) or _fixes(x)]
        types = {
            **rule.types,
            **{var.name: self._predicates[atom.predicate].keys[i] for i, var in fresh.items()},
        }
        body: ir.Disjunct = (*done, *fixed, *kept)
        text = f"{rule.text}  (the constants that it needs)"
        self._made.append(replace(rule, heads=(head,), body=(body,), types=types, text=text))
        return len(kept) == len(rest)

    # -- answers that are the same for all demanded values

    def _is_same_for_all(self, name: str, given: Given) -> bool:
        """Return whether there is one seed, and rules only demand values and pass answers on."""
        if len(self._seeds.get(_named(name, "seed", given), ())) != 1 or len(given) == len(
            self._predicates[name].keys
        ):
            return False
        asking = {call for call, calls in self._calls.items() if (name, given) in calls}
        if (name, given) in self._partly or not asking <= {(name, given)}:
            return False
        return all(
            self._passes_on(rule.heads[0], disjunct, given)
            for rule in self._stratum.rules
            for disjunct in (rule.body if rule.heads[0].predicate == name else ())
            if self._calls_of(disjunct)
        )

    def _passes_on(self, head: ir.Atom, disjunct: ir.Disjunct, given: Given) -> bool:
        calls = [x for x in ir.atoms(disjunct) if x.predicate in self._stratum.recursive]
        (call, *others) = calls
        if others or call.predicate != head.predicate:
            return False
        free = [i for i in range(len(head.args)) if i not in given]
        passed = [head.args[i] for i in free]
        elsewhere = [
            *(x for x in disjunct if x is not call),
            *(args[i] for args in (head.args, call.args) for i in given),
        ]
        return (
            {*self._calls[head.predicate, given]} == {(head.predicate, given)}
            and passed == [call.args[i] for i in free]
            and len({*passed}) == len(passed)
            and {*ir.variables(*elsewhere)}.isdisjoint(passed)
        )

    def _is_left_out(self, rule: ir.Rule, factored: set[tuple[str, Given]]) -> bool:
        """Return whether a rule derives the answer in the form (factored or not) not used."""
        name = rule.heads[0].predicate
        for call in self._calls:
            if name == _named(*_parts(call, "")):
                return call in factored
            if name == _named(*_parts(call, "for")):
                return call not in factored
        return False


def _with_columns(whole: ir.Predicate, name: str, places: Given) -> ir.Predicate:
    """Return the predicate of some columns of a relation."""
    keys, columns = (tuple(of[i] for i in places) for of in (whole.keys, whole.columns))
    nullable = tuple(n for n, i in enumerate(places) if i in whole.nullable)
    return replace(whole, name=name, keys=keys, columns=columns, nullable=nullable)


def _parts(call: tuple[str, Given], kind: str) -> tuple[str, str, Given]:
    return call[0], kind, call[1]


def _named(name: str, kind: str, given: Given) -> str:
    """Return the name of the predicate of this kind for a view with some columns bound."""
    digits = "".join("1" if i in given else "0" for i in range(max(given, default=-1) + 1))
    return f"{name}${kind}{digits}"


def _constants(disjunct: ir.Disjunct, program: Program) -> dict[ir.Var, ir.Const]:
    """Return the variables that a conjunction fixes to constants or parameters, with these."""
    known = {x.left: x.right for x in disjunct if _fixes(x) and isinstance(x, ir.Compare)}
    for atom in ir.atoms(disjunct):
        if atom.predicate == GIVEN:
            (values,) = program.seeds[GIVEN]
            known |= zip(atom.args, values, strict=True)
    return known  # type: ignore[return-value]


def _fixes(literal: ir.Literal) -> bool:
    return (
        isinstance(literal, ir.Compare)
        and literal.op == "="
        and isinstance(literal.left, ir.Var)
        and isinstance(literal.right, ir.Const)
    )


def _constant(term: ir.Var | ir.Const, known: Mapping[ir.Var, ir.Const]) -> ir.Const:
    return term if isinstance(term, ir.Const) else known[term]
