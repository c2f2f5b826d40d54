"""The report of a preparation, as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from ..cli.answers import counted
from ..loading.manifest import Manifest

NAME = "_report.json"
EXAMPLES = 3
SHOWN = 160  # characters of an example
KINDS = {"duplicates": "duplicates collapsed", "superseded": "superseded", "conflicts": "conflicts of keys"}


@dataclass
class Report:
    """Row counts by outcome: raw = unwanted + dropped + quarantined + duplicates + superseded + kept.

    `reasons` counts bad rows by reason, each with an example; a row may have several. `conflicts` counts keys,
    `conflict_rows` their rows, which are in quarantine.
    """

    relation: str
    folder: str
    quarantine: str
    raw: int = 0
    unwanted: int = 0
    dropped: int = 0
    quarantined: int = 0
    duplicates: int = 0
    superseded: int = 0
    conflicts: int = 0
    conflict_rows: int = 0
    kept: int = 0
    files: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def reason(self, reason: str, rows: int, example: str) -> None:
        """Add bad rows with a reason."""
        self.reasons[reason] = self.reasons.get(reason, 0) + rows
        self.examples.setdefault(reason, [example])

    def take(self, manifest: Manifest) -> None:
        """Record what was written."""
        self.kept, self.files = manifest.rows, len(manifest.files)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def __str__(self) -> str:
        lines = [f"{self.relation}: {self.kept:,} of {counted(self.raw, 'row')} kept, "
                 f"in {counted(self.files, 'file')} of {self.folder}"]  # fmt: skip
        counts: list[tuple[str, int, Sequence[str]]] = [
            ("not wanted", self.unwanted, []),
            ("dropped for nulls", self.dropped, []),
        ]
        counts += [
            (KINDS[kind], getattr(self, kind), self.examples.get(kind, [])) for kind in ("duplicates", "superseded")
        ]
        lines += [line for what, rows, examples in counts if rows for line in _lines(f"{rows:,} {what}", examples)]
        if self.quarantined:
            lines.append(f"  {self.quarantined:,} in quarantine, in {self.quarantine}")
            for reason, rows in self.reasons.items():
                lines += ["  " + line for line in _lines(f"{rows:,}: {reason}", self.examples[reason])]
            if self.conflicts:
                what = f"{self.conflict_rows:,}: {counted(self.conflicts, 'key')} with several values"
                lines += ["  " + line for line in _lines(what, self.examples["conflicts"])]
        return "\n".join(lines)


def _lines(text: str, examples: Sequence[str]) -> list[str]:
    shown = [one if len(one) <= SHOWN else f"{one[: SHOWN - 3]}..." for one in examples]
    return [f"  {text}", *(f"    such as {one}" for one in shown)]
