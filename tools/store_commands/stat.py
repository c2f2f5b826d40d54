"""`pagestore stat FILE`: pages by relation, by version and by reader."""

import argparse
from collections import Counter

from ..cli.answers import answer, common, counted, everything, opened, owner, size, table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    everything(parser)


def run(options: argparse.Namespace) -> int:
    """Print the numbers of pages; return the exit code."""
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
