"""Where a test on the lab runs: on light hosts, unless its mark says what it needs virtual machines for.

    @pytest.mark.virtual(NFS)                      on virtual machines alone
    @pytest.mark.story("lock-user", "extend-user") the whole story of these verbs: on light hosts, and, as a slow test,
                                                   on virtual machines as well
    (neither)                                      on light hosts

A molecule scenario says it in its molecule.yml: `ansible.env.GPUADMIN_TEST_VIRTUAL` is the reason. Set by whoever runs
the tests, the same variable asks for virtual machines everywhere. On a machine that can have no light hosts, which is
tried (gpuadmin/lab/probe.py), everything runs on virtual machines; what cannot be on either is skipped.
`python -m tests.support.where` prints what holds here: `light` or `virtual`.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.lab import probe

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "molecule"
VARIABLE = "GPUADMIN_TEST_VIRTUAL"
LIGHT, VIRTUAL, BOTH = "light", "virtual", "both"

BOOT = "a boot, by a boot loader and a kernel of its own"
IMAGE = "images are built, sent and booted"
POWER = "a power cut, which loses what was not on disk"
NFS = "what NFS itself does"
MACHINES = "the virtual machines themselves"
CONTROLLERS = "cgroup v2 with all its controllers, which a machine need not give to its light hosts"
#: What may need a virtual machine. Whoever adds one: can a light host learn it?
REASONS = (BOOT, IMAGE, POWER, NFS, MACHINES, CONTROLLERS)


def why_virtual() -> str:
    """Return why no light hosts are made here, in words; nothing where they are."""
    if os.environ.get(VARIABLE):
        return f"{VARIABLE} asks for it"
    return probe.look().why_no_light(sized=False)  # other tests may have taken what is missing


def places(marks: Iterable[pytest.Mark], light: bool) -> list[Any]:
    """Given a test's marks and whether there are light hosts, return what the fixture `hosts` gives it in turn."""
    where = place({mark.name: mark for mark in marks})
    if not light or where == VIRTUAL:
        return [pytest.param(VIRTUAL)]
    if where == LIGHT:
        return [pytest.param(LIGHT)]
    return [pytest.param(LIGHT), pytest.param(VIRTUAL, marks=(pytest.mark.virtual(BOTH), pytest.mark.slow))]


def place(marks: Mapping[str, pytest.Mark]) -> str:
    """Given the marks of a test by their names, return where it runs: LIGHT, VIRTUAL or BOTH."""
    if "virtual" in marks:
        return VIRTUAL
    return BOTH if "story" in marks else LIGHT


@dataclass(frozen=True)
class Entry:
    """One test, or scenario of molecule: where it runs and why, and whether `make test` leaves it out."""

    name: str
    where: str
    why: str
    slow: bool


def reason_of(scenario: str) -> str:
    """Given a scenario of molecule, return what it needs virtual machines for; nothing where it needs none."""
    text = (SCENARIOS / scenario / "molecule.yml").read_text(encoding="utf-8")
    settings = yaml.safe_load(text).get("ansible") or {}
    return str((settings.get("env") or {}).get(VARIABLE) or "")


def scenarios() -> list[str]:
    """Return the scenarios of molecule that test roles, those on light hosts first: each lab is made once."""
    names = sorted(path.parent.name for path in SCENARIOS.glob("*/converge.yml"))
    return sorted(names, key=lambda name: bool(reason_of(name)))


#: The scenarios that `make test` has time for; `make molecule` has them all. This one has what `node_state` has, too.
QUICK_SCENARIOS = ("accounts",)


#: Files whose tests begin with one state of the lab, which takes minutes to make: one process has them all.
TOGETHER = {
    **dict.fromkeys(
        (
            "test_admins",
            "test_dashboard",
            "test_grant_ends",
            "test_heat",
            "test_idle",
            "test_journals",
            "test_monitoring",
        ),
        "watched",
    ),
    **dict.fromkeys(("test_gate_attacks", "test_grants"), "gated"),
    **dict.fromkeys(
        (
            "test_dashboard_buttons", "test_first_day", "test_gpu_run", "test_notebooks", "test_owned_nodes",
            "test_power", "test_queue", "test_queue_attacks", "test_queue_faults", "test_turns_mailed", "test_week",
            "test_windows",
        ),
        "queued",
    ),
}  # fmt: skip
#: What takes longest begins first, so that one process has little left to do when the other has nothing.
FIRST = ("queued", "watched", "gated", "test_sick_node", "test_promote", "test_adopt", "test_people_told")


@cache
def group(file: str) -> str:
    """Given a file of tests, return which others the same process has: none, or those of its state of the lab."""
    return TOGETHER.get(Path(file).stem, Path(file).stem)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As `--dist loadfile`, but for what is together. (`--dist loadgroup` finds no groups with pytest 9.2.)"""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(super()._split_scope(nodeid))

    return Together(config, log) if config.getoption("dist") == "loadfile" else None


def files() -> list[Path]:
    """Return all files of tests on the lab."""
    return [path for room in ("tests/e2e", "tests/takeover/e2e") for path in sorted((ROOT / room).glob("test_*.py"))]


def everything() -> Iterator[Entry]:
    """Yield every test on the lab, as its marks have it (one that has parameters once), and every scenario."""
    for name in scenarios():
        reason = reason_of(name)
        yield Entry(f"molecule: {name}", VIRTUAL if reason else LIGHT, reason, name not in QUICK_SCENARIOS)
    for path in files():
        if path.name == "test_roles.py":
            continue  # its parameters are the scenarios
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        whole = getattr(module, "pytestmark", [])
        shared = whole if isinstance(whole, list) else [whole]
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and function.__module__ == module.__name__:
                own = [*shared, *getattr(function, "pytestmark", [])]
                yield _entry(f"{path.stem}::{name}", {mark.name: getattr(mark, "mark", mark) for mark in own})


def _entry(name: str, marks: Mapping[str, pytest.Mark]) -> Entry:
    where, left_out = place(marks), not marks.keys().isdisjoint({"slow", "long"})
    if where == VIRTUAL:
        return Entry(name, where, str(marks["virtual"].args[0]), left_out)
    verbs = ", ".join(marks["story"].args) if where == BOTH else ""
    return Entry(name, where, verbs and f"the whole story of {verbs}", left_out)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Light hosts first, and what takes longest; of processes side by side, each has its lane."""
    places = {name: place for place, name in enumerate(FIRST)}

    def order(item: pytest.Item) -> tuple[bool, int]:
        return on_virtual_machines(item), places.get(group(item.nodeid.partition("::")[0]), len(FIRST))

    items.sort(key=order)
    wanted = config.getoption("lane")
    other = [item for item in items if wanted and lane(item) != wanted]
    if other:
        config.hook.pytest_deselected(items=other)
        items[:] = [item for item in items if lane(item) == wanted]
    for item in items:
        if (
            item.get_closest_marker("lab")
            and lane(item) == VIRTUAL
            and (why := probe.look().why_no_machines(sized=False))
        ):
            item.add_marker(pytest.mark.skip(reason=f"needs virtual machines: {why}"))


def lane(item: pytest.Item) -> str:
    """Which of the two processes has a test."""
    return VIRTUAL if why_virtual() or on_virtual_machines(item) else LIGHT


def on_virtual_machines(item: pytest.Item) -> bool:
    """Whether a test has virtual machines: the shared cluster, or a lab of its own."""
    call = getattr(item, "callspec", None)
    shared = call is not None and call.params.get("hosts") == VIRTUAL
    return shared or item.get_closest_marker("virtual") is not None


if __name__ == "__main__":
    print(VIRTUAL if why_virtual() else LIGHT)
