"""The exceptions of pagestore: one family, grouped by when they happen.

Each message is a sentence that names the object and a remedy.
"""

from pagestore.printable import message as _message


class PagestoreError(Exception):
    """Base class of everything that pagestore refuses or finds broken."""

    def __str__(self) -> str:
        return _message(super().__str__())


# --- open ---------------------------------------------------------------------------------------


class FormatError(PagestoreError, ValueError):
    """The file is not a store, or has a format or page size that this library does not read."""


class NoStoreError(PagestoreError, FileNotFoundError):
    """There is no file at the path, or no folder to create one in."""


class LockedError(PagestoreError, OSError):
    """Another process or handle holds the writer's lock."""


class CorruptionError(PagestoreError):
    """Bytes on disk are not what was written.

    `page` is the page, `tree` the tree it belongs to and `path` the pages from the root to it,
    each None if unknown.
    """

    def __init__(
        self,
        fact: str = "it is not the page that was written there",
        *,
        page: int | None = None,
        tree: int | None = None,
        path: tuple[int, ...] | None = None,
    ) -> None:
        where = "" if page is None else f"page {page}"
        where += "" if tree is None else f" of tree {tree}"
        where += "" if not path else f" (path {' > '.join(map(str, path))})"
        super().__init__(f"{where}: {fact}" if where else fact)
        self.page, self.tree, self.path = page, tree, path


class CompilerError(PagestoreError, ImportError):
    """A kernel must be compiled, and numba is not installed."""


class RecoveryWarning(UserWarning):
    """Opening a store found a commit that is not intact or a meta slot that is damaged, and
    continued without it.
    """


# --- begin, commit ------------------------------------------------------------------------------


class PoisonedError(PagestoreError):
    """A write or sync failed: what is on disk is unknown. `store.reopen()` has the last commit."""


class OutOfMemoryError(PagestoreError, MemoryError):
    """The system refused memory, or address space for the map of a file; a transaction that was
    under way has ended without effect.
    """


class MovedError(PagestoreError, OSError):
    """The store's file was deleted, moved or replaced by another one while it was open for writing."""


class ClosedError(PagestoreError, ValueError):
    """The handle, snapshot or transaction was used after its end."""


class ReadOnlyError(PagestoreError, PermissionError):
    """A change through a handle that was opened for reading."""


class ForkError(PagestoreError):
    """A handle was inherited by a forked process; open the store anew there."""


class TransactionError(PagestoreError):
    """A call that an open transaction excludes, such as beginning another one in its thread; or
    a sketch's commit.
    """


class RetainedError(PagestoreError, ValueError):
    """A version, tag or branch that something still needs cannot be dropped."""


class DependantsError(PagestoreError, ValueError):
    """A change that a host could not follow in its derived data (such as views of rules), or a
    change of these data.
    """


# --- edit ---------------------------------------------------------------------------------------


class SchemaError(PagestoreError, ValueError):
    """An invalid schema, or rows whose shape or types do not fit the relation's.

    If a record is too wide for the store's pages, `page_size` is the size of pages that could hold
    it."""

    def __init__(self, message: str, page_size: int | None = None) -> None:
        super().__init__(message)
        self.page_size = page_size


class WordError(PagestoreError, ValueError):
    """A value that its column's type cannot hold: a null, a NaN, an overflow."""


class MergeError(PagestoreError, ValueError):
    """Two branches that cannot be merged; `conflicts` are the rows that both changed, if any."""

    def __init__(self, message: str, conflicts: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class OrderError(PagestoreError, ValueError):
    """Bulk input that is not strictly ascending by key; `row` is the first row out of order."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class EditError(PagestoreError, ValueError):
    """An edit that cannot be made: a support below zero, a sum beyond 64 bits, ADD mixed with SET."""


class ExistsError(PagestoreError, ValueError):
    """A relation, tag or branch of that name exists already."""


# --- read ---------------------------------------------------------------------------------------


class MissingError(PagestoreError, KeyError):
    """There is no relation, tag, branch or property of that name."""

    def __str__(self) -> str:  # KeyError would show the repr of the sentence
        return _message(str(self.args[0]))


class VersionError(PagestoreError, LookupError):
    """The version never existed, or is no longer retained."""
