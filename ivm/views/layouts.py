"""Layouts: the numbers of key words, value words and hidden words in a stored row of each predicate.

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
"""

from typing import NamedTuple

from ivm.errors import AggregateError, ConstructError
from ivm.lang.aggregate import PARTED
from ivm.lang.ir import Atom, Predicate, Rule
from ivm.lang.traverse import variables
from ivm.plan.plan import Plan
from ivm.views.states import Fold, group_of, states_of
from pagestore.host import KEYS_MAX

PLAIN, SUPPORT, COUNT, SUM, FOLD, RANKED = "plain", "support", "count", "sum", "fold", "ranked"
RANGED = "ranged"


class Layout(NamedTuple):
    """How a predicate is stored: its key words, its shown value words, then hidden words (a support).

    A function without keys, f[] = t, is `bare`: its one record has t as its key.  A bare aggregate, and every one but
    count and sum, also has a tree of state (states.py), which is edited first; `fold` computes its rows.
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
        """The number of words of a row that the rules determine, None for all: ranks depend on the history."""
        return self.visible if self.kind == RANKED else None


def extensional_layout(predicate: Predicate) -> Layout:
    """Return the layout of a declared predicate.  Raises ConstructError for too many keys, or a nullable one."""
    if predicate.key_count is not None:
        keys = predicate.key_count
        return _checked(predicate, Layout(PLAIN, keys, len(predicate.types) - keys, 0))
    if predicate.nullable and predicate.value is None:
        raise ConstructError(
            predicate.where, f"{predicate.columns[predicate.nullable[0]]} is a key, as all columns of a relation that "
            "a declaration makes, and a key is never null: only a function's value may be"
        )  # fmt: skip
    if not predicate.keys:
        return Layout(PLAIN, 1, 0, 0, bare=True)
    return _checked(predicate, Layout(PLAIN, len(predicate.keys), int(predicate.value is not None), 0))


def view_layout(predicate: Predicate, writers: list[tuple[Rule, tuple[Plan, ...]]]) -> Layout:
    """Return the layout of a view, given all rules that write it.  Raises ConstructError, AggregateError."""
    return _checked(predicate, _layout(predicate, writers))


def ranked_layout(predicate: Predicate, rules: list[Rule]) -> Layout:
    """Return the layout of a recursive view, given all rules that write it.  Raises ConstructError."""
    if not predicate.types:
        return _layout(predicate, [])
    aggregated = any(rule.aggregate for rule in rules)
    return _checked(predicate, Layout(RANKED, len(predicate.types) - aggregated, int(aggregated), 1))


def _checked(predicate: Predicate, layout: Layout) -> Layout:
    """Return the layout.  Raises ConstructError, with the predicate's place, if its keys do not fit a tree."""
    keys = max(layout.keys, layout.fold.state.spec.keys if layout.fold else 0)
    if keys > KEYS_MAX:
        what = predicate.name if "$" not in predicate.name else "what is negated, or joined by `;` for an aggregate,"
        raise ConstructError(
            predicate.where, f"{what} has {keys} columns to tell its rows apart, and there can be {KEYS_MAX}; "
            "split it, or derive a part of it with fewer variables as a view of its own"
        )  # fmt: skip
    return layout


def _layout(predicate: Predicate, writers: list[tuple[Rule, tuple[Plan, ...]]]) -> Layout:
    if "$" in predicate.name and not predicate.types:
        raise ConstructError(
            predicate.where, "this aggregates over no variable, since one that stands in one alternative of `;` only "
            "multiplies nothing; name one that every alternative holds, or that stands outside"
        )  # fmt: skip
    if not predicate.types:
        raise ConstructError(
            predicate.where, f"{predicate.name}() has no columns to keep a row in; give it one, as in "
            f"{predicate.name}(x) <- ..., x = 0"
        )  # fmt: skip
    if writers[0][0].range:
        return Layout(RANGED, len(predicate.keys), 1, 0)
    if writers[0][0].aggregates:
        if len(writers) > 1 or len(writers[0][1]) > 1:
            raise AggregateError(
                writers[-1][0].where, f"{predicate.name} is an aggregate and has one rule with one conjunction; "
                "derive the union as a view of its own and aggregate that"
            )  # fmt: skip
        return _aggregated(predicate, writers[0][0])
    words = len(predicate.types)
    (rule, plans), *others = writers
    if not others and len(plans) == 1 and is_projection_free(plans[0], rule.heads, predicate.name):
        return Layout(PLAIN, words, 0, 0)
    return Layout(SUPPORT, words, 0, 1)


def _aggregated(predicate: Predicate, rule: Rule) -> Layout:
    """Return the layout of an aggregate's view."""
    place = [head.predicate for head in rule.heads].index(predicate.name)
    aggregate, state = rule.aggregates[place], states_of(rule)[place]
    kind = SUM if aggregate.op == PARTED else aggregate.op if aggregate.op in (COUNT, SUM) else FOLD
    fold = state and Fold(
        aggregate.op,
        state,
        rule.types[aggregate.argument.name] if aggregate.argument else "int64",
        tuple(const.value for const in aggregate.constants),
        aggregate.place is not None,
        len(predicate.keys) > (aggregate.place is not None),
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
    return len(of_name) == 1 and all(v in shown or v.startswith("$") for v in plan.variables)
