"""Where things stand on the controller: cli/ holds click, actions/ what a verb does; imports are at the top."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuadmin.cli import FILES as FILE_OF
from gpuadmin.cli import SECTIONS, TAKEOVER, VERBS
from tests.support.offenders import each_of, find_offenders

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpuadmin"
#: Programs of their own: what runs on a host, or what ssh starts.
ELSEWHERE = ("collections/", "libexec/", "collector/", "takeover/node/")
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if not str(path.relative_to(PACKAGE)).startswith(ELSEWHERE)]
CLI = [*PACKAGE.glob("cli/*.py"), PACKAGE / "takeover/cli.py"]
CONTROLLER = [path for path in FILES if path not in CLI]
VERB_FILES = [path for path in CLI if not path.stem.startswith("_")]
#: What belongs to click: the group, the options that verbs share, what the shell offers at a Tab, and the man page.
CLICKS = {"__init__", "_options", "_complete", "_manual"}
#: Imports that take longer than `--help`, or than all else that most verbs do.
LATE = {
    "config/inventory.py": {"gpuadmin.config"},
    "config/rewrite.py": {"ruamel.yaml", "ruamel.yaml.error"},
    "ansible/events.py": {"gpuadmin.ansible.reports"},
    "ansible/runner.py": {"ansible_runner"},
    # `make` reads these before there is an environment
    "lab/firmware.py": {"gpuadmin.errors", "gpuadmin.lab.commands"},
    "lab/releases.py": {"gpuadmin.errors"},
}
#: Verbs that only say something of the command line itself.
WITHOUT_ACTION = {"completion": {"gpuadmin.report"}, "man": {"gpuadmin.report", "gpuadmin.cli._manual"}}
#: Verbs that are thin over the action of another.
SAME_ACTION = {
    "resume": "drain", "lock_user": "change_user", "unlock_user": "change_user", "extend_user": "change_user",
}  # fmt: skip


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported somewhere below."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ([str(node.module)] if not str(node.module).endswith(".actions") else
                        [f"{node.module}.{name.name}" for name in node.names])  # fmt: skip


def inside_functions(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported inside of functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                yield from imported(statement)


@each_of(CONTROLLER)
def test_imports_stand_at_the_top(path: Path) -> None:
    """Only cli/ imports when a verb is called: the help must not wait for what it does not need."""
    assert set(inside_functions(ast.parse(path.read_text()))) == LATE.get(str(path.relative_to(PACKAGE)), set())


def test_cli_holds_the_verbs_and_what_is_clicks() -> None:
    found = {module_name(path) for path in VERB_FILES}
    assert found == set(FILE_OF.values())
    assert {path.stem for path in CLI if path not in VERB_FILES} == CLICKS


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def test_a_verb_reads_options_and_calls_one_action() -> None:
    assert find_offenders(VERB_FILES, check_verbs) == {}


def check_verbs(path: Path) -> None:
    """Check a file of verbs: which verbs it has, what each imports when it is called, and what the file imports."""
    tree = ast.parse(path.read_text())
    commands = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    verbs = {verb.replace("-", "_") for verb, module in FILE_OF.items() if module == module_name(path)}
    room = module_name(path).split(".")[:-1] if path.parent.name != "cli" else ["gpuadmin"]
    for verb in verbs:
        lazily = set(inside_functions(commands[verb]))
        if verb in WITHOUT_ACTION:
            assert lazily <= WITHOUT_ACTION[verb]
        elif verb != "lab":
            assert lazily == {".".join([*room, "actions", SAME_ACTION.get(verb, verb)])}
    if verbs == {"lab"}:
        assert set(inside_functions(tree)) == {"gpuadmin.actions.lab"}
    else:
        assert set(commands) == verbs
    at_the_top = {module for node in tree.body if not isinstance(node, ast.FunctionDef) for module in imported(node)}
    own = {"gpuadmin.cli", "gpuadmin.cli._options", "gpuadmin.cli._complete", "gpuadmin.options", "gpuadmin.console",
           "gpuadmin.semester.machine"}  # fmt: skip
    for module in at_the_top - own:
        assert module.partition(".")[0] in {"click", *sys.stdlib_module_names}, module


def test_every_verb_has_its_action() -> None:
    for room, verbs in ((PACKAGE, set(VERBS) - set(TAKEOVER)), (PACKAGE / "takeover", set(TAKEOVER))):
        actions = {path.stem for path in (room / "actions").glob("[a-z]*.py")}
        assert actions == {verb.replace("-", "_") for verb in verbs} - set(WITHOUT_ACTION) - set(SAME_ACTION)


def test_only_the_session_starts_ansible() -> None:
    """One way to a playbook: passwords once, a record for every run, one answer to an interruption."""
    knowing = {
        str(path.relative_to(PACKAGE))
        for path in FILES
        if path.parent != PACKAGE / "ansible"
        and {"gpuadmin.ansible", "gpuadmin.ansible.runner"} & set(imported(ast.parse(path.read_text())))
        and "runner" in path.read_text()
    }
    assert knowing == {"session.py"}


def test_nothing_rewrites_what_the_user_s_options_said() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in FILES
        for line in path.read_text().splitlines()
        if re.search(r"replace\([^)]*options", line)
    ]
    assert found == []


def test_the_help_is_grouped_as_the_page_of_verbs() -> None:
    rows = re.findall(r"(?m)^\| ([A-Z][\w ]*)? ?\| ((?:`[a-z-]+` ?)+)\|", (ROOT / "docs/verbs.md").read_text())
    grouped: dict[str, list[str]] = {}
    title = ""
    for heading, cell in rows:
        title = heading.strip() or title
        grouped.setdefault(title, []).extend(re.findall(r"`([a-z-]+)`", cell))
    assert {title: set(verbs) for title, verbs in grouped.items()} == {
        title: set(verbs) for title, verbs in SECTIONS.items()
    }
    assert list(grouped) == list(SECTIONS)
    assert sum(len(verbs) for verbs in SECTIONS.values()) == len(VERBS)
