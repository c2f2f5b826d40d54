"""Layouts: the numbers of key words, value words and hidden words in a stored row of each
predicate.

    a relation edge(x, y)                                plain     (x, y)           the row is its own key
    a function price[item] = p, extensional              plain     (item; p)        one value for a key
    a view with one row per binding                      plain     (x, y, z)        no variable is left out
    a view with a projection, or of several rules        support   (x, y; count)    how many bindings derive the row
    an aggregate d[x] = n <- agg<<n = count()>> ...      count     (x; n)           n is the support, too
    an aggregate t[x] = s <- agg<<s = sum(v)>> ...       sum       (x; s, count)    x is erased at support 0
    the parts of sums, for ranges of x                   sum       (place, x; s, count)
    any other aggregate m[x] = n <- agg<<n = min(v)>>    fold      (x; n)           computed from its state
    an aggregate over a range of each row                ranged    (x; n)           computed from two trees
    a recursive view                                     ranked    (x, y; rank)     the order of derivations
    ... a recursive min or max                           ranked    (x; m, rank)

Words after the semicolon are values. heads.py says how each kind is edited.

Levels of detail: choose the groups of a rule's aggregates that share one state, and the order of
its key.

    h[c, m] = a, h1[m] = b, h0[] = d <- agg<<a = max(x), b = max(x), d = max(x)>> r(c, m, x).

    state (m, c, x; eta)       h[c, m] the last record of (m, c)      h1[m], h0[] the greatest x of a range, by a scan

Groups form a chain if each has the variables of the next.  Its state has the key of the finest,
ordered so that all others are prefixes.  A coarser group repeats values of finer ones, so only
operations that ignore repetition can use it: extremes, and operators of semilattices.

The trees of state that aggregates have in addition to their views, and which aggregates of a rule
share one.

    kind       a record               for
    alone      (0; the row's values)  count and sum of f[], whose view has the result as its key
    parts      (s..., place; t, eta)  total, avg, variance and the like: exact sums of summands and of their squares
    values     (s..., v...; eta)      all others: the variables that order, then those that are the result; of a min or
                                      max over one relation perhaps a few of a group (kept_extremes.py)
    inverted   (s...; x, eta)         users' operators with an inverse (ways/states.py)

s is the group's key, 0 for an aggregate without keys, and eta is the number of assignments.

    lo[x] = a, hi[x] = b, mid[x] = c <- agg<<a = min(v), b = max(v), c = median(v)>> cost(x, v).

has one tree of values (x, v; eta) for all three.  It counts records, so that a group is found by
rank; median also needs the sum of eta.  A max that shares its state with no other stores ~v, which
reverses the order.  shared_states.py says how groups of several levels of detail share a state.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ivm.errors import AggregateError, ConstructError, RuleTypeError
from ivm.lang.aggregate import BY_RANK, LOWER, MEANS, PARTED, SQUARED, UPPER, serves_levels
from ivm.lang.ir import Aggregate, Atom, Predicate, Rule, Type, Value, Var, atoms, variables
from ivm.lang.types import has_ids
from ivm.names import APART, is_made
from ivm.plan.plan import Plan
from ivm.terms.encoder import plain_word
from pagestore.host import (
    CARRY,
    CHECKSUM,
    KEYS_MAX,
    MAX,
    MIN,
    THEN,
    Spec,
    has_inverse,
    is_operator,
    operator_code,
)
from pagestore.host import COUNT as COUNT_FOLD
from pagestore.host import SUM as SUM_FOLD

# the kind of a state, a group's key, a value
Wanted: TypeAlias = tuple[str, tuple[Var, ...], tuple[Var, ...]]


def chains(states: list[Wanted | None], serving: list[bool]) -> dict[Wanted, tuple[Var, ...]]:
    """Map each group that shares a state with others to the key of that state; `serving` says
    for each aggregate whether it can be computed from finer groups.
    """
    levels_of: dict[Wanted, tuple[Var, ...]] = {}
    distinct = [one for one in dict.fromkeys(states) if one and len({*one[1]}) == len(one[1])]
    free = {*distinct} - {
        one for one, serves in zip(states, serving, strict=True) if one and not serves
    }
    left = sorted(distinct, key=lambda one: (-len(one[1]), one in free))
    while left:
        chain = [left.pop(0)]
        for one in left:
            if one in free and one[::2] == chain[0][::2] and _fits(one, chain, chain[0] in free):
                chain.append(one)
        left = [one for one in left if one not in chain]
        if len(chain) > 1:
            levels = _key(chain) if chain[0] in free else chain[0][1]
            levels_of |= dict.fromkeys(chain, levels)
    return levels_of


def _fits(state: Wanted, chain: list[Wanted], free: bool) -> bool:
    """Return whether a group may be next in a chain. A key that is not `free` has its order."""
    finer = chain[-1][1] if free else chain[0][1][: len(state[1])]
    return {*state[1]} <= {*finer}


def _key(chain: list[Wanted]) -> tuple[Var, ...]:
    """Return the variables of the finest group, those of each coarser one first."""
    return tuple(dict.fromkeys(v for _, group, _ in reversed(chain) for v in group))


ALONE, PARTS, VALUES, INVERTED = "alone", "parts", "values", "inverted"
ENDS = {MIN: LOWER, MAX: UPPER}


class State(NamedTuple):
    """A tree of state: its name, its kind, the numbers of words of a group's key and of a value,
    and its operations.

    `texts` are the positions of texts among a value's words; `falling` says that values are
    complemented.  If it serves several levels of detail, `levels` are the variables of its key, and
    `folded` says whether coarser groups need the least value of a range (MIN) or the greatest
    (MAX).
    """

    name: str
    kind: str
    group: int
    values: int
    ops: tuple[str, ...] = ()
    texts: tuple[int, ...] = ()
    falling: bool = False
    levels: tuple[Var, ...] = ()
    folded: tuple[int, ...] = ()

    @property
    def squared(self) -> bool:
        """Whether parts of squares are stored, too."""
        return any(op in SQUARED for op in self.ops)

    @property
    def counted(self) -> bool:
        """Whether the number of assignments is stored as a part."""
        return any(op in MEANS for op in self.ops)

    @property
    def is_end(self) -> bool:
        """Whether only a group's first record matters: a least value, a greatest's complement."""
        serves = self.ops == ("min",) or (self.ops == ("max",) and self.falling)
        return (
            serves and self.kind == VALUES and self.values == 1 and not (self.texts or self.levels)
        )

    @property
    def visible(self) -> int:
        """The number of words of a record that can affect a view: with the support, if
        assignments are counted.
        """
        spec = self.spec
        shows_support = self.kind == ALONE or (
            self.kind == VALUES and not {*BY_RANK, "concat"}.isdisjoint(self.ops)
        )
        return spec.keys + spec.values - (not shows_support)

    @property
    def spec(self) -> Spec:
        """The shape of the tree."""
        if self.kind == ALONE:
            return Spec(0, 1, self.values)
        if self.kind == PARTS:
            return Spec(0, self.group + 1, 2, ((COUNT_FOLD, 0),))
        if self.kind == INVERTED:
            return Spec(0, self.group, 2)
        keys = self.group + self.values
        scans = [(COUNT_FOLD, 0)]
        if any(op in BY_RANK for op in self.ops):
            scans += [(SUM_FOLD, keys), (CARRY, keys)]
        if "concat" in self.ops:
            scans.append((CHECKSUM, keys + 1))
        for end in self.folded:
            scans += self.scan_of(end)
        scans += [
            (operator_code(op), keys - 1) for op in dict.fromkeys(self.ops) if is_operator(op)
        ]
        return Spec(0, keys, 1, (*scans,))

    def scan_of(self, end: int) -> tuple[tuple[int, int], ...]:
        """Return the scan for the least (`end` is MIN) or greatest (MAX) value in a range."""
        first, *others = range(self.group, self.group + self.values)
        return (end, first), *((THEN, column) for column in others)


class Fold(NamedTuple):
    """How a view's rows are computed from a state: the operation, its constants, the type of its
    argument and whether it numbers the rows of a group; `grouped` is False if there is one group.

    With several levels of detail, the view's group is the state's key without the last `between`
    words, and `order` has the position of each of the view's keys in it; it is empty if the order
    is the same.  A view without keys has the word `absent` if there is nothing to aggregate, if
    that is not None.
    """

    op: str
    state: State
    type: Type
    constants: tuple[Value, ...] = ()
    numbered: bool = False
    grouped: bool = True
    between: int = 0
    order: tuple[int, ...] = ()
    absent: int | None = None

    @property
    def group(self) -> int:
        """The number of words of the state's records that identify the view's groups."""
        return self.state.group - self.between

    @property
    def rows_max(self) -> int:
        """The most rows that a group has in the view."""
        (most,) = self.constants if self.numbered else (1,)
        assert isinstance(most, int)
        return most

    @property
    def is_text_ordered(self) -> bool:
        """Whether the order of texts matters, which is not that of their words."""
        return bool(self.state.texts) and self.op not in ("count_distinct", "concat")


def states_of(rule: Rule) -> list[State | None]:
    """Return the state of each head's aggregate, the same one if shared; None if none is needed."""
    wanted, keyed = _wanted_of(rule)
    return [key and _state(rule, wanted, n, keyed) for n, key in enumerate(wanted)]


def _wanted_of(rule: Rule) -> tuple[list[Wanted | None], dict[Wanted, tuple[Var, ...]]]:
    """Return what each head's aggregate wants, and the keys of states for several levels."""
    wanted = [_wanted(head, one) for head, one in zip(rule.heads, rule.aggregates, strict=True)]
    if not rule.levels:
        return wanted, {}
    pairs = zip(wanted, rule.aggregates, strict=True)
    return wanted, chains(wanted, [_serves_levels(rule, one.op, key) for key, one in pairs])


def may_be_partial(rule: Rule) -> bool:
    """Return whether a rule's state may keep few values of a group: its body is one atom."""
    alone = len(rule.body) == 1 and len([*atoms(rule.body[0])]) == 1
    return (
        alone and bool(rule.aggregates) and any(state and state.is_end for state in states_of(rule))
    )


def state_names(rule: Rule) -> list[str]:
    """Return the name of each head's state, empty if none is needed."""
    return [state.name if state else "" for state in states_of(rule)]


def _state(
    rule: Rule, states: list[Wanted | None], number: int, keyed: dict[Wanted, tuple[Var, ...]]
) -> State:
    """Return the state of the aggregate with a number; `keyed` has the keys of states for
    several levels of detail.
    """
    state = states[number]
    assert state
    (kind, group, values), levels = state, keyed.get(state, ())
    sharing = [
        n
        for n, other in enumerate(states)
        if other == state or (levels and _is_level(other, state, keyed))
    ]
    if kind == INVERTED:
        sharing = [n for n in sharing if rule.aggregates[n].op == rule.aggregates[number].op]
    ops = tuple(rule.aggregates[n].op for n in sharing)
    if kind == VALUES:
        texts = tuple(n for n, v in enumerate(values) if has_ids(rule.types[v.name]))
    else:
        texts = ()
    served = [(group_of(rule.heads[n], rule.aggregates[n]), rule.aggregates[n].op) for n in sharing]
    coarse = {op for keys, op in served if len(keys) < len(levels)}
    folded = () if texts else tuple(end for end, ops in ENDS.items() if not coarse.isdisjoint(ops))
    name = f"{APART}{rule.heads[sharing[0]].predicate}"
    if kind == ALONE:
        values = values or (rule.aggregates[sharing[0]].result,)
    words = 1 + (ops[0] == "sum") if kind == ALONE else len(values)
    key = levels or group
    return State(
        name,
        kind,
        max(1, len(key)),
        words,
        ops,
        texts,
        not levels and ops == ("max",),
        levels,
        folded,
    )


def _serves_levels(rule: Rule, op: str, state: Wanted | None) -> bool:
    """Return whether an aggregate can use finer groups' state; texts within an order prevent it."""
    if state is None or state[0] != VALUES or not serves_levels(op):
        return False
    return op in ("min", "max") or not any(has_ids(rule.types[v.name]) for v in state[2])


def _is_level(other: Wanted | None, state: Wanted, keyed: dict[Wanted, tuple[Var, ...]]) -> bool:
    """Return whether the same state of several levels serves another aggregate."""
    return other is not None and other[2] == state[2] and keyed.get(other) == keyed[state]


def _wanted(head: Atom, aggregate: Aggregate) -> Wanted | None:
    """Return what an aggregate stores: the kind, the group's key and the variables of a value;
    None for no state.
    """
    group, op = group_of(head, aggregate), aggregate.op
    if op in ("count", "sum", PARTED):
        return None if head.args else (ALONE, (aggregate.result,), ())
    if op in (*MEANS, "total"):
        return PARTS, group, aggregate.arguments
    if has_inverse(op):
        return INVERTED, group, aggregate.arguments
    return VALUES, group, value_of(aggregate, group)


def group_of(head: Atom, aggregate: Aggregate) -> tuple[Var, ...]:
    """Return the variables of a group's key."""
    args = head.args if aggregate.place is None else head.args[:-1]
    return tuple(arg for arg in args if isinstance(arg, Var))  # all are


def value_of(aggregate: Aggregate, group: Sequence[Var]) -> tuple[Var, ...]:
    """Return a value's variables in the order of its words: those that order, then results."""
    taken = aggregate.arguments[: len(aggregate.arguments) - aggregate.by]
    order = aggregate.arguments[len(taken) :]
    if aggregate.op not in ("argmin", "argmax", "top", "bottom"):
        order = tuple(v for v in order if v not in group)
    return order if order[-1:] == taken else order + taken


MORE = 1 << 50  # the support of a mark, which no other record has (ways/kept_extremes.py)
PLAIN, SUPPORT, COUNT, SUM, FOLD, RANKED = "plain", "support", "count", "sum", "fold", "ranked"
FALLING = "falling"  # of values whose complements are counted (views/heads.py)
RANGED, TEXT = "ranged", "text"  # of rules without plans (engine/schedule.py)


class Layout(NamedTuple):
    """How a predicate is stored: its key words, its shown value words, then hidden words (a
    support).

    A function without keys, f[] = t, is `bare`: its one record has t as its key.  A bare aggregate,
    and every one but count and sum, also has a tree of state (states.py), which is edited first;
    `fold` computes its rows.
    """

    kind: str
    keys: int
    shown: int
    hidden: int
    bare: bool = False
    fold: Fold | None = None

    @property
    def visible(self) -> int:
        """The number of words of a row that users see."""
        return self.keys + self.shown

    @property
    def compared(self) -> int | None:
        """How many words of a row the rules determine, None for all: ranks have a history."""
        return self.visible if self.kind == RANKED else None


def extensional_layout(predicate: Predicate) -> Layout:
    """Return the layout of a declared predicate.

    Raises ConstructError for too many keys, and RuleTypeError for a nullable one, which only a
    relation that exists in the store has.
    """
    keys = len(predicate.keys) if predicate.key_count is None else predicate.key_count
    # what one cell sends to another may have null in every column
    is_of_cells = "@" in predicate.name
    if predicate.nullable and predicate.nullable[0] < max(1, keys) and not is_of_cells:
        raise RuleTypeError(predicate.where, _why_not_null(predicate))
    if predicate.key_count is not None:
        return _checked(predicate, Layout(PLAIN, keys, len(predicate.types) - keys, 0))
    if not predicate.keys:
        return Layout(PLAIN, 1, 0, 0, bare=True)
    return _checked(
        predicate, Layout(PLAIN, len(predicate.keys), int(predicate.value is not None), 0)
    )


def _why_not_null(predicate: Predicate) -> str:
    """Return why a column that a declaration marks cannot be null."""
    column = predicate.columns[predicate.nullable[0]]
    if not predicate.keys:
        return (
            f"the value of {predicate.name}[] is the key of its one row, and a key is never null: "
            f"leave the ? out, and delete the row, `-{predicate.name}[].`, where there is no value"
        )
    if predicate.value is None and predicate.key_count is None:
        column += ", as every column of a declared relation,"
    return (
        f"{column} is a key, and a key is never null: only a function's value may be, and keys of "
        "relations that txn.create makes with keys_null=True"
    )


def view_layout(predicate: Predicate, writers: list[tuple[Rule, tuple[Plan, ...]]]) -> Layout:
    """Return the layout of a view, given its rules.  Raises ConstructError, AggregateError."""
    return _checked(predicate, _layout(predicate, writers))


def ranked_layout(predicate: Predicate, rules: list[Rule]) -> Layout:
    """Return a recursive view's layout, given all rules that write it. Raises ConstructError."""
    if not predicate.types:
        return _layout(predicate, [])
    aggregated = any(rule.aggregates for rule in rules)
    return _checked(
        predicate, Layout(RANKED, len(predicate.types) - aggregated, int(aggregated), 1)
    )


def _checked(predicate: Predicate, layout: Layout) -> Layout:
    """Return the layout.  Raises ConstructError, with the place, if its keys do not fit a tree."""
    keys = max(layout.keys, layout.fold.state.spec.keys if layout.fold else 0)
    if keys > KEYS_MAX:
        if not is_made(predicate.name):
            what = predicate.name
        else:
            what = "what is negated, or joined by `;` for an aggregate,"
        raise ConstructError(
            predicate.where,
            f"{what} has {keys} columns to tell its rows apart, and there can be {KEYS_MAX}; "
            "split it, or derive a part of it with fewer variables as a view of its own",
        )
    return layout


def _layout(predicate: Predicate, writers: list[tuple[Rule, tuple[Plan, ...]]]) -> Layout:
    if not predicate.types:
        raise ConstructError(
            predicate.where,
            "this aggregates over no variable, since one that occurs in one alternative of `;` "
            "only "
            "multiplies nothing; name one that every alternative binds, or that occurs outside",
        )
    if writers[0][0].range:
        return Layout(RANGED, len(predicate.keys), 1, 0)
    if writers[0][0].texts:
        keys = len(predicate.keys)
        return Layout(TEXT, max(1, keys), int(keys > 0), 0, bare=not keys)
    if not writers[0][0].reads:
        return Layout(PLAIN, len(predicate.types), 0, 0)
    if writers[0][0].aggregates:
        if len(writers) > 1:
            raise AggregateError(
                writers[-1][0].where,
                f"{predicate.name} is an aggregate and has one rule; "
                "derive the union as a view of its own and aggregate that",
            )
        return _aggregated(predicate, writers[0][0])
    words = len(predicate.types)
    (rule, plans), *others = writers
    if not others and len(plans) == 1 and is_projection_free(plans[0], rule.heads, predicate.name):
        return Layout(PLAIN, words, 0, 0)
    return Layout(SUPPORT, words, 0, 1)


def _aggregated(predicate: Predicate, rule: Rule) -> Layout:
    """Return the layout of an aggregate's view."""
    place = [head.predicate for head in rule.heads].index(predicate.name)
    aggregate, (wanted, keyed) = rule.aggregates[place], _wanted_of(rule)
    state = wanted[place] and _state(rule, wanted, place, keyed)
    kind = SUM if aggregate.op == PARTED else aggregate.op if aggregate.op in (COUNT, SUM) else FOLD
    fold = state and Fold(
        aggregate.op,
        state,
        rule.types[aggregate.argument.name] if aggregate.argument else "int64",
        tuple(const.value for const in aggregate.constants),
        aggregate.place is not None,
        len(predicate.keys) > (aggregate.place is not None),
        absent=None if aggregate.absent is None else plain_word(aggregate.absent),
    )
    if fold and fold.state.levels:
        keys = [fold.state.levels.index(v) for v in group_of(rule.heads[place], aggregate)]
        order = () if keys == sorted(keys) else tuple(keys)
        fold = fold._replace(between=fold.state.group - len(keys), order=order)
    if not predicate.keys:
        return Layout(kind, 1, 0, 0, bare=True, fold=fold)
    return Layout(kind, len(predicate.keys), 1, int(kind == SUM), fold=fold)


def is_projection_free(plan: Plan, heads: tuple[Atom, ...], name: str) -> bool:
    """Return whether the only head atom of this name has every key variable of the plan."""
    of_name = [head for head in heads if head.predicate == name]
    shown = {v.name for v in variables(*of_name)}
    return len(of_name) == 1 and all(v in shown or is_made(v) for v in plan.variables)
