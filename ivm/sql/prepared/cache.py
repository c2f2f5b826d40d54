"""The statements that a workspace was asked before, and what they were translated to.

A text is translated for this when it comes again, with other values or the same, and is done anew
when the catalog changes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from ivm.lang.ir import Const
from ivm.names import CATALOG
from ivm.rules.installed import PROPERTY
from ivm.sql.prepared.rows import unchanged_catalog
from ivm.sql.prepared.shape import Shape, shape_of
from ivm.terms.encoder import NONE_GIVEN

if TYPE_CHECKING:
    from sqlglot import exp

    from ivm.answer import Answer
    from ivm.question import Question
    from ivm.sql.answers import Understood
    from ivm.sql.session import Reader
    from ivm.sql.types import SqlType

TEXTS_MOST = 1024
WITH_MOMENTS = "duckdb", "postgres"  # dialects whose DATE '…' is what a date of Python is
QUESTIONS_MOST = 128  # that are kept compiled, which takes some 50 kB each
Kinds = tuple[type, ...]
NO_TYPES: Mapping[int, SqlType] = MappingProxyType({})


class Statement:
    """A statement without its values: how often it was asked, and by the types of values what it
    was translated to, with the catalog that this holds for.
    """

    def __init__(self, shape: Shape) -> None:
        self.text, self.edits = shape.text, shape.edits
        self._asked = 0
        self.seconds = 0.0  # that its answer took when it was compiled last
        self.slow = 0  # answers in a row that took far longer
        # the values by which it is not compiled anew, by the types of all; none if it always is
        self.free: dict[Kinds, frozenset[int]] = {}
        self._plans: dict[Kinds, tuple[Any, Any]] = {}

    def plan(self, kinds: Kinds, catalog: Any) -> Any:
        """Return what the statement was translated to; None if not, or for another catalog."""
        known = self._plans.get(kinds)
        if known is None:
            return None
        before, plan = known
        if before is not catalog:
            if not says_the_same(before, catalog, CATALOG):
                self._plans.pop(kinds, None)
                return None
            self._plans[kinds] = catalog, plan
        return plan

    def is_known(self, kinds: Kinds) -> bool:
        """Return whether it was found out what the statement is translated to."""
        return kinds in self._plans

    def known(self, kinds: Kinds) -> Any:
        """Return what `plan` returns if the catalog is the same."""
        known = self._plans.get(kinds)
        return None if known is None else known[1]

    def translates(self, kinds: Kinds) -> bool:
        """Return whether the statement is a question that keys are known not to answer."""
        return not self.edits and kinds in self._plans and self._plans[kinds][1] is None

    @property
    def came_before(self) -> bool:
        """Whether the statement was asked before this time."""
        return self._asked > 1

    def is_due(self, kinds: Kinds) -> bool:
        """Note that the statement was asked; return whether it comes again, to be translated."""
        self._asked += 1
        return self._asked > 1 and kinds not in self._plans

    def remember(self, kinds: Kinds, catalog: Any, plan: Any) -> None:
        """Keep what the statement was translated to, None if keys do not answer it."""
        self._plans[kinds] = catalog, plan


class Asked:
    """Statements by their texts; the oldest are forgotten."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[Shape, Statement] | None] = {}
        self._statements: dict[tuple[str, str], Statement] = {}
        self._lock = threading.Lock()  # of all while one is added
        self.questions: dict[Any, KeptQuestion] = {}
        # as long as somebody has them: what threads want of equal ones is committed together
        self.transactions: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    def find(self, text: str, parameters: Any, dialect: str) -> tuple[Statement, list[Any]] | None:
        """Return the statement of a text with its values; None for one that is not kept."""
        try:
            known = self._texts[text, dialect]
        except (KeyError, TypeError):
            known = self._read(text, dialect)
        if known is None:
            return None
        shape, statement = known
        values = shape.values(parameters)
        return None if values is None else (statement, values)

    def find_all(
        self, text: str, parameters: list[Any], dialect: str
    ) -> tuple[Statement, list[list[Any]]] | None:
        """Return the statement of a text with its values for each of many parameters, as `find`."""
        if self.find(text, parameters[0], dialect) is None:
            return None
        known = self._texts[text, dialect]
        values = None if known is None else known[0].all_values(parameters)
        return None if known is None or values is None else (known[1], values)

    def keep(self, key: Any, question: KeptQuestion) -> None:
        """Keep a compiled question."""
        with self._lock:
            _remember(self.questions, key, question, QUESTIONS_MOST)

    def _read(self, text: str, dialect: str) -> tuple[Shape, Statement] | None:
        if not isinstance(text, str) or not isinstance(dialect, str):
            return None
        shape = shape_of(text, dialect in WITH_MOMENTS)
        entry = None
        with self._lock:
            if shape is not None:
                statement = self._statements.get((shape.text, dialect)) or Statement(shape)
                _remember(self._statements, (shape.text, dialect), statement)
                entry = shape, statement
            _remember(self._texts, (text, dialect), entry)
        return entry


class KeptQuestion(NamedTuple):
    """A question, of rules alone if there is no `node`, compiled for the tables and rules of a
    catalog.

    `texts_removed` is how often texts were removed: the words of others may be theirs since then.
    """

    questions: tuple[Question, ...]
    catalog: Any
    texts_removed: int
    node: exp.Expr | None = None
    understood: Understood | None = None
    types: Mapping[int, SqlType] = NO_TYPES  # of the values that it is given, by their numbers

    def fits(self, catalog: Any, texts_removed: int) -> bool:
        """Return whether it means the same for another catalog."""
        return self.texts_removed == texts_removed and (
            self.catalog is catalog
            or (catalog is not None and says_the_same(self.catalog, catalog, CATALOG, PROPERTY))
        )

    def answer(self, reader: Reader, given: Mapping[int, Const] = NONE_GIVEN) -> Answer | None:
        """Return the answer of SQL, with the values of its places; None if the catalog says another
        thing.
        """
        with reader.state() as state:
            txn = reader.edited
            catalog = state.base.catalog if txn is None else unchanged_catalog(txn)
            if self.understood is None or not self.fits(catalog, reader.host.store.texts_removed):
                return None
            questions = [question._replace(given=given) for question in self.questions]
            asks = [partial(reader.ask_again, state, question) for question in questions]
            return self.understood.answer(asks)


def says_the_same(catalog: Any, other: Any, *properties: str) -> bool:
    """Return whether two catalogs have the same relations, and some properties."""
    return catalog.relations == other.relations and all(
        catalog.properties.get(name) == other.properties.get(name) for name in properties
    )


def _remember(known: dict[Any, Any], key: Any, value: Any, most: int = TEXTS_MOST) -> None:
    known[key] = value
    while len(known) > most:
        known.pop(next(iter(known)), None)
