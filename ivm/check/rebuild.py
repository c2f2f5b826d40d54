"""InstalledRule and all that is kept for them made anew, from base relations and nothing else."""

from collections.abc import Callable, Iterator, Sequence

from ivm.engine.engine import Engine
from ivm.engine.installed import Installed, InstalledRule
from ivm.engine.stored import provide
from ivm.plan.constants import encoder
from pagestore.host import Transaction

Progress = Callable[[str], None]  # is told what is being done


def silent(text: str) -> None:
    """Nobody is told."""


def rebuild(
    txn: Transaction,
    installed: Installed,
    rules: Sequence[InstalledRule],
    recording: bool = True,
    progress: Progress = silent,
) -> dict[str, tuple[int, int]]:
    """Make anew what some rules keep, in dependency order; scans of views stay.  Returns the sizes of what was built.

    Every rule that writes what they read is among them.  Without `recording` there are no sensitivity indices then.
    Raises MaintainError.
    """
    views = {name for one in rules for name in one.writes}
    scans = {name: txn[name].scans for name in views if name in txn}
    for name in installed.kept_by(rules):
        if name in txn:
            txn.drop(name)
    for predicate in installed.program.predicates.values():
        if predicate.extensional or predicate.name in views:
            provide(txn, predicate, installed)
    engine = Engine(txn, installed, encoder(txn), txn.threads, recording=recording)
    engine.fill(_telling(rules, progress))
    for name, texts in scans.items():
        for text in texts:
            txn.add_scan(name, text)
    return engine.built


def beneath(installed: Installed, name: str) -> list[InstalledRule]:
    """The rules that a view follows from, its own last."""
    wanted, found = {name}, []
    for views in reversed(installed.rules):
        if wanted.intersection(views.writes):
            found.append(views)
            wanted.update(views.reads)
    return found[::-1]


def _telling(rules: Sequence[InstalledRule], progress: Progress) -> Iterator[InstalledRule]:
    """Some rules, each told of when it is come to."""
    for number, views in enumerate(rules, 1):
        progress(f"evaluating {', '.join(views.writes)}, {number} of {len(rules)}")
        yield views
