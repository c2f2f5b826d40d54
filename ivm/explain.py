"""Explain in words how a view is evaluated and maintained, and why."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count, zip_longest
from typing import Any

import numpy as np

from ivm.join.kernels.tries import EQ, GE, LE, NE
from ivm.lang.aggregate import BY_RANK
from ivm.lang.functions import USERS, users_functions
from ivm.lang.ir import Predicate, Rule, variables
from ivm.lang.types import scale, shown
from ivm.names import is_helper, is_made, is_part, is_unread, shown_part, view_of_part
from ivm.plan import costs
from ivm.plan.plan import (
    Columns,
    Distinct,
    Index,
    Plan,
    Rounds,
    Scan,
    Upkeep,
    indices_of,
    permuted,
    tree_name,
    type_of,
)
from ivm.plan.rewrite.ranges import ADDED, COMPARED, SEEK_FIRST, SEEK_LAST
from ivm.question import understand
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from ivm.terms.conditions import compared
from ivm.terms.encoder import Encoder, written
from ivm.terms.numbers import is_registered
from ivm.views import layouts
from ivm.ways.columns import ColumnJoin
from ivm.ways.pending import Source
from ivm.ways.recursion.facts import limits_of
from ivm.ways.tries import choice, pairs
from pagestore.errors import MissingError
from pagestore.host import NULL, EphemeralTransaction, Snapshot, Tree, printable, read_batches

TreeOf = Callable[[str], Tree]  # by name

HEADS = {
    layouts.PLAIN: "no projection: bindings are inserted and erased as they are",
    layouts.COUNT: "the count is its own support: +1, -1, erased at 0",
    layouts.FOLD: "follows from a tree of state",
    layouts.SUM: "an Abelian group: summands are added and subtracted, with a support count",
    layouts.RANGED: "a row for each point in whose range there is something",
    layouts.TEXT: "the text of each group of a concat, assembled anew when the group changes",
    layouts.RANKED: "a rank per row: it follows from rows of its stratum that come before it; "
    "erased when it no longer does",
}
STATES = {
    layouts.ALONE: "the result, which is the key of the view's row",
    layouts.PARTS: "an Abelian group: the parts of summands are added and subtracted; "
    "results are rounded once",
    layouts.VALUES: "each group's values in order, with support counts",
    layouts.INVERTED: "one value for each group, from which what goes is taken back by the "
    "operator's inverse",
}
NEEDS = [({*BY_RANK}, "a sum of supports"), ({"concat"}, "a checksum")]
HOW = {
    ADDED: "the {op} of its range, by a scan for each place of the parts of numbers",
    COMPARED: "the {op} of its range, whose texts are compared",
}
WITH = {
    layouts.PLAIN: "",
    layouts.COUNT: "",
    layouts.FOLD: "",
    layouts.RANGED: "",
    layouts.TEXT: "",
    layouts.RANKED: ", each with its rank",
}
UNNAMED = re.compile(r"(?<![\w$])_\d+\b")  # as lang/normalise.py names what is written `_`
# as SQL names columns between rules
MADE, SHORT = re.compile(r"(?<![\w$])_x\d+\b"), re.compile(r"(?<![\w$])x\d+\b")
RANKS = 8  # ranks of a recursive view whose rows are counted one by one
NULLS = {(EQ, NULL): "= null", (GE, NULL + 1): "!= null"}  # null is the least word
SIGNS = {EQ: "=", GE: ">=", LE: "<=", NE: "!="}


def explain(installed: Installed, name: str, stats: dict[str, Any], snap: Snapshot) -> str:
    """Explain a view as of a version: a block of lines for each conjunction of its rules.

    Of a relation, it says that it is one; `stats` are those of Workspace.stats.
    """
    name = installed.whole(name)
    predicate = installed.program.predicates.get(name)
    if predicate is None or predicate.extensional:
        return printable(
            f"{name} is a relation, not a view: transactions edit its {_rows(stats['rows'])}."
        )
    layout = installed.layouts[name]
    lines = [_kept(installed, name, stats), _cost_of_an_edit(installed, name)]
    lines.append(
        f"{name}: {_rows(stats['rows'])}, {stats['sensitivity_rows']:,} sensitivity intervals"
    )
    lines.append(
        f"  head      {HEADS.get(layout.kind, 'a support count per row: +1, -1, erased at 0')}"
    )
    if layout.fold:
        lines += _state(installed, layout.fold)
    if layout.kind == layouts.RANKED:
        lines += _stratum(installed, name, snap)
    if helpers := [
        n for n in installed.program.predicates if view_of_part(n) == name and is_helper(n)
    ]:
        lines.append(
            f"  helpers   {', '.join(helpers)}: views kept for this one, which explain takes, too"
        )
    for rule in installed.rules:
        if name in rule.writes:
            lines += [*_span(rule), *_functions(rule), *_basis(rule, snap), *_costs(rule, snap)]
            for number, plan in enumerate(rule.plans):
                lines += [*_way_of(plan, rule, installed, snap), *_steps(plan, number, rule)]
                lines += _bounds(plan, installed.program.predicates, snap)
                lines += [f"  computed  {name} = {term}" for name, term in plan.computed]
                lines += [f"  filter    {comparison}" for comparison in plan.filters]
                lines += _complements(plan, installed.program.rules, snap.tree)
    return _for_people(_with_parts(lines, installed))


def explain_question(sketch: EphemeralTransaction, before: Installed, text: str) -> str:
    """Explain a query: which rows its constants restrict it to, and the plans of the rules that are
    evaluated.

    Raises RuleError.
    """
    question = understand(sketch, before, text)
    installed = question.installed
    lines = [
        f"{question.answer}: evaluated once, nothing is kept",
        *(f"  needed    {note}" for note in question.program.notes),
    ]
    for rule in installed.blocks[-1].rules:
        lines += [str(rule.definition), *_span(rule)]
        for number, plan in enumerate(rule.plans):
            lines += [*_way_of(plan, rule, installed, sketch), *_steps(plan, number, rule)]
    return _for_people(lines)


def _with_parts(lines: list[str], installed: Installed) -> list[str]:
    """Return lines that name v:part2 as part 2 of v, except that which says what explain takes."""
    parts = [
        name
        for name in installed.program.predicates
        if is_part(name) and name not in installed.named
    ]
    if not parts:
        return lines
    longest = "|".join(map(re.escape, sorted(parts, key=len, reverse=True)))
    named = re.compile(rf"(?<![\w$:])({longest})(?!\d)")
    return [line if line.startswith("  helpers") else named.sub(_part, line) for line in lines]


def _part(match: re.Match[str]) -> str:
    return shown_part(match[0])


def _for_people(lines: list[str]) -> str:
    """Return lines as a text: `_` for variables without names, as authors write them; x1, x2 ...
    for those of SQL.
    """
    text = UNNAMED.sub("_", printable("\n".join(lines), kept="\n"))
    taken = {*SHORT.findall(text)}
    short = (f"x{number}" for number in count(1) if f"x{number}" not in taken)
    names = dict(zip(dict.fromkeys(MADE.findall(text)), short, strict=False))
    return MADE.sub(lambda name: names[name[0]], text)


def _kept(installed: Installed, name: str, stats: dict[str, Any]) -> str:
    """Say in words what the store keeps for a view."""
    layout = installed.layouts[name]
    parts = [
        f"{name} keeps {_rows(stats['rows'])}{WITH.get(layout.kind, ', each with the number of its derivations')}"
    ]
    if layout.fold:
        parts.append("the state of its groups")
    if stats["sensitivity_rows"]:
        parts.append(f"{stats['sensitivity_rows']:,} intervals of keys on which the answer depends")
    rules = [rule for rule in installed.rules if name in rule.writes]
    others = {
        index for rule in rules for index in rule.indices if permuted(index)
    } - installed.deferred
    if others:
        parts.append(
            f"{len(others)} indices in other orders"
            if len(others) > 1
            else "an index in another order"
        )
    return f"{parts[0]}{', and ' * (len(parts) > 1)}{', '.join(parts[1:])}."


def _cost_of_an_edit(installed: Installed, name: str) -> str:
    """Say in words what an edit costs."""
    if installed.layouts[name].kind == layouts.RANKED:
        return "An edit costs the rows that it adds, and those that lose a derivation and look for another, in rounds."
    rules = [rule for rule in installed.rules if name in rule.writes]
    plans = [plan for rule in rules for plan in rule.plans]
    said = []
    if any(rule.span for rule in rules):
        said.append("a seek or a scan, O(log n), for each point that it concerns")
    if any(plan.sensors for plan in plans):
        said.append(
            "a search among these intervals, and evaluating the rule anew only where it hits one"
        )
    if any(plan.probes for plan in plans):
        said.append("a join of the edited rows with the rest of the rule, so as much as they match")
    if not said:
        said.append("a few look-ups for each edited row, however many rows there are")
    return f"An edit costs {'; or '.join(said)}."


def _functions(rule: InstalledRule) -> list[str]:
    """Name the functions of users that a rule calls."""
    names = {*users_functions(x for disjunct in rule.definition.body for x in disjunct)}
    lacking = ", which this process has not registered"
    return [
        f"  calls     {name}: {USERS[name]}{lacking * (not is_registered(name))}"
        for name in sorted(names)
    ]


def _state(installed: Installed, fold: layouts.Fold) -> list[str]:
    """Describe the state of an aggregate, and which aggregates share it."""
    state = fold.state
    lines = [f"  state     {state.name}: {STATES[state.kind]}"]
    if state.ops != ("max",) and state.kind == layouts.VALUES:
        needs = [text for ops, text in NEEDS if ops.intersection(state.ops)]
        lines[0] += f", with {', '.join(['a count of records', *needs])}"
    if state.levels:
        lines.append(
            f"  levels    it serves several levels of detail, keyed by "
            f"[{', '.join(v.name for v in state.levels)}]"
        )
        lines[-1] += f"; a group here is its first {fold.group}, {_level(fold)}"
    others = sorted(
        name for name, one in installed.layouts.items() if one.fold and one.fold.state == state
    )
    return [*lines, f"  shared    by {', '.join(others)}"] if len(others) > 1 else lines


def _level(fold: layouts.Fold) -> str:
    """Describe how a result is found in a state that serves several levels of detail."""
    if not fold.between:
        return "whose values are in order"
    return "whose texts are compared" if fold.state.texts else "found by a scan of its range"


def _span(rule: InstalledRule) -> list[str]:
    """Describe how a rule is evaluated by ranges; no lines for other rules."""
    span, definition = rule.span, rule.definition
    if not span:
        return []
    points, *others = definition.body[0]
    moved = "its range holds it"
    op = definition.aggregates[0].op
    how = HOW.get(span.kind, "the {op} of its range, by a scan").format(op=op)
    if span.kind in (SEEK_FIRST, SEEK_LAST):
        how = f"the {span.kind} record of its range, by a seek"
        moved = f"it is the {span.kind} of its range"
    return [
        f"  points    {points}: {_way(span.points)}",
        f"  range     {', '.join(map(str, others))}: {_way(span.measured)}",
        f"  result    {how}",
        f"  deltas    of points: the row of each; of what is measured: the rows of points where "
        f"{moved}",
    ]


def _basis(rule: InstalledRule, source: Source) -> list[str]:
    """Describe the sizes of relations that a rule's plans were made for, and why anew."""
    sizes, reason, operations, expected = rule.basis[:4]
    lines = (
        [f"  planned   for {', '.join(f'{name} of {_rows(rows)}' for name, rows in sizes.items())}"]
        if sizes
        else []
    )
    now = {name: source.tree(name).count for name in sizes}
    if now != sizes:
        lines[0] += f"; now {', '.join(f'{rows:,}' for rows in now.values())}"
    if sizes and operations:
        lines.append(
            f"  took      {operations:,} operation{'s' * (operations != 1)} when it was last "
            f"evaluated"
        )
    if sizes and expected:
        lines[-1] += f"; a changed row is expected to take {expected:,.0f}"
    return [*lines, f"  anew      since {reason}"] if reason else lines


def _costs(rule: InstalledRule, snap: Snapshot) -> list[str]:
    """Say what a changed row of each relation costs if it is followed, and what evaluating anew
    does, by plan/costs.py.
    """
    sizes = rule.basis.sizes
    if not rule.plans or any(isinstance(plan.way, Rounds) for plan in rule.plans):
        return []

    def following(name: str) -> float:
        cost = 0.0
        for number, plan in enumerate(rule.plans):
            if all(trie.index.predicate != name for trie in plan.tries):
                continue
            bindings = rule.listed.get(number, 0) / max(1, sizes.get(name, 0))
            if len(plan.tries) == 1:
                cost += costs.alone(1)
            elif plan.sensors:
                estimate = costs.matching(1, round(rule.basis.expected), 0, round(bindings))
                cost += max(estimate, costs.alone(1))
            else:
                estimate = costs.probing(bindings, rule.basis.expected, 1)
                cost += max(estimate, costs.probing_at_least(1, 0))
        return cost

    counts = {name: snap.tree(name).count for name in (*rule.reads, *rule.writes)}
    recorded = [name for n in range(len(rule.plans)) for name in rule.sensitivity_names(n)]
    read, kept = (sum(counts[name] for name in names) for names in (rule.reads, rule.writes))
    intervals = sum(snap.tree(name).count for name in recorded)
    anew = costs.anew(kept, costs.evaluating(rule.plans, rule.evaluated(read, intervals)))
    rows = [f"{following(name):,.0f} for a changed row of {name}" for name in rule.reads]
    return [f"  costs     {', '.join(rows)}, {anew:,.0f} to evaluate anew: operations of 30 ns"]


def _steps(plan: Plan, number: int, rule: InstalledRule) -> Iterator[str]:
    """Say of each step of a plan how many rows it was estimated to find, and how many it found."""
    estimated, counts = (
        [*steps[number]] if number < len(steps) else []
        for steps in (rule.basis.estimated, rule.basis.found)
    )
    about = [f"about {rows:,.0f} estimated" for rows in estimated]
    exactly = [f"{rows:,} found" for rows in counts]
    for name, *both in zip_longest(plan.steps, about, exactly):
        if said := ", ".join(filter(None, both)):
            yield f"  rows      {name}: {said}"


def _way(index: Index) -> str:
    """Describe which tree an index uses."""
    return (
        f"through the permuted index {tree_name(index)}" if permuted(index) else "in its own order"
    )


def _stratum(installed: Installed, name: str, snap: Snapshot) -> list[str]:
    """Describe the stratum of a recursive view, its limits, and how many rows have each rank."""
    stratum = next(stratum for stratum in installed.strata if name in stratum.recursive)
    limits = limits_of(stratum)
    most = [
        f"{n:,} {what}"
        for n, what in ((limits.rows_max, "rows"), (limits.rounds_max, "rounds"))
        if n
    ]
    if len(stratum.recursive) == 1:
        alone = "of this view alone"
    else:
        alone = f"of {', '.join(sorted(stratum.recursive))}"
    ranks = [np.empty(0, np.int64)]
    ranks += [batch[-1] for batch in read_batches(snap.pages, snap.tree(name))]
    ranks_seen, counts = np.unique(np.concatenate(ranks), return_counts=True)
    shown = [
        f"{rank}: {n:,}"
        for rank, n in zip(ranks_seen[:RANKS].tolist(), counts[:RANKS].tolist(), strict=True)
    ]
    rest = (
        [f"{len(ranks_seen) - RANKS:,} more up to {ranks_seen[-1]:,}: {counts[RANKS:].sum():,}"]
        if len(ranks_seen) > RANKS
        else []
    )
    return [
        f"  stratum   {alone}, in rounds; at most {' and '.join(most)}"
        if most
        else f"  stratum   {alone}, in rounds",
        f"  ranks     {', '.join([*shown, *rest]) or 'no rows'}",
    ]


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _way_of(plan: Plan, rule: InstalledRule, installed: Installed, source: Source) -> list[str]:
    """Describe how a plan is evaluated and maintained."""
    head = installed.heads[plan]
    if not isinstance(plan.way, Scan | Distinct):
        return _columns(plan, rule, installed, source) + _plan(plan, rule.granularity)
    (trie,) = plan.tries
    names = head.needed.union(v.name for v in variables(*compared(plan.sure)))
    read = ", ".join(name for name in plan.columns if name in names) or "none"
    lines = [
        f"  scan      of {trie.text}: columns {read}; rules of a block that scan it share one pass"
    ]
    if isinstance(plan.way, Distinct):
        lines = [
            f"  scan      of {trie.text}: the distinct values of {', '.join(plan.variables)}, in "
            f"order"
        ]
    return lines if plan.way.upkeep is Upkeep.NEVER else [*lines, f"  deltas    {plan.choice}"]


def _columns(plan: Plan, rule: InstalledRule, installed: Installed, source: Source) -> list[str]:
    """Describe how a plan is evaluated by columns, and which indices wait for a change."""
    if not isinstance(plan.way, Columns):
        return []
    names = {trie.index.predicate for trie in plan.tries}
    try:
        trees = {name: source.tree(name) for name in names}
    except MissingError:  # a helper view of a query, which has no rows before it is evaluated
        return ["  columns   the blocks of one relation look up the others"]
    types, needed = rule.definition.types, installed.heads[plan].needed
    join = ColumnJoin(source.pages, plan, trees, needed, types, Encoder(source))
    root, others, summed = join.summary()
    lines = [f"  columns   the blocks of {root} look up {', '.join(others) or 'what is negated'}"]
    if summed:
        lines[0] += (
            f"; summed out: {', '.join(name for name in summed if not is_made(name)) or 'constants'}"
        )
    if join.counted:
        excluding = ", ".join(f"!{source.predicate}" for source in join.counted)
        lines.append(f"  counted   what {excluding} excludes; it is subtracted, not looked up")
    waiting = sorted(map(tree_name, installed.deferred.intersection(indices_of(plan))))
    if waiting:
        return [*lines, f"  deferred  until a change needs them: {', '.join(waiting)}"]
    return lines


def _order(plan: Plan) -> str:
    return f"[{', '.join('_' if is_unread(name) else name for name in plan.variables)}]"


def _plan(plan: Plan, granularity: int) -> list[str]:
    lines = [f"  order     {_order(plan)}"]
    if plan.considered:
        lines[-1] += f", the best of {plan.considered} (about {plan.cost:,.0f} operations)"
    if isinstance(plan.way, Rounds):
        lines.append(f"  deltas    {plan.choice}")
    elif plan.choice:
        lines.append(f"  deltas    {plan.choice}; the view is evaluated anew where that costs less")
    for t, trie in enumerate(plan.tries):
        sensed = [plan.variables[s.level] for s in plan.sensors if s.trie == t]
        if sensed:
            sense = f"sensitivity at {', '.join(sensed)}" + (
                f" (granularity {granularity})" if granularity > 1 else ""
            )
        elif t < len(plan.probes):
            sense = f"a delta is probed in the order {_order(plan.probes[t])}"
        else:
            sense = "follows the key order, so it needs no sensitivity index"
        lines.append(
            f"  {'absent' if trie.negated else 'trie':9} {trie.text}: {_way(trie.index)}; {sense}"
        )
    return lines


def _bounds(plan: Plan, predicates: Mapping[str, Predicate], snap: Snapshot) -> Iterator[str]:
    """Describe the bounds of a plan's variables, a line each; constants are written as in rules."""
    for bound in plan.bounds:
        type_ = type_of(plan, bound.level, predicates)
        if not bound.others and (bound.kind, bound.constant) in NULLS:
            yield f"  bound     {plan.variables[bound.level]} {NULLS[bound.kind, bound.constant]}"
            continue
        parts = [(sign, plan.variables[other]) for other, sign in bound.others]
        if not parts:
            parts.append((1, written(bound.constant, type_, snap)))
        elif bound.constant:
            constant = abs(bound.constant)
            parts.append(
                (
                    1 if bound.constant > 0 else -1,
                    shown(constant, type_) if scale(type_) else str(constant),
                )
            )
        text = (
            "".join(f" {'+' if sign > 0 else '-'} {part}" for sign, part in parts)
            .removeprefix(" + ")
            .lstrip()
        )
        yield f"  bound     {plan.variables[bound.level]} {SIGNS[bound.kind]} {text}"


def _complements(plan: Plan, rules: tuple[Rule, ...], tree: TreeOf) -> list[str]:
    """Describe how a full evaluation finds the rows of a trie that a negated one lacks."""
    trees = [tree(tree_name(trie.index)) for trie in plan.tries]
    return [
        f"  lacking   {plan.tries[p.whole].text}, !{plan.tries[p.part].text}: "
        f"{choice(plan, trees, rules, p).reason}"
        for p in pairs(plan)
    ]
