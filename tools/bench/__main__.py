"""The benchmarks that are not commands of `pagestore` or `ivm`: `python -m pagestore_tools.bench
WORK --help`.
"""

import argparse
import sys
from importlib import import_module

WORKS = {  # the module, what in it has the arguments and runs, and what is measured
    "aggregates": (
        "rules",
        "AGGREGATES",
        "aggregates of one large group from which rows are deleted",
    ),
    "cell_costs": (
        "cells",
        "COSTS",
        "what a row in a cell costs: bytes, memory, what a change sends",
    ),
    "cells": ("cells", "CELLS", "what cells hold and are sent, against what their shares predict"),
    "counts": (
        "counts",
        "TREES",
        "operations of scans, updates, stabs and complements, drawn over sizes",
    ),
    "files": ("files", "FILES", "rows that come from files and go to files, and views that follow"),
    "loads": ("files", "LOADS", "files loaded in one process and by tasks of Spark"),
    "pictures": ("counts", "ALL", "every picture of the documents, drawn into a folder"),
    "ranges": ("rules", "RANGES", "next keys, windows and running totals"),
    "recursion": ("rules", "RECURSION", "recursive programs, from scratch and maintained"),
    "recursion_counts": (
        "counts",
        "RECURSION",
        "operations of maintained reachability, drawn over sizes",
    ),
    "refresh": ("refresh", "REFRESH", "views of tables of Spark, refreshed, beside Spark SQL"),
    "scans": ("store", "SCANS", "folds over ranges, and how much they slow updates"),
    "shapes": (
        "shapes",
        "WORK",
        "everyday programs over tables, installed and edited, beside DuckDB",
    ),
    "small": (
        "upkeep",
        "SMALL",
        "small transactions beside SQLite, LMDB and a sync: rows, edges, threads, processes",
    ),
    "sql": (
        "shapes",
        "SQL",
        "a long query translated; views of SQL installed and edited, beside the same rules",
    ),
    "startup": ("startup", "STARTUP", "how soon a wheel answers where no compiler is installed"),
    "texts": ("texts", "TEXTS", "keys that are texts"),
    "upkeep_counts": (
        "counts",
        "UPKEEP",
        "operations of a view maintained and evaluated anew, drawn over sizes",
    ),
}


def main(words: list[str] | None = None) -> int:
    """Run a benchmark, from sys.argv unless given; return the exit code."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(prog="python -m pagestore_tools.bench", description=__doc__)
    choices = parser.add_subparsers(dest="work", required=True, metavar="WORK")
    for name, (module, work, summary) in WORKS.items():
        command = choices.add_parser(name, help=summary, description=summary)
        if words[:1] == [name]:
            chosen = getattr(import_module(f".{module}", __package__), work)
            chosen.arguments(command)
    options = parser.parse_args(words)  # exits if it prints help or an error
    return int(chosen.run(options))


if __name__ == "__main__":
    sys.exit(main())
