"""Sensitivity indices: store trace rows, and return those that a surgery matches (*Sensitivity indices*).

A row (alpha..., a, b, gamma...) says that an iterator operation was sensitive to the interval [a, b] of an atom's
argument; alpha are the arguments before it, gamma the variables bound before that the atom lacks. An index is an
interval tree of these rows.
"""

import numpy as np

from ivm.plan.plan import Sensor
from pagestore.host import ERASE, INSERT, Pages, Spec, Tree, compose_edits, interval_spec, stab_many


def index_spec(sensor: Sensor) -> Spec:
    """Return the Spec of a sensor's index; the store assigns the tree id."""
    return interval_spec(0, sensor.depth, len(sensor.columns) - sensor.depth - 2)


def matches(pages: Pages, index: Tree, surgeries: np.ndarray) -> np.ndarray:
    """Return the rows int64[C, m] whose alpha and interval hold one of surgeries[depth, n].  O((n + m) log size)."""
    return stab_many(pages, index, surgeries)


def regions(sensor: Sensor, rows: np.ndarray) -> np.ndarray:
    """Return matched rows as regions of the oracle, int64[level + 2, m]: the prefix by level, then [a, b]."""
    places = [sensor.columns.index(level) for level in range(sensor.level)]
    return rows[[*places, sensor.columns.index(-1), sensor.columns.index(-2)]]


def renewal(index: Tree, matched: np.ndarray, recorded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one batch of edits that erases the matched rows and inserts the recorded ones.

    A row that is in both is not edited, so only pages where the trace changed are rewritten.
    """
    actions = np.repeat([ERASE, INSERT], [matched.shape[1], recorded.shape[1]])
    return compose_edits(actions, np.concatenate([matched, recorded], axis=1), index.spec)
