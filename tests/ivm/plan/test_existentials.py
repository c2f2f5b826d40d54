"""What only has to be there costs what it is, not that times the rest of the rule."""

import random

import numpy as np
import pytest

import ivm
from tests.support.mirror import Mirror

FACTS = "a(x) -> int(x). b(x) -> int(x). f[x] = y -> int(x), int(y). m[] = x -> int(x). "


def filled(file, n: int) -> ivm.Workspace:
    workspace = ivm.open(file, sync="off")
    workspace.install(FACTS, name="facts")
    with workspace.transaction() as txn:
        txn.insert("a", [np.arange(n)])
        txn.insert("b", [np.arange(n)])
        txn.insert("f", [np.arange(n), np.arange(n)])
    return workspace


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
@pytest.mark.parametrize(
    ("rule", "some"),
    [
        ("v(x) <- a(x), b(_).", 1),
        ("v(x) <- a(x), b(y), f[y] = z, z > 3.", 1),
        ("v(x) <- a(x), b(y), !f[y] = _.", 1),
        ("v(x), w(z) <- a(x), f[z] = _, b(y).", 4),
        ("v(x), w(x, z) <- a(x), f[x] = z, b(y).", 1),
        ("v(1) <- a(x), b(y), f[y] = 4.", 2),
        ("v(x) <- a(x), (b(_) ; f[_] = 7).", 2),
        ("v[] = n <- agg<<n = max(x)>> a(x), b(_), f[_] = _.", 2),
        ("v[x] = n <- agg<<n = min(y)>> f[x] = y, b(z), z > 3.", 1),
        ("v[] = n <- agg<<n = count()>> a(_), b(_), f[_] = _.", 0),
        ("v[x] = n <- agg<<n = count()>> a(x), b(y), f[y] = _, y > 2.", 0),
        ("v[x] = n <- agg<<n = sum(p)>> a(x), b(y), f[_] = z, p = y * z.", 6),
    ],
)
def test_what_has_to_be_there_multiplies_nothing(rule, some, maintenance, tmp_path):
    whole = []
    for n in (50, 500):
        with filled(tmp_path / f"{n}.pages", n) as ws:
            ws.install(rule, name="v", maintenance=maintenance)
            assert sum("$some" in name and "$not" not in name for name in helpers(ws)) == some
            whole.append(ws.stats("v")["operations"])
            ws.verify("v")
            none = "".join(f"-b({i})." for i in range(n))
            for edits in ("-b(4). -f[4].", "-a(3). +b(4). +f[4] = 4.", none, "+b(1)."):
                ws.exec(edits)
                ws.verify("v")
                if "w" in ws:
                    ws.verify("w")
    assert whole[1] <= 11 * whole[0]


@pytest.mark.parametrize(
    "rule",
    [
        "v(x) <- a(x), m[] = _.",  # one at most
        "v(x, y) <- a(x), b(y).",  # both are asked for
        "v(1) <- b(_).",  # nothing beside it
        "v[x] = n <- agg<<n = avg(y)>> f[x] = y, b(_).",  # every binding counts
        "v(x) <- a(x), b(y), x < y.",  # a comparison ties them
    ],
)
def test_what_is_tied_counted_or_single_stays(rule, tmp_path):
    with filled(tmp_path / "s.pages", 5) as ws:
        ws.install(rule, name="v")
        assert not any("$some" in name for name in helpers(ws))
        ws.verify("v")


def helpers(workspace):
    with workspace.store.snapshot() as snap:
        return [name for name in workspace.rules_of(snap).program.predicates if "$" in name]


ROWS_OF_CONSTANTS = [
    "v(x) <- a(x), b(1).",
    "v(x, y) <- e(x, y), b(1), !a(y).",
    "v(x) <- a(x), e(x, y), b(1), e(2, 3).",
    "v[x] = n <- agg<<n = count()>> e(x, _), b(1), b(2).",
    "v[] = n <- agg<<n = count()>> a(x), e(0, _).",
    "v(x) <- a(x), f[1] = 2, e(x, x).",
    "v(x) <- a(x), f[1] = y, y > x.",
    "v(x) <- a(x), b(1), x = 2.",
    "v[] = n <- agg<<n = count()>> a(x), e(1, 2), b(y).",
    "v(x) <- a(x), b(y), e(z, _), y > 1, z != 3.",
    "v[x] = n <- agg<<n = count()>> a(x), e(y, _), b(z), z < 3.",
    "v[x] = n <- agg<<n = sum(p)>> e(x, y), b(z), p = z * y * z.",
    "v[y] = n <- agg<<n = sum(x)>> e(x, _), b(y), !a(y).",
    "v[x, y] = n <- agg<<n = sum(p)>> e(x, p), e(_, y), a(_).",
    "v[x] = n, w[] = m <- agg<<n = count(), m = max(y)>> a(x), b(y).",
    "v[x] = n <- agg<<n = min(y)>> e(x, y), b(_), a(z), z > 1.",
    "v[] = n <- agg<<n = count() else 0>> a(_), e(_, _).",
    "v[x] = n <- agg<<n = count()>> a(x), e(x, z), b(y), !e(y, y).",
]


@pytest.mark.parametrize("rule", ROWS_OF_CONSTANTS)
@pytest.mark.parametrize("maintenance", ["probe", "auto"])
def test_what_needs_a_row_of_constants_is_true_under_random_edits(rule, maintenance, tmp_path):
    """Such an atom shares no variable with the others, and says for all their rows whether they
    count.
    """
    drawn = random.Random(rule)
    mirror = Mirror(tmp_path / "v.pages", FACTS + "e(x, y) -> int(x), int(y).")
    mirror.install("v", rule, maintenance=maintenance)
    held, value = set(), None
    for _ in range(25):
        rows = {
            (name, tuple(drawn.randrange(4) for _ in range(1 + (name == "e"))))
            for name in drawn.choices("abe", k=4)
        }
        edits = [(name, row, (name, row) not in held) for name, row in sorted(rows)]
        held ^= rows
        old, value = value, drawn.choice([None, 1, 2, 3])
        edits += [("f", (1, old), False)] * (old is not None) + [("f", (1, value), True)] * (
            value is not None
        )
        mirror.change(edits)
    assert mirror.workspace.check() == []
    mirror.close()
