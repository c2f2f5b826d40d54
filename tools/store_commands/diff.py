"""`pagestore diff FILE A B RELATION`: the changes from one version to another."""

import argparse

from ..cli.answers import as_json, cell_text, common, opened, tell, version_or_name

FAILED = 2  # as for cmp and diff; exit code 1 means that there are changes


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.epilog = "Exits with 0 if nothing changed, 1 if something did, and 2 on an error."
    parser.add_argument("old", type=version_or_name, help="a version: number, tag or branch")
    parser.add_argument("new", type=version_or_name, help="another one")
    parser.add_argument("relation")


def run(options: argparse.Namespace) -> int:
    """Print the rows that differ; return 1 if there are any."""
    changes = 0
    with opened(options) as store:
        for batch in store.diff(options.old, options.new, options.relation):
            changes += batch.num_rows
            for row in batch.to_pylist() if not options.quiet else ():
                sign = "+" if row.pop("_change_type") == "insert" else "-"
                if options.json:
                    print(as_json({"change": sign, **row}))
                else:
                    tell(f"{sign} {', '.join(map(cell_text, row.values()))}")
    return 1 if changes else 0
