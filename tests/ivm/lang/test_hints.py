"""What a text hardly means: words of other languages are refused, variables used once are named,
others are not.
"""

import re
import warnings
from functools import partial

import pytest

import ivm
from ivm.errors import RuleSyntaxError, RuleWarning
from ivm.lang.hints import hints
from pagestore_tools.cli.main import ivm as command
from tests.ivm.lang.test_docs import BLOCKS
from tests.test_habits import ROOT

STORED = """region[c] = n -> int(c), string?(n). paid[c] = b -> int(c), bool(b). day[c] = d -> int(c), date(d).
c(x) -> int(x)."""


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        workspace.install(STORED)
        with workspace.transaction() as txn:
            txn.insert("c", [(1,), (2,)])
            txn.set("region", [(1, "north"), (2, None)])
        yield workspace


@pytest.mark.parametrize(
    ("term", "remedy"),
    [
        *((word, "`!f[x] = _`") for word in ("null", "NULL", "Null", "None", "nil")),
        *((word, "write `true`") for word in ("TRUE", "True")),
        *((word, "write `false`") for word in ("FALSE", "False")),
        *(
            (word, "rules know no clock")
            for word in ("CURRENT_DATE", "current_timestamp", "SYSDATE")
        ),
        *(
            (word, "a word of SQL")
            for word in ("DEFAULT", "UNKNOWN", "NOT", "not", "IN", "EXISTS", "like")
        ),
    ],
)
@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ("q(c) <- region[c] = {}.", 21),
        ("q(c) <- c(c), !region[c] = {}.", 28),
        ("q(c) <- region[c] = v, (v = {} ; c(c)).", 29),
        ("q[c] = {} <- c(c), region[c] = _.", 8),
        ("q[c] = n <- agg<<n = max({})>> region[c] = _.", 26),
    ],
)
def test_words_of_other_languages_are_refused_as_terms(ws, term, remedy, rule, place):
    """With their place and what to write instead, at each way in; installed rules stay what they
    were.
    """
    text, version = rule.format(term), ws.store.version
    for take, source in (
        (ws.query, "query"),
        (partial(ws.install, replace=True), "main"),
        (partial(ws.install, name="x"), "x"),
    ):
        with pytest.raises(
            RuleSyntaxError,
            match=rf"^{source}:1:{place}: `{term}` is not a value in rules.*{re.escape(remedy)}",
        ):
            take(text)
    assert ws.store.version == version


@pytest.mark.parametrize(
    ("edit", "remedy"),
    [
        ("+region[3] = NULL.", "null is written as None"),
        ("^paid[3] = TRUE.", "write `true`"),
        ("+day[3] = current_date.", "rules know no clock"),
    ],
)
def test_words_of_other_languages_are_refused_in_edits(ws, edit, remedy):
    with pytest.raises(RuleSyntaxError, match=rf"^exec:1:1\d: .* {remedy}"):
        ws.exec(edit)


def test_a_variable_in_backquotes_has_any_name(ws):
    assert list(ws.query("q(`NULL`) <- c(`NULL`), region[`NULL`] = _.")) == [(1,)]


def test_rules_that_are_installed_stay_whatever_their_words(tmp_path):
    """A store of an earlier release may have them."""
    with (
        ivm.open(tmp_path / "w.pages", sync="off") as workspace,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("ivm.lang.hints.with_hints", lambda program, _: program)
        workspace.install(f"{STORED} p(c) <- region[c] = NULL.", "old")
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        workspace.exec("+c(3).")
        assert list(workspace["p"]) == []


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("p(x) <- e(x, y).", ["y"]),
        ("p(x) <- e(x, y), f[z] = w.", ["y", "z", "w"]),
        ("p(x) <- a(x), !e(x, y).", ["y"]),
        ("p(x) <- (a(x) ; e(x, y)).", ["y"]),
        ("p[x] = n <- agg<<n = count()>> e(x, y).", ["y"]),
        ("p(x) <- e(x, `Order Date`).", ["Order Date"]),
        ("p(x), q(y) <- e(x, y).", []),
        ("p(x) <- e(x, _), f[_] = _y.", []),
        ("p[x] = y <- f[x] = y.", []),
        ("p(x) <- e(x, y), f[y] = 3.", []),
        ("p(x) <- (e(x, y) ; e(y, x)).", []),
        ("p(x, y + 1) <- e(x, y).", []),
        ("p(x) <- a(x), f[x + 1] < 3.", []),
        ("p[x] = n <- agg<<n = sum(y)>> e(x, y).", []),
        ("p[x, i] = n <- agg<<(i, n) = top(y, 3)>> e(x, y).", []),
        ("c[x] = a[x] + b[x].", []),
        ("e(x, y) -> int(x), int(y). f[x] = (y, z) -> int(x), int(y), int(z).", []),
        ("+e(1, 2). ^f[1] = 3.", []),
    ],
)
def test_a_variable_that_is_used_once_is_named_with_its_place(rule, names):
    said = [str(warning) for warning in hints(rule, "rules")]
    assert [
        re.match(r"rules:1:(\d+): (.*) is used once: write `_`", text)[2] for text in said
    ] == names
    for text, name in zip(said, names, strict=True):
        assert rule[int(text.split(":")[2]) - 1 :].lstrip("`").startswith(name)


def test_a_rule_of_many_variables_that_are_used_once_has_one_warning():
    (warning,) = hints("p(x) <- e(x, a), e(x, b), e(x, c), e(x, d), e(x, f).", "rules")
    assert str(warning).startswith(
        "rules:1:14: a, b, c and 2 other variables of this rule are used once: write `_`"
    )


def test_install_and_query_warn_where_they_are_called(ws):
    for take in (ws.query, lambda text: ws.install(text, "more")):
        with pytest.warns(RuleWarning, match=r":1:19: n is used once") as caught:
            take("q(c) <- region[c]=n.")
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuleWarning)
        version = ws.store.version
        with pytest.raises(RuleWarning):
            ws.install("r(c) <- region[c] = n.", "other")
        assert ws.store.version == version


def test_commands_print_warnings(tmp_path, capsys):
    (tmp_path / "r.logiql").write_text("e(x, y) -> int(x), int(y).\np(x) <- e(x, y).")
    file = str(tmp_path / "r.pages")
    assert command(["install", file, str(tmp_path / "r.logiql")]) == 0
    assert capsys.readouterr().err.endswith(
        "ivm install: r:2:14: y is used once: write `_` where any value will do, or `_y`\n"
    )
    for _ in range(2):
        assert command(["query", file, "q(x) <- e(x, y)."]) == 0
        assert "ivm query: query:1:14: y is used once" in capsys.readouterr().err


def test_nothing_that_is_shown_to_users_warns():
    texts = [text for kind, text in BLOCKS if kind == "logiql"]
    texts += [(ROOT / "tools" / "demo" / "flights.logiql").read_text()]
    readme = (ROOT / "README.md").read_text()
    texts += re.findall(
        r"[a-z]\w*[\[(][^\n\"'<]* <- [^\n\"']*\.(?=$|[\"' ])", readme, flags=re.MULTILINE
    )
    assert len(texts) > 20
    assert [str(warning) for text in texts for warning in hints(text, "shown")] == []
