"""Random programs that compose: a view is a construct of rules over any others, of any types, in
several blocks.

    v3[x1] = r <- agg<<r = max(x2)>> v1[x1] = x2, !v2(x2).        a view of the construct "max" that reads v1 and v2
    ("max", "recursion")  ("max", "keys")                         pairs: a construct, and what has made what it reads

Programs are safe by construction. Domains are tiny, so that rows collide, with a value at the end
of its type now and then. `smaller` finds simpler cases that fail in the same way.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ivm.errors import RuleError
from ivm.lang.program import Program
from ivm.rules.compile import compile, query
from tests.support.mirror import Edit
from tests.support.programs.composing import STORED_KINDS, TAGS, Source
from tests.support.programs.constructs import FOLDS, Folds, Lists, Recursions
from tests.support.programs.statements import Replaced, Ruled, Statements, with_other_alternatives

READERS = (
    "keys", "values", "select", "join", "existential", "compare", "negation", "disjunction",
    "computed", "called",
    "function", "heads", *FOLDS, "range", "neighbours", "recursion", "extreme", "lattice",
    "listed", "inside", "ordered", "asserted", "wide", "bounded", "several", "constraint",
)  # fmt: skip
READ_ONLY = "facts", "entity"  # which read nothing
ASKED, APART = "question", "another block"  # read by a query, by a block that is installed later
KINDS = (*STORED_KINDS, *READ_ONLY, *READERS[:-1])  # nothing reads a constraint
PAIRS = [(reader, kind) for reader in (*READERS, ASKED, APART) for kind in KINDS]
PAIRS = [pair for pair in PAIRS if pair[0] != APART or pair[1] not in STORED_KINDS]
EXTREME = 0.02  # of the values that are drawn
# how views are maintained
WAYS = "usual", "large deltas", "never anew", "often anew", "threads", "in memory"
ROUNDS_MAX = 3_000  # no recursion over so few values takes so many, unless it has no end
Pair = tuple[str, str]
Step = list[Edit] | Ruled | Replaced


@dataclass(frozen=True)
class Case:
    """A program as views by block, each block with its options; transactions, of which the first
    is a load.
    """

    stored: dict[str, str]
    blocks: list[list[str]]
    options: list[dict[str, Any]]
    transactions: list[Step]
    questions: list[str]
    loaded_first: bool
    lasting: bool
    told: bool
    beside: bool  # are edits made by transactions of the store?
    way: str

    def __str__(self) -> str:
        blocks = [
            f"-- {options}\n" + "\n".join(views)
            for views, options in zip(self.blocks, self.options, strict=True)
        ]
        ways = f"loaded first: {self.loaded_first}, lasting: {self.lasting}, told: {self.told}, beside: {self.beside}, "
        ways += f"way: {self.way}"
        edits = "\n".join(map(repr, self.transactions))
        return "\n".join(
            [ways, *self.stored.values(), *blocks, *(f"? {text}" for text in self.questions), edits]
        )


class Composer(Folds, Lists, Recursions, Statements):
    """Draws programs."""

    def view(self, name: str, reader: str) -> tuple[str, list[Source]] | None:
        """A view's rules and what they make; None if the construct cannot be drawn."""
        self.reads = []
        if reader in FOLDS:
            return self.fold(name, reader)
        return getattr(self, reader)(name)

    def program(self, count: int) -> tuple[list[list[str]], list[str], list[Pair], list[str]]:
        """Blocks of views, questions, the pairs that they have, and what was refused."""
        known = compile("\n".join(self.declarations.values()))
        blocks: list[list[str]] = [[]]
        pairs: list[Pair] = []
        refused: list[str] = []
        while count and len(refused) < 20:
            reader = self.random.choice((*READERS, *READ_ONLY))
            found = self.view(f"v{count}", reader)
            if found is None:
                continue
            text, made = found
            try:
                known = known.including(compile(text, known))
            except RuleError as error:
                refused.append(f"{error.reason}: {text}")
                continue
            pairs += [(reader, read.kind) for read in self.reads]
            pairs += [(APART, read.kind) for read in self.reads if -1 < read.block < self.block]
            blocks[-1].append(text)
            self.sources += made
            self.used.update(read.name for read in self.reads)
            count -= 1
            if self.once_in(4):
                blocks.append([])
                self.block += 1
        questions = [found for _ in range(2) if (found := self._question(known, pairs))]
        return [one for one in blocks if one], questions, pairs, refused

    def _question(self, known: Program, pairs: list[Pair]) -> str | None:
        found = self.view("q", self.random.choice(READERS))
        if found is None:
            return None
        try:
            query(found[0], known)
        except RuleError:
            return None
        pairs += [(ASKED, read.kind) for read in self.reads]
        self.used.update(read.name for read in self.reads)
        return found[0]

    def step(self, names: list[str], blocks: list[list[str]]) -> Step:
        """A transaction, an edit with a body, or a block with other alternatives, or those of
        before.
        """
        if self.once_in(6) and (ruled := self.ruled(names)):
            return ruled
        if self.once_in(3):
            block = self.random.randrange(len(blocks))
            less = with_other_alternatives(self.random, blocks[block])
            if less:
                return Replaced(block, less if self.once_in(2) else tuple(blocks[block]))
        return self.edits(names, self.random.choice((1, 1, 2, 4, 12)), 0.6)

    def edits(self, names: list[str], n: int, inserting: float) -> list[Edit]:
        """Edits of stored rows."""
        found = []
        for _ in range(n):
            source = self.declared[self.random.choice(names)]
            row = tuple(map(self.value, source.tags))
            if source.kind in ("nullable", "columns") and self.once_in(4):
                row = (*row[:-1], None)
            found.append((source.name, row, self.random.random() < inserting))
        return found

    def value(self, tag: str) -> Any:
        ends = TAGS[tag].extremes
        return self.random.choice(
            ends if ends and self.random.random() < EXTREME else TAGS[tag].values
        )


def case_of(seed: object) -> tuple[Case, list[Pair], list[str]]:
    """A case, the pairs that it has, and why views that were drawn for it were refused."""
    random = Random(str(seed))
    composer = Composer(random)
    blocks, questions, pairs, refused = composer.program(random.choice((2, 3, 4, 6, 8)))
    stored = {name: text for name, text in composer.declarations.items() if name in composer.used}
    names = sorted(
        name for name in composer.declared if name in stored or name not in composer.declarations
    )
    load = composer.edits(names, random.randrange(8 * len(names)), 1.0) if names else []
    changes = [composer.step(names, blocks) for _ in range(random.randrange(7))] if names else []
    options: list[dict[str, Any]] = [
        {
            "maintenance": random.choice(("auto", "auto", "match", "probe")),
            "granularity": random.choice((1, 1, 1, 3)),
            "rounds_max": ROUNDS_MAX,
        }
        for _ in blocks
    ]
    found = Case(
        stored,
        blocks,
        options,
        [load, *changes],
        questions,
        loaded_first=random.random() < 0.5,
        lasting=random.random() < 0.15,
        told=random.random() < 0.4,
        beside=random.random() < 0.3,
        way=random.choice(WAYS),
    )
    return found, pairs, refused


# -- the same in another order


def shuffled(random: Random, views: list[str]) -> str:
    """The same views with their rules, alternatives and literals in another order, which means
    nothing.
    """
    rules = [rule for view in views for rule in view.removesuffix(".").split(".\n")]
    random.shuffle(rules)
    return "\n".join(f"{_shuffled_rule(random, rule)}." for rule in rules)


def _shuffled_rule(random: Random, rule: str) -> str:
    head, arrow, body = rule.partition(" <- ")
    if not arrow:
        return rule
    fold, end, rest = body.partition(">> ") if body.startswith("agg<<") else ("", "", body)
    if any(f"{op}(" in fold for op in ("first", "last", "concat", "lastone")):
        return rule  # without an order, that of the variables counts
    return f"{head} <- {fold}{end}{_shuffled_body(random, rest)}"


def _shuffled_body(random: Random, body: str) -> str:
    for separator in " ; ", ", ":
        parts = _parts(body, separator)
        if len(parts) > 1:
            random.shuffle(parts)
            while parts[0].startswith("agg<<"):  # there it would be of the whole body
                random.shuffle(parts)
            return separator.join(_shuffled_body(random, part) for part in parts)
    negated = "!" * body.startswith("!(")
    if body.startswith(f"{negated}(") and body.endswith(")"):
        return f"{negated}({_shuffled_body(random, body[len(negated) + 1 : -1])})"
    return body


def _parts(text: str, separator: str) -> list[str]:
    """A text cut where a separator stands outside brackets and quotes."""
    found: list[str] = []
    start, depth, quoted = 0, 0, False
    for i, letter in enumerate(text):
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([") - (letter in ")]")
        if depth == 0 and not quoted and text.startswith(separator, i):
            found.append(text[start:i])
            start = i + len(separator)
    return [*found, text[start:]]


# -- simpler cases


def smaller(case: Case, fails: Callable[[Case], bool], tries: int = 400) -> Case:
    """A case with less in it that fails, too."""
    while tries > 0:
        for simpler in _simpler(case):
            tries -= 1
            if fails(simpler):
                case = simpler
                break
            if tries <= 0:
                break
        else:
            return case
    return case


def _simpler(case: Case) -> Iterator[Case]:
    """Cases that lack something."""
    for i in range(len(case.transactions) - 1, 0, -1):
        yield replace(case, transactions=case.transactions[:i] + case.transactions[i + 1 :])
    for i in range(len(case.blocks) - 1, -1, -1):
        yield replace(case, blocks=_without(case.blocks, i), options=_without(case.options, i))
    for i, views in enumerate(case.blocks):
        for j in range(len(views) - 1, -1, -1):
            yield replace(
                case, blocks=[*case.blocks[:i], _without(views, j), *case.blocks[i + 1 :]]
            )
    for i in range(len(case.questions)):
        yield replace(case, questions=_without(case.questions, i))
    for name in case.stored:
        kept = {other: text for other, text in case.stored.items() if other != name}
        left = [
            [edit for edit in one if edit[0] != name] if isinstance(one, list) else one
            for one in case.transactions
        ]
        yield replace(case, stored=kept, transactions=left)
    for i, edits in enumerate(case.transactions):
        if not isinstance(edits, list):
            continue
        for half in (edits[len(edits) // 2 :], edits[: len(edits) // 2]) if len(edits) > 3 else ():
            yield replace(
                case, transactions=[*case.transactions[:i], half, *case.transactions[i + 1 :]]
            )
        for j in range(len(edits)):
            yield replace(
                case,
                transactions=[
                    *case.transactions[:i],
                    _without(edits, j),
                    *case.transactions[i + 1 :],
                ],
            )
    if len(case.blocks) > 1:
        yield replace(
            case,
            blocks=[[view for views in case.blocks for view in views]],
            options=case.options[:1],
        )
    for plain in (
        {"lasting": False},
        {"told": False},
        {"beside": False},
        {"way": WAYS[0]},
        {"loaded_first": False},
    ):
        if any(getattr(case, name) != value for name, value in plain.items()):
            yield replace(case, **plain)


def _without(items: list, i: int) -> list:
    return items[:i] + items[i + 1 :]
