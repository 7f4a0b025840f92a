"""Every mark beside a guard marks what can be taken out, and the runner tells whether its tests hold it."""

import ast
import os
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.support.scripts import load

ROOT = Path(__file__).resolve().parents[2]
signs, lists, runs, runner = (load(name) for name in ("guard_marks", "guard_list", "guard_runs", "guards"))


def test_each_guard_can_be_taken_out_and_has_tests() -> None:
    """So that a mark cannot fall behind the code unnoticed. No two have one name: reading them would fail."""
    guards = lists.read_guards(ROOT)
    assert len(guards) > 900, "they are marked"
    assert {guard.label: guard.problem for guard in guards if guard.problem} == {}
    unknown = set(lists.holders(ROOT)) - {guard.name for guard in guards}
    assert unknown == set(), "tests name guards that are nowhere marked"


def test_each_mark_is_read() -> None:
    """A mark that is written a little differently would be a comment, and nobody would miss it."""
    odd = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "gpuadmin").rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (place := line.lower().find("# guard")) >= 0 and not signs.MARK.fullmatch(line[place:])
    ]
    assert odd == []


CASES = [
    # a condition, a statement, a value
    ("if x:  # guard: n\n    return", "if False:\n    return"),
    ("if x:  # guard: n -> True\n    a()", "if True:\n    a()"),
    ("if x:\n    a()\n# guard: n\nelif y:\n    b()", "if x:\n    a()\nelif False:\n    b()"),
    ("while x:  # guard: n\n    a()", "while False:\n    a()"),
    ("for x in y:  # guard: n\n    a()", "for x in ():\n    a()"),
    ("# guard: n\n\na()", "pass"),
    ("x.y = 1  # guard: n", "pass"),
    ("x = f(x)  # guard: n", "pass"),
    ("x = f(y)  # guard: n -> y", "x = y"),
    ("return f(y)  # guard: n -> None", "return None"),
    ("with a(b):  # guard: n\n    c()", "if True:\n    c()"),
    ("with a(b) as d:  # guard: n -> e()\n    c(d)", "with e() as d:\n    c(d)"),
    ("try:\n    a()\nexcept X:  # guard: n\n    b()", "try:\n    a()\nexcept ():\n    b()"),
    ("try:\n    a()\nexcept X:  # guard: n -> Y\n    b()", "try:\n    a()\nexcept Y:\n    b()"),
    # a part of an expression
    ("x = (\n    a  # guard: n\n    and b\n    and c\n)", "x = b and c"),
    ("x = (\n    a\n    # guard: n\n    or (b and c)\n)", "x = a"),
    ("x = (\n    a\n    | b  # guard: n\n    | c\n)", "x = a | c"),
    ("x = (\n    a\n    if b  # guard: n\n    else c\n)", "x = a if False else c"),
    ("x = (\n    a\n    if b\n    else c  # guard: n\n)", "x = a"),
    ("x = [\n    a,  # guard: n\n    *b,\n]", "x = [*b]"),
    ("x = [\n    a,\n    *b,  # guard: n\n]", "x = [a]"),
    ("x = {\n    a: 1,  # guard: n\n    **b,\n}", "x = {**b}"),
    ("x = {\n    a: 1,  # guard: n -> 2\n}", "x = {a: 2}"),
    ("f(\n    a,\n    k=1,  # guard: n\n)", "f(a)"),
    ("f(\n    a,\n    k=1,  # guard: n -> 2\n)", "f(a, k=2)"),
    ("x = [\n    a\n    for a in b\n    if a  # guard: n\n]", "x = [a for a in b if True]"),
    ("x = {'ä': (\n    'ö'  # guard: n -> 'ü'\n    or a)}", "x = {'ä': 'ü' or a}"),
    ("@cache  # guard: n\n@other\ndef f(): pass", "@other\ndef f(): pass"),
]


@pytest.mark.parametrize(("code", "left"), CASES)
def test_what_is_left_without_a_guard(code: str, left: str) -> None:
    whole, wanted = (f"def g():\n{indent(dedent(text), '    ')}\n" for text in (code, left))
    (mark,) = signs.marks(whole)
    assert mark.name == "n"
    assert ast.dump(ast.parse(signs.without(whole, mark))) == ast.dump(ast.parse(wanted))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("x = f(y)  # guard: n", "a name would have no value"),
        ("if False:  # guard: n\n    a()", "nothing would be different"),
        ("f(a  # guard: n\n  )\n", ""),
        ("f(\n    a\n)  # guard: n", "nothing that can be taken out"),
        ("def f():  # guard: n\n    a()", "cannot be marked"),
        ("x = f(y)  # guard: n -> (", "not Python"),
    ],
)
def test_what_cannot_be_taken_out_is_said(code: str, why: str) -> None:
    (mark,) = signs.marks(code)
    if not why:
        assert signs.without(code, mark) == "pass\n"
        return
    with pytest.raises(signs.MarkError, match=why):
        signs.without(code, mark)


def test_which_tests_hold_a_guard(tmp_path: Path) -> None:
    """Those that name it, else the one of its file's name, else those of its room. None, or twice one name, is said."""
    node = tmp_path / lists.PLUGINS / "module_utils"
    for path, names in {
        tmp_path / "gpuadmin/a/b.py": ["own", "named", "both"], tmp_path / "gpuadmin/c.py": ["nobody's", "file's"],
        tmp_path / "gpuadmin/takeover/node/d/e.py": ["taken over"], tmp_path / "gpuadmin/takeover/d/f.py": ["once"],
        node / "d/e.py": ["node's"], node / "f.py": ["room's"], node.parent / "modules/g.py": ["module's"],
    }.items():  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"a()  # guard: {name}\n" for name in names))
    for name, text in {
        "unit/a/test_b.py": "@pytest.mark.holds('both')\ndef test_x(): pass\n",
        "takeover/unit/node/d/test_e.py": "", "takeover/unit/d/test_g.py": "",
        "unit/node/d/test_e.py": "", "unit/node/test_a.py": "", "unit/node/test_h.py": "from plugins import f",
        "e/test_i.py": (
            "pytestmark = [pytest.mark.root, pytest.mark.holds(\"file's\")]\nclass TestK:\n"
            "    @pytest.mark.holds('named', 'both', \"module's\")\n    def test_y(self): pass\n"
        ),
    }.items():  # fmt: skip
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = {one.name: one for one in lists.read_guards(tmp_path)}
    assert {name: one.tests for name, one in found.items()} == {
        "own": ("tests/unit/a/test_b.py",), "named": ("tests/e/test_i.py::TestK::test_y",),
        "both": ("tests/e/test_i.py::TestK::test_y", "tests/unit/a/test_b.py::test_x"),
        "nobody's": (), "file's": ("tests/e/test_i.py",), "node's": ("tests/unit/node/d/test_e.py",),
        "taken over": ("tests/takeover/unit/node/d/test_e.py",), "once": ("tests/takeover/unit/d/test_g.py",),
        "room's": ("tests/unit/node/test_h.py", "tests/unit/node/test_a.py"),
        "module's": ("tests/e/test_i.py::TestK::test_y",),
    }  # fmt: skip
    assert [name for name, one in found.items() if "has no tests" in one.problem] == ["nobody's"]
    (tmp_path / "gpuadmin/c.py").write_text("a()  # guard: own\n")
    with pytest.raises(lists.ListError, match="one name: own"):
        lists.read_guards(tmp_path)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a tree with one guard, and tests of every kind."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it starts sooner
    place = tmp_path / "tree"
    (place / "gpuadmin").mkdir(parents=True)
    (place / "gpuadmin/__init__.py").write_text(
        "def safe(value):\n    if value < 0:  # guard: n\n        return False\n    return True\n"
    )
    tests = {
        "guarded": "def test_it():\n    assert not safe(-1)\n",
        "vain": "def test_it():\n    assert safe(1)\n",
        "skipped": "import pytest\n\n@pytest.mark.skip(reason='x')\ndef test_it():\n    assert not safe(-1)\n",
        "broken": "import nothing_of_this_name\n\ndef test_it():\n    assert not safe(-1)\n",
        "empty": "",
        "hanging": "import time\n\ndef test_it():\n    if safe(-1):\n        time.sleep(60)\n",
        "program": (
            "import subprocess, sys\n\ndef test_it():\n"
            "    line = 'import gpuadmin, sys; sys.exit(gpuadmin.safe(-1))'\n"
            "    assert subprocess.run([sys.executable, '-c', line], cwd='/').returncode == 0\n"
        ),
    }
    for name, text in tests.items():
        (place / f"test_{name}.py").write_text(f"from gpuadmin import safe\n\n{text}" if text else text)
    return place


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("guarded", "killed"), ("program", "killed"), ("hanging", "killed"), ("vain", "survived"),
        ("skipped", "survived"), ("broken", "broken"), ("empty", "broken"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_guard(tree: Path, test: str, kind: str) -> None:
    """Killed only by a test that ran and failed; what could not be run kills nothing."""
    runs.check_isolation(tree)
    source = tree / "gpuadmin/__init__.py"
    (mark,) = signs.marks(source.read_text())
    left = signs.without(source.read_text(), mark)
    one = lists.Guard(mark.name, "gpuadmin/__init__.py", mark.line, left, (f"test_{test}.py",))
    source.write_text(one.text)
    verdict = runner.judge(one, runs.run_tests(tree, one.tests, 5.0 if test == "hanging" else 60.0))
    assert verdict.kind == kind
    assert ("hung" in verdict.why) == (test == "hanging")


@pytest.mark.parametrize(
    ("test", "green"), [("guarded", True), ("skipped", False), ("broken", False), ("empty", False)]
)
def test_what_is_no_base_to_judge_by(tree: Path, test: str, green: bool) -> None:
    assert (runner.not_green(runs.run_tests(tree, [f"test_{test}.py"], 60.0)) == "") is green


def test_many_that_ran_together_are_told_apart(tree: Path) -> None:
    (tree / "test_many.py").write_text(
        "import pytest\n\ndef test_one(): pass\n\n@pytest.mark.parametrize('n', (1, 2))\n"
        "def test_two(n): assert n == 1\n\ndef test_three(): pass\n"
    )
    asked = ["test_guarded.py", "test_many.py::test_one", "test_many.py::test_two", "test_many.py", "test_skipped.py"]
    whole = runs.run_tests(tree, asked, 60.0, all_of_them=True)
    found = runs.outcomes_of(tree / runs.REPORT, asked)
    assert (whole.code, whole.red) == (1, 1)
    assert {test: one.passed for test, one in found.items()} == {
        "test_guarded.py": 1, "test_many.py::test_one": 1, "test_skipped.py": 0,
    }  # fmt: skip
    assert runner.not_green(found["test_skipped.py"])
    assert runs.outcomes_of(tree / "none.xml", asked) == {}


def test_a_copy_holds_what_is_not_committed_and_nothing_that_git_ignores(tmp_path: Path) -> None:
    root, place = tmp_path / "root", tmp_path / "place"
    root.mkdir()
    place.mkdir()
    for name in ("tracked", "new", "ignored", "gone"):
        (root / name).write_text("1")
    (root / ".gitignore").write_text("ignored\n")
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    for line in (("init", "-q"), ("add", "tracked", "gone", ".gitignore")):
        runs.subprocess.run(("git", *line), cwd=root, check=True, env=quiet)
    (root / "gone").unlink()
    (root / "tracked").write_text("2")
    runs.copy_tree(root, place)
    assert sorted(path.name for path in place.iterdir()) == [".gitignore", "new", "tracked"]
    assert (place / "tracked").read_text() == "2"
