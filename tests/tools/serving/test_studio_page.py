"""The page of `ivm studio` in Chromium: by keyboard alone, at two widths, light and dark, with
names that mean harm.
"""

import re
import shutil
import subprocess
import sys
from urllib.parse import urlencode

import pytest

import ivm
from tests.tools.serving.served import HOSTILE, LONG, SCRIPT

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
EXPECTED = re.compile(
    "status of 400|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED"
)  # wrong questions, a server that ended
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
VIEWS = [
    {}, {"view": "history"}, {"view": "changes", "old": "5", "new": "6"}, {"view": "rules",
    "name": "path"},
    {"view": "rules", "name": "wide"}, {"view": "rows", "name": "wide"}, {"view": "rows",
    "name": "sale"},
    {"view": "rows", "name": HOSTILE}, {"view": "rules", "name": HOSTILE}, {"view": "rows",
    "name": LONG},
    {"view": "rules", "name": LONG}, {"view": "rows", "name": SCRIPT}, {"view": SCRIPT,
    "name": "__proto__"},
    {"view": "ask", "text": f"SELECT '{SCRIPT.replace(chr(39), '')}' AS a"}, {"view": "ask",
    "text": "why path(1, 4)"},
    {"view": "ask", "text": "why path(4, 1)"}, {"view": "ask", "text": "DELETE FROM sale"},
    {"view": "ask", "text": f"SELECT {SCRIPT}"}, {"view": "rows", "name": "edge", "at": "5"},
    {"view": "branches"}, {"view": "merge", "branch": "<i>side", "into": "main"},
]  # fmt: skip
DRAWN = "body:not([aria-busy]) #view > *, body:not([aria-busy]) #problem:not(:empty)"


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright, which drives a browser, is not installed"
    )
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """`opened(url, width=...)` is a page; what it complains of fails the test."""
    contexts, complaints = [], []

    def open_page(url, width=1280, scheme="light", scale=1):
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, color_scheme=scheme, device_scale_factor=scale)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: complaints.append(said.text) if not EXPECTED.search(said.text) else None,
        )
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(url)
        page.wait_for_selector(DRAWN)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def go(page, url, route):
    """Open a view anew, and return its text."""
    page.goto("about:blank")
    page.goto(f"{url}#{urlencode(route)}")
    page.wait_for_selector(DRAWN)
    return page.inner_text("body")


CROWDED = """() => {
  const crowded = [...document.querySelectorAll("dialog[open]")].filter((one) => one.scrollWidth > one.clientWidth);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/(?<=^|\\s)[\\w,]{2,12}(?=\\s|$)/g)) {
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) crowded.push(word[0]);
    }
  }
  return crowded.map(String);
}"""  # short words that are cut into two lines, and a dialog that is wider than its window


@pytest.mark.parametrize(
    ("width", "scale"), [(1280, 1), (400, 2)], ids=["wide", "narrow, as at 200 %"]
)
def test_what_means_harm_is_text_in_every_view(shown, opened, width, scale):
    page = opened(shown.url, width, scale=scale)
    seen = ""
    for route in VIEWS:
        text = go(page, shown.url, route)
        assert not HIDDEN.search(text), route
        assert (
            page.evaluate("document.scripts.length") == 1 and page.title() == "s.pages – ivm studio"
        ), route
        assert (
            page.evaluate("document.querySelectorAll('img, iframe, b, i, object, style').length")
            == 0
        ), route
        assert page.evaluate("document.documentElement.scrollWidth") <= width, route
        assert page.evaluate(CROWDED) == [], route
        seen += text
    assert (
        SCRIPT in seen
        and r"\x1b[2J\u{202e}abc" in seen
        and r"line\nend\ttab" in seen
        and "10,000 characters" in seen
    )
    assert (
        "Why" in seen and "this would bring it" in seen and "What these edits would change" in seen
    )


def test_a_row_of_the_hostile_relation_is_shown_whole(shown, opened):
    page = opened(f"{shown.url}#{urlencode({'view': 'rows', 'name': HOSTILE})}", 400)
    page.click("tbody tr:has(.cut) button")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate(CROWDED) == []
    assert "x" * 10_000 in page.inner_text("dialog") and "no rule reads" in page.inner_text(
        "dialog"
    )


def test_an_edit_by_keyboard_alone(studio, path, opened):
    page = opened(studio.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.type("+edge(4, 5).")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=What these edits would change")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Commit":
            break
    with ivm.open(path, mode="r") as reader:
        version = reader.store.version
        page.keyboard.press("Enter")
        page.wait_for_selector(f"text=From version {version} to {version + 1}")
        assert (1, 5) in list(reader["path"])
    page.wait_for_selector(f"#status:text-is('version {version + 1}')")


def test_a_merge_by_keyboard_alone(studio, path, opened):
    """From the picture of branches over the conflicts to what the views would gain, then done."""
    with ivm.open(path) as ws:
        ws.store.branch("trial")
        for branch, cents in (("main", 9), ("trial", 8)):
            ws.on(branch).sql(f"UPDATE sale SET price = {cents} WHERE id = 0")
        heads = ws.store.branches
    page = opened(f"{studio.url}#view=branches")
    dots = page.eval_on_selector_all(
        ".picture circle", "all => all.map(one => one.cx.baseVal.value)"
    )
    assert len({*dots[:2]}) == 2 and len({*dots[1:]}) == 1
    for chosen, shown in [
        ("tr:has-text('trial') >> text=Merge into main", "text=trial and main conflict"),
        ("text=Take trial's", "text=What merging trial into main would change"),
        ("button:text-is('Merge')", f"text=From version {heads['main']} to {heads['trial'] + 1}"),
    ]:
        page.focus(chosen)
        page.keyboard.press("Enter")
        page.wait_for_selector(shown)
        if shown.startswith("text=What"):
            assert "turnover" in page.inner_text("#view")


@pytest.mark.parametrize("then", ["SELECT", "q(x <-", "nothing", "commit"])
def test_nothing_is_committed_after_an_error(studio, path, opened, then):
    page = opened(studio.url)
    page.fill("#statement", "+edge(4, 5).")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("button:text-is('Commit')")
    if then == "commit":
        with ivm.open(path) as writer:
            writer.exec("+edge(7, 8).")
        page.click("button:text-is('Commit')")
    else:
        page.fill("#statement", then)
        page.keyboard.press("Control+Enter")
    page.wait_for_selector("#problem:not(:empty)")
    page.wait_for_selector("body:not([aria-busy])")
    assert page.query_selector("button:text-is('Commit')") is None
    page.fill("#statement", "SELECT 6 * 7 AS n")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("td:text-is('42')")
    assert page.inner_text("#problem") == "" and page.evaluate(
        "!document.querySelector('#view').inert"
    )


def test_the_picture_of_what_reads_what(studio, path, opened):
    """Its boxes are links, inside of the picture and next to each other, and their names are
    texts.
    """
    name = '"<img src=x onerror=alert(1)>"'
    with ivm.open(path) as ws:
        ws.sql(
            f'CREATE TABLE {name} (k INT PRIMARY KEY); CREATE MATERIALIZED VIEW "<b>v</b>" AS '
            f"SELECT k FROM {name}"
        )
    page = opened(studio.url, 640)
    boxes = page.eval_on_selector_all(
        ".picture rect",
        "all => all.map(one => [one.x, one.y, one.width, one.height].map(side => "
        "side.baseVal.value))",
    )
    width, height = page.evaluate(
        "['width', 'height'].map(n => +document.querySelector('.picture > svg').getAttribute(n))"
    )
    assert len(boxes) == len(set(map(tuple, boxes))) == 9
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    assert len(page.query_selector_all(".picture path")) == 6
    assert "<b>v</b>" in page.inner_text("#view") and not page.query_selector_all(
        "#view img, #view b"
    )
    page.focus(".picture a[aria-label='view path']")
    page.keyboard.press("Enter")
    page.wait_for_selector("h2:text-is('path')")
    assert page.eval_on_selector_all(
        ".picture .own text", "all => all.map(one => one.textContent)"
    ) == ["path ↻"]


def test_rows_by_keyboard_alone(shown, opened):
    page = opened(f"{shown.url}#{urlencode({'view': 'rows', 'name': 'path'})}")
    page.focus("tbody th button")
    for key, wanted in [
        ("ArrowDown", "2"),
        ("End", "6"),
        ("ArrowDown", "6"),
        ("Home", "1"),
        ("ArrowDown", "2"),
    ]:
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.textContent") == wanted
    assert page.locator("tbody th button[tabindex='0']").count() == 1  # Tab passes the others by
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert "edge(1, 3)" in page.inner_text("dialog") and "since version" in page.inner_text(
        "dialog"
    )
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.textContent") == "2"


def test_pages_of_rows_and_the_way_back(shown, opened):
    page = opened(f"{shown.url}#{urlencode({'view': 'rows', 'name': 'sale'})}")
    page.click("text=Next")
    page.wait_for_selector("text=rows 101 to 200 of 250")
    page.click("text=Last")
    page.wait_for_selector("text=rows 201 to 250 of 250")
    assert str(2**63 - 1) in page.inner_text("tbody")
    page.go_back()
    page.wait_for_selector("text=rows 101 to 200 of 250")
    page.fill("#filter", "PAT")
    assert page.locator("nav li:visible").all_inner_texts() == ["path\n6"]


def test_commits_of_other_processes_are_shown_at_once(studio, path, opened):
    page = opened(f"{studio.url}#{urlencode({'view': 'rows', 'name': 'path'})}")
    version = int(page.inner_text("#status").removeprefix("version "))
    subprocess.run(
        [sys.executable, "-m", "ivm", "exec", str(path), "+edge(4, 5)."],
        check=True,
        capture_output=True,
    )
    page.wait_for_selector(f"#status:text-is('version {version + 1}')")
    page.wait_for_selector("text=10 rows")
    studio.end()
    page.wait_for_selector("#status:has-text('not connected')")


def test_an_older_version_says_that_it_is_old(shown, opened):
    page = opened(f"{shown.url}#{urlencode({'view': 'history'})}")
    page.click("tr:has-text('sales') >> text=Look at it")
    page.wait_for_selector("#status:has-text('return to the newest')")
    assert "path" not in page.inner_text("nav") and "sale" in page.inner_text("nav")
    page.click("text=return to the newest")
    page.wait_for_selector("nav >> text=path")


CONTRAST = """() => {
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255);
    const [r, g, b] = parts.map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
  };
  const faint = [];
  for (const node of document.querySelectorAll("body *:not(:disabled)")) {
    if (![...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim()) || !node.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(node.outerHTML.slice(0, 200));
  }
  return [faint, light(behind(document.body))];
}"""


def test_it_is_light_and_dark_and_every_text_stands_out(shown, opened):
    grounds = []
    for scheme in ("light", "dark"):
        page = opened(shown.url, scheme=scheme)
        for route in VIEWS[1::2]:
            go(page, shown.url, route)
            faint, ground = page.evaluate(CONTRAST)
            assert faint == [], (scheme, route)
        grounds.append(ground)
    assert grounds[0] > 0.9 and grounds[1] < 0.05
