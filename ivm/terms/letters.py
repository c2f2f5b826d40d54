"""Letters as readers see them: one with its marks, a flag, a family of emoji, a syllable of Hangul.

    letters("e\u0301a") = ["e\u0301", "a"]

They are the extended grapheme clusters of Unicode (UAX 29), but for the rarest rules.
"""

from unicodedata import category, combining

JOINERS = "\u200c\u200d"
# the combining class of the mark after which the next letter of an Indic script is written below
VIRAMA = 9


def letters(text: str) -> list[str]:
    """Return the letters of a text, each with the marks after it."""
    made: list[str] = []
    for sign in text:
        if made and _goes_on(made[-1], sign):
            made[-1] += sign
        else:
            made.append(sign)
    return made


def split(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators; without a separator its code points."""
    return text.split(separator) if separator else [*text]


def _goes_on(letter: str, sign: str) -> bool:
    """Return whether a sign belongs to the letter before it."""
    last, code = letter[-1], ord(sign)
    if category(sign) in ("Mn", "Me", "Mc") or sign in JOINERS or 0x1F3FB <= code <= 0x1F3FF:
        return True
    if last == "\u200d":
        return category(sign) == "So"
    if combining(last) == VIRAMA:
        return category(sign) == "Lo"
    if _is_of_flag(sign):
        return _is_of_flag(last) and len(letter) % 2 == 1
    return (last, sign) == ("\r", "\n") or _is_syllable(ord(last), code)


def _is_of_flag(sign: str) -> bool:
    return 0x1F1E6 <= ord(sign) <= 0x1F1FF


def _is_syllable(last: int, code: int) -> bool:
    """Return whether two signs of Hangul are of one syllable: leading consonants, vowels,
    trailing consonants.
    """
    whole = 0xAC00 <= last <= 0xD7A3
    open_ = whole and (last - 0xAC00) % 28 == 0
    if 0x1100 <= last <= 0x115F:
        return 0x1100 <= code <= 0x11A7 or 0xAC00 <= code <= 0xD7A3
    if 0x1160 <= code <= 0x11A7:
        return open_ or 0x1160 <= last <= 0x11A7
    return 0x11A8 <= code <= 0x11FF and (whole or 0x1160 <= last <= 0x11FF)
