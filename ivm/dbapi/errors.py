"""The errors that PEP 249 names, and which of them each error of `ivm` is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ivm.errors import ConstraintError, FunctionConflictError, IvmError, RangeError
from pagestore.errors import CorruptionError, PagestoreError


class Warning(Exception):
    """PEP 249's warning; nothing raises it: what is worth a warning is one of Python's."""


class Error(Exception):
    """The base class of the errors of this interface; the error of `ivm` is its cause."""


class InterfaceError(Error):
    """The interface is used wrongly."""


class DatabaseError(Error):
    """The base class of errors that concern the store."""


class DataError(DatabaseError):
    """A value does not fit its type, or has none."""


class OperationalError(DatabaseError):
    """The store cannot be read or written: another process holds it, the disk is full."""


class IntegrityError(DatabaseError):
    """A key, or another constraint, does not hold; nothing was changed."""


class InternalError(DatabaseError):
    """The file is damaged."""


class ProgrammingError(DatabaseError):
    """A statement is wrong, parameters are missing, or what is used has been closed."""


class NotSupportedError(DatabaseError):
    """What is asked for is not done here."""


@contextmanager
def errors_of_pep249() -> Iterator[None]:
    """Raise errors of `ivm` as those that PEP 249 names, with the same words."""
    try:
        yield
    except (IvmError, PagestoreError) as error:
        raise _named(error)(str(error)) from error


def _named(error: BaseException) -> type[Error]:
    """Return which error of PEP 249 an error of `ivm` is."""
    from ivm.sql.errors import DuplicateError, SqlError
    from ivm.sql.literals import NoValueError

    known: tuple[tuple[Any, type[Error]], ...] = (
        ((DuplicateError, ConstraintError, FunctionConflictError), IntegrityError),
        ((NoValueError, RangeError), DataError),
        (CorruptionError, InternalError),
    )
    for kinds, named in known:
        if isinstance(error, kinds) or isinstance(error.__cause__, kinds):
            return named
    return ProgrammingError if isinstance(error, SqlError) else OperationalError
