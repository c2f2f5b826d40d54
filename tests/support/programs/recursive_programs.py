"""Random programs whose views read themselves, and edits that cut cycles and mend them.

stored   e(x, y)   f(x, y)   a(x)   w[x, y] = c   t[x] = s     over few values, so that there are many cycles
views    p0, p1, p2 in one recursion, n below it, v over it; or d, aggregated by a semilattice, and v over it
"""

from random import Random

from pagestore import register_operator
from pagestore.host import is_operator
from tests.support.mirror import Edit

DECLARATIONS = """\
e(x, y) -> int(x), int(y).  f(x, y) -> int(x), int(y).  a(x) -> int(x).  w[x, y] = c -> int(x), int(y), int(c).
t[x] = s -> int(x), string(s).
"""
TEXTS = "", "a", "ab", "b", "ä", "z", "a\0", "zz"
NONE, NEITHER = -2, -1  # no constant, and what two different ones are together
SEMILATTICES = {  # how two values are joined, and the least: sets of bits, and constants
    "unite": (lambda a, b: a | b, 0),
    "agree": (lambda a, b: a if b in (a, NONE) else b if a == NONE else NEITHER, NONE),
}
VARIABLES = "xyzu"
NODES = (3, 4, 6, 8)


def semilattice(name: str) -> str:
    """The name of an operator, registered in this process; it takes a compiler."""
    if not is_operator(name):
        register_operator(name, *SEMILATTICES[name], semilattice=True)
    return name


def program(random: Random) -> str:
    """A text: declarations, a recursion, and views over it."""
    rules = random.choice((folded, plain, recursion, recursion))(random)
    return DECLARATIONS + "\n".join(rules)


def plain(random: Random) -> list[str]:
    """Reachability and closures, in which long cycles come and go."""
    rules = random.choice((
        ["p0(x) <- a(x).", "p0(y) <- p0(x), e(x, y)."],
        ["p0(x) <- a(x) ; p0(y), e(y, x) ; p0(y), f(y, x)."],
        ["p0(x) <- a(x).", "p0(y) <- p1(x), e(x, y).", "p1(y) <- p0(x), (e(x, y) ; f(x, y))."],
        ["p0(x, y) <- e(x, y).", "p0(x, z) <- p0(x, y), e(y, z)."],
        ["p0(x, y) <- e(x, y), !f(x, y).", "p0(x, z) <- p0(x, y), p0(y, z)."],
        ["p0(x, y) <- e(u, x), e(u, y).", "p0(x, y) <- e(u, x), p0(u, w), e(w, y)."],
    ))  # fmt: skip
    return [
        *rules,
        "v0[] = k <- agg<<k = count()>> p0(x, ..).".replace(
            ", ..", "" if "p0(x) <-" in rules[0] else ", _"
        ),
    ]


def recursion(random: Random) -> list[str]:
    """Rules of one to three views that read one another, over a negation and under another."""
    views = {f"p{i}": random.choice((1, 2, 2, 2)) for i in range(random.choice((1, 1, 2, 3)))}
    rules = ["n(x, y) <- e(x, y), !f(y, x)."]
    for name, width in views.items():
        rules.append(
            f"{name}({', '.join('xy'[:width])}) <- "
            f"{random.choice(('e(x, y)', 'f(y, x)', 'n(x, y)'))}."
        )
        rules += [clause(random, name, width, views) for _ in range(random.choice((1, 1, 2)))]
    over, width = random.choice(list(views.items()))
    arguments = ", ".join("xy"[:width])
    rules.append(f"v0[x] = k <- agg<<k = count()>> {over}({arguments}).")
    rules.append(f"v1(x) <- e(x, _), !({over}({arguments})).")
    rules.append(f"v2(x, z) <- {over}({arguments}), e(x, z).")
    return rules


def clause(random: Random, name: str, width: int, views: dict[str, int]) -> str:
    """A rule that reads views of its own recursion."""
    bound: list[str] = []

    def atom(predicate: str, columns: int) -> str:
        terms = []
        for _ in range(columns):
            kind = random.random()
            if kind < 0.06:
                terms.append(str(random.randrange(4)))
            elif kind < 0.12:
                terms.append("_")
            else:
                near = bound if bound and random.random() < 0.6 else list(VARIABLES)
                terms.append(random.choice(near))
                bound.append(terms[-1])
        return f"{predicate}({', '.join(terms)})"

    own = (
        random.sample(sorted(views), k=1)
        if random.random() < 0.7
        else random.choices(sorted(views), k=2)
    )
    lower = random.choices((("e", 2), ("f", 2), ("n", 2), ("a", 1)), k=random.choice((0, 1, 1, 2)))
    literals = [
        atom(predicate, columns) for predicate, columns in [*((v, views[v]) for v in own), *lower]
    ]
    random.shuffle(literals)
    missing = [v for v in "xy"[:width] if v not in bound]
    literals += [f"a({v})" for v in missing]
    bound += missing
    if random.random() < 0.2:
        literals.append(
            f"{random.choice(bound)} {random.choice(('!=', '<', '<='))} {random.choice(bound)}"
        )
    if random.random() < 0.2:
        literals.append(f"!f({random.choice(bound)}, {random.choice(bound)})")
    if random.random() < 0.1:
        literals.append(f"!(e({random.choice(bound)}, q), f(q, _))")
    return f"{name}({', '.join('xy'[:width])}) <- {', '.join(literals)}."


def folded(random: Random) -> list[str]:
    """An aggregate that reads itself: shortest paths, least labels, bounded distances, values
    that turn back.
    """
    way = random.choice(("min", "max"))
    head = f"d[y] = l <- agg<<l = {way}(m)>>"
    step, bound = ("m = b + s", "m < 9") if way == "min" else ("m = b - s", "m > -9")
    label = [f"{head} (a(y), m = y ; d[x] = m, {random.choice(('e(x, y)', 'e(y, x), f(x, y)'))})."]
    paths = [f"{head} (a(y), m = 0 ; d[x] = b, w[x, y] = s, s >= 0, {step}, {bound})."]
    two = [
        f"{head} (a(y), m = y ; g[x] = m, e(x, y)).",
        f"g[y] = l <- agg<<l = {way}(m)>> (d[x] = m, f(x, y) ; g[x] = m, e(y, x)).",
    ]
    apart = ["d[x] = x <- a(x).", f"{head} d[x] = m, e(x, y), !f(x, y)."]
    back = [
        "d[x] = 9 <- a(x).",
        "d[y] = l <- agg<<l = min(m)>> d[x] = b, e(x, y), x < y, w[x, y] = s, m = b - s.",
    ]
    lesser, clamp = (
        ("max", "(m = b, b <= s ; m = s, s < b)")
        if way == "max"
        else ("min", "(m = b, b >= s ; m = s, s > b)")
    )
    wide = [f"d[y] = l <- agg<<l = {lesser}(m)>> (a(y), m = 2 ; d[x] = b, w[x, y] = s, {clamp})."]
    name = [
        "d[x] = s <- a(x), t[x] = s.",
        f"d[y] = l <- agg<<l = {way}(m)>> d[x] = m, e(x, "
        f"y){random.choice(('', BOUND[way], ', !f(x, y)'))}.",
    ]
    join = f"agg<<l = {semilattice(random.choice(sorted(SEMILATTICES)))}(m)>>"
    sets = [
        f"d[y] = l <- {join} (w[_, y] = m ; d[x] = m, "
        f"{random.choice(('e(x, y)', 'e(y, x), f(x, y)'))})."
    ]
    both = [
        f"d[y] = l <- {join} (w[y, _] = m ; g[x] = m, e(x, y)).",
        f"g[y] = l <- {join} (d[x] = m, f(x, y) ; g[x] = m, e(y, x), !f(x, x) ; a(y), m = 4).",
    ]
    rules = random.choice((label, paths, paths, two, apart, back, wide, name, sets, both))
    return [
        *rules,
        "v0[l] = k <- agg<<k = count()>> d[x] = l.",
        "v1(x, z) <- d[x] = l, d[z] = l, e(x, z).",
        *KEYS_ONLY,
    ]


KEYS_ONLY = [  # no change of a value changes these
    "v2(x) <- d[x] = _.",
    "v3(x) <- e(x, _), !(d[x] = _).",
    "v4(x, y) <- d[x] = _, e(x, y).",
    "v5[] = k <- agg<<k = count()>> d[_] = _.",
]
BOUND = {"min": ', m < "zz"', "max": ', m > "a"'}


def load(random: Random) -> list[Edit]:
    """Many rows at once."""
    n = random.choice(NODES)
    edges = {
        (random.randrange(n), random.randrange(n)) for _ in range(random.randrange(n // 2, 2 * n))
    }
    if random.random() < 0.5:  # one long cycle, with chords
        edges = {(x, (x + 1) % n) for x in range(n)} | set(
            random.sample(sorted(edges), min(2, len(edges)))
        )
    weighted = [("w", (*edge, random.randrange(4)), True) for edge in sorted(edges)]
    others = [
        ("f", (random.randrange(n), random.randrange(n)), True) for _ in range(random.randrange(n))
    ]
    others += [("t", (x, random.choice(TEXTS)), True) for x in range(n)]
    return [
        *(("e", edge, True) for edge in sorted(edges)),
        *weighted,
        *others,
        ("a", (random.randrange(n),), True),
    ]


def change(random: Random, state: dict) -> list[Edit]:
    """A few edits: edges of cycles go, come back, or go and come at once; others are drawn."""
    n = random.choice(NODES)
    edits: list[Edit] = []
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        name = random.choice(("e", "e", "e", "e", "f", "a", "w", "t"))
        rows = sorted(
            state[name]
            if isinstance(state[name], set)
            else [(*k, v) for k, v in state[name].items()]
        )
        if name == "t":
            edits.append(("t", (random.randrange(n), random.choice(TEXTS)), random.random() < 0.8))
        elif name == "w":
            x, y = random.randrange(n), random.randrange(n)
            edits.append(("w", (x, y, random.randrange(4)), random.random() < 0.7))
        elif name == "a":
            edits.append(("a", (random.randrange(n),), random.random() < 0.5))
        elif rows and random.random() < 0.55:
            cyclic = [row for row in rows if reaches(rows, row[1], row[0])]
            row = random.choice(cyclic or rows)
            edits.append((name, row, False))
            if random.random() < 0.15:
                edits.append((name, row, True))
        else:
            edits.append((name, (random.randrange(n), random.randrange(n)), True))
    return edits


def reaches(edges: list[tuple], start: int, end: int) -> bool:
    """Is there a path?"""
    seen, todo = {start}, [start]
    for x in todo:  # grows
        new = {b for a, b in edges if a == x} - seen
        seen |= new
        todo += new
    return end in seen
