"""A picture of what iterators do at one level of a rule, under one binding.

    A(x)    0 ──seek──> 2 ──next──> 4 ──seek──> 6        arrows over the keys that each iterator has
    B(x)        1 ────> 2 ────────────────────> 6
            [0 .... 2]                                   what each operation is sensitive to
            + came, - went                               changes, if there are two versions
            [2, 2]  [6, +inf]                            what they hit: the change oracle

Keys have columns of the same width, in order. Of two versions, operations that differ are thick.
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from ivm import IvmError, Workspace

Traces = list[tuple[Any, list[Any]]]  # versions, each with its operations
COLUMN, ROW, LEFT, COLUMNS = 64, 30, 150, 24
STYLE = """
  svg { background: #fff; --ink: #1f2328; --faint: #768390; --hit: #b34700; --line: #1f5fae }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; --ink: #e6edf3; --faint: #9198a1; --hit: #ffab70; --line: #79b8ff }
  }
  text { fill: var(--ink); font: 12px system-ui, sans-serif } .faint { fill: var(--faint) }
  .title { font-weight: 600 } .hit { fill: var(--hit) } .mid { text-anchor: middle }
  path { fill: none; stroke: var(--line); stroke-width: 1.2; marker-end: url(#tip) }
  #tip path { fill: var(--line); stroke: none; marker-end: none }
  .bar { stroke: var(--faint); stroke-width: 2; marker-end: none } path.changed { stroke-width: 2.8 }
  .bar.touched { stroke: var(--hit); stroke-width: 3.5 } .small { font-size: 10px }
"""
TIP = (
    "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
    "markerUnits='userSpaceOnUse' orient='auto'><path d='M0,0 L8,4 L0,8 z'/></marker></defs>"
)


def page(workspace: Workspace, view: str, old: Any = None, new: Any = None) -> str:
    """Return a page with the picture and all operations, those of both versions if there are two."""
    parts = [f"<!doctype html><meta charset='utf-8'><title>{escape(view)}</title>"]
    traces = _traces(workspace, view, old, new)
    parts += [f"<h1>{escape(view)}</h1>", _drawn(workspace, view, traces)]
    for version, steps in dict(traces).items():
        lines = "\n".join(map(str, steps))
        name = "newest version" if version is None else f"version {version}"
        parts.append(f"<h2>{escape(name)}</h2><pre>{escape(lines)}</pre>")
    return "\n".join(parts) + "\n"


def picture(workspace: Workspace, view: str, old: Any = None, new: Any = None) -> str:
    """Return a picture of the level and binding at which most operations are hit, or done, as SVG."""
    return _drawn(workspace, view, _traces(workspace, view, old, new))


def _traces(workspace: Workspace, view: str, old: Any, new: Any) -> Traces:
    """Return the operations at the newer version, after those at the older one, if there is one."""
    after = new, workspace.trace(view, new)
    if old is None:
        return [after]
    until = workspace.store.version if new is None else new
    return [(old, workspace.trace(view, old, until)), after]


def _drawn(workspace: Workspace, view: str, traces: Traces) -> str:
    before, after = traces[0][1], traces[-1][1]
    most = Counter(_where(step) for step in before if step.touched or len(traces) == 1)
    both = most.keys() & {_where(step) for step in after}
    where = max(both or most or map(_where, after), key=most.__getitem__, default=None)
    panels = [
        (version, [step for step in steps if _where(step) == where]) for version, steps in traces
    ]
    return _Drawing(workspace, panels, view).svg


def _where(step: Any) -> tuple[Any, ...]:
    return step.plan, step.variable, (*step.binding.items(),)


class _Drawing:
    """The parts of a picture; `y` is how far down it has come."""

    def __init__(
        self, workspace: Workspace, panels: Sequence[tuple[Any, Sequence[Any]]], view: str
    ) -> None:
        self.parts, self.y = list[str](), 0
        keys = [_keys(workspace, version, steps) for version, steps in panels]
        words = {
            word: text for found in keys for some in found.values() for word, text in some.items()
        }
        shown = sorted(words)[:COLUMNS]
        self.columns = {word: LEFT + COLUMN * (1 + i) for i, word in enumerate(shown)}
        self.names = words
        self.right = LEFT + COLUMN * (len(shown) + 1)
        here = next((step for _, steps in panels for step in steps), None)
        of = f"{here.variable}, {_and(here.binding)}".rstrip(", ") if here else "no operations"
        left_out = f"; the first {COLUMNS} of {len(words)} keys" if len(words) > COLUMNS else ""
        self.line(f"{view}: {of}{left_out}", "title")
        places = [{step.place for step in steps} for _, steps in panels]
        for i, (version, steps) in enumerate(panels):
            others = places[1 - i] if len(places) > 1 else places[i]
            name = "the newest version" if version is None else f"version {version}"
            self.line(name, "faint")
            self.panel(steps, keys[i], others)
            if i == 0 and len(panels) > 1:
                self.changes(*keys)
                self.bars(
                    "change oracle", _union(step.words for step in steps if step.touched), "touched"
                )
        width, height = self.right + 70, self.y + 16
        self.svg = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}'>"
            f"<style>{STYLE}</style>{TIP}\n" + "\n".join(self.parts) + "\n</svg>\n"
        )

    def x(self, word: int) -> float:
        """Return where a word is, or would be among the keys."""
        if word in self.columns:
            return self.columns[word]
        below = sum(column < word for column in self.columns)
        return LEFT + COLUMN * (below + 0.5) if below < len(self.columns) else self.right

    def line(self, text: str, kind: str = "", row: int = ROW) -> None:
        """Add a line of text, below what there is."""
        self.y += row
        self.parts.append(f"<text class='{kind}' x='16' y='{self.y}'>{escape(text)}</text>")

    def at(self, x: float, text: str, kind: str = "mid", up: float = 0) -> None:
        """Add a text at a place of the line."""
        self.parts.append(
            f"<text class='{kind}' x='{x:.0f}' y='{self.y - up:.0f}'>{escape(text)}</text>"
        )

    def panel(
        self, steps: Sequence[Any], keys: dict[str, dict[int, str]], others: set[Any]
    ) -> None:
        """Draw the keys of each atom, the arrows over them, and what operations are sensitive to."""
        by_atom = defaultdict(list)
        for step in steps:
            by_atom[step.atom].append(step)
        for atom, some in by_atom.items():
            self.line(atom, row=ROW + 22)
            for word, text in keys[atom].items():
                if word in self.columns:
                    self.at(self.columns[word], text)
            if any(step.words[1] not in self.columns for step in some):
                self.at(self.right, "end", "mid faint")
            position = LEFT + 0.0
            for step in some:
                end = self.x(step.words[1])
                label = (
                    f"{step.kind}({step.start})" if step.kind in ("seek", "look up") else step.kind
                )
                if step.kind == "look up":
                    position = end - 20
                kind = "" if step.place in others else "changed"
                top, low = self.y - 26, self.y - 14
                self.parts.append(
                    f"<path class='{kind}' d='M{position:.0f},{low} C{position + 8:.0f},{top} "
                    f"{end - 8:.0f},{top} {end:.0f},{low}'/>"
                )
                self.at((position + end) / 2, label, "mid faint", 27)
                position = end
        for atom, some in by_atom.items():
            touched = {step.words for step in some if step.touched}
            self.bars(f"sensitivity of {atom}", (step.words for step in some), touched=touched)

    def bars(
        self,
        name: str,
        ends: Iterable[tuple[int, int]],
        kind: str = "",
        touched: Container[Any] = (),
    ) -> None:
        """Draw intervals, each with its ends."""
        self.line(name, "faint", row=34)
        for a, b in ends:
            start = self.x(a) - 5 if a in self.columns else LEFT
            end, hit = self.x(b) + 5, kind or ("touched" if (a, b) in touched else "")
            self.parts.append(
                f"<path class='bar {hit}' d='M{start:.0f},{self.y - 9} v10 m0,-5 H{end:.0f} m0,-5 v10'/>"
            )
            low, high = (self.names.get(word, "∞" if word > 0 else "-∞") for word in (a, b))
            self.at((start + end) / 2, f"[{low}, {high}]", "small mid faint", -12)

    def changes(self, old: dict[str, dict[int, str]], new: dict[str, dict[int, str]]) -> None:
        """Draw the keys that came and went."""
        for atom in old.keys() | new.keys():
            before, after = old.get(atom, {}), new.get(atom, {})
            if before.keys() != after.keys():
                self.line(f"changes of {atom}", "faint")
                for sign, words in (
                    ("-", before.keys() - after.keys()),
                    ("+", after.keys() - before.keys()),
                ):
                    for word in words & self.columns.keys():
                        self.at(self.columns[word], f"{sign}{self.names[word]}", "mid hit")


def _keys(workspace: Workspace, version: Any, steps: Sequence[Any]) -> dict[str, dict[int, str]]:
    """Return the keys that each atom has under the binding, by word: those of integers, also where
    no iterator landed; of other types those where one did.
    """
    keys = dict[str, dict[int, str]]()
    for step in steps:
        some = keys.setdefault(step.atom, {})
        if step.end not in ("-inf", "+inf") and step.kind != "look up":
            some[step.words[1]] = step.end
    for step in {step.atom: step for step in steps if step.end.lstrip("-").isdigit()}.values():
        given = _and({name: value for name, value in step.binding.items() if name in step.atom})
        text = f"key({step.variable}) <- {step.atom}{', ' * bool(given)}{given}."
        with suppress(IvmError), warnings.catch_warnings(action="ignore"):
            with workspace.at(version) as there:
                rows = [*there.query(text)]
            keys[step.atom] = {row[0]: str(row[0]) for row in rows}
    return keys


def _and(binding: Mapping[str, str]) -> str:
    """Return values of variables as rules write them."""
    return ", ".join(f"{name} = {value}" for name, value in binding.items())


def _union(ends: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield disjoint intervals that cover the same values.

    >>> [*_union([(4, 6), (1, 2), (5, 9)])]
    [(1, 2), (4, 9)]
    """
    merged = list[tuple[int, int]]()
    for a, b in sorted(ends):
        if merged and a <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(b, merged[-1][1])
        else:
            merged.append((a, b))
    yield from merged
