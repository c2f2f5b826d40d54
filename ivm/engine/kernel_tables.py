"""The steps of a schedule as a kernel takes them (kernels/run.py): tables, and which fit."""

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ivm.engine.kernel_terms import Terms, UnfitError
from ivm.engine.kernels import plans
from ivm.engine.kernels import run as kernel
from ivm.engine.kernels.plans import ScheduleTable
from ivm.engine.kernels.terms import LEAST
from ivm.lang.aggregate import BY_RANK, LOWER, SQUARED, UPPER
from ivm.lang.ir import Const
from ivm.lang.types import DIGITS_MAX, scale, word_range
from ivm.plan.plan import Index, permuted
from ivm.plan.rewrite.ranges import ADDED, FOLD, SEEK_FIRST, SEEK_LAST, Span
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from ivm.rules.steps import Flush, FollowPlan, FollowRule, FollowStratum, Step
from ivm.terms.encoder import Encode
from ivm.views.exact_sum import OF_PARTS, sum_room, unit
from ivm.views.heads import PLACE, Queued
from ivm.views.kernels import exact_sums
from ivm.views.layouts import ALONE, FALLING, INVERTED, MORE, PARTS, PLAIN, SUM, SUPPORT, Fold
from ivm.ways.kernels import ranges, states
from ivm.ways.kernels.probe import PINNED
from ivm.ways.match import is_alone, is_matched, matching_of
from ivm.ways.probe import probed, probes_of
from ivm.ways.ranges import scan_of
from ivm.ways.reach import Reach, Tested, tested
from ivm.ways.recursion.compiled import Strata, compiled
from ivm.ways.states import is_scanned
from pagestore.compiled import CURSOR_WORDS, TypedKernel, fold_intervals_at, work_words
from pagestore.host import (
    CARRY,
    CHECKSUM,
    COUNT,
    KEYS_MAX,
    MAX,
    MIN,
    WORD_MAX,
    WORD_MIN,
    Spec,
    is_operator,
    operator_code,
    rows_of,
)
from pagestore.host import SUM as SUM_FOLD

WORK_WORDS = TypedKernel(work_words, int, int)
HOW = {
    PLAIN: plans.ROWS,
    SUPPORT: plans.COUNTED,
    SUM: plans.SUMMED,
    FALLING: plans.FALLING,
    PARTS: plans.PARTED,
}
RANK_CODES = {
    "share": states.PLACED, "middle": states.MIDDLE, "between": states.BETWEEN,
    "first": states.NUMBERED,
}  # fmt: skip
BY = {SEEK_FIRST: ranges.SOUGHT, SEEK_LAST: ranges.SOUGHT, FOLD: ranges.FOLDED, ADDED: ranges.ADDED}
NUMBERED_MAX = 64  # rows of a group that a kernel computes anew
SHARE_MAX = 1 << 52  # of the sides of a share of a group


# -- what fits


def is_plain(installed: Installed, changed: Container[str], step: Step) -> bool:
    """Return whether the kernel can run this step, of changes of some predicates: it probes each
    value of a row, and makes no moves.
    """
    if isinstance(step, Flush):
        fold = installed.layouts[step.name].fold
        return fold is None or computed_from(fold) is not None
    if isinstance(step, FollowStratum):
        return compiled(installed, step.stratum).plain
    if isinstance(step, FollowRule):
        return step.rule.span is not None and _follows_range(step.rule.span)
    plan = step.plan
    if any(plan.tries[move.trie].index.predicate in changed for move in plan.moves):
        return False
    if not installed.heads[plan].queued or not (plan.probes or is_alone(plan) or is_matched(plan)):
        return False
    try:
        terms_of(installed, step)
    except UnfitError:
        return False
    return True


def terms_of(installed: Installed, step: FollowPlan) -> Terms:
    """Return what a plan computes.  Raises UnfitError."""
    return Terms(step.plan, installed.heads[step.plan], step.rule.definition.types, tests_of(step))


def tests_of(step: FollowPlan) -> Tested:
    """Return the conditions of a step's plan."""
    return tested(step.plan, step.rule.definition.types)


def computed_from(fold: Fold) -> tuple[int, int, tuple[tuple[int, int], ...]] | None:
    """Return what a kernel computes from a group of a state, of which column, and by which fold of
    it; None if Python does.
    """
    state, op = fold.state, fold.op
    keys = state.spec.keys
    if state.kind == ALONE:
        return states.FIRST, 1, ()
    if state.kind == PARTS:
        fits = op in OF_PARTS and not (state.squared and fold.type == "float64")
        return (states.PARTS + OF_PARTS[op], 0, ()) if fits else None
    if state.kind == INVERTED or fold.is_text_ordered:
        return None
    if is_scanned(fold):
        scan = state.scan_of(MIN if op in LOWER else MAX)
        return states.FOLDED, len(scan) - 1, scan
    if op in BY_RANK:
        code, scans = RANK_CODES.get(BY_RANK[op]), ((SUM_FOLD, keys), (CARRY, keys))
        return (code, 0, scans) if code is not None and _is_small(fold) else None
    if op == "count_distinct":
        return states.FOLDED, 0, ((COUNT, 0),)
    if op == "concat" or is_operator(op):
        return (
            states.FOLDED,
            0,
            ((CHECKSUM, keys + 1) if op == "concat" else (operator_code(op), keys - 1),),
        )
    return states.LAST if op in UPPER and not state.falling else states.FIRST, keys - 1, ()


def _follows_range(span: Span) -> bool:
    """Return whether a kernel follows ranges."""
    added = span.op in OF_PARTS and (span.type != "float64" or span.op not in SQUARED)
    return added if span.kind == ADDED else span.kind in BY


def _is_small(fold: Fold) -> bool:
    """Return whether a kernel can count with the constant of an aggregate by rank."""
    if fold.numbered:
        return fold.rows_max <= NUMBERED_MAX
    share = _share(fold)
    return 0 <= share <= 1 and share.denominator < SHARE_MAX


def _share(fold: Fold) -> Fraction:
    has_share = BY_RANK.get(fold.op) in ("share", "between")
    return Fraction(str(fold.constants[0])) if has_share else Fraction(0)


def parts_of_step(installed: Installed, step: Step) -> int:
    """Return how many steps of the kernel a plain step is."""
    if not isinstance(step, Flush):
        return 1
    fold, cut = installed.layouts[step.name].fold, step.name in installed.cut
    return (3 + cut if fold else 1) + is_checked(installed, step.name)


def is_checked(installed: Installed, name: str) -> bool:
    """Return whether a kernel checks that the keys of a function have one value."""
    return installed.stored[name].checked


def is_limited(installed: Installed, name: str) -> bool:
    """Return whether Python checks the rows of a predicate: its sums have a range."""
    stored, predicate = installed.stored[name], installed.program.predicates[name]
    limited = predicate.value is not None and word_range(predicate.value) != (WORD_MIN, WORD_MAX)
    return stored.layout.kind == SUM and limited


def _depth(installed: Installed, index: Index, depth: int) -> int:
    """Return how many words of a key a branch is; 0 for a whole key."""
    keys = len(index.order) if permuted(index) else installed.layouts[index.predicate].keys
    return 0 if depth >= keys else depth


# -- tables


class Numbering(NamedTuple):
    """Numbers of what a schedule's queues have: of the group of each predicate and state, of its
    first tree, and of the trees of indices, of which the `deferred` ones are not built.
    """

    groups: Mapping[str, int]
    firsts: Mapping[str, int]
    trees: Mapping[Index, int]
    deferred: Container[Index]

    def tree_of(self, index: Index) -> int:
        """Return the number of an index's tree; its relation's, if it is deferred and unread."""
        return self.firsts[index.predicate] if index in self.deferred else self.trees[index]


class Tables:
    """Plain steps as engine/kernels/run.py takes them, added one after the other."""

    def __init__(self, numbering: Numbering, installed: Installed, strata: Strata) -> None:
        self._of, self._installed, self._strata = numbering, installed, strata
        self._static: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._tables: dict[str, list[Any]] = {name: [] for name in ScheduleTable._fields[1:-1]}
        self._conditions: list[Tested] = []
        self._texts: list[tuple[int, Const]] = []
        self._scans: list[tuple[int, str, tuple[tuple[int, int], ...]]] = []
        self.width = 1  # how many columns a binding has at most

    def add(self, step: Step) -> None:
        """Add the rows of all tables that describe a step of the schedule."""
        if isinstance(step, Flush):
            self._add_flush(step.name)
        elif isinstance(step, FollowStratum):
            self._step(kernel.RECUR, self._strata.add(step.stratum))
        elif isinstance(step, FollowRule):
            self._add_range(step.rule)
        else:
            self._add_plan(step)

    def laid(self) -> "Laid":
        """Return all tables as the kernel takes them: an array each, with what fills in texts."""
        reach = Reach(self._conditions)
        words = {name: np.array(self._tables[name], np.int64) for name in ("indices", "copies")}
        tables: dict[str, Any] = {name: _table(rows) for name, rows in self._tables.items()} | words
        tables |= {"conditions": reach.conditions, "strata": self._strata.arrays}
        whole = ScheduleTable(static=np.concatenate(self._static), **tables)
        return Laid(whole, reach, self._texts, self._scans, self.width)

    def _step(self, kind: int, of: int) -> None:
        self._tables["steps"].append((kind, of))

    def _add_flush(self, name: str) -> None:
        """Add the flush of a predicate, after that of the state it follows; then check its keys."""
        groups, tables = self._of.groups, self._tables
        if fold := self._installed.layouts[name].fold:
            if name in self._installed.cut:
                self._step(kernel.CUT, len(tables["folds"]))
            self._step(kernel.FLUSH, groups[fold.state.name])
            self._step(kernel.FOLD, len(tables["folds"]))
            tables["folds"].append(self._fold_row(name, fold))
        self._step(kernel.FLUSH, groups[name])
        if is_checked(self._installed, name):
            self._step(kernel.CHECK, len(tables["functions"]))
            tables["functions"].append(
                (self._of.firsts[name], len(self._installed.program.predicates[name].keys))
            )

    def _fold_row(self, name: str, fold: Fold) -> tuple[int, ...]:
        """Return the row of `folds` (kernels/states.py) of a view that follows from a state."""
        found, copies, (groups, firsts, *_) = computed_from(fold), self._tables["copies"], self._of
        assert found, "only these are plain"
        kind, column, scan = found
        rows, state = rows_of(fold.state.spec, scan) if scan else (0, 0), fold.state
        share, digits = _share(fold), scale(fold.type)
        assert rows, "states have the folds that their operations need"
        bare = self._installed.layouts[name].bare
        keyed = () if bare or not fold.grouped else fold.order or range(fold.group)
        begin = len(copies)
        copies += keyed
        return (
            firsts[state.name], firsts[name], groups[state.name], groups[name], fold.group,
            begin, len(copies), bare, fold.absent is not None, fold.absent or 0, kind, column,
            *rows, state.falling, share.numerator, share.denominator,
            fold.rows_max if fold.numbered else 0,
            *(unit(digits) if digits is not None else (0, 0)), fold.type == "float64",
            fold.op in UPPER, MORE if name in self._installed.cut else 0,
        )  # fmt: skip

    def _add_plan(self, step: FollowPlan) -> None:
        """Add a plan that is probed or matched, or scans a relation."""
        plan, tables, alone = step.plan, self._tables, is_alone(step.plan)
        tree_of = self._of.tree_of
        lists = [
            tables[name] for name in ("probes", "indices", "sources", "heads", "terms", "sensed")
        ]
        starts = [*map(len, lists)]
        words = sum(map(len, self._static))
        kind = kernel.SCAN if alone else kernel.MATCH if is_matched(plan) else kernel.FOLLOW
        self._step(kind, len(tables["plans"]))
        if alone:
            (trie,) = plan.tries
            begun = [(trie.index, len(trie.levels))]
        elif kind == kernel.MATCH:
            matching = matching_of(plan, step.rule.granularity)
            begun = matching.branches
            self._static.append(matching.words)
            tables["indices"] += map(tree_of, matching.indices)
            names = step.rule.sensitivity_names(step.number)
            tables["sensed"] += [(self._of.groups[name], self._of.firsts[name]) for name in names]
        else:
            laid, begun = probes_of(plan), probed(plan)
            table = laid.rows.copy()
            table[:, :PINNED] += words
            self._static.append(laid.static)
            tables["probes"] += table.tolist()
            tables["indices"] += map(tree_of, laid.indices)
        tables["sources"] += [
            (tree_of(index), _depth(self._installed, index, depth)) for index, depth in begun
        ]
        terms = terms_of(self._installed, step)
        self._texts += [(len(tables["terms"]) + row, text) for row, text in terms.texts]
        tables["terms"] += terms.rows
        for head in self._installed.heads[plan].queued:
            self._add_head(head, terms)
        spans = [*zip(starts, map(len, lists), strict=True)]
        if kind == kernel.MATCH:
            spans[0] = words, words + len(matching.words)
        tables["plans"].append((*chain(*spans), terms.read, len(self._conditions)))
        self._conditions.append(tests_of(step))
        self.width = max(self.width, terms.width)

    def _add_head(self, one: Queued, terms: Terms) -> None:
        """Add how bindings edit a tree."""
        copies = self._tables["copies"]
        columns = {**terms.columns, "": plans.NOTHING, PLACE: plans.PLACE}
        begin = len(copies)
        copies += [columns[name] for name in one.names]
        cut = (
            one.floats * exact_sums.FLOATS
            | one.squared * exact_sums.SQUARED
            | one.counted * exact_sums.IS_COUNTED
        )
        self._tables["heads"].append(
            (self._of.groups[one.tree], HOW[one.how], begin, len(copies), cut)
        )

    def _add_range(self, rule: InstalledRule) -> None:
        """Add a view of ranges."""
        span, copies, tree_of = rule.span, self._tables["copies"], self._of.tree_of
        assert span, "only these are plain"
        self._step(kernel.RANGED, len(self._tables["ranges"]))
        (name,) = rule.writes
        ends = (word for end in (span.low, span.high) for word in (end or 0, end is None))
        measured, digits = self._of.groups[span.measured.predicate], scale(span.type)
        by = BY[span.kind]
        if by != ranges.SOUGHT:
            self._scans.append(
                (len(self._tables["ranges"]), span.measured.predicate, scan_of(span))
            )
        result = word_range("int64" if digits is None else f"decimal({DIGITS_MAX},{digits})")
        self._tables["ranges"].append((
            tree_of(span.points), tree_of(span.measured), self._of.groups[name], span.group,
            *ends, span.whole, span.width, span.kind == SEEK_LAST, span.result, len(copies),
            len(copies) + len(span.keys), by, measured, 0, 0, OF_PARTS.get(span.op, 0),
            span.type == "float64", *unit(digits or 0), *result, span.ties and len(span.lead),
        ))  # fmt: skip
        copies += span.keys


class Laid(NamedTuple):
    """The tables of a schedule, in which constants are filled in for each transaction: those of
    conditions, and texts among the terms; for each catalog, the folds of ranges; and how many
    columns a binding has at most.
    """

    tables: ScheduleTable
    reach: Reach
    texts: list[tuple[int, Const]]
    scans: list[tuple[int, str, tuple[tuple[int, int], ...]]]
    width: int

    def find_scans(self, specs: Mapping[str, Spec]) -> None:
        """Fill in which of the folds of their trees ranges need, given their specs by name."""
        for row, name, scan in self.scans:
            rows = rows_of(specs[name], scan)
            assert rows, "the tree that a range is folded in has lost its scan"
            self.tables.ranges[row, ranges.FIRST_FOLD : ranges.END_FOLD + 1] = rows

    def encode_texts(self, encode: Encode) -> None:
        """Fill in the words of texts among the terms."""
        for row, text in self.texts:
            self.tables.terms[row, LEAST] = encode(text)


def states_room(most: int) -> states.StateRoom:
    """Allocate the working memory with which views follow from states and ranges; a tree has at
    most so many folds.
    """
    words = partial(np.empty, dtype=np.int64)
    folds = ranges.FoldRoom(
        words((KEYS_MAX, 2)),
        words((most, 1)),
        words(1),
        words(WORK_WORDS.call(most, 1)),
        fold_intervals_at.address(),
    )
    return states.StateRoom(
        words(KEYS_MAX),
        words(KEYS_MAX),
        words(CURSOR_WORDS),
        words(1),
        words((KEYS_MAX, 1)),
        folds,
        sum_room(),
    )


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows as an array of two dimensions, also if there are none."""
    return np.array(rows, np.int64) if rows else np.zeros((0, 1), np.int64)
