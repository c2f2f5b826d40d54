"""A workspace as of one version: its relations and views, and queries over them."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ivm.answer import Answer
from ivm.errors import UnknownViewError
from ivm.lang.ir import Predicate
from ivm.names import WHOLE, moment_of
from ivm.wide import changes, read
from pagestore.errors import MissingError
from pagestore.host import Rope, Snapshot, html_table

if TYPE_CHECKING:
    import pyarrow as pa


class WorkspaceSnapshot:
    """Relations and views as of one version; close it, or use it in `with`."""

    def __init__(
        self,
        snap: Snapshot,
        query: Callable[..., Answer],
        predicates: Mapping[str, Predicate],
        rope: Callable[[str, tuple[Any, ...]], Rope],
        sql: Callable[[str, Any, str], Answer | None],
    ) -> None:
        """`query` is like Workspace.query, over the rules and the data of that version; `sql`
        runs statements.
        """
        self.snapshot, self.query, self._predicates, self._rope = snap, query, predicates, rope
        self._sql = sql

    def sql(self, text: str, parameters: Any = None, dialect: str = "duckdb") -> Answer | None:
        """Run queries of SQL as of that version; see Workspace.sql."""
        return self._sql(text, parameters, dialect)

    def __getitem__(self, name: str) -> Any:
        """Return a relation or view as of that version.  Raises UnknownViewError."""
        try:
            relation = read(self.snapshot, whole(self.snapshot, name))
            return self.snapshot[name] if relation is None else relation
        except MissingError as error:
            raise UnknownViewError(str(error)) from None

    @property
    def moment(self) -> datetime | None:
        """The moment that kept views with a clock answer for; None if there is none."""
        return moment_of(self.snapshot)

    def changes(self, name: str, since: "WorkspaceSnapshot") -> "pa.Table | None":
        """Return how a relation or view differs from an older version, as the table of a `Change`;
        None if in neither.

        Raises MissingError if it is only in the older one, SchemaError if it was made anew.
        """
        return changes(since.snapshot, self.snapshot, name)

    def rope(self, name: str, *key: Any) -> Rope:
        """Return the text of a concat's group as of that version.  Raises as Workspace.rope."""
        return self._rope(name, key)

    def _repr_html_(self) -> str:
        return workspace_html(self.snapshot, self._predicates)

    def close(self) -> None:
        """Release the version, so that its pages can be reused."""
        self.snapshot.close()

    def __enter__(self) -> "WorkspaceSnapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def whole(snap: Snapshot, name: str) -> str:
    """Return the name of the view of all rows of a relation that is declared and derived; else
    the name itself.
    """
    return name + WHOLE if name + WHOLE in snap else name


def workspace_html(snap: Snapshot, predicates: Mapping[str, Predicate]) -> str:
    """Return the relations and views of a version as an HTML table."""
    rows = [
        (
            name,
            "relation" if predicate.extensional else "view",
            snap[name].schema,
            f"{len(snap[whole(snap, name)]):,}",
        )
        for name, predicate in predicates.items()
        if name in snap
    ]
    return html_table(
        f"version {snap.version}", [("name", ""), ("kind", ""), ("columns", ""), ("rows", "")], rows
    )
