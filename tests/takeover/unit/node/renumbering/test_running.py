"""Who runs something, in a process or a namespace: each as somebody would hide it."""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants

from gpuadmin.takeover.node.renumbering import running
from gpuadmin.takeover.node.renumbering.journal import Renumbering
from tests.support.unfinished import first_thread_ended

pytestmark = pytest.mark.root
MINJI, NEW, KIM, BY_HAND = 31101, 31105, 33101, 265536  # of no other file: they run at the same time
PERSON = Renumbering("minji", MINJI, NEW, MINJI)
Child = Callable[[Callable[[], None]], int]


@pytest.fixture
def child() -> Iterator[Child]:
    """Have a process do something and wait, until the test is over."""
    pids: list[int] = []

    def start(does: Callable[[], None]) -> int:
        ready, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                does()
                os.write(told, b"x")
            finally:
                signal.pause()
        pids.append(pid)
        os.close(told)
        assert os.read(ready, 1) == b"x"
        os.close(ready)
        return pid

    yield start
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def become(uid: int, *groups: int) -> Callable[[], None]:
    def does() -> None:
        os.setgroups(groups)
        os.setgid(uid)
        os.setuid(uid)

    return does


def test_who_has_nothing_is_not_busy(host: Host, child: Child) -> None:
    child(become(KIM))
    assert running.busy([PERSON], host) == {}


def test_a_server_of_root_s_that_acts_for_somebody_is_not_theirs(host: Host, child: Child) -> None:
    def does() -> None:
        os.setgroups([MINJI])
        os.setresgid(0, MINJI, 0)
        os.setresuid(0, MINJI, 0)

    child(does)
    assert running.busy([PERSON], host, 1) == {}


def test_a_thread_that_goes_on_without_the_first_one(host: Host) -> None:
    with first_thread_ended(MINJI):
        assert "runs python" in running.busy([PERSON], host, 1)["minji"]


@pytest.mark.holds("processes with ids of ranges made by hand are theirs")
@pytest.mark.parametrize("owner", ["minji", str(MINJI)])
def test_a_range_that_was_made_by_hand(host: Host, child: Child, owner: str) -> None:
    with Path(host.path("etc/subuid")).open("a") as stream:
        stream.write(f"{owner}:{BY_HAND}:65536\n")
    child(become(BY_HAND + 33))
    assert "runs " in running.busy([PERSON], host, 1)["minji"]
    assert running.busy([Renumbering("kim", KIM, KIM)], host, 1) == {}, "the range is another's"


@pytest.mark.holds("who may become somebody by their namespace is them")
def test_a_namespace_of_theirs_that_no_range_tells_of(host: Host, child: Child) -> None:
    """Made by minji, and now of an id that nobody has; within it, its process may become minji."""
    libc = ctypes.CDLL(None, use_errno=True)
    (ours,) = (each for each in running.processes() if each.pid == os.getpid())
    assert ours.owners == frozenset()

    def does() -> None:
        become(MINJI)()
        libc.prctl(4, 1)  # PR_SET_DUMPABLE: as after execve
        assert libc.unshare(0x10000000) == 0  # CLONE_NEWUSER

    pid = child(does)
    Path(f"/proc/{pid}/uid_map").write_text(f"0 {MINJI} 1\n1 {BY_HAND} 65536\n")
    (one,) = [each for each in running.processes() if each.pid == pid]
    assert one.owners == {MINJI}
    other = running.Running(pid, "x", frozenset({BY_HAND + 33}), one.owners)
    assert running.compute({"minji": running._ids(PERSON, {})}, [other]) == {"minji": "runs x (1 process)"}


@pytest.mark.holds("a grant of GPUs is not another's after a renumbering")
@pytest.mark.parametrize("uid", [MINJI, NEW])
def test_who_was_granted_a_gpu(host: Host, uid: int) -> None:
    """One of the uid that they get would be theirs."""
    Path(host.path(host.state)).mkdir(parents=True)
    grants.write(grants.Grant("g1", "somebody", uid, ["GPU-a"], 1000, 5000, "admin"), host.path(host.state))
    assert running.find_grants([PERSON], host) == {"minji": "has a grant of GPUs: gpuadmin revoke ends it"}
    assert running.find_grants([Renumbering("kim", KIM, KIM)], host) == {}


def test_who_is_in_a_namespace_whose_owner_is_not_to_be_known() -> None:
    """As in a container: its processes may become each of its uids."""
    one = running.Running(1, "x", frozenset({KIM}), maps=frozenset({range(31100, 31110)}))
    assert running.compute({"minji": running._ids(PERSON, {})}, [one]) == {"minji": "runs x (1 process)"}
    for maps in (range(30000, 30010), range(40000, 40010)):
        elsewhere = running.Running(1, "x", frozenset({KIM}), maps=frozenset({maps}))
        assert running.compute({"minji": running._ids(PERSON, {})}, [elsewhere]) == {}
