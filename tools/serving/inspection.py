"""What the page of `ivm studio` and the tools of `ivm mcp` say of a store: bounded answers, as
dicts and lists.

Cells are values of Python; each side writes them in its own way.  Names that rules keep for
themselves are left out.

Edits are previewed, then committed with the token of the preview, on the version that it was made
for.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm
from ivm import Answer, IvmError
from ivm.sql import edits_rows, is_helper, names_of, reads_only, statement_of
from pagestore import Relation
from pagestore.errors import SchemaError
from pagestore.host import MAIN
from pagestore.tooling import type_of_arrow

from ..cli.answers import counted, spelt
from ..cli.entered import is_sql
from ..cli.rows import cell
from ..cli.workspace_options import CHANGE, changes
from ..rule_commands.explain import parts
from ..rule_commands.shell import is_edit

ROWS, ROWS_MAX = 100, 1000  # of a page
CELLS_MAX = 20_000  # of a page, of tables with many columns
CHANGES_MAX = 50  # rows of a relation that are listed as changed
COUNTED_MAX = 1_000_000  # changed rows that are counted
TEXT_MAX = 20_000  # characters of a text outside of rows
KEPT = 4  # answers whose further pages may be read
PENDING = 64  # previews that may be committed
PLACES_MAX = 1 << 48  # more rows than a store has
NODES = 80  # names in the picture of what reads what

Data = dict[str, Any]


class Inspector:
    """Answers questions about a store. Threads may share it; it locks only to commit."""

    def __init__(self, file: str, writes: bool) -> None:
        """Open a file's store, which must exist; `writes` says whether edits may be committed."""
        self.file, self.writes = file, writes
        self.workspace = ivm.open(file, mode="r", create=False)
        self.workspace.files_allowed = False
        self._answers: OrderedDict[tuple[int, str], Answer] = OrderedDict()
        self._pending: OrderedDict[str, Callable[[ivm.Workspace], int]] = OrderedDict()
        self._guard = threading.Lock()

    def close(self) -> None:
        """Close the store."""
        self.workspace.close()

    # -- what there is

    def overview(self, at: int | None = None) -> Data:
        """Return the version, and each relation and view with its rows."""
        with self._at(at) as past:
            installed = self.workspace.rules_of(past.snapshot)
            version = past.snapshot.version
            return {
                "file": str(self.workspace.store.path),
                "version": version,
                "newest": self.workspace.store.version,
                "writes": self.writes,
                "blocks": [block.name for block in installed.blocks],
                "predicates": [
                    {"name": name, "kind": _kind(name, installed), "rows": len(past[name])}
                    for name in _names(past.snapshot, installed)
                ],
            }

    def describe(self, name: str, at: int | None = None) -> Data:
        """Return the columns of a relation or view, what it reads and what reads it, and the
        rules of its block.
        """
        with self._at(at) as past:
            installed = self.workspace.rules_of(past.snapshot)
            source = past[name]
            blocks = [
                block
                for block in installed.blocks
                if block.name == name or name in block.part.predicates
            ]
            home = next((b for b in blocks if b.name == name), blocks[0] if blocks else None)
            reads = _read_by(installed)
            return {
                "name": name,
                "version": past.snapshot.version,
                "kind": _kind(name, installed),
                "rows": len(source),
                "columns": _columns(source if isinstance(source, Relation) else source.to_arrow()),
                "reads": sorted(reads.get(name, set()) - {name}),
                "read_by": sorted(
                    other for other, names in reads.items() if name in names and name != other
                ),
                "block": home.name if home else None,
                "text": (statement_of(home.text) or home.text) if home else None,
            }

    def dependencies(self, name: str = "", at: int | None = None) -> Data:
        """Return which names read which, as nodes with levels and edges: all, or those that a name
        depends on or feeds.

        A relation is on level 0, and a view above all that it reads, except what reads it in turn.
        """
        with self._at(at) as past:
            installed = self.workspace.rules_of(past.snapshot)
            names = _names(past.snapshot, installed)
            read_by = _read_by(installed)
            reads = {view: read_by.get(view, set()) & {*names} for view in names}
            below = {view: _reached(view, reads) for view in names}
            levels: dict[str, int] = {}
            for view in sorted(names, key=lambda view: len(below[view])):
                levels[view] = max(
                    (1 + levels.get(r, 0) for r in reads[view] if view not in below[r]), default=0
                )
                levels[view] = max(levels[view], int(_kind(view, installed) == "view"))
            near = [
                view
                for view in names
                if not name or view == name or view in below.get(name, ()) or name in below[view]
            ]
            shown = near[:NODES]
            return {
                "version": past.snapshot.version,
                "nodes": [
                    {"name": view, "kind": _kind(view, installed), "level": levels[view]}
                    for view in shown
                ],
                "edges": [[r, view] for view in shown for r in sorted(reads[view]) if r in shown],
                "more": len(near) - len(shown),
            }

    def explain(self, text: str) -> Data:
        """Return how a view, or rules of a query, are evaluated and maintained: sentences, and
        the plan's lines.
        """
        sentences, plan = parts(self.workspace.explain(text))
        return {"sentences": sentences, "plan": [[label, said] for label, said in plan]}

    def rows(self, name: str, at: int | None = None, offset: int = 0, limit: int = ROWS) -> Data:
        """Return rows of a relation or view from a place on, in key order."""
        with self._at(at) as past:
            return {
                "name": name,
                "version": past.snapshot.version,
                **_page(past[name], offset, limit),
            }

    # -- questions

    def query(self, text: str, at: int | None = None, offset: int = 0, limit: int = ROWS) -> Data:
        """Return the rows of a query, in SQL or as rules. Raises IvmError for one that edits."""
        if is_sql(text) and not reads_only(text):
            raise IvmError(
                "this changes rows or declarations, and here are questions only: preview an edit"
            )
        if not is_sql(text) and is_edit(text):
            raise IvmError("this is an edit, and here are questions only: preview it")
        with self._at(at) as past:
            version = past.snapshot.version
            answer = self._kept(version, text, past.sql if is_sql(text) else past.query)
            return {"version": version, **_page(answer, offset, limit)}

    def _kept(self, version: int, text: str, run: Callable[[str], Answer | None]) -> Answer:
        """Return the answer to a query, kept a while, so that its pages are of one evaluation."""
        with self._guard:
            answer = self._answers.pop((version, text), None)
        answer = run(text) if answer is None else answer
        if answer is None:
            raise IvmError("this statement has no rows")
        with self._guard:
            self._answers[version, text] = answer
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
        return answer

    def why(self, fact: str, at: int | None = None, most: int = 1) -> Data:
        """Return why a row is in a view, or why not; `fact` is as for Workspace.why."""
        reasons = self.workspace.why(fact, version=at, most=most)
        return {**reasons.data, "text": str(reasons)}

    def why_row(self, name: str, at: int, place: int) -> Data:
        """Return all of a row, by its place in key order, and why it is there."""
        with self._at(at) as past:
            page = _page(past[name], place, 1)
        if not page["rows"]:
            raise IvmError(f"version {at} of {name} has {page['total']:,} rows: none at {place:,}")
        try:
            reasons = self.workspace.why(name, tuple(page["rows"][0]), version=at)
            return {**page, "why": {**reasons.data, "text": str(reasons)}}
        except IvmError as error:
            return {**page, "error": str(error)}

    # -- versions

    def history(self, offset: int = 0, limit: int = ROWS) -> Data:
        """Return the versions that are kept, newest first."""
        offset, limit = _place(offset), _within(limit, ROWS_MAX)
        commits = self.workspace.store.history(offset + limit + 1)[offset:]
        listed = [commit._asdict() for commit in commits[:limit]]
        return {"versions": listed, "more": len(commits) > limit}

    def differences(self, old: int, new: int) -> Data:
        """Return how each relation and view differs between two versions: how many rows, and the
        first of them.
        """
        with self._at(old) as before, self._at(new) as after:
            rules, rules_before = (self.workspace.rules_of(one.snapshot) for one in (after, before))
            names = _names(after.snapshot, rules)
            names_before = _names(before.snapshot, rules_before)
            changes = []
            for name in names:
                entry = {"name": name, "kind": _kind(name, rules)}
                if name not in names_before:
                    changes.append({**entry, "note": f"made, {counted(len(after[name]), 'row')}"})
                elif any(
                    map(
                        partial(_differs, before.snapshot, after.snapshot),
                        _stored(name, after.snapshot),
                    )
                ):
                    changes.append({**entry, **self._difference(name, before, after)})
            gone = [name for name in names_before if name not in names]
            changes += [
                {"name": name, "kind": _kind(name, rules_before), "note": "removed"}
                for name in gone
            ]
        return {"old": old, "new": new, "changes": [one for one in changes if len(one) > 2]}

    def _difference(self, name: str, before: Any, after: Any) -> Data:
        store, old, new = self.workspace.store, before.snapshot.version, after.snapshot.version
        try:
            whole = name in after.snapshot
            return _summary(
                store.diff(old, new, name) if whole else after.changes(name, before).to_reader()
            )
        except SchemaError:
            return {"note": "made anew, with other columns"}

    def branches(self) -> Data:
        """Return each branch with its newest version, and the newest versions of all, each with
        its parents.
        """
        heads = self.workspace.store.branches
        listed = [{"name": name, "version": version} for name, version in heads.items()]
        return {"branches": listed, **self.history()}

    # -- edits

    def preview(self, text: str) -> Data:
        """Return what edits, in SQL or as rules, would change, and a token to commit them with."""
        preview = self.workspace.preview(_edits(text))

        def commit(workspace: ivm.Workspace) -> int:
            return workspace.commit_at(preview.version, _edits(text))

        return self._previewed(preview.version, preview.changes, commit)

    def merge(self, branch: str, into: str = MAIN, on_conflict: str = "") -> Data:
        """Return what a merge would change in a branch, its conflicts, and a token to commit it
        with; `on_conflict` is as for Store.merge.
        """
        before = self.workspace.store.branches
        rule = on_conflict or None
        merged = self.workspace.store.merge(branch, into, rule, dry_run=True)

        def commit(workspace: ivm.Workspace) -> int:
            heads = workspace.store.branches
            for name in (branch, into):
                if heads.get(name) != before[name]:
                    raise IvmError(f"branch {name!r} has changed since: look at the merge again")
            return workspace.store.merge(branch, into, rule).version

        rows = [[c.relation, *map(_written, c[1:5])] for c in merged.conflicts[:CHANGES_MAX]]
        columns = [
            {"name": name, "type": "", "key": False}
            for name in ("relation", "key", "before", f"on {into}", f"on {branch}")
        ]
        conflicts = {"columns": columns, "rows": rows, "offset": 0, "total": len(merged.conflicts)}
        return {**self._previewed(merged.version, merged.changes, commit), "conflicts": conflicts}

    def _previewed(
        self, version: int, tables: Mapping[str, pa.Table], commit: Callable[[ivm.Workspace], int]
    ) -> Data:
        """Return what would change in a version, and a token by which `commit` is called."""
        changes = []
        with self._at(version) as past:
            installed = self.workspace.rules_of(past.snapshot)
            for name in dict.fromkeys([*_names(past.snapshot, installed), *tables]):
                if name in tables and _is_shown(name, installed):
                    kind, amounts = _kind(name, installed), _summary(tables[name].to_reader())
                    changes.append({"name": name, "kind": kind, **amounts})
        token = secrets.token_urlsafe(16)
        with self._guard:
            self._pending[token] = commit
            while len(self._pending) > PENDING:
                self._pending.popitem(last=False)
        return {"version": version, "token": token, "writes": self.writes, "changes": changes}

    def commit(self, token: str) -> Data:
        """Commit what was previewed, if no other commit came since; return the version."""
        if not self.writes:
            raise IvmError("this was started to read only, so nothing is committed")
        with self._guard:
            commit = self._pending.pop(token, None)
        if commit is None:
            raise IvmError(
                "no preview has this token, or its edits were committed: preview them again"
            )
        with ivm.open(self.file, create=False) as workspace:
            workspace.files_allowed = False
            return {"version": commit(workspace)}

    # -- for both

    def statement(
        self, text: str, at: int | None = None, offset: int = 0, limit: int = ROWS
    ) -> Data:
        """Return the rows of a name or a query, or the preview of an edit, whichever a text is."""
        text = text.strip()
        if is_sql(text):
            is_question = reads_only(text)
        elif text.rstrip(".") in self._readable(at):
            return {"kind": "rows", **self.rows(text.rstrip("."), at, offset, limit)}
        else:
            text = text if text.endswith(".") else f"{text}."
            is_question = not is_edit(text)
        if is_question:
            return {"kind": "rows", "name": None, **self.query(text, at, offset, limit)}
        if at is not None:
            raise IvmError(f"version {at} does not change: return to the newest one to edit")
        return {"kind": "preview", **self.preview(text)}

    def _readable(self, at: int | None) -> list[str]:
        with self._at(at) as past:
            return _names(past.snapshot, self.workspace.rules_of(past.snapshot))

    @contextmanager
    def _at(self, version: int | None) -> Iterator[Any]:
        """Give the workspace as of a version, the newest one for None."""
        with self.workspace.at(MAIN if version is None else version) as past:
            yield past


def _edits(text: str) -> Any:
    """Return edits as Workspace.preview takes them.  Raises IvmError for other SQL."""
    if not is_sql(text):
        return text
    if not edits_rows(text):
        raise IvmError(
            "only INSERT, UPDATE, DELETE, MERGE and TRUNCATE are previewed: `ivm sql` runs other "
            "statements"
        )
    return lambda txn: txn.sql(text)


def _names(snapshot: Any, installed: Any) -> list[str]:
    """Return the names of relations and views that users made."""
    return names_of(snapshot, [block.name for block in installed.blocks])


def _differs(before: Any, after: Any, name: str) -> bool:
    """Return whether a relation has other pages in two snapshots."""
    return bool(name not in before or before.tree(name) != after.tree(name))


def _stored(name: str, snapshot: Any) -> list[str]:
    """Return the relations that a name stands for: several for a view of SQL with many columns."""
    if name in snapshot:
        return [name]
    return [held for held in snapshot if held.partition(":part")[0] == name]


def _is_shown(name: str, installed: Any) -> bool:
    return not is_helper(name, [block.name for block in installed.blocks])


def _kind(name: str, installed: Any) -> str:
    """Return whether a name is of a relation, which is edited, or a view, which follows."""
    predicate = installed.program.predicates.get(name)
    wide = predicate is None and any(block.name == name for block in installed.blocks)
    return "view" if wide or (predicate is not None and not predicate.extensional) else "relation"


def _read_by(installed: Any) -> Mapping[str, set[str]]:
    """Return for each view the names that its rules read; what a helper view reads is read by
    those that read it.
    """
    direct: dict[str, set[str]] = {}
    for rule in installed.rules:
        for name in rule.writes:
            direct.setdefault(name, set()).update(rule.reads)

    def visible(name: str, seen: frozenset[str]) -> Iterator[str]:
        for other in direct.get(name, ()):
            if _is_shown(other, installed):
                yield other
            elif other not in seen:
                yield from visible(other, seen | {other})

    parts = [
        (name.partition(":part")[0] if not _is_shown(name, installed) else name, name)
        for name in direct
    ]
    readers: dict[str, set[str]] = {}
    for shown, name in parts:
        if "$" not in shown:
            readers.setdefault(shown, set()).update(visible(name, frozenset({name})))
    return readers


def _reached(name: str, reads: Mapping[str, set[str]]) -> set[str]:
    """Return all that a name depends on; itself only if it is recursive."""
    reached: set[str] = set()
    waiting = [*reads[name]]
    while waiting:
        relation = waiting.pop()
        if relation not in reached:
            reached.add(relation)
            waiting += reads[relation]
    return reached


# -- rows


def _written(row: Iterable[Any] | None) -> str | None:
    """Return the values of a row as one text, None for a row that is not there."""
    if row is None:
        return None
    return ", ".join("null" if value is None else spelt(cell(value)) for value in row)


def bounded(data: Any, cell: Callable[[Any], Any], cell_max: int) -> Any:
    """Return what is said of a store, with each cell of rows as `cell` writes it, and without the
    ends of long texts.

    A cell with more than `cell_max` characters is {"text", "length"}, with its beginning.

    >>> bounded({"total": 1, "rows": [["a" * 9, 1, None]]}, str, 8)
    {'total': 1, 'rows': [[{'text': 'aaaaaaaa', 'length': 9}, '1', 'None']]}
    """

    def cut(value: Any) -> Any:
        if isinstance(value, list):
            return [cut(part) for part in value]
        written = cell(value)
        text = spelt(written) if isinstance(written, str | bytes) else ""
        return {"text": text[:cell_max], "length": len(text)} if len(text) > cell_max else written

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: cut(part) if key == "rows" and isinstance(part, list) else of(part)
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [of(part) for part in value]
        return value[:TEXT_MAX] if isinstance(value, str) else value

    return of(data)


def _within(number: int, most: int) -> int:
    return max(1, min(number, most))


def _place(offset: int) -> int:
    """Return a place of a row, the first below 0. Raises IvmError for one without a row."""
    if offset > PLACES_MAX:
        raise IvmError(f"offset={offset}: there are at most 2**48 rows, so take a smaller one")
    return max(0, offset)


def _columns(source: Relation | pa.Table) -> list[Data]:
    if isinstance(source, Relation):
        key = source.schema.key
        return [
            {"name": c.name, "type": str(c.type), "key": c.name in key}
            for c in source.schema.columns
        ]
    return [{"name": field.name, "type": _type(field), "key": False} for field in source.schema]


def _type(field: pa.Field) -> str:
    """Return the name of a column's type, as relations have it where they do."""
    try:
        return str(type_of_arrow(field.name, field.type))
    except SchemaError:
        return str(field.type)


def _page(source: Any, offset: int, limit: int) -> Data:
    """Return some rows of a relation or an answer, the columns, and how many rows there are."""
    whole = source if isinstance(source, Relation) else source.to_arrow()
    columns = _columns(whole)
    limit = _within(limit, min(ROWS_MAX, max(1, CELLS_MAX // max(1, len(columns)))))
    offset = _place(offset)
    table = (
        _slice(whole, offset, limit) if isinstance(whole, Relation) else whole.slice(offset, limit)
    )
    rows = [[*row] for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return {"columns": columns, "rows": rows, "offset": offset, "total": len(source)}


def _slice(relation: Relation, offset: int, limit: int) -> Any:
    """Return rows of a relation by their places; those before are read as words."""
    pieces: list[np.ndarray] = []
    for words in relation.words(rows=None if offset else limit):
        if limit <= 0:
            break
        if (some := words[:, offset : offset + limit]).shape[1]:
            pieces.append(some.copy())
            limit -= some.shape[1]
        offset = max(0, offset - words.shape[1])
    if not pieces:
        return relation.schema.arrow.empty_table()
    return pa.Table.from_batches(
        relation.record_batches(np.concatenate(pieces, axis=1)), relation.schema.arrow
    )


def _summary(batches: Iterable[pa.RecordBatch]) -> Data:
    """Return how many rows of a relation changed, and the first of them, each with its sign;
    nothing if none did.
    """
    inserted = total = 0
    first: list[pa.RecordBatch] = []
    for batch in batches:
        if total < CHANGES_MAX:
            first.append(batch.slice(0, CHANGES_MAX - total))
        total += len(batch)
        inserted += pc.sum(pc.equal(batch.column(CHANGE), "insert")).as_py() or 0
        if total >= COUNTED_MAX:
            break
    if not total:
        return {}
    table = pa.Table.from_batches(first)
    columns = [column for column in _columns(table) if column["name"] != CHANGE]
    most = max(1, CELLS_MAX // 10 // len(columns)) if columns else 1
    rows = [[sign, [*row]] for sign, row in changes(table.slice(0, most))]
    counts = {"inserted": inserted, "deleted": total - inserted, "counted": total < COUNTED_MAX}
    return {**counts, "columns": columns, "rows": rows}
