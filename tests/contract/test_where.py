"""Where tests on the lab run: their marks say it, with a reason, and each verb has a test on virtual machines."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuadmin.cli import VERBS
from gpuadmin.lab.probe import Machine
from tests.support import where
from tests.support.machine import able
from tests.support.offenders import each_of

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = list(where.everything())
#: Verbs that no test on the lab runs. They touch no host, or their tests have servers of their own; what
#: clear-leftovers does on the storage host is tested on a loop device (tests/hostile/test_verbs.py).
ELSEWHERE = {
    "init", "check", "trust", "schema", "completion", "man", "runs", "lab", "notify", "import-applications",
    "clear-leftovers",
    "adopt",  # on light hosts, which people have grown by hand
    "upgrade",  # on light hosts: what it does is dpkg's, and no boot loader has a part in it
    "rehearse",  # the twin is of light hosts
    "usage",  # against a real Prometheus, in tests/unit/monitoring
    "dashboard",  # against a real service, there, and on light hosts in test_dashboard.py
    "move-docker",  # on light hosts: it is between two daemons of one host
    "maintain",  # on light hosts, which have a queue: test_windows.py
    "audit", "compare", "hand-over",  # on light hosts: they read files and ask programs, which are there as well
    # on light hosts: virtual machines have no GPUs
    "burn-in", "drain", "grants", "resume",
}  # fmt: skip
#: Fixtures and helpers → the verbs that they run for whoever uses them.
HELPERS = {
    "cluster": {"provision"}, "add": {"add-user"}, "imaged": {"prepare-root", "build-image"},
    "armed": {"push-image"}, "build_broken": {"build-image"},
}  # fmt: skip
#: Fixtures whose states are made by images.
IMAGES = {"with_image", "imaged", "armed", "uefi", "with_full_image", "nodes"}


def functions() -> Iterator[tuple[str, ast.FunctionDef, ast.Module]]:
    for path in where.files():
        module = ast.parse(path.read_text())
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.stem}::{node.name}", node, module


@each_of(ENTRIES)
def test_a_virtual_machine_has_a_reason(entry: where.Entry) -> None:
    if entry.where == where.VIRTUAL:
        assert entry.why in where.REASONS
    elif entry.where == where.BOTH:
        verbs = entry.why.removeprefix("the whole story of ").split(", ")
        assert set(verbs) <= set(VERBS)


def test_all_of_the_lab_is_in_the_table() -> None:
    names = {entry.name for entry in ENTRIES}
    assert {name for name, _, _ in functions() if not name.startswith("test_roles")} <= names
    tested = {path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")} - {"default"}
    assert {f"molecule: {name}" for name in tested} <= names
    for path in where.files():
        assert "pytest.mark.lab" in path.read_text(), path.name


def test_images_are_for_virtual_machines() -> None:
    places = {entry.name: entry.where for entry in ENTRIES}
    found = [name for name, test, _ in functions() if {one.arg for one in test.args.args} & IMAGES]
    assert len(found) > 10
    assert {places[name] for name in found} == {where.VIRTUAL}


def verbs_of(test: ast.FunctionDef, module: ast.Module) -> set[str]:
    """The verbs that a test names, and those of the helpers and constants of its file that it names, and of theirs."""
    below = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {
        target.id: node
        for node in module.body if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    words: set[str] = set()
    todo: list[ast.AST] = [test]
    while todo:
        for node in ast.walk(todo.pop()):
            text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None)
            new = {str(one) for one in (text, name) if isinstance(one, str)} - words
            words |= new
            todo += [below[one] for one in new if one in below]
    return (words & set(VERBS)) | {verb for word in words & set(HELPERS) for verb in HELPERS[word]}


def test_every_verb_has_a_test_on_virtual_machines() -> None:
    places = {entry.name: entry.where for entry in ENTRIES}
    on_machines = {
        verb
        for name, test, module in functions()
        if places.get(name) in (where.VIRTUAL, where.BOTH)
        for verb in verbs_of(test, module)
    }
    assert set(VERBS) - on_machines - ELSEWHERE == set()
    others = {"lab", "runs", "check", "top", "usage", "dashboard"}
    assert not ELSEWHERE & on_machines - others, "those are words of other meanings, too"


@pytest.mark.parametrize(
    ("marks", "light", "given"),
    [
        ([], True, ["light"]),
        ([pytest.mark.virtual(where.BOOT)], True, ["virtual"]),
        ([pytest.mark.story("backup")], True, ["light", "virtual"]),
        ([pytest.mark.story("backup")], False, ["virtual"]),
        ([], False, ["virtual"]),
    ],
)
def test_what_the_marks_mean(marks: list[pytest.MarkDecorator], light: bool, given: list[str]) -> None:
    found = where.places([mark.mark for mark in marks], light)
    assert [one.values[0] for one in found] == given
    # with light hosts, a story on virtual machines is not for `make test`
    slow = [one.values[0] for one in found if "slow" in {mark.name for mark in one.marks}]
    assert slow == (["virtual"] if len(given) == 2 else [])


def test_without_light_hosts_it_is_virtual_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(where.VARIABLE, raising=False)
    monkeypatch.setattr(where.probe, "look", lambda: able("loop devices"))
    assert where.why_virtual() == "no loop devices here"
    monkeypatch.setenv(where.VARIABLE, "1")
    assert where.VARIABLE in where.why_virtual()
    monkeypatch.delenv(where.VARIABLE)
    monkeypatch.setattr(where.probe, "look", able)
    assert where.why_virtual() == ""


@pytest.mark.parametrize(
    ("machine", "skipped"),
    [
        (able(), {}),
        (able("mounts"), {}),  # all of it on virtual machines
        (able(memory=1 << 30), {}),  # what is free changes as tests run
        (
            able("root", "user namespaces"),
            dict.fromkeys(("light", "virtual"), "they need user namespaces (no user namespaces here)"),
        ),
    ],
)
def test_what_can_run_nowhere_is_skipped_with_the_reason(
    machine: Machine, skipped: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(where.VARIABLE, raising=False)
    monkeypatch.setattr(where.probe, "look", lambda: machine)
    items = [item("light", where.LIGHT), item("virtual", where.VIRTUAL, pytest.mark.virtual(where.NFS))]
    config: Any = SimpleNamespace(getoption=lambda _name: None)
    where.pytest_collection_modifyitems(config, items)
    found = {one.name: mark.kwargs["reason"] for one in items for mark in one.marks if mark.name == "skip"}
    assert found.keys() == skipped.keys()
    assert all(found[name].startswith(f"needs virtual machines: {why}") for name, why in skipped.items())


def item(name: str, hosts: str = "", *marks: pytest.MarkDecorator) -> Any:
    """A test on the lab, as far as pytest is asked about it here."""
    found = SimpleNamespace(
        name=name, nodeid=f"tests/e2e/test_x.py::{name}", marks=[pytest.mark.lab.mark, *(one.mark for one in marks)]
    )
    found.get_closest_marker = lambda kind: next((one for one in found.marks if one.name == kind), None)
    found.add_marker = lambda one: found.marks.append(one.mark)
    if hosts:
        found.callspec = SimpleNamespace(params={"hosts": hosts})
    return found


def test_files_that_begin_with_one_state_are_together() -> None:
    """Set up once: by the process that has them all. A name of a file that is gone would be for nothing."""
    made_by = {"watched": "import .*\\bwatched\\b", "gated": "gated_cluster\\.gated\\(", "queued": "\\bwith_queue: "}
    for state, way in made_by.items():
        theirs = {path.stem for path in where.files() if re.search(way, path.read_text())}
        assert theirs == {name for name, own in where.TOGETHER.items() if own == state}
    assert {name for name in where.FIRST if name not in made_by} <= {path.stem for path in where.files()}
    tests = [f"tests/e2e/{name}.py" for name in ("test_idle", "test_dashboard", "test_grants", "test_queue")]
    assert [where.group(file) for file in tests] == ["watched", "watched", "gated", "queued"]


def test_what_takes_longest_begins_first() -> None:
    items = [
        item("short", where.LIGHT),
        item("long", where.LIGHT),
        item("virtual", where.VIRTUAL, pytest.mark.virtual(where.NFS)),
    ]
    items[1].nodeid = items[2].nodeid = "tests/e2e/test_queue.py::test_it"
    config: Any = SimpleNamespace(getoption=lambda _name: None)
    where.pytest_collection_modifyitems(config, items)
    assert [one.name for one in items] == ["long", "short", "virtual"]


ALL = ["on light hosts", "on the virtual cluster", "with a lab of its own"]


@pytest.mark.parametrize(
    ("asked", "lane", "here"),
    [
        ("", None, ALL),
        ("", "light", ["on light hosts"]),
        ("", "virtual", ["on the virtual cluster", "with a lab of its own"]),
        ("1", "light", []),
        ("1", "virtual", ALL),
    ],
)
def test_virtual_machines_have_a_process_of_their_own(
    asked: str, lane: str | None, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And light hosts come first. Where all is virtual, one process has it all."""
    monkeypatch.setattr(where, "why_virtual", lambda: asked)
    items = [
        item("on the virtual cluster", where.VIRTUAL, pytest.mark.virtual(where.NFS)),
        item("with a lab of its own", "", pytest.mark.virtual(where.MACHINES)),
        item("on light hosts", where.LIGHT),
    ]
    left: list[Any] = []

    def pytest_deselected(items: list[Any]) -> None:
        left.extend(items)

    hook = SimpleNamespace(pytest_deselected=pytest_deselected)
    config: Any = SimpleNamespace(getoption=lambda _name: lane, hook=hook)
    where.pytest_collection_modifyitems(config, items)
    assert [one.name for one in items] == here
    assert sorted(one.name for one in [*items, *left]) == ALL
