"""One recursive function in every form that its rules may have: the rows are the same, also of
what shares bodies.
"""

import random
from itertools import pairwise

import pytest

import ivm

STORED = "s[k] = c -> int(k), int(c).  e(x, y) -> int(x), int(y).  a(x) -> int(x).\n"
BASES = "s[y] = c", "a(y), c = 3"
STEPS = "d[x] = c, e(x, y)", "d[z] = c, e(y, z), a(z)"
PARTS = (*BASES, *STEPS)
AGAIN = ["",
         "m[y] = r <- agg<<r = {op}(c)>> ({0}).", "m[x] = r <- agg<<r = {other}(c)>> {2}.",
         "m[] = r, n[x] = q <- agg<<r = min(c), q = max(c)>> {2}.",
         "m[y] = n <- agg<<n = count()>> ({1})."]  # fmt: skip


def forms(op: str) -> list[str]:
    """One rule with all conjunctions, and each way to give some of them to other rules, or a
    rule another head.
    """
    texts = [rule(op, PARTS)]
    for cut in range(1, len(PARTS)):
        texts.append(f"{rule(op, PARTS[:cut])} {rule(op, PARTS[cut:])}")
    texts.append(f"d[y] = c <- {BASES[0]} ; {BASES[1]}. {rule(op, STEPS)}")
    texts.append(f"d[y] = c, o(y) <- {BASES[0]}. {rule(op, PARTS[1:2])} {rule(op, STEPS[::-1])}")
    for head, fold in (
        ("f[y] = q", f"{op}(c)"),
        ("f[y, c] = q", f"{op}(c)"),
        ("f[y] = q", "count()"),
        ("f[] = q", "sum(c)"),
    ):
        for shared, others in (
            (PARTS, ()),
            (PARTS[1:], PARTS[:1]),
            (PARTS[2:], PARTS[:2]),
            (PARTS[3:], PARTS[:3]),
        ):
            both = f"d[y] = r, {head} <- agg<<r = {op}(c), q = {fold}>> ({' ; '.join(shared)})."
            texts.append(f"{both} {rule(op, others) if others else ''}")
    return texts


def rule(op: str, parts: tuple[str, ...]) -> str:
    return f"d[y] = r <- agg<<r = {op}(c)>> ({' ; '.join(parts)})."


def edits(seed: int) -> list[str]:
    """Transactions over so few numbers that values improve, worsen and go."""
    draw = random.Random(seed)
    small = [f"^s[{draw.randrange(4)}] = {draw.randrange(6)}.", f"-s[{draw.randrange(4)}]."]
    changes = [*small, *(f"{sign}a({draw.randrange(4)})." for sign in "+-")]
    changes += [
        f"{draw.choice('++-')}e({draw.randrange(4)}, {draw.randrange(4)})." for _ in range(6)
    ]
    draw.shuffle(changes)
    return ["+s[1] = 5. +s[2] = 2. +e(1, 2). +e(2, 3). +e(3, 1). +a(3).", *changes]


@pytest.mark.parametrize("op", ["min", "max"])
def test_the_rows_are_the_same_in_every_form(tmp_path, op):
    """Against views that are evaluated from the finished function, installed as a block of their
    own.
    """
    other = "max" if op == "min" else "min"
    sources = " ; ".join(PARTS), " ; ".join(STEPS), *STEPS
    base, changes = forms(op)[0], edits(1)
    histories = []
    for number, text in enumerate(forms(op)):
        again = AGAIN[number % len(AGAIN)].format(*sources, op=op, other=other)
        with ivm.open(tmp_path / f"{number}.pages", sync="off") as ws:
            ws.install(STORED, "stored")
            ws.install(f"{text} {again}", "views")
            apart = [one for one in (again.replace("m[", "m2[").replace("n[", "n2["),) if one]
            if "f[" in text:
                apart.append(beside(text))
            if apart:
                ws.install("\n".join(apart), "apart")
            histories.append([])
            for change in changes:
                ws.exec(change)
                histories[-1].append(sorted(ws["d"]))
                for name in {"m", "n", "f"} & {*ws}:
                    assert sorted(ws[name]) == sorted(ws[f"{name}2"]), (text, again, change)
            assert ws.check() == []
    assert all(one == histories[0] for one in histories), base
    assert any(before != after for before, after in pairwise(histories[0]))


def beside(text: str) -> str:
    """The second head of a rule as a rule of its own."""
    heads, _, rest = text.partition(" <- agg<<")
    folds, _, body = rest.partition(">> ")
    return f"f2{heads.partition(', f')[2]} <- agg<<{folds.partition(', ')[2]}>> {body.partition(').')[0]})."


def test_a_question_takes_the_same_forms(tmp_path):
    with ivm.open(tmp_path / "q.pages", sync="off") as ws:
        ws.install(STORED)
        for change in edits(2):
            ws.exec(change)
        answers = {tuple(sorted(ws.query(f"{text} q(y, c) <- d[y] = c."))) for text in forms("min")}
    assert len(answers) == 1
    assert answers != {()}
