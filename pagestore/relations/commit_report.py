"""What a commit did, for loggers and metrics (see runtime/reports.py): rows by relation, views,
seconds and syncs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from pagestore.pages.layout import Pages
from pagestore.runtime.reports import COMMIT, measure
from pagestore.trees.compare import Delta
from pagestore.trees.tree import Tree
from pagestore.versions.catalog import Catalog
from pagestore.versions.committer import Committer

SYNCS_EACH = {"full": 2, "commit": 1, "off": 0}


class CommitReport:
    """Measures one commit, from its beginning."""

    def __init__(self, committer: Committer) -> None:
        self._began, self._committer = time.perf_counter(), committer
        self._path = str(self._committer.mapping.file.path)
        self._completed = self._committer.completed
        self._rows: dict[str, int] = {}
        self._views: set[str] = set()

    def count(
        self, pages: Pages, catalog: Catalog, before: Mapping[int, Tree], after: Mapping[int, Tree]
    ) -> None:
        """Count the rows inserted into relations and views, or deleted; an update is both.
        O(changes * height).
        """
        began = time.perf_counter()
        for name, info in catalog.relations.items():
            old, new = before.get(info.spec.tree_id), after[info.spec.tree_id]
            if "$" in name or new == old:
                continue
            old = old if old is not None and old.spec == new.spec else None
            changed = (
                sum(len(actions) for actions, _ in Delta(pages, old, new)) if old else new.count
            )
            if changed:
                self._rows[name] = changed
        kept = (name for dependent in catalog.dependants.values() for name in dependent.keeps)
        self._views = self._rows.keys() & {*kept}
        self._began += time.perf_counter() - began  # counting does not belong to the commit

    def finish(self, version: int) -> None:
        """Report the commit, which is durable."""
        seconds = time.perf_counter() - self._began
        syncs = SYNCS_EACH[self._committer.sync] * (self._committer.completed - self._completed)
        rows, views = (
            {n: c for n, c in self._rows.items() if (n in self._views) == view}
            for view in (False, True)
        )
        if COMMIT.isEnabledFor(logging.DEBUG):
            said = f"{_listed(rows) or 'no rows'}{'; views: ' * bool(views)}{_listed(views)}"
            fields = {
                "path": self._path,
                "rows": rows,
                "views": views,
                "seconds": seconds,
                "syncs": syncs,
            }
            COMMIT.debug(
                "version %d of %s: %s; %.6f s, %d syncs",
                version,
                self._path,
                said,
                seconds,
                syncs,
                extra={"version": version, **fields},
            )
        measure(
            self._path, "db.client.operation.duration", seconds, {"db.operation.name": "COMMIT"}
        )
        measure(self._path, "pagestore.commit.syncs", syncs)
        for name, count in self._rows.items():
            view = str(name in self._views).lower()
            measure(
                self._path,
                "pagestore.commit.rows",
                count,
                {"db.collection.name": name, "pagestore.view": view},
            )


def _listed(rows: Mapping[str, int]) -> str:
    """Return counts of rows by name as text."""
    return ", ".join(f"{name} {count}" for name, count in rows.items())
