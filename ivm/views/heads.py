"""Head predicates: compute the edits of a view from changed bindings (*Maintaining head
predicates*).

    kind       stored as        the edit for a binding
    plain      (s...)           INSERT / ERASE                          projection-free, one rule
    support    (s...; eta)      ADD (+1 / -1), erased at 0              projection, or several rules
    count      (s...; d)        ADD (+1 / -1), d is the support         agg<<d = count()>>
    sum        (s...; t, eta)   ADD (+t, +1 / -t, -1)                   agg<<t = sum(v)>>, an Abelian group
               (place, s...; t, eta)   the same of each part of v       for sums over ranges, see plan/rewrite/ranges.py
    fold       (s...; m)        ADD (+1 / -1) to (s..., v) in a state   agg<<m = min(v)>>, see states.py
               (s...; t)        ADD of the parts of v to a state        agg<<t = total(v)>>, see exact_sum.py
    ranked     (s...; rank)     see `derive` and engine/recursion       recursive views

A function F[s] = t that is not an aggregate has t among its key columns, so a delta can hold both
the old and the new value; ERASE comes first. Two values for one key in the final state are a
conflict.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import NamedTuple

import numpy as np

from ivm.lang.aggregate import PARTED
from ivm.lang.ir import Aggregate, Atom, Compare, Rule, Term, Var, variables
from ivm.plan.plan import Plan
from ivm.terms.conditions import Choice, Filter, compared
from ivm.terms.encoder import Encoder
from ivm.terms.evaluator import Batch, Codes, Evaluator, binaries, either, place, refusal, risk
from ivm.views.delta import Delta
from ivm.views.exact_sum import Parts, parts_of
from ivm.views.layouts import (
    ALONE,
    COUNT,
    FALLING,
    PARTS,
    PLAIN,
    SUM,
    SUPPORT,
    VALUES,
    Fold,
    Layout,
    State,
    group_of,
    value_of,
)
from pagestore.host import ADD, INSERT, WORD_MIN, Edits, one_batch

Node = Term | Filter
Steps = Sequence[tuple[str, Node]]  # filters ("", comparison) and computed variables (name, term)


PLACE = "$place"  # in names: the place of a part
# edits: their actions, or None if each adds, and their columns
Columns = tuple[np.ndarray | None, list[np.ndarray]]


class Queued(NamedTuple):
    """How a binding edits a tree (PLAIN, SUPPORT, SUM, FALLING, PARTS), by the variables in its
    columns, "" for zero.

    `shared` says that it is a state's. A number that is cut into PARTS may be a float, its square
    may be cut, too, and it may be counted.
    """

    tree: str
    how: str
    names: tuple[str, ...]
    shared: bool = False
    floats: bool = False
    squared: bool = False
    counted: bool = False


class Head:
    """Converts changes of one plan's bindings to edits of the rule's heads."""

    def __init__(self, rule: Rule, plan: Plan, layouts: Mapping[str, Layout]) -> None:
        self._rule, self._plan, self._layouts = rule, plan, layouts
        self._copies = [self._copied(head) for head in rule.heads]

    @cached_property
    def listed(self) -> frozenset[int] | None:
        """The levels whose values a full evaluation must enumerate; others are only counted.
        None means all.
        """
        plan, rule = self._plan, self._rule
        kinds = {self._layouts[head.predicate].kind for head in rule.heads}
        if not kinds <= {SUPPORT, COUNT} or plan.filters or plan.computed:
            return None
        terms = [
            term for head in rule.heads for term in (head.args if rule.aggregates else head.terms)
        ]
        names = {v.name for v in variables(*terms)}
        return frozenset(level for level, name in enumerate(plan.variables) if name in names)

    @cached_property
    def copies_all(self) -> bool:
        """Whether the rows of the only head are the bindings themselves, in order and each once."""
        plain = self._layouts[self._rule.heads[0].predicate].kind == PLAIN
        return plain and not self._steps and self._copies == [list(range(len(self._plan.columns)))]

    @cached_property
    def copies(self) -> list[int]:
        """The columns of a binding that the only head copies; empty if it does more, or the rule
        has several heads.
        """
        return self._copies[0] if len(self._copies) == 1 and not self._steps else []

    @cached_property
    def queued(self) -> list[Queued]:
        """For each tree that bindings edit, how; heads that share a state share its edits.  Empty
        if Python edits one.

        What a plan computes, and its filters, come first.
        """
        queues = [self._queued(number) for number in range(len(self._rule.heads))]
        if self._rule.refuses or not all(queues):
            return []
        states = {one.tree: number for number, one in enumerate(queues) if one and one.shared}
        return [
            one
            for number, one in enumerate(queues)
            if one and states.get(one.tree, number) == number
        ]

    def _queued(self, number: int) -> Queued | None:
        """Return how bindings edit a head's tree."""
        rule, head = self._rule, self._rule.heads[number]
        layout = self._layouts[head.predicate]
        if not rule.aggregates:
            return Queued(
                head.predicate, PLAIN if layout.kind == PLAIN else SUPPORT, _names(head.terms)
            )
        aggregate, fold = rule.aggregates[number], layout.fold
        added = [aggregate.argument] if layout.kind == SUM and aggregate.argument else []
        if aggregate.op == PARTED:
            args = zip(head.args, _names(head.args), strict=True)
            names = [PLACE if term == aggregate.place else name for term, name in args]
            squared, counted = (bool(const.value) for const in aggregate.constants)
            return self._cut(
                Queued(head.predicate, PARTS, (*names, *_names(added))), squared, counted
            )
        if fold is None:
            return Queued(head.predicate, SUM if added else SUPPORT, _names([*head.args, *added]))
        state = fold.state
        if state.kind == ALONE:
            return Queued(state.name, SUM if added else SUPPORT, ("", *_names(added)))
        group = group_of(head, aggregate)
        keys = _names(state.levels or group) or ("",)
        if state.kind == VALUES and not (state.falling and state.values > 1):
            how, values = FALLING if state.falling else SUPPORT, _names(value_of(aggregate, group))
            return Queued(state.name, how, (*keys, *values), shared=True)
        if state.kind != PARTS or not aggregate.argument:
            return None
        parts = Queued(state.name, PARTS, (*keys, PLACE, aggregate.argument.name), shared=True)
        return self._cut(parts, state.squared, state.counted)

    def _cut(self, queue: Queued, squared: bool, counted: bool) -> Queued | None:
        """Return how numbers are cut into parts; None for floats that are squared."""
        floats = self._rule.types[queue.names[-1]] == "float64"
        if floats and squared:
            return None
        return queue._replace(floats=floats, squared=squared, counted=counted)

    @property
    def late_steps(self) -> Steps:
        """The filters and computed variables that are left once the `sure` filters are applied."""
        return self._late_steps

    @property
    def steps(self) -> Steps:
        """The filters ("", comparison) and computed variables (name, term), each after those
        that it depends on.
        """
        return self._steps

    def edits(
        self, delta: Delta, encode: Encoder, times: np.ndarray | None = None
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the edits of each head's tree, by predicate: actions int64[n] and words int64[C,
        n].

        Applies the plan's filters and computed variables first.  If only the levels `listed` were
        enumerated, row i represents times[i] bindings.  Raises RangeError.
        """
        if self.copies_all:
            return {self._rule.heads[0].predicate: (delta.actions, delta.rows)}
        batch = Batch(
            len(delta.actions), dict(zip(self._plan.columns, delta.rows, strict=True)), {}
        )
        made = self._edits_of(self._steps, delta.actions, batch, encode, times)
        return {name: one_batch([*map(_stacked, parts)]) for name, parts in made.items()}

    def insertions(
        self,
        batch: Batch,
        encode: Encoder,
        times: np.ndarray | None = None,
        action: int | np.ndarray = INSERT,
    ) -> Iterator[tuple[str, Columns]]:
        """Yield edits as columns that insert or erase bindings which pass the plan's `sure`
        filters, by predicate.

        `action` says which, for all or each of them.  The batch has a column for each of `needed`.
        Columns that copy a variable are those of the batch.  Raises RangeError.
        """
        made = self._edits_of(
            self._late_steps, np.broadcast_to(action, batch.n), batch, encode, times
        )
        for name, parts in made.items():
            for part in parts:
                yield name, part

    @cached_property
    def needed(self) -> frozenset[str]:
        """The variables of a binding from which its edits follow, apart from those of the plan's
        `sure` filters.
        """
        rule, plan = self._rule, self._plan
        late = [node for _, node in self._late_steps]
        names = variables(
            *rule.heads,
            *rule.aggregates,
            *chain(*map(_parts, late)),
            *([rule.failed] if rule.failed else []),
        )
        return frozenset(v.name for v in names).intersection(plan.columns)

    def _edits_of(
        self,
        steps: Steps,
        actions: np.ndarray,
        batch: Batch,
        encode: Encoder,
        times: np.ndarray | None,
    ) -> dict[str, list[Columns]]:
        if all(self._copies) and not steps:
            copies = zip(self._rule.heads, self._copies, strict=True)
            edits = [[self._copy(head, columns, actions, batch, times)] for head, columns in copies]
        else:
            evaluator = Evaluator(self._rule.types, encode, self._plan.null_words)
            which, batch, codes = self._computed(steps, batch, evaluator)
            if which is not None:
                actions, times = actions[which], times if times is None else times[which]
            if codes is None:
                failed = []
            else:
                failed = [self._failed(_weights(actions, times), batch, codes, evaluator)]
            if codes is not None:
                actions, batch = actions[codes == 0], batch.only(codes == 0)
                times = times if times is None else times[codes == 0]
            if self._rule.refuses and batch.n:
                (code,) = (int(batch.columns[v.name][0]) for v in variables(*self._rule.heads))
                raise refusal(self._rule.refuses[place(code)], code)
            edits = [*self._edits(actions, batch, times), *([part] for part in failed)]
        found: dict[str, list[Columns]] = {}
        if self._rule.failed is None:
            heads = self._rule.heads
        else:
            heads = (*self._rule.heads, self._rule.failed)
        # edits of `failed` exist only if some bindings fail
        for head, parts in zip(heads, edits, strict=False):
            found.setdefault(head.predicate, []).extend(parts)
        return found

    def derive(
        self, rows: np.ndarray, encode: Encoder, strict: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the bindings rows[C, n] pass the filters, int64[m], and the words of the
        head for each.

        The words of an aggregate are its keys, then its argument. A binding whose arithmetic fails
        raises RangeError if `strict`, else it is left out.
        """
        (head,) = self._rule.heads
        if self._copies[0] and not self._steps:
            return np.arange(rows.shape[1]), rows[self._copies[0]]
        evaluator = Evaluator(self._rule.types, encode, self._plan.null_words)
        batch = Batch(rows.shape[1], dict(zip(self._plan.columns, rows, strict=True)), {})
        passing, batch, codes = self._computed(self._steps, batch, evaluator)
        which = np.arange(batch.n) if passing is None else passing
        if codes is not None:
            if strict:
                self._failed(which, batch, codes, evaluator)
            which, batch = which[codes == 0], batch.only(codes == 0)
        terms = (*head.args, self._rule.aggregate.argument) if self._rule.aggregate else head.terms
        return which, np.stack(
            [batch.columns[term.name] for term in terms if isinstance(term, Var)]
        )

    def _copied(self, head: Atom) -> list[int]:
        """Return the columns of a binding that a head copies: all, or some if its rows are
        counted; else empty.
        """
        plan, rule, kind = self._plan, self._rule, self._layouts[head.predicate].kind
        terms = head.args if kind == COUNT else head.terms
        names = [term.name for term in terms if isinstance(term, Var) and term.name in plan.columns]
        if (rule.aggregates and kind != COUNT) or rule.refuses or len(names) < len(terms):
            return []
        return [plan.columns.index(name) for name in names]

    def _copy(
        self,
        head: Atom,
        columns: list[int],
        actions: np.ndarray,
        batch: Batch,
        times: np.ndarray | None,
    ) -> Columns:
        words = [batch.columns[self._plan.columns[column]] for column in columns]
        if self._layouts[head.predicate].kind == PLAIN:
            return _erased_first(actions, words)
        return None, [*words, _weights(actions, times)]

    @cached_property
    def _late_steps(self) -> Steps:
        """The steps that are left once the `sure` filters are applied."""
        sure = {*self._plan.sure}
        return [step for step in self._steps if step[1] not in sure]

    @cached_property
    def _steps(self) -> Steps:
        """The filters ("", comparison) and computed variables (name, term), each after those that
        it depends on.

        Of those that may come next, one that cannot fail comes first, since a filter may exclude
        failures.
        """
        plan, known = self._plan, {*self._plan.columns}
        every: list[tuple[str, Node]] = [*(("", f) for f in plan.filters), *plan.computed]
        lacking = [{v.name for v in variables(*_parts(node))} - known for _, node in every]
        waiting = defaultdict[str, list[int]](list)
        for at, names in enumerate(lacking):
            for name in names:
                waiting[name].append(at)
        risks = [max(map(risk, _parts(node))) for _, node in every]
        # the first of several: a filter
        ready = [(risks[at], at) for at, names in enumerate(lacking) if not names]
        heapify(ready)
        steps = list[tuple[str, Node]]()
        while ready:
            step = every[heappop(ready)[1]]
            steps.append(step)
            for at in waiting.pop(step[0], ()):
                lacking[at].remove(step[0])
                if not lacking[at]:
                    heappush(ready, (risks[at], at))
        return steps

    @staticmethod
    def _computed(
        steps: Steps, batch: Batch, evaluator: Evaluator
    ) -> tuple[np.ndarray | None, Batch, Codes]:
        """Return which bindings pass the filters, int64[m], None for all without filters; their
        columns, and failure codes if a step failed.
        """
        which, codes = None, None
        batch = Batch(batch.n, {**batch.columns}, {})
        for computed, node in steps:
            if not isinstance(node, Compare | Choice):
                batch.columns[computed], failed = evaluator.words(node, batch)
                if failed is not None:
                    batch.failures[computed] = failed
                codes = either(codes, failed)
                continue
            keep, failed = evaluator.passes(node, batch)
            codes = either(codes, failed)
            if failed is not None:
                keep = keep | (failed != 0)
            which, batch = np.flatnonzero(keep) if which is None else which[keep], batch.only(keep)
            codes = None if codes is None else codes[keep]
        return which, batch, codes if codes is not None and codes.any() else None

    def _failed(
        self, weights: np.ndarray, batch: Batch, codes: np.ndarray, evaluator: Evaluator
    ) -> Columns:
        """Return edits of the rule's view of failing bindings. Raises RangeError if it has none."""
        which = np.flatnonzero(codes)
        if self._rule.failed is None:
            terms = {
                (x.where.line, x.where.column): x
                for _, node in self._steps
                for x in binaries(*_parts(node))
            }
            code = int(codes[which[0]])
            raise evaluator.complaint(terms[place(code)], code, batch.only(which[:1]))
        *told, _ = variables(self._rule.failed)
        words = [*(batch.columns[v.name][which] for v in told), codes[which]]
        return None, [*words, weights[which]]

    def _edits(
        self, actions: np.ndarray, batch: Batch, times: np.ndarray | None
    ) -> Iterator[list[Columns]]:
        """Yield the edits of each head; heads that share a state share their edits."""
        made: dict[State, list[Columns]] = {}
        for number, head in enumerate(self._rule.heads):
            fold = self._layouts[head.predicate].fold
            if fold and fold.state.kind != ALONE:
                if fold.state not in made:
                    made[fold.state] = self._state_edits(
                        fold, self._rule.aggregates[number], head, actions, batch, times
                    )
                yield made[fold.state]
            else:
                yield self._edits_of_head(head, number, actions, batch, times)

    def _state_edits(
        self,
        fold: Fold,
        aggregate: Aggregate,
        head: Atom,
        actions: np.ndarray,
        batch: Batch,
        times: np.ndarray | None,
    ) -> list[Columns]:
        """Return the edits of a state of parts or of values."""
        state, weights = fold.state, _weights(actions, times)
        group = group_of(head, aggregate)
        words = [batch.columns[v.name] for v in state.levels or group] or [
            np.broadcast_to(np.int64(0), batch.n)
        ]
        if state.kind == PARTS:
            assert aggregate.argument
            summands = batch.columns[aggregate.argument.name]
            parts = parts_of(summands, fold.type == "float64", state.squared, state.counted)
            return [_edit_of_part(words, len(words), part, weights) for part in parts]
        values = [batch.columns[v.name] for v in value_of(aggregate, group)]
        words += [~value for value in values] if state.falling else values
        return [(None, [*words, weights])]

    def _edits_of_head(
        self, head: Atom, number: int, actions: np.ndarray, batch: Batch, times: np.ndarray | None
    ) -> list[Columns]:
        layout = self._layouts[head.predicate]
        weights = _weights(actions, times)
        if self._rule.aggregates and self._rule.aggregates[number].op == PARTED:
            return self._parts_edits(head, self._rule.aggregates[number], batch, weights)
        terms = head.args if self._rule.aggregates else head.terms
        words = [batch.columns[term.name] for term in terms if isinstance(term, Var)]  # all are
        if not words:
            # the state of a bare aggregate has the key 0
            words = [np.broadcast_to(np.int64(0), batch.n)]
        if layout.kind == PLAIN:
            return [_erased_first(actions, words)]
        if layout.kind == SUM:
            argument = self._rule.aggregates[number].argument
            assert argument
            return [(None, _signed(words, batch.columns[argument.name], weights))]
        return [(None, [*words, weights])]

    def _parts_edits(
        self, head: Atom, aggregate: Aggregate, batch: Batch, weights: np.ndarray
    ) -> list[Columns]:
        """Return the edits of a view that stores parts by place: one or more per binding."""
        assert aggregate.argument
        name = aggregate.argument.name
        squared, counted = (bool(const.value) for const in aggregate.constants)
        terms = [term for term in head.args if isinstance(term, Var)]  # all are
        words = [batch.columns[term.name] for term in terms if term != aggregate.place]
        at = terms.index(aggregate.place) if aggregate.place in terms else len(words)
        parts = parts_of(batch.columns[name], self._rule.types[name] == "float64", squared, counted)
        return [_edit_of_part(words, at, part, weights) for part in parts]


def _edit_of_part(words: list[np.ndarray], at: int, part: Parts, weights: np.ndarray) -> Columns:
    """Return the edits by parts of numbers, whose place comes before column `at` of `words`."""
    places, amounts, which = part
    if which is not None:
        words, weights = [word[which] for word in words], weights[which]
    added = amounts if weights.strides == (0,) else amounts * weights  # broadcast, each is 1
    return None, [*words[:at], places, *words[at:], added, weights]


def _names(terms: Sequence[Term]) -> tuple[str, ...]:
    """Return the names of terms, all of which are variables."""
    return tuple(term.name for term in terms if isinstance(term, Var))


def _erased_first(actions: np.ndarray, words: list[np.ndarray]) -> Columns:
    """Put erasures first: a row may go and come if a value changed that it does not show."""
    if _all_insert(actions):
        return actions, words
    order = np.argsort(actions == INSERT, kind="stable")
    return actions[order], [word[order] for word in words]


def _all_insert(actions: np.ndarray) -> bool:
    """Return whether all actions insert; a single one may be broadcast."""
    return bool(
        (actions[:1] == INSERT).all() if actions.strides == (0,) else (actions == INSERT).all()
    )


def _stacked(made: Columns) -> Edits:
    actions, columns = made
    return np.full(len(columns[0]), ADD) if actions is None else actions, np.stack(columns)


def _parts(node: Node) -> tuple[Term | Compare, ...]:
    """Return the comparisons of a filter, or a term itself."""
    return (*compared([node]),) if isinstance(node, Compare | Choice) else (node,)


def _signed(words: list[np.ndarray], values: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """Return the columns to add to sums and supports; WORD_MIN has no negative, so minus its
    half is added twice.
    """
    if weights.strides == (0,):  # each is 1
        return [*words, values, weights]
    if int(np.abs(weights).max(initial=0)) > 1:
        words, values, weights = _in_parts(words, values, weights)
    table = [*words, values * weights, weights]
    halved = np.flatnonzero((values == WORD_MIN) & (weights < 0))
    if len(halved):
        table = [np.append(column, column[halved]) for column in table]
        table[-1][len(values) :] = 0
        table[-2][np.append(halved, np.arange(len(values), len(table[-1])))] = -(WORD_MIN // 2)
    return table


def _in_parts(
    words: list[np.ndarray], values: np.ndarray, weights: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Repeat what is added so often that its product exceeds 64 bits, till each is below 2^62."""
    times = np.ceil(np.abs(values.astype(np.float64) * weights) / 2.0**61).astype(np.int64).clip(1)
    if not len(times) or times.max() == 1:
        return words, values, weights
    which = np.repeat(np.arange(len(times)), times)
    number = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    share, more = np.divmod(weights, times)
    return [word[which] for word in words], values[which], share[which] + (number < more[which])


def _weights(actions: np.ndarray, times: np.ndarray | None) -> np.ndarray:
    """Return what each binding adds to a support; one 1 for all is broadcast."""
    if _all_insert(actions):
        return np.broadcast_to(np.int64(1), len(actions)) if times is None else times
    weights = np.where(actions == INSERT, 1, -1)
    return weights if times is None else weights * times
