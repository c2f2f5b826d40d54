"""`pagestore prepare OUT ...`: convert raw tables to sorted Parquet with a manifest, which
`pagestore load` verifies.

OUT/flight is ready to load; OUT/flight.quarantine has the bad rows with the reasons, where there
are any.
"""

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagestore.host import local_path

from ..cli.answers import answer, common, number, tell
from ..cli.progress import Progress
from ..loading.casts import DatasetError
from ..spark import SUBMITTED
from ..spark.recipe import (
    FORMATS,
    NULLS,
    Recipe,
    check_places,
    check_sources,
    read_recipes,
    recipe_of,
)
from .load import WITHOUT_SPARK, helpful, key_option, names, pair, repeated, spark_options

HELP = """
Make raw tables ready to load, with Spark: typed, checked, sorted, with a
manifest.

examples:
  pagestore prepare out flights.csv --key t,c           one relation
  pagestore prepare out --config job.toml               a section for each
  pagestore prepare out --config job.toml --only flight

out/flight is then ready for `pagestore load`. out/flight.quarantine has the bad
rows with the reasons, if there are any. Spark runs in this process, or, if
spark-submit started this command, on that cluster. See docs/prepare.md.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    helpful(parser, HELP, "pagestore prepare OUT [SOURCE...] [options]")
    common(parser, file=False)
    parser.add_argument(
        "out", metavar="OUT", help="the folder for the prepared tables; all workers must see it"
    )
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="files or folders of one raw table, or its name",
    )
    jobs = parser.add_argument_group("several relations")
    jobs.add_argument(
        "--config",
        metavar="FILE",
        help="a TOML file that says what to make, in place of the options for one relation",
    )
    jobs.add_argument(
        "--only",
        type=names,
        default=[],
        metavar="A,B",
        help="make only these relations of the file",
    )
    _relation_options(parser)
    output = parser.add_argument_group("what is written")
    output.add_argument(
        "--partitions",
        type=number,
        metavar="N",
        help="files of a table; by default one for each core",
    )
    output.add_argument(
        "--row-group", type=number, metavar="ROWS", help="rows of a row group (1,048,576)"
    )
    output.add_argument("--overwrite", action="store_true", help="replace folders that exist")
    output.add_argument(
        "--strict", action="store_true", help="end with exit code 1 if any row is bad"
    )
    spark_options(parser)


def _relation_options(parser: argparse.ArgumentParser) -> None:
    one = parser.add_argument_group("one relation")
    one.add_argument("--name", help="its name; by default the source's, without the suffix")
    key_option(one)
    one.add_argument(
        "--format", choices=FORMATS, help="the format of the sources, if their names do not say it"
    )
    repeated(
        one,
        "--option",
        type=pair,
        metavar="NAME=VALUE",
        help="an option of Spark's reader, such as nullValue=NA or url=jdbc:...",
    )
    repeated(
        one,
        "--column",
        type=wanted,
        metavar="'NAME: TYPE [= SQL]'",
        help="a column to make; without this option, all columns of the source are kept",
    )
    repeated(
        one,
        "--nulls",
        type=pair,
        metavar=f"COLUMN={'|'.join(NULLS)}",
        help="what happens to rows with a null in that column",
    )
    repeated(
        one,
        "--fill",
        type=pair,
        metavar="COLUMN=VALUE",
        help="a value in place of a column's nulls",
    )
    one.add_argument("--where", metavar="SQL", help="take only the raw rows for which this is true")
    one.add_argument(
        "--prefer",
        metavar="SQL",
        help="of rows with the same key, keep the one where this is greatest",
    )


def wanted(text: str) -> tuple[str, dict[str, str]]:
    """Parse a column's definition.  Raises argparse.ArgumentTypeError.

    >>> wanted("t: timestamp(UTC) = to_timestamp(day)")
    ('t', {'type': 'timestamp(UTC)', 'from': 'to_timestamp(day)'})
    """
    name, colon, rest = text.partition(":")
    kind, sign, source = rest.partition("=")
    if not (colon and name.strip() and kind.strip()) or (sign and not source.strip()):
        raise argparse.ArgumentTypeError(
            f"{text}: it is written 'NAME: TYPE' or 'NAME: TYPE = SQL'"
        )
    return name.strip(), {"type": kind.strip(), **({"from": source.strip()} if sign else {})}


def recipes(options: argparse.Namespace) -> list[Recipe]:
    """Return the recipes of the options. Raises DatasetError."""
    if options.config:
        if options.sources:
            raise DatasetError("the file that --config names has the sources: leave them out here")
        all_recipes = read_recipes(options.config)
        if unknown := {*options.only} - {recipe.name for recipe in all_recipes}:
            raise DatasetError(f"{options.config} has no section {', '.join(sorted(unknown))}")
        return [recipe for recipe in all_recipes if not options.only or recipe.name in options.only]
    section: dict[str, Any] = {
        "source": options.sources, "key": options.key, "options": dict(options.option),
        "format": options.format,
        "where": options.where, "prefer": options.prefer, "partitions": options.partitions,
        "row_group": options.row_group, "columns": _columns(options),
    }  # fmt: skip
    if not options.sources and options.format != "jdbc":
        raise DatasetError(
            "name the raw table's files, or a file with --config that says what is to be made"
        )
    name = (
        options.name or Path(options.sources[0] if options.sources else "").name.partition(".")[0]
    )
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
    """Prepare every table, and print reports; return 1 if rows are bad and --strict is given."""
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
