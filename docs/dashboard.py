"""Your first dashboard, as a notebook: `marimo edit docs/dashboard.py`; `python docs/dashboard.py`
runs it at once.

It asks the questions of docs/tutorial.md, then keeps two answers as views and changes what they
follow from.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def start():
    import tempfile
    from pathlib import Path

    import marimo as mo

    import ivm
    from pagestore.__main__ import pagestore

    mo.md(
        "# Your first dashboard\n\nA café has products, customers who brought others along, and "
        "sales."
    )
    return Path, ivm, mo, pagestore, tempfile


@app.cell
def files(Path, pagestore, tempfile):
    folder = tempfile.TemporaryDirectory()
    tables = {
        "products": """product,name,kind,price
1,Assam,tea,3.50
2,Sencha,tea,4.20
3,Scone,cake,2.80
4,Brownie,cake,3.10
5,Mug,china,9.00
""",
        "customers": """customer,name,town,referred
1,Ada,Leeds,
2,Bob,York,1
3,Cem,Leeds,1
4,Dora,Hull,2
5,Eve,Hull,4
""",
        "sales": """sale,day,customer,product,pieces
1,2026-03-02,1,1,2
2,2026-03-02,2,3,1
3,2026-03-02,3,2,1
4,2026-03-03,1,3,2
5,2026-03-03,4,4,4
6,2026-03-03,2,1,1
7,2026-03-04,3,2,3
8,2026-03-04,1,4,1
9,2026-03-05,2,2,2
""",
    }
    store = Path(folder.name, "shop.pages")
    for table, text in tables.items():
        csv = Path(folder.name, f"{table}.csv")
        csv.write_text(text)
        key = table.removesuffix("s")
        cast = ["--cast", "price=decimal(9,2)"] if key == "product" else []
        assert pagestore(["load", str(store), key, str(csv), "--key", key, *cast, "--quiet"]) == 0
    return folder, store


@app.cell
def opened(ivm, mo, store):
    ws = ivm.open(store)
    mo.md(
        "Each file is a relation now:\n```\n"
        + "\n".join(map(str, ws.declarations().values()))
        + "\n```"
    )
    return (ws,)


@app.cell
def questions():
    asked = {
        "How many sales and pieces?": (
            """SELECT count(*) AS sales, sum(pieces) AS pieces FROM sale""",
            """sales[] = n <- agg<<n = count()>> sale:day[_] = _.
            pieces[] = n <- agg<<n = sum(x)>> sale:pieces[_] = x.
            q(n, p) <- sales[] = n, pieces[] = p.""",
        ),
        "What did each day take?": (
            """SELECT day, sum(price * pieces) AS taken FROM sale JOIN product USING (product)
            GROUP BY day""",
            """q[day] = t <- agg<<t = sum(a)>> sale[_] = (day, _, p, n), product:price[p] = x, a = x * n.""",
        ),
        "How many pieces of each kind?": (
            """SELECT kind, sum(pieces) AS pieces FROM sale JOIN product USING (product) GROUP BY kind""",
            """q[k] = n <- agg<<n = sum(x)>> sale[_] = (_, _, p, x), product:kind[p] = k.""",
        ),
        "Who never bought anything?": (
            """SELECT name FROM customer WHERE customer NOT IN (SELECT customer FROM sale)""",
            """q(name) <- customer:name[c] = name, !sale:customer[_] = c.""",
        ),
        "Which product was never sold?": (
            """SELECT name FROM product p WHERE NOT EXISTS (SELECT 1 FROM sale s WHERE s.product = p.product)""",
            """q(name) <- product:name[p] = name, !sale:product[_] = p.""",
        ),
        "Who are the two best customers?": (
            """SELECT c.name, sum(price * pieces) AS spent FROM sale s JOIN customer c ON c.customer = s.customer
            JOIN product p ON p.product = s.product GROUP BY c.name ORDER BY spent DESC LIMIT 2""",
            """spent[c] = t <- agg<<t = sum(a)>> sale[_] = (_, c, p, n), product:price[p] = x, a = x * n.
            best[i] = b <- agg<<(i, b) = top(c, t, 2)>> spent[c] = t.
            q(name, t) <- best[_] = c, customer:name[c] = name, spent[c] = t.""",
        ),
        "What is bought by the same people?": (
            """SELECT DISTINCT a.product AS one, b.product AS other FROM sale a JOIN sale b USING (customer)
            WHERE a.product < b.product""",
            """q(a, b) <- sale[_] = (_, c, a, _), sale[_] = (_, c, b, _), a < b.""",
        ),
        "When did each customer first and last buy?": (
            """SELECT customer, min(day) AS first, max(day) AS last FROM sale GROUP BY customer""",
            """first[c] = d <- agg<<d = min(x)>> sale[_] = (x, c, _, _).
            last[c] = d <- agg<<d = max(x)>> sale[_] = (x, c, _, _).
            q(c, a, b) <- first[c] = a, last[c] = b.""",
        ),
        "How many people did each one bring, directly or not?": (
            """WITH RECURSIVE below(a, b) AS (
            SELECT referred, customer FROM customer WHERE referred IS NOT NULL
            UNION SELECT below.a, c.customer FROM below JOIN customer c ON c.referred = below.b)
            SELECT a, count(*) AS n FROM below GROUP BY a""",
            """below(a, b) <- customer:referred[b] = a.
            below(a, c) <- below(a, b), customer:referred[c] = b.
            q[a] = n <- agg<<n = count()>> below(a, _).""",
        ),
        "How large is a sale in each town, on average?": (
            """SELECT town, avg(pieces) AS mean FROM sale JOIN customer USING (customer) GROUP BY town""",
            """q[t] = m <- agg<<m = avg(n)>> sale[_] = (_, c, _, n), customer:town[c] = t.""",
        ),
        "How many pieces had been sold by then?": (
            """SELECT sale, sum(pieces) OVER (ORDER BY sale) AS so_far FROM sale""",
            """q[s] = t <- agg<<t = sum(n)>> sale:day[s] = _, sale:pieces[r] = n, r <= s.""",
        ),
        "What is the dearest product of each kind?": (
            """SELECT kind, name, price FROM product p
            WHERE price = (SELECT max(price) FROM product o WHERE o.kind = p.kind)""",
            """dearest[k] = p <- agg<<p = max(c)>> product[_] = (_, k, c).
            q(k, name, p) <- dearest[k] = p, product[_] = (name, k, p).""",
        ),
    }
    return (asked,)


@app.cell
def choice(asked, mo):
    question = mo.ui.dropdown(list(asked), value=next(iter(asked)), label="Question")
    question
    return (question,)


@app.cell
def one(asked, mo, question, ws):
    chosen = asked[question.value]
    in_sql, in_rules = (
        mo.md(f"```{kind}\n{text}\n```")
        for kind, text in zip(("sql", "logiql"), chosen, strict=True)
    )
    answer = mo.ui.table(ws.sql(chosen[0]).to_arrow().to_pylist(), selection=None)
    mo.vstack([mo.hstack([in_sql, in_rules], widths="equal"), answer])
    return


@app.cell
def all_of_them(asked, ws):
    answers = {}
    for title, (sql, rules) in asked.items():
        answers[title] = sorted(ws.sql(sql))
        assert answers[title] == sorted(ws.query(rules)), f"SQL and rules differ: {title}"
    return (answers,)


@app.cell
def views(answers, ws):
    assert answers  # the questions were about the files as they were
    ws.sql("""CREATE MATERIALIZED VIEW taken AS
        SELECT day, sum(price * pieces) AS t FROM sale JOIN product USING (product) GROUP BY day""")
    ws.install(
        """spent[c] = t <- agg<<t = sum(a)>> sale[_] = (_, c, p, n), product:price[p] = x, a = x * n.
        good(name) <- spent[c] = t, t >= 15.00, customer:name[c] = name.""",
        name="dashboard",
    )
    kept = "taken", "good"
    return (kept,)


@app.cell
def edit(kept, mo):
    assert kept
    pieces = mo.ui.slider(0, 8, value=5, label="Mugs that Bob buys on 5 March")
    pieces
    return (pieces,)


@app.cell
def dashboard(mo, pieces, ws):
    ws.sql("DELETE FROM sale WHERE sale = 10")
    if pieces.value:
        ws.sql("INSERT INTO sale VALUES (10, DATE '2026-03-05', 2, 5, ?)", [pieces.value])
    good = [name for (name,) in ws["good"]]
    why = str(ws.why('good("Bob")'))
    shown = mo.hstack(
        [
            mo.ui.table(ws["taken"].to_arrow().to_pylist(), selection=None),
            mo.md(f"Good customers: {', '.join(good)}"),
        ]
    )
    mo.vstack([shown, mo.md(f"```\n{why}\n```")])
    return good, why


@app.cell
def end(answers, good, why):
    print(f"{len(answers)} questions, the same in SQL and in rules; good: {', '.join(good)}")
    print(why)
    return


if __name__ == "__main__":
    app.run()
