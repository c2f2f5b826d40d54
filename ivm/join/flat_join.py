"""Run a full evaluation over flat tries.

A relation that a full evaluation scans anyway is decoded once, as a trie in one array (see
join/kernels/flat_join.py); atoms of the same relation and depth, and all threads, share that trie.
"""

import numpy as np

from ivm.errors import RangeError
from ivm.join.flat_layout import Layout
from ivm.join.join import BATCH, Run
from ivm.join.kernels import flat_join as kernel
from ivm.join.kernels import flat_layout, join_layout
from ivm.join.kernels.arguments import BitRows, FlatOutput, FlatRun, FlatTries, KeyTables
from pagestore.compiled import Door

RUN = Door(kernel.run_flat, FlatTries, FlatRun, KeyTables, BitRows, FlatOutput)


class FlatJoin(Run):
    """One evaluation over the flat tries of a Layout."""

    def __init__(self, layout: "Layout", *, batch: int = BATCH) -> None:
        flat, shape = layout.flat, layout.shape
        super().__init__(shape, layout.sensors, layout.granularity, True, batch, layout.room)
        self._flat, self._room = flat, layout.room
        self._steps, self._grounds = layout.steps.copy(), layout.grounds.copy()
        self._cursors = np.zeros((len(flat.place), flat_layout.CURSOR), np.int64)
        for o in range(0, len(flat.place), shape.argument_level.shape[1]):
            self._cursors[o, [flat_layout.START, flat_layout.END]] = flat.place[o, 0], flat.place[o, :2].sum()
        for o, owners in layout.owners.items():
            self._cursors[o, flat_layout.OWNERS] = owners
        self._numbers = np.zeros(layout.numbers, np.int64)
        self._bits = np.empty(layout.bits, np.int64)
        self._scratch = np.empty(layout.size, np.int64)
        self._marks = np.zeros((shape.levels, layout.marks), np.uint8)
        self._counts = np.zeros((shape.levels, layout.counts), np.int64)
        self._collects = layout.counts > 0
        self._codings, self._codes = layout.codings, layout.codes
        self._times = np.empty(batch, np.int64)

    def _advance(self) -> None:
        run = FlatRun(self._plan, self._state, self._steps, self._cursors, self._scratch)
        tables, rows = KeyTables(self._marks, self._counts), BitRows(self._grounds, self._numbers, self._bits)
        output = FlatOutput(self._out, self._times, self._rows, self._codes, self._room)
        fits = RUN.call(FlatTries(self._flat.data, self._flat.place), run, tables, rows, output)
        if not fits:
            raise RangeError("more than 2**63 bindings stand behind one row; they cannot be counted")
        if self._collects:
            self.times.append(self._times[: self._state[join_layout.EMITTED]].copy())
