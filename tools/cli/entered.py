"""What is entered at a prompt or asked of a page: SQL or rules, and whether it ends there."""

import re
from difflib import get_close_matches

WORDS = (
    "SELECT", "WITH", "FROM", "VALUES", "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE",
    "DROP", "ALTER", "DESCRIBE", "SHOW", "EXPLAIN", "COPY", "BEGIN", "COMMIT", "ROLLBACK",
)  # fmt: skip
LEAD = r"(?:\s|--[^\n]*|//[^\n]*|/\*.*?\*/)*"  # blanks and comments of SQL and of rules
FIRST = re.compile(rf"{LEAD}[\s(]*(\w*)", re.DOTALL)
# what a rule or an edit begins with
ATOM = re.compile(rf"{LEAD}[+\-^!]?\s*(?:`[^`]*`|[\w:$]+)\s*[(\[]", re.DOTALL)
COMMENTS_AND_QUOTED = {  # of SQL, and of rules; one that is not closed goes to the end
    True: re.compile(r"(--[^\n]*|/\*.*?\*/)|'(?:[^']|'')*'?|\"[^\"]*\"?|/\*.*", re.DOTALL),
    False: re.compile(r"(//[^\n]*|/\*.*?\*/)|\"(?:[^\"\\]|\\.)*\"?|`[^`]*`?|/\*.*", re.DOTALL),
}
GROUP = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")  # brackets without others in them


def is_sql(text: str) -> bool:
    """Return whether a text begins as a statement of SQL does, and not as a rule for a relation of
    such a name.

    >>> is_sql("-- all\\nSELECT 1"), is_sql("VALUES (1), (2);"), is_sql("values(1)."), is_sql("show[x] = y <- f[x] = y")
    (True, True, False, False)
    """
    first = FIRST.match(text)
    if first is None or first[1].upper() not in WORDS:
        return False
    rest = _bare(text[first.end() :], True).strip()
    if not rest.startswith(("(", "[", "<-", "->")):
        return True
    while (shorter := GROUP.sub("_", rest)) != rest:
        rest = shorter
    after = rest[1:].lstrip()
    arrow = "<-" in after or "->" in after or after.endswith(".")
    return rest.startswith("_") and not (
        after.startswith(("<-", "->", ".")) or (after[:1] in ("=", ",") and arrow)
    )


def is_whole(text: str) -> bool:
    """Return whether a text ends here: with `;` unless a rule may go on after it, or with `.`
    unless it is SQL.

    >>> is_whole("SELECT 'a;"), is_whole("SELECT 1; -- one"), is_whole("selec 1;"), is_whole("p(x) <- q(x);")
    (False, True, True, False)
    """
    sql = is_sql(text)
    end = _bare(text, sql).rstrip()[-1:]
    return end == ";" if sql else end == "." or (end == ";" and ATOM.match(text) is None)


def meant(text: str) -> str:
    """Return the word of SQL that a text, which is not SQL, probably was to begin with, or "".

    >>> meant("selec 1;"), meant("p(x) <- q(x).")
    ('SELECT', '')
    """
    first = FIRST.match(text)
    if first is None or ATOM.match(text) is not None:
        return ""
    return next(iter(get_close_matches(first[1].upper(), WORDS, 1)), "")


def _bare(text: str, sql: bool) -> str:
    """Return a text without comments, and with `_` for each that is quoted."""
    return COMMENTS_AND_QUOTED[sql].sub(lambda match: " " if match[1] else "_", text)
