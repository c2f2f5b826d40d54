"""The benchmarks that are not commands of `pagestore` or `ivm`: `python -m benchmarks
WORK --help`.
"""

import argparse
import sys
from importlib import import_module

WORKS = {  # the module, what in it has the arguments and runs, and what is measured
    "aggregates": (
        "benchmarks.rules",
        "AGGREGATES",
        "aggregates of one large group from which rows are deleted",
    ),
    "branches": (
        "benchmarks.branches",
        "BRANCHES",
        "branches begun, read and merged, with the views that follow",
    ),
    "cell_costs": (
        "benchmarks.cells",
        "COSTS",
        "what a row in a cell costs: bytes, memory, what a change sends",
    ),
    "cells": (
        "benchmarks.cells",
        "CELLS",
        "what cells hold and are sent, against what their shares predict",
    ),
    "churn": (
        "benchmarks.proof",
        "CHURN",
        "whether intervals, file and transactions stay alike while edges go and come",
    ),
    "clients": (
        "benchmarks.clients",
        "CLIENTS",
        "what clients wait for, by DB-API and by the wire, beside PostgreSQL and sqlite3",
    ),
    "counts": (
        "benchmarks.counts",
        "TREES",
        "operations of scans, updates, stabs and complements, drawn over sizes",
    ),
    "files": (
        "benchmarks.files",
        "FILES",
        "rows that come from files and go to files, and views that follow",
    ),
    "loads": ("benchmarks.files", "LOADS", "files loaded in one process and by tasks of Spark"),
    "peers": (
        "benchmarks.peers.command",
        "PEERS",
        "the same random histories of views on other engines: right, refused, wrong",
    ),
    "pictures": ("benchmarks.counts", "ALL", "every picture of the documents, drawn into a folder"),
    "proof": ("benchmarks.proof", "PROOF", "the pictures and tables of docs/proof.md"),
    "ranges": ("benchmarks.rules", "RANGES", "next keys, windows and running totals"),
    "recursion": (
        "benchmarks.rules",
        "RECURSION",
        "recursive programs, from scratch and maintained",
    ),
    "recursion_counts": (
        "benchmarks.counts",
        "RECURSION",
        "operations of maintained reachability, drawn over sizes",
    ),
    "refresh": (
        "benchmarks.refresh",
        "REFRESH",
        "views of tables of Spark, refreshed, beside Spark SQL",
    ),
    "scans": ("benchmarks.scans", "SCANS", "folds over ranges, and how much they slow updates"),
    "shapes": (
        "benchmarks.shapes",
        "WORK",
        "everyday programs over tables, installed and edited, beside DuckDB",
    ),
    "small": (
        "benchmarks.small",
        "SMALL",
        "small transactions beside SQLite, LMDB and a sync: rows, edges, threads, processes",
    ),
    "sql": (
        "benchmarks.shapes",
        "SQL",
        "a long query translated; views of SQL installed and edited, beside the same rules",
    ),
    "startup": (
        "benchmarks.startup",
        "STARTUP",
        "how soon a wheel answers where no compiler is installed",
    ),
    "stream_peers": (
        "benchmarks.peers.streams",
        "STREAM_PEERS",
        "the queries of Nexmark on other engines: right, wrong or refused, and how long they took",
    ),
    "streams": (
        "benchmarks.streams",
        "STREAMING",
        "the queries of Nexmark and TPC-H kept over streams of events, beside DuckDB",
    ),
    "texts": ("benchmarks.texts", "TEXTS", "keys that are texts"),
    "tpc": (
        "benchmarks.peers.tpc",
        "TPC",
        "the queries of TPC-H and TPC-DS as kept views, beside DuckDB",
    ),
    "upkeep_counts": (
        "benchmarks.counts",
        "UPKEEP",
        "operations of a view maintained and evaluated anew, drawn over sizes",
    ),
    "windows": (
        "benchmarks.rules",
        "WINDOW",
        "window functions as kept views, installed and edited, beside DuckDB",
    ),
}


def main(words: list[str] | None = None) -> int:
    """Run a benchmark, from sys.argv unless given; return the exit code."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    choices = parser.add_subparsers(dest="work", required=True, metavar="WORK")
    for name, (module, work, summary) in WORKS.items():
        command = choices.add_parser(name, help=summary, description=summary)
        if words[:1] == [name]:
            chosen = getattr(import_module(module), work)
            chosen.arguments(command)
    options = parser.parse_args(words)  # exits if it prints help or an error
    return int(chosen.run(options))


if __name__ == "__main__":
    sys.exit(main())
