"""Make texts that contain foreign names and values safe to show in a terminal or a log."""

import unicodedata

# these format characters are parts of words and of emoji, so they are not escaped
JOINERS = "\u200c\u200d"
MESSAGE_MAX = 4000  # characters of a message


def printable(text: str, kept: str = "") -> str:
    r"""Escape the control and direction characters of a text, except those `kept`.

    >>> print(printable("a\x1b[2Jb\n\u202ec"), printable("Grüße"))
    a\x1b[2Jb\n\u202ec Grüße
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if letter in kept else _shown(letter) for letter in text)


def message(text: str) -> str:
    """Format a text as an error's message: printable, in lines, a long one cut in the middle."""
    if len(text) > MESSAGE_MAX:
        half = MESSAGE_MAX // 2
        text = f"{text[:half]} ... {len(text) - 2 * half:,} characters ... {text[-half:]}"
    return printable(text, kept="\n")


def _shown(letter: str) -> str:
    hidden = (
        unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in JOINERS
    )
    return letter.encode("unicode_escape").decode() if hidden else letter
