"""Is all that is kept for rules as it follows from base relations?  It is made anew in a sketch, and compared.

    view rows      a view has the rows that its rules derive, through the views between, and no others
    support        a row has as many derivations as is kept behind it, a sum or a count the value that follows
    aggregate      what is kept apart for min, max, total and aggregates without keys is what follows
    index          a permuted index has the rows of its relation
    sensitivity    a sensitivity index is sound (soundness.py)
    functions      rules can be evaluated at all: no key has two values, no sum is out of range
    dependants     the version says who stands on which relations

Names of trees and rows that differ are in the sentence of each violation.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ivm.check.rebuild import Progress, rebuild
from ivm.check.soundness import Soundness
from ivm.engine.installed import Installed, InstalledRule, index_columns
from ivm.engine.stored import HOST, dependants_of
from ivm.errors import MaintainError
from ivm.plan.index import tree_name
from ivm.views.aggregate_state import keeps_state, state_name
from pagestore.host import ERASE, Delta, EphemeralTransaction, Tree, Violation


class Difference(NamedTuple):
    """How a tree is other than what follows: whether only in words that nobody sees, and a sentence."""

    hidden: bool
    fact: str


def check(sketch: EphemeralTransaction, installed: Installed, progress: Progress) -> list[Violation]:
    """What is wrong in the version that a sketch is over; the sketch holds what follows then.  O(evaluating all)."""
    try:
        rebuild(sketch, installed, installed.rules, progress=progress)
    except MaintainError as error:
        return [_violation("functions", str(error))]
    return [
        *_said(sketch, installed),
        *(one for name in installed.layouts for one in _predicate(sketch, installed, name, progress)),
        *(one for views in installed.rules for one in _sensitivity(sketch, views, progress)),
    ]


def _said(sketch: EphemeralTransaction, installed: Installed) -> Iterator[Violation]:
    """Does the version say who stands on which relations?"""
    if installed.blocks and sketch.base.catalog.dependants.get(HOST) != dependants_of(installed):
        yield _violation("dependants", "the version does not say what its views stand on; `ivm fsck --repair` does")


def _predicate(
    sketch: EphemeralTransaction, installed: Installed, name: str, progress: Progress
) -> Iterator[Violation]:
    """A view, what is kept apart of it, and the permuted indices of a predicate."""
    progress(f"comparing {name}")
    predicate, layout = installed.program.predicates[name], installed.layouts[name]
    if predicate.extensional and before(sketch, name) is None:
        yield _violation("view rows", f"{name}, which rules read, is missing")
    if not predicate.extensional:
        found = difference(sketch, name, predicate.types)
        if found:
            yield _violation("support" if found.hidden else "view rows", f"{name}: {found.fact}")
        if keeps_state(layout) and (found := difference(sketch, state_name(name), ())):
            yield _violation("aggregate", f"{state_name(name)}: {found.fact}")
    for index in installed.indices.get(name, ()):
        types = [predicate.types[column] for column in index_columns(index, layout)]
        if found := difference(sketch, tree_name(index), types):
            yield _violation("index", f"{tree_name(index)}, of {name}: {found.fact}")


def _sensitivity(sketch: EphemeralTransaction, views: InstalledRule, progress: Progress) -> Iterator[Violation]:
    """The sensitivity indices of a rule."""
    for p, plan in enumerate(views.plans):
        names = [views.sense_name(p, s) for s in range(len(plan.sensors))]
        kept, fresh = [before(sketch, name) for name in names], [sketch.tree(name) for name in names]
        gone = [name for name, tree in zip(names, kept, strict=True) if tree is None]
        yield from (_violation("sensitivity", f"{name}, of {', '.join(views.writes)}: it is missing") for name in gone)
        if gone:
            continue
        trees = [sketch.tree(tree_name(trie.index)) for trie in plan.tries]
        soundness = Soundness(sketch.pages, plan, trees, [tree for tree in kept if tree], fresh)
        for s, name in enumerate(names):
            progress(f"{name}, of {', '.join(views.writes)}")
            if gap := soundness.gap(s):
                context, value = gap
                words = {**context, plan.sensors[s].level: value}
                where = ", ".join(f"{plan.variables[level]} = {word}" for level, word in sorted(words.items()))
                atom = plan.tries[plan.sensors[s].trie].text
                yield _violation(
                    "sensitivity", f"{name}, of {', '.join(views.writes)}: no interval of {atom} holds {where} (words)"
                )


def difference(sketch: EphemeralTransaction, name: str, types: Sequence[str]) -> Difference | None:
    """How a tree was other than what a sketch has made of it; its first words have types, the others are shown bare."""
    old, new = before(sketch, name), sketch.tree(name)
    if old is None:
        return Difference(False, "it is missing")
    if old.spec[1:3] != new.spec[1:3]:
        shapes = (f"{spec.keys} key and {spec.values} value words" for spec in (old.spec, new.spec))
        return Difference(False, "it has {}, and should have {}".format(*shapes))
    for actions, rows in Delta(sketch.pages, old, new):
        keys, seen = new.spec.keys, len(types) or len(rows)
        counts = f"; {old.count:,} records, and {new.count:,} follow"
        if len(actions) > 1 and (rows[:keys, 0] == rows[:keys, 1]).all():
            hidden = seen < len(rows) and (rows[:seen, 0] == rows[:seen, 1]).all()
            was, follows = (_shown(sketch, types, row) for row in rows[:, :2].T)
            return Difference(bool(hidden), f"it has {was}, and {follows} follows{counts}")
        row = _shown(sketch, types, rows[:seen, 0])
        what = f"{row}, which does not follow" if actions[0] == ERASE else f"no {row}, which follows"
        return Difference(False, f"it has {what}{counts}")
    return None


def before(sketch: EphemeralTransaction, name: str) -> Tree | None:
    """A tree as it is in the version that a sketch is over."""
    info = sketch.base.catalog.relations.get(name)
    return sketch.base.trees[info.spec.tree_id] if info else None


def _shown(sketch: EphemeralTransaction, types: Sequence[str], words: np.ndarray) -> str:
    """A record for a reader."""
    values = [sketch.decode(type_, words[c : c + 1])[0].as_py() for c, type_ in enumerate(types)]
    return f"({', '.join(map(str, (*values, *words[len(types) :].tolist())))})"


def _violation(invariant: str, fact: str) -> Violation:
    return Violation(invariant, None, (), fact)
