"""Any body by the Leapfrog Triejoin, over flat or paged tries; what the join lists becomes edits of
heads.

    bindings of  deg[x] = n <- agg<<n = count()>> edge(x, y).       (1, 2) (1, 3) (4, 1)
    head edits   ADD 1 under the key x, for each binding            1: +1   1: +1   4: +1

Many bindings may make few rows: `fold_bindings` sums each part before it reads the next.

t(x, y), !s(x, y) where s is a subset of t: a join over the rows that s lacks (*Efficient iteration
of complements*).

    r(x, y, z) <- t(x, y), !s(x, y), u(y, z).      t has 1,000,000 rows, s all of these but (3, 7) and (5, 1)

Comparing counts of ranges finds the missing rows in O(missing log n). They become a change oracle
with single values at the levels of x and y, so the join over all tries runs only where bindings can
exist.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from ivm.join.evaluate import Evaluation, evaluate
from ivm.join.join import Bindings, Join, by_sensor
from ivm.join.kernels.tries import EQ
from ivm.join.plan_arrays import change_oracle
from ivm.lang.ir import Atom, Disjunct, Rule, Var
from ivm.memory import Budget, Sink
from ivm.plan import costs
from ivm.plan.plan import Columns, Index, Plan, indices_of, permuted
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from ivm.terms.encoder import Encoder
from ivm.views.delta import Delta, index_spec
from ivm.views.edit_composition import add_up
from ivm.views.heads import Head
from ivm.ways.pending import PendingRows, Recording, adds_up, head_spec
from ivm.ways.way import Context
from pagestore.host import (
    COUNT,
    INSERT,
    Complement,
    Edits,
    Pages,
    Tree,
    accountable,
    accounted,
    bulk,
    bulk_all,
    pays,
    rows_of,
)

PARTS_KEPT = 16  # parts of bindings, of some MiB each; up to this number, none is summed on its own


class Pair(NamedTuple):
    """The numbers of the tries t and !s of a plan, over the same variables in the same columns."""

    whole: int
    part: int


class Choice(NamedTuple):
    """Whether a plan is joined over the rows of t that s lacks, and why."""

    taken: bool
    reason: str


def evaluate_in_full(
    pages: Pages,
    plan: Plan,
    trees: Sequence[Tree],
    rules: Sequence[Rule],
    threads: int = 1,
    listed: frozenset[int] | None = None,
    budget: Budget | None = None,
    sink: Sink[Bindings] | None = None,
) -> Evaluation:
    """Return all bindings of a plan, without recording sensitivity; join only rows that a subset
    lacks if cheaper.

    `rules` are all installed rules; `listed`, `budget` and `sink` are those of join/evaluate.py.
    With a pair O(missing log n) instead of O(t).  Raises CorruptionError, RangeError, RoomError,
    and Stopped by a budget.
    """
    for pair in pairs(plan):
        if choice(plan, trees, rules, pair).taken:
            evaluation = _among_missing(pages, plan, trees, rules, pair)
            if evaluation:
                return evaluation
    return evaluate(
        pages, plan.shape, trees, threads=threads, listed=listed, budget=budget, sink=sink
    )


def pairs(plan: Plan) -> list[Pair]:
    """Return the pairs whose variables begin the plan's key order, so that missing rows are
    regions of the oracle.
    """
    return [
        Pair(w, p)
        for p, part in enumerate(plan.tries)
        for w, whole in enumerate(plan.tries)
        if part.negated and not whole.negated and part.levels[0] == 0
        if (part.levels, part.index.order) == (whole.levels, whole.index.order)
    ]


def choice(plan: Plan, trees: Sequence[Tree], rules: Sequence[Rule], pair: Pair) -> Choice:
    """Decide whether to compute the complement of a pair, and why.  O(rules)."""
    whole, part = trees[pair.whole], trees[pair.part]
    t, s = (plan.tries[i].index.predicate for i in pair)
    keys = len(plan.tries[pair.part].levels)
    if not whole.spec.keys == part.spec.keys == keys or any(
        b.level == 0 and b.kind == EQ for b in plan.bounds
    ):
        return Choice(False, "looked up: it is about parts of keys")
    if not all(rows_of(tree.spec, ((COUNT, 0),)) for tree in (whole, part)):
        return Choice(False, f'looked up: {t} and {s} do not both carry a "count" scan')
    if not (is_subset(rules, s, t, keys) or accountable(whole, part)):
        return Choice(
            False,
            f'looked up: the rules do not say that {s} is a subset of {t}, and no "checksum" scans '
            f"do",
        )
    missing = (
        f"{max(0, whole.count - part.count):,} of {whole.count:,} rows of {t} are missing in {s}"
    )
    first = min(
        trees[i].count
        for i, trie in enumerate(plan.tries)
        if trie.levels[0] == 0 and not trie.negated
    )
    if not pays(whole.count, part.count, costs.LOOK_UP * first):
        return Choice(False, f"{missing}: passing over all of them costs less than counting")
    return Choice(True, f"{missing}: these are found by counting, and the rest is not looked at")


def _among_missing(
    pages: Pages, plan: Plan, trees: Sequence[Tree], rules: Sequence[Rule], pair: Pair
) -> Evaluation | None:
    """Return all bindings of a plan, found by a pair's missing rows; None if s turns out to be
    no subset of t.
    """
    whole, part = trees[pair.whole], trees[pair.part]
    levels = plan.tries[pair.part].levels
    complement = Complement(pages, whole, pages, part)
    none = [np.empty((whole.spec.columns, 0), np.int64)]
    rows = np.concatenate(none + list(complement), axis=1)[: len(levels)]
    t, s = (plan.tries[i].index.predicate for i in pair)
    known = is_subset(rules, s, t, len(levels)) and rows.shape[1] == complement.missing
    if not known and not accounted(pages, whole, pages, part, rows):
        return None
    if not rows.shape[1]:
        return Evaluation(
            [Bindings(np.empty((len(plan.columns), 0), np.int64))], [], complement.probes
        )
    lead = sum(depth == level for depth, level in enumerate(levels))
    oracle = change_oracle(
        plan.shape.levels, [(lead - 1, np.concatenate([rows[:lead], rows[lead - 1 : lead]]))]
    )
    join = Join(pages, plan.shape, trees, regions=oracle)
    return Evaluation([Bindings(join.bindings())], [], join.operations + complement.probes)


def is_subset(rules: Iterable[Rule], part: str, whole: str, keys: int) -> bool:
    """Return whether the rules imply that `part`, by its first `keys` columns, is a subset of
    `whole`.

    They do if each conjunction of s has t with the head's arguments, s(x, y) <- t(x, y), ..., or if
    a conjunction of t is s alone, t(x, y) <- s(x, y) ; ..., or through intermediate views.  O(views
    * rules).
    """
    clauses: dict[str, list[tuple[Atom, Disjunct]]] = {}
    for rule in rules:
        for head in rule.heads:
            clauses.setdefault(head.predicate, []).extend((head, body) for body in rule.body)
    known, before = {whole}, set[str]()
    while known != before:
        before = set(known)
        for name, bodies in clauses.items():
            if all(
                any(_same(head, x, keys) and x.predicate in before for x in _atoms(b))
                for head, b in bodies
            ):
                known.add(name)
            if name in before:
                known |= {
                    x.predicate for head, b in bodies for x in _copied(b) if _same(head, x, keys)
                }
    return part in known


def _atoms(body: Disjunct) -> list[Atom]:
    return [literal for literal in body if isinstance(literal, Atom)]


def _same(head: Atom, atom: Atom, keys: int) -> bool:
    return head.terms[:keys] == atom.terms[:keys]


def _copied(body: Disjunct) -> list[Atom]:
    """Return [atom] if the conjunction is one atom of which it copies all rows; else []."""
    atoms = _atoms(body)
    terms = [term for atom in atoms for term in atom.terms]
    if len(body) == len(atoms) == 1 and len({t for t in terms if isinstance(t, Var)}) == len(terms):
        return atoms
    return []


def fill(
    context: Context,
    rule: InstalledRule,
    number: int,
    waiting: PendingRows,
    budget: Budget | None = None,
) -> None:
    """Add the edits of the bindings that a join finds, some of them before it has found all.

    Build the indices that it and its maintenance need. Raises Stopped, before the first edit, by a
    budget.
    """
    plan, lock = rule.plans[number], Lock()
    context.build_indices(indices_of(plan))
    head = context.installed.heads[plan]
    trees = {trie.index: context.tree(trie.index) for trie in plan.tries}

    def take(parts: list[Bindings]) -> None:
        with lock:
            for view, edits in fold_bindings(
                context.installed, head, parts, INSERT, context.encode
            ):
                waiting.add(view, edits)

    sink = Sink(waiting.exceed, take, context.threads)
    evaluation = record(context, rule, number, trees, head.listed, budget, sink)
    context.note_operations(rule, evaluation.operations)
    context.note_steps(
        rule, number, [] if isinstance(plan.way, Columns) else evaluation.met.tolist()
    )
    take(evaluation.parts)


def record(
    context: Context,
    rule: InstalledRule,
    number: int,
    trees: Mapping[Index, Tree],
    listed: frozenset[int] | None = None,
    budget: Budget | None = None,
    sink: Sink[Bindings] | None = None,
) -> Evaluation:
    """Evaluate a plan in full and replace its sensitivity indices; the last three are those of
    join/evaluate.py.
    """
    plan, txn = rule.plans[number], context.txn
    if not plan.sensors or not context.recording:
        return bindings_of(context, plan, trees, listed, budget, sink)
    recording = Recording()
    evaluation = evaluate(
        txn.pages,
        plan.shape,
        [trees[t.index] for t in plan.tries],
        sensors=plan.sensor_arrays,
        granularity=rule.granularity,
        threads=context.threads,
        listed=listed,
        budget=budget,
        sink=sink,
        trace_sink=Sink(
            recording.exceeds, lambda batches: recording.take(by_sensor(batches)), context.threads
        ),
    )
    names = rule.sensitivity_names(number)
    for name, spec in zip(names, map(index_spec, plan.sensors), strict=True):
        if name not in txn:
            txn.create_words(name, spec.keys, 0, spec.scans)
    specs = [txn.tree(name).spec for name in names]
    if recording.is_spilled:
        recording.take(evaluation.recorded)
        indices = [
            bulk(txn.pager, spec, recording.rows(sensor)) for sensor, spec in enumerate(specs)
        ]
    else:
        indices = bulk_all(txn.pager, list(zip(specs, evaluation.recorded, strict=True)))
    for name, tree in zip(names, indices, strict=True):
        txn.replace(name, tree)
    rows = sum(tree.count for tree in indices)
    context.built[names[0]] = rows, sum(tree.count for tree in trees.values())
    return evaluation._replace(recorded=[])


def bindings_of(
    context: Context,
    plan: Plan,
    trees: Mapping[Index, Tree],
    listed: frozenset[int] | None = None,
    budget: Budget | None = None,
    sink: Sink[Bindings] | None = None,
) -> Evaluation:
    """Return all bindings of a plan over some trees, as `evaluate_in_full` does."""
    rules, ordered = context.installed.program.rules, [trees[t.index] for t in plan.tries]
    return evaluate_in_full(
        context.txn.pages, plan, ordered, rules, context.threads, listed, budget, sink
    )


def counts_what_lacks(context: Context, plan: Plan) -> bool:
    """Return whether counting finds the rows that a subset lacks: the rest is not read."""
    candidates = pairs(plan)
    if not candidates or any(permuted(trie.index) for trie in plan.tries):
        return False
    rules = context.installed.program.rules
    trees = [context.tree(trie.index) for trie in plan.tries]
    return any(choice(plan, trees, rules, pair).taken for pair in candidates)


def fold_bindings(
    installed: Installed, head: Head, parts: list[Bindings], action: int, encode: Encoder
) -> Iterator[tuple[str, Edits]]:
    """Yield the head edits, by view, of bindings that are all inserted or all erased; empty `parts`
    on the way.

    If there are many parts, each is summed on its own, as long as that leaves at most half of the
    rows. Raises RangeError.
    """
    many = len(parts) > PARTS_KEPT
    spared = {
        name: 0 if many and adds_up(layout) else -1 for name, layout in installed.layouts.items()
    }
    parts.reverse()
    while parts:
        part = parts.pop()
        for name, (actions, rows) in head.edits(as_delta(part, action), encode, part.times).items():
            if spared[name] >= 0:
                spared[name] += len(actions)
                actions, rows = add_up(actions, rows, head_spec(installed.layouts[name], len(rows)))
                spared[name] -= 2 * len(actions)
            yield name, (actions, rows)


def as_delta(part: Bindings, action: int) -> Delta:
    """Return bindings as a delta with one action for all."""
    return Delta(np.broadcast_to(action, part.rows.shape[1]), part.rows)
