"""`pagestore fsck FILE [--salvage OUT]`: check every invariant; save what reads into a new store."""

import argparse
from pathlib import Path

import pagestore
from pagestore.salvage import Lost, open_damaged, salvage

from .output import made
from .progress import Progress
from .report import answer, common, counted, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("--salvage", metavar="OUT", help="copy every readable record into a new store")


def run(options: argparse.Namespace) -> int:
    with open_damaged(options.file) if options.salvage else opened(options) as store:
        with Progress("fsck", options.quiet) as progress:
            progress(f"{store._handle.state.commit.top:,} pages")
            violations = store.check()
        lines = [str(violation) for violation in violations]
        data = {
            "ok": not violations,
            "version": store.version,
            "violations": [v._asdict() for v in violations],
        }
        if options.salvage:
            version, lost, records = _saved(store, Path(options.salvage))
            data |= {"salvaged": version, "lost": [part._asdict() for part in lost]}
            lines += [str(part) for part in lost]
            lines.append(f"salvaged {counted(records, 'record')} of version {version} to {options.salvage}")
        if not violations:
            lines.insert(0, f"ok: version {store.version}, {store._handle.state.commit.top:,} pages")
        answer(options, data, "\n".join(lines))
    return 1 if violations else 0


def _saved(store: pagestore.Store, path: Path) -> tuple[int, list[Lost], int]:
    """Make a store of what reads, or leave nothing: of which version, what was lost, and how many records were not."""
    if path.exists():
        raise FileExistsError(f"{path} is there already; salvage to another name")
    with made(path) as target:
        return *salvage(store, target), sum(map(len, target.snapshot().values()))
