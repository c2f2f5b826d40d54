"""Pictures of pages as they are in a file: the ScanTree of the sales table, the interval tree with
the nodes that a stab enters, and the pages that two versions of a tree share.

    1000  2900  3500 |  9000 ── 15000          records, the leaves of the tree, and what these fold;
    7300  1440  3300 | 15000 /                 what answers the question is marked
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pagestore
from benchmarks.picture import DARK, LIGHT
from pagestore.admin.tree_check import ScanTree, Walk, read_scan_tree
from pagestore.host import WORD_MAX, WORD_MIN, Store, Tree
from pagestore.pages.layout import PAGE_MASK

PAPER = Path(__file__).parents[1] / "fixtures" / "paper"
ROW, COLUMN, RECORD = 15, 130, 250  # pixels
MONTHS = 3  # of sales, so that a page has a tree
RECORDS = 12_000  # of the tree with two versions
REGION, POINT = 2, 80  # that the paper asks for
Words = tuple[int, ...]


class Node(NamedTuple):
    """A node of the ScanTree of a page: its entries from `first` to before `end`, its fold."""

    first: int
    end: int
    fold: int


class Page(NamedTuple):
    """A page with its rows and the nodes of its ScanTree, those of a heap from 1 on."""

    rows: list[Words]
    nodes: list[Node]

    @property
    def leaves(self) -> list[Node]:
        """The nodes over records themselves."""
        return self.nodes[len(self.nodes) // 2 :]


def page_of(store: Store, name: str) -> Page:
    """Return the only page of a relation with one scan."""
    with store.snapshot() as snapshot:
        tree = _tree(snapshot, name)
        walk = Walk(store._handle.mapping)
        rows = [(*row,) for row in walk.columns(tree.root).T.tolist()]
        found = read_scan_tree(walk._slice(tree.root), tree.spec.scans, 0)
    assert found is not None, f"the page of {name} has no ScanTree"
    return Page(rows, [Node(0, 0, 0), *_nodes(found)])


def _nodes(tree: ScanTree) -> Iterator[Node]:
    """Yield the nodes of a ScanTree: root, children, leaves."""
    leaves = len(tree.starts) - 1
    for k in range(1, 2 * leaves):
        first = last = k
        while first < leaves:
            first, last = 2 * first, 2 * last + 1
        yield Node(
            tree.starts[first - leaves], tree.starts[last - leaves + 1], int(tree.nodes[k][0])
        )


def _tree(snapshot: pagestore.Snapshot, name: str) -> Tree:
    version = snapshot._version
    return version.trees[version.catalog.relations[name].spec.tree_id]


def parts(page: Page, first: int, end: int) -> tuple[set[int], set[int]]:
    """Return the nodes and the entries whose folds together are that of entries first to end."""
    nodes, entries, below = set[int](), set[int](), [1]
    while below:
        k = below.pop()
        node = page.nodes[k]
        if first <= node.first and node.end <= end:
            nodes.add(k)
        elif node.first < end and first < node.end:
            if 2 * k < len(page.nodes):
                below += [2 * k, 2 * k + 1]
            else:
                entries |= {*range(max(first, node.first), min(end, node.end))}
    return nodes, entries


def sales(store: Store) -> Page:
    """Store the paper's sales, and those of two more months; return the page."""
    random = np.random.default_rng(1)
    paper = json.loads((PAPER / "sales.json").read_text())["sales"]
    rows = [
        (region, shop, month, int(float(total)) if month == 1 else int(random.integers(300, 9000)))
        for region, shop, total in paper
        for month in range(1, MONTHS + 1)
    ]
    with store.transaction() as txn:
        key = ("region", "store", "month")
        txn.create("sales", "region: int64, store: int64, month: int64, total: int64", key=key)
        txn.add_scan("sales", "max:total")
        txn["sales"].insert(rows)
    return page_of(store, "sales")


def intervals(store: Store) -> Page:
    """Store the paper's intervals, and twice as many others; return the page."""
    random = np.random.default_rng(2)
    rows = {(a, b) for a, b in json.loads((PAPER / "interval_tree.json").read_text())["intervals"]}
    while len(rows) < 48:
        a = int(random.integers(5, 100))
        rows.add((a, a + int(random.integers(1, 12))))
    with store.transaction() as txn:
        txn.create("intervals", "a: int64, b: int64", key=("a", "b"))
        txn.add_scan("intervals", "max:b")
        txn["intervals"].insert(sorted(rows))
    return page_of(store, "intervals")


def draw_scan_tree() -> str:
    """Return the picture of the ScanTree of sales, with what the maximum of a region folds."""
    with pagestore.open(":memory:") as store:
        page = sales(store)
        with store.snapshot() as snapshot:
            greatest = snapshot["sales"].prefix(REGION).scan("max:total")
    places = [i for i, row in enumerate(page.rows) if row[0] == REGION]
    nodes, entries = parts(page, places[0], places[-1] + 1)
    folded = [page.nodes[k].fold for k in nodes] + [page.rows[i][-1] for i in entries]
    assert max(folded) == greatest
    return _drawn(
        f"The greatest sale of region {REGION} is {greatest:,}: marked is what is folded, "
        f"{len(nodes)} node for {len(places) - len(entries)} of {len(places)} records",
        page,
        lambda row: "({}, {}, {})  {:,}".format(*row),
        lambda node: f"{node.fold:,}",
        nodes,
        entries,
    )


def draw_interval_tree() -> str:
    """Return the picture of the interval tree, with the nodes that may hold the point."""
    with pagestore.open(":memory:") as store:
        page = intervals(store)
    nodes = {k for k, node in enumerate(page.nodes) if k and _holds(_span(page, node))}
    entries = {i for i, (a, b) in enumerate(page.rows) if _holds((a, b))}
    return _drawn(
        f"Which of {len(page.rows)} intervals hold {POINT}? {len(entries)} do; branches are left "
        "where a node's interval does not",
        page,
        lambda row: "[{}, {}]".format(*row),
        lambda node: "[{}, {}]".format(*_span(page, node)),
        nodes,
        entries,
    )


def _span(page: Page, node: Node) -> tuple[int, int]:
    """Return the least start, which the order of keys tells, and the greatest end of a node."""
    return page.rows[node.first][0], node.fold


def _holds(interval: tuple[int, int]) -> bool:
    return interval[0] <= POINT <= interval[1]


def _drawn(
    title: str,
    page: Page,
    of_row: Callable[[Words], str],
    of_node: Callable[[Node], str],
    nodes: set[int],
    entries: set[int],
) -> str:
    """Return records and nodes as SVG; `nodes` and `entries` are marked."""
    top, out, places = 56, list[str](), dict[int, tuple[float, float]]()
    leaves, depth = len(page.leaves), len(page.leaves).bit_length()
    gaps = [10 * sum(leaf.end <= i for leaf in page.leaves) for i in range(len(page.rows) + 1)]
    y = [top + ROW * i + gap for i, gap in enumerate(gaps)]
    for i, row in enumerate(page.rows):
        out.append(_text(RECORD - 40, y[i], of_row(row), i in entries, "small end"))
    for k in range(2 * leaves - 1, 0, -1):
        node = page.nodes[k]
        x = RECORD + COLUMN * (depth - k.bit_length())
        at = (
            (y[node.first] + y[node.end - 1]) / 2
            if k >= leaves
            else (places[2 * k][1] + places[2 * k + 1][1]) / 2
        )
        places[k] = x, at
        for child in (2 * k, 2 * k + 1) if k < leaves else ():
            out.append(_line(places[child][0] + 84, places[child][1] - 4, x - 8, at - 4))
        if k >= leaves:
            out.append(_line(x - 20, y[node.first] - 10, x - 20, y[node.end - 1] + 2))
        out.append(_text(x, at, of_node(node), k in nodes))
    return _svg(title, RECORD + COLUMN * depth + 20, y[-1] + 10, out)


class Shared(NamedTuple):
    """A page of a tree, its children, and the versions that have it: 0 the old one, 1 the new."""

    level: int
    children: tuple[int, ...]
    versions: set[int]


def shared_pages(store: Store, trees: Sequence[Tree]) -> dict[int, Shared]:
    """Return the pages of two versions of a tree by their numbers, parents before children and in
    the order of keys.
    """
    found, walk = dict[int, Shared](), Walk(store._handle.mapping)

    def enter(page: int, level: int, version: int, keys: int) -> None:
        if page not in found:
            below = walk.columns(page)[keys] & PAGE_MASK if level else ()
            found[page] = Shared(level, tuple(map(int, below)), set())
        found[page].versions.add(version)
        for child in found[page].children:
            enter(child, level - 1, version, keys)

    for version, tree in enumerate(trees):
        enter(tree.root, tree.height - 1, version, tree.spec.keys)
    return found


def versions_of_a_tree() -> dict[int, Shared]:
    """Return the pages of a tree of some thousand records before and after one of them changed."""
    with pagestore.open(":memory:", page_size=4096) as store:
        with store.transaction() as txn:
            txn.create("r", "a: int64, b: int64", key=("a",))
            random = np.random.default_rng(3)
            txn["r"].insert([np.arange(RECORDS), random.integers(WORD_MIN, WORD_MAX, RECORDS)])
        with store.snapshot() as before:
            with store.transaction() as txn:
                txn["r"].set([(RECORDS // 3, 1)])
            with store.snapshot() as after:
                return shared_pages(store, (_tree(before, "r"), _tree(after, "r")))


def _leaves(pages: Mapping[int, Shared], version: int) -> list[int]:
    """Return the leaves of a version in the order of their keys."""
    top = max(one.level for one in pages.values())
    row = [n for n, one in pages.items() if one.level == top and version in one.versions]
    for _ in range(top):
        row = [child for n in row for child in pages[n].children]
    return row


def draw_versions() -> str:
    """Return the picture of the pages that two versions share: new pages a little lower."""
    pages, places, out = versions_of_a_tree(), dict[int, tuple[float, float]](), list[str]()
    top = max(one.level for one in pages.values())
    leaves = [_leaves(pages, version) for version in (0, 1)]
    step = 880 / len(leaves[0])
    for number, one in sorted(pages.items(), key=lambda each: each[1].level):
        new = one.versions == {1}
        if one.level:
            x = sum(places[child][0] for child in one.children) / len(one.children) + 60 * new - 30
        else:
            x = 50 + step * leaves[new].index(number)
        places[number] = x, 70 + 130 * (top - one.level) + 30 * new
        kind = "page" if len(one.versions) == 2 else "new" if new else "old"
        here = x, places[number][1] - 8
        for child in one.children:
            to_x, to_y = places[child]
            out.append(_line(*here, to_x, to_y - 8, "line made" if new else "line"))
        out.append(
            f"<rect class='{kind}' x='{x - 8:.0f}' y='{here[1]:.0f}' width='16' height='16'/>"
        )
    for i, (kind, name) in enumerate(
        (("page", "in both versions"), ("old", "old"), ("new", "new"))
    ):
        at = 50 + 160 * i
        out.append(f"<rect class='{kind}' x='{at}' y='{150 + 130 * top}' width='16' height='16'/>")
        out.append(_text(at + 24, 163 + 130 * top, name, False))
    shared = sum(len(one.versions) == 2 for one in pages.values())
    title = f"One of {RECORDS:,} records changes: {top + 1} pages are written, {shared} belong to both versions"
    return _svg(title, 960, 180 + 130 * top, out)


def _line(x: float, y: float, to_x: float, to_y: float, kind: str = "line") -> str:
    return f"<path class='{kind}' d='M{x:.0f},{y:.0f} L{to_x:.0f},{to_y:.0f}'/>"


def _text(x: float, y: float, text: str, hit: bool, kind: str = "") -> str:
    kinds = f"{kind} {'hit' if hit else 'ink'}".strip()
    return f"<text class='{kinds}' x='{x:.0f}' y='{y:.0f}'>{escape(text)}</text>"


def _svg(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    """Return a picture with a title, for light and dark pages."""
    style = " ".join(
        f"{query} {{ .ink {{ fill: {page['ink']} }} .hit {{ fill: {hit}; font-weight: 600 }} "
        f".paper {{ fill: {page['paper']} }} .line {{ stroke: {page['grid']} }} .made {{ stroke: {hit} }} "
        f".page {{ fill: {page['grid']} }} .old {{ fill: {page['faint']} }} .new {{ fill: {hit} }} }}"
        for query, page, hit in (
            ("@media all", LIGHT, "#b34700"),
            ("@media (prefers-color-scheme: dark)", DARK, "#ffab70"),
        )
    )
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}' "
            f"width='{width:.0f}' font-family='system-ui, sans-serif' font-size='13' role='img'>",
            f"<title>{escape(title)}</title><style>{style} .line {{ fill: none; stroke-width: 1.5 }} "
            ".small { font-size: 11px } .end { text-anchor: end } .mid { text-anchor: middle }</style>",
            "<rect class='paper' width='100%' height='100%'/>",
            _text(12, 24, title, False),
            *parts,
            "</svg>\n",
        ]
    )
