"""A question: rules that are evaluated once, in a transaction that is never committed."""

import time
from typing import NamedTuple

from ivm import lang
from ivm.answer import Answer
from ivm.engine.fill import Filler
from ivm.engine.installed import Installed
from ivm.engine.stored import create_relation, drop_stray_trees, layouts_of, plant
from ivm.engine.stored_schemas import declarations_for
from ivm.plan.cardinality import Cardinality
from ivm.plan.constants import Encoder
from ivm.plan.planner import ONCE
from ivm.plan.rewrite.magic import Asked, pass_constants
from pagestore.host import EphemeralTransaction

Limits = tuple[int | None, int | None]  # the most rows and the most rounds of a recursion


class Question(NamedTuple):
    """A question as it is evaluated: the rules that stand, those with its own, its answer, what constants leave."""

    before: Installed
    installed: Installed
    answer: str
    asked: Asked


def understand(sketch: EphemeralTransaction, known: Installed, text: str, limits: Limits = (None, None)) -> Question:
    """Read a question and plan it; `known` are the rules of the sketch's version. Raises RuleError."""
    layouts, distinct = layouts_of(sketch), Cardinality(sketch).distinct
    if stored := declarations_for(sketch, text, known.program.predicates, "query"):
        known = known.including("the store", stored, distinct, Encoder(sketch), layouts)
    part = lang.query(text, known.program)
    assert part.answer is not None, "a query without a rule was let through"
    asked = pass_constants(part)
    installed = known.including(
        "query", text, distinct, Encoder(sketch), layouts, maintenance=ONCE, limits=limits, part=asked.program
    )
    return Question(known, installed, part.answer, asked)


def answer(sketch: EphemeralTransaction, question: Question, threads: int) -> Answer:
    """Evaluate a question. Raises MaintainError, LimitError."""
    installed, block = question.installed, question.installed.blocks[-1]
    drop_stray_trees(sketch, question.before, installed)
    for predicate in block.part.predicates.values():
        create_relation(sketch, predicate, installed)
    plant(sketch, question.asked.seeds)
    started = time.perf_counter()
    Filler(sketch, installed, Encoder(sketch), threads).fill([r for r in installed.rules if r in block.rules])
    seconds = time.perf_counter() - started
    return Answer(sketch[question.answer].to_arrow(), seconds)
