"""The code that runs on nodes: one way for each effect, and a test for each file."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins"
TESTS = Path(__file__).parents[1]

#: What imports a module of the effect, and why it does not go through the one helper.
EFFECTS = {
    "subprocess": {
        "module_utils/run.py": "the helper",
        "module_utils/diagnosis/trial.py": "speaks with a session that is tried, and reads it up to its bounds",
        "module_utils/diagnosis/trying.py": "shells of that session, some at a terminal; it stands alone",
        "module_utils/backups/transfer.py": "talks with the other host through the pipes of ssh",
        "module_utils/homes/packing.py": "an archive through a pipe, with limits of its own, ended by what it sees",
        "module_utils/images/publish.py": "a pipe between btrfs send and zstd",
        "module_utils/images/stream.py": "a pipe between zstd and btrfs receive",
    },
}
#: Texts that stand for an effect, and the files that may have them.
WORDS = {
    '"systemd-run"': {"module_utils/unit.py"},
    '"journalctl"': {"module_utils/unit.py"},
    "ActiveState": {"module_utils/unit.py"},
    # the guard stands alone: its code is written to a host that has nothing else of gpuadmin
    "/mountinfo": {
        "module_utils/mounts.py",
        "module_utils/root/guard.py",
        "module_utils/images/subvolumes.py",
        # another process's mounts, and of each its number alone
        "module_utils/metrics/devices.py",
    },
    '"subvolume", "': {"module_utils/btrfs.py"},
}


def sources() -> dict[str, str]:
    found = {str(path.relative_to(PLUGINS)): path.read_text() for path in sorted(PLUGINS.rglob("*.py"))}
    assert len(found) > 80, "this is where it lies"
    return found


@pytest.mark.parametrize("module", EFFECTS)
def test_who_imports(module: str) -> None:
    importers = set()
    for name, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == module for alias in node.names):
                importers.add(name)
            if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == module:
                importers.add(name)
    assert importers == set(EFFECTS[module]), "a second way needs a reason, written down here"


@pytest.mark.parametrize("words", WORDS)
def test_who_does(words: str) -> None:
    assert {name for name, text in sources().items() if words in text} == WORDS[words]


def bare(source: str) -> list[int]:
    """The lines where an error of the system is made text by str(): `[Errno 13] Permission denied: '/x'`."""

    def is_of_the_system(handler: ast.ExceptHandler) -> bool:
        found = {node.id for node in ast.walk(handler.type or handler) if isinstance(node, ast.Name)}
        kinds = [getattr(builtins, one, None) for one in found]
        return any(isinstance(kind, type) and issubclass(kind, OSError) for kind in kinds)

    lines = []
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None or not is_of_the_system(handler):
            continue
        for node in (one for statement in handler.body for one in ast.walk(statement)):
            made = node.args if isinstance(node, ast.Call) and ast.unparse(node.func) == "str" else []
            made = [node.value] if isinstance(node, ast.FormattedValue) else made
            lines += [one.lineno for one in made if isinstance(one, ast.Name) and one.id == handler.name]
    return lines


def test_errors_of_the_system_are_told_in_words() -> None:
    """errors.in_words: a number is for nobody, and people read what root's code says (gpuadmin-me)."""
    assert bare("try: pass\nexcept (ValueError, OSError) as error: x = str(error)") == [2]
    assert bare("try: pass\nexcept PermissionError as why: x = f'no: {why}'") == [2]
    assert {name: found for name, text in sources().items() if (found := bare(text))} == {}


#: Files whose tests are elsewhere than in tests/unit/node/PACKAGE/test_FILE.py: the tests, and why they are there.
TESTED_BY = {
    "accounts/docker.py": ("unit/node/accounts/test_compute.py", "a part of the decision on accounts"),
    "accounts/observed.py": ("unit/node/accounts/test_compute.py", "a record without code: what plans are made from"),
    "accounts/plan.py": ("unit/node/accounts/test_compute.py", "what is asked and what is decided, as data"),
    "arguments.py": ("contract/test_collection.py", "held against the modules' documentation"),
    "backups/actions.py": ("unit/node/test_check_mode.py", "what the module asks, in check mode and in a run"),
    "backups/applying.py": ("unit/node/backups/test_arriving.py", "what a sender may send of a home"),
    "backups/copy_server.py": ("unit/node/backups/test_arriving.py", "asked as a storage host asks it"),
    "backups/jobs.py": ("unit/node/test_background.py", "begun in a unit"),
    "backups/pour.py": ("unit/node/backups/test_arriving.py", "bounds of what a sender may send"),
    "backups/pruning.py": ("unit/node/backups/test_arriving.py", "of what a sender has sent"),
    "backups/received.py": ("unit/node/backups/test_arriving.py", "what a sender tells of a set"),
    "backups/restored.py": ("unit/node/backups/test_restore.py", "what a restore has made is compared by it"),
    "backups/home_walk.py": ("unit/node/backups/test_copying.py", "a home is copied as it is walked"),
    "backups/sending.py": ("unit/node/backups/test_transfer.py", "what is sent is what arrives"),
    "backups/wire.py": ("unit/node/backups/test_arriving.py", "what a sender may say"),
    "backups/restore_plan.py": (
        "unit/node/backups/test_transfer.py",
        "where a backup is: here or elsewhere",
    ),
    "causes/cause.py": ("unit/diagnosis/broken.py", "test_faults.py makes a fault for each rule"),
    "causes/homes.py": ("unit/diagnosis/broken.py", "test_faults.py makes a fault for each rule"),
    "causes/trial.py": ("unit/diagnosis/broken.py", "test_faults.py makes a fault for each rule"),
    "causes/judge.py": ("unit/diagnosis/broken.py", "test_faults.py makes a fault for each rule"),
    "callers.py": ("unit/node/accounts/test_docker_self.py", "by the two services that it is for"),
    "cli.py": ("unit/node/test_modules.py", "run as a node runs it"),
    "commands.py": ("unit/node/accounts/test_converge.py", "the boot command, on a whole host"),
    "diagnosis/home.py": ("unit/node/diagnosis/test_host.py", "a home is on what its host has mounted"),
    "diagnosis/sessions.py": ("unit/node/diagnosis/test_host.py", "what the kernel counts of a person on a host"),
    "diagnosis/subject.py": ("unit/node/diagnosis/test_collect.py", "what all parts are given, and bounded by"),
    "gpus/library.py": ("unit/node/gpus/test_nvml.py", "its calls, made by what reads all of them"),
    "homes/creating.py": ("unit/node/homes/test_directories.py", "what was decided there is made by it"),
    "homes/tar_compare.py": ("unit/node/homes/test_packing.py", "an archive is compared when it is made"),
    "images/chain_door.py": ("unit/node/images/test_relay.py", "a chain of real connections"),
    "images/chain_key.py": ("unit/node/images/test_relay.py", "a chain of real connections"),
    "images/follower.py": ("unit/node/images/test_relay.py", "a chain of real connections"),
    "images/observe.py": ("unit/node/images/test_switch.py", "what a node says before and after a switch"),
    "images/preflight.py": ("unit/node/images/test_switch.py", "what keeps a switch from beginning"),
    "images/publish.py": ("unit/node/images/test_build.py", "the end of a build"),
    "images/records.py": ("unit/node/images/test_trial.py", "read by what judges a trial"),
    "images/stream.py": ("unit/node/images/test_switch.py", "streams of real images"),
    "me/texts.py": ("unit/node/me/test_check.py", "held against the rules"),
    "metrics/gpu_samples.py": ("unit/node/metrics/test_sampler.py", "what the driver says, as the sampler writes it"),
    "metrics/table.py": ("unit/node/metrics/test_exposition.py", "a table without code, and what is written by it"),
    "monitoring/cluster.py": ("unit/monitoring/test_decisions.py", "the controller's file, by a link"),
    "monitoring/samples.py": ("unit/monitoring/test_decisions.py", "the controller's file, by a link"),
    "monitoring/tokens.py": ("unit/monitoring/test_tokens.py", "the controller's file, by a link"),
    "paths.py": ("contract/test_repository.py", "written once, and nowhere else"),
    "report.py": ("unit/node/test_answer.py", "a report is how a module ends"),
    "wipe/jobs.py": ("unit/node/test_ship.py", "that the shipped code has them; what they call has tests of its own"),
}


def utilities() -> list[str]:
    found = PLUGINS.joinpath("module_utils").rglob("*.py")
    names = [str(path.relative_to(PLUGINS / "module_utils")) for path in found if path.name != "__init__.py"]
    assert len(names) > 80, "this is where it is"
    return sorted(names)


def mirrored(name: str) -> Path:
    path = Path(name)
    return TESTS / "unit/node" / path.parent / f"test_{path.name}"


def imports(test: Path, name: str) -> bool:
    """Whether a test imports the module, or something of its package: what one file decides, another carries out."""
    path = Path(name)
    wanted = {path.stem, path.parent.name} - {""}
    return any(
        isinstance(node, ast.ImportFrom)
        and bool(wanted & {*(node.module or "").split("."), *(alias.name for alias in node.names)})
        for node in ast.walk(ast.parse(test.read_text()))
    )


@pytest.mark.parametrize("name", utilities())
def test_each_node_file_has_its_test(name: str) -> None:
    at = mirrored(name)
    if name in TESTED_BY:
        assert not at.is_file(), f"{name} has its own test: its line in TESTED_BY goes"
        return
    assert at.is_file(), f"{at.relative_to(TESTS.parent)} is missing; or {name} in TESTED_BY says which test it has"
    assert "def test_" in at.read_text()
    assert imports(at, name), f"{at.name} does not import {name}"


def test_what_is_tested_elsewhere_is_there() -> None:
    for name, (test, reason) in TESTED_BY.items():
        assert (PLUGINS / "module_utils" / name).is_file(), f"{name} is gone, and its line in TESTED_BY goes"
        assert (TESTS / test).is_file(), f"{name}: there is no {test}"
        assert len(reason.split()) >= 3, f"{name}: why is its test elsewhere?"
        # a program that is run, and data that is held against pages or code
        assert name in ("cli.py", "arguments.py", "paths.py") or imports(TESTS / test, name), (
            f"{test} does not import {name}"
        )


def test_a_test_is_named_after_what_is_there() -> None:
    """A test of a package is of a file in it."""
    for path in (TESTS / "unit/node").glob("*/test_*.py"):
        name = f"{path.parent.name}/{path.name.removeprefix('test_')}"
        assert (PLUGINS / "module_utils" / name).is_file(), f"{path.name} is named after nothing in {path.parent.name}"
