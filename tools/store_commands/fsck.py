"""`pagestore fsck FILE [--deep] [--salvage OUT] [--repair-texts [ENCODING]]`: check every
invariant, and mend.
"""

import argparse
import codecs
from pathlib import Path

import ivm as ivm  # registers its host, which --deep uses
import pagestore
from pagestore.admin.broken_texts import Mended, mend_texts
from pagestore.host import Violation, recorded_dependants
from pagestore.salvage import Lost, open_damaged, salvage
from pagestore.tooling import hosts

from ..cli.answers import answer, common, counted, opened
from ..cli.progress import Progress, made


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument(
        "--deep",
        action="store_true",
        help="also compare what hosts store, such as views, with its source",
    )
    parser.add_argument(
        "--salvage", metavar="OUT", help="copy every readable record into a new store"
    )
    parser.add_argument(
        "--repair-texts",
        metavar="ENCODING",
        nargs="?",
        const="",
        type=encoding,
        help="read texts that are not UTF-8 as ENCODING, such as latin-1, or write their bytes "
        "with a backslash",
    )


def encoding(text: str) -> str:
    """Parse the name of an encoding.  Raises argparse.ArgumentTypeError."""
    try:
        return text and codecs.lookup(text).name
    except LookupError:
        raise argparse.ArgumentTypeError(
            f"{text}: there is no such encoding; latin-1 and cp1252 are usual"
        ) from None


def run(options: argparse.Namespace) -> int:
    """Check, salvage if asked, and print the violations; return 1 if there are any."""
    mending = options.repair_texts is not None
    with (
        open_damaged(options.file)
        if options.salvage
        else opened(options, "rw" if mending else "r") as store
    ):
        mended = mend_texts(store._handle, options.repair_texts) if mending else []
        with Progress("fsck", options.quiet) as progress:
            progress(f"{store._handle.state.commit.top:,} pages")
            violations = store.check()
            if options.deep and not violations:
                violations = _deep(store, progress)
        lines = [*map(_told, mended), *(str(violation) for violation in violations)]
        data = {
            "ok": not violations,
            "version": store.version,
            "violations": [v._asdict() for v in violations],
        }
        if mending:
            data["mended"] = [fault._asdict() for fault in mended]
        if options.salvage:
            version, lost, records = _saved(store, Path(options.salvage))
            data |= {"salvaged": version, "lost": [part._asdict() for part in lost]}
            lines += [str(part) for part in lost]
            lines.append(
                f"salvaged {counted(records, 'record')} of version {version} to {options.salvage}"
            )
        if not violations:
            lines.insert(
                0, f"ok: version {store.version}, {store._handle.state.commit.top:,} pages"
            )
            kept = ", ".join(recorded_dependants(store.snapshot().properties))
            if kept and not options.deep:
                lines.append(
                    f"what {kept} keeps was not compared with its source; --deep does that"
                )
        answer(options, data, "\n".join(lines))
    return 1 if violations else 0


def _told(mended: Mended) -> str:
    before = "versions before have them until they are dropped, as by pagestore vacuum --keep 1"
    records = counted(mended.records, "record")
    return f"{mended.relation}: {records} with texts that were no UTF-8, mended in version {mended.version}; {before}"


def _deep(store: pagestore.Store, progress: Progress) -> list[Violation]:
    """Return the violations in data that hosts derived, compared with its sources."""
    faults = [fault for host in hosts().values() for fault in host.check(store, progress)]
    for name in recorded_dependants(store.snapshot().properties).keys() - hosts().keys():
        faults.append(
            Violation(
                "dependants",
                None,
                (),
                f"{name} is not loaded here, so what it keeps was not compared",
            )
        )
    return faults


def _saved(store: pagestore.Store, path: Path) -> tuple[int, list[Lost], int]:
    """Copy readable records to a new store; return the version, what was lost, and the number of
    records.

    An error leaves no file.
    """
    if path.exists():
        raise FileExistsError(f"{path} already exists; salvage to another name")
    with made(path) as target:
        return *salvage(store, target), sum(map(len, target.snapshot().values()))
