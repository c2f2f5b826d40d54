"""A workspace as it was: its relations and views, and queries over them, as of one version."""

from collections.abc import Callable

from ivm.answer import Answer
from ivm.errors import UnknownViewError
from pagestore.errors import MissingError
from pagestore.host import Relation, Snapshot


class WorkspaceSnapshot:
    """Relations and views as of one version; close it, or use it in `with`."""

    def __init__(self, snap: Snapshot, query: Callable[[str], Answer]) -> None:
        """`query` answers as Workspace.query does, from the rules and the data of that version."""
        self.snapshot, self.query = snap, query

    def __getitem__(self, name: str) -> Relation:
        """A relation or view as of that version.  Raises UnknownViewError."""
        try:
            return self.snapshot[name]
        except MissingError as error:
            raise UnknownViewError(str(error)) from None

    def close(self) -> None:
        """Let go of the version, whose pages may then be reused."""
        self.snapshot.close()

    def __enter__(self) -> "WorkspaceSnapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
