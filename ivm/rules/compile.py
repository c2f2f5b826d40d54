"""From a text to plans: every pass over a program, in order.

    parse         a text becomes syntax trees                          lang/parse.py
    hints         words of other languages are refused                 lang/hints.py, for texts of users
    declare       declarations become predicates; the store is asked   lang/declarations.py, rules/relations.py
    normalise     clauses become rules in disjunctive normal form      lang/normalise.py
                  before that, aggregates leave bodies,                lang/rewrite/aggregations.py
                  and orders and equivalences become clauses           lang/rewrite/closures.py
    columns       reads of single columns become reads of rows         lang/columns.py
    neighbours    so do reads of the next and previous key             lang/columns.py
    numbers       so do lists of numbers and of parts of texts         lang/rewrite/numbers.py
    asserted      relations that are derived, too, become views       lang/declarations.py
    recursion     recursive rules are split by heads                   lang/recursion.py
    check         names, heads, safety, recursion                      lang/check.py
    infer         variables and constants get types                    lang/infer.py
    (there)       conditions exclude nulls, aggregates skip them       lang/nulls.py
    bags          views that say so become bags                        lang/declarations.py
    edits         changes become edits                                 lang/declarations.py

`compile` ends here, with checked rules. `with_block` goes on:

    constants     of facts, and one row for bodies without an atom     plan/rewrite/helpers.py
    constants     those of a query are passed into recursion           plan/rewrite/magic.py, for queries
    parts         that nothing connects are counted on their own       plan/rewrite/aggregates.py
    texts         of concats are read from helper views                plan/rewrite/helpers.py
    ranges        aggregates over ranges are evaluated by seeks        plan/rewrite/ranges.py
    levels        aggregates of nested groups share states             views/shared_states.py
    disjunctions  of joins, under an aggregate, exclude each other   plan/rewrite/aggregates.py
    memberships   are joined with helpers of their constants,          plan/rewrite/memberships.py
                  and so are ranges of texts, in queries
    existentials  get helper views                                     plan/rewrite/helpers.py
    computed      keys likewise
    negations     likewise, but of a function by its key
    failures      of helpers are refused
    nullable      columns of helpers are found                         lang/nulls.py
    disjunctions  over one relation are read by their aggregate        plan/rewrite/aggregates.py
    order         each rule after those that it reads                  lang/program.py
    plan          key orders, indices, bounds; then the view's layout  plan/planner.py, views/layouts.py

A pass takes a program and returns one. Installing a block, evaluating a query and opening a store
go through this list. It begins with a text, with syntax trees, or with a program of checked rules,
which needs no places (`NOWHERE`).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ivm.errors import ConstructError, EditError, RuleError, RuleSyntaxError, Where
from ivm.lang.check import check
from ivm.lang.columns import read_columns, read_neighbours
from ivm.lang.declarations import (
    declare,
    declare_functions,
    derive_declared,
    make_edits,
    mark_bags,
    mentioned,
)
from ivm.lang.infer import infer
from ivm.lang.ir import Predicate, Rule
from ivm.lang.normalise import normalise
from ivm.lang.nulls import with_nullable_helpers
from ivm.lang.program import NOTHING, Program, names_in_body, recursive_names, shape_of, sketch_of
from ivm.lang.recursion import split_recursion
from ivm.lang.rewrite.numbers import list_numbers
from ivm.lang.rewrite.parameters import Parameter, with_parameters
from ivm.lang.syntax_tree import Statement
from ivm.names import may_have_parameters, split_column
from ivm.plan.join_order import JoinOrders
from ivm.plan.plan import Plan, Upkeep
from ivm.plan.planner import AUTO, MATCH, ONCE, Chosen, keep_alike, make_plans, make_recursive_plans
from ivm.plan.rewrite.aggregates import fold_bodies, separate_bodies, sum_parts
from ivm.plan.rewrite.helpers import (
    lift_computed,
    lift_constants,
    lift_existentials,
    lift_negations,
    lift_texts,
    refuse_failures,
)
from ivm.plan.rewrite.magic import pass_constants
from ivm.plan.rewrite.memberships import lift_memberships, seek_texts
from ivm.plan.rewrite.ranges import lift_ranges, span_of
from ivm.rules.installed import Block, Installed, Options, Rewrites
from ivm.rules.relations import Relations, with_declarations
from ivm.rules.rule import UNKNOWN, Basis, InstalledRule
from ivm.views.layouts import Layout, may_be_partial, ranked_layout, view_layout
from ivm.views.shared_states import share_levels

NO_PARAMETERS: Mapping[str, Parameter] = {}
# a text; a program whose statements are syntax trees; or one of checked rules
Given = str | Program


class Saved(NamedTuple):
    """What a store says of an installed block: the number of its first rule, its rewrites, and of
    each rule the key orders, and what they were chosen for, if that is known.
    """

    number: int
    orders: Sequence[Sequence[Chosen]]
    rewrites: Rewrites
    bases: Sequence[Basis] = ()


# -- to checked rules


def parsed(given: Given, source: str) -> Program:
    """Return what is given as a program.  Raises RuleSyntaxError for a text that does not parse."""
    if isinstance(given, Program):
        return given
    # the parser takes long to import, and a store without rules needs none
    from ivm.lang.parse import parse

    return Program(statements=parse(given, source))


def names_in(program: Program) -> set[str]:
    """Return what the statements and the rules of a program read, define and edit."""
    names = set[str]().union(*mentioned(program.statements))
    names |= {name for rule in program.rules for name in (*rule.reads, *rule.writes)}
    return names | {split_column(name)[0] for name in names if ":" in name}


def compile(
    given: Given,
    known: Program = NOTHING,
    source: str = "rules",
    store: Relations | None = None,
    merging: bool = True,
    hinting: bool = False,
    guarding: bool = True,
    parameters: Mapping[str, Parameter] = NO_PARAMETERS,
) -> Program:
    """Return the checked program that a text adds to the installed program `known`.

    Relations that neither declares are those of `store`, if it is given. Without `merging`, each
    column of a row is read by an atom of its own; with `hinting`, the program has the warnings of
    the text; `guarding` is as in `infer`, and `parameters` has the values of `$name`. Raises a
    RuleError with file (here `source`), line and column at the first fault; see ivm.errors.

    >>> program = compile("edge(x, y) -> int(x), int(y).  path(x, z) <- edge(x, y), edge(y, z).")
    >>> program.predicates["path"].keys
    ('int64', 'int64')
    >>> [head.predicate for rule in program.rules for head in rule.heads]
    ['path']
    """
    if isinstance(given, Program):
        return _checked(given, known, store, merging, guarding) if given.statements else given
    from ivm.lang.parse import shown

    def checked(statements: tuple[Statement, ...]) -> Program:
        program = Program(statements=statements)
        if parameters or may_have_parameters(given):
            program = with_parameters(statements, parameters)
        if hinting:
            from ivm.lang.hints import with_hints

            program = with_hints(program, given)
        try:
            return _checked(program, known, store, merging, guarding)
        except RuleSyntaxError as error:
            raise shown(error, given) from None

    try:
        return checked(parsed(given, source).statements)
    except RuleError as error:
        if not hinting or not isinstance(given, str):
            raise
        from ivm.lang.hints import with_others

        raise with_others(error, given, source, checked) from None


def _checked(
    program: Program, known: Program, store: Relations | None, merging: bool, guarding: bool
) -> Program:
    """Return a program of statements with checked rules instead.  Raises RuleError."""
    program = declare_functions(program)
    program = declare(
        program, known, store.declared(*mentioned(program.statements), known) if store else {}
    )
    program = normalise(program, known)
    program = read_columns(program, known, merging)
    program = read_neighbours(program, known)
    program = list_numbers(program, known)
    program = derive_declared(program, known)
    program = split_recursion(program, known)
    program = check(program, known)
    program = infer(program, known, guarding)
    program = mark_bags(program, known)
    return make_edits(program, known)


def query(
    given: Given,
    known: Program = NOTHING,
    source: str = "query",
    store: Relations | None = None,
    hinting: bool = False,
    parameters: Mapping[str, Parameter] = NO_PARAMETERS,
) -> Program:
    """Compile a query, whose `answer` is the first head of its last rule; the others are helpers.

    Raises as `compile` does, and RuleError for declarations, for edits, and for heads that are
    installed already.
    """
    program = compile(given, known, source, store, hinting=hinting, parameters=parameters)
    if not program.rules:
        raise RuleSyntaxError(Where(source, 1, 1), "a query is a rule, as in q(x) <- edge(x, y).")
    declared = (
        p
        for n, p in program.predicates.items()
        if p.extensional and n not in program.stored and n not in program.seeds
    )
    for statement in (*program.edits, *declared):
        raise RuleError(
            statement.where, "a query holds rules only: install declarations, exec edits"
        )
    for rule in program.rules:
        for head in rule.heads:
            if head.predicate in known.predicates:
                raise RuleError(
                    head.where, f"{head.predicate} is installed: name the query otherwise"
                )
    return program


# -- to plans


def with_block(
    given: Given,
    installed: Installed,
    store: Relations,
    name: str,
    options: Options,
    saved: Saved | None = None,
    before: Installed | None = None,
    hinting: bool = False,
    parameters: Mapping[str, Parameter] = NO_PARAMETERS,
) -> Installed:
    """Return the installed rules with one more block; its rules have plans, and its views layouts.

    A block of `maintenance` ONCE is a query. `saved` is given for a block of an opened store; else
    a rule that was among `before` keeps its key orders, if they still fit. A store compiles the
    block's text whenever it is opened: the given one, or that of a program. Raises RuleError,
    EditError, SchemaError.
    """
    once, known = options.maintenance == ONCE, installed.program
    rewrites = saved.rewrites if saved else Rewrites()
    if once:
        program = query(given, known, name, store, hinting, parameters)
    else:
        program = compile(given, known, name, store, rewrites.columns, hinting, rewrites.guarded)
    text = with_declarations(given if isinstance(given, str) else given.text, program)
    if not saved:
        program.refuse_long()
    program = lift_constants(program)
    if once:
        program = pass_constants(program)
    layouts = {**installed.layouts, **store.layouts(program.predicates)}
    _refuse_unlike(program, known, layouts)
    program = lift_texts(sum_parts(program) if rewrites.factored else program, known)
    if rewrites.ranges and options.maintenance in (AUTO, ONCE):
        views = {n: len(p.keys) for n, p in program.over(known).items() if not p.extensional}
        keys = {n: layout.keys for n, layout in layouts.items()} | views
        program = lift_ranges(
            program, keys, store.encode, store.distinct if once else None, rewrites.ordered
        )
    if rewrites.levels and not once:
        program = share_levels(program, rewrites.partial)
    if rewrites.lean:
        program = separate_bodies(program, known)
    program = lift_memberships(program)
    if once:
        program = seek_texts(program, known, store)
        layouts |= store.layouts({name: program.predicates[name] for name in program.seeds})
    program = lift_existentials(program, rewrites.factored)
    program = lift_computed(program, program.over(known) if rewrites.lean else {}, rewrites.sure)
    program = lift_negations(program, program.over(known) if rewrites.sought else {})
    program = refuse_failures(program)
    program = with_nullable_helpers(program, known)
    if rewrites.scans:
        program = fold_bodies(program)
    program = replace(program, partial=rewrites.partial and any(map(may_be_partial, program.rules)))
    whole = known.including(program)
    before = before or installed
    first = saved.number if saved else max(before.next_number, installed.next_number)
    rules = _Planner(whole, program, store, options, layouts, saved, before).rules(first)
    block = Block(name, text, program, rules, options.limits, options.maintenance)
    return installed.adding(block, whole, layouts)


def _refuse_unlike(program: Program, known: Program, layouts: Mapping[str, Layout]) -> None:
    """Raise EditError for a rule over a relation that no longer fits its declaration."""
    predicates = program.over(known)
    for rule in program.rules:
        for name in rule.reads:
            if predicates[name].extensional and name not in layouts:
                raise EditError(
                    f"{rule.where}: the store's {name} has other columns than are declared: "
                    f"{predicates[name]}"
                )


class _Planner:
    """Plans the rules of a program in order; adds to `layouts` those of views, for later rules."""

    def __init__(
        self,
        whole: Program,
        program: Program,
        store: Relations,
        options: Options,
        layouts: dict[str, Layout],
        saved: Saved | None,
        before: Installed,
    ) -> None:
        self._predicates, self._program, self._store = whole.predicates, program, store
        self._options, self._layouts, self._saved, self._before = options, layouts, saved, before
        # by their sketches, the newest last
        self._known = defaultdict[object, list[InstalledRule]](list)
        for block in before.blocks if not saved else ():
            for rule in block.rules if options.maintenance in (AUTO, block.maintenance) else ():
                self._known[rule.sketch].append(rule)
        self._searched: dict[Hashable, JoinOrders] = {}
        self._scans = saved is None or saved.rewrites.scans
        self._rules: list[InstalledRule] = []

    def rules(self, first: int) -> tuple[InstalledRule, ...]:
        """Return the rules, numbered from `first`.  Raises ConstructError, AggregateError."""
        recursive = recursive_names(self._program.rules)
        for view in recursive:
            writers = [rule for rule in self._program.rules if view in rule.writes]
            self._layouts[view] = ranked_layout(self._predicates[view], writers)
        made = defaultdict[str, list[tuple[Rule, tuple[Plan, ...]]]](list)
        for i, rule in enumerate(self._program.rules):
            stratum = next((recursive[view] for view in rule.writes if view in recursive), None)
            planned = self._planned(rule, i, first + i, stratum)
            self._rules.append(planned)
            for view in rule.writes if stratum is None else ():
                made[view].append((planned.definition, planned.plans))
                self._layouts[view] = view_layout(self._predicates[view], made[view])
        return tuple(self._rules)

    def _planned(
        self, rule: Rule, i: int, number: int, recursive: frozenset[str] | None
    ) -> InstalledRule:
        """Return rule i with its plans; `recursive` are its stratum's views, if that is recursive."""
        granularity, maintenance, limits = self._options
        if rule.range or rule.texts or not rule.reads:
            stored = {
                name: (self._layouts[name].keys, self._layouts[name].visible) for name in rule.reads
            }
            return InstalledRule(
                number, rule, (), granularity, span=span_of(rule, stored) if rule.range else None
            )
        orders, basis = self._saved_orders(i) if self._saved else self._orders(rule, recursive)
        rows, rounds = limits if recursive else (None, None)
        made = InstalledRule(number, rule, (), granularity, (), rows, rounds, basis=basis)
        if recursive:
            _refuse_failing(rule)
        return with_plans(
            made,
            self._predicates,
            self._layouts,
            self._store,
            recursive,
            orders,
            maintenance,
            self._scans,
            self._searched,
        )

    def _saved_orders(self, i: int) -> tuple[Sequence[Chosen], Basis]:
        assert self._saved
        return self._saved.orders[i], self._saved.bases[i] if self._saved.bases else UNKNOWN

    def _orders(self, rule: Rule, own: frozenset[str] | None) -> tuple[Sequence[Chosen], Basis]:
        """Return the key orders that the rule had before; none if it is new, or what it reads is
        stored otherwise.
        """
        alike = self._known.get(sketch_of(rule), [])
        shape = shape_of(rule) if alike else None
        old = next((rule for rule in reversed(alike) if shape_of(rule.definition) == shape), None)
        stratum = old and self._before.recursion.get(old)
        if old is None or (stratum.recursive if stratum else None) != own:
            return (), UNKNOWN
        inputs = zip(names_in_body(old.definition), names_in_body(rule), strict=True)
        fits = all(self._before.layouts.get(was) == self._layouts.get(name) for was, name in inputs)
        if not fits:
            return (), UNKNOWN
        names = dict(zip(names_in_body(rule), names_in_body(old.definition), strict=True))
        sizes = {
            name: old.basis.sizes[was] for name, was in names.items() if was in old.basis.sizes
        }
        return old.orders, old.basis._replace(sizes=sizes)


def with_plans(
    rule: InstalledRule,
    predicates: Mapping[str, Predicate],
    layouts: Mapping[str, Layout],
    store: Relations,
    recursive: frozenset[str] | None,
    orders: Sequence[Chosen],
    maintenance: str,
    scans: bool,
    searched: dict[Hashable, JoinOrders] | None = None,
) -> InstalledRule:
    """Return a rule with plans: of the given orders, or, if there are none, of those that fit the
    rows in the store.

    `recursive` are the views of its stratum, if that is recursive.  Raises ConstructError.
    """
    keys = {name: layouts[name].keys for name in (*rule.reads, *rule.writes) if name in layouts}
    given = rule.definition, predicates, keys, store.distinct, store.encode
    if recursive is None:
        made = replace(
            rule, plans=make_plans(*given, orders, maintenance, scans, store.heavy, searched)
        )
    else:
        plans, searches = make_recursive_plans(*given, recursive, orders, maintenance, store.heavy)
        made = replace(rule, plans=plans, searches=searches)
    if orders:
        return made
    basis = rule.basis._replace(estimated=tuple(plan.estimates for plan in made.plans), found=())
    if any(len(plan.tries) > 1 for plan in made.plans):
        sizes = {name: store.rows(name) for name in rule.reads if name not in (recursive or ())}
        basis = basis._replace(sizes=sizes, expected=max(plan.pace for plan in made.plans))
    return replace(made, basis=basis)


def planned_anew(
    installed: Installed,
    rules: Iterable[InstalledRule],
    store: Relations,
    reason: Callable[[InstalledRule], str],
    upkeep: Callable[[InstalledRule], str] = lambda rule: MATCH if rule.basis.turned else AUTO,
) -> Installed:
    """Return the rules with plans of some made for the rows that relations have now.

    `upkeep` tells how a rule that was left to choose follows changes: MATCH, PROBE or AUTO.

    A rule whose views would be stored otherwise keeps its plans, as does one that an earlier
    release planned without scans.
    """
    made = {}
    for rule in rules:
        block = next(block for block in installed.blocks if rule in block.rules)
        if any(
            (len(plan.tries) == 1 and not plan.is_scanned)
            for rule in block.rules
            for plan in rule.plans
            if rule not in installed.recursion
        ):
            continue
        if any(plan.way.upkeep is Upkeep.NEVER for plan in rule.plans):
            maintenance = ONCE
        elif block.maintenance != AUTO:
            maintenance = block.maintenance
        else:
            maintenance = upkeep(rule)
        stratum = installed.recursion.get(rule)
        recursive = stratum.recursive if stratum else None
        new = with_plans(
            rule,
            installed.program.predicates,
            installed.layouts,
            store,
            recursive,
            (),
            maintenance,
            block.rewrites.scans,
        )
        if not _alike(installed, rule, new):
            new = replace(new, plans=rule.plans, searches=rule.searches)
        pairs = [*zip(rule.plans, new.plans, strict=True)]
        # the scan may be under way
        plans = tuple(old if old.is_scanned else plan for old, plan in pairs)
        changed = new.orders != rule.orders or not all(keep_alike(*pair) for pair in pairs)
        basis = new.basis._replace(reason=reason(rule) if changed else rule.basis.reason)
        made[rule] = replace(new, plans=plans, basis=basis)
    return installed.replacing(made)


def _alike(installed: Installed, rule: InstalledRule, new: InstalledRule) -> bool:
    """Return whether a rule has as many plans as before, and its views are stored as before."""
    group = [new if member is rule else member for member in installed.together[rule]]
    return len(new.plans) == len(rule.plans) and (
        rule in installed.recursion
        or all(
            view_layout(
                installed.program.predicates[view],
                [(member.definition, member.plans) for member in group if view in member.writes],
            )
            == installed.layouts[view]
            for view in rule.writes
        )
    )


def _refuse_failing(rule: Rule) -> None:
    """Raise ConstructError for a helper view in a recursion if its arithmetic may fail."""
    if rule.failed:
        raise ConstructError(
            rule.where,
            "a key that is computed from a view which reads itself, by arithmetic that may fail, "
            "is not evaluated; derive the computed keys as a view of their own",
        )
