"""Sensitivity indices: trace rows in, matches out (*Sensitivity indices*).

An index is an interval tree over (alpha..., a, b, gamma...): what precedes the argument in its atom,
the interval an operation was sensitive to, and the key variables bound before that the atom lacks.
"""

import numpy as np

from ivm.plan.plan import Sensor
from pagestore.host import ERASE, INSERT, Pages, Spec, Tree, compose_edits, interval_spec, stab_many


def index_spec(sensor: Sensor) -> Spec:
    """The shape of a sensor's index; its tree id is the store's to give."""
    return interval_spec(0, sensor.depth, len(sensor.columns) - sensor.depth - 2)


def matches(pages: Pages, index: Tree, surgeries: np.ndarray) -> np.ndarray:
    """The rows int64[C, m] whose interval holds one of surgeries[depth, n].  O((n + m) log size)."""
    return stab_many(pages, index, surgeries)


def regions(sensor: Sensor, rows: np.ndarray) -> np.ndarray:
    """Matched rows as regions of the oracle, int64[level + 2, m]: the prefix by level, then [a, b]."""
    places = [sensor.columns.index(level) for level in range(sensor.level)]
    return rows[[*places, sensor.columns.index(-1), sensor.columns.index(-2)]]


def renewal(index: Tree, matched: np.ndarray, recorded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One batch of edits that removes what was matched and adds what was recorded anew.

    A row in both stays untouched, so that a page is rewritten only where the trace changed.
    """
    actions = np.repeat([ERASE, INSERT], [matched.shape[1], recorded.shape[1]])
    return compose_edits(actions, np.concatenate([matched, recorded], axis=1), index.spec)
