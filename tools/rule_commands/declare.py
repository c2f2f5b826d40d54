"""`ivm declare FILE`: the relations of a store as declarations, which rules may omit."""

import argparse

from ivm.sql import is_helper

from ..cli.answers import answer, common
from ..cli.workspace_options import on_branch, opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)


def run(options: argparse.Namespace) -> int:
    """Print a declaration a line, a comment if rules cannot read one; return the exit code."""
    with opened(options, "r") as workspace:
        blocks, declarations = workspace.blocks, workspace.declarations()
        texts = {
            name: declared for name, declared in declarations.items() if not is_helper(name, blocks)
        }
        with workspace.store.snapshot() as snapshot:
            others = {
                name: f"// {name} ({snapshot[name].schema}) is not read by rules" for name in texts
            }
        answer(
            options, texts, "\n".join(declared or others[name] for name, declared in texts.items())
        )
    return 0
