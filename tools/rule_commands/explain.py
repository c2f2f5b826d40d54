"""`ivm explain FILE VIEW`: how a view, or a query given instead of its name, is evaluated, and why.

The first two lines say what is kept and what an edit costs.  The others are about the plan
(LEGEND).
"""

import argparse
from html import escape

from ..cli.answers import answer, common, tell
from ..cli.workspace_options import on_branch, opened

LEGEND = """\
the first two lines say what is kept and what an edit costs; then the plan:
  head, state      how rows are stored, and what aggregates keep
  order            the order in which the variables of a rule are bound
  trie, absent     an atom, or a negated one: by which index it is read, and
                   how its changes are followed
  scan, columns    one relation read in one pass, or looked up by columns
  rows             of each step: estimated, and found when evaluated last
  bound, filter    conditions that the join knows, and those tested after it
  points, range    aggregates over ranges of keys
  stratum, ranks   views that read themselves
  helpers          views that are kept for one of SQL; explain takes their names"""
PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }}
th {{ text-align: left; vertical-align: top; padding-right: 1.5rem; font-weight: 600 }} td {{ font-family: monospace }}
:root {{ color-scheme: light dark }}</style>
<h1>{title}</h1>
{words}
<table>{rows}</table></html>"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    on_branch(parser)
    parser.add_argument("view", help="the name of a view, or rules of a query")
    parser.epilog = LEGEND
    parser.add_argument("--html", action="store_true", help="print a page of HTML")


def run(options: argparse.Namespace) -> int:
    """Print the explanation; return the exit code."""
    with opened(options, "r") as workspace:
        text = workspace.explain(options.view)
        stats = {} if "<-" in options.view else workspace.stats(options.view)
    if options.html:
        tell(page(options.view, text))
    else:
        answer(options, {"view": options.view, "explain": text, **stats}, text)
    return 0


def page(title: str, text: str) -> str:
    """Return an explanation as a page of HTML: sentences as paragraphs, the plan as a table."""
    sentences, plan = parts(text)
    words = "\n".join(f"<p>{escape(line)}</p>" for line in sentences)
    rows = "\n".join(
        f"<tr><th>{escape(label)}</th><td>{escape(said)}</td></tr>" for label, said in plan
    )
    return PAGE.format(title=escape(title), words=words, rows=rows)


def parts(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the sentences of an explanation, and the lines of its plan, each with its label."""
    lines = text.split("\n")
    plan = [(line[2:12].strip(), line[12:]) for line in lines if line.startswith("  ")]
    return [line for line in lines if not line.startswith("  ")], plan
