"""What holds a GPU and has not used it is ended, and nothing else: real processes of other accounts, device nodes."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import devices, stopping
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.containers import Names
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners, Process
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.record import Record
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.running import seconds_since_boot
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.stopping import Outcome, Stopper, Target

from tests.support.failing import raising
from tests.support.gpu_sampling import FIRST, NAMES, SECOND, Cluster, cluster
from tests.support.slices import own_slice

__all__ = ["cluster"]
pytestmark = [pytest.mark.needs("cc"), pytest.mark.root]
package: Any = stopping  # what tests put in place of what it calls
ALICE, BOB, SINCE = 47001, 47002, 1_800_000_000
NOTIFIED = 4_000_000_000  # after whatever a test begins
GPU = ("nvidia0",)


class Site:
    """A node, what its collector says of idle holders, and the containers that were asked to stop."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.idle: dict[tuple[str, str], int] = {(FIRST, "alice"): SINCE}
        self.why = "unused"
        self.asked: list[str] = []
        self.names = Names(alive=lambda uid: False)

    def text(self) -> str:
        name = f"gpuadmin_gpu_{self.why}_since_timestamp_seconds"
        return "".join(f'{name}{{uuid="{uuid}",user="{user}"}} {when}\n' for (uuid, user), when in self.idle.items())

    def stop(self, path: str, uid: int, container: str, patience: int, seconds: float) -> None:
        self.asked.append(f"{uid} {container[:2]}")

    def run(self, *targets: Target, check: bool = False, listed: tuple[list[int], ...] = ()) -> list[Outcome]:
        """``listed``: of each GPU, what the driver lists beside the processes that the test has started on it."""
        computing = self.cluster.computing.values()
        self.cluster.describe(*([*set(one), *pids] for one, pids in zip((*listed, [], []), computing, strict=False)))
        assert self.cluster.sampler.sample() is None
        known = {name: uid for uid, name in NAMES.items()}
        owners = Owners(
            str(self.cluster.at / "subuid"), NAMES.get, lambda name: (known[name],) * 2 if name in known else None
        )
        return Stopper(self.cluster.places, owners, self.text, self.stop, patience=2, names=self.names).run(
            targets or (Target("alice", ALICE, FIRST, SINCE, NOTIFIED),), check=check
        )


@pytest.fixture
def site(cluster: Cluster) -> Site:
    return Site(cluster)


def alive(pid: int) -> bool:
    """Whether it still runs: what has ended is not waited for yet."""
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def ended(pid: int) -> bool:
    """The same of one that is not ours to wait for."""
    try:
        return not alive(pid)
    except FileNotFoundError:
        return True


def test_what_was_idle_ends_and_what_others_do_goes_on(site: Site) -> None:
    process = site.cluster.process
    with process(ALICE, *GPU) as idle, process(ALICE) as shell, process(BOB, *GPU) as other:
        assert [one.status for one in site.run(check=True)] == ["would stop"]
        assert alive(idle), "a check ends nothing"
        (found,) = site.run()
        assert (found.status, found.processes) == ("stopped", 1)
        assert not alive(idle)
        assert alive(shell)
        assert alive(other)


def test_a_process_that_will_not_end(site: Site) -> None:
    with ignoring(site, ALICE) as stubborn:
        assert site.run(listed=([stubborn],))[0].status == "stopped"
        assert not alive(stubborn)


def test_who_only_watches_goes_on_and_keeps_nothing(site: Site) -> None:
    """What asks the driver (nvtop; wandb, in a program that computes) opens every GPU, and none is used by that."""
    process = site.cluster.process
    with process(ALICE, *GPU, "nvidia1", computes=False) as watching, process(ALICE, *GPU, "nvidia1") as idle:
        site.cluster.computing["nvidia1"].clear()
        (found,) = site.run()
        assert (found.status, found.processes, found.why) == ("stopped", 1, "")
        assert [alive(watching), alive(idle)] == [True, False]
        site.cluster.computing["nvidia0"].clear()
        assert [one.status for one in site.run()] == ["gone"]


@pytest.mark.holds("a child that uses another GPU goes on")
@pytest.mark.parametrize("uses", [False, True], ids=["a data loader's", "one with a GPU of its own"])
def test_what_has_forked_leaves_no_memory_behind(site: Site, uses: bool) -> None:
    """A child has what its parent had open: the parent's memory stays on the GPU, and nobody knows whose it is."""
    script = (
        "import os, sys, time\n"
        "[os.open(path, os.O_RDONLY) for path in sys.argv[1:]]\n"
        f"os.setgid({ALICE}); os.setuid({ALICE})\n"
        "os.fork()\n"
        "time.sleep(120)\n"  # until they are ended
    )
    watcher = site.cluster.process(ALICE, *GPU, computes=False)
    with running(site, script, "nvidia0", "nvidia1") as parent, watcher as watching:
        child = int(Path(f"/proc/{parent}/task/{parent}/children").read_text())
        (found,) = site.run(listed=([parent], [child] if uses else []))
        assert (found.status, found.processes) == ("stopped", 1)
        assert not alive(parent)
        assert (not ended(child), alive(watching)) == (uses, True)


def test_a_process_that_is_stopped(site: Site) -> None:
    """One that somebody has stopped takes no SIGTERM, and is ended all the same."""
    with site.cluster.process(ALICE, *GPU) as idle:
        os.kill(idle, signal.SIGSTOP)
        assert site.run()[0].status == "stopped"
        assert not alive(idle)


KEPT = {
    "used since it was told": ({(FIRST, "alice"): SINCE + 60}, ALICE, "used or let go"),
    "the collector does not know": ({}, ALICE, "nobody knows"),
    "another's idle hold": ({(FIRST, "bob"): SINCE}, ALICE, "nobody knows"),
    "a uid that is another's here": ({(FIRST, "alice"): SINCE}, BOB, "is not alice's on this host"),
}


@pytest.mark.parametrize("case", KEPT)
def test_unknown_means_keep(site: Site, case: str) -> None:
    idle, uid, words = KEPT[case]
    site.idle = idle
    with site.cluster.process(ALICE, *GPU) as pid:
        (found,) = site.run(Target("alice", uid, FIRST, SINCE, NOTIFIED))
        assert found.status == "kept"
        assert words in found.why
        assert alive(pid)


def test_a_process_that_uses_another_gpu_as_well_is_kept(site: Site) -> None:
    with site.cluster.process(ALICE, *GPU, "nvidia1") as pid:
        (found,) = site.run(listed=([], [pid]))
        assert found.status == "kept"
        assert SECOND in found.why
        assert alive(pid)
        site.idle[SECOND, "alice"] = SINCE
        both = [Target("alice", ALICE, uuid, SINCE, NOTIFIED) for uuid in (FIRST, SECOND)]
        assert [one.status for one in site.run(*both)] == ["stopped", "stopped"], "both were idle"


def test_nothing_holds_it_any_more(site: Site) -> None:
    assert [one.status for one in site.run()] == ["gone"]


def test_what_is_old_stops_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real = seconds_since_boot()
    with site.cluster.process(ALICE, *GPU) as pid:
        for later in (3600, -3600):  # a record of before the boot says a time that is still to come
            monkeypatch.setattr(package, "seconds_since_boot", lambda later=later: real + later)
            with pytest.raises(NodeError, match="nothing is stopped"):
                site.run()
            assert alive(pid)


def test_a_driver_that_does_not_say_who_uses_a_gpu_stops_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says that what holds this one does not use that one."""
    real = package.read_record

    def silent(path: str) -> Record:
        record = real(path)
        return replace(record, devices=(*record.devices[:-1], replace(record.devices[-1], processes=None)))

    monkeypatch.setattr(package, "read_record", silent)
    with site.cluster.process(ALICE, *GPU) as pid:
        with pytest.raises(NodeError, match="of each GPU who uses it; nothing is stopped"):
            site.run()
        assert alive(pid)


def test_what_was_ended_is_told_though_the_look_afterwards_fails(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's list is old by then, or somebody made more processes than can be looked through."""
    real = Stopper._look
    looks = [0]

    def look(self: Stopper) -> object:
        looks[0] += 1
        if looks[0] == 2:
            raise NodeError("looking through all processes took more than 30 s; nothing is stopped")
        return real(self)

    monkeypatch.setattr(Stopper, "_look", look)
    with site.cluster.process(ALICE, *GPU) as pid:
        (found,) = site.run()
        assert not alive(pid)
        assert found.status == "stopped"
        assert "is not known" in found.why


def test_a_look_that_does_not_end_stops_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "SCAN", -1.0)
    with site.cluster.process(ALICE, *GPU) as pid:
        with pytest.raises(NodeError, match="took more than"):
            site.run()
        assert alive(pid)


def test_very_many_processes_keep_no_unused_gpu(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which GPUs its processes use says the driver; what is looked through adds what they only have open."""
    monkeypatch.setattr(devices, "MOST_PROCESSES", 2)
    with ExitStack() as stack:
        others = [stack.enter_context(site.cluster.process(ALICE)) for _ in range(4)]
        idle = stack.enter_context(site.cluster.process(ALICE, *GPU))
        (found,) = site.run()
        assert (found.status, found.processes) == ("stopped", 1)
        assert [alive(pid) for pid in (idle, *others)] == [False, *[True] * 4]


@pytest.mark.holds("who computes by now holds it, also if they only watched before")
def test_who_watched_and_computes_by_now_holds_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver, asked again while the first process ends, lists the one that only had it open before."""
    process = site.cluster.process
    with process(ALICE, *GPU, computes=False) as watching, process(ALICE, *GPU) as idle:
        real = Stopper._end_holding

        def end(self: Stopper, *given: Any) -> int:
            left = real(self, *given)
            site.cluster.describe([watching])
            assert site.cluster.sampler.sample() is None
            return left

        monkeypatch.setattr(Stopper, "_end_holding", end)
        (found,) = site.run()
        assert [alive(watching), alive(idle)] == [True, False]
        assert (found.status, found.why) == ("kept", "1 of their processes hold it now")


@pytest.mark.parametrize("other", [Target("bob", BOB, SECOND, SINCE, NOTIFIED), Target("alice", ALICE, SECOND, 1, 1)])
def test_another_gpu_counts_as_idle_only_where_it_is_theirs_and_idle(site: Site, other: Target) -> None:
    """One that is idle for somebody else, or was used since they were told, is one that it may use."""
    site.idle[SECOND, other.user] = SINCE
    with site.cluster.process(ALICE, *GPU, "nvidia1") as pid:
        found = site.run(Target("alice", ALICE, FIRST, SINCE, NOTIFIED), other, listed=([], [pid]))
        assert found[0].status == "kept"
        assert SECOND in found[0].why
        assert alive(pid)


def test_a_number_that_became_another_s_is_not_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the handle, the process ends and its number is given again."""
    with site.cluster.process(ALICE, *GPU) as pid:
        real = package.identify
        calls = [0]

        def identify(number: int, *rest: object) -> object:
            found = real(number, *rest)
            if number == pid:
                calls[0] += 1
                if calls[0] % 2 == 0 and found is not None:  # the second time it is another
                    return Process(pid, found.started + 1, found.uid, found.user, "", found.namespace)
            return found

        monkeypatch.setattr(package, "identify", identify)
        site.run()
        assert alive(pid)


def test_who_goes_from_container_to_container_keeps_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within their slice people name cgroups as they like, and may move between them all the time."""
    looks = iter(range(1000))
    with site.cluster.process(ALICE, *GPU) as pid:
        contain(monkeypatch, lambda _: f"{next(looks):064x}")
        assert [one.status for one in site.run()] == ["stopped"]
        assert not alive(pid)


def test_what_was_begun_since_they_were_told_is_kept(site: Site) -> None:
    notified = int(time.time()) - 1
    with site.cluster.process(ALICE, *GPU) as pid:
        time.sleep(1.1)  # so that it began after the second in which they were told
        (found,) = site.run(Target("alice", ALICE, FIRST, SINCE, notified - 2))
        assert (found.status, found.why) == ("kept", "they have begun something on it since they were told")
        assert alive(pid)


def test_somebody_who_starts_anew_all_the_time(site: Site) -> None:
    """When one is ended the next one opens the GPU. They were not told of that one; nobody waits for ever."""
    script = (
        "import os, sys, time\n"
        "while True:\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]\n"
        f"        os.setgid({ALICE}); os.setuid({ALICE})\n"
        "        time.sleep(60)\n"
        "    os.waitpid(pid, 0)\n"
    )
    with running(site, script) as parent:
        begin = time.monotonic()
        (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        (found,) = site.run(listed=([int(child)],))
        assert (found.status, found.why) == ("kept", "1 of their processes hold it now")
        assert time.monotonic() - begin < 60
        assert alive(parent), "it holds no GPU"


@contextmanager
def running(site: Site, script: str, *names: str) -> Iterator[int]:
    paths = [str(site.cluster.at / "dev" / name) for name in names or GPU]
    for above in site.cluster.at.parents:
        above.chmod(above.stat().st_mode | 0o011)
    with subprocess.Popen([sys.executable, "-c", script, *paths], start_new_session=True) as process:
        time.sleep(1.0)  # until it has the GPU open
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def ignoring(site: Site, uid: int) -> Iterator[int]:
    script = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "[os.open(path, os.O_RDONLY) for path in sys.argv[1:]]\n"
        f"os.setgid({uid}); os.setuid({uid})\ntime.sleep(120)\n"
    )
    with running(site, script) as pid:
        yield pid


OVER = Target("alice", ALICE, FIRST, SINCE, NOTIFIED, "ungranted")
YEAR = 365 * 86400


def granted(uid: int, *gpus: str, id: str = "a1") -> Grant:
    now = int(time.time())
    return Grant(id, NAMES[uid], uid, gpus, now - YEAR, now + YEAR, "root@nas")


@pytest.fixture
def gated(site: Site) -> Site:
    """A node on which alice has a grant for the second GPU alone, and bob for the first."""
    site.why = "ungranted"
    site.cluster.grant(granted(ALICE, SECOND), granted(BOB, FIRST, id="b2"))
    return site


def test_what_nobody_granted_ends_and_what_others_do_goes_on(gated: Site) -> None:
    """Whatever else it holds, and whenever it was begun: a child has what its parent had open."""
    process = gated.cluster.process
    hers = replace(OVER, notified=int(time.time()) - 100)
    kinds = ((ALICE, *GPU, "nvidia1"), (ALICE, "nvidia1"), (BOB, *GPU), (0, *GPU))
    with ExitStack() as stack:
        both, second, neighbour, daemon = (stack.enter_context(process(uid, *devices)) for uid, *devices in kinds)
        (found,) = gated.run(hers, check=True, listed=([], [both, second]))
        assert (found.status, found.processes) == ("would stop", 1)
        assert alive(both), "a check ends nothing"
        assert gated.run(hers, listed=([], [both, second]))[0].status == "stopped"
        assert [alive(pid) for pid in (both, second, neighbour, daemon)] == [False, True, True, True]


def test_what_only_has_it_open_without_a_grant_ends(gated: Site) -> None:
    """The driver lists nothing of theirs, and unified memory's device, which CUDA needs, is open to everybody."""
    with gated.cluster.process(ALICE, "nvidia0", computes=False) as over:
        assert [one.status for one in gated.run(OVER)] == ["stopped"]
        assert not alive(over)


def test_a_container_in_which_a_granted_gpu_is_used_goes_on(gated: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated.cluster.process(ALICE, *GPU) as over, gated.cluster.process(ALICE, "nvidia1") as busy:
        container(monkeypatch, over, busy)
        (found,) = gated.run(OVER, listed=([], [busy]))
        assert (found.status, found.containers, gated.asked) == ("stopped", [], [])
        assert [alive(over), alive(busy)] == [False, True]


@pytest.mark.holds("a container of which not all is known is not stopped")
@pytest.mark.parametrize(("place", "containers"), [(0, []), (4, ["47001 ab"])], ids=["among the first", "the last"])
def test_very_many_processes_keep_nothing_that_nobody_granted(
    gated: Site, monkeypatch: pytest.MonkeyPatch, place: int, containers: list[str]
) -> None:
    """What is not looked at may be in the same container, and use a GPU that is theirs: unless all had to be."""
    monkeypatch.setattr(devices, "MOST_PROCESSES", 2)
    with ExitStack() as stack:
        while True:
            held = (GPU if n == place else () for n in range(5))
            started = [stack.enter_context(gated.cluster.process(ALICE, *of, computes=False)) for of in held]
            if started == sorted(started):
                break
            stack.close()  # numbers began again at the smallest
        over, others = started[place], [*started[:place], *started[place + 1 :]]
        container(monkeypatch, over, *others)
        (found,) = gated.run(OVER)
        assert (found.status, found.processes) == ("stopped", 1)
        assert [one[:8] for one in gated.asked] == containers
        assert [alive(pid) for pid in (over, *others)] == [False, *[True] * 4]


@pytest.mark.holds("who is faster than a look keeps nothing")
@pytest.mark.holds("who is faster than a signal keeps nothing")
def test_who_forks_while_they_are_looked_at_keeps_nothing(gated: Site) -> None:
    """Each process hands what it has open on to the next one, and ends: none is there for as long as a look takes."""
    script = (
        "import os, sys, time\n"
        "[os.open(path, os.O_RDONLY) for path in sys.argv[1:]]\n"
        f"os.setgid({ALICE}); os.setuid({ALICE})\n"
        "os.fork() and os._exit(0)\n"
        "end = time.time() + 120\n"
        "while time.time() < end:\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    time.sleep(0.005)\n"  # a look takes longer, and finds it by luck alone
    )
    with own_slice(ALICE) as theirs, in_slice(gated, script, theirs):
        gated.cluster.places = replace(gated.cluster.places, cgroups=str(theirs.parents[1]))
        assert [one.status for one in gated.run(OVER, check=True)] == ["would stop"]
        (found,) = gated.run(OVER)
        assert (found.status, found.why) == ("stopped", "")
        assert (theirs / "cgroup.procs").read_text() == ""
        assert (theirs / "cgroup.freeze").read_text() == "0\n"


@contextmanager
def in_slice(site: Site, script: str, slice_: Path) -> Iterator[None]:
    paths = [str(site.cluster.at / "dev" / name) for name in GPU]
    for above in site.cluster.at.parents:
        above.chmod(above.stat().st_mode | 0o011)
    into = f"open({str(slice_ / 'cgroup.procs')!r}, 'w').write('0')\n"
    with subprocess.Popen([sys.executable, "-c", into + script, *paths], start_new_session=True) as process:
        process.wait()
        yield


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP])
def test_a_process_that_is_stopped_is_ended(gated: Site, number: signal.Signals) -> None:
    with gated.cluster.process(ALICE, *GPU) as pid:
        os.kill(pid, number)
        assert [one.status for one in gated.run(OVER)] == ["stopped"]
        assert not alive(pid)


def test_who_was_granted_it_again_is_kept(gated: Site) -> None:
    """The collector says it with its next look; the node has recorded it."""
    gated.cluster.grant(granted(ALICE, FIRST, id="c3"))
    with gated.cluster.process(ALICE, *GPU) as pid:
        (found,) = gated.run(OVER)
        assert (found.status, found.why) == ("kept", "they need no grant for it, or have one by now")
        assert alive(pid)


def test_where_grants_are_not_known_nothing_ends(gated: Site) -> None:
    with gated.cluster.process(ALICE, *GPU) as pid:
        assert gated.run(replace(OVER, why="unused"))[0].status == "kept", "nobody said that it is not used"
        assert gated.run(replace(OVER, since=SINCE + 60))[0].status == "kept", "they had one in between"
        (gated.cluster.at / "state/gpu-grants/d4.json").write_text("{")
        with pytest.raises(NodeError, match="d4"):
            gated.run(OVER)
        (gated.cluster.at / "gpu-gate.json").unlink()
        assert gated.run(OVER)[0].status == "kept", "GPUs are open to everybody by now"
        assert alive(pid)


def contain(monkeypatch: pytest.MonkeyPatch, name: Callable[[int], str]) -> None:
    """As if processes were in containers: no Docker is needed to know what their cgroups are called."""
    real = package.identify
    monkeypatch.setattr(
        package, "identify", lambda pid, *rest: (found := real(pid, *rest)) and replace(found, container=name(pid))
    )


def container(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    contain(monkeypatch, lambda pid: "ab" * 32 if pid in pids else "")


def test_a_container_is_stopped_by_its_person_s_daemon(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with site.cluster.process(ALICE, *GPU) as pid:
        container(monkeypatch, pid)
        (found,) = site.run()
        assert (found.status, found.containers) == ("stopped", ["ab" * 6])
        assert site.asked == [f"{ALICE} ab"]
        assert not alive(pid), "whatever the daemon did"


def test_a_container_without_a_cgroup_of_its_own_is_stopped_by_the_daemon_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process alone, ended, would be started again by the daemon."""
    real = package.identify
    monkeypatch.setattr(package, "identify", lambda *given: replace(real(*given), namespace="pid:[7]"))
    monkeypatch.setattr(site.names, "_alive", lambda uid: True)
    learned = {ALICE: {"pid:[7]": "cd" * 32}}
    monkeypatch.setattr(site.names, "_learn", lambda *given: bool(site.names._spaces.update(learned)) or True)
    with site.cluster.process(ALICE, *GPU) as pid:
        (found,) = site.run()
        assert (found.status, found.containers) == ("stopped", ["cd" * 6])
        assert site.asked == [f"{ALICE} cd"]
        assert not alive(pid)


def test_a_daemon_that_says_nothing_keeps_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "stop", raising(NodeError("it does not answer")))
    with site.cluster.process(ALICE, *GPU) as pid:
        container(monkeypatch, pid)
        assert site.run()[0].status == "stopped"
        assert not alive(pid)


def test_a_container_in_which_another_gpu_is_used_is_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with site.cluster.process(ALICE, *GPU) as idle, site.cluster.process(ALICE, "nvidia1") as busy:
        container(monkeypatch, idle, busy)
        (found,) = site.run(listed=([], [busy]))
        assert found.status == "kept"
        assert site.asked == []
        assert alive(idle)
        assert alive(busy)


def test_a_daemon_that_never_answers_is_not_waited_for_once_for_each_container(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs are ended all the same, and others' turn comes."""
    monkeypatch.setattr(package, "CONTAINERS", 0.5, raising=False)

    def silent(path: str, uid: int, container: str, patience: int, seconds: float) -> None:
        site.asked.append(container)
        time.sleep(min(seconds, 0.3))  # what the daemon lets us wait
        raise NodeError("the daemon did not answer")

    monkeypatch.setattr(site, "stop", silent)
    names: dict[int, str] = {}
    contain(monkeypatch, lambda pid: names.get(pid, ""))
    with ExitStack() as stack:
        pids = [stack.enter_context(site.cluster.process(ALICE, *GPU)) for _ in range(5)]
        names.update({pid: f"{pid:064x}" for pid in pids})
        (found,) = site.run()
        assert (found.status, found.processes, len(found.containers)) == ("stopped", 5, 5)
        assert len(site.asked) == 2
        assert not any(alive(pid) for pid in pids)


def test_somebody_with_more_processes_than_select_can_take(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []

    def text() -> str:
        """What the collector says; from then on there are as many open files as with a handle for each process."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(before[1], 4096)))
        opened.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(1100))
        return Site.text(site)

    monkeypatch.setattr(site, "text", text)
    try:
        with site.cluster.process(ALICE, *GPU) as pid:
            assert [one.status for one in site.run()] == ["stopped"]
            assert not alive(pid)
    finally:
        for number in opened:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
