"""The layout of a program over cells: what each cell declares and derives, and which rows are sent
where, and when.

    deg[x] = d <- agg<<d = count()>> edge(x, _).           in each cell, if only y has a share in the cube:

    edge              the base relation, each row in its *home*: the cell given by its key's hash
    `edge @1`         a *fragment*: the rows of edge that the cube gives to this cell
    `deg @1`[x] = d   the rule over fragments: the contribution of this cell's bindings
    `deg @part`       the contributions of all cells, each group in its home
    deg[x] = d        their sum: the view

A batch is applied in rounds, each with one transaction per cell. Round 0 edits base relations; a
later round applies the changes that earlier rounds made to predicates to their fragments and parts.
All that a rule reads changes in one round, so no cell ever derives from half of a batch.

A view is *in place* if the head of its only rule has all variables with shares: each of its rows,
or groups, is derived in one cell, and no part is sent. A rule reads a predicate in place if its
rows are distributed as the cube needs.

For an aggregate whose parts no operator combines, like avg or median, only variables of the group
have shares, the same for all of its disjuncts. So it is in place, too; without a group, all is
derived in cell 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from ivm.errors import AggregateError, ConstructError
from ivm.lang.aggregate import OPERATIONS
from ivm.lang.ir import (
    Aggregate,
    Atom,
    Compare,
    Disjunct,
    Literal,
    Negation,
    Predicate,
    Rule,
    Var,
    atoms,
    leaves,
    marked,
    renamed,
    show,
    unmarked,
    variables,
)
from ivm.lang.nulls import tests_null
from ivm.lang.program import Program, strata_of
from ivm.names import is_constraint, is_whole
from ivm.rules.compile import compile
from ivm.spark.changes import OF_CHANGES
from ivm.spark.shares import (
    Dimension,
    Distribution,
    Hot,
    Shares,
    choose_shares,
    distribution_of,
    hot_of,
    variables_of,
    whole,
)

BASE, FRAGMENT, PART, TOTAL = "base", "fragment", "part", "total"
COMBINED_BY = {"count": "sum", "sum": "sum", "min": "min", "max": "max", "total": "total"}
# each group is evaluated in one cell
GATHERED = frozenset(OPERATIONS) - COMBINED_BY.keys() - {"concat"}
CELL, PLACE = "@cell", "@place"  # the key columns of a part in addition to the view's


class Channel(NamedTuple):
    """A flow of rows: the changes of `source` are sent to `target`, which applies them in `round`.

    The source of a base relation is the batch. A part's rows have a column for writer and cell
    after the `keys` of the view; those of an exact total have another one, for the place.
    """

    kind: str
    source: str
    target: str
    round: int
    routing: Distribution
    keys: int = 0
    writer: int = 0


class Writer(NamedTuple):
    """A conjunction over cells, for `explain`: its text, shares, round, and heads that are sent."""

    rule: str
    shares: dict[str, int]
    held: float
    round: int
    sent: tuple[str, ...]


class Layout(NamedTuple):
    """The layout of a program; the same for all cells."""

    cells: int
    program: str
    text: str
    rounds: int
    channels: tuple[Channel, ...]
    homes: dict[str, Distribution]
    writers: tuple[Writer, ...]

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> "Layout":
        """Return the layout whose `_asdict()` was stored as JSON."""

        def lying(homes: Iterable[Any]) -> Distribution:
            return tuple(
                Dimension(share, tuple(c), tuple(hot), spread) for share, c, hot, spread in homes
            )

        return cls(
            saved["cells"],
            saved["program"],
            saved["text"],
            saved["rounds"],
            tuple(Channel._make([*c[:4], lying(c[4]), *c[5:]]) for c in saved["channels"]),
            {name: lying(homes_saved) for name, homes_saved in saved["homes"].items()},
            tuple(Writer._make([*w[:4], tuple(w[4])]) for w in saved["writers"]),
        )

    def base(self, name: str) -> int:
        """Return the number of the channel that sends a relation's changes to their home cells."""
        return next(
            n
            for n, channel in enumerate(self.channels)
            if channel.kind == BASE and channel.target == name
        )

    def explained(self) -> str:
        """See `Cells.explain`."""
        lines = [f"{self.cells} cells, {self.rounds} rounds"]
        for writer in self.writers:
            shares = (
                " ".join(f"{name}: {share}" for name, share in writer.shares.items())
                or "none, in cell 0"
            )
            lines += [
                writer.rule,
                f"    shares {shares}; about {writer.held:,.0f} rows in a cell; round "
                f"{writer.round}",
            ]
            if writer.sent:
                lines += [f"    sends {', '.join(writer.sent)} to be combined"]
        return "\n".join(lines)


def plan(
    text: str, cells: int, sizes: Mapping[str, float] | None = None, hot: Hot | None = None
) -> Layout:
    """Lay a program out over cells, given the row counts of its relations (1 each without `sizes`)
    and hot values.

    A view without a size is assumed to have as many rows as the largest relation that its rule
    reads. Raises RuleError for errors in the text, and for what cells do not support.
    """
    program = compile(text)
    refuse(program)
    program = replace(program, rules=tuple(chain(*map(_one_aggregate_each, program.rules))))
    return _Planner(program, text, cells, dict(sizes or {}), hot or {}).layout()


def _one_aggregate_each(rule: Rule) -> list[Rule]:
    """Split a rule of several aggregates: each is combined by an operator of its own."""
    if len(rule.aggregates) < 2:
        return [rule]
    both = zip(rule.heads, rule.aggregates, strict=True)
    return [replace(rule, heads=(head,), aggregates=(aggregate,)) for head, aggregate in both]


def refuse(program: Program) -> None:
    """Raise ConstructError or AggregateError for what cells do not support, as recursion."""
    for edit in program.edits:
        raise ConstructError(edit.where, "cells take no edits in a text: send them as a batch")
    for stratum in strata_of(program.rules):
        if stratum.recursive:
            raise ConstructError(
                stratum.rules[0].where,
                f"{min(stratum.recursive)} reads itself, and recursion over cells is not "
                "supported: derive it in one store",
            )
    for predicate in program.predicates.values():
        _refuse_predicate(predicate)
    for rule in program.rules:
        _refuse_rule(rule)


def _refuse_predicate(predicate: Predicate) -> None:
    if predicate.bag:
        raise ConstructError(
            predicate.where,
            f"{predicate.name} is a bag, and cells keep sets: leave the statement out, and read "
            "the multiplicities",
        )
    if "@" in predicate.name or any("@" in column for column in predicate.columns):
        raise ConstructError(
            predicate.where, f"{predicate.name}: names with @ are those that cells make"
        )
    for column in sorted(OF_CHANGES.intersection(predicate.columns)):
        raise ConstructError(
            predicate.where,
            f"{predicate.name}: over cells no column is named {column}, as one of every table of "
            "changes: rename it",
        )


def _refuse_rule(rule: Rule) -> None:
    if any(not any(atoms(disjunct)) for disjunct in rule.body):
        raise ConstructError(
            rule.where,
            "cells derive nothing from constants alone: send such rows as a batch of a relation",
        )
    if is_whole(rule.heads[0].predicate):
        raise ConstructError(
            rule.where,
            f"cells do not both declare and derive {rule.heads[0].predicate}: derive a view of "
            "another name",
        )
    if is_constraint(rule.heads[0].predicate):
        raise ConstructError(
            rule.where,
            "cells keep no constraints, nor types smaller than int, since each has a part of the "
            "rows: derive what violates it as a view, and look whether it is empty",
        )
    for aggregate in rule.aggregates:
        if aggregate.op == "concat":
            raise AggregateError(
                aggregate.where,
                "concat over cells is not supported, since its texts are read piece by piece from "
                "one store: derive it there from the rows that cells.read gives",
            )
        if aggregate.absent is not None:
            raise AggregateError(
                aggregate.where,
                "`else` without keys is not evaluated over cells, each of which would have the "
                "row: derive the aggregate without it, and let the reader of the view supply the "
                "value",
            )
        if aggregate.op not in COMBINED_BY and aggregate.op not in GATHERED:
            raise AggregateError(
                aggregate.where,
                f"{aggregate.op} is registered in this process only, and cells run in others: there are "
                f"{', '.join([*COMBINED_BY, *sorted(GATHERED)])}",
            )


class _Planner:
    """Places the rules in dependency order, tracking each predicate's distribution and the round
    that completes it.
    """

    def __init__(
        self, program: Program, text: str, cells: int, sizes: dict[str, float], hot: Hot
    ) -> None:
        self.program, self.text, self.cells, self.sizes, self.hot = program, text, cells, sizes, hot
        self.statements: list[str] = []
        self.channels: list[Channel] = []
        self.homes: dict[str, Distribution] = {}
        self.since: dict[str, int] = {}  # the round in which a predicate's rows are complete
        self.fragments: dict[tuple[str, Distribution, int], str] = {}
        self.writers: list[Writer] = []
        # for each view, its local views and their rounds
        self.parts: dict[str, list[tuple[str, int]]] = {}
        # the number of rules not yet placed that write a view
        self.left = dict.fromkeys(program.predicates, 0)
        for rule in program.rules:
            for name in {head.predicate for head in rule.heads}:
                self.left[name] += 1
        self.sole = {name for name, count in self.left.items() if count == 1}

    def layout(self) -> Layout:
        """Return the layout of the whole program."""
        for name, predicate in self.program.predicates.items():
            if predicate.extensional:
                self._place_base(name, predicate)
        for rule in self.program.rules:
            self._place_rule(rule)
        rounds = 1 + max((channel.round for channel in self.channels), default=0)
        return Layout(
            self.cells,
            self.text,
            "\n".join(self.statements),
            rounds,
            tuple(self.channels),
            self.homes,
            tuple(self.writers),
        )

    def _place_base(self, name: str, predicate: Predicate) -> None:
        keys = predicate.key_count if predicate.key_count is not None else len(predicate.keys)
        self.homes[name], self.since[name] = whole(range(keys), self.cells), 0
        self.sizes.setdefault(name, 1.0)
        self.statements.append(show(predicate))
        self.channels.append(Channel(BASE, "", name, 0, self.homes[name], keys))

    def _place_rule(self, rule: Rule) -> None:
        largest = max(self.sizes[name] for name in rule.reads)
        for head in rule.heads:
            self.sizes.setdefault(head.predicate, largest)
        gathered = rule.aggregate is not None and rule.aggregate.op in GATHERED
        parts: list[tuple[Disjunct, ...]] = (
            [rule.body] if gathered else [(disjunct,) for disjunct in rule.body]
        )
        bodies = [self._place_rows(rule, disjuncts, gathered) for disjuncts in parts]
        here = {head.predicate: self._in_place(head, rule, bodies) for head in rule.heads}
        when = max(
            self.since[atom.predicate] + (lying != self.homes[atom.predicate])
            for _, lies in bodies
            for atom, lying in lies.items()
        )
        for disjuncts, (shares, lies) in zip(parts, bodies, strict=True):
            number = len(self.writers) + 1
            names = {
                name: name if lying is not None else _spaced(f"{name} @{number}")
                for name, lying in here.items()
            }
            renamed = {atom: self._source(atom, lying, when) for atom, lying in lies.items()}
            self.statements.append(_statement(rule, disjuncts, names, renamed))
            sent = tuple(name for name, lying in here.items() if lying is None)
            self.writers.append(
                Writer(show(replace(rule, body=disjuncts)), shares.of, shares.held, when, sent)
            )
            for name in sent:
                self.parts.setdefault(name, []).append((names[name], when))
        for name, lying in here.items():
            self.left[name] -= 1
            if lying is not None:
                self.homes[name], self.since[name] = lying, when
            elif not self.left[name]:
                self._combine(name, rule.aggregate.op if rule.aggregate else None)

    def _place_rows(
        self, rule: Rule, disjuncts: Sequence[Disjunct], gathered: bool
    ) -> tuple[Shares, dict[Atom, Distribution]]:
        """Return the common shares of one or several conjunctions, and the distribution of each
        atom's rows.

        If `gathered`, only variables of the group have shares, and no hot value is split.
        """
        heads = [{v.name for v in head.args if isinstance(v, Var)} for head in rule.heads]

        def is_there(atom: Atom, shares: dict[str, int]) -> bool:
            return distribution_of(atom, shares, {}, set()) == self.homes[atom.predicate]

        def sent(shares: dict[str, int]) -> float:
            names = zip(heads, rule.heads, strict=True)
            return sum(
                self.sizes[h.predicate]
                for keys, h in names
                if h.predicate not in self.sole or not shares.keys() <= keys
            )

        first = [v.name for head in rule.heads for v in head.args if isinstance(v, Var)]
        group = set(first).intersection(*map(variables_of, disjuncts)) if gathered else None
        body = (*chain(*disjuncts),)
        shares = choose_shares(body, self.sizes, self.cells, first, is_there, sent, group)
        hot, spreaders = hot_of(body, shares.of, self.sizes, {} if gathered else self.hot)
        lies = {
            atom: distribution_of(
                atom,
                shares.of,
                hot,
                {name for name, spreader in spreaders.items() if spreader == atom},
            )
            for atom in atoms(body)
        }
        return shares, lies

    def _in_place(
        self, head: Atom, rule: Rule, bodies: Sequence[tuple[Shares, dict[Atom, Distribution]]]
    ) -> Distribution | None:
        """Return the distribution of a head's rows if a rule derives each in a cell, or None."""
        if (
            head.predicate not in self.sole
            or [h.predicate for h in rule.heads].count(head.predicate) > 1
        ):
            return None
        keys = Atom(head.predicate, head.args)
        names = set()
        for shares, lies in bodies:
            if any(dimension.hot for lying in lies.values() for dimension in lying):
                return None
            if not shares.of.keys() <= {v.name for v in keys.args if isinstance(v, Var)}:
                return None
            names.add(distribution_of(keys, shares.of, {}, set()))
        return names.pop() if len(names) == 1 else None

    def _source(self, atom: Atom, lying: Distribution, when: int) -> str:
        """Return the name that an atom reads: the predicate, if distributed so in this round,
        else a fragment.
        """
        name = atom.predicate
        if lying == self.homes[name] and self.since[name] == when:
            return _spaced(name)
        key = name, lying, when
        if key not in self.fragments:
            fragment = self.fragments[key] = _spaced(f"{name} @{len(self.fragments) + 1} of {when}")
            predicate = self.program.predicates[name]
            self.statements.append(show(replace(predicate, name=fragment)))
            self.channels.append(Channel(FRAGMENT, _spaced(name), fragment, when, lying))
        return self.fragments[key]

    def _combine(self, name: str, op: str | None) -> None:
        """Declare the parts of a view that several cells or rules write, and derive it."""
        predicate = self.program.predicates[name]
        keys = len(predicate.keys)
        when = 1 + max(when for _, when in self.parts[name])
        home = whole(range(keys), self.cells)
        self.homes[name], self.since[name] = home, when
        part = _spaced(f"{name} @part")
        columns, extra = predicate.columns, (CELL, PLACE) if op == "total" else (CELL,)
        self.statements.append(show(_part_of(predicate, part, extra)))
        args = (*map(Var, columns[:keys]), *map(Var, extra))
        head = Atom(_spaced(name), args[:keys], _value(predicate))
        if op is None:
            self.statements.append(
                f"{show(head)} <- {show(marked(Atom(part, args, _value(predicate))))}."
            )
        else:
            made = Aggregate(COMBINED_BY[op], Var(columns[-1]), (Var("@value"),))
            read = marked(Atom(part, args, Var("@value")))
            self.statements.append(f"{show(head)} <- agg<<{show(made)}>> {show(read)}.")
        kind = TOTAL if op == "total" else PART
        for writer, (local, _) in enumerate(self.parts[name]):
            self.channels.append(Channel(kind, local, part, when, home, keys, writer))


def _part_of(predicate: Predicate, name: str, extra: tuple[str, ...]) -> Predicate:
    """Return the relation or function that holds the parts of a view."""
    keys = len(predicate.keys)
    columns = (*predicate.columns[:keys], *extra, *predicate.columns[keys:])
    nullable = tuple(place + len(extra) * (place >= keys) for place in predicate.nullable)
    return Predicate(
        name, (*predicate.keys, *["int64"] * len(extra)), predicate.value, True, columns, nullable
    )


def _value(predicate: Predicate) -> Var | None:
    return None if predicate.value is None else Var(predicate.columns[-1])


def _statement(
    rule: Rule, disjuncts: Sequence[Disjunct], heads: Mapping[str, str], sources: Mapping[Atom, str]
) -> str:
    """Return the text of a rule over the relations of a cell."""
    told = tuple(replace(head, predicate=_spaced(heads[head.predicate])) for head in rule.heads)
    return show(
        _sayable(replace(rule, heads=told, body=tuple(_renamed(d, sources) for d in disjuncts)))
    )


def _sayable(rule: Rule) -> Rule:
    """Return a rule without the $ in names of variables that the compiler made."""
    results = (v for one in rule.aggregates for v in (one.result, one.place) if v is not None)
    every = (*leaves((*rule.heads, *chain(*rule.body), *rule.aggregates)), *results)
    names = {
        v: replace(v, name=_spaced(v.name)) for v in every if isinstance(v, Var) and "$" in v.name
    }
    return replace(
        rule,
        heads=tuple(renamed(head, names) for head in rule.heads),
        body=tuple(
            tuple(renamed(literal, names) for literal in disjunct) for disjunct in rule.body
        ),
        aggregates=tuple(renamed(aggregate, names) for aggregate in rule.aggregates),
    )


def _renamed(literals: Iterable[Literal], sources: Mapping[Atom, str]) -> Disjunct:
    """Rename the atoms of literals. For `x != null`, which no text can express, x loses its marks,
    or `x = x` says it of a variable that no atom binds.
    """
    literals = tuple(literals)
    values = {
        v: x
        for x in literals
        if isinstance(x, Compare)
        for v in variables(x)
        if x.op == "!=" and tests_null(x)
    }
    bound = {v for x in literals if isinstance(x, Atom) for v in variables(x)}
    renamed: list[Literal] = []
    for literal in literals:
        if isinstance(literal, Atom):
            renamed.append(replace(unmarked(literal, values), predicate=sources[literal]))
        elif isinstance(literal, Negation):
            renamed.append(replace(literal, body=_renamed(literal.body, sources)))
        elif literal not in values.values():
            renamed.append(literal)
    return (*renamed, *(Compare("=", v, v) for v in values if v not in bound))


def _spaced(name: str) -> str:
    """Replace the $ in a name of the compiler's, as `degree$body`, so that a text may have it."""
    return name.replace("$", " @")
