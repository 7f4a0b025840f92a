"""A person who wants their use of a GPU to look like a neighbour's, or not to be seen: real processes, real cgroups."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.devices import Scanner, nodes
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners, identify
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.table import UNKNOWN

pytestmark = pytest.mark.root
MALLORY, ALICE = 29_001, 29_002
NAMES = {MALLORY: "mallory", ALICE: "alice", 0: "root"}
BEGIN = """
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(4, 1, 0, 0, 0)  # as after a login: setuid made her files in /proc root's
device, neighbour, own = sys.argv[1:4]
def done():
    print(os.getpid(), flush=True)
    time.sleep(100)
"""
#: What mallory does before she says that she is there. She has the device open at the end of each.
TRICKS = {
    "nothing": "os.open(device, os.O_RDONLY); done()",
    "a name": "open('/proc/self/comm', 'w').write(') S 1 29002'); os.open(device, os.O_RDONLY); done()",
    "a name that is a status": "libc.prctl(15, b'x\\nUid:\\t29002', 0, 0, 0); os.open(device, os.O_RDONLY); done()",
    "not dumpable": "libc.prctl(4, 0, 0, 0, 0); os.open(device, os.O_RDONLY); done()",
    "orphaned": "os.open(device, os.O_RDONLY)\nif os.fork(): os._exit(0)\nos.setsid()\ndone()",
    "a user namespace as root": "os.open(device, os.O_RDONLY); assert libc.unshare(0x10000000) == 0\n"
    "open('/proc/self/setgroups', 'w').write('deny'); open('/proc/self/uid_map', 'w').write('0 29001 1'); done()",
    "a mapping of the neighbour": "os.open(device, os.O_RDONLY); assert libc.unshare(0x10000000) == 0\n"
    "try: open('/proc/self/uid_map', 'w').write('0 29002 1')\nexcept OSError: pass\ndone()",
    "namespaces of all kinds": "os.open(device, os.O_RDONLY)\n"
    "assert libc.unshare(0x10000000 | 0x20000000 | 0x20000 | 0x2000000) == 0\nif os.fork(): os._exit(0)\ndone()",
    "a slice called like the neighbour's": "path = own + '/user.slice/user-29002.slice/user@29002.service'\n"
    "os.makedirs(path, exist_ok=True); open(path + '/cgroup.procs', 'w').write('0')\n"
    "os.open(device, os.O_RDONLY); done()",
    "into the neighbour's slice": "try: open(neighbour + '/cgroup.procs', 'w').write('0')\nexcept OSError: pass\n"
    "os.open(device, os.O_RDONLY); done()",
    "the descriptor alone": "fd = os.open(device, os.O_RDONLY); os.dup2(fd, 900); os.close(fd); done()",
    "another thread's": "os.open(device, os.O_RDONLY)\nthreading.Thread(target=done).start()\ntime.sleep(100)",
}


def cgroup2() -> Path:
    """Where this machine has cgroup v2."""
    text = Path("/proc/self/mountinfo").read_text()
    found = re.search(r"(?m)^\d+ \d+ \S+ / (\S+) .* - cgroup2 ", text)
    assert found is not None, "this machine has no cgroup v2"
    return Path(found.group(1))


@pytest.fixture
def slices() -> Iterator[dict[int, Path]]:
    """A slice for each person, the service in it given to them, as systemd does."""
    base = cgroup2() / "user.slice"
    there = base.exists()
    made: dict[int, Path] = {}
    for uid in (MALLORY, ALICE):
        made[uid] = base / f"user-{uid}.slice/user@{uid}.service"
        made[uid].mkdir(parents=True)
        for path in (made[uid], made[uid] / "cgroup.procs", made[uid] / "cgroup.subtree_control"):
            os.chown(path, uid, uid)
    yield made
    for at in [*(path.parent for path in made.values()), *([] if there else [base])]:
        directories = sorted((path for path in at.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
        for path in [*directories, at]:
            end = time.monotonic() + 5
            while path.exists() and time.monotonic() < end:
                try:
                    path.rmdir()
                except OSError:
                    time.sleep(0.05)  # a process that was killed is in it for a moment


@contextmanager
def person(uid: int, cgroup: Path, trick: str, device: Path, neighbour: Path) -> Iterator[int]:
    # all that she needs is loaded before she is herself: this Python may be in a home that is closed to her
    script = f"import ctypes, os, sys, threading, time\nopen({str(cgroup / 'cgroup.procs')!r}, 'w').write('0')\n"
    script += f"os.setgid({uid}); os.setuid({uid})\n"
    script += BEGIN + textwrap.dedent(trick)
    command = [sys.executable, "-c", script, str(device), str(neighbour), str(cgroup)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        word = process.stdout.readline()
        assert word, f"{trick}: she could not"
        numbers = sorted(int(path.name) for path in Path("/proc").glob("[0-9]*"))
        pid = next(number for number in numbers if _is(number, process.pid, int(word), uid))
        try:
            yield pid
        finally:
            for one in {pid, process.pid}:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)


def _is(pid: int, begun: int, word: int, uid: int) -> bool:
    """The process that said its number: in a namespace of its own that is another one."""
    if pid == begun:
        return word == begun
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("NSpid:"))
        owner = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1]
    except (OSError, StopIteration):
        return False
    return line.split()[-1] == str(word) and owner == str(uid) and len(line.split()) <= 3


@pytest.fixture
def device(tmp_path: Path) -> Path:
    at = tmp_path / "dev/nvidia0"
    at.parent.mkdir()
    os.mknod(at, 0o20666, os.makedev(1, 3))
    at.chmod(0o666)
    for above in at.parents:
        above.chmod(above.stat().st_mode | 0o011)
    return at


@pytest.mark.parametrize("trick", TRICKS)
def test_her_use_is_hers(trick: str, slices: dict[int, Path], device: Path, tmp_path: Path) -> None:
    subuid = tmp_path / "subuid"
    subuid.write_text("mallory:100000:65536\nalice:165536:65536\n")
    uids = {name: uid for uid, name in NAMES.items()}
    owners = Owners(str(subuid), NAMES.get, lambda name: (uids[name],) * 2 if name in uids else None)
    owners.refresh()
    with ExitStack() as stack:
        pid = stack.enter_context(person(MALLORY, slices[MALLORY], TRICKS[trick], device, slices[ALICE]))
        os.kill(pid, signal.SIGSTOP)
        scanner, found = Scanner(owners), nodes(str(device.parent))
        for _ in range(2):
            scanner.step(found, 60)
        assert pid in scanner.held, "it is seen"
        whose = identify(pid, owners)
        assert whose is not None
        assert whose.user == "mallory"


def test_with_a_neighbours_rights_it_is_nobodys(slices: dict[int, Path], device: Path, tmp_path: Path) -> None:
    """Whoever has both people's rights (a password, a setuid program) is not taken for one of them."""
    (tmp_path / "subuid").write_text("")
    owners = Owners(str(tmp_path / "subuid"), NAMES.get, lambda name: None)
    with person(ALICE, slices[MALLORY], TRICKS["nothing"], device, slices[ALICE]) as pid:
        whose = identify(pid, owners)
        assert whose is not None
        assert whose.user == UNKNOWN
