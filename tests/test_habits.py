"""The habits of the code that no linter holds: small files, folders and functions, docstrings, live
links.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("pagestore", "ivm", "tools", "benchmarks")
FILE_STATEMENTS, FUNCTION_STATEMENTS, PARAMETERS, FOLDER_FILES = 400, 40, 12, 18
SOURCES = {".py", ".c", ".lark", ".logiql"}
KERNELS = {"kernel", "inlined", "on_demand", "allocating", "njit", "intrinsic"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A function and where it stands; `public` if its own name and all names around it are."""

    file: str
    node: Function
    public: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.node.lineno}: {self.node.name}"


def functions(source: str, file: str) -> list[Found]:
    """Every function of a file, methods and functions within functions among them."""

    def within(node: ast.AST, public: bool) -> Iterator[Found]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.ClassDef):
                seen = public and not child.name.startswith("_")
                if isinstance(child, Function):
                    yield Found(file, child, seen)
                    seen = False  # what is defined in it can be called from nowhere else
                yield from within(child, seen)
            else:
                yield from within(child, public)

    return [*within(ast.parse(source), True)]


def decorators(node: Function) -> set[str]:
    """The names of a function's decorators, without their modules and arguments."""
    called = (
        decorator.func if isinstance(decorator, ast.Call) else decorator
        for decorator in node.decorator_list
    )
    return {
        name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "") for name in called
    }


def statements(node: ast.AST) -> int:
    """How many statements a node holds, those in functions and classes among them, but docstrings."""
    held = sum(isinstance(one, ast.stmt) for one in ast.walk(node)) - isinstance(node, ast.stmt)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return held - sum(
        isinstance(one, documented) and ast.get_docstring(one, clean=False) is not None
        for one in ast.walk(node)
    )


def long_files(source: str, file: str) -> list[str]:
    held = statements(ast.parse(source))
    remedy = f"split it so that none has over {FILE_STATEMENTS}"
    return [f"{file}: the file has {held} statements; {remedy}"] if held > FILE_STATEMENTS else []


def long_functions(source: str, file: str) -> list[str]:
    remedy = f"let it call others, so that none has over {FUNCTION_STATEMENTS}"
    return [
        f"{found} has {held} statements; {remedy}"
        for found in functions(source, file)
        if (held := statements(found.node)) > FUNCTION_STATEMENTS
    ]


def crowded_functions(source: str, file: str) -> list[str]:
    complaints = []
    for found in functions(source, file):
        a = found.node.args
        names = [
            arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg
        ]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > PARAMETERS:
            complaints.append(
                f"{found} has {count} parameters; group them in named tuples, to at most "
                f"{PARAMETERS}"
            )
    return complaints


def undocumented_functions(source: str, file: str) -> list[str]:
    """Public functions and methods without a docstring; kernels have theirs in the file's, and
    setters the getter's.
    """
    exempt = KERNELS | {"setter", "deleter", "overload"}
    return [
        f"{found} has no docstring; say what it does, in which units, what it costs and what it "
        f"raises"
        for found in functions(source, file)
        if found.public
        and not decorators(found.node) & exempt
        and not ast.get_docstring(found.node)
    ]


def full_folders(top: Path) -> list[str]:
    """Of a folder and all below it, those with too many files of code."""
    counts = Counter(file.parent for file in top.rglob("*.*") if file.suffix in SOURCES)
    return [
        f"{folder.relative_to(top.parent)}: the folder has {count} files of code; group them by "
        f"subject in folders of "
        f"their own, so that none has over {FOLDER_FILES}"
        for folder, count in sorted(counts.items())
        if count > FOLDER_FILES
    ]


def refuse(complaints: list[str]) -> None:
    """Fails with all complaints, one a line, where there are any."""
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.mark.parametrize(
    "habit", [long_files, long_functions, crowded_functions, undocumented_functions]
)
@pytest.mark.parametrize("package", PACKAGES)
def test_habit(habit, package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    refuse(
        [line for file in files for line in habit(file.read_text(), str(file.relative_to(ROOT)))]
    )


@pytest.mark.parametrize("top", [*PACKAGES, "tests"])
def test_a_folder_is_small(top: str) -> None:
    refuse(full_folders(ROOT / top))


def test_full_folders_are_found(tmp_path: Path) -> None:
    for number in range(FOLDER_FILES):
        (tmp_path / "some" / "inner").mkdir(parents=True, exist_ok=True)
        (tmp_path / "some" / "inner" / f"{number}.py").touch()
    (tmp_path / "some" / "inner" / "README.md").touch()
    (tmp_path / "some" / "outer.py").touch()
    assert full_folders(tmp_path / "some") == []
    (tmp_path / "some" / "inner" / "more.c").touch()
    (complaint,) = full_folders(tmp_path / "some")
    assert complaint.startswith("some/inner: the folder has 19 files of code")


def body(lines: int) -> str:
    return "".join(f"    x = {i}\n" for i in range(lines))


DOC = '    """Does it."""\n'


@pytest.mark.parametrize(
    ("habit", "fine", "wrong", "says"),
    [
        (long_files, "x = 1\n" * 400, "x = 1\n" * 401, "a.py: the file has 401 statements"),
        (
            long_functions,
            f"def f():\n{DOC}{body(40)}",
            f"\ndef f():\n{DOC}{body(41)}",
            "a.py:2: f has 41 statements",
        ),
        (
            crowded_functions,
            "class C:\n  def f(self, a, b, c, d, e, f, g, h, i, /, j, *k, l): ...",
            "@kernel\ndef f(a, b, c, d, e, f, g, h, i, /, j, *k, l, **m): ...",
            "a.py:2: f has 13 parameters",
        ),
        (undocumented_functions, f"def f():\n{DOC}", "def f(): ...", "a.py:1: f has no docstring"),
        (
            undocumented_functions,
            "class _C:\n  def f(): ...",
            "class C:\n  def f(): ...",
            "a.py:2: f has no docstring",
        ),
        (
            undocumented_functions,
            "@on_demand('void')\ndef f(): ...",
            "@cache\ndef f(): ...",
            "a.py:2: f has no docstring",
        ),
        (
            undocumented_functions,
            f"def f():\n{DOC}    def g(): ...",
            "if x:\n  def f(): ...",
            "a.py:2: f has no doc",
        ),
        (
            undocumented_functions,
            "@x.setter\ndef x(self, y): ...",
            "@property\ndef x(self): ...",
            "a.py:2: x has no",
        ),
    ],
)
def test_each_habit_can_fail(habit, fine: str, wrong: str, says: str) -> None:
    assert habit(fine, "a.py") == []
    (complaint,) = habit(wrong, "a.py")
    assert complaint.startswith(says)


PRIVATE = re.compile(
    r"\b(doors?|wings?|cones?|vouch\w*|lent|lends?|steady|settled?|settles|comes? to|came to|is "
    r"had|are had|"
    r"stands? (?:in|on|beside|behind)|lets? go of|on the books|what is asked|is there already|is "
    r"there twice|told of|"
    r"is no (?!longer|more|less|worse|larger|smaller|other|memory|error)\w+|behind (?:it|them|one)|"
    r"beside (?:it|them))\b"
)
EXEMPT = re.compile(
    r"`[^`]*`|there is no |are not memory", re.IGNORECASE
)  # names of code, and plain English


def private_words(source: str, file: str) -> list[str]:
    """Words that only this project used in these senses, in docstrings, comments and messages, or
    in a page.
    """
    if file.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        kinds = {
            tokenize.COMMENT,
            tokenize.STRING,
            getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
        }
        texts = [(token.start[0], token.string) for token in tokens if token.type in kinds]
    else:
        texts = [(1, source)]
    lines = [(first + i, line) for first, text in texts for i, line in enumerate(text.splitlines())]
    found = [(number, PRIVATE.search(EXEMPT.sub(" ", line))) for number, line in lines]
    return [f"{file}:{n}: write plain words for {word[0]!r}" for n, word in found if word]


UNDECLARED = (
    88  # kernels of eight parameters and more, which their declaration would put on as many lines
)


def undeclared(source: str, file: str) -> tuple[list[str], list[str]]:
    """The kernels that declare the type of no parameter, and those that leave out some."""
    kernels = [one for one in functions(source, file) if KERNELS & decorators(one.node)]
    declared = {
        str(one): [arg.annotation is not None for arg in one.node.args.args]
        for one in kernels
        if "intrinsic" not in decorators(one.node)
    }
    nothing = [name for name, types in declared.items() if types and not any(types)]
    some = [name for name, types in declared.items() if any(types) and not all(types)]
    return nothing, some


def test_kernels_declare_the_types_of_their_parameters() -> None:
    nothing, some = [], []
    for package in ("pagestore", "ivm"):
        for path in sorted((ROOT / package).rglob("*.py")):
            found = undeclared(path.read_text(), str(path.relative_to(ROOT)))
            nothing += found[0]
            some += found[1]
    nothing = [name for name in nothing if not name.startswith("pagestore/runtime/")]
    assert not some and len(nothing) <= UNDECLARED, [*some, len(nothing)]


def test_kernels_without_types_are_found() -> None:
    source = (
        "@kernel\ndef f(a: Words, b): ...\n@inlined\ndef g(a): ...\n@kernel\ndef h(a: int): ..."
    )
    assert undeclared(source, "f.py") == (["f.py:4: g"], ["f.py:2: f"])


def test_no_private_words() -> None:
    named = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
    pages = [*named, *sorted((ROOT / "docs").rglob("*.md"))]
    code = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    refuse(
        [
            line
            for file in (*pages, *code)
            for line in private_words(file.read_text(), str(file.relative_to(ROOT)))
        ]
    )


@pytest.mark.parametrize(
    ("source", "file", "says"),
    [
        ('x = f"there is no {y}"  # no longer', "a.py", None),
        ("def f():\n    pass  # it comes to 3", "a.py", "a.py:2: write plain words for 'comes to'"),
        ('"""One.\n\nIs steady."""', "a.py", "a.py:3: write plain words for 'steady'"),
        ('raise E(f"{x} is no store")', "a.py", "a.py:1: write plain words for 'is no store'"),
        ("a\nthe doors\n", "a.md", "a.md:2: write plain words for 'doors'"),
    ],
)
def test_private_words_are_found(source: str, file: str, says: str | None) -> None:
    assert private_words(source, file) == ([says] if says else [])


LINK = re.compile(r"\[[^\]]*\]\((?!\w+:)([^)\s#]*)(#[^)\s]+)?\)")
CODE = re.compile(r"^```.*?^```$|^(?: {4}|\t).*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as a forge makes them."""
    headings = re.findall(
        r"^#+ +(.*)$",
        re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL),
        re.MULTILINE,
    )
    return {
        "#" + re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in headings
    }


def dead_links(text: str, file: Path) -> list[str]:
    """Links of a Markdown text to files and headings that are not there."""
    shown = CODE.sub(
        lambda code: re.sub(r"[^\n]", " ", code[0]), text
    )  # as long, for the numbers of lines
    complaints = []
    for link in LINK.finditer(shown):
        # what is in changes/ becomes a part of CHANGELOG.md
        target = (ROOT if file.parent == ROOT / "changes" else file.parent) / link[1]
        where = f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, link.start()) + 1}"
        if not target.exists():
            complaints.append(f"{where}: there is no {link[1]}; correct the link or remove it")
        elif link[2] and link[2] not in anchors(target.read_text() if link[1] else text):
            complaints.append(
                f"{where}: {link[1] or 'this page'} has no heading for {link[2]}; correct the link"
            )
    return complaints


def test_no_link_is_dead() -> None:
    """Links of docs/ to one another are followed by mkdocs too, of everything else only here."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split()]
    assert ROOT / "README.md" in files
    refuse([line for file in files if file.exists() for line in dead_links(file.read_text(), file)])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a](docs) [b](README.md#try-it) [c](#here)\n# Here\n", None),
        (
            "`[a](nowhere)`\n\n    [b](nowhere)\n\n```\n[c](nowhere)\n```\n[d](https://nowhere)",
            None,
        ),
        ("\n[a](nowhere.md)", "README.md:2: there is no nowhere.md"),
        (
            "[a](LICENSE) [a](README.md#nothing)",
            "README.md:1: README.md has no heading for #nothing",
        ),
    ],
)
def test_dead_links_are_found(text: str, says: str | None) -> None:
    assert [line.partition(";")[0] for line in dead_links(text, ROOT / "README.md")] == (
        [says] if says else []
    )


NAMED = re.compile(r"(?<![\w/.*<{-])((?:\w+/)*\w[\w-]*\.(?:py|md|lark|toml))\b(?!\()")
ELSEWHERE = {"job.toml", "trips/readme.md"}  # files of users, in examples


def prose(source: str, file: str) -> list[tuple[int, str]]:
    """The comments and docstrings of a file of Python, each with its line; another file as it
    is.
    """
    if not file.endswith(".py"):
        return [(1, source)]
    tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    said = [t for t in tokens if t.type == tokenize.COMMENT or t.string.startswith(('"""', 'r"""'))]
    return [(token.start[0], token.string) for token in said]


def lost_files(source: str, file: str, there: set[str]) -> list[str]:
    """Files that a comment, docstring or decision names, and that are not there, wherever it may
    be.
    """
    return [
        f"{file}:{line + text.count(chr(10), 0, found.start())}: there is no {found[1]}; name the "
        f"file that has it now"
        for line, text in prose(source, file)
        for found in NAMED.finditer(text)
        if found[1] not in there and found[1] not in ELSEWHERE
    ]


def endings(files: list[str]) -> set[str]:
    """The paths of files, from the top or from any folder; those of tools also as they are
    installed.
    """
    installed = [re.sub("^tools/", "pagestore_tools/", file) for file in files]
    parts = [file.split("/") for file in (*files, *installed)]
    return {"/".join(path[n:]) for path in parts for n in range(len(path))}


def test_no_comment_docstring_or_decision_names_a_file_that_is_gone() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    files = [file for file in listed.stdout.split("\n") if file and (ROOT / file).exists()]
    there = endings(files)
    pages = [file for file in files if file.startswith("docs/decisions/")]
    code = [file for file in files if file.endswith(".py")]
    read = [*code, "docs/architecture.md", "CONTRIBUTING.md", *pages]
    refuse([line for file in read for line in lost_files((ROOT / file).read_text(), file, there)])


@pytest.mark.parametrize(
    ("source", "file", "says"),
    [
        ('"""See trees/edit.py."""  # and edit.py, pagestore/trees/edit.py', "a.py", None),
        ('"""See trees/apply.py."""', "a.py", "a.py:1: there is no trees/apply.py"),
        ('x = "apply.py"\n# as in apply.py', "a.py", "a.py:2: there is no apply.py"),
        (
            "one\n(`ivm/apply.py`)",
            "docs/decisions/1.md",
            "docs/decisions/1.md:2: there is no ivm/apply.py",
        ),
    ],
)
def test_lost_files_are_found(source: str, file: str, says: str | None) -> None:
    found = lost_files(source, file, endings(["pagestore/trees/edit.py"]))
    assert [line.partition(";")[0] for line in found] == ([says] if says else [])


HELD = re.compile(r"`(\w+)`\s(?:in\s|of\s|\()`((?:\w+/)+\w+\.py)`")


def lost_names(text: str, page: str, files: list[str]) -> list[str]:
    """Names that a page says are in a file, and that the file does not have."""
    said = [
        (name, file)
        for name, end in HELD.findall(text)
        for file in files
        if f"/{file}".endswith(f"/{end}")
    ]
    return [
        f"{page}: there is no {name} in {file}; name the file that has it now"
        for name, file in said
        if not re.search(rf"\b{name}\b", (ROOT / file).read_text())
    ]


def test_names_that_pages_find_in_files_are_there() -> None:
    files = [
        str(file.relative_to(ROOT))
        for top in (*PACKAGES, "tests")
        for file in (ROOT / top).rglob("*.py")
    ]
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    refuse([line for page in pages for line in lost_names(page.read_text(), page.name, files)])
    lost = "`Basis` (`ivm/rules/installed.py`) and `Basis` (`ivm/rules/rule.py`)"
    assert lost_names(lost, "a.md", files) == [
        "a.md: there is no Basis in ivm/rules/installed.py; name the file that has it now"
    ]


STATUS = re.compile(r"# (\d+)\. .+\n\n\d{4}-\d\d-\d\d; in force(?:[;,] (.+?))?\.\n\n## ", re.DOTALL)


def wrong_status(text: str, numbers: set[int]) -> str | None:
    """What is wrong with the line below a decision's title, which says its date and whether it is
    in force; what replaced a part of it is a later decision.
    """
    if not (status := STATUS.match(text)):
        return "write the date and `; in force` below the title, or what replaced it"
    later = {int(number) for number in re.findall(r"decision \[(\d+)\]", status[2] or "")}
    if (status[2] and not later) or not all(int(status[1]) < n and n in numbers for n in later):
        return "name the later decision that replaced or extended it"
    return None


def test_entries_of_the_next_release_say_their_kind() -> None:
    """towncrier passes over a file of another name."""
    names = [path.name for path in (ROOT / "changes").glob("*")]
    refuse(
        [name for name in names if not re.fullmatch(r"\+[\w-]+\.(added|changed|fixed)\.md", name)]
    )


def test_decisions_have_a_date_and_a_status() -> None:
    pages = {int(page.name[:4]): page for page in (ROOT / "docs/decisions").glob("0*.md")}
    wrong = {page.name: wrong_status(page.read_text(), {*pages}) for page in pages.values()}
    refuse([f"{name}: {says}" for name, says in sorted(wrong.items()) if says])
    page = "# 2. A title\n\n2026-11-20; in force{}.\n\n## Context\n"
    extended = page.format(", but for all, which decision [{}](a.md) replaced")
    assert not wrong_status(page.format(""), {2, 3})
    assert not wrong_status(extended.format(3), {2, 3})
    for faulty in (page[2:], page.format("; but"), extended.format(1), extended.format(4)):
        assert wrong_status(faulty, {2, 3})


COUNTERS = {"support/calls.py", "walks/__init__.py", "tools/commands/test_signals.py"}


def test_calls_are_counted_where_no_garbage_is_collected() -> None:
    """What other tests left would run its functions within a count of one's own."""
    profiles = re.compile(r"sys\.setprofile\(|\bcProfile\b")
    found = {
        str(path.relative_to(ROOT / "tests"))
        for path in (ROOT / "tests").rglob("*.py")
        if profiles.search(path.read_text()) and path != Path(__file__)
    }
    assert found == COUNTERS, "count with tests/support/calls.py"
