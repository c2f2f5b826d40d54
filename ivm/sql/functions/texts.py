"""Texts of SQL as terms of rules: cut, joined, compared with patterns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import zip_longest

from sqlglot import exp

from ivm.sql.conversions import call, concat, convert, unless_null
from ivm.sql.errors import SqlError, written
from ivm.sql.functions import json, lists
from ivm.sql.functions.known import reading
from ivm.sql.functions.times import Value
from ivm.sql.literals import constant
from ivm.sql.terms import Lit, Term, Typed
from ivm.sql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, NULL, VARCHAR

_GROUP = re.compile(r"\\.", re.DOTALL)  # of what regexp_replace puts in
# a letter and a text in regular expressions, line breaks included
ANY, ALL = "[\\s\\S]", "[\\s\\S]*"


def _trim(node: exp.Expr, value: Value) -> Typed:
    name = {"LEADING": "string:ltrim", "TRAILING": "string:rtrim"}.get(
        node.args.get("position") or "", "string:trim"
    )
    args = [convert(value(node.this), VARCHAR, node)]
    if node.args.get("expression") is not None:
        args.append(value(node.expression))
        if args[1].type not in (VARCHAR, NULL):
            raise SqlError(f"the letters to trim are a text, and this is {args[1].type}", node)
    return Typed(
        call(name, *(one.term for one in args)), VARCHAR, any(arg.nullable for arg in args)
    )


def _concatenated(node: exp.Expr, value: Value) -> Typed:
    if isinstance(node, exp.DPipe):
        both = [value(node.this), value(node.expression)]
        if any(one.type.element is not None for one in both):
            return lists.together(node, both)
        args = [convert(value(one), VARCHAR, node) for one in (node.this, node.expression)]
        nullable = any(one.nullable for one in args)
    else:  # concat ignores nulls
        args = [convert(value(item), VARCHAR, node) for item in node.expressions]
        empty = Lit("", "string")
        args = [
            arg if not arg.nullable else arg._replace(term=call("coalesce", arg.term, empty))
            for arg in args
        ]
        nullable = False
    return Typed(concat(*(one.term for one in args)), VARCHAR, nullable)


def _joined(node: exp.Expr, value: Value) -> Typed:
    """concat_ws: the texts that are not null, with a separator between them."""
    separator, *texts = (convert(value(item), VARCHAR, node) for item in node.expressions)
    empty, found = Lit("", "string"), list[Term]()
    for text in texts:
        term: Term = call("string:concat", separator.term, text.term)
        found.append(call("coalesce", term, empty) if text.nullable else term)
    whole = call("string:concat", *found) if len(found) > 1 else found[0]
    after = call("+", call("string:length", separator.term), Lit(1, "int64"))
    term = unless_null(separator, call("string:substring", whole, after))
    return Typed(term, VARCHAR, separator.nullable)


def _padded(node: exp.Expr, value: Value) -> Typed:
    name = "string:lpad" if node.args.get("is_left") else "string:rpad"
    fill = node.args.get("fill_pattern") or exp.Literal.string(" ")
    args = [_text_of(node.this, value), value(node.expression), _text_of(fill, value)]
    return Typed(
        call(name, *(one.term for one in args)), VARCHAR, any(arg.nullable for arg in args)
    )


def _position(node: exp.Expr, value: Value) -> Typed:
    args = [value(node.this), value(node.args["substr"])]
    return Typed(
        call("string:position", *(one.term for one in args)),
        BIGINT,
        any(arg.nullable for arg in args),
    )


def _like(node: exp.Expr, value: Value) -> Typed:
    text, pattern = _text_of(node.this, value), _text_of(node.expression, value)
    name = "string:like"
    if isinstance(node, exp.ILike):
        text = text._replace(term=call("string:lower", text.term))
        pattern = pattern._replace(term=call("string:lower", pattern.term))
    found = call(name, text.term, pattern.term)
    return Typed(found, BOOLEAN, text.nullable or pattern.nullable)


# -- patterns


def _constant(node: exp.Expr | None, what: str, where: exp.Expr) -> str:
    """Return a text that is written out.  Raises SqlError."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise SqlError(f"{what} is a text that is written out", where)
    return str(node.this)


def _text_of(node: exp.Expr, value: Value) -> Typed:
    return convert(value(node), VARCHAR, node)


def _regexp(node: exp.Expr, value: Value) -> Typed:
    """`~` and regexp_matches for a part of a text, SIMILAR TO and regexp_full_match for all."""
    whole = isinstance(node, exp.SimilarTo | exp.RegexpFullMatch)
    if node.args.get("flag"):
        raise SqlError("options of regular expressions are written into them, as in (?i)", node)
    text, pattern = _text_of(node.this, value), value(node.expression)
    name = "string:regexp_full_match" if whole else "string:regexp_matches"
    return Typed(call(name, text.term, pattern.term), BOOLEAN, text.nullable or pattern.nullable)


def _regexp_anyhow(node: exp.Expr, value: Value) -> Typed:
    """`~*`: a part of a text matches, whatever the case of its letters."""
    text, pattern = _text_of(node.this, value), value(node.expression)
    found = call("string:regexp_matches", text.term, concat(Lit("(?i)", "string"), pattern.term))
    return Typed(found, BOOLEAN, text.nullable or pattern.nullable)


def _regexp_replaced(node: exp.Expr, value: Value) -> Typed:
    """regexp_replace: the first match, all with the option 'g'."""
    modifiers = node.args.get("modifiers")
    options = (
        _constant(modifiers, "the options of regexp_replace", node) if modifiers is not None else ""
    )
    pattern = _constant(node.expression, "the pattern of regexp_replace", node)
    new = _constant(node.args["replacement"], "what regexp_replace puts in", node)
    if {*options} - {*"gis"}:
        raise SqlError(
            "regexp_replace knows the options g, i and s; others are written into the pattern", node
        )
    if own := "".join(sorted({*options} - {"g"})):
        pattern = f"(?{own}){pattern}"
    if "g" not in options:
        pattern = f"^({ANY}*?)({pattern})"
        new = "\\1" + _GROUP.sub(lambda found: _later(found[0], node), new)
    text = _text_of(node.this, value)
    return text._replace(
        term=call("string:regexp_replace", text.term, Lit(pattern, "string"), Lit(new, "string")),
        type=VARCHAR,
    )


def _later(escape: str, node: exp.Expr) -> str:
    """Return what stands for a group: before it are what precedes the match, and the match."""
    if escape[1] in "89":
        raise SqlError(
            "regexp_replace of one match puts in at most 7 groups: use the option 'g'", node
        )
    return f"\\{int(escape[1]) + 2}" if escape[1].isdigit() else escape


def _regexp_extracted(node: exp.Expr, value: Value) -> Typed:
    """regexp_extract: the first match, or a group of it; empty if nothing matches."""
    pattern = _constant(node.expression, "the pattern of regexp_extract", node)
    # of the groups, which become fields of a struct
    if isinstance(names := node.args.get("group"), exp.Array):
        size = len(names.expressions)
        groups = [
            exp.RegexpExtract(
                this=node.this.copy(),
                expression=node.expression.copy(),
                group=exp.Literal.number(n + 1),
            )
            for n in range(size)
        ]
        fields = [
            exp.PropertyEQ(
                this=exp.to_identifier(_constant(name, "a name of a group", node)), expression=one
            )
            for name, one in zip(names.expressions, groups, strict=True)
        ]
        return value(exp.Struct(expressions=fields))
    group = int(node.args["group"].name) if node.args.get("group") is not None else 0
    text = _text_of(node.this, value)
    found = call(
        "string:regexp_replace",
        text.term,
        Lit(f"^{ANY}*?({pattern}){ALL}$", "string"),
        Lit(f"\\{group + 1}", "string"),
    )
    matches = call("string:regexp_matches", text.term, Lit(pattern, "string"))
    term = unless_null(text, call("if", matches, found, Lit("", "string")))
    return text._replace(term=term, type=VARCHAR)


def _glob(node: exp.Expr, value: Value) -> Typed:
    """GLOB: `*` any text, `?` a letter, `[a-c]` one of some, `[!a]` another, and after `\\` a
    letter as it is.
    """
    pattern, found = _constant(node.expression, "the pattern of GLOB", node), ""
    while pattern:
        letter, pattern = pattern[0], pattern[1:]
        if letter == "[":
            inside, pattern = _class(pattern)
            found += inside
        elif letter == "\\" and pattern:
            found, pattern = found + re.escape(pattern[0]), pattern[1:]
        else:
            found += {"*": ALL, "?": ANY}.get(letter) or re.escape(letter)
    return _full_match(node.this, found, value)


NOTHING = "[^\\x{0}-\\x{10FFFF}]"  # a letter of which there is none


def _class(text: str) -> tuple[str, str]:
    """Return the class of letters after `[` in a pattern of GLOB, and the rest of the pattern."""
    opposite = text.startswith("!")
    text = text.removeprefix("!")
    end = text.find("]", 1)  # one that is first is a letter itself
    if end < 0:
        return NOTHING, ""
    parts = [(low, high or low) for low, high in _RANGE.findall(text[:end])]
    inside = "".join(
        f"\\x{{{ord(low):X}}}-\\x{{{ord(high):X}}}" for low, high in parts if low <= high
    )
    return (f"[{'^' * opposite}{inside}]" if inside else ANY if opposite else NOTHING), text[
        end + 1 :
    ]


_RANGE = re.compile("(.)(?:-(.))?", re.DOTALL)


def _escaped(node: exp.Expr, value: Value) -> Typed:
    """LIKE ... ESCAPE."""
    like, mark = node.this, _constant(node.expression, "ESCAPE", node)
    if not isinstance(like, exp.Like | exp.ILike):
        raise SqlError("ESCAPE follows the pattern of a LIKE or an ILIKE", node)
    with reading(like):
        pattern, text = like.expression, like.this
    pattern = _constant(pattern, "the pattern of LIKE with ESCAPE", node)
    found, left = "(?i)" if isinstance(like, exp.ILike) else "", list(pattern)
    while left:
        letter = left.pop(0)
        if letter == mark and left:
            found += re.escape(left.pop(0))
        else:
            found += {"%": ALL, "_": ANY}.get(letter) or re.escape(letter)
    return _full_match(text, found, value)


def _full_match(node: exp.Expr, pattern: str, value: Value) -> Typed:
    text = _text_of(node, value)
    return Typed(
        call("string:regexp_full_match", text.term, Lit(pattern, "string")), BOOLEAN, text.nullable
    )


# -- letters and parts


def _translated(node: exp.Expr, value: Value) -> Typed:
    old = _constant(node.args["from_"], "translate", node)
    new = _constant(node.args["to"], "translate", node)
    if {*old} & {*new}:
        raise SqlError(
            "translate is kept for letters that are not put in themselves: write replace", node
        )
    text = _text_of(node.this, value)
    term: Term = text.term
    for letter in dict.fromkeys(old):
        at = old.index(letter)
        term = call("string:replace", term, Lit(letter, "string"), Lit(new[at : at + 1], "string"))
    return Typed(term, VARCHAR, text.nullable)


def _code(node: exp.Expr, value: Value) -> Typed:
    """ascii, unicode and ord: the code point of the first letter."""
    text = _text_of(node.expressions[0] if isinstance(node, exp.Anonymous) else node.this, value)
    none = Lit(-1 if not isinstance(node, exp.Ascii) else 0, "int64")
    empty = call("=", text.term, Lit("", "string"))
    return Typed(call("if", empty, none, call("string:ord", text.term)), INTEGER, text.nullable)


def _hashed(node: exp.Expr, value: Value) -> Typed:
    if node.args["length"].name != "256":
        raise SqlError("sha256 is the one hash of its family that is evaluated", node)
    text = _text_of(node.this, value)
    return text._replace(term=call("string:sha256", text.term), type=VARCHAR)


def _cut(node: exp.Expr, value: Value) -> Typed:
    """`text[2:4]`, `text[1]`, and `string_split(text, ',')[2]`."""
    inner, (place,) = node.this, node.expressions
    if isinstance(inner, exp.Split) and isinstance(place, exp.Literal):
        return _piece(inner, place, value)
    operand = value(inner)
    if operand.type.element is not None:
        return lists.at_place(operand, place, value, node)
    if operand.type.name == "MAP":
        return lists.of_key(operand, value(place), node)
    if operand.type.fields:
        name = (
            str(int(place.name) + 1)
            if isinstance(place, exp.Literal) and not place.is_string
            else place.name
        )
        return lists.field(operand, name, node)
    text = convert(operand, VARCHAR, node)
    if (
        not isinstance(place, exp.Slice)
        and not _is_number(place)
        and (at := value(place)).type.is_integer
    ):
        return lists.letter_at(text, lists.later_place(at, node.meta.get(lists.SHIFTED, True)))
    if isinstance(place, exp.Slice):
        if place.args.get("step") is not None:
            raise SqlError("a text has no steps: string_split(s, '')[1:4:2] is a list", node)
        low, high = (
            _place(p, node) if p is not None else None for p in (place.this, place.expression)
        )
        low = 1 if low is None else low
    else:
        low = high = _place(place, node) + node.meta.get(lists.SHIFTED, True)
    if low < 1 and high not in (None, low):
        raise SqlError(
            "a text is cut by constant places from 1 on, or from one before its end", node
        )
    size = max(high - low + 1, 0) if high is not None and (high >= 0 or high == low) else None
    if high is not None and high < 0 and high != low:  # up to one before the end
        text = text._replace(
            term=call("string:left", text.term, Lit(high + 1 or sys.maxsize, "int64"))
        )
    args = [Lit(low, "int64")] + ([Lit(size, "int64")] if size is not None else [])
    return Typed(call("string:substring", text.term, *args), VARCHAR, text.nullable)


def _is_number(node: exp.Expr) -> bool:
    """Return whether a place is written out."""
    found = constant(node)
    return found is not None and isinstance(found.term, Lit) and found.term.value is not None


def _place(node: exp.Expr, where: exp.Expr) -> int:
    found = constant(node)
    if found is None or not isinstance(found.term, Lit) or not isinstance(found.term.value, int):
        raise SqlError("a text is cut by constant places", where)
    return found.term.value


def _piece(node: exp.Split, place: exp.Expr, value: Value) -> Typed:
    if not place.name.isdigit():
        raise SqlError("a piece of a text is named by a whole number", node)
    number = Lit(int(place.name) + 1, "int64")
    text, by = _text_of(node.this, value), value(node.expression)
    part = call("string:split_part", text.term, by.term, number)
    return Typed(
        call("if", call("<", _pieces(text, by), number), Lit(None, "string"), part), VARCHAR, True
    )


def _pieces(text: Typed, by: Typed) -> Term:
    """Return the number of parts of a text between separators."""
    without = call("string:length", call("string:replace", text.term, by.term, Lit("", "string")))
    gone = call("-", call("string:length", text.term), without)
    return call("+", call("/", gone, call("string:length", by.term)), Lit(1, "int64"))


def _length(node: exp.Expr, value: Value) -> Typed:
    """The number of letters of a text, or of the parts of one."""
    if isinstance(node.this, exp.Split):
        text, by = _text_of(node.this.this, value), value(node.this.expression)
        return Typed(_pieces(text, by), BIGINT, text.nullable or by.nullable)
    if isinstance(node.this, exp.Array):
        return Typed(Lit(len(node.this.expressions), "int64"), BIGINT, False)
    found = value(node.this)
    if found.type.element is not None:
        return Typed(call("list:length", found.term), BIGINT, found.nullable)
    text = convert(found, VARCHAR, node)
    return Typed(call("string:length", text.term), BIGINT, text.nullable)


_SIDES = {"-": "<", "0": "0>"}
_MARK = re.compile(r"%([-0]?)(\d*)((?:\.\d+)?)([sdfxXeg])")


# a mark of format: the place of its argument, and how it is shown
_PLACED = re.compile(r"\{\{|\}\}|\{(\d*)([^{}]*)\}")


def _formatted(node: exp.Expr, value: Value) -> Typed:
    """format('{} of {:.2f}', x, y) and printf('%s of %d', x, y)."""
    kinds: list[str] = []
    if isinstance(node, exp.Format):
        template, parts = _in_order(
            _constant(node.this, "the template", node), node.expressions, node
        )
    else:
        template, *parts = node.expressions
        template = _constant(template, "the template", node).replace("{", "{{").replace("}", "}}")
        if "%" in _MARK.sub("", template.replace("%%", "")):
            raise SqlError("printf takes %s, %d, %f, %x, %e and %g: use lpad and round", node)
        kinds = [found[4] for found in _MARK.finditer(template.replace("%%", ""))]
        template = _MARK.sub(_mark, template).replace("%%", "%")
    marks = re.findall(r"\{(?:\{|(:[^{}]+)?\})", template)
    plain = [
        not mark
        for mark, whole in zip(marks, re.findall(r"\{\{|\{[^{}]*\}", template), strict=True)
        if whole != "{{"
    ]
    args = [value(part) for part in parts]
    args = [
        _hexadecimal(one, kind, node) if kind in ("x", "X") else one
        for one, kind in zip_longest(args, kinds)
        if one is not None
    ]
    args = [
        convert(arg, DOUBLE, node) if arg.type.is_decimal or arg.type.is_float else arg
        for arg in args
    ]
    args = [
        a if not (plain + [True] * len(args))[n] else convert(a, VARCHAR, node)
        for n, a in enumerate(args)
    ]
    term = call("string:format", Lit(template, "string"), *(one.term for one in args))
    return Typed(term, VARCHAR, any(one.nullable for one in args))


def _in_order(template: str, parts: list[exp.Expr], node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """Return a template whose marks take one argument after the other, and these: `{1} {0}`
    names them by places.
    """
    marks = [one for one in _PLACED.finditer(template) if one[1] is not None]
    places = [int(mark[1]) for mark in marks if mark[1]]
    if any(one[2][:1] not in ("", ":") for one in marks) or (places and len(places) < len(marks)):
        raise SqlError(
            "format takes {} for one argument after the other, or {0} and {1} for those at places",
            node,
        )
    if not places:
        return template, parts
    if max(places) >= len(parts):
        raise SqlError(f"format has no argument {max(places)}: the first one is {{0}}", node)
    return _PLACED.sub(lambda one: one[0] if one[1] is None else f"{{{one[2]}}}", template), [
        parts[n] for n in places
    ]


def _hexadecimal(number: Typed, kind: str, node: exp.Expr) -> Typed:
    """Return a whole number as %x of printf shows it: one below 0 as its 64 bits."""
    digits = call("string:digits", convert(number, BIGINT, node).term, Lit(16, "int64"))
    return Typed(digits if kind == "X" else call("string:lower", digits), VARCHAR, number.nullable)


def _mark(found: re.Match[str]) -> str:
    """Return a mark of printf as one of format: texts are on the right, too."""
    side, width, digits, kind = found.groups()
    if kind in "xX":
        return f"{{:{_SIDES.get(side, '>')}{width}}}" if width else "{}"
    align = "<" if side == "-" else ">" if kind == "s" and width else side
    shown = f"{align}{width}{digits}{'' if kind == 's' else kind}"
    return f"{{:{shown}}}" if shown not in ("", "d") else "{}"


def _size(node: exp.Expr, value: Value) -> Typed:
    """bit_length(text), and octet_length(encode(text))."""
    given = node.this if isinstance(node, exp.BitLength) else node.expressions[0]
    if not isinstance(node, exp.BitLength) and not isinstance(given, exp.Encode):
        raise SqlError(
            f"{written(node)[:60]}: write octet_length(encode(text)), or strlen(text)", node
        )
    found = _text_of(given.this if isinstance(given, exp.Encode) else given, value)
    octets = call("string:bytes", found.term)
    bits = isinstance(node, exp.BitLength)
    return found._replace(term=call("*", octets, Lit(8, "int64")) if bits else octets, type=BIGINT)


def _digits(node: exp.Expr, value: Value) -> Typed:
    """hex and bin of a whole number, or of the bytes of a text."""
    own = node.name.lower() if isinstance(node, exp.Anonymous) else "hex"
    found = value(node.expressions[0] if isinstance(node, exp.Anonymous) else node.this)
    base = 2 if own in ("bin", "to_binary") else 16
    if found.type.is_integer and not found.type.wide:
        return Typed(call("string:digits", found.term, Lit(base, "int64")), VARCHAR, found.nullable)
    text = convert(found, VARCHAR, node)
    return Typed(
        call("string:bits" if base == 2 else "string:hex", text.term), VARCHAR, text.nullable
    )


def _overlaid(node: exp.Expr, value: Value) -> Typed:
    """OVERLAY(text PLACING new FROM start FOR length)."""
    start = node.args["from_"]
    length = node.args.get("for_") or exp.Length(this=node.expression)
    before = exp.Left(
        this=node.this, expression=exp.Sub(this=start, expression=exp.Literal.number(1))
    )
    after = exp.Substring(
        this=node.this.copy(), start=exp.Add(this=start.copy(), expression=length)
    )
    return value(
        exp.DPipe(this=exp.DPipe(this=before, expression=node.expression), expression=after)
    )


def _based(node: exp.Expr, value: Value) -> Typed:
    """to_base64(encode(text))."""
    inner = node.this if not isinstance(node, exp.Anonymous) else node.expressions[0]
    inner = inner.this if isinstance(inner, exp.Encode) else inner
    text = convert(value(inner), VARCHAR, node)
    return Typed(call("string:base64", text.term), VARCHAR, text.nullable)


FAMILIES: list[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr, Value], Typed]]] = [
    ((exp.Length, exp.ArraySize), _length),
    ((exp.RegexpLike, exp.SimilarTo, exp.RegexpFullMatch), _regexp),
    ((exp.RegexpILike,), _regexp_anyhow), ((exp.RegexpReplace,), _regexp_replaced),
    ((exp.RegexpExtract,), _regexp_extracted), ((exp.Glob,), _glob), ((exp.Escape,), _escaped),
    ((exp.Translate,), _translated), ((exp.Ascii, exp.Unicode), _code), ((exp.SHA2,), _hashed),
    ((exp.Bracket,), _cut), ((exp.Format,), _formatted), ((exp.Trim,), _trim),
    ((exp.ConcatWs,), _joined), ((exp.DPipe, exp.Concat), _concatenated), ((exp.Pad,), _padded),
    ((exp.StrPosition,), _position), ((exp.Like, exp.ILike), _like), ((exp.Hex,), _digits),
    ((exp.BitLength,), _size), ((exp.Overlay,), _overlaid), ((exp.ToBase64,), _based),
    *lists.FAMILIES, *json.FAMILIES,
]  # fmt: skip
NAMED: dict[str, Callable[[exp.Expr, Value], Typed]] = {
    **dict.fromkeys(("to_hex", "bin", "to_binary"), _digits), **lists.NAMED, **json.NAMED, "ord": _code,
    "octet_length": _size, "printf": _formatted,
}  # fmt: skip
