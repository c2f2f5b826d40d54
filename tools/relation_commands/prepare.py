"""`pagestore prepare OUT ...`: convert raw tables to sorted Parquet with a manifest, which `pagestore load` verifies.

    pagestore prepare OUT --config job.toml [--only flight,airport]       a section for each relation
    pagestore prepare OUT SOURCE... --name flight --key t,c               one relation, by options

OUT/flight is ready to load; OUT/flight.quarantine has the bad rows with the reasons, where there are any. It runs on
Spark: in this process, or, when spark-submit started it, on that cluster. docs/prepare.md says more.
"""

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagestore.storage.file import local_path

from ..cli.answers import answer, common, number, tell
from ..cli.progress import Progress
from ..loading.casts import DatasetError
from ..spark import SUBMITTED
from ..spark.recipe import FORMATS, NULLS, Recipe, check_places, check_sources, read_recipes, recipe_of
from .load import WITHOUT_SPARK, names, pair


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser, file=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"{parser.description}\n{(__doc__ or '').partition(chr(10))[2]}"
    parser.add_argument("out", help="the folder for the prepared tables; every worker of a cluster must have it")
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="files or folders of one raw table; or its name")
    parser.add_argument("--config", metavar="FILE", help="what is to be made, as TOML, in place of the options below")
    parser.add_argument("--only", type=names, default=[], help="of the file, make only these, comma-separated")
    parser.add_argument("--name", help="the relation; by default the source's name without its suffix")
    parser.add_argument("--key", type=names, default=[], help="its key columns, comma-separated, in order")
    parser.add_argument("--format", choices=FORMATS, help="what the sources are, if their names do not say it")
    parser.add_argument("--option", type=pair, action="append", default=[], metavar="NAME=VALUE",
                        help="an option of Spark's reader, such as nullValue=NA or url=jdbc:...")  # fmt: skip
    parser.add_argument("--column", type=wanted, action="append", default=[], metavar="'NAME: TYPE [= SQL]'",
                        help="a column to make; all as they are without it")  # fmt: skip
    parser.add_argument("--nulls", type=pair, action="append", default=[], metavar=f"COLUMN={'|'.join(NULLS)}",
                        help="what becomes of rows with a null there")  # fmt: skip
    parser.add_argument("--fill", type=pair, action="append", default=[], metavar="COLUMN=VALUE",
                        help="a value for the nulls of a column")  # fmt: skip
    parser.add_argument("--where", metavar="SQL", help="which raw rows are wanted at all")
    parser.add_argument("--prefer", metavar="SQL", help="of rows with one key, keep the one where this is greatest")
    parser.add_argument("--partitions", type=number, help="files to write; as many as there are cores by default")
    parser.add_argument("--row-group", type=number, help="rows of a row group; 1,048,576 by default")
    parser.add_argument("--overwrite", action="store_true", help="replace folders that exist")
    parser.add_argument("--strict", action="store_true", help="end with exit code 1 where rows are in quarantine")
    parser.add_argument("--cores", type=number, default=2, help="threads of Spark in this process (2)")


def wanted(text: str) -> tuple[str, dict[str, str]]:
    """Parse a column's definition.  Raises argparse.ArgumentTypeError.

    >>> wanted("t: timestamp(UTC) = to_timestamp(day)")
    ('t', {'type': 'timestamp(UTC)', 'from': 'to_timestamp(day)'})
    """
    name, colon, rest = text.partition(":")
    kind, sign, source = rest.partition("=")
    if not (colon and name.strip() and kind.strip()) or (sign and not source.strip()):
        raise argparse.ArgumentTypeError(f"{text}: it is written 'NAME: TYPE' or 'NAME: TYPE = SQL'")
    return name.strip(), {"type": kind.strip(), **({"from": source.strip()} if sign else {})}


def recipes(options: argparse.Namespace) -> list[Recipe]:
    """Return the recipes of the options. Raises DatasetError."""
    if options.config:
        if options.sources:
            raise DatasetError("the file that --config names has the sources: leave them out here")
        found = read_recipes(options.config)
        if unknown := {*options.only} - {one.name for one in found}:
            raise DatasetError(f"{options.config} has no section {', '.join(sorted(unknown))}")
        return [one for one in found if not options.only or one.name in options.only]
    section: dict[str, Any] = {
        "source": options.sources, "key": options.key, "options": dict(options.option), "format": options.format,
        "where": options.where, "prefer": options.prefer, "partitions": options.partitions,
        "row_group": options.row_group, "columns": _columns(options),
    }  # fmt: skip
    if not options.sources and options.format != "jdbc":
        raise DatasetError("name the raw table's files, or a file with --config that says what is to be made")
    name = options.name or Path(options.sources[0] if options.sources else "").name.partition(".")[0]
    if not name:
        raise DatasetError("name the relation with --name")
    return [recipe_of(name, {field: value for field, value in section.items() if value})]


def _columns(options: argparse.Namespace) -> dict[str, dict[str, str]]:
    columns: dict[str, dict[str, str]] = dict(options.column)
    for option, pairs in (("nulls", options.nulls), ("fill", options.fill)):
        for name, value in pairs:
            if name not in columns:
                raise DatasetError(f"--{option} {name}={value}: there is no --column {name}")
            columns[name][option] = value
    return columns


def run(options: argparse.Namespace) -> int:
    """Prepare every table, and print the reports; return 1 if rows are bad and --strict is given."""
    wanted_tables, reports, place = recipes(options), [], Path(local_path(options.out))
    for recipe in wanted_tables:
        check_places(recipe, place, options.overwrite)
        if SUBMITTED not in os.environ:  # else only the cluster may see the sources
            check_sources(recipe)
    try:
        from ..spark.prepare import prepare
        from ..spark.session import session
    except ImportError as error:
        raise OSError(WITHOUT_SPARK.format(error)) from None
    with Progress("prepare", options.quiet) as progress:
        progress("starting Spark")
        with session("pagestore prepare", options.cores) as spark:
            for recipe in wanted_tables:
                progress(recipe.name)
                report = prepare(spark, recipe, place, overwrite=options.overwrite)
                progress.clear()
                if not (options.json or options.quiet):
                    tell(str(report))
                reports.append(report)
    answer(options, {"tables": [asdict(report) for report in reports]}, "")
    return int(options.strict and any(report.quarantined for report in reports))
