"""Edits of a relation that rules read, collected and then committed together with what follows from
them; and questions of rules, which are compiled once.

Of rows without new texts, and of rules whose steps a kernel takes, one commit after the other is of
a series (pagestore/versions/series.py): one call of the kernel, and no transaction.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ivm.answer import Answer
from ivm.engine.schedule import Schedule, is_carried, schedule_of
from ivm.errors import RuleError, RuleWarning
from ivm.lang.rewrite.parameters import Parameter, given
from ivm.question import Question, evaluated, understand
from ivm.rules.compile import names_in, parsed
from ivm.rules.installed import Installed, Limits
from ivm.rules.stored import HOST, sizes_in
from ivm.sql.prepared.cache import QUESTIONS_MOST, Asked, KeptQuestion
from ivm.transaction import NONE, Maintainer, Transaction
from pagestore.host import (
    INSERT,
    EphemeralTransaction,
    PreparedEdit,
    PreparedSeries,
    RowWords,
    Short,
)

# commits after which sizes of relations are compared with those that plans were made for
LOOK_AGAIN = 16


class PreparedEdits(PreparedSeries):
    """Collected edits of a relation of a workspace."""

    host = HOST

    def __init__(self, maintainer: Maintainer, name: str) -> None:
        super().__init__(maintainer.store, name, maintainer.begin, partial(_edit, name))
        self._maintainer, self._name = maintainer, name
        self._installed: Installed | None = None  # the rules of the newest transaction

    def _note(self, txn: Transaction) -> None:
        self._installed = txn._rules_for((), (self._name,))
        self._subject = self._name, self._installed
        super()._note(txn)

    def _may_be_offered(self) -> bool:
        return self._maintainer.is_quiet

    def _short(self, head: Any, info: Any) -> Short | None:
        """Return how a kernel commits edits and maintains all that follows from them, or None."""
        name, installed = self._name, self._installed
        if installed is None:
            return None
        if not installed.is_followed(name, info.spec):
            return super()._short(head, info)
        schedule = schedule_of(installed, frozenset([name]))
        if installed.layouts[name].bare or not is_carried(schedule, installed, head.catalog):
            return None
        if not schedule.has_room(head.catalog):
            return None  # no transaction of few edits was made yet
        work = _Work(self._maintainer, installed, schedule, name, head)
        short = schedule.short(name, work.fits, work.note)
        if info.spec.values:
            return short._replace(
                words=partial(self._without_conflict, short, info.spec.keys, self._words(info))
            )
        return short if info.schema.held_as_given else short._replace(words=self._words(info).of)

    def _without_conflict(
        self, short: Short, keys: int, words: RowWords, edits: list[PreparedEdit]
    ) -> list[PreparedEdit] | None:
        """Return edits of a function in words; None for insertions unless it is one, whose key
        has no other value.
        """
        words_of = words.of(edits)
        if not words_of or all(action != INSERT for action, _ in words_of):
            return words_of
        _, row = words_of[0]
        if len(words_of) > 1 or len(row) <= keys:
            return None
        there = short.queues.found(self._handle.mapping.pages, short.group, row[:keys])
        return words_of if there is None or there == row[keys:] else None


def _edit(name: str, txn: Transaction, action: str, rows: list[tuple[Any, ...]]) -> None:
    getattr(txn, action)(name, rows)


def ask(
    maintainer: Maintainer,
    known: Asked,
    sketch: EphemeralTransaction,
    text: str,
    parameters: Mapping[str, Any] | None,
    limits: Limits,
) -> tuple[Answer, tuple[RuleWarning, ...]]:
    """Answer a question of rules, compiled before or now; return its warnings, too."""
    values = {} if parameters is None else given(parameters)
    key = text, limits, tuple((name, value.type) for name, value in values.items())
    removed = maintainer.store.texts_removed
    kept, catalog = known.questions.get(key), sketch.base.catalog
    if kept is not None and kept.fits(catalog, removed):
        question, lasts = kept.questions[0]._replace(parameters=values), True
    else:
        texts = sketch.dictionary.next_id
        question = _understood(maintainer, sketch, text, limits, values)
        lasts = sketch.dictionary.next_id == texts  # a new one has no number yet
    table, again = evaluated(sketch, question, maintainer.threads)
    if lasts and again is not None:
        if len(known.questions) >= QUESTIONS_MOST:
            known.questions.clear()
        known.questions[key] = KeptQuestion((again,), catalog, removed)
    return table, question.program.warnings


def _understood(
    maintainer: Maintainer,
    sketch: EphemeralTransaction,
    text: str,
    limits: Limits,
    values: Mapping[str, Parameter],
) -> Question:
    """Compile a question over the rules that it reads; if it is wrong, over all, since the error
    that is raised then knows all names.
    """
    with suppress(RuleError):
        known = maintainer.rules.some(sketch, names_in(parsed(text, "query")))
        return understand(sketch, known, text, limits, values)
    return understand(sketch, maintainer.rules.of(sketch), text, limits, values)


class _Work:
    """A series' commits as its workspace sees them: whether plans fit, and what was done."""

    def __init__(
        self, maintainer: Maintainer, installed: Installed, schedule: Schedule, name: str, head: Any
    ) -> None:
        self._maintainer, self._installed, self._schedule = maintainer, installed, schedule
        self._head = head
        # a view of what the newest commit did
        self._names, self._gains = frozenset([name]), schedule.gains
        self._gained = 0 * self._gains
        self._left = 1  # commits until sizes are compared again

    def fits(self) -> bool:
        """Return whether the next commit may be made without an Engine."""
        maintainer = self._maintainer  # as its `is_quiet`, without a call
        if maintainer.subscriptions or maintainer.exceeding or maintainer.regret.due:
            return False
        self._left -= 1
        if self._left:
            return True
        self._left = LOOK_AGAIN
        return not (self._installed.outgrown(self._names, self._counts) or self._is_stale())

    def _is_stale(self) -> bool:
        """Return whether sensitivity indices are to be built anew."""
        schedule = self._schedule
        sizes = sizes_in(self._head.catalog.properties) if schedule.matched else {}
        return bool(schedule.stale(len(schedule.steps), self._counts, sizes))

    def _counts(self, names: Iterable[str]) -> list[int]:
        """Return how many rows some relations have now."""
        relations, trees = self._head.catalog.relations, self._head.trees
        firsts = self._schedule.firsts
        return [
            trees[relations[name].spec.tree_id].count
            + (int(self._gained[firsts[name]]) if name in firsts else 0)
            for name in names
        ]

    def note(self) -> None:
        """Note the work of a commit, as that of a transaction."""
        self._gained += self._gains
        self._maintainer.carried, self._maintainer.evaluated = self._schedule, NONE
