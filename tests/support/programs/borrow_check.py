"""A compiler's borrow check, after Polonius' naive rules: some forty rules, and facts of functions.

A function of n points is a row of statements with a branch now and then, and a loop. Its facts
share no value with those of others, as those of a compiler do, so that each can go and come back
alone.
"""

from random import Random

DECLARATIONS = "\n".join(
    f"{name}({', '.join('abc'[:n])}) -> {', '.join(f'int({x})' for x in 'abc'[:n])}."
    for name, n in {
        "cfg": 2,
        "issued": 3,
        "universal": 2,
        "known_subset": 2,
        "killed": 2,
        "subset_base": 3,
        "invalidated": 2,
        "used": 2,
        "defined": 2,
        "dropped": 2,
        "use_derefs": 2,
        "drop_derefs": 2,
        "child": 2,
        "is_var": 2,
        "assigned_base": 2,
        "moved_base": 2,
        "accessed_base": 2,
    }.items()
)
RULES = """
placeholder(o) <- universal(o, _).
above(x, y) <- child(y, x).
above(x, z) <- above(x, y), child(z, y).
moved(x, p) <- moved_base(x, p).
moved(y, p) <- moved(x, p), above(x, y).
assigned(x, p) <- assigned_base(x, p).
assigned(y, p) <- assigned(x, p), above(x, y).
accessed(x, p) <- accessed_base(x, p).
accessed(y, p) <- accessed(x, p), above(x, y).
begins(x, v) <- is_var(x, v).
begins(y, v) <- begins(x, v), above(x, y).
maybe_init(x, p) <- assigned(x, p).
maybe_init(x, q) <- maybe_init(x, p), cfg(p, q), !moved(x, q).
maybe_uninit(x, p) <- moved(x, p).
maybe_uninit(x, q) <- maybe_uninit(x, p), cfg(p, q), !assigned(x, q).
var_init_exit(v, p) <- maybe_init(x, p), begins(x, v).
var_init_entry(v, q) <- var_init_exit(v, p), cfg(p, q).
move_error(x, q) <- maybe_uninit(x, p), cfg(p, q), accessed(x, q).
live(v, p) <- used(v, p).
live(v, p) <- live(v, q), cfg(p, q), !defined(v, p).
drop_live(v, p) <- dropped(v, p), var_init_entry(v, p).
drop_live(v, p) <- drop_live(v, q), cfg(p, q), !defined(v, p), var_init_exit(v, p).
origin_live(o, p) <- live(v, p), use_derefs(v, o).
origin_live(o, p) <- drop_live(v, p), drop_derefs(v, o).
origin_live(o, p) <- universal(o, p).
origin_live(o, q) <- origin_live(o, p), placeholder(o), cfg(p, q).
known(a, b) <- known_subset(a, b).
known(a, c) <- known(a, b), known_subset(b, c).
subset(a, b, p) <- subset_base(a, b, p).
subset(a, c, p) <- subset(a, b, p), subset(b, c, p), a != c.
subset(a, b, q) <- subset(a, b, p), cfg(p, q), origin_live(a, q), origin_live(b, q).
contains(o, l, p) <- issued(o, l, p).
contains(b, l, p) <- contains(a, l, p), subset(a, b, p).
contains(o, l, q) <- contains(o, l, p), cfg(p, q), !killed(l, p), origin_live(o, q).
loan_live(l, p) <- contains(o, l, p), origin_live(o, p).
error(l, p) <- loan_live(l, p), invalidated(l, p).
subset_error(a, b, p) <- subset(a, b, p), placeholder(a), placeholder(b), a != b, !known(a, b).
loans[p] = n <- agg<<n = count()>> loan_live(_, p).
errors[l] = n <- agg<<n = count()>> error(l, _).
"""
APART = 1 << 20  # between the values of two functions

Facts = dict[str, list[tuple[int, ...]]]


def function(number: int, points: int) -> Facts:
    """The facts of a function, some four for each of its points."""
    random, base = Random(number), number * APART
    variables = 1 + points // 12
    facts: Facts = {
        name: []
        for name in ("cfg", "used", "defined", "universal", "known_subset", "is_var", "child")
    }

    def add(name: str, *row: int) -> None:
        facts.setdefault(name, []).append(tuple(base + x for x in row))

    for p in range(points - 1):
        add("cfg", p, p + 1)
        if random.random() < 0.06 and p + 3 < points:
            add("cfg", p, min(points - 1, p + random.randrange(3, 12)))
        if random.random() < 0.03 and p > 8:
            add("cfg", p, p - random.randrange(3, 9))
    for o in range(2 if points > 6 else 0):
        add("universal", o, 0)
    for v in range(variables):
        first = random.randrange(max(1, points - 8))
        span = random.randrange(3, 24)
        add("is_var", v, v)
        add("use_derefs", v, 2 + v)
        add("drop_derefs", v, 2 + v)
        add("defined", v, first)
        add("assigned_base", v, first)
        for _ in range(random.randrange(1, 4)):
            at = min(points - 1, first + random.randrange(1, span))
            add("used", v, at)
            add("accessed_base", v, at)
        if random.random() < 0.5:
            add("dropped", v, min(points - 1, first + span))
        add("moved_base", v, min(points - 1, first + random.randrange(1, span)))
        if random.random() < 0.4:
            add("child", variables + v, v)
        if random.random() < 0.7:
            add("issued", 2 + v, v, first)
            at = min(points - 1, first + random.randrange(1, span))
            add(random.choice(("killed", "invalidated")), v, at)
        for _ in range(random.randrange(1, 4)):
            add(
                "subset_base",
                2 + v,
                2 + random.randrange(max(0, v - 4), min(variables, v + 4)),
                first,
            )
        if random.random() < 0.05 and points > 6:
            add("subset_base", random.randrange(2), 2 + v, first)
    return {name: sorted(set(rows)) for name, rows in facts.items() if rows}


def size(facts: Facts) -> int:
    """How many facts there are."""
    return sum(map(len, facts.values()))


def crate(functions: int, points: int) -> list[Facts]:
    """Some functions, of which each is a tenth smaller than the one before."""
    return [function(number, max(3, int(points * 0.9**number))) for number in range(functions)]
