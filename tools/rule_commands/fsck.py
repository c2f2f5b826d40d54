"""`ivm fsck FILE [--repair]`: compare views and indices with their evaluation from relations,
and repair them.
"""

import argparse
from typing import Any

import ivm
from pagestore.host import Violation

from ..cli.answers import answer, common, counted
from ..cli.progress import Progress
from ..cli.workspace_options import opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument(
        "--repair", action="store_true", help="rebuild all that is stored for rules, in one commit"
    )


def run(options: argparse.Namespace) -> int:
    """Check, repair with --repair, and print the violations; return 1 if some are left."""
    with (
        opened(options, "rw" if options.repair else "r") as workspace,
        Progress("fsck", options.quiet) as progress,
    ):
        progress("pages")
        damage = workspace.store.check()
        said = [] if damage else _checked(workspace, progress)
        mended = {
            branch: workspace.repair(branch, progress)
            for branch, faults in said
            if faults and options.repair
        }
        left = said if not mended else _checked(workspace, progress)
        progress.clear()
        lines = [str(violation) for violation in damage]
        lines += [f"{_on(branch)}{violation}" for branch, faults in said for violation in faults]
        lines += [
            f"{_on(branch)}mended: made anew in version {version}"
            for branch, version in mended.items()
        ]
        lines += [
            f"{_on(branch)}not mended: {violation}"
            for branch, faults in left
            if mended
            for violation in faults
        ]
        if damage:
            lines.append(
                "pages are damaged, so what they hold was not compared; `pagestore fsck --salvage "
                "OUT` first"
            )
        ok = not damage and not any(faults for _, faults in left)
        data: dict[str, Any] = {"ok": ok, "version": workspace.store.version, "mended": mended}
        data["violations"] = [violation._asdict() for violation in damage] + [
            {"branch": branch, **violation._asdict()}
            for branch, faults in said
            for violation in faults
        ]
        if ok and not mended:
            lines.append(
                f"ok: version {workspace.store.version}, {counted(len(workspace.blocks), 'block')} "
                f"of rules"
            )
        answer(options, data, "\n".join(lines))
    return 0 if ok else 1


def _checked(workspace: ivm.Workspace, progress: Progress) -> list[tuple[str, list[Violation]]]:
    """Return the violations on each branch."""
    return [(branch, workspace.check(branch, progress)) for branch in workspace.store.branches]


def _on(branch: str) -> str:
    """Return a prefix that names a branch; empty for the main branch."""
    return "" if branch == "main" else f"branch {branch}: "
