"""The whole pass on a directory that looks like a root: plan = deed, order, cuts, locks, the boot command."""

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands, files
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import converge as accounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import docker_self
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

root_only = pytest.mark.root  # gives files to other users
pytestmark = root_only
SETTINGS = Settings(docker_data="/local/.docker")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEwH0f5bI8ZzvWgIbc5uK1h6H8l2fFrj1v6J2p7mWb2T"
PEOPLE = [
    {"name": "minji", "uid": 20001, "keys": [KEY], "expires": 20800, "gecos": "김민지 <minji@example.org>"},
    {"name": "junho", "uid": 20002, "keys": [KEY, KEY + " two"], "docker": False},
    {"name": "yuna", "uid": 20003, "locked": True},
]
REFUSED = [
    {"name": "root", "uid": 20012},
    {"name": "zero", "uid": 0},
    {"name": 5, "uid": 20010},
    {"name": "many", "uid": "many"},
    {"name": "keyed", "uid": 20018, "keys": KEY},
]


def snapshot(host: Host) -> dict[str, bytes]:
    """Every regular file below the root but locks, with its content."""
    return {
        str(path.relative_to(host.root)): path.read_bytes()
        for path in sorted(Path(host.root).rglob("*"))
        if path.is_file() and "lock" not in path.name
    }


def test_plan_is_what_is_done_and_the_second_run_does_nothing(host: Host, etc: Callable[[str], str]) -> None:
    request = Request(SETTINGS, PEOPLE)
    before = snapshot(host)
    check = converge(request, host, check=True)
    assert snapshot(host) == before
    real = converge(request, host)
    assert real.plan.operations == check.plan.operations
    assert real.diff == check.diff
    assert real.plan.report() == check.plan.report()
    after = snapshot(host)
    assert not converge(request, host, check=True).changed
    assert not converge(request, host).changed
    assert snapshot(host) == after
    assert etc("passwd").startswith(before["etc/passwd"].decode())
    assert "gpuusers:x:19999:minji,junho,yuna\n" in etc("group")
    assert etc("subuid") == etc("subgid")
    assert [line.split(":")[0] for line in etc("subuid").splitlines()] == ["video-user", "minji", "yuna"]
    root = Path(host.root)
    assert (root / "var/lib/gpuadmin/keys/junho").read_text() == f"{KEY}\n{KEY} two\n"
    docker = (root / "local/.docker/minji").stat()
    assert (docker.st_uid, docker.st_gid, stat.S_IMODE(docker.st_mode)) == (20001, 20001, 0o700)
    for name, mode in (("etc/shadow", 0o640), ("etc/passwd", 0o644), ("var/lib/gpuadmin/accounts.json", 0o600)):
        assert stat.S_IMODE((root / name).stat().st_mode) == mode
    assert (root / "etc/passwd-").read_bytes() == before["etc/passwd"]
    assert not [path for path in root.rglob("*") if path.name.endswith((".gpuadmin-new", "passwd.lock"))]


def test_a_gecos_that_was_changed_by_hand_outlives_a_boot(host: Host, etc: Callable[[str], str]) -> None:
    converge(Request(SETTINGS, PEOPLE), host)
    passwd = Path(host.root) / "etc/passwd"
    passwd.write_text(passwd.read_text().replace("김민지 <minji@example.org>", "Minji"))
    assert commands.apply_accounts(host) == 0
    assert "minji:x:20001:20001:Minji:" in etc("passwd")


def test_the_diff_shows_no_hash(host: Host) -> None:
    shadow = Path(host.root) / "etc/shadow"
    passwd = Path(host.root) / "etc/passwd"
    passwd.write_text(passwd.read_text() + "minji:x:20001:20001::/home/minji:/bin/bash\n")
    shadow.write_text(shadow.read_text() + "minji:$y$topsecret:20000:0:99999:7:::\n")
    outcome = converge(Request(SETTINGS, [{"name": "minji", "uid": 20001, "locked": True}]), host)
    assert "topsecret" in shadow.read_text()
    assert "topsecret" not in json.dumps([outcome.diff, outcome.plan.operations, outcome.plan.report()], default=vars)


def test_users_who_are_refused_change_nothing_and_the_others_go_on(host: Host, etc: Callable[[str], str]) -> None:
    outcome = converge(Request(SETTINGS, [*REFUSED, PEOPLE[0]]), host)
    assert len(outcome.plan.conflicts) == len(REFUSED)
    assert outcome.plan.users["minji"].status == "missing"
    assert len(etc("passwd").splitlines()) == 7
    assert [path.name for path in (Path(host.root) / "var/lib/gpuadmin/keys").iterdir()] == ["minji"]
    assert [path.name for path in (Path(host.root) / "local/.docker").iterdir()] == ["minji"]
    assert not converge(Request(SETTINGS, [*REFUSED, PEOPLE[0]]), host).changed


@pytest.mark.parametrize("cut_before", ["shadow", "gshadow", "group", "subgid", "subuid", "passwd"])
def test_a_cut_between_two_files_is_finished_at_boot(
    host: Host, monkeypatch: pytest.MonkeyPatch, cut_before: str
) -> None:
    real_write = files.write_atomic

    def cut(path: str, *arguments: object, **more: object) -> None:
        if path == host.path(f"etc/{cut_before}"):
            raise KeyboardInterrupt
        real_write(path, *arguments, **more)

    monkeypatch.setattr(accounts, "write_atomic", cut)
    with pytest.raises(KeyboardInterrupt):
        converge(Request(SETTINGS, PEOPLE), host)
    monkeypatch.setattr(accounts, "write_atomic", real_write)
    assert commands.apply_accounts(host) == 0
    assert not converge(Request(SETTINGS, PEOPLE), host).changed
    for kind in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid"):
        lines = Path(host.path(f"etc/{kind}")).read_text().splitlines()
        names = [line.split(":")[0] for line in lines if ":" in line]
        people = [name for name in names if name in ("minji", "junho", "yuna")]
        assert people == (["minji", "yuna"] if kind.startswith("sub") else ["minji", "junho", "yuna"])
        assert len(names) == len(set(names))


def test_boot_gives_a_new_root_its_accounts_without_touching_a_right_one(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["apply-accounts"], host) == 0
    pristine = {name: Path(host.path(f"etc/{name}")).read_bytes() for name in ("passwd", "shadow", "group", "gshadow")}
    converge(Request(SETTINGS, PEOPLE), host)
    converge(Request(SETTINGS, (), [{"name": "yuna", "uid": 20003}]), host)
    applied = snapshot(host)
    monkeypatch.setattr(accounts, "open_root", lambda *_a, **_k: pytest.fail("the root was opened"))
    assert commands.main(["apply-accounts"], host) == 0
    assert "as they should be" in capsys.readouterr().out
    monkeypatch.undo()
    for name, data in pristine.items():
        Path(host.path(f"etc/{name}")).write_bytes(data)
    assert commands.main(["apply-accounts", "--check"], host) == 0
    assert Path(host.path("etc/passwd")).read_bytes() == pristine["passwd"]
    assert commands.main(["apply-accounts"], replace(host, subvolume="/roots/b")) == 0
    for name in pristine:
        assert snapshot(host)[f"etc/{name}"] == applied[f"etc/{name}"]


def test_a_cut_on_another_root_forgets_no_password(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = {name: Path(host.path(f"etc/{name}")) for name in ("passwd", "shadow", "group")}
    converge(Request(SETTINGS, PEOPLE[:1]), host)
    old = {name: path.read_text() for name, path in stale.items()}
    newer = old["shadow"].replace("minji:*:", "minji:$y$new:")
    stale["shadow"].write_text(newer)
    stale["group"].write_text(old["group"].replace("video:x:44:", "video:x:44:minji,"))
    converge(Request(SETTINGS, PEOPLE[:1]), host)
    fallback = replace(host, subvolume="/roots/old")
    for name, path in stale.items():
        path.write_text(old[name])
    monkeypatch.setattr(accounts, "_write_databases", lambda *_a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        commands.apply_accounts(fallback)
    monkeypatch.undo()
    assert commands.apply_accounts(fallback) == 0
    assert "minji:$y$new:" in stale["shadow"].read_text()
    assert "video:x:44:gpuadmin,video-user,minji\n" in stale["group"].read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read"), ('{"format": 2}', "format 2"), ('{"format": 1}', "cannot be read"), ("[]", "cannot be")],
)
def test_a_truth_that_cannot_be_read_stops_everything(host: Host, text: str, words: str) -> None:
    path = Path(host.root) / "var/lib/gpuadmin/accounts.json"
    path.parent.mkdir()
    path.write_text(text)
    before = snapshot(host)
    with pytest.raises(NodeError, match=words):
        converge(Request(SETTINGS, PEOPLE), host)
    assert commands.main(["apply-accounts"], host) == 1
    assert snapshot(host) == before


def test_missing_shadow_and_symlinked_passwd_are_refused(host: Host) -> None:
    etc = Path(host.root) / "etc"
    (etc / "shadow").rename(etc / "hidden")
    with pytest.raises(NodeError, match="/etc/shadow is missing"):
        converge(Request(SETTINGS, PEOPLE), host)
    (etc / "shadow").symlink_to("hidden")
    with pytest.raises(NodeError, match="symbolic link"):
        converge(Request(SETTINGS, PEOPLE), host)


def test_locks(host: Host) -> None:
    lock = Path(host.path("etc/passwd.lock"))
    lock.write_bytes(b"999999999\0")  # left by a process that is gone
    with files.shadow_lock(host.root, ("passwd", "group"), seconds=1):
        assert lock.read_bytes() == b"%d\0" % os.getpid()
    assert not lock.exists()
    lock.write_bytes(b"%d\0" % os.getpid())
    with pytest.raises(NodeError, match="is held by"), files.shadow_lock(host.root, ("passwd",), seconds=0.2):
        pass
    lock.unlink()
    child = os.fork()
    if not child:
        handle = os.open(host.path("etc/.pwd.lock"), os.O_WRONLY)
        fcntl.lockf(handle, fcntl.LOCK_EX)
        lock.with_name("ready").touch()
        time.sleep(30)  # it holds the lock until it is killed
        os._exit(0)
    try:
        while not lock.with_name("ready").exists():
            time.sleep(0.01)  # until the child has the lock
        words = f"another program: process {child} "
        with pytest.raises(NodeError, match=words), files.shadow_lock(host.root, ("passwd",), seconds=0.2):
            pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_docker_data_is_refused_on_nfs_and_in_a_directory_of_others(host: Host) -> None:
    outcome = converge(Request(SETTINGS, PEOPLE[:1]), replace(host, network=lambda _path: "nfs4"))
    assert "nfs4" in str(outcome.plan.users["minji"].problem)
    assert not (Path(host.root) / "local").exists()
    (Path(host.root) / "local/.docker").mkdir(parents=True)
    os.chown(Path(host.root) / "local/.docker", 1000, 1000)
    outcome = converge(Request(SETTINGS, PEOPLE[:1]), host)
    assert "must belong to root" in str(outcome.plan.users["minji"].problem)


def test_a_disk_without_room_for_docker_data_keeps_nobody_from_being_locked(
    host: Host, etc: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    converge(Request(SETTINGS, [{"name": "yuna", "uid": 20003, "docker": False}]), host)

    def full(path: str, *_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), path)

    monkeypatch.setattr(accounts, "make_place", full)
    outcome = converge(Request(SETTINGS, PEOPLE), host)
    assert outcome.plan.conflicts == ["/local/.docker/minji: not made: Disk quota exceeded"]
    assert re.search("(?m)^yuna:!", etc("shadow"))
    monkeypatch.undo()
    outcome = converge(Request(SETTINGS, PEOPLE), host)
    assert (outcome.plan.conflicts, (Path(host.root) / "local/.docker/minji").stat().st_uid) == ([], 20001)


def test_docker_that_somebody_took_is_theirs_whatever_the_admin_syncs_or_boots(
    host: Host, etc: Callable[[str], str]
) -> None:
    pristine = {name: etc(name) for name in ("subuid", "subgid")}
    converge(Request(SETTINGS, PEOPLE), host)
    assert docker_self.docker_self(host, 20002)[0] == 0
    ranges = etc("subuid")
    assert "junho:" in ranges
    assert not converge(Request(SETTINGS, PEOPLE), host).changed  # users.yml still says docker: false
    for name, text in pristine.items():  # a root that knows nothing of it, as another image would be
        (Path(host.root) / "etc" / name).write_text(text)
    assert commands.main(["apply-accounts"], replace(host, subvolume="/roots/b")) == 0
    assert sorted(etc("subuid").split()) == sorted(ranges.split())


names = st.sampled_from(["minji", "junho", "root", "daemon", "video", "gpuadmin", "gpuusers", "video-user"])
people = st.fixed_dictionaries(
    {"name": names, "uid": st.sampled_from([0, 1, 900, 1000, 19999, 20000, 20001, 20002, 49999, 50000])},
    optional={"locked": st.booleans(), "docker": st.booleans(), "expires": st.none() | st.integers(0, 30000)},
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(people, max_size=5, unique_by=(lambda one: str(one["name"]), lambda one: str(one["uid"]))),
    st.lists(people, max_size=3, unique_by=lambda one: str(one["name"])),  # as users.yml, which has each name once
)
def test_system_accounts_are_byte_identical_whatever_is_asked(
    host: Host, users: list[dict[str, object]], absent: list[dict[str, object]]
) -> None:
    def system_lines(kind: str) -> list[bytes]:
        lines = Path(host.path(f"etc/{kind}")).read_bytes().split(b"\n")
        human = (b"minji:", b"junho:", b"gpuusers:")
        return [line for line in lines if not line.startswith(human)]

    kinds = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
    before = {kind: system_lines(kind) for kind in kinds}
    request = Request(SETTINGS, users, absent)
    check = converge(request, host, check=True)
    real = converge(request, host)
    assert real.plan.operations == check.plan.operations
    assert {kind: system_lines(kind) for kind in kinds} == before
    assert not converge(request, host).changed
