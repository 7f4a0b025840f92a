"""The read-only root, on a real btrfs in a file: opened, closed whatever happens, never a received one."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import converge as accounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import directories
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard

from tests.support.lock_holder import held
from tests.support.machine import cannot_mount

PROGRAM = Path(guard.__file__)


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


@pytest.fixture(scope="module")
def btrfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mounted btrfs with a read-only subvolume roots/a; yields the directory of the mount points."""
    base = tmp_path_factory.mktemp("btrfs")
    image, top = base / "disk", base / "top"
    with image.open("wb") as stream:
        stream.truncate(256 << 20)
    run("mkfs.btrfs", "-q", image)
    top.mkdir()
    try:
        run("mount", "-o", "loop", image, top)
    except subprocess.CalledProcessError as error:
        cannot_mount(error)
    try:
        yield base
    finally:
        subprocess.run(["umount", "-l", str(top)], check=False)


@pytest.fixture
def node(btrfs: Path, tmp_path: Path) -> Iterator[Path]:
    """A root at its own mount point, read-only, with /var and /run outside of it as on a node."""
    name = tmp_path.name
    top = btrfs / "top"
    run("mkdir", "-p", top / "roots")
    run("btrfs", "subvolume", "create", top / "roots" / name)
    subvolume = top / "roots" / name
    for directory in ("etc", "var", "run", "local"):
        (subvolume / directory).mkdir()
    for kind, text in (("passwd", "root:x:0:0::/:/bin/sh\n"), ("shadow", "root:*:1::::::\n"), ("group", "root:x:0:\n")):
        (subvolume / "etc" / kind).write_text(text)
    run("btrfs", "property", "set", "-ts", subvolume, "ro", "true")
    point = tmp_path / "node"
    point.mkdir()
    device = subprocess.run(
        ["findmnt", "-n", "-o", "SOURCE", top], check=True, capture_output=True, text=True
    ).stdout.split("[")[0].strip()  # fmt: skip
    run("mount", "-o", f"subvol=/roots/{name}", device, point)
    for directory in ("var", "run", "local"):
        run("mount", "-t", "tmpfs", "tmpfs", point / directory)
    (point / "var/lib").mkdir()
    try:
        yield point
    finally:
        subprocess.run(["umount", "-R", "-l", str(point)], check=False)


def places(node: Path) -> dict[str, str]:
    return {"state": str(node / "var/lib/gpuadmin"), "run": str(node / "run/gpuadmin")}


def options(node: Path) -> list[str]:
    return ["--root", str(node), "--state", places(node)["state"], "--run", places(node)["run"]]


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # asked again until it is so


def test_an_ordinary_root_is_left_alone(tmp_path: Path) -> None:
    with guard.open_root(str(tmp_path), run=str(tmp_path / "run")) as opened:
        assert not opened
    assert "ordinary" in guard.close_left_open(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.btrfs
def test_open_and_closed_again(node: Path) -> None:
    path = str(node)
    assert guard.is_read_only(path)
    with pytest.raises(OSError, match="Read-only"):
        (node / "etc/x").write_text("")

    def work() -> None:
        with guard.open_root(path, **places(node)) as opened:
            assert opened
            (node / "etc/x").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert guard.is_read_only(path)


@pytest.mark.btrfs
def test_the_last_of_two_closes(node: Path) -> None:
    path = str(node)
    with guard.open_root(path, **places(node)):
        with guard.open_root(path, **places(node)):
            pass
        assert not guard.is_read_only(path)
        assert "held open" in guard.close_left_open(path, **places(node))
    assert guard.is_read_only(path)


@pytest.mark.btrfs
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_root_is_closed_when_its_holder_dies(node: Path, number: signal.Signals) -> None:
    holder = subprocess.Popen([sys.executable, "-I", PROGRAM, "hold-root", "--lease", "60", *options(node)])
    until(lambda: not guard.is_read_only(str(node)))
    holder.send_signal(number)
    holder.wait(60)
    until(lambda: guard.is_read_only(str(node)))


@pytest.mark.btrfs
def test_a_holder_that_is_stopped_is_named_and_its_end_closes_the_root(node: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-I", PROGRAM, "hold-root", "--lease", "60", *options(node)])
    until(lambda: not guard.is_read_only(str(node)))
    holder.send_signal(signal.SIGSTOP)
    until(lambda: f"process {holder.pid} " in guard.close_left_open(str(node), **places(node)))
    until(lambda: "stopped" in guard.close_left_open(str(node), **places(node)))
    assert not guard.is_read_only(str(node))
    holder.kill()
    holder.wait(60)
    until(lambda: guard.is_read_only(str(node)))


@pytest.mark.btrfs
def test_the_lease_ends_and_can_be_renewed(node: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-I", PROGRAM, "hold-root", "--lease", "3", *options(node)])
    until(lambda: not guard.is_read_only(str(node)))
    guard.write_deadline(60, places(node)["run"])
    time.sleep(3.5)  # longer than the first lease, and much shorter than the second
    assert not guard.is_read_only(str(node))
    guard.write_deadline(0, places(node)["run"])
    holder.wait(60)
    assert guard.is_read_only(str(node))


@pytest.mark.btrfs
def test_boot_closes_what_a_cut_left_open(node: Path) -> None:
    guard.set_read_only(str(node), False)
    closed = subprocess.run(
        [sys.executable, "-I", PROGRAM, "close-root", *options(node)], check=True, capture_output=True, text=True
    )
    assert "closed" in closed.stdout
    assert guard.is_read_only(str(node))


@pytest.mark.btrfs
def test_a_received_root_is_never_opened(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert guard.received_uuid(str(node)) is None
    monkeypatch.setattr(guard, "received_uuid", lambda _path: b"x")
    with pytest.raises(guard.RootError, match="received subvolume"), guard.open_root(str(node), **places(node)):
        pass
    assert guard.is_read_only(str(node))


@pytest.mark.btrfs
def test_received_uuid_is_read(btrfs: Path) -> None:
    top = btrfs / "top"
    run("btrfs", "subvolume", "create", top / "image")
    run("btrfs", "property", "set", "-ts", top / "image", "ro", "true")
    (top / "in").mkdir()
    with subprocess.Popen(["btrfs", "send", "-q", str(top / "image")], stdout=subprocess.PIPE) as send:
        subprocess.run(["btrfs", "receive", "-q", str(top / "in")], stdin=send.stdout, check=True)
    assert guard.received_uuid(str(top / "image")) is None
    assert guard.received_uuid(str(top / "in/image")) is not None


@pytest.mark.btrfs
def test_accounts_open_the_root_only_for_a_change(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(root=str(node))
    assert host.identity() == f"/roots/{node.parent.name}"
    request = Request(Settings(docker_data="/local/.docker"), [{"name": "minji", "uid": 20001}])
    assert converge(request, host, check=True).changed
    assert converge(request, host).changed
    assert guard.is_read_only(str(node))
    assert "minji" in (node / "etc/passwd").read_text()
    monkeypatch.setattr(accounts, "open_root", lambda *_a, **_k: pytest.fail("opened"))
    assert not converge(request, host).changed


@pytest.mark.btrfs
def test_a_failing_pass_leaves_the_root_closed(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_more: object) -> None:
        assert not guard.is_read_only(str(node))
        raise OSError(28, "No space left on device")

    host = Host(root=str(node))
    real = accounts.write_atomic
    monkeypatch.setattr(accounts, "write_atomic", full)
    with pytest.raises(NodeError, match="No space left"):
        converge(Request(Settings(), [{"name": "minji", "uid": 20001}]), host)
    assert guard.is_read_only(str(node))
    monkeypatch.setattr(accounts, "write_atomic", real)
    assert converge(Request(Settings(), [{"name": "minji", "uid": 20001}]), host).changed


@pytest.mark.btrfs
def test_homes_as_subvolumes(btrfs: Path, tmp_path: Path) -> None:
    top = btrfs / "top"
    request = directories.Request(
        str(top / "homes"), users=[{"name": "minji", "uid": 20001}], mountpoint=str(top), subvolume=True
    )
    assert directories.converge(request, lock=str(tmp_path / "lock")).homes["minji"].status == "created"
    home = (top / "homes/minji").stat()
    assert (home.st_ino, home.st_uid, home.st_mode & 0o777) == (256, 20001, 0o700)


root_only = pytest.mark.root  # acts as other users


@root_only
def test_the_locks_of_the_root_are_roots_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o755)
    os.close(guard._lock_file(str(run)))
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / "root.lock").stat().st_mode) == 0o600
    run.chmod(0o755)
    guard.write_deadline(5, str(run))
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    os.chown(run, 20001, 20001)
    with pytest.raises(guard.RootError, match="not root's directory"):
        guard._lock_file(str(run))


def test_nobody_waits_for_ever_for_one_who_closes_the_root(tmp_path: Path) -> None:
    lock = guard._lock_file(str(tmp_path))
    with held(tmp_path / "root.lock") as pid:
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(guard.RootError, match=f"root.lock has been held .* by process {pid} "):
            guard._wait(lock, str(tmp_path), 0.2)
    os.close(lock)
