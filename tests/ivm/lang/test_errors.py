"""Every error of the language: its class, its place as file:line:column, and the sentence with
the remedy.
"""

import pickle

import pytest

from ivm import errors
from ivm.lang.program import NOTHING
from ivm.rules.compile import compile, query
from pagestore import register_operator
from tests.support.programs.recursive_programs import semilattice

register_operator("partial", lambda a, b: a, 0)
DECLARATIONS = """q(x) -> int(x).  edge(x, y) -> int(x), int(y).  born[x] = d -> int(x), date(d).
price[i] = p -> string(i), decimal(p).  mass[x] = m -> int(x), float(m).  flag[x] = b -> int(x), bool(b).
rate[i] = p -> string(i), decimal(10, 4)(p).  tag(x, s) -> int(x), string(s).
"""


def refused(text: str, error: type[errors.RuleError], at: str, says: str) -> None:
    """Compiling raises exactly `error`, at line:column of `text`, with `says` in its message."""
    known = compile(DECLARATIONS)
    with pytest.raises(errors.RuleError) as caught:
        compile(text, known, source="my.logic")
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"my.logic:{at}: ")
    assert says in str(caught.value)
    said, *shown = str(caught.value).split("\n")
    if error is not errors.RuleSyntaxError:
        assert shown == []
        return
    line, column = map(int, at.split(":"))
    assert says in said and shown == [
        f"  {text.split(chr(10))[line - 1].rstrip()}",
        f"  {' ' * (column - 1)}^",
    ]


def test_a_caret_stands_under_its_place_in_any_line():
    """Of long lines a part is shown, and what is not a letter is a space."""
    for before in ("b", "x" * 400, "\t\x07", "ä" * 60):
        for behind in ("", " " + "y" * 400):
            text = f"p(x) <- q(x), q(`{before}`) {'q(x)'}{behind}."
            with pytest.raises(errors.RuleSyntaxError) as caught:
                compile(text, compile(DECLARATIONS))
            error = pickle.loads(pickle.dumps(caught.value))
            _, line, caret = error.lines
            assert (
                line[len(caret) - 1 :].startswith("q(x)")
                and len(line) <= errors.SHOWN
                and "\x07" not in str(error)
            )
            assert str(error) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("p(x) <- q(x", "1:12", "expected `)`, `,`, `[` or arithmetic before the text ends"),
        ("p(x) <- q(x)", "1:13", "expected `,`, `.` or `;` before the text ends"),
        ("p(x) <- q(x) edge(x, _).", "1:14", "expected `,`, `.` or `;` but found `edge`"),
        ("p(x) <- edge(x y).", "1:16", "but found `y`"),
        ("p(x) <- ,", "1:9", "expected `.`, `agg<<`, a comparison or an atom but found `,`"),
        ("p(x) <- q(x), .", "1:15", "expected a comparison or an atom but found `.`"),
        ("p(x)\n<- q(x)),\n q(x).", "2:8", "but found `)`"),
        ("x", "1:2", "expected `(`, `=`, `[` or a comparison before the text ends"),
        (".", "1:1", "expected a rule, a declaration or an edit but found `.`"),
        ("p[x] <- q(x).", "1:1", "a function in the head of a rule has a value, as in f[x] = y"),
        ("p(x) -> int x.", "1:13", "expected `(`, `=`, `[` or a comparison but found `x`"),
        ("d[x] = n <- agg<<n = count() q(x).", "1:30", "expected `,` or `>>` but found `q`"),
        ("p(x) <- q(x), x = 'a'.", "1:19", "strings are written in double quotes"),
        ('p(x) <- q(x), x = "a.\n', "1:19", "does not end on its line"),
        ('p(x) <- q(x), x = "a\\q".', "1:19", "unknown escape"),
        ('p(x) <- q(x), x = "\\ud800".', "1:19", "unknown escape"),
        ("p(x) <- q(x), x = #2013-02-30#.", "1:19", "#2013-02-30# is not a date or timestamp"),
        ("p(x) <- q(x), x = #2013-01-31 10:00+01:00#.", "1:19", "has a time zone"),
        ("p(x) <- q(x), x = #2013.", "1:19", "a date is written between two #"),
        ("p(x) <- q(x). /* no end", "1:15", "this comment is not closed"),
        ("p(x) :- q(x).", "1:6", "`:-` is written `<-`"),
        ("p(x) <- q(x), x == 3.", "1:17", "`==` is written `=`"),
        ("p(x) <- q(x), x <> 3.", "1:17", "`<>` is written `!=`"),
        ("p(x) <- q(x) && r(x).", "1:14", "`&&` is written `,`"),
        ("p(x) <- q(x) || r(x).", "1:14", "`||` is written `;`"),
        ("-- note\np(x) <- q(x).", "1:1", "a comment begins with `//`"),
        ("p(x) <- q(x).\n# note\n", "2:1", "a comment begins with `//`"),
        ("p(x) <- q(x), y = abs(x).", "1:19", "a function takes brackets: write abs[...]"),
        ("select x from q", "1:1", "a query is a rule, as in q(x) <- edge(x, y)."),
        ("q(x). Select x from q", "1:7", "a word of SQL"),
        (
            "q(x: int).",
            "1:4",
            "the type of a column is written after an arrow, as in p(x) -> int(x).",
        ),
        ("p(x) <- not q(x).", "1:9", "`not` is written `!`"),
        ("p(x) <- q(x), NOT r(x).", "1:15", "`NOT` is written `!`"),
        ("p(x) <- q(x), x = &.", "1:19", "`&` has no meaning here"),
        ("+edge(1, x).", "1:10", "an edit holds constants only"),
    ],
)
def test_syntax(text, at, says):
    refused(text, errors.RuleSyntaxError, at, says)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        (
            "p(x) <- q(x), edgy(x, _).",
            "1:15",
            "nothing declares or derives edgy: did you mean edge?",
        ),
        ("p(x) <- unheard(x).", "1:9", "declare it, as in unheard(x) -> int(x)."),
        ("p(x) <- q(x), !unheard(x).", "1:16", "nothing declares or derives unheard"),
        ("+unheard(1).", "1:2", "nothing declares or derives unheard"),
    ],
)
def test_unknown_predicate(text, at, says):
    refused(text, errors.UnknownPredicateError, at, says)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("p(x) <- edge(x).", "1:9", "edge takes 2 arguments, not 1: edge(x, y)"),
        ("p(x) <- q(x), !edge(x).", "1:16", "edge takes 2 arguments"),
        ("p(x) <- edge[x] = 3.", "1:9", "edge is a relation: write edge(x, y)"),
        ("p(x) <- born(x).", "1:9", "born is a function: write born[x] = d"),
        ("p(x) <- q(x). p(x, y) <- edge(x, y).", "1:15", "p takes 1 argument, not 2: p(x)"),
        ("p(x) <- q(x). p[x] = y <- edge(x, y).", "1:15", "p is a relation"),
        ("h(x), h(x, x) <- q(x).", "1:7", "h takes 1 argument, not 2"),
        ("u(x) <- p(x, x). p(x) <- q(x).", "1:9", "p takes 1 argument, not 2"),
        ("+edge(1).", "1:2", "edge takes 2 arguments"),
        ("+born[1].", "1:2", "born is a function: write born[x] = d"),
        ("-born[1, 2].", "1:2", "born takes 1 argument, not 2"),
        ("^edge(1, 2).", "1:1", "^ sets a function's value, and edge is a relation: write +"),
    ],
)
def test_arity(text, at, says):
    refused(text, errors.ArityError, at, says)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        # joins
        ("p(x) <- price[x] = _, q(x).", "1:25", "x is string elsewhere in the rule but int64 in q"),
        (
            "p(i) <- price[i] = p, rate[i] = p.",
            "1:33",
            "a variable has one scale: use two variables, and compare them",
        ),
        # literals
        ('p(x) <- edge(x, "a").', "1:17", '"a" is of type string, where int64 is wanted'),
        ("p(x) <- edge(x, 1.5).", "1:17", "1.5 is of type decimal(18,1), where int64 is wanted"),
        (
            "p(i) <- price[i] = 3.555.",
            "1:20",
            "3.555 has more digits after the point than decimal(18,2)",
        ),
        (
            "p(i) <- price[i] = 12345678901234567.",
            "1:20",
            "more digits before the point than decimal(18,2)",
        ),
        (
            "p(i) <- price[i] = 3.5e0.",
            "1:20",
            "3.5 is of type float64, where decimal(18,2) is wanted",
        ),
        (
            "p(x) <- q(x), x = 9223372036854775808.",
            "1:19",
            "9223372036854775808 does not fit 64 bits",
        ),
        ("p(x) <- mass[x] > 1e999.", "1:19", "1e999 is beyond the range of float64"),
        ("p(x) <- mass[x] > 1" + 308 * "9" + ".", "1:19", "9 is beyond the range of float64"),
        ("p(x) <- mass[x] > 1" + 308 * "9" + ".5.", "1:19", "9.5 is beyond the range of float64"),
        (
            "p(x) <- q(x), x < " + 5000 * "9" + ".",
            "1:19",
            "a number of 5,000 digits: no type holds it",
        ),
        ("p(x) <- flag[x] = 1.", "1:19", "1 is of type int64, where bool is wanted"),
        ("+mass[true] = 1.0.", "1:7", "true is of type bool, where int64 is wanted"),
        # comparisons
        ("p(x) <- flag[x] < true.", "1:9", "`<` is not evaluated over bool, only = and != are"),
        (
            "p(x) <- q(x), mass[x] < x.",
            "1:15",
            "float64 < int64: the sides of a comparison need one type",
        ),
        (
            "p(x) <- born[x] = d, d = x.",
            "1:22",
            "date = int64: the sides of a comparison need one type",
        ),
        # arithmetic
        (
            "p(y) <- mass[x] = m, y = m + x.",
            "1:28",
            "there is no float64 + int64: numbers do not convert",
        ),
        ("p(y) <- price[i] = _, y = i * i.", "1:29", "there is no string * string"),
        ("p(y) <- born[x] = d, y = d * 2.", "1:28", "there is no date * int64"),
        (
            "p(y) <- rate[i] = p, y = p * p * p * p * p.",
            "1:40",
            "there is no decimal(18,16) * decimal(10,4)",
        ),
        ("p(x) <- q(x), x > 1 / 2.5.", "1:15", "int64 > float64"),
        (
            "p(i) <- price[i] > 1.005 * 1.",
            "1:26",
            "1.005 has more digits after the point than decimal(18,2)",
        ),
        (
            "p(x) <- q(x), x > 9223372036854775807 + 1.",
            "1:39",
            "9223372036854775808 does not fit 64 bits",
        ),
        # views with several rules
        (
            "p(x) <- q(x). p(i) <- price[i] = _.",
            "1:17",
            "column x of p is string here, but int64 by the rule at",
        ),
        # declarations
        ("z(x) -> string[8](x).", "1:9", "string[8] is not a type: there are int, uint64, float"),
        (
            "z(x) -> decimal(39, 2)(x).",
            "1:9",
            "decimal(39,2) is not kept: decimal(p, s) needs 1 <= p <= 38",
        ),
        ("z(x) -> int(y).", "1:9", "y is not a column of z, which has x"),
        ("z(x, y) -> int(x).", "1:1", "column y of z has no type: add int(y)"),
        (
            "z(1) -> int(x).",
            "1:3",
            "a declaration names its columns, as in z(x, y) -> int(x), int(y).",
        ),
    ],
)
def test_types(text, at, says):
    refused(text, errors.RuleTypeError, at, says)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        (
            "p(y) <- q(x).",
            "1:3",
            "y is not bound: each disjunct needs a positive atom that holds it",
        ),
        ("p(x, y) <- q(x) ; edge(x, y).", "1:6", "y is not bound"),
        ("p(x) <- q(x), y < 3.", "1:15", "a comparison binds only by `variable = term`"),
        ("p(x) <- q(x), y = z + 1, z = y - 1.", "1:15", "y is not bound"),
        ("p(x) <- q(x), x = y + 1.", "1:19", "y is not bound"),
        ("p(x) <- q(x), !edge(y, z), !q(y).", "1:21", "y is not bound: it occurs in two negations"),
        (
            "p(x, y) <- x = 3.",
            "1:6",
            "y is not bound: each disjunct needs a positive atom that holds it",
        ),
        (
            "p(x) <- q(x) ; y = 3.",
            "1:3",
            "x is not bound: each disjunct needs a positive atom that holds it",
        ),
        (
            "p(x) <- !q(x).",
            "1:12",
            "x is not bound: a positive atom outside the negation must bind it",
        ),
        ("p(x) <- q(y), !q(x).", "1:18", "a positive atom outside the negation must bind it"),
        (
            "p(x) <- q(x), !edge(x, y), !edge(y, x).",
            "1:24",
            "y is not bound: it occurs in two negations",
        ),
        ("p(x) <- q(x), !(edge(x, y), z < y).", "1:29", "z is not bound"),
        ("p(x) <- q(x), !(!edge(x, y), !edge(y, x)).", "1:26", "y is not bound"),
        ("p(x) <- (edge(x, y) ; q(x)), !edge(y, y).", "1:36", "y is not bound"),
        ("p(_) <- q(x).", "1:3", "`_` in a head stands for no value"),
        ("p(x) <- q(x), x = _.", "1:19", "`_` may only be an argument of an atom"),
        ("d[x] = n <- agg<<n = sum(y)>> q(x).", "1:26", "y is not bound"),
    ],
)
def test_safety(text, at, says):
    refused(text, errors.SafetyError, at, says)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("p(x) <- p(x).", "1:1", "p has no row to begin with"),
        (
            "p(x) <- q(x), !p(x).",
            "1:16",
            "recursion through a negation has no meaning: p negates p;",
        ),
        (
            "p(x) <- q(x), !s(x).\ns(x) <- t(x). t(x) <- p(x).",
            "1:16",
            "p negates s, which reads t, which reads p; negate only views",
        ),
        (
            "d[x] = n <- agg<<n = count()>> (q(x) ; d[x] = 1).",
            "1:1",
            "through count has no meaning: d aggregates d;",
        ),
        ("u(x) <- q(x).\nv(x) <- w(x).\nh(x), w(x) <- v(x).", "2:1", "v has no row to begin with"),
        (
            "d[x] = n <- agg<<n = partial(c)>> (q(x), c = 0 ; d[x] = c, edge(x, _)).",
            "1:1",
            "through partial has no meaning: d aggregates d; let partial read only views that do "
            "not read this one, or "
            "register it as a semilattice",
        ),
        (
            "d[] = n <- agg<<n = min(x)>> (q(x) ; d[] = x).",
            "1:1",
            "recursion through min needs a key",
        ),
        (
            "d[x] = n <- agg<<n = min(c)>> (q(x), c = 0 ; d[x] = c, near(x)). near(x) <- d[x] = 3.",
            "1:66",
            "takes only functions that are aggregated by min: near reads d, which reads near;",
        ),
    ],
)
def test_recursion(text, at, says):
    refused(text, errors.RecursionRefusedError, at, says)


@pytest.mark.parametrize(
    ("body", "at", "says"),
    [
        ("d[x] = e, edge(x, y), c = 3 - e", "1:1", "the result must rise with the value"),
        (
            "d[x] = e, edge(x, y), c = e * y",
            "2:23",
            "the result must only rise, or only fall, with the value",
        ),
        (
            "d[x] = e, edge(x, y), c = e + 1, e > 2",
            "2:34",
            "a value may only be bounded, by `<` or `<=`",
        ),
        (
            "d[x] = e, edge(x, y), (c = e, e >= x ; c = x, e < y)",
            "2:31",
            "a value may only be bounded, by `<` or `<=`",
        ),
        ("d[x] = e, edge(x, y), c = e + 1, e != 2", "2:34", "a value may only be bounded"),
        ("d[x] = e, d[y] = e, c = e", "2:1", "its value must be a variable of its own"),
        ("d[x] = 3, edge(x, y), c = 1", "2:1", "its value must be a variable of its own"),
        ("d[x] = e, edge(e, y), c = e", "2:16", "e decides which rows exist"),
        ("d[x] = e, edge(x, y), c = e, !q(e)", "2:30", "no value may occur in a negation"),
    ],
)
def test_recursion_through_min_is_monotone(body, at, says):
    refused(
        f"d[y] = m <- agg<<m = min(c)>> (q(y), c = 0 ; \n{body}).",
        errors.RecursionRefusedError,
        at,
        says,
    )


@pytest.mark.parametrize(
    ("body", "at", "says"),
    [
        (
            "d[x] = e, edge(x, y), c = e + 1",
            "2:23",
            "registered a value may only be passed on as it is",
        ),
        (
            "d[x] = e, edge(x, y), c = e, e < 9",
            "2:30",
            "registered a value may only be passed on as it is",
        ),
        (
            "d[x] = e, edge(x, y), e = 3, c = e",
            "2:23",
            "registered a value may only be passed on as it is",
        ),
        ("d[x] = e, edge(e, y), c = e", "2:16", "e decides which rows exist"),
        ("d[x] = e, edge(x, y), !q(e), c = e", "2:23", "no value may occur in a negation"),
    ],
)
def test_recursion_through_a_semilattice_passes_values_on(body, at, says):
    refused(
        f"d[y] = m <- agg<<m = {semilattice('unite')}(c)>> (q(y), c = 0 ; \n{body}).",
        errors.RecursionRefusedError,
        at,
        says,
    )


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        (
            "edge(x, y) -> int(x), int(y).",
            "1:1",
            "edge is declared at rules:1:18 already: use another name",
        ),
        ("z(x) -> int(x). z(y) -> int(y).", "1:17", "z is declared at my.logic:1:1 already"),
        (
            "edge(x, y) <- edge(y, x).",
            "1:1",
            "in another text: put its rules there, or derive a view of another name",
        ),
        ("z(x, x) -> int(x).", "1:1", "z has two columns named x"),
        ("z(x) -> int(x), float(x).", "1:17", "column x of z is given two types"),
        ("v(x) <- q(x). +v(1).", "1:16", "v is a view: edit the relations that its rules read"),
    ],
)
def test_redefinition(text, at, says):
    refused(text, errors.RedefinitionError, at, says)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        (
            "d[x] = n <- agg<<n = mean(m)>> mass[x] = m.",
            "1:22",
            "mean is not an aggregate: there are count, sum",
        ),
        (
            "d[x] = n <- agg<<n = sum()>> mass[x] = m.",
            "1:22",
            "sum takes one argument, as in sum(x)",
        ),
        (
            "d[x] = n, e(n) <- agg<<n = count()>> q(x).",
            "1:1",
            "one head, a function with n as its value: f[x] = n",
        ),
        ("d[x] = n, e[x] = n <- agg<<n = count()>> q(x).", "1:1", "one head"),
        ("d[n] = n <- agg<<n = count()>> q(x).", "1:1", "one head"),
        (
            "d[x] = n <- agg<<n = count()>> edge(x, n).",
            "1:18",
            "n is the result, so the body cannot use it",
        ),
        ("d[x] = n <- agg<<n = sum(m)>> mass[x] = m.", "1:22", "floats are added exactly by total"),
        ("d[x] = n <- agg<<n = total(x)>> q(x).", "1:22", "total does not take int64"),
        ("d[x] = n <- agg<<n = concat(x)>> q(x).", "1:22", "concat does not take int64"),
        (
            "d[x] = n <- agg<<n = count()>> q(x). d[x] = y <- edge(x, y).",
            "1:38",
            "join the bodies with `;`",
        ),
        (
            "d[x] = n, e[x] = n <- agg<<n = count(), m = min(y)>> edge(x, y).",
            "1:1",
            "each aggregate has one head",
        ),
        (
            "d[x] = n, d[x] = m <- agg<<n = count(), m = min(y)>> edge(x, y).",
            "1:1",
            "d is the head of two aggregates",
        ),
        (
            "d[x] = n <- agg<<n = argmin(y)>> edge(x, y).",
            "1:22",
            "what to show, then what to order by",
        ),
        (
            "d[x] = n <- agg<<n = quantile(y)>> edge(x, y).",
            "1:22",
            "its last argument is a share from 0 to 1",
        ),
        ("d[x] = n <- agg<<n = quantile(y, 1.5)>> edge(x, y).", "1:22", "a share from 0 to 1"),
        (
            "d[x] = n <- agg<<n = top(y, 3)>> edge(x, y).",
            "1:22",
            "top gives each group some rows: write (n, x) = top",
        ),
        ("d[x] = n <- agg<<(k, n) = min(y)>> edge(x, y).", "1:27", "min gives each group one row"),
        (
            "d[k, x] = n <- agg<<(k, n) = top(y, 3)>> edge(x, y).",
            "1:1",
            "k numbers the rows of a group, so it is the last",
        ),
        (
            "d[x, k] = n <- agg<<(k, n) = top(y, 0)>> edge(x, y).",
            "1:30",
            "a number of rows from 1 to 1,000,000,000,000,000",
        ),
        ("d[x] = n <- agg<<n = median(s)>> tag(x, s).", "1:22", "median does not take string"),
        ("d[x] = n <- agg<<n = rank(y)>> edge(x, y).", "1:22", "a row's rank is a count of rows"),
        ("d[x] = n <- agg<<n = concat(s, 1.5)>> tag(x, s).", "1:22", "its last argument is a text"),
    ],
)
def test_aggregates(text, at, says):
    refused(text, errors.AggregateError, at, says)


def test_a_fault_far_below_is_found_at_its_line():
    text = (
        "/* a\n comment */\n// and another\n"
        + "v(x) <- q(x).\n" * 200
        + "  w(x) <- q(x), edge(x).\n"
    )
    refused(text, errors.ArityError, "204:17", "edge takes 2 arguments")


class TestQueries:
    known = compile(DECLARATIONS + "v(x) <- q(x).")

    def test_helpers_and_the_answer(self):
        # near(x, y) <- edge(x, y) ; edge(y, x).      far(x, z) <- near(x, y), near(y, z).
        program = query(
            "near(x, y) <- edge(x, y) ; edge(y, x). far(x, z) <- near(x, y), near(y, z).",
            self.known,
        )
        assert [rule.heads[0].predicate for rule in program.rules] == ["near", "far"]
        assert program.answer == "far"

    def test_the_answer_is_last_in_the_text_not_in_the_order_of_evaluation(self):
        # b(x) <- a(x).      c(x) <- q(x).      a(x), d(x) <- q(x).
        program = query("b(x) <- a(x). c(x) <- q(x). a(x), d(x) <- q(x).", self.known)
        assert program.rules[-1].heads[0].predicate == "b"
        assert program.answer == "a"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "query:1:1: a query is a rule"),
            ("v(x) <- edge(x, _).", "query:1:1: v is installed: name the query otherwise"),
            ("a(x) <- q(x). +q(1).", "query:1:15: a query holds rules only"),
            ("b(x) -> int(x). a(x) <- b(x).", "query:1:1: a query holds rules only"),
        ],
    )
    def test_what_is_no_query(self, text, message):
        with pytest.raises(errors.RuleError, match=message):
            query(text, self.known)


def test_errors_survive_a_process_border():
    with pytest.raises(errors.SafetyError) as caught:
        compile("p(x) <- !q(x).", compile(DECLARATIONS))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.where) == (str(caught.value), caught.value.where)
    conflict = errors.FunctionConflictError("f", (1, "a"), (2, 3))
    assert str(pickle.loads(pickle.dumps(conflict))) == str(conflict)


def test_natural_second_bases():
    assert issubclass(errors.RuleError, ValueError)
    assert issubclass(errors.UnknownPredicateError, KeyError)
    assert issubclass(errors.UnknownViewError, KeyError)
    assert str(errors.UnknownViewError("no view v")) == "no view v"
    assert compile("", NOTHING).rules == ()


NINES = "9" * 5000


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        (f"p(x) <- q(x), x < {NINES}.", "1:19", "a number of 5,000 digits: no type holds it"),
        (f"p(x) <- q(x), x < -{NINES}.", "1:20", "a number of 5,000 digits"),
        (f"p(x) <- mass[x] = m, m < {NINES}.5.", "1:26", "a number of 5,002 digits"),
        (f"+q({NINES}).", "1:4", "a number of 5,000 digits"),
        (f"z(x) -> decimal({NINES}, 2)(x).", "1:17", "a number of 5,000 digits"),
        (
            f"p(x) <- q(x), x < {NINES[:900]} * {NINES[:900]}.",
            "1:920",
            "literals make a number of more than 1,000",
        ),
        (f"p(x) <- q(x), x < {NINES[:900]}.", "1:19", "9 does not fit 64 bits"),
        (f"p(x) <- mass[x] = m, m < {NINES[:400]}.", "1:26", "9 is beyond the range of float64"),
        (
            f"p(x) <- mass[x] = m, m < -{NINES[:400]}.5.",
            "1:26",
            "E+400 is beyond the range of float64",
        ),
    ],
)
def test_numbers_of_many_digits(text, at, says):
    refused(text, errors.RuleTypeError, at, says)


def test_numbers_of_many_digits_that_fit():
    known = compile(DECLARATIONS)
    wide = compile(
        f"p(x) <- mass[x] = m, m < {NINES[:300]}, x < {NINES[:900]} - {NINES[:899]}8.", known
    )
    assert [c.right.value for c in wide.rules[0].body[0][1:]] == [1e300, 1]
