"""Rules as a host of stores: views follow what `store.transaction()` changes, as they follow a workspace's edits.

with workspace.store.transaction() as txn:            or pagestore.open(file).transaction(), or one of a branch
    txn["edge"].delete([(1, 2)])                      at its commit the views follow, in the same version
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any
from weakref import WeakSet

from ivm.check.check import check
from ivm.engine.engine import Engine
from ivm.engine.installed import PROPERTY, Installed
from ivm.engine.stored import HOST, built_in, dependants_of, load, save
from ivm.errors import IvmError
from ivm.plan.constants import encoder
from pagestore.host import (
    Dependants,
    Snapshot,
    Store,
    Transaction,
    Tree,
    Violation,
    record_dependants,
    recorded_dependants,
    register_host,
)

workspaces: "WeakSet[Any]" = WeakSet()  # those that are open in this process


class Rules:
    """All rules that are installed anywhere, as pagestore's stores see them (see pagestore/versions/dependants.py)."""

    name, mark = HOST, PROPERTY

    def carry(self, txn: Transaction, before: Mapping[str, Tree]) -> Callable[[], None]:
        """Maintain the views of a transaction's version; workspaces over its branch are told after the commit."""
        over = [one for one in [*workspaces] if one.store.owns(txn)]
        installed = over[0].rules_of(txn) if over else load(txn)
        watched = {name for one in over for name in one.subscriptions}
        built = built_in(txn)
        engine = Engine(txn, installed, encoder(txn), txn.threads, watched, built=dict(built))
        engine.carry_on(before)
        if engine.built != built or HOST not in txn.base.catalog.dependants:
            save(txn, installed, engine.built)
        return partial(_tell, [one for one in over if one.store.owns(txn, main=True)], engine)

    def dependants(self, txn: Transaction) -> Dependants | None:
        """What an earlier release has installed; nothing if it cannot be read, for then it is not evaluated either."""
        try:
            found = dependants_of(load(txn, str(txn.base.catalog.properties[PROPERTY])))
        except IvmError:
            return None
        return found if found.reads or found.keeps else None

    def check(self, store: Store, progress: Callable[[str], None]) -> list[Violation]:
        """See check/check.py; of the newest version of each branch."""
        found = []
        for branch in store.branches:
            with store.sketch(branch) as sketch:
                found += check(sketch, load(sketch), progress)
        return found


def _tell(over: list[Any], engine: Engine) -> None:
    """Workspaces hear of what has been committed, all of them."""
    with ExitStack() as stack:
        for one in over:
            stack.callback(one.committed, engine)


def record_heads(store: Store, rules_of: Callable[[Snapshot], Installed]) -> None:
    """Make each branch say what its views stand on, where an earlier release has not; mostly there is nothing to do."""
    for branch in store.branches:
        with store.snapshot(branch) as snap, suppress(IvmError):
            installed = rules_of(snap)
            said = dependants_of(installed)
            if installed.blocks and said != recorded_dependants(snap.properties).get(HOST):
                with store.transaction("say what views stand on", branch) as txn:
                    txn.vouch(HOST)
                    record_dependants(txn, said)


register_host(Rules())
