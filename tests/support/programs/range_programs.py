"""Random aggregates over ranges, and rules that ask for the next and the previous key, over what
strategies.py stores.

    v0[x] = n <- agg<<n = sum(k)>> e(x, p), g[x, q] = k, q > p - 2, q <= p.        v1(y) <- a(x), e:next[1, x] = y.

Points and what is measured are one or two atoms each, which may share variables and have filters of
their own; keys, arguments and comparisons are drawn without regard to what ranges can say, so that
some remain joins.
"""

from functools import partial

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.support.strategies import DECLARATIONS, STORED, Edit, edits, rows

OPERATIONS = ["count()", "sum({})", "min({})", "max({})", "min({z})", "max({z})", "argmin({}, {z})",
    "last({}, {z})",
              "argmax({}, {z})", "first({}, {z})", "median({})", "avg({})", "variance({})",
              "stddev_pop({})"]  # fmt: skip
COMPARISONS = [["{z} > {p}"], ["{z} >= {p}"], ["{z} < {p}"], ["{p} >= {z}"], ["{z} <= {p}",
    "{z} > {p} - 2"],
               ["{z} - {p} <= 1", "{p} - {z} <= 1"], ["{z} > {p}", "{z} < {p}"], ["{z} > {p} + 1"],
               ["{z} <= {p}", "{z} >= {p} - 1", "{z} < {p} + 2"]]  # fmt: skip


@st.composite
def range_cases(
    draw: DrawFn, count_max: int = 5, size_max: int = 8, sums: bool = True
) -> tuple[str, list[list[Edit]]]:
    """A program and transactions over all that is stored: a larger load, then small changes."""
    folded = partial(_aggregate, operations=[op for op in OPERATIONS if sums or op != "sum({})"])
    kinds = [folded, folded, _neighbour, _beside]
    views = [draw(st.sampled_from(kinds))(draw, f"v{n}") for n in range(2)]
    load = [(name, row, True) for name in STORED for row in draw(st.lists(rows(name), max_size=8))]
    changes = st.lists(edits([*STORED]), min_size=1, max_size=size_max)
    return "\n".join([DECLARATIONS, *views]), [load, *draw(st.lists(changes, max_size=count_max))]


def _aggregate(draw: DrawFn, name: str, operations: list[str]) -> str:
    """An aggregate, or two over one body, for each point."""
    points, held = _part(draw, "p", "xyu")
    measured, given = _part(draw, "z", "xykl")
    links = [text.format(p="p", z="z") for text in draw(st.sampled_from(COMPARISONS))]
    heads, folds = [], []
    for letter in "ab"[: draw(st.sampled_from([1, 1, 2]))]:
        keys = draw(st.lists(st.sampled_from(held), max_size=3, unique=True))
        argument = draw(st.sampled_from([v for v in given if v != "z"] or ["z"]))
        fold = draw(st.sampled_from(operations)).format(argument, z="z")
        heads.append(f"{name}{letter}[{', '.join(keys)}] = m{letter}")
        folds.append(f"m{letter} = {fold}")
    body = [*points, *measured, *links]
    if draw(st.integers(0, 3)) == 0:
        body.append(
            draw(
                st.sampled_from(
                    [f"!a({draw(st.sampled_from(held))})", f"{draw(st.sampled_from(given))} != 2"]
                )
            )
        )
    return (
        f"{', '.join(heads)} <- agg<<{', '.join(folds)}>> {', '.join(draw(st.permutations(body)))}."
    )


def _part(draw: DrawFn, own: str, others: str) -> tuple[list[str], list[str]]:
    """One or two atoms, the first of which has the variable `own`, and their variables."""
    literals, held = [], [own]
    for first in (True, False)[: draw(st.sampled_from([1, 1, 2]))]:
        name = draw(st.sampled_from(sorted(STORED)))
        arguments, is_function = STORED[name]
        width = arguments + is_function
        terms = [draw(st.sampled_from([*others, *others, "_", "1"])) for _ in range(width)]
        if first:
            terms[draw(st.integers(0, width - 1))] = own
        held += [term for term in terms if term.isalpha() and term not in held]
        literals.append(
            f"{name}[{', '.join(terms[:-1])}] = {terms[-1]}"
            if is_function
            else f"{name}({', '.join(terms)})"
        )
    return literals, held


def _neighbour(draw: DrawFn, name: str) -> str:
    """A rule that asks for the next or the previous key of something, at a value or where there
    is none.
    """
    base = draw(st.sampled_from([n for n in sorted(STORED) if STORED[n][0]]))
    points, held = _part(draw, "p", "xy")
    terms = [*held, "1", f"{held[0]} + 1"]
    asked = [draw(st.sampled_from(terms)) for _ in range(draw(st.integers(1, STORED[base][0])))]
    literal = f"{base}:{draw(st.sampled_from(['next', 'previous']))}[{', '.join(asked)}]"
    kind = draw(st.integers(0, 3))
    head, last = ", ".join(held), f"{literal} = w"
    if kind == 0:
        last = f"!{literal} = _"
    elif kind == 1:
        last = f"!({literal} = w, a(w))"
    elif kind == 2:
        last = f"{literal} = w, a:next[w] = w2, w2 - w < 3"
        head += ", w2"
    else:
        head += ", w"
    return f"{name}({head}) <- {', '.join([*points, last])}."


def _beside(draw: DrawFn, name: str) -> str:
    """An aggregate of the row before or after each, in the order of several columns."""
    base, upward = draw(st.sampled_from(["e", "t", "g"])), draw(st.booleans())
    arguments, is_function = STORED[base]
    width = arguments + is_function
    order = draw(st.lists(st.integers(0, width - 1), min_size=2, max_size=width, unique=True))
    group = [n for n in range(width) if n not in order and draw(st.booleans())]
    point = [f"p{n}" if n not in group else f"s{n}" for n in range(width)]
    other = [f"z{n}" if n not in group else f"s{n}" for n in range(width)]
    sign = ">" if upward else "<"
    *before, last = order
    term = f"{other[last]} {sign} {point[last]}"
    for n in reversed(before):
        # either side may come first
        equal, less = (f"{other[n]} {s} {point[n]}" for s in ("=", sign))
        term = f"if[{equal}, {term}, {less}]"
    keys = draw(st.sampled_from([point, point[:arguments]]))
    taken = draw(st.sampled_from([n for n in range(width) if n not in group]))
    op = draw(st.sampled_from(["argmin", "first"] if upward else ["argmax", "last"]))
    by = ", ".join(other[n] for n in order)

    def atom(terms: list[str]) -> str:
        if is_function:
            return f"{base}[{', '.join(terms[:-1])}] = {terms[-1]}"
        return f"{base}({', '.join(terms)})"

    fold = f"{op}({other[taken]}, {by})"
    return f"{name}[{', '.join(keys)}] = w <- agg<<w = {fold}>> {atom(point)}, {atom(other)}, {term} = true."
