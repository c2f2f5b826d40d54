"""One bit of a store's file is turned, closed or not: the answer is right, or an error, and never
an older one unsaid.

A slot that is damaged is told from one that was never written, since the commit that it named
stands in the file.
"""

from collections import Counter
from random import Random
from warnings import catch_warnings, simplefilter

from pagestore.errors import CorruptionError, FormatError, RecoveryWarning
from pagestore.storage.meta import SIZE, SLOT_SIZE
from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from tests.support.simulator import SimulatedFile

Rows = dict[int, list[tuple[int, str]]]


def run(seed: int, amount: int) -> Counter[str]:
    """Turn `amount` bits, one at a time, every other one in a meta slot; raises AssertionError."""
    counts: Counter[str] = Counter()
    rng = Random(seed)
    while counts["flips"] < amount:
        sync, closed = rng.choice(["full", "commit"]), rng.random() < 0.4
        versions, image = _store(rng, sync, closed)
        for _ in range(min(300, amount)):
            slot = rng.randrange(2) if rng.random() < 0.5 else None
            byte = (
                rng.randrange(len(image))
                if slot is None
                else SLOT_SIZE * slot + rng.randrange(SIZE)
            )
            bit = rng.randrange(8)
            try:
                outcome = _flipped(image, byte, bit, versions)
            except AssertionError as error:
                raise AssertionError(
                    f"seed {seed}, {counts}: bit {bit} of byte {byte}, {sync}, {error}"
                ) from error
            counts["flips"] += 1
            counts[outcome] += 1
    return counts


def _store(rng: Random, sync: str, closed: bool) -> tuple[Rows, bytes]:
    file = SimulatedFile(empty_store(4096), limit=1 << 22)
    store = Store(Handle(file, sync=sync))
    versions: Rows = {0: []}
    rows: dict[int, str] = {}
    for _ in range(rng.randrange(3, 8)):
        rows |= {
            rng.randrange(300): "x" * rng.choice([1, 5, 3000]) for _ in range(rng.choice([1, 60]))
        }
        with store.transaction() as txn:
            if "r" not in txn:
                txn.create("r", "k: int64, v: string", key="k", scans=["count"])
            txn["r"].set(list(rows.items()))
        versions[store.version] = sorted(rows.items())
    if closed:
        store.close()
    if closed and rng.random() < 0.5:  # the other slot says yet that it was closed
        file = SimulatedFile(file.content(), limit=1 << 22)
        store = Store(Handle(file, sync=sync))
        with store.transaction() as txn:
            txn["r"].set([(7, "again")])
        versions[store.version] = sorted((rows | {7: "again"}).items())
    store._handle.open = False
    return versions, file.content()


def _flipped(image: bytes, byte: int, bit: int, versions: Rows) -> str:
    """What became of a store, one bit of which was turned."""
    flipped = bytearray(image)
    flipped[byte] ^= 1 << bit
    with catch_warnings(record=True) as warned:
        simplefilter("always")  # also one that was seen before
        try:
            store = Store(Handle(SimulatedFile(bytes(flipped), limit=1 << 22)))
            newest = store.version == max(versions)
            for info in store.history():
                with store.at(info.version) as snapshot:
                    found = list(snapshot["r"]) if "r" in snapshot else []
                    assert found == versions[info.version], f"version {info.version} is another"
            store._handle.open = False
        except (CorruptionError, FormatError):
            return "an error"
    said = any(issubclass(w.category, RecoveryWarning) for w in warned)
    if newest:
        return "right, with a warning" if said else "right"
    assert said, "an older version without a word"
    assert byte >= 2 * SLOT_SIZE, "a damaged slot takes a commit back"
    return "an older version, with a warning"
