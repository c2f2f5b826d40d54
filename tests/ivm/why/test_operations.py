"""The trace of an evaluation, operation by operation, against a leapfrog join over lists, and against
the paper.
"""

from random import Random

import pytest

import ivm
from ivm.join.kernels.tries import EQ, GE, LE, NE
from pagestore.host import WORD_MAX, WORD_MIN
from tests.support.paper import example
from tests.support.programs.flat_joins import BODIES, DECLARED

NEGATED = {
    "early": ("x y", "r(x, y), s(y, x), !u(x)"),
    "lacking": ("x y", "r(x, y), !s(y, x), u(x)"),
    "unlike": ("x", "u(x), !r(x, x), x != 3"),
}
RULES = {
    name: f"q({', '.join(names.split())}) <- {body}."
    for name, (names, body) in {**BODIES, **NEGATED}.items()
}


class Leapfrog:
    """Leapfrog Triejoin over lists of rows; `steps` are (kind, atom, depth, start, end, binding)."""

    def __init__(self, plan, relations):
        self.plan, self.steps = plan, []
        self.rows = []
        for trie in plan.tries:
            order = trie.index.order[: len(trie.levels)]
            self.rows.append(
                {tuple(row[c] for c in order) for row in relations[trie.index.predicate]}
            )
        self.enter([])

    def land(self, kind, part, start, low, binding):
        """The first key from `low` on that an iterator has under the binding."""
        t, depth = part
        prefix = tuple(binding[level] for level in self.plan.tries[t].levels[:depth])
        keys = [row[depth] for row in self.rows[t] if row[:depth] == prefix and row[depth] >= low]
        end = min(keys, default=WORD_MAX)
        self.steps.append((kind, self.plan.tries[t].text, depth, start, end, (*binding,)))
        return end if keys else None

    def bounds(self, binding):
        """The least and greatest value of the next level, and those that are left out."""
        low, high, without = WORD_MIN, WORD_MAX, set()
        for bound in (one for one in self.plan.bounds if one.level == len(binding)):
            value = bound.constant + sum(sign * binding[other] for other, sign in bound.others)
            low = max(low, value) if bound.kind in (EQ, GE) else low
            high = min(high, value) if bound.kind in (EQ, LE) else high
            without |= {value} if bound.kind == NE else set()
        return low, high, without

    def enter(self, binding):
        level, tries = len(binding), self.plan.tries
        if level == len(self.plan.variables):
            return
        low, high, without = self.bounds(binding)
        joined = [t for t, one in enumerate(tries) if level in one.levels and not one.negated]
        parts = [(t, tries[t].levels.index(level)) for t in joined]
        absent = [t for t, one in enumerate(tries) if one.negated and one.levels[-1] == level]
        while low in without:
            low += 1
        if low > high:
            return
        at = []
        for part in parts:
            at.append(self.land("open", part, low, low, binding))
            if at[-1] is None:
                return
        x = max(at, default=low)
        while True:
            while x in without:
                x += 1
            if x > high:
                return
            for p, part in enumerate(parts):
                if at[p] < x:
                    at[p] = self.land("seek", part, x, x, binding)
                    if at[p] is None:
                        return
                if at[p] > x:
                    x = at[p]
                    break
            else:
                if not self.found(absent, binding, x):
                    self.enter([*binding, x])
                if x >= high:
                    return
                if not parts:
                    x += 1
                    continue
                at[0] = self.land("next", parts[0], x, x + 1, binding)
                if at[0] is None:
                    return
                x = at[0]

    def found(self, absent, binding, x):
        """Whether a negated atom holds the binding."""
        for t in absent:
            trie, bound = self.plan.tries[t], [*binding, x]
            depth = len(trie.levels) - 1
            self.steps.append(("look up", trie.text, depth, x, x, (*binding,)))
            if tuple(bound[level] for level in trie.levels) in self.rows[t]:
                return True
        return False


COLUMNS = {"r": 2, "s": 2, "u": 1, "t": 3}


def test_operations_are_those_of_a_leapfrog_join_in_order():
    random = Random(3)
    with ivm.open(":memory:") as ws:
        ws.install(
            DECLARED + "".join(rule.replace("q(", f"{name}(") for name, rule in RULES.items())
        )
        for size in (0, 6, 14, 30):
            facts = {
                name: {tuple(random.choices(range(7), k=n)) for _ in range(size)}
                for name, n in COLUMNS.items()
            }
            with ws.transaction() as txn:
                for name, rows in facts.items():
                    txn.delete(name, list(ws[name]))
                    txn.insert(name, sorted(rows))
            for name in RULES:
                with ws.store.snapshot() as snap:
                    (plan,) = ws._plans_of(snap, name)
                found = [
                    (one.kind, one.atom, one.depth, *one.words, (*map(int, one.binding.values()),))
                    for one in ws.trace(name)
                ]
                assert found == Leapfrog(plan, facts).steps, name


def test_the_papers_example_and_what_its_changes_touch():
    paper = example("unary_join")
    with ivm.open(":memory:") as ws:
        ws.install(paper["rules"])
        with ws.transaction() as txn:
            for name in "AB":
                txn.insert(name, [(x,) for x in paper["old"][name]])
        old = ws.store.version
        with ws.transaction() as txn:
            for name in "AB":
                for action, x in paper["changes"][name]:
                    (txn.insert if action == "INSERT" else txn.delete)(name, [(x,)])
        new = ws.store.version
        before, after = ws.trace("C", old, new), ws.trace("C", new)
        for name in "AB":
            of = [one for one in before if one.atom == f"{name}(x)"]
            assert [[*one.words] for one in of] == paper["sensitivity"][name]
            assert [[*one.words] for one in of if one.touched] == paper["contributions"][name]
        places = [{one.place for one in steps} for steps in (before, after)]
        assert len(places[0] ^ places[1]) == ws.trace_distance("C", old, new) == 7
        assert not any(one.touched for one in after)


def test_values_are_written_as_rules_write_them():
    with ivm.open(":memory:") as ws:
        ws.install(
            'e(x, s) -> int(x), string(s). d(s) -> string(s). q(x, s) <- e(x, s), d(s). +e(1, "a"). +d("a").'
        )
        lines = [str(one) for one in ws.trace("q")]
        assert any('["a", "a"]' in line or '[-inf, "a"]' in line for line in lines), lines
        assert all(one.kind in ("open", "seek", "next") for one in ws.trace("q"))
        with pytest.raises(ivm.IvmError, match="no view 'nothing'"):
            ws.trace("nothing")
