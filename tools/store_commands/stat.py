"""`pagestore stat FILE`: pages by relation, by version and by reader; with `--columns` what each
column takes.
"""

import argparse
from collections import Counter

from ..cli.answers import answer, common, counted, everything, opened, owner, shown, size, table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    everything(parser)
    parser.add_argument(
        "--columns", action="store_true", help="what each column takes; reads all records"
    )


def run(options: argparse.Namespace) -> int:
    """Print the numbers of pages, or of bytes by column; return the exit code."""
    if options.columns:
        return _columns(options)
    with opened(options) as store:
        stat = store.stat()
        pages = Counter[str]()
        for name, count in stat.relations.items():
            pages[name if options.all else owner(name, stat.relations)] += count
        data = stat._asdict() | {"readers": [reader._asdict() for reader in stat.readers]}
        lines = [
            f"{stat.pages:,} pages of {size(stat.page_size)}; {stat.free:,} free, {stat.store:,} "
            f"the store's",
            f"{counted(stat.texts, 'text')} in the dictionary; {stat.texts_removed:,} have left it",
            table(sorted(pages.items()), ("relation", "pages")),
            table(sorted(stat.only.items()), ("version", "pages of its own")),
        ]
        if stat.readers:
            rows = [(r.version, r.pid, stat.only.get(r.version, 0)) for r in stat.readers]
            lines.append(table(rows, ("read version", "process", "pages of its own")))
        answer(options, data, "\n".join(lines))
    return 0


def _columns(options: argparse.Namespace) -> int:
    with opened(options) as store:
        sizes = store.column_sizes()
    named = {*shown(options, {entry.relation for entry in sizes})}
    rows = [
        (entry.relation, entry.column, entry.type, size(entry.bytes), f"{entry.bits:.1f}", letters)
        for entry in sorted(sizes, key=lambda entry: (entry.relation, -entry.bytes - entry.letters))
        if entry.relation in named
        for letters in [size(entry.letters) if entry.letters else ""]
    ]
    heads = ("relation", "column", "type", "in its pages", "bits a value", "letters of its texts")
    answer(options, {"columns": [one._asdict() for one in sizes]}, table(rows, heads))
    return 0
