"""What the pages for developers name is there; the site builds."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.scripts import ROOT, load

PLUGINS = "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins"
PLACES = {"MODULES": f"{PLUGINS}/modules", "MODULE_UTILS": f"{PLUGINS}/module_utils"}
ROOMS = ("docs", "gpuadmin", "inventory", "molecule", "playbooks", "roles", "scripts", "templates", "tests")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_A_SITE = ("inventory/hosts.yml",)


def quoted(text: str) -> list[str]:
    """What stands between backticks, outside of blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"(?s)```.*?```", "", text))


def test_paths_that_are_named_are_there() -> None:
    missing = []
    for page in PAGES:
        for name in quoted(page.read_text(encoding="utf-8")):
            first, _, rest = name.partition("/")
            path = f"{PLACES[first]}/{rest}" if first in PLACES else name.partition("::")[0]
            if (
                rest
                and path.partition("/")[0] in ROOMS
                and "VERB" not in path
                and " " not in path
                and name not in OF_A_SITE
                and not (ROOT / path).exists()
            ):
                missing.append(f"{page.name}: {name}")
    assert missing == []


def test_each_walk_names_the_files_that_it_goes_through() -> None:
    """Whether they are there is tested above."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    _, *walks = re.split(r"(?m)^\*\*", text.partition("## Five walks")[2].partition("\n## ")[0])
    assert [len(walk.splitlines()) >= 6 for walk in walks] == [True] * 5
    for line in (line for walk in walks for line in walk.splitlines()[1:] if line):
        assert [name for name in quoted(line) if name.partition("/")[0] in (*PLACES, *ROOMS)], line


def held_by() -> list[str]:
    """What CONTRIBUTING.md says holds an invariant."""
    table = GUIDE.partition("## What may never be")[2]
    return [name for line in table.splitlines() if line.startswith("| ") for name in quoted(line.split("|")[2])]


def test_what_holds_an_invariant_is_there() -> None:
    guards = {mark.name for _path, _text, marks in load("guard_list").marked() for mark in marks}
    names = held_by()
    assert len(names) > 30
    for name in names:
        if "::" in name:
            file, _, test = name.partition("::")
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name
        else:
            assert name in guards, name


def test_every_row_of_the_invariants_names_what_holds_it() -> None:
    rows = [line for line in GUIDE.partition("## What may never be")[2].splitlines() if line.startswith("| ")][2:]
    assert rows
    assert [row for row in rows if not quoted(row.split("|")[2])] == []


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "index.md"]
    assert [name for name in pages if f"({name}" not in index] == []


def test_alerts_are_readable() -> None:
    assert "{{" not in (ROOT / "docs/monitoring.md").read_text(), "a template of Prometheus's"


def test_a_decision_has_its_date_and_status() -> None:
    decisions = list(load("pages").decisions.decisions())
    numbers = [one.number for one in decisions]
    assert len(set(numbers)) == len(numbers) > 20


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"(?m)^## (.+)$", text)
    assert versions[0] == "[Unreleased]"
    assert [one for one in versions[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", one)] == []
    kinds = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
    for part in re.split(r"(?m)^## .+$", text)[1:]:
        found = re.findall(r"(?m)^### (.+)$", part)
        assert found == [kind for kind in kinds if kind in found], "each kind once, in this order"


def build(tree: Path, target: Path) -> tuple[int, str]:
    """Build the site of a tree as `make site` does; return the exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "properdocs", "build", "--strict", "-f", ".config/properdocs.yml", "-d", target],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_site_is_built_with_strict_links(tmp_path: Path) -> None:
    code, output = build(ROOT, tmp_path)
    assert code == 0, output
    assert (tmp_path / "index.html").exists()
    assert (tmp_path / "search/search_index.json").exists()
    assert "Usage: gpuadmin add-user" in (tmp_path / "reference-cli.html").read_text(encoding="utf-8")
    loaded = re.findall(
        r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)\"",
        "\n".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")),
    )
    assert set(loaded) == set(), "a reader's browser loads nothing from elsewhere"


def test_a_dead_link_is_an_error(tmp_path: Path) -> None:
    """Each kind of them, on a page of its own: one build says them all."""
    tree = tmp_path / "tree"
    for name in ("docs", ".config", "scripts"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*ROOT.glob("*.md"), ROOT / "benchmarks/README.md"]:
        (tree / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / path.relative_to(ROOT))
    (tree / "benchmarks/wiki").mkdir()
    for name in ("tests/support/scale_hosts.py", "tests/contract/test_verbs.py"):  # what pages link to
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    dead = {"semester": "nowhere.md", "images": "restore.md#no-such-anchor", "diagnose": "../scripts/nothing.py"}
    for name, link in dead.items():
        page = tree / f"docs/{name}.md"
        page.write_text(f"{page.read_text(encoding='utf-8')}\n[x]({link})\n", encoding="utf-8")
    code, output = build(tree, tmp_path / "site")
    assert code == 1, output
    warnings = [line for line in output.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == len(dead), output
    for name, link in dead.items():
        assert [line for line in warnings if f"{name}.md" in line and link.removeprefix("../") in line], output
    assert f"{len(dead)} warnings in strict mode" in output, output


def test_messages_name_pages_that_are_there_and_no_files_that_are_not_installed() -> None:
    """A wheel has no docs/: `the_page` of gpuadmin/common/text.py says how people are told of one."""
    named, files = set(), []
    for path in sorted((ROOT / "gpuadmin").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                files += [f"{path}:{node.lineno}"] * ("docs/" in node.value and ".md" in node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "the_page":
                named.add(ast.literal_eval(node.args[0]))
    for path in sorted((ROOT / "roles").rglob("*.yml")):
        text = path.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        files += [str(path) for line in lines if re.search(r"docs/.*\.md", line)]
        named |= set(re.findall(r'the page "([^"]*)"', text))
    assert files == []
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / f"docs/{name}.md").exists()] == []


def test_the_table_of_the_queues_attacks_has_what_its_test_tries() -> None:
    """That test takes minutes on the lab, and is seldom run."""
    tree = ast.parse((ROOT / "tests/e2e/test_queue_attacks.py").read_text(encoding="utf-8"))
    tried = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    page = (ROOT / "docs/slurm.md").read_text(encoding="utf-8").partition("| what she tries | what she gets |\n")[2]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.partition("\n\n")[0].splitlines()[1:]]
    assert rows
    assert [row for row in rows if row not in tried] == []
