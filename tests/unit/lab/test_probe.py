"""What this machine can be for a lab: what is tried, that nothing stays, and what follows from it."""

import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuadmin.lab import probe
from tests.support.machine import able

GIB = 1 << 30


def test_it_needs_no_environment() -> None:
    """`make` asks before there is one: -S leaves out what pip has installed."""
    words = [sys.executable, "-S", "scripts/system_packages.py", "demo"]
    done = subprocess.run(words, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stderr.splitlines() if line.startswith(("This", "Light", "Virtual"))] == [
        "This", "Light", "Virtual"]  # fmt: skip


@pytest.mark.root
def test_nothing_of_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    probe.look.__wrapped__()
    loops = subprocess.run(("losetup", "--list", "--output", "BACK-FILE"), capture_output=True, text=True, check=True)
    assert str(tmp_path) not in loops.stdout + Path("/proc/self/mountinfo").read_text()
    assert list(tmp_path.iterdir()) == []
    top = probe.cgroup_root()
    assert top is None or not (top / f"gpuadmin-probe-{os.getpid()}").exists()


def fake(place: Path, name: str, body: str) -> None:
    (place / name).write_text(f"#!/bin/sh\n{body}\n")
    (place / name).chmod(0o755)


REFUSED = "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1"


@pytest.mark.parametrize(
    ("programs", "lacking"),
    [
        # a container: root's number, and nothing that it can do
        (
            {"unshare": REFUSED, "losetup": "echo 'losetup: cannot find an unused loop device' >&2; exit 1"},
            {"mounts": "unshare failed: Operation not permitted", "loop devices": "cannot find an unused loop device",
             "btrfs mounts": "cannot find an unused loop device",
             "user namespaces": "unshare failed: Operation not permitted"},
        ),
        ({"unshare": "exit 0", "losetup": "echo /dev/loop9"}, {}),
        (
            {"unshare": "exit 3", "losetup": "echo no; exit 1"},
            {"mounts": "unshare ended with 3", "loop devices": "no", "btrfs mounts": "no",
             "user namespaces": "unshare ended with 3"},
        ),
        # what is not installed yet is asked for, and tried when it is there
        ({}, {}),
    ],
    ids=["a container", "a machine", "no words", "nothing installed"],
)  # fmt: skip
def test_what_is_tried_is_what_is_said(
    programs: dict[str, str], lacking: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, body in programs.items():
        fake(tmp_path, name, body)
    monkeypatch.setattr(probe, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    tried = ("user namespaces", "mounts", "loop devices", "btrfs mounts")
    assert {name: why for name in tried if (why := probe.ATTEMPTS[name]())} == lacking


def test_a_full_disk_is_the_reason_and_not_what_mkfs_says_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(probe.shutil, "disk_usage", lambda _place: SimpleNamespace(free=1 << 20))
    assert probe.ATTEMPTS["btrfs mounts"]() == f"{tmp_path} is too full to try: TMPDIR chooses another place"


def test_a_cgroup_is_made_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "cgroup_root", lambda: tmp_path)
    assert probe.ATTEMPTS["cgroup v2"]() == ""
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(probe, "cgroup_root", lambda: tmp_path / "gone")
    assert "no cgroup can be made in" in probe.ATTEMPTS["cgroup v2"]()
    monkeypatch.setattr(probe, "cgroup_root", lambda: None)
    assert probe.ATTEMPTS["cgroup v2"]() == "cgroup v2 is not mounted"


@pytest.mark.parametrize(
    ("machine", "light", "machines"),
    [
        (able(), "", ""),
        (able("root"), "no root here", ""),  # mmdebstrap does with a user namespace
        (able("root", "user namespaces"), "no root here", "they need user namespaces (no user namespaces here)"),
        (able("loop devices"), "no loop devices here", ""),
        (able("btrfs mounts", "/dev/kvm"), "no btrfs mounts here", ""),
        (able(memory=2 * GIB), "", "three hosts need 3.5 GiB of memory, and 2.0 GiB are free"),
        (able(memory=GIB), "three hosts need 1.5 GiB of memory, and 1.0 GiB are free", "three hosts need 3.5 GiB"),
        (able(space=GIB), "three hosts need 4 GiB of disk, and 1.0 GiB are free", "three hosts need 4 GiB of disk"),
        (able(unwritable="/root cannot be written"), "/root cannot be written", "/root cannot be written"),
    ],
)
def test_where_a_lab_can_be(machine: probe.Machine, light: str, machines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert machine.why_no_light() == light
    assert bool(machine.why_no_light(sized=False)) is (bool(light) and "three hosts" not in light)
    assert machine.why_no_machines().startswith(machines)
    assert bool(machine.why_no_machines()) is bool(machines)
    assert bool(machine.why_no_lab()) is (bool(light) and bool(machines))


def test_another_processor_has_no_virtual_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "this machine is aarch64" in able().why_no_machines()


def test_it_says_what_there_is_what_runs_where_and_what_is_left_out() -> None:
    said = "\n".join(able("loop devices", "/dev/kvm", space=5 * GIB).lines("demo"))
    assert "This machine has root, user namespaces, mounts, btrfs mounts, cgroup v2, 1024.0 GiB of free memory" in said
    assert "It does not have loop devices (no loop devices here); /dev/kvm (no /dev/kvm here)." in said
    assert "Light hosts (root and 1.5 GiB of memory): no, no loop devices here." in said
    assert "Virtual machines (KVM, to be fast, and 3.5 GiB): yes, emulated and slow." in said
    assert "It takes up to 8 GiB of disk, and 5.0 GiB are free." in said
    assert "no sudo that lets you become root" in "\n".join(able("root").lines("fast"))
    assert "Root: by sudo." in replace(able("root"), sudo="by sudo").lines("fast")
    assert "3.5 GiB): no, three hosts need 3.5 GiB" in "\n".join(able(memory=GIB).lines("test"))
    sizes = "1024.0 GiB of free memory, 1024.0 GiB of free disk"
    assert list(able().lines("demo")) == [
        f"This machine has {', '.join(probe.ATTEMPTS)}, {sizes}.",
        "Light hosts (root and 1.5 GiB of memory): yes.", "Virtual machines (KVM, to be fast, and 3.5 GiB): yes.",
        "It takes up to 8 GiB of disk.",
    ]  # fmt: skip


def test_why_there_can_be_no_lab() -> None:
    assert able(unwritable="/root cannot be written").why_no_lab() == "/root cannot be written"
    words = "no light hosts: no root here; no virtual machines: they need user namespaces (no user namespaces here)"
    assert able("root", "user namespaces").why_no_lab() == words


@pytest.mark.parametrize("error", [OSError(8, "Exec format error"), subprocess.TimeoutExpired("unshare", 20)])
def test_a_program_that_cannot_be_tried_is_a_reason(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    assert probe.ATTEMPTS["user namespaces"]() == str(error)


@pytest.mark.parametrize(
    ("uid", "programs", "terminal", "words"),
    [
        (0, {"sudo": "exit 0"}, True, ""),
        (7, {}, True, ""),
        (7, {"sudo": "exit 0"}, True, "sudo needs no password here"),
        (7, {"sudo": '[ "$2" = apt-get ]', "apt-get": ""}, True, "sudo needs no password here"),
        (7, {"sudo": '[ "$2" = true ]'}, True, "sudo needs no password here"),
        (7, {"sudo": "exit 1"}, True, "sudo asks for a password"),
        (7, {"sudo": "exit 1"}, False, "sudo asks for a password, and there is no terminal"),
    ],
)
def test_how_this_user_becomes_root(
    uid: int, programs: dict[str, str], terminal: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, body in programs.items():
        fake(tmp_path, name, body)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(probe, "ATTEMPTS", {})
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal)
    assert probe.look.__wrapped__().sudo == words


@pytest.mark.root
def test_a_home_that_cannot_be_written_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc")
    why = probe._why_unwritable(probe.cache_directory())
    assert why.startswith("/proc cannot be written (")
    assert "XDG_CACHE_HOME and XDG_STATE_HOME choose other places" in why


def test_a_container_s_memory_is_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text
    files = {"/sys/fs/cgroup/memory.max": "2147483648\n", "/sys/fs/cgroup/memory.current": "1073741824\n",
             "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 8388608 kB\nSwapFree: 0 kB\n"}  # fmt: skip

    def text(path: Path, *more: Any, **named: Any) -> str:
        if str(path) in files:
            return files[str(path)]
        if str(path).startswith("/sys/fs/cgroup"):
            raise FileNotFoundError(str(path))
        return read(path, *more, **named)

    monkeypatch.setattr(Path, "read_text", text)
    assert probe._free_memory() == GIB
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert probe._free_memory() == 8 * GIB
