"""Word syntax errors: what the parser expected at a place, and what it found."""

from typing import Any

from lark.exceptions import UnexpectedToken

from ivm.errors import RuleSyntaxError, Where

_WORDS = {
    "$END": "the end", "AGG": "`agg<<`", "BANG": "`!`", "CARET": "`^`", "COMMA": "`,`", "DOT": "`.`",
    "COMPARE": "a comparison", "EQUAL": "`=`", "INT": "a number", "LPAR": "`(`", "LSQB": "`[`",
    "NAME": "a name", "RPAR": "`)`", "RSQB": "`]`", "SEMICOLON": "`;`", "_END": "`>>`", "_HAS": "`->`",
    "_IF": "`<-`", "PLUS": "`+`", "MINUS": "`-`", "NULLABLE": "`?`",
}  # fmt: skip
_TERM = {"INT", "DECIMAL", "FLOAT", "STRING", "MOMENT", "TRUE", "FALSE", "UNDERSCORE"}
_ARITHMETIC = {"PLUS", "MINUS", "STAR", "SLASH"}


def complaint(error: Any, text: str, source: str) -> RuleSyntaxError:
    """Convert an error of lark while parsing `text`."""
    if not isinstance(error, UnexpectedToken) or text.startswith("/*", error.pos_in_stream):
        where = Where(source, error.line, error.column)
        return RuleSyntaxError(where, _stray(text[error.pos_in_stream :]))
    expected = _expected(error.accepts or error.expected)
    if error.token.type == "$END":
        return RuleSyntaxError(_end(text, source), f"expected {expected} before the text ends")
    where = Where(source, error.line, error.column)
    remedy = "; `,` is and, `;` is or, `!` is not" if error.token.lower() in ("and", "or", "not", "is") else ""
    return RuleSyntaxError(where, f"expected {expected} but found `{error.token}`{remedy}")


def shown(error: Exception, text: str) -> Exception:
    """Return the error; add the line of the text to a syntax error."""
    if isinstance(error, RuleSyntaxError):
        error.text = error.text or text.split("\n")[error.where.line - 1]
    return error


def _end(text: str, source: str) -> Where:
    lines = text.rstrip().split("\n")
    return Where(source, len(lines), len(lines[-1]) + 1)


def _expected(terminals: set[str]) -> str:
    """Describe the terminals that a place admits; those that start a term are one word, as are operators."""
    words = set()
    if "MOMENT" in terminals:
        words.add("a term" if "BANG" not in terminals else "an atom, a comparison")
        terminals = terminals - _TERM - {"NAME", "LPAR", "MINUS", "BANG"}
    if "STAR" in terminals:
        words.add("arithmetic")
        terminals = terminals - _ARITHMETIC
    if "CARET" in terminals:
        return "a rule, a declaration or an edit"
    *most, last = sorted(words | {_WORDS[t] for t in terminals})
    return f"{', '.join(most)} or {last}" if most else last


def _stray(rest: str) -> str:
    """Return the message for a character at which no token starts."""
    if rest.startswith('"'):
        return "this string does not end on its line: close it with a double quote"
    if rest.startswith("'"):
        return "strings are written in double quotes"
    if rest.startswith("/*"):
        return "this comment is not closed: end it with */"
    if rest.startswith("#"):
        return "a date is written between two #, as in #2013-01-31#"
    return f"`{rest[0]}` has no meaning here"
