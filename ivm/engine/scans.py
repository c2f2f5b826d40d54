"""Plans of one relation: all are filled in one pass over it, and so are groups of a partial state that have run out.

n[g] = c <- agg<<c = count()>> r(_, g, v).       one pass, one column g, one grouping
t[g] = s <- agg<<s = sum(v)>> r(_, g, v).
m[g] = x <- agg<<x = min(v)>> r(_, g, v).        of each group the least values (ways/ends.py)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from ivm.errors import RoomError
from ivm.join.groups import Known, Lookup, summed
from ivm.lang.ir import Rule
from ivm.memory import within_memory
from ivm.plan.plan import Plan
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from ivm.terms.encoder import Encoder
from ivm.views.heads import Columns
from ivm.views.layouts import MORE
from ivm.ways.ends import Ends, before_marks, renewed, run_out
from ivm.ways.pending import Waiting, adds_up, head_spec
from ivm.ways.scan import Wanted, scan
from pagestore.host import ADD, Edits, Transaction, distinct


@dataclass
class Account:
    """What maintenance of one view did in the newest transaction that touched it.

    Times are seconds; if one kernel call maintained several views, each has its time. `operations` counts iterator
    operations on both versions, `matched` the sensitivity intervals that surgeries hit, `inserted` and `erased` the
    view's rows. Of a recursive view, `rounds` counts its rounds, `examined` the rows whose support was searched for.
    """

    maintain_seconds: float = 0.0
    operations: int = 0
    matched: int = 0
    inserted: int = 0
    erased: int = 0
    rounds: int = 0
    examined: int = 0


@dataclass
class Scanner:
    """Reads relations of one transaction for rules whose bodies are one relation each."""

    txn: Transaction
    installed: Installed
    encode: Encoder
    accounts: defaultdict[str, Account] = field(default_factory=lambda: defaultdict(Account), kw_only=True)

    def scan_for(self, first: Plan, rules: Sequence[InstalledRule], waiting: Waiting) -> set[Plan]:
        """Evaluate all plans of some rules that scan the same relation as a first one, in one pass; return these plans.

        Add their edits to `waiting`, summed block by block. O(rows of the relation).
        """
        name = first.tries[0].index.predicate
        plans = {
            plan: rule
            for rule in rules
            for plan in rule.plans
            if plan.is_scan and plan.tries[0].index.predicate == name
        }
        passed, read = [0] * len(plans), [0] * len(plans)
        views = {view for rule in plans.values() for view in rule.writes} & self.installed.scanned_ends
        ends = {view: Ends() for view in views}
        with naming_the_rule(rules[0].definition):
            for count, known, made in self._blocks_for(plans):
                for place, (rows, edits) in made.items():
                    read[place] += count
                    passed[place] += rows
                    waiting.add(self.summed(edits, known, ends))
            kept = {view: one.taken() for view, one in ends.items()}
            waiting.add((view, _adding(rows)) for view, rows in kept.items())
        cut = frozenset(view for view, rows in kept.items() if (rows[-1] >= MORE).any())
        if self.installed.cut & views != cut:
            self.installed = replace(self.installed, partial=self.installed.partial - views | cut)
        for (plan, rule), rows, count in zip(plans.items(), passed, read, strict=True):
            self.note_operations(rule, count)
            self.note_steps(rule, rule.plans.index(plan), [rows])
        return {*plans}

    def _blocks_for(
        self, plans: Mapping[Plan, InstalledRule]
    ) -> Iterator[tuple[int, Known, dict[int, tuple[int, Iterator[tuple[str, Columns]]]]]]:
        """Yield for each block of a relation: how many rows it has, what is known of their groups, and what plans make.

        That is by the place of each plan: how many bindings passed its filters, and the edits that they make.
        """
        heads = [self.installed.heads[plan] for plan in plans]
        wanted = [
            Wanted(plan, head.needed, rule.definition.types)
            for (plan, rule), head in zip(plans.items(), heads, strict=True)
        ]
        name = wanted[0].plan.tries[0].index.predicate
        tree = self.txn.tree(name)  # before `pages`: opening a tree may remap the file
        for count, batches in scan(self.txn.pages, tree, wanted, self.encode):
            yield count, {}, {p: (b.n, heads[p].insertions(b, self.encode)) for p, b in batches.items()}

    def summed(
        self, made: Iterable[tuple[str, Columns]], known: Known | None = None, ends: dict[str, Ends] | None = None
    ) -> Iterator[tuple[str, Edits]]:
        """Yield edits by view; those of equal keys are added up where that makes them fewer.

        Views may share `known` groups of the same columns. Edits of views in `ends` are kept there while that pays.
        """
        for view, (actions, columns) in made:
            if ends and view in ends and known is not None:
                ends[view].add(columns, known)
                if not ends[view].pays:
                    yield view, _adding(ends.pop(view).taken())  # all of them so far
                continue
            layout = self.installed.layouts[view]
            if adds_up(layout):
                rows = summed(columns, head_spec(layout, len(columns)).keys, known=known)
            else:
                rows = np.stack(columns)
            yield view, _adding(rows) if actions is None else (actions, rows)

    def kept_edits(self, name: str, edits: Edits) -> Edits:
        """Return the edits of a view without those of values that its state leaves out, if that is partial."""
        if name not in self.installed.cut:
            return edits
        fold = self.installed.layouts[name].fold
        assert fold
        return before_marks(self.txn.pages, self.txn.tree(fold.state.name), *edits)

    def renewed_state(self, name: str, change: Edits) -> Edits | None:
        """Return the edits that fill the groups of a view's partial state that a change of it has made run out.

        Return None if no group has run out; else O(rows of the relation).
        """
        fold = self.installed.layouts[name].fold
        if not fold or not len(change[0]) or name not in self.installed.cut:
            return None
        state, group = self.txn.tree(fold.state.name), fold.state.group
        keys = run_out(self.txn.pages, state, distinct(change[1][:group]))
        if not keys.shape[1]:
            return None
        (rule,) = (rule for rule in self.installed.rules if name in rule.writes)
        lookup, ends = Lookup(keys), Ends()
        for _, known, made in self._blocks_for({rule.plans[0]: rule}):
            for _, edits in made.values():
                for _, (_, columns) in edits:
                    which = np.flatnonzero(lookup.find(columns[:group]).times)
                    ends.add([column.take(which) for column in columns], known)
        return renewed(self.txn.pages, state, keys, ends.least())

    def note_steps(self, rule: InstalledRule, number: int, found: Sequence[int]) -> None:
        """Take note of the rows that each step of a rule's plan found when it was evaluated (engine/replan.py)."""

    def note_operations(self, rule: InstalledRule, operations: int) -> None:
        """Count operations that evaluated a rule."""
        for view in rule.writes:
            self.accounts[view].operations += operations


def _adding(rows: np.ndarray) -> Edits:
    return np.broadcast_to(ADD, rows.shape[1]), rows


@contextmanager
def naming_the_rule(rule: Rule) -> Iterator[None]:
    """Prefix a RoomError, also one for refused memory, with the place of the rule that is being evaluated."""
    try:
        with within_memory("evaluating the rule"):
            yield
    except RoomError as error:
        raise RoomError(f"{rule.where}: {error}") from None
