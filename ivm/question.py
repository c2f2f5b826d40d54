"""Queries: rules that are evaluated once, in a transaction that is never committed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ivm.answer import Answer
from ivm.engine.fill import Fill
from ivm.engine.replan import Replan
from ivm.errors import OptionError
from ivm.lang.ir import ROPE, Const
from ivm.lang.program import Program
from ivm.lang.rewrite.parameters import Parameter
from ivm.memory import MemoryUse, slices, within_memory
from ivm.plan.planner import AUTO, MATCH, ONCE, PROBE
from ivm.rope import rope_of
from ivm.rules.compile import NO_PARAMETERS, Given, with_block
from ivm.rules.installed import Installed, Limits, Options
from ivm.rules.relations import Relations
from ivm.rules.stored import create_relation, drop_stray_trees, plant
from ivm.terms.encoder import NONE_GIVEN, Encoder
from ivm.ways.way import Context
from pagestore.host import WORD_MAX, EphemeralTransaction, Relation, of_texts

if TYPE_CHECKING:
    import pyarrow as pa


class Question(NamedTuple):
    """A compiled query: the installed rules, these with its own as the last block, the name of its
    answer, and the values of its parameters.
    """

    before: Installed
    installed: Installed
    answer: str
    parameters: Mapping[str, Parameter] = {}
    given: Mapping[int, Const] = NONE_GIVEN  # the values of places in its terms, by number

    @property
    def program(self) -> Program:
        """The query's own rules, as they are evaluated."""
        return self.installed.blocks[-1].part

    @property
    def lasts(self) -> bool:
        """Whether it is the same with other rows, and lists none of the texts that there are."""
        return not any(isinstance(rows, np.ndarray) for rows in self.program.seeds.values())

    @property
    def seeds(self) -> dict[str, Sequence[tuple[Const, ...]] | np.ndarray]:
        """The rows of the relations that exist for the query alone, by name."""
        return {
            name: rows if isinstance(rows, np.ndarray) else [tuple(map(self._now, r)) for r in rows]
            for name, rows in self.program.seeds.items()
        }

    def _now(self, const: Const) -> Const:
        if not isinstance(const, Parameter):
            return const
        return replace(const, value=self.parameters[const.name].value)

    @property
    def reads(self) -> set[str]:
        """The predicates that the query's rules read."""
        return {name for rule in self.installed.blocks[-1].rules for name in rule.reads}


def understand(
    sketch: EphemeralTransaction,
    known: Installed,
    given: Given,
    limits: Limits = (None, None),
    parameters: Mapping[str, Parameter] = NO_PARAMETERS,
) -> Question:
    """Compile and plan a query; `known` are the rules of the sketch's version. Raises RuleError."""
    options = Options(maintenance=ONCE, limits=limits)
    installed = with_block(
        given, known, Relations(sketch), "query", options, hinting=True, parameters=parameters
    )
    answer = installed.blocks[-1].part.answer
    assert answer is not None, "a query without a rule was let through"
    return Question(known, installed, answer, parameters)


def answer(sketch: EphemeralTransaction, question: Question, threads: int) -> Answer:
    """Evaluate a query. Raises MaintainError, LimitError."""
    return evaluated(sketch, question, threads)[0]


def evaluated(
    sketch: EphemeralTransaction, question: Question, threads: int
) -> tuple[Answer, Question | None]:
    """Return the answer of a query, and it with the plans that fit what was found, for when it is
    asked again; None if it does not last.  Raises as `answer`.
    """
    installed, block = question.installed, question.installed.blocks[-1]
    drop_stray_trees(sketch, question.before, installed)
    for predicate in block.part.predicates.values():
        create_relation(sketch, predicate, installed)
    plant(sketch, question.seeds)
    started = time.perf_counter()
    context = Context(sketch, installed, Encoder(sketch, question.given), threads, once=True)
    Fill(context, Replan(context)).rules([rule for rule in installed.rules if rule in block.rules])
    seconds = time.perf_counter() - started
    tree = sketch.tree(question.answer)
    with within_memory("making a table", tree.count, block.rules[-1].definition.where):
        memory = MemoryUse(step="making a table").begin()
        memory.add(tree.count, 8 * tree.spec.columns * tree.count)
        table = _table(sketch[question.answer], memory)
        if installed.program.predicates[question.answer].value == ROPE:
            table = _with_texts(sketch, installed, question.answer, table, memory)
    again = question._replace(installed=context.installed) if question.lasts else None
    return Answer(table, seconds), again


def _table(relation: Relation, memory: MemoryUse) -> pa.Table:
    """Return all rows of a relation; texts are counted as they are made. Raises RoomError."""
    if not any(column.type.interned for column in relation.schema.columns):
        return relation.to_arrow()
    import pyarrow as pa

    batches = list[pa.RecordBatch]()
    for words in relation.words():
        for some in slices(words.shape[1], lambda: memory.size):
            batches += relation.record_batches(words[:, some])
            memory.add(0, batches[-1].nbytes)
    return pa.Table.from_batches(batches, relation.schema.arrow)


def _with_texts(
    sketch: EphemeralTransaction,
    installed: Installed,
    name: str,
    table: pa.Table,
    memory: MemoryUse,
) -> pa.Table:
    """Replace a concat's checksums by whole texts, since its state is discarded with the query."""

    texts = list[str]()
    for row in table.to_pylist():
        texts.append(str(rope_of(sketch, installed, name, tuple(row.values())[:-1])))
        memory.add(0, len(texts[-1]))
    return table.set_column(table.num_columns - 1, table.column_names[-1], of_texts(texts))


def check_options(
    granularity: int, maintenance: str, rows_max: int | None, rounds_max: int | None
) -> None:
    """Raise OptionError unless the options of an installation or a query are valid."""
    for name, most in (("rows_max", rows_max), ("rounds_max", rounds_max)):
        if most is not None and (not isinstance(most, int) or most < 1):
            raise OptionError(f"{name}={most!r}: it is a whole number, 1 or more, or None")
    if not isinstance(granularity, int) or not 1 <= granularity <= WORD_MAX:
        raise OptionError(
            f"granularity={granularity!r}: it is a whole number of operations, 1 or more"
        )
    if maintenance not in (AUTO, MATCH, PROBE):
        raise OptionError(f"maintenance={maintenance!r}: it is one of {AUTO}, {MATCH} and {PROBE}")
