"""A function that is negated by its key is looked up: no helper view has its keys once more."""

import random

import pytest

import ivm
from tests.support.mirror import Mirror

FACTS = (
    "a(x) -> int(x). e(x, y) -> int(x), int(y). f[x] = y -> int(x), int(y). "
    "g[x, y] = z -> int(x), int(y), int(z). h[x] = (y, z) -> int(x), int(y), int(z). "
)
NEGATED = {  # and how many helper views it has
    "v(x) <- a(x), !f[x] = _.": 0,
    "v(x, y) <- e(x, y), !f[y] = _.": 0,
    "v(x) <- e(x, _), !f[x] = _.": 0,
    "v(x, y) <- e(x, y), !g[y, x] = _.": 0,
    "v(x) <- a(x), !h[x] = (_, _).": 0,
    "v(x, y) <- e(x, y), !h[y] = (_, _), !h[x] = (_, _).": 0,
    "v[x] = n <- agg<<n = count()>> e(x, y), !h[y] = (_, _).": 0,
    "v(x) <- a(x), !h[x] = (_, _). v(y) <- v(x), e(x, y), !h[y] = (_, _).": 0,
    "v(x, z) <- e(x, y), e(y, z), !g[x, z] = _, !f[y] = _.": 0,
    "v[x] = n <- agg<<n = count()>> e(x, y), !f[y] = _.": 0,
    "s[x] = n <- agg<<n = sum(y)>> e(x, y). v(x) <- a(x), !s[x] = _.": 0,
    "d[x] = z <- f[x] = y, z = y + 1. v(x, y) <- e(x, y), !d[x] = _, !d[y] = _.": 0,
    "v(x) <- a(x), !f[x] = _. v(y) <- v(x), e(x, y), !f[y] = _.": 0,
    "v(x) <- a(x), !(f[x] = y, y > 1).": 1,
    "v(x) <- a(x), !g[x, _] = _.": 1,
    "v(x) <- a(x), !(g[x, y] = y).": 1,
    "v(x) <- a(x), !h[x] = (_, 1).": 1,
    "v(x) <- a(x), !(h[x] = (y, y)).": 1,
}


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
@pytest.mark.parametrize("rules", NEGATED)
def test_a_negated_function_is_looked_up_by_its_key(rules, maintenance, tmp_path):
    """Its values change far more often than its keys, and are nobody's concern."""
    drawn = random.Random(rules)
    mirror = Mirror(tmp_path / "v.pages", FACTS)
    mirror.install("v", rules, maintenance=maintenance)
    assert len({name for name in helpers(mirror.workspace) if "$not" in name}) == NEGATED[rules]
    held, values = set(), dict[tuple[str, tuple[int, ...]], tuple[int, ...]]()
    for _ in range(25):
        rows = {("a", (drawn.randrange(4),)), ("e", (drawn.randrange(4), drawn.randrange(4)))}
        edits = [(name, row, (name, row) not in held) for name, row in sorted(rows)]
        held ^= rows
        for name, keys, columns in ("f", 1, 2), ("g", 2, 3), ("h", 1, 3):
            row = tuple(drawn.randrange(4) for _ in range(columns))
            key, new = (name, row[:keys]), row[keys:]
            if key in values:
                edits.append((name, (*key[1], *values.pop(key)), False))
            if drawn.random() < 0.7:
                values[key] = new
                edits.append((name, row, True))
        mirror.change(edits)
    assert mirror.workspace.check() == []
    mirror.close()


def helpers(workspace: ivm.Workspace) -> list[str]:
    with workspace.store.snapshot() as snap:
        return [name for name in workspace.rules_of(snap).program.predicates if "$" in name]
