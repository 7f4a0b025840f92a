"""Which processes have a GPU open: real processes, and device nodes that are another device's numbers."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import devices as package
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.devices import Scanner, by_name, nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.metrics_host import Host, user_cgroup
from tests.support.unfinished import first_thread_ended

#: It opens what it is told to, says so, and waits.
HOLDER = (
    "import os, sys, time\nfor path in sys.argv[1:]:\n    os.open(path, os.O_RDONLY)\nprint(flush=True)\ntime.sleep(60)"
)
MOUNTS = "30 1 0:5 / /dev rw - devtmpfs udev rw\n"


def test_our_sampler_holds_no_gpu(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for pid, unit in ((7, package.SAMPLER), (8, f"x-{package.SAMPLER}")):
        host.process(pid, 990, f"0::/system.slice/{unit}\n", files={3: ("/dev/nvidia0", 5, 30)}, mounts=MOUNTS)
    scanner = Scanner(host.owners(), str(host.proc))
    for _ in range(2):
        scanner.step({5: [("0:5", ("gpu", 0))]}, 10)
    assert scanner.held == {8: frozenset({("gpu", 0)})}


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """A /dev of two GPUs, a part of one, and unified memory's device: all with the numbers of /dev/null."""
    at = tmp_path / "dev"
    (at / "nvidia-caps").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-caps/nvidia-cap12"):
        os.mknod(at / name, 0o20666, os.makedev(1, 3))
    (at / "nvidia7").write_text("an ordinary file")
    return at


@contextmanager
def holder(*command: str) -> Iterator[int]:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def held(dev: Path, tmp_path: Path) -> dict[int, frozenset[package.Key]]:
    host_at = tmp_path / f"host{time.monotonic_ns()}"
    host_at.mkdir()
    scanner = Scanner(Host(host_at).owners())
    found = nodes(str(dev))
    scanner.step(found, 10)
    scanner.step(found, 10)
    assert scanner.rounds == 2
    return scanner.held


@pytest.mark.root
def test_the_nodes_of_a_host(dev: Path) -> None:
    keys = sorted(key for found in nodes(str(dev)).values() for _, key in found)
    assert keys == [("cap", 12), ("gpu", 0), ("gpu", 1)]
    assert nodes(str(dev / "nothing")) == {}


@pytest.mark.root
def test_who_has_it_open(dev: Path, tmp_path: Path) -> None:
    paths = [str(dev / name) for name in ("nvidia1", "nvidia0", "nvidiactl")]
    with (
        holder(sys.executable, "-c", HOLDER, *paths) as pid,
        holder(sys.executable, "-c", HOLDER, "/dev/null") as other,
    ):
        found = held(dev, tmp_path)
        assert found[pid] == {("gpu", 0), ("gpu", 1)}
        assert other not in found, "another device of the same numbers is none"


@pytest.mark.root
def test_another_name_in_a_namespace_of_ones_own_hides_nothing(dev: Path, tmp_path: Path) -> None:
    """A device that is bound to an innocent name, the mount of which is then taken away."""
    innocent = tmp_path / "innocent"
    innocent.touch()
    script = f"mount --bind {dev}/nvidia0 {innocent}; exec '{sys.executable}' -c '{HOLDER}' {innocent}"
    with holder("unshare", "-m", "sh", "-c", script) as pid:
        assert Path(f"/proc/{pid}/fd/3").readlink() == innocent
        assert held(dev, tmp_path)[pid] == {("gpu", 0)}
    script = f"mount --bind {dev}/nvidia0 {innocent}; exec 3<{innocent}; umount -l {innocent}; echo; exec sleep 60"
    with holder("unshare", "-m", "sh", "-c", script) as pid:
        assert held(dev, tmp_path)[pid] == {("gpu", 0)}


@pytest.mark.root
def test_a_file_that_is_called_like_a_device_is_none(dev: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "dev").mkdir(parents=True)
    (mine / "dev/nvidia0").touch()
    script = f"mount --bind {mine}/dev {dev}; exec '{sys.executable}' -c '{HOLDER}' {dev}/nvidia0"
    with holder("unshare", "-m", "sh", "-c", script) as pid:
        assert pid not in held(dev, tmp_path)


@pytest.mark.root
def test_a_stopped_process_holds_it(dev: Path, tmp_path: Path) -> None:
    with holder(sys.executable, "-c", HOLDER, str(dev / "nvidia0")) as pid:
        os.kill(pid, 19)
        assert held(dev, tmp_path)[pid] == {("gpu", 0)}


@pytest.mark.root
def test_a_process_without_its_first_thread_holds_it(dev: Path, tmp_path: Path) -> None:
    with (
        (dev / "nvidia1").open() as card,
        (dev / "nvidia0").open() as memory,
        first_thread_ended(31151, card.fileno(), memory.fileno()) as process,
    ):
        assert held(dev, tmp_path)[process.pid] == {("gpu", 0), ("gpu", 1)}


#: What it is told to open, a thread of its opens, which has files of its own.
APART = """
import ctypes, os, sys, threading, time
def run():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES
    for path in sys.argv[1:]:
        os.open(path, os.O_RDONLY)
    print(flush=True)
    time.sleep(60)
threading.Thread(target=run).start()
"""


@pytest.mark.root
def test_a_thread_with_files_of_its_own_holds_it(dev: Path, tmp_path: Path) -> None:
    """The first one goes on, and has none of them."""
    with holder(sys.executable, "-c", APART, str(dev / "nvidia1"), str(dev / "nvidia0")) as pid:
        assert not any("nvidia" in str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir())
        assert held(dev, tmp_path)[pid] == {("gpu", 0), ("gpu", 1)}


@pytest.mark.root
def test_it_is_seen_when_it_is_let_go(dev: Path, tmp_path: Path) -> None:
    scanner, found = Scanner(Host(tmp_path).owners()), nodes(str(dev))
    scanner.step(found, 10)
    with holder(sys.executable, "-c", HOLDER, str(dev / "nvidia0")) as pid:
        for _ in range(2):
            scanner.step(found, 10)
        assert pid in scanner.held
    scanner.step(found, 0)
    assert pid not in scanner.held


def scan(host: Host, rounds: int = 2) -> Scanner:
    scanner = Scanner(host.owners(), str(host.proc))
    for _ in range(rounds):
        scanner.step(DEVICES, 10)
    return scanner


DEVICES = {5: [("0:5", ("gpu", 0))]}


def test_no_file_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """stat(2) of an open file of a dead NFS server or of somebody's FUSE never returns."""
    host = Host(tmp_path)
    host.process(7, 1001, user_cgroup(1001), files={3: ("/nfs/dead", 9, 31), 4: ("/dev/nvidia0", 5, 30)}, mounts=MOUNTS)
    real: Callable[..., os.stat_result] = os.stat

    def stat(path: str, *given: object, **others: object) -> os.stat_result:
        assert "/fd/" not in str(path)
        return real(path, *given, **others)

    monkeypatch.setattr(os, "stat", stat)
    scanner = scan(host, 3)
    assert scanner.held == {7: {("gpu", 0)}}


def test_the_same_inode_of_another_file_system_is_none(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.process(7, 1001, files={3: ("/tmp/x", 5, 40)}, mounts=MOUNTS + "40 1 8:1 / /tmp rw - ext4 x rw\n")
    scanner = scan(host)
    assert scanner.held == {}


@pytest.mark.root
def test_who_has_very_many_files_or_processes_costs_themselves_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "MOST_PROCESSES", 3)
    monkeypatch.setattr(package, "MOST_FILES", 5)
    host = Host(tmp_path)
    card = {3: ("/dev/nvidia0", 5, 30)}
    for pid in range(10, 20):
        host.process(pid, 1001, files=card, mounts=MOUNTS)
    host.process(20, 100005, files=card, mounts=MOUNTS)  # one in alice's container is one of hers
    host.process(30, 1002, files=card, mounts=MOUNTS)
    host.process(31, 1003, files=dict.fromkeys(range(9), ("/x", 1, 30)), mounts=MOUNTS)
    scanner = scan(host, 3)
    assert len(scanner._round()) == 5, "three of alice's, one of each other"
    assert 30 in scanner.held
    assert len([pid for pid in scanner.held if pid < 30]) == 3
    assert scanner.incomplete == {1001, 1003}


@pytest.mark.root
def test_who_has_very_many_processes_is_looked_at_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST_PROCESSES", 3)
    host = Host(tmp_path)
    for pid in range(10, 20):
        host.process(pid, 1001, files={3: ("/dev/nvidia0", 5, 30)} if pid == 19 else {}, mounts=MOUNTS)
    scanner = scan(host, 6)
    assert (set(scanner.held), scanner.incomplete) == ({19}, {1001})


@pytest.mark.root
def test_the_kernel_s_threads_hide_none_of_root_s_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large machine has thousands; what root runs comes after them."""
    monkeypatch.setattr(package, "MOST_PROCESSES", 3)
    host = Host(tmp_path)
    for pid in range(2, 20):
        host.process(pid, 0, program=None)
    host.process(30, 0, files={3: ("/dev/nvidia0", 5, 30)}, mounts=MOUNTS)
    scanner = scan(host, 3)
    assert (set(scanner.held), scanner.incomplete) == ({30}, frozenset())


def test_a_name_counts_only_where_the_kernel_says_no_inode(tmp_path: Path) -> None:
    """Somebody's own file, in a namespace in which it is called /dev/nvidia0, is not a GPU."""
    host = Host(tmp_path)
    host.process(7, 1001, files={3: ("/dev/nvidia0", 77, 30)}, mounts=MOUNTS)
    host.process(8, 1001, files={3: ("/dev/nvidia0", 0, 30)}, mounts=MOUNTS)
    scanner = scan(host)
    assert scanner.held == {8: {("gpu", 0)}}


@pytest.mark.root
def test_who_has_very_many_files_in_all_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 512 processes with 4096 each would take minutes of a round, in which nobody else is looked at."""
    monkeypatch.setattr(package, "MOST_OF_ONE", 12)
    host = Host(tmp_path)
    for pid in range(10, 20):
        host.process(pid, 1001, files=dict.fromkeys(range(5), ("/x", 1, 30)))
    host.process(30, 1002, files={3: ("/dev/nvidia0", 5, 30)}, mounts=MOUNTS)
    scanner = scan(host)
    assert scanner.incomplete == {1001}
    assert scanner.held == {30: {("gpu", 0)}}
    assert scanner._files == {}, "the next round begins with nothing"


@pytest.mark.root
def test_people_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path)
    for pid in range(10, 40):
        host.process(pid, 1001)
    host.process(99, 1002, files={3: ("/dev/nvidia0", 5, 30)}, mounts=MOUNTS)
    looked: list[int] = []
    ticks = iter(range(10_000))
    scanner = Scanner(host.owners(), str(host.proc), clock=lambda: float(next(ticks)))
    real = scanner._look

    def look(pid: int, devices: package.Nodes) -> None:
        looked.append(pid)
        real(pid, devices)

    monkeypatch.setattr(scanner, "_look", look)
    scanner.step(DEVICES, 10)
    scanner.step(DEVICES, 5)
    assert 99 in looked[:2]
    assert len(looked) < 10, "what is left is looked at in the next step"


INFO = st.binary(max_size=60) | st.lists(
    st.sampled_from([b"mnt_id:\t", b"ino:\t", b"5", b"30", b"-", b"9" * 5000, b"\n", b"\xff", b":", b"\0"]), max_size=10
).map(b"".join)


@settings(max_examples=100, deadline=None)
@given(INFO, INFO, st.text(st.characters(blacklist_characters="\0/", blacklist_categories=("Cs",)), max_size=20))
def test_nothing_of_a_process_ends_a_round(
    tmp_path_factory: pytest.TempPathFactory, info: bytes, mounts: bytes, name: str
) -> None:
    host = Host(tmp_path_factory.mktemp("fuzz"))
    host.process(7, 1001, files={3: (f"/{name}", 5, 30)})
    (host.proc / "7/fdinfo/3").write_bytes(info)
    (host.proc / "7/mountinfo").write_bytes(mounts)
    host.process(8, 1002, files={3: ("/dev/nvidia0", 5, 30)}, mounts=MOUNTS)
    scanner = scan(host)
    assert scanner.held[8] == {("gpu", 0)}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/dev/nvidia3", ("gpu", 3)),
        ("/dev/nvidia-caps/nvidia-cap4", ("cap", 4)),
        ("/dev/nvidiactl", None),
        ("/tmp/dev/nvidia0", None),
    ],
)
def test_by_name_where_the_kernel_says_no_inode(path: str, key: package.Key | None) -> None:
    assert by_name(path) == key


def test_whether_a_process_has_a_gpu_open(tmp_path: Path) -> None:
    """By inode, under whatever name; by name, where its container has device nodes of its own; nothing else counts."""
    host = Host(tmp_path)
    files = {7: ("/dev/other", 5), 8: ("/dev/nvidia0", 99), 9: ("/dev/nvidia1", 6), 10: ("socket:[5]", 5)}
    for pid, (path, inode) in files.items():
        host.process(pid, 1001, files={3: ("/etc/motd", 1, 30), 4: (path, inode, 30)}, mounts=MOUNTS)
    devices = {5: [("0:5", ("gpu", 0))], 6: [("0:5", ("gpu", 1))]}
    assert [package.has_open(pid, 0, devices, str(host.proc)) for pid in (*files, 11)] == [True, True, *[False] * 3]
