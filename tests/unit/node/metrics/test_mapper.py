"""Sampler and mapper together: the fake driver, real processes of other accounts, device nodes."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate, grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import mapper as package
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.containers import Names
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.mapper import TEXT
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.running import RECORD

from gpuadmin.common.metrics import UNKNOWN
from tests.support.gpu_sampling import FIRST, SECOND, SUBUID, Cluster, cluster

__all__ = ["cluster"]

pytestmark = [pytest.mark.needs("cc"), pytest.mark.root]


def allocated(found: dict[str, float]) -> set[tuple[str, str]]:
    names = [name for name in found if name.startswith("gpuadmin_gpu_allocated{")]
    return {(name.split('uuid="')[1].split('"')[0], name.split('user="')[1].split('"')[0]) for name in names}


def test_who_is_on_which_gpu(cluster: Cluster) -> None:
    """The thin slice: a process of alice's, one in bob's container, and what is in the file."""
    with cluster.process(47001, "nvidia0") as one, cluster.process(165536 + 999, "nvidia0", "nvidia1") as two:
        found = cluster.look([one, two], [two])
    assert allocated(found) == {(FIRST, "alice"), (FIRST, "bob"), (SECOND, "bob")}
    labels = f'uuid="{FIRST}",user="alice",container=""'
    assert found[f"gpuadmin_gpu_processes{{{labels}}}"] == 1
    assert found[f"gpuadmin_gpu_process_memory_bytes{{{labels}}}"] == 1000
    assert abs(found[f"gpuadmin_gpu_allocated_since_timestamp_seconds{{{labels}}}"] - time.time()) < 60
    sources = ("processes", "people", "xids", "image")
    assert all(found[f'gpuadmin_collector_success{{source="{name}"}}'] == 1 for name in sources)


def test_whether_the_gate_is_closed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[str] | None = None
    monkeypatch.setattr(gate, "problems", lambda root: wrong)
    assert "gpuadmin_gpu_gate_closed" not in cluster.look()
    wrong = []
    assert cluster.look()["gpuadmin_gpu_gate_closed"] == 1
    wrong = ["ssh.service: open"]
    assert cluster.look()["gpuadmin_gpu_gate_closed"] == 0


JOB = 'gpuadmin_gpu_job_unused_since_timestamp_seconds{{uuid="{}",user="{}",slurm_job="7"}}'


@pytest.mark.holds(
    "time in which nobody looked is not time in which a job's GPU was unused",
    "a GPU that its person uses now is not unused", "whether a GPU is used is not said where nobody knows who holds it",
)  # fmt: skip
def test_since_when_a_job_has_a_gpu_for_nothing(cluster: Cluster) -> None:
    begin = int(time.time()) - 7200
    job = Grant("slurm-7", "alice", 47001, [FIRST], begin, begin + 9000, "Slurm", "job 7", "slurm")
    admins = Grant("a1", "bob", 47002, [SECOND], begin, begin + 9000, "root@nas", "a deadline")
    cluster.grant(job, admins)
    now = time.time()
    found = cluster.look()
    since = found[JOB.format(FIRST, "alice")]
    assert now - 1 <= since <= time.time() + 1, "what was before the collector began nobody knows"
    assert not any(name.startswith(JOB[:40]) and "bob" in name for name in found), "an admin's grant is not a job"
    cluster.clock += 1
    assert cluster.look()[JOB.format(FIRST, "alice")] == since
    with cluster.process(47001, "nvidia0") as one:
        cluster.settle()
        for _ in range(2):
            cluster.clock += 1
            found = cluster.look([one])
        assert JOB.format(FIRST, "alice") not in found, "she uses it"
        cluster.mapper._scanner.rounds = 0
        assert JOB.format(FIRST, "alice") not in cluster.look([])
        cluster.settle()


def test_who_only_has_it_open_holds_nothing(cluster: Cluster) -> None:
    with cluster.process(47001, "nvidia1") as one, cluster.process(47002, "nvidia1"):
        cluster.settle()
        found = cluster.look([], [one])
        assert allocated(found) == {(SECOND, "alice")}, "bob watches, and computes nothing"
        assert found[f'gpuadmin_gpu_processes{{uuid="{SECOND}",user="alice",container=""}}'] == 1
        os.kill(one, signal.SIGSTOP)
        assert allocated(cluster.look([], [one])) == {(SECOND, "alice")}, "a stopped process holds it as before"
        cluster.grant()
        found = cluster.look([], [one])
        both = {UNGRANTED.format(SECOND, name) for name in ("alice", "bob")}
        assert both <= found.keys(), "what is open can be used at any time"


UNGRANTED = 'gpuadmin_gpu_ungranted_since_timestamp_seconds{{uuid="{}",user="{}"}}'


def test_who_holds_what_without_a_grant(cluster: Cluster) -> None:
    until = int(time.time()) + 3600
    with cluster.process(47001, "nvidia0") as one, cluster.process(47002, "nvidia0") as two:
        open_to_all = cluster.look([one, two])
        assert not [name for name in open_to_all if "grant" in name and "source" not in name]
        cluster.grant(Grant("a1", "alice", 47001, [FIRST], until - 7200, until, "root@nas", "a deadline"))
        found = cluster.look([one, two])
        labels = f'uuid="{FIRST}",user="alice",who="root@nas",reason="a deadline"'
        assert found[f"gpuadmin_gpu_granted_until_timestamp_seconds{{{labels}}}"] == until
        assert UNGRANTED.format(FIRST, "alice") not in found
        since = found[UNGRANTED.format(FIRST, "bob")]
        assert abs(since - time.time()) < 60
        cluster.mapper.close()
        cluster.mapper = cluster.started()
        cluster.mapper.load()
        assert cluster.look([one, two])[UNGRANTED.format(FIRST, "bob")] == since
        grants.delete(["a1"], cluster.places.state)
        found = cluster.look([one, two])
        assert UNGRANTED.format(FIRST, "alice") in found
        assert not any("granted_until" in name for name in found)
        # where it is not known who holds what, nobody is said to, and nothing is forgotten
        cluster.mapper._scanner.rounds = 0
        assert UNGRANTED.format(FIRST, "bob") not in cluster.look([one, two])
        cluster.settle()
        assert cluster.look([one, two])[UNGRANTED.format(FIRST, "bob")] == since
    assert found['gpuadmin_collector_success{source="grants"}'] == 1
    (cluster.at / "state/gpu-grants/b2.json").write_text("{")
    assert cluster.look([])['gpuadmin_collector_success{source="grants"}'] == 0


def test_a_process_of_nobody_and_one_that_ended_are_nobodys(cluster: Cluster) -> None:
    with cluster.process(999_999, "nvidia0") as one:
        assert allocated(cluster.look([one])) == {(FIRST, UNKNOWN)}
    with cluster.process(47001, "nvidia0") as one:
        pass
    assert allocated(cluster.look([one])) == {(FIRST, UNKNOWN)}


def seconds(found: dict[str, float], user: str, uuid: str = FIRST) -> list[float | None]:
    return [
        None if value is None else round(value)
        for value in (
            found.get(f'gpuadmin_gpu_{kind}_seconds_total{{uuid="{uuid}",user="{user}"}}')
            for kind in ("held", "measured", "active")
        )
    ]


def test_time_is_counted_and_survives_a_restart(cluster: Cluster) -> None:
    with cluster.process(47001, "nvidia0") as one, cluster.process(47002, "nvidia0"):
        cluster.settle()
        cluster.look([one])
        cluster.clock += 10
        found = cluster.look([one], utilization=50)
        assert seconds(found, "alice") == [10, 10, 10]
        assert seconds(found, "bob") == [None] * 3, "bob has it open, and uses none"
        cluster.clock += 10
        assert seconds(cluster.look([one], utilization=0), "alice") == [20, 20, 10]
        cluster.mapper.close()
        assert not (cluster.at / "mapper" / TEXT).exists()
        cluster.mapper = cluster.started()
        assert cluster.mapper.load() is None
        cluster.clock += 3600
        cluster.look([one])
        cluster.clock += 10
        assert seconds(cluster.look([one]), "alice") == [30, 30, 20], "nobody knows what was in between"
        cluster.clock += 3600  # the node slept
        assert seconds(cluster.look([one]), "alice") == [30, 30, 20]


def test_what_was_measured_once_is_counted_once(cluster: Cluster) -> None:
    """The same record again says nothing of the time since: held, and nobody knows whether it was used."""
    with cluster.process(47001, "nvidia0") as one:
        cluster.look([one])
        cluster.clock += 10
        assert seconds(cluster.look([one]), "alice") == [10, 10, 10]
        cluster.clock += 5
        assert seconds(cluster.look(sample=False), "alice") == [15, 10, 10]


def test_without_the_driver_nothing_is_repeated_and_what_is_open_is_held(cluster: Cluster) -> None:
    with cluster.process(47001, "nvidia0") as one, cluster.process(47002, "nvidia0") as two:
        cluster.settle()
        assert allocated(cluster.look([one, two])) == {(FIRST, "alice"), (FIRST, "bob")}
        cluster.clock += 10
        before = cluster.look([one, two])
        (cluster.at / "sampler" / RECORD).unlink()
        cluster.clock += 10
        found = cluster.look(sample=False)
    assert allocated(found) == {(FIRST, "alice"), (FIRST, "bob")}
    assert not any("gpu_processes" in name or "process_memory" in name for name in found)
    held, measured, _active = (value or 0.0 for value in seconds(found, "alice"))
    assert (held, measured) == ((seconds(before, "alice")[0] or 0) + 10, seconds(before, "alice")[1])


def test_an_old_record_is_none(cluster: Cluster) -> None:
    with cluster.process(47001) as one:  # while the driver does not answer, what is open counts: this has nothing open
        assert allocated(cluster.look([one])) == {(FIRST, UNKNOWN)}
        cluster.clock += 100
        assert allocated(cluster.look(sample=False)) == set()


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 99_999])
def test_a_record_that_is_none_ends_nothing(cluster: Cluster, data: bytes) -> None:
    (cluster.at / "sampler" / RECORD).write_bytes(data)
    found = cluster.look(sample=False)
    assert found['gpuadmin_collector_success{source="processes"}'] == 0
    assert found['gpuadmin_collector_success{source="people"}'] == 1


def test_a_daemon_that_does_not_answer_is_its_persons_matter(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    real = package.identify

    def in_a_container(pid: int, owners: Owners, proc: str) -> Any:
        found = real(pid, owners, proc)
        return package.replace(found, container="ab" * 32) if found else None

    monkeypatch.setattr(package, "identify", in_a_container)

    def silent(path: str, uid: int, question: str, seconds: float) -> object:
        raise NodeError("did not answer")

    cluster.mapper._names = Names(silent, lambda uid: True)
    with ExitStack() as stack:
        one, two = (stack.enter_context(cluster.process(uid, "nvidia0")) for uid in (47001, 47002))
        found = cluster.look([one, two])
    assert found[f'gpuadmin_gpu_allocated{{uuid="{FIRST}",user="alice",container="{"ab" * 6}"}}'] == 1
    assert found['gpuadmin_collector_incomplete{user="alice"}'] == 1
    assert found['gpuadmin_collector_success{source="processes"}'] == 1


@pytest.mark.needs("promtool")
def test_prometheus_has_no_complaint(cluster: Cluster) -> None:
    with cluster.process(47001, "nvidia0") as one:
        cluster.look([one])
        cluster.clock += 10
        cluster.look([one])
    promtool = shutil.which("promtool")
    assert promtool is not None
    text = (cluster.at / "mapper" / TEXT).read_text()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_until_all_were_looked_through_nobody_knows_what_is_free(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that is held and not computed on shows as free otherwise, for as long as the first round takes."""
    monkeypatch.setattr(package, "FIRST_SECONDS", 0.0)
    cluster.mapper._scanner = package.Scanner(cluster.mapper._owners)
    with cluster.process(47001, "nvidia0") as one:
        for _ in range(2):
            found = cluster.look([one])
            assert found['gpuadmin_collector_success{source="processes"}'] == 0
            assert found['gpuadmin_collector_success{source="people"}'] == 1
            assert allocated(found) == set(), "not even what is known: the rest would look free"
        monkeypatch.setattr(package, "FIRST_SECONDS", 60.0)
        for expected in (0, 1):
            found = cluster.look([one])
            assert found['gpuadmin_collector_success{source="processes"}'] == expected
        assert allocated(found) == {(FIRST, "alice")}


def test_ranges_that_cannot_be_read_end_nothing_else(cluster: Cluster) -> None:
    with cluster.process(165536, "nvidia0") as one:
        (cluster.at / "subuid").unlink()
        (cluster.at / "subuid").mkdir()
        for _ in range(2):
            found = cluster.look([one])
            assert found['gpuadmin_collector_success{source="processes"}'] == 0, "bob's would be nobody's"
            assert found['gpuadmin_collector_success{source="people"}'] == 1
        (cluster.at / "subuid").rmdir()
        (cluster.at / "subuid").write_text(SUBUID)
        assert allocated(cluster.look([one])) == {(FIRST, "bob")}


def test_more_processes_than_are_looked_at_are_nobodys(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST_PROCESSES", 1)
    with ExitStack() as stack:
        pids = sorted(stack.enter_context(cluster.process(47001, "nvidia0")) for _ in range(3))
        found = cluster.look(pids)
    assert found[f'gpuadmin_gpu_processes{{uuid="{FIRST}",user="alice",container=""}}'] == 1
    assert found[f'gpuadmin_gpu_processes{{uuid="{FIRST}",user="{UNKNOWN}",container=""}}'] == 2, "and they are seen"


def test_places_of_parts_that_nobody_has_are_not_kept_for_ever(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "MOST_DEVICES", 3)
    for number in range(20):
        cluster.mapper._cap(package.Device("MIG-1", 0, number, 0, None, None))
    assert len(cluster.mapper._caps) <= 4
