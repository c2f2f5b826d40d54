"""Rules as a version saves them: a record for each block, by which some of them are compiled, changed
and saved again without the others.

    block v0   has paid, city, v0        declares or derives these
    block v1   has v1                    uses v0, since it reads paid
               reads paid                what other blocks have
               indices paid: [1, 0]      other orders of columns in which its rules read relations

A question about v1 compiles v1 and v0, whatever else is installed; a transaction that edits paid
compiles both, and so does an installation that replaces v1.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ivm.plan.plan import Index

# as PLANNING_WITHOUT_RANGES of installed.py, but for rules whose arithmetic may fail
PLANNING_BEFORE = 1


class SavedBlock:
    """What a version saves of a block; once it is compiled also the block, and its layouts."""

    def __init__(self, saved: dict[str, Any], compiled: Any = None) -> None:
        self.saved, self.compiled = saved, compiled

    @cached_property
    def text(self) -> str:
        """The record as JSON."""
        return json.dumps(self.saved)

    @property
    def rules(self) -> int:
        """How many rules it has."""
        return self.saved["rules"] if "plans" in self.saved else len(self.saved["orders"])

    @property
    def plans(self) -> tuple[list[Any], list[Any]]:
        """The key orders of each rule, and what these were chosen for: a text of their own, except
        in earlier releases, so that a list of many blocks is read without them.
        """
        if "plans" not in self.saved:
            return self.saved["orders"], self.saved.get("bases", [])
        orders, bases = json.loads(self.saved["plans"])
        return orders, bases


@dataclass(frozen=True)
class SavedRules:
    """The blocks of a version by name, each after those that it uses.

    `deferred` and `partial` are as in `Installed`, of all blocks.
    """

    planning: int
    blocks: Mapping[str, SavedBlock]
    deferred: frozenset[Index] = frozenset()
    partial: frozenset[str] = frozenset()

    @cached_property
    def text(self) -> str:
        """All as the property of a version has it."""
        lists = {"deferred": sorted(self.deferred), "partial": sorted(self.partial)}
        more = "".join(f', "{name}": {json.dumps(some)}' for name, some in lists.items() if some)
        blocks = ", ".join(block.text for block in self.blocks.values())
        return f'{{"planning": {self.planning}, "blocks": [{blocks}]{more}}}'

    @cached_property
    def owners(self) -> dict[str, str]:
        """The blocks that have each relation and view."""
        return {n: name for name, block in self.blocks.items() for n in block.saved.get("has", ())}

    @cached_property
    def are_linked(self) -> bool:
        """Whether it is known which blocks use others, and what they read, which earlier releases
        did not save.
        """
        return self.planning != PLANNING_BEFORE and all(
            "indices" in block.saved for block in self.blocks.values()
        )


NO_RULES = SavedRules(0, {})


@dataclass(frozen=True)
class Rest:
    """The saved rules of a version of which those of the blocks `own` are compiled.

    `base` are these rules, before anything was changed, `elsewhere` the permuted indices of their
    predicates that other blocks keep, and `next_number` is greater than those of others' rules.
    """

    rules: SavedRules = NO_RULES
    own: frozenset[str] = frozenset()
    elsewhere: frozenset[Index] = frozenset()
    next_number: int = 0
    base: Any = None

    @cached_property
    def others(self) -> dict[str, SavedBlock]:
        """The blocks that are not among these."""
        return {n: block for n, block in self.rules.blocks.items() if n not in self.own}

    def beside(self) -> Rest:
        """Return this with what other blocks keep and number."""
        names = {n for block in self.own for n in self.rules.blocks[block].saved["has"]}
        kept = self._indices(names) - self.rules.deferred
        number = max(block.saved["number"] + block.rules for block in self.others.values())
        return replace(self, elsewhere=frozenset(kept), next_number=number)

    def _indices(self, names: Set[str]) -> set[Index]:
        """Return the permuted indices of some predicates that rules of other blocks read."""
        return {
            Index(name, (*order,))
            for block in self.others.values()
            for name in names & block.saved["indices"].keys()
            for order in block.saved["indices"][name]
        }

    def deferred(self, built: Container[Index]) -> set[Index]:
        """Return the deferred indices of other blocks, but those that are built by now."""
        left = self.rules.deferred - self.base.deferred
        shared = self._indices({index.predicate for index in self.base.deferred})
        return {index for index in left | self.base.deferred & shared if index not in built}

    def with_own(self, own: Mapping[str, SavedBlock]) -> dict[str, SavedBlock]:
        """Return all blocks, each after those that it uses: others have their places, own ones too
        from the first on that comes before another which was before it.
        """
        places = {name: place for place, name in enumerate(self.rules.blocks)}
        stay, last = set[str](), -1
        for name in own:
            if places.get(name, -1) <= last:
                break
            last = places[name]
            stay.add(name)
        blocks = {
            name: own.get(name, block)
            for name, block in self.rules.blocks.items()
            if name in stay or name not in self.own
        }
        return self._linked(
            blocks | {name: block for name, block in own.items() if name not in stay}
        )

    def _linked(self, blocks: dict[str, SavedBlock]) -> dict[str, SavedBlock]:
        """Return blocks that use those which have what they read now."""
        if self.own <= blocks.keys():
            return blocks
        owners, gone = SavedRules(0, blocks).owners, self.own - blocks.keys()
        for name, block in blocks.items():
            if not gone.isdisjoint(block.saved["uses"]):
                uses = sorted({owners[n] for n in block.saved["reads"] if n in owners})
                blocks[name] = SavedBlock({**block.saved, "uses": uses}, block.compiled)
        return blocks


WHOLE_RULES = Rest()
