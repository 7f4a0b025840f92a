"""Whose a process is: what a person can choose does not move it to somebody else, and does not hide it."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.cgroups import cgroup_path, slice_owner
from ansible_collections.gpuadmin.node.plugins.module_utils.lookup import system_lookup
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import owners
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import (
    Owners,
    find_container_id,
    identify,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.common.metrics import UNKNOWN
from tests.support.failing import raising
from tests.support.metrics_host import NAMES, Host, user_cgroup

SUBUID_WORDS = [
    b"root", b"alice", b":", b":", b"\n", b"100000", b"65536", b"1001", b"\0", b"\xff", b"\r", b"#", b"9" * 5000,
    "\u0661\u0662".encode(), b"-1", b" ", b"4294967295",
]  # fmt: skip
ID = "ab" * 32


def identified(host: Host, pid: int = 7) -> owners.Process:
    found = identify(pid, host.owners(), str(host.proc))
    assert found is not None
    return found


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(
    ("uids", "cgroup", "user"),
    [
        # an ordinary process, one in a rootless container as its root and as somebody else in it
        (1001, user_cgroup(1001), "alice"),
        (100999, user_cgroup(1001, f"user.slice/docker-{ID}.scope"), "alice"),
        # without a session: cron, Slurm
        (1002, "0::/system.slice/cron.service\n", "bob"),
        (231072 + 5, "0::/system.slice/slurmstepd.scope/job_1/step_0\n", "carol"),
        # sudo in a session is its owner's; a daemon of root's is root's
        (0, user_cgroup(1001), "alice"),
        ((1001, 0, 0, 0), user_cgroup(1001), "alice"),
        (0, "0::/system.slice/dcgm.service\n", "root"),
        # a name of a cgroup that looks like somebody else's
        (1001, user_cgroup(1001, "user.slice/user-1002.slice/x.scope"), "alice"),
        (1001, user_cgroup(1001, "user-1002.slice"), "alice"),
        # systemd on cgroup v1
        (1001, "12:memory:/user.slice/user-1002.slice\n1:name=systemd:/user.slice/user-1001.slice/s\n0::/\n", "alice"),
        # a program of bob's that is setuid, run by alice
        ((1001, 1002, 1002, 1002), user_cgroup(1001), "alice"),
        # what disagrees: all of bob's uids in alice's session, somebody's range in another's session
        (1002, user_cgroup(1001), UNKNOWN),
        (165536, user_cgroup(1001), UNKNOWN),
        # nobody's: no account, no range, an account that is gone
        (5000, "0::/system.slice/x.service\n", UNKNOWN),
        (999999, "0::/\n", UNKNOWN),
        (1009, user_cgroup(1009), UNKNOWN),
        (0, user_cgroup(1009), UNKNOWN),
        ((1001, 1002, 1002, 1002), "0::/system.slice/x.service\n", UNKNOWN),
    ],
)
def test_whose_it_is(host: Host, uids: int | tuple[int, int, int, int], cgroup: str, user: str) -> None:
    host.process(7, uids, cgroup)
    found = identified(host)
    assert found.user == user
    assert found.started == 10.0


@pytest.mark.parametrize("name", [") S 1 0 (", "a\\nUid:\\t1002\\t1002\\t1002\\t1002", "x" * 15, ")" * 15])
def test_a_name_of_a_process_says_nothing(host: Host, name: str) -> None:
    host.process(7, 1001, user_cgroup(1001), name=name)
    found = identified(host)
    assert (found.user, found.started) == ("alice", 10.0)


def test_ranges_that_overlap_are_nobodys(tmp_path: Path) -> None:
    host = Host(tmp_path, "alice:100000:65536\nbob:120000:65536\n")
    host.process(7, 130000, "0::/system.slice/x.service\n")
    host.process(8, 130000, user_cgroup(1002))
    assert identified(host).user == UNKNOWN
    assert identified(host, 8).user == "bob", "the kernel lets nobody else into bob's slice"


def test_a_damaged_subuid_gives_nobody_anything(tmp_path: Path) -> None:
    host = Host(tmp_path, "alice:0:4294967295\n:100000:65536\nbob:x:1\nmallory:200000:65536\n")
    host.process(7, 200001, "0::/x\n")
    found = identified(host)
    assert found.user == UNKNOWN, "a range of an account that is not here"


def test_a_range_that_newuidmap_does_not_read_is_nobodys(tmp_path: Path) -> None:
    host = Host(tmp_path, "alice:300000:65536\r\n")
    assert host.owners().of(300001) == {-1}


def test_ranges_that_cannot_be_looked_at_are_not_none(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    known = host.owners()
    with monkeypatch.context() as patched:  # pytest itself needs it
        patched.setattr(owners.os, "stat", raising(PermissionError(13, "Permission denied")))
        with pytest.raises(PermissionError):
            known.refresh()
    assert known.of(100001) == {1001}, "what was known stays known"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.lists(st.sampled_from(SUBUID_WORDS), max_size=12).map(b"".join))
def test_nothing_in_subuid_ends_the_mapper_or_moves_a_uid_of_an_account(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    at = tmp_path_factory.mktemp("fuzz") / "subuid"
    at.write_bytes(text)
    found = Owners(str(at), NAMES.get, system_lookup)
    found.refresh()
    assert 1001 in found.of(1001), "more people than one: nobody's, and never another's alone"
    assert found.attribute([1001], 1001) == 1001


def test_ranges_are_read_again_when_they_change(host: Host) -> None:
    known = host.owners()
    assert known.of(300000) == {-1}
    (host.at / "subuid").write_text("alice:300000:65536\n")
    known.refresh()
    assert known.of(300000) == {1001}
    assert identify(7, host.owners(), str(host.proc)) is None


def test_a_number_that_becomes_another_processes_meanwhile_is_nobodys(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Else the uids would be of one process and the slice of the other."""
    host.process(7, 1001, user_cgroup(1001))
    times = iter((10.0, 20.0))
    monkeypatch.setattr(owners, "_started", lambda _base: next(times))
    assert identify(7, host.owners(), str(host.proc)) is None


def test_the_outermost_container(host: Host) -> None:
    inner = "cd" * 32
    path = f"/user.slice/user-1001.slice/user@1001.service/user.slice/docker-{ID}.scope/docker/{inner}"
    assert find_container_id(path) == ID
    assert find_container_id(f"/user.slice/user-1001.slice/user@1001.service/docker.service/docker/{ID}/init") == ID
    assert find_container_id(f"/user.slice/user-1001.slice/x/libpod-{ID}.scope/container") == ID
    assert find_container_id(f"/user.slice/user-1001.slice/docker-{ID[:-1]}.scope") == ""


COMPONENT = st.one_of(
    st.sampled_from(
        ["user.slice", "user-1002.slice", "user@1002.service", "..", f"docker-{ID}.scope", "", " (deleted)"]
    ),
    st.text(st.characters(blacklist_characters="/\n\0", blacklist_categories=("Cs",)), max_size=20),
)


@pytest.mark.holds("a name within somebody's slice is not a slice")
@settings(max_examples=150, deadline=None)
@given(st.lists(COMPONENT, max_size=8), st.text(max_size=40))
def test_no_name_of_a_cgroup_makes_it_somebody_elses(parts: list[str], more: str) -> None:
    """Whatever alice calls the cgroups that she makes, they are below her slice, and stay hers."""
    path = "/user.slice/user-1001.slice/user@1001.service/" + "/".join(parts)
    line = f"0::{path}\n"
    assert slice_owner(cgroup_path(line) or "") == 1001
    assert slice_owner(f"/system.slice/{more}/user.slice/user-1002.slice") is None


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_nothing_in_proc_ends_the_mapper(
    tmp_path_factory: pytest.TempPathFactory, stat: bytes, status: bytes, cgroup: bytes
) -> None:
    host = Host(tmp_path_factory.mktemp("fuzz"))
    host.process(7, 1001)
    for name, data in (("stat", stat), ("status", status), ("cgroup", cgroup)):
        (host.proc / "7" / name).write_bytes(data)
    identify(7, host.owners(), str(host.proc))
