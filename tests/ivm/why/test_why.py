"""Why a row is in a view, why not, and which edits changed it: equal to brute force, and said in
words.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, permutations, product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

import ivm
from ivm.errors import EditError, UnknownViewError
from ivm.lang.ir import Atom, Const, Rule, Var, variables
from ivm.lang.program import Program
from ivm.why import derivations, proofs
from ivm.why.derivations import DECIDING, Fact, Step
from ivm.why.missing import Missing
from tests.support import naive
from tests.support.mirror import Mirror
from tests.support.programs import recursive_programs
from tests.support.programs.amounts import times
from tests.support.strategies import FULL, Edit, Features, cases

TRIANGLES = """
edge(x, y) -> int(x), int(y).  cut(x) -> int(x).
tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z), !cut(x).
reach(x, y) <- edge(x, y).  reach(x, z) <- reach(x, y), edge(y, z).
degree[x] = n <- agg<<n = count()>> edge(x, _).
least[x] = m <- agg<<m = min(y)>> edge(x, y).
"""


@pytest.fixture
def graph() -> Iterator[ivm.Workspace]:
    with ivm.open(":memory:") as ws:
        ws.install(TRIANGLES)
        ws.exec("+edge(1, 2). +edge(2, 3).")
        ws.exec("+edge(1, 3). +edge(3, 4).")
        yield ws


# -- brute force


def facts_under(disjunct: tuple, binding: dict) -> frozenset[Fact]:
    def value(term: object) -> object:
        return binding[term.name] if isinstance(term, Var) else term.value

    return frozenset(
        Fact(a.predicate, tuple(map(value, a.terms))) for a in disjunct if isinstance(a, Atom)
    )


def steps_of(mirror: Mirror) -> dict[Fact, set[frozenset[Fact]]]:
    """The facts of each step of each row of a view that is kept, by loops over everything."""
    found: dict[Fact, set[frozenset[Fact]]] = defaultdict(set)
    for rule in program_of(mirror).rules:
        for place, head in enumerate(rule.heads):
            for disjunct in rule.body:
                if rule.aggregates:
                    for fact, below in folded(mirror, rule, place):
                        found[fact].add(below)
                    continue
                for binding in naive.bindings(disjunct, {}, mirror.state):
                    row = tuple(binding[v.name] for v in head.terms)
                    found[Fact(head.predicate, row)].add(facts_under(disjunct, binding))
    return found


def program_of(mirror: Mirror) -> Program:
    """The rules without views that only one aggregate reads, and that are not kept."""
    program: Program = mirror.workspace._asker(None).derivations.program
    return program


def folded(mirror: Mirror, rule: Rule, place: int) -> Iterator[tuple[Fact, frozenset[Fact]]]:
    """Every row of an aggregate with all facts of its group, or with those of one binding that
    decides it.
    """
    head, one = rule.heads[place], rule.aggregates[place]
    results = {v for each in rule.aggregates for v in each.results}
    under = defaultdict(frozenset)  # the facts of a binding, of all alternatives that have it
    for disjunct in rule.body:
        for binding in naive.bindings(disjunct, {}, mirror.state):
            under[frozenset(binding.items())] |= facts_under(disjunct, binding)
    groups = defaultdict(list)
    for items, facts in under.items():
        binding = dict(items)
        group = tuple(binding[v.name] for v in head.terms if v not in results)
        groups[group].append((binding, facts))
    for row in naive.rows_of(mirror.state[head.predicate]):
        group = groups[
            tuple(v for v, term in zip(row, head.terms, strict=True) if term not in results)
        ]
        parts = [facts for _, facts in group]
        if one.op in DECIDING:
            parts = [facts for b, facts in group if b[one.argument.name] == row[-1]]
            yield from ((Fact(head.predicate, row), part) for part in parts)
        elif group or one.absent is not None:
            yield Fact(head.predicate, row), frozenset().union(*parts)


def least_sizes(mirror: Mirror, steps: dict[Fact, set[frozenset[Fact]]]) -> dict[Fact, int]:
    """The sizes of the smallest proofs, by going round until none becomes smaller."""
    sizes = {
        Fact(name, row): 1
        for name, predicate in mirror.program.predicates.items()
        if predicate.extensional
        for row in naive.rows_of(mirror.state[name])
    }
    while True:
        better = {
            fact: least
            for fact, some in steps.items()
            for least in [
                min(
                    (1 + sum(sizes[f] for f in one) for one in some if sizes.keys() >= one),
                    default=None,
                )
            ]
            if least is not None and least < sizes.get(fact, least + 1)
        }
        if not better:
            return sizes
        sizes |= better


def compare(mirror: Mirror) -> None:
    """Every row of every view has the derivations of the truth, and the smallest proof."""
    asker = mirror.workspace._asker(None)
    steps = steps_of(mirror)
    sizes = least_sizes(mirror, steps)
    rows = [
        Fact(name, row)
        for name, predicate in program_of(mirror).predicates.items()
        if not predicate.extensional
        for row in naive.rows_of(mirror.state[name])
    ]
    found = asker.derivations.steps(rows)
    for fact in rows:
        assert {frozenset(step.facts) for step in found[fact]} == steps[fact], fact
        proved = asker.prove(fact)
        assert size_of(fact, proved.steps[0], proved.chosen) == sizes[fact], fact


def size_of(fact: Fact, step: Step | None, chosen: dict[Fact, Step]) -> int:
    """The size of a proof, whose depth ends: what is circular would not."""
    below = () if step is None else step.facts
    return 1 + sum(size_of(f, chosen.get(f), chosen) for f in below)


@settings(max_examples=times(8))
@given(cases(FULL, count_max=1))
def test_rows_have_the_derivations_of_the_truth(case: tuple) -> None:
    text, transactions = case
    mirror = Mirror(":memory:", text)
    for edits in transactions:
        mirror.change(edits)
    compare(mirror)
    mirror.close()


@pytest.mark.parametrize("given", [[], [("f", (0, 0), True)], [("f", (0, 1), True)]])
@pytest.mark.parametrize(
    "rule",
    [
        "v[x] = m <- agg<<m = count()>> e(0, _), a(x), x = 0, (f[x] = x ; x = 0).",
        "v[x] = m <- agg<<m = count()>> e(0, _), a(x), x = 0, (x = 0 ; f[x] = x).",
        "v[x] = m <- agg<<m = max(y)>> e(x, y), (f[x] = y ; a(x)).",
        "v[x] = m <- agg<<m = sum(y)>> e(x, y), (a(x) ; f[x] = y).",
    ],
)
def test_an_aggregate_has_the_facts_of_all_alternatives_that_hold(rule: str, given: list) -> None:
    mirror = Mirror(
        ":memory:", "a(x) -> int(x). e(x, y) -> int(x), int(y). f[x] = y -> int(x), int(y). " + rule
    )
    mirror.change([("a", (0,), True), ("e", (0, 1), True), *given])
    compare(mirror)
    mirror.close()


@pytest.mark.parametrize("seed", range(times(6)))
def test_rows_of_recursion_have_the_derivations_of_the_truth(seed: int) -> None:
    random = Random(seed)
    choices = (recursive_programs.plain, recursive_programs.recursion)
    mirror = Mirror(
        ":memory:", recursive_programs.DECLARATIONS + "\n".join(random.choice(choices)(random))
    )
    mirror.change(recursive_programs.load(random)[:14])
    compare(mirror)
    mirror.close()


@pytest.mark.parametrize("seed", range(6))
def test_ranks_lead_down_where_facts_are_too_many(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "FACTS_MAX", 0)
    random = Random(seed)
    mirror = Mirror(
        ":memory:", recursive_programs.DECLARATIONS + "\n".join(recursive_programs.plain(random))
    )
    mirror.change(recursive_programs.load(random))
    for _ in range(4):
        mirror.change(recursive_programs.change(random, mirror.state))
    asker, steps = mirror.workspace._asker(None), steps_of(mirror)
    for row in naive.rows_of(mirror.state["p0"]):
        proved = asker.prove(Fact("p0", row))
        assert not proved.smallest and size_of(proved.fact, proved.steps[0], proved.chosen) > 1
        assert all(frozenset(step.facts) in steps[fact] for fact, step in proved.chosen.items())
    mirror.close()


MONOTONE = Features(
    functions=False, arithmetic=False, aggregates=False, disjunction=True, views_max=2
)


@settings(max_examples=times(4))
@given(cases(MONOTONE, count_max=0))
def test_insertions_are_the_smallest_that_bring_a_row(case: tuple) -> None:
    text, (load,) = case
    assert_smallest(text, load[:8])


@pytest.mark.parametrize(
    "body",
    [
        "r(x, 3), r(u, z), a(u), r(_, y)",  # one row serves three atoms
        "r(u, x), r(u, y), x != y",  # no row serves both
        "r(u, x), r(x, u), r(y, y)",
    ],
)
def test_an_insertion_serves_each_atom_that_it_may(body: str) -> None:
    declared = "a(x) -> int(x).  r(x, y) -> int(x), int(y)."
    assert_smallest(f"{declared}  v(u) <- {body}.", [("a", (1,), True)])


def assert_smallest(text: str, load: list[Edit]) -> None:
    """The insertions that are found for rows of the last view bring them, and no fewer would."""
    mirror = Mirror(":memory:", text)
    mirror.change(load)
    name = [n for n in mirror.program.predicates if n.startswith("v")][-1]
    width = len(mirror.program.predicates[name].types)
    absent = [row for row in product(range(2), repeat=width) if row not in mirror.state[name]]
    for row in absent[:2]:
        missing = Missing(mirror.workspace._asker(None).derivations)
        found = missing.explain(Atom(name, tuple(Const(v, "int64") for v in row)))
        truth = smallest(mirror, name, row)
        ground = [some for some in found if not any(variables(atom) for atom in some)]
        assert all(derives(mirror, [fact_of(atom) for atom in some], name, row) for some in ground)
        if truth and missing.complete:
            size = len(truth[0])
            assert min(map(len, found)) == size and all(len(some) == size for some in ground), (
                found,
                truth,
            )
            if all(len(some) == size for some in found):
                assert all(any(is_instance(one, some) for some in found) for one in truth), (
                    text,
                    row,
                    found,
                    truth,
                )
    mirror.close()


def fact_of(atom: Atom) -> Fact:
    return Fact(atom.predicate, tuple(term.value for term in atom.terms))


def parsed(text: str) -> Fact:
    name, _, rest = text.partition("(")
    return Fact(name, tuple(map(int, rest.removesuffix(")").split(", "))))


def is_instance(facts: tuple[Fact, ...], pattern: frozenset[Atom]) -> bool:
    """Whether facts are the atoms of a set with some values for its variables."""
    return any(unify(atoms, facts) for atoms in permutations(pattern))


def unify(atoms: tuple[Atom, ...], facts: tuple[Fact, ...]) -> bool:
    binding: dict = {}
    for atom, fact in zip(atoms, facts, strict=False):
        found = naive.unified(atom, fact.row, binding) if atom.predicate == fact.predicate else None
        if found is None:
            return False
        binding = found
    return len(atoms) == len(facts)


def derives(mirror: Mirror, facts: list[Fact], name: str, row: tuple) -> bool:
    state = {n: set(rows) for n, rows in mirror.state.items()}
    for fact in facts:
        state[fact.predicate].add(fact.row)
    return row in naive.evaluate(mirror.program, state)[name]


def smallest(mirror: Mirror, name: str, row: tuple) -> list[tuple[Fact, ...]]:
    """The smallest sets of one or two insertions that bring a row; none if they are too many to
    try.
    """
    read = {
        a.predicate
        for rule in mirror.program.rules
        for d in rule.body
        for a in d
        if isinstance(a, Atom)
    }
    new = [
        Fact(n, values)
        for n in read
        if mirror.program.predicates[n].extensional
        for values in product(range(4), repeat=len(mirror.program.predicates[n].types))
        if values not in mirror.state[n]
    ]
    for size in (1, 2) if len(new) < 20 else (1,):
        found = [some for some in combinations(new, size) if derives(mirror, [*some], name, row)]
        if found:
            return found
    return []


@settings(max_examples=times(8))
@given(cases(FULL, count_max=3, size_max=3))
def test_every_changed_row_has_edits_responsible(case: tuple) -> None:
    """They are among the edits made, and where rules are monotone they alone bring the row."""
    text, transactions = case
    mirror = Mirror(":memory:", text)
    views = [n for n, p in mirror.program.predicates.items() if not p.extensional and "$" not in n]
    for edits in transactions:
        before, version = mirror.state, mirror.workspace.store.version
        mirror.change(edits)
        if mirror.workspace.store.version == version:
            continue
        made = {
            (inserted, Fact(n, row))
            for n, predicate in mirror.program.predicates.items()
            if predicate.extensional
            for inserted, rows, others in (
                (True, mirror.state[n], before[n]),
                (False, before[n], mirror.state[n]),
            )
            for row in {*naive.rows_of(rows)} - {*naive.rows_of(others)}
        }
        asker = mirror.workspace._asker(None)
        texts = {f"{'+' if inserted else '-'}{asker.text(fact)}" for inserted, fact in made}
        for view in views:
            changes = mirror.workspace.why_changed(view, version)
            assert len(changes) == len(
                {*naive.rows_of(before[view])} ^ {*naive.rows_of(mirror.state[view])}
            )
            assert all(one.edits and texts.issuperset(one.edits) for one in changes), (
                text,
                view,
                changes,
            )
    mirror.close()


@settings(max_examples=times(6))
@given(cases(MONOTONE, count_max=1, size_max=5))
def test_the_edits_responsible_suffice_without_negation(case: tuple) -> None:
    text, transactions = case
    mirror = Mirror(":memory:", text)
    mirror.change(transactions[0])
    before, version = mirror.state, mirror.workspace.store.version
    mirror.change(transactions[-1])
    sides = {True: before, False: mirror.state}
    for view in [
        n for n, p in mirror.program.predicates.items() if not p.extensional and "$" not in n
    ]:
        for one in (
            mirror.workspace.why_changed(view, version)
            if mirror.workspace.store.version > version
            else ()
        ):
            state = {n: set(rows) for n, rows in sides[one.inserted].items()}
            for edit in one.edits:
                assert edit[0] == ("+" if one.inserted else "-")
                state[parsed(edit[1:]).predicate].add(parsed(edit[1:]).row)
            assert one.row in naive.evaluate(mirror.program, state)[view], one
    mirror.close()


# -- in words


def test_a_proof_is_told_with_versions(graph: ivm.Workspace) -> None:
    assert (
        str(graph.why("tri(1, 2, 3)"))
        == """\
tri(1, 2, 3) is in version 3
by tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z), !cut(x).
├─ edge(1, 2)   since version 2
├─ edge(2, 3)   since version 2
├─ edge(1, 3)   since version 3
└─ !cut(1)"""
    )
    assert (
        str(graph.why("reach", (1, 4)))
        == """\
reach(1, 4) is in version 3
by reach(x, z) <- reach(x, y), edge(y, z).
├─ reach(1, 3)   by reach(x, y) <- edge(x, y).
│  └─ edge(1, 3)   since version 3
└─ edge(3, 4)   since version 3"""
    )


def test_a_function_is_asked_by_its_key_and_of_an_older_version(graph: ivm.Workspace) -> None:
    assert graph.why("degree[1]").fact == "degree[1] = 2"
    assert graph.why("degree[1]", version=2).fact == "degree[1] = 1"
    assert graph.why("tri(_, 2, _)").fact == "tri(1, 2, 3)"
    wrong = graph.why("degree[1] = 7")
    assert not wrong.holds and wrong.data["instead"] == ["degree[1] = 2"]


def test_what_is_missing_is_told_with_its_place(graph: ivm.Workspace) -> None:
    assert (
        str(graph.why("tri(2, 3, 4)"))
        == """\
tri(2, 3, 4) is not in version 3
tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z), !cut(x).
   fails at edge(2, 4)   where x = 2, y = 3, z = 4
this would bring it:
   +edge(2, 4)."""
    )
    graph.exec("+cut(1).")
    failed = graph.why("tri(1, 2, 3)").data
    assert failed["failures"][0]["fails"] == ["!cut(1)"] and not failed["insertions"]


@pytest.mark.parametrize(
    ("fact", "kept"),
    [
        ("busy(1)", False),  # 3 edges are one too few
        ("busy(2)", True),
        ("poor(1)", False),  # any edge makes the sum greater
        ("alone(5)", False),  # what is inserted is what the negation excludes
        ("far(7)", True),  # by a value that no row has
        ("sold(3)", True),
        ("sold(2)", False),  # a constraint has the last word
    ],
)
def test_what_is_suggested_brings_the_row(fact: str, kept: bool) -> None:
    with ivm.open(":memory:") as ws:
        ws.install("""edge(x, y) -> int(x), int(y).  price[k] = n -> int(k), int(n).
            degree[x] = n <- agg<<n = count()>> edge(x, _).  busy(x) <- degree[x] = n, n >= 4.
            total[x] = s <- agg<<s = sum(y)>> edge(x, y), y > 0.  poor(x) <- total[x] = s, s < 2.
            alone(x) <- edge(x, _), !edge(x, _).  far(x) <- edge(x, y), y > 5000, y < 5002.
            sold(k) <- price[k] = n, n > 9.  price[k] = n -> n < k * 4.""")
        ws.exec("+edge(1, 1). +edge(1, 2). +edge(2, 1). +edge(2, 2). +edge(2, 3).")
        found = ws.why(fact).data
        assert bool(found["insertions"]) == kept and (kept or not found["complete"])
        tried = [
            " ".join(f"{re.sub('_1|y', '5001', text).replace('n', '11')}." for text in some)
            for some in found["insertions"]
        ]
        assert all(ws.preview(text).changes[fact.partition("(")[0]].num_rows for text in tried)


def test_a_row_that_all_parts_of_a_view_of_sql_lack_is_told_once(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.sql("CREATE TABLE room (k TEXT PRIMARY KEY, house TEXT NOT NULL, seats BIGINT)")
        ws.sql("CREATE TABLE used (k BIGINT PRIMARY KEY, room TEXT NOT NULL, day BIGINT NOT NULL)")
        ws.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT house, count(*) AS n, min(day) AS d, max(day) AS "
            "e "
            "FROM used JOIN room ON used.room = room.k GROUP BY house"
        )
        ws.sql("INSERT INTO room VALUES ('a', 'north', 3), ('b', 'south', 4)")
        ws.sql("INSERT INTO used VALUES (1, 'a', 5), (2, 'b', 6), (3, 'c', 6)")
        missing = ws.why('v("east")')
    assert sorted(missing.data["insertions"]) == [
        ['+room["c"] = ("east", _1)'],
        ['^room["a"] = ("east", _1)'],
        ['^room["b"] = ("east", _1)'],
    ]
    assert str(missing).count("CREATE VIEW") == 1


def test_a_condition_that_fails_is_told_and_a_value_that_is_taken_gives_way(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install("""owner[k] = (who, town) -> int(k), string(who), string(town).
            n[k, w] = n -> int(k), int(w), int(n).
            total[w] = s <- agg<<s = sum(n)>> n[_, w] = n. rich(who) <- total[w] = s, s > 10, owner[w] = (who, _).
            lives(k, t) <- n[k, _] = _, owner[k] = (_, t).""")
        ws.exec(
            '+owner[1] = ("ada", "ulm"). +owner[2] = ("bob", "bonn"). +n[1, 1] = 4. +n[2, 1] = 3.'
        )
        assert (
            '   fails at 7 > 10   where w = 1, s = 7, who = "ada"'
            in str(ws.why('rich("ada")')).splitlines()
        )
        taken, free = (ws.why(f'lives({k}, "rom")') for k in (1, 3))
        assert taken.data["insertions"] == [['^owner[1] = (_3, "rom")']]
        assert free.data["insertions"] == [["+n[3, _1] = _2", '+owner[3] = (_3, "rom")']]
        assert str(free).endswith("\n   with values of _1, _2, _3 that fit the rules")
        ws.exec('^owner[1] = ("x", "rom").')
        assert ws.why('lives(1, "rom")').holds


def test_a_binding_of_several_alternatives_is_told_once(graph: ivm.Workspace) -> None:
    graph.install(
        "few[x] = n <- agg<<n = count()>> edge(x, y), (y < 3 ; y < 4, x = 1 ; y = 4).", "few"
    )
    assert [*graph["few"]] == [(1, 2), (3, 1)]
    assert str(graph.why("few", (1, 2))).count("edge(1, ") == 2
    assert "y < 4" in str(graph.why("few", (2, 1)))


def test_a_row_that_came_back_has_its_newest_version(graph: ivm.Workspace) -> None:
    graph.exec("-edge(1, 2).")
    version = graph.exec("+edge(1, 2).")
    assert graph.why("edge(1, 2)").data["since"] == version
    with graph.store.transaction() as txn:
        txn["cut"].insert([(9,)])
    graph.store.vacuum(keep_versions=1)
    assert graph.why("edge(1, 2)").data["since"] is None


def test_rows_of_sql_are_told_by_their_statements() -> None:
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE paid (id INT PRIMARY KEY, who TEXT NOT NULL, cents INT NOT NULL)")
        ws.sql("INSERT INTO paid VALUES (1, 'ada', 350), (2, 'bob', 400), (3, 'ada', 100)")
        ws.sql(
            "CREATE MATERIALIZED VIEW total AS SELECT who, sum(cents) AS t FROM paid GROUP BY who"
        )
        ws.sql("CREATE MATERIALIZED VIEW names AS SELECT who FROM paid")
        told = str(ws.why("SELECT * FROM total WHERE who = 'ada'"))
        assert "by CREATE VIEW total AS SELECT who, SUM(cents) AS t FROM paid GROUP BY who" in told
        assert (
            'paid[1] = ("ada", 350)' in told
            and 'paid[3] = ("ada", 100)' in told
            and "part" not in told
        )
        assert ws.why("names", {"who": "ada"}).fact == 'names("ada") (2 equal rows)'
        missing = str(ws.why("total", ("eve",)))
        assert missing.count("CREATE VIEW total") == 1 and '+paid[_1] = ("eve", ' in missing
        version = ws.store.version
        ws.sql("UPDATE paid SET cents = 500 WHERE id = 2")
        edits = {edit for one in ws.why_changed("total", version) for edit in one.edits}
        assert edits == {'-paid[2] = ("bob", 400)', '+paid[2] = ("bob", 500)'}


def test_mistakes_are_named(graph: ivm.Workspace) -> None:
    with pytest.raises(UnknownViewError, match="did you mean tri"):
        graph.why("trii(1, 2, 3)")
    with pytest.raises(EditError, match="columns x, y, z, and 4 values"):
        graph.why("tri(1, 2, 3, 4)")
    with pytest.raises(EditError, match="by constants"):
        graph.why("tri(1 + 0, 2, 3)")
    with pytest.raises(EditError, match="no column 'w'; it has x, y, z"):
        graph.why("tri", {"w": 1})
    with pytest.raises(ivm.IvmError, match="SELECT"):
        graph.why("SELECT x FROM tri")


def test_a_proof_is_shown_as_deep_as_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ivm.why.why.DEPTH", 5)
    with ivm.open(":memory:", threads=1) as ws:
        ws.install(
            "edge(x, y) -> int(x), int(y). path(x, y) <- edge(x, y). path(x, z) <- path(x, y), "
            "edge(y, z)."
        )
        ws.insert("edge", [(n, n + 1) for n in range(20)])
        shown = str(ws.why("path", (0, 20)))
        assert (
            shown.count("path(0, ") < 30
            and "path(0, 15)   (ask for it, as its proof goes deeper)" in shown
        )
        assert "deeper" not in str(ws.why("path", (0, 5)))


CHAINS = {
    "steps": "p(x, y) <- edge(x, y). p(x, z) <- p(x, y), edge(y, z).",
    "halves": "p(x, y) <- edge(x, y). p(x, z) <- p(x, y), p(y, z), y = z - 1.",
    "sums": "p(x, y) <- edge(x, y). p(x, z) <- p(x, y), z = y + 1, edge(y, z), !edge(z, x).",
    "through a constant": "p(x, y) <- edge(x, y), x = 0. p(0, z) <- p(0, y), edge(y, z).",
}


@pytest.mark.parametrize("rules", CHAINS.values(), ids=CHAINS)
def test_a_long_chain_is_asked_for_by_few_questions(rules, monkeypatch):
    """Their number is that of the rules, and of batches of facts, and not of the chain's links."""
    asked, understand = [], derivations.understand
    monkeypatch.setattr(derivations, "understand", lambda *a: asked.append(1) or understand(*a))
    counts = []
    for n in (10, 60):
        with ivm.open(":memory:") as ws:
            ws.install(f"edge(x, y) -> int(x), int(y). {rules} q(x, y) <- p(x, y), edge(_, y).")
            with ws.transaction() as txn:
                txn.insert("edge", [(i, i + 1) for i in range(n)])
            asked.clear()
            for fact in (f"p(0, {n})", f"q(0, {n})"):
                proved = ws.why(fact)
                assert proved.smallest and proved.derivations == 1, fact
            counts.append(len(asked))
    assert counts[0] == counts[1] < 20
