"""A person who wants their use of a GPU to look like a neighbour's, or not to be seen: real processes, real cgroups."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import devices
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.containers import Names
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.devices import Scanner, nodes
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners, identify

from gpuadmin.common.metrics import UNKNOWN

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
        made[uid].mkdir(parents=True, exist_ok=True)  # a run that was killed has left it
        for path in (made[uid], made[uid] / "cgroup.procs", made[uid] / "cgroup.subtree_control"):
            os.chown(path, uid, uid)
    yield made
    for at in [*(path.parent for path in made.values()), *([] if there else [base])]:
        directories = sorted((path for path in at.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
        for path in [*directories, at]:
            end = time.monotonic() + 60
            while path.exists() and time.monotonic() < end:
                try:
                    path.rmdir()
                except OSError:
                    time.sleep(0.05)  # a process that was killed is in it for a moment


@contextmanager
def person(uid: int, cgroup: Path, trick: str, device: Path, neighbour: Path) -> Iterator[int]:
    # all that she needs is loaded before she is herself: this Python may be in a home that is closed to her
    script = "import ctypes, json, os, socket, sys, threading, time\n"
    script += f"open({str(cgroup / 'cgroup.procs')!r}, 'w').write('0')\n"
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


#: She answers as a daemon, that the neighbour's container is hers, and that its first process is the neighbour's.
DAEMON = """
path, ident, pid = json.loads(device)
channel = socket.socket(socket.AF_UNIX)
channel.bind(path)
channel.listen(9)
print(os.getpid(), flush=True)
while True:
    client = channel.accept()[0]
    question = client.recv(4096)
    one = {"Id": ident, "Names": ["/of-alice"], "State": {"Pid": pid}}
    body = json.dumps(one if ident.encode() in question else [one]).encode()
    client.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + body)
    client.close()
"""
IDENT = "ab" * 32


@pytest.fixture
def socket() -> Iterator[Path]:
    at = Path(f"/run/user/{MALLORY}")
    at.mkdir(parents=True)
    os.chown(at, MALLORY, MALLORY)
    yield at / "docker.sock"
    shutil.rmtree(at)


def test_her_daemon_names_nothing_of_the_neighbours(
    slices: dict[int, Path], device: Path, tmp_path: Path, socket: Path
) -> None:
    """Also when she stops it: who waits for an answer is the mapper, and for half a second."""
    (tmp_path / "subuid").write_text("")
    owners = Owners(str(tmp_path / "subuid"), NAMES.get, lambda name: None)
    names = Names(alive=lambda uid: uid == MALLORY)
    host = str(Path("/proc/self/ns/pid").readlink())
    inner = {uid: at / f"docker-{IDENT}.scope" for uid, at in slices.items()}
    for at in inner.values():
        at.mkdir()
    with ExitStack() as stack:
        theirs = stack.enter_context(person(ALICE, inner[ALICE], TRICKS["nothing"], device, slices[ALICE]))
        hers = stack.enter_context(person(MALLORY, inner[MALLORY], TRICKS["nothing"], device, slices[ALICE]))
        claim = Path(json.dumps([str(socket), IDENT, theirs]))
        daemon = stack.enter_context(person(MALLORY, slices[MALLORY], DAEMON, claim, slices[ALICE]))
        both = [one for one in (identify(pid, owners) for pid in (hers, theirs)) if one is not None]
        names.learn(both, host)
        found = [(one.user, names.of(one, host)) for one in both]
        assert found == [("mallory", "of-alice"), ("alice", IDENT[:12])], "what she says is of what is hers"
        os.kill(daemon, signal.SIGSTOP)
        again, began = Names(alive=lambda uid: uid == MALLORY), time.monotonic()
        again.learn(both, host)
        assert time.monotonic() - began < 60, "she stays stopped"
        assert again.silent == {MALLORY}
        assert [(one.user, again.of(one, host)) for one in both] == [("mallory", IDENT[:12]), ("alice", IDENT[:12])]


@pytest.mark.parametrize(("processes", "files"), [(12, 1), (1, 30)])
def test_behind_many_of_her_own_she_is_named_and_the_neighbour_is_seen(
    slices: dict[int, Path], device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, files: int
) -> None:
    """More processes, or files of one, than are looked at: what she hides is told by her name."""
    monkeypatch.setattr(devices, "MOST_PROCESSES", 8)
    monkeypatch.setattr(devices, "MOST_FILES", 20)
    (tmp_path / "subuid").write_text("")
    owners = Owners(str(tmp_path / "subuid"), NAMES.get, lambda name: None)
    trick = f"[os.open('/dev/null', 0) for _ in range({files})]\nfor _ in range({processes}):\n"
    trick += "    if not os.fork(): time.sleep(100); os._exit(0)\nos.open(device, os.O_RDONLY); done()"
    with ExitStack() as stack:
        stack.callback(_end_all, slices[MALLORY])
        stack.enter_context(person(MALLORY, slices[MALLORY], trick, device, slices[ALICE]))
        theirs = stack.enter_context(person(ALICE, slices[ALICE], TRICKS["nothing"], device, slices[ALICE]))
        scanner, found = Scanner(owners), nodes(str(device.parent))
        for _ in range(2):
            scanner.step(found, 60)
        assert MALLORY in scanner.incomplete
        assert ALICE not in scanner.incomplete
        assert theirs in scanner.held


def _end_all(cgroup: Path) -> None:
    for pid in (cgroup / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
