"""What people write first who know SQL, Prolog or Soufflé, and how it is written here."""

import re

from ivm.lang.aggregate import OPERATIONS
from ivm.lang.functions import function_named

SPELLINGS = {
    ":-": "`:-` is written `<-`, as in p(x) <- q(x).",
    "==": "`==` is written `=`",
    "<>": "`<>` is written `!=`",
    "&&": "`&&` is written `,`",
    "||": "`||` is written `;`, and the text of two texts is cat[s, t]",
    "--": "a comment begins with `//`",
    "# ": "a comment begins with `//`; a date is written between two #, as in #2013-01-31#",
}
SIGNS = {
    "≠": "!=", "≤": "<=", "≥": ">=", "←": "<-", "→": "->", "∧": ",", "∨": ";", "¬": "!", "×": "*",
    "÷": "/",
}  # fmt: skip
CONNECTIVES = "and", "or", "not", "is"
WORDS = {  # before or at the place of an error
    "where": "conditions are joined by `,`, as in p(x) <- q(x), x > 3.",
    "having": "write a view of the aggregate, and one that reads it with the condition",
    "between": "`x between 1 and 3` is written 1 <= x <= 3",
    "like": '`like` is a function: string:like[s, "a%"]',
    "exists": "an atom says that a row exists: leave `exists` out, and write `_` for any value",
    "forall": "`forall` is written with two negations: !(q(y), !r(x, y))",
    "let": "`y = x + 1` defines y: leave `let` out",
    "then": "a conditional term is written if[x < y, a, b]",
    "if": "a conditional term is written if[x < y, a, b]",
    "case": "a conditional term is written if[x < y, a, b]",
}
OPENINGS = "select", "insert", "update", "delete", "create", "drop", "with", "alter"
SQL = "this is not a rule but a word of SQL; a query is a rule, as in q(x) <- edge(x, y)."
AGGREGATED = "is an aggregate, which is written as in f[x] = n <- agg<<n = {}>> edge(x, y)."
DIRECTIVES = {
    ".decl": "a declaration is written edge(x, y) -> int(x), int(y).",
    ".input": "rows come from `pagestore load`, from transactions or from facts: leave the "
    "directive out",
    ".output": "every view is stored and can be read: leave the directive out",
    ".type": "a column has one of the types of the language: int, string, date and others",
}


def habit_at(text: str, position: int | None) -> tuple[int, str] | None:
    """Return where a spelling of another language begins, and the spelling here; None if it is
    something else.
    """
    if position is None or position < 0:
        return None
    begin = text.rfind(".", 0, position) + 1
    begin += len(text[begin:]) - len(text[begin:].lstrip())
    for start in position, position - 1, begin:
        if start >= 0 and text[start : start + 2] in SPELLINGS:
            return start, SPELLINGS[text[start : start + 2]]
    for word, remedy in DIRECTIVES.items():
        if text.startswith(word, position):
            return position, remedy
    opening = re.match(r"([^\W\d]\w*)\s+[*\w]", text[begin:])
    if opening and opening[1].lower() in OPENINGS:
        return begin, SQL
    if typed := re.compile(r":\s+(\w+)").match(text, position):
        return position, typed_column(typed[1])
    return _call_at(text, position) or _word_at(text, position)


def typed_column(name: str) -> str:
    """Return the remedy of `p(x: int)`."""
    return f"the type of a column is written after an arrow, as in p(x) -> {name}(x)."


def _call_at(text: str, position: int) -> tuple[int, str] | None:
    """Return the place and the remedy of a function or an aggregate written with parentheses."""
    call = re.search(r"([^\W\d][\w:]*)\s*(\([^()]*\)\s*)?$", text[:position])
    if call is None or not (
        text.startswith("(", position) if not call[2] else text[position : position + 1] in "=<>!"
    ):
        return None
    word = call[1]
    if function_named(word) or call[2]:
        return call.start(1), f"a function takes brackets: write {word}[...]"
    if word in OPERATIONS:
        return call.start(
            1
        ), f"{word} {AGGREGATED.format('count()' if word == 'count' else f'{word}(y)')}"
    return None


def _word_at(text: str, position: int) -> tuple[int, str] | None:
    """Return the place and the remedy of a word of another language before or at a place."""
    if null := re.compile(r"is\s+(not\s+)?null\b", re.IGNORECASE).match(text, position):
        written = "f[x] = _" if null[1] else "!f[x] = _"
        return position, f"`{null[0]}` is written {written}: a row whose value is null is not there"
    if re.compile(r"not\s+in\b", re.IGNORECASE).match(text, position):
        return position, "`x not in (1, 2)` is written !x in (1, 2)"
    for match in (
        re.search(r"([^\W\d]\w*)\s+$", text[:position]),
        re.compile(r"([^\W\d]\w*)").match(text, position),
    ):
        word = match[1].lower() if match else ""
        if match and word in WORDS:
            return match.start(1), WORDS[word]
        if (
            match
            and word == "not"
            and match.end() == position
            and text[position : position + 1] not in "(=<>!"
        ):
            return match.start(1), f"`{match[1]}` is written `!`, as in !p(x)"
    return None


def remedy_for(token: str) -> str:
    """Return what a message adds if it finds a word such as `and`."""
    return "; `,` is and, `;` is or, `!` is not" if token.lower() in CONNECTIVES else ""


def stray(rest: str) -> str:
    """Return the message for a character at which no token starts."""
    if rest.startswith('"'):
        return "this string does not end on its line: close it with a double quote"
    if rest.startswith("'"):
        return "strings are written in double quotes"
    if rest.startswith("/*"):
        return "this comment is not closed: end it with */"
    if rest.startswith("#"):
        return "a date is written between two #, as in #2013-01-31#"
    if rest[0] in SIGNS:
        return f"`{rest[0]}` is written `{SIGNS[rest[0]]}`"
    return f"`{rest[0]}` has no meaning here"
