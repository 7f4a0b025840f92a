"""A job's start and end: whose GPUs are opened and closed, and what keeps a job from starting."""

import json
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import health
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants, reconcile
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Sick
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import divided, draining, prolog, slice_limits
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.prolog import Job, read_prolog_job

from tests.support.gated_host import GatedHost, gated_host, read_only

pytestmark = pytest.mark.root

SAID = {
    "SLURM_JOB_ID": "12", "SLURM_JOB_UID": "20000", "SLURM_JOB_USER": "minji", "SLURM_JOB_GPUS": "0",
    "SLURM_JOB_END_TIME": "5000",
}  # fmt: skip
JOB = Job("12", "minji", 20000, [0], 5000)
NOW = 1500.0


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    found = gated_host(tmp_path, monkeypatch)
    there = {"GPU-a": ["/dev/nvidia0"], "GPU-b": ["/dev/nvidia1"]}
    Path(found.places.settings).write_text(json.dumps({"access": "granted", "gpus": there, "exempt": []}))
    monkeypatch.setattr(prolog.time, "time", lambda: NOW)
    return found


def begin(host: GatedHost, job: Job = JOB) -> dict[str, list[str]]:
    host.told.clear()
    prolog.begin(job, host.places, NOW)
    return host.units()


def recorded(host: GatedHost) -> list[Grant]:
    return grants.read(host.places.state, host.places.run)[0]


def test_a_job_as_slurmd_says_it() -> None:
    assert read_prolog_job(SAID, NOW) == JOB
    assert read_prolog_job({**SAID, "SLURM_JOB_GPUS": "1,3"}, NOW).gpus == [1, 3]
    assert read_prolog_job({**SAID, "SLURM_JOB_GPUS": ""}, NOW).gpus == []
    assert read_prolog_job({**SAID, "SLURM_JOB_END_TIME": ""}, NOW).until == NOW + prolog.UNKNOWN_END


def test_a_mig_device_is_opened_alone(host: GatedHost) -> None:
    """Slurm's numbers are the lines of the file that slurmd has fetched."""
    caps = [["/dev/nvidia0", f"/dev/nvidia-caps/nvidia-cap{one}"] for one in (3, 4)]
    there = {"GPU-a": ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"],
             "GPU-b": ["/dev/nvidia1"], "MIG-x": caps[0], "MIG-y": caps[1]}  # fmt: skip
    Path(host.places.settings).write_text(json.dumps({"access": "granted", "gpus": there, "exempt": []}))
    fetched = Path(host.places.root, divided.FETCHED)
    fetched.parent.mkdir(parents=True)
    lines = ["File=/dev/nvidia1", *(f"MultipleFiles={','.join(one)}" for one in caps)]
    fetched.write_text("".join(f"NodeName=gpu1 Name=gpu Type=x {line}\n" for line in lines))
    job = replace(JOB, node="gpu1", gpus=[2])
    assert begin(host, job)["user-20000.slice"] == sorted(caps[1])
    (grant,) = recorded(host)
    assert grant.gpus == ["MIG-y"]
    with pytest.raises(NodeError, match=r"GPU 3 .* does not answer on this host; where GPUs were divided since"):
        begin(host, replace(job, id="13", gpus=[3]))


@pytest.mark.parametrize(
    "odd",
    [
        {"SLURM_JOB_ID": "../12"}, {"SLURM_JOB_ID": ""}, {"SLURM_JOB_UID": "-1"}, {"SLURM_JOB_GPUS": "0;1"},
        {"SLURM_JOB_GPUS": "/dev/sda"},
    ],
)  # fmt: skip
def test_what_is_no_job_starts_nothing(odd: dict[str, str]) -> None:
    with pytest.raises(NodeError):
        read_prolog_job({**SAID, **odd}, NOW)


@pytest.mark.parametrize(("said", "until"), [(9000, 9000), (0, 5000)])
def test_a_grant_ends_when_the_queue_says(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, said: int, until: int
) -> None:
    """A slurmd of before 23.02 names no end, and then an early one is meant until the queue is asked."""
    monkeypatch.setattr(prolog.slice_limits, "ask", lambda *_: slice_limits.Share(until=said))
    begin(host)
    assert [one.until for one in recorded(host)] == [until]


def test_its_gpus_are_opened_to_its_person_and_closed_again(host: GatedHost) -> None:
    assert begin(host)["user-20000.slice"] == ["/dev/nvidia0"]
    (grant,) = recorded(host)
    assert (grant.id, grant.gpus, grant.until, grant.source) == ("slurm-12", ["GPU-a"], 5000, "slurm")
    host.told.clear()
    prolog.end(JOB, host.places)
    assert host.units() == {"user-20000.slice": []}
    assert recorded(host) == []
    prolog.end(JOB, host.places)  # slurmd runs an epilog again where the node was cut


@pytest.mark.holds("where a job's GPUs could not be closed no other job starts")
def test_gpus_that_could_not_be_closed_take_no_other_job(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(host)
    host.refuses = "user-20000.slice"
    with pytest.raises(NodeError, match="could not be set"):
        prolog.end(JOB, host.places)
    host.refuses = ""
    begin(host)
    with monkeypatch.context() as patch:
        read_only(patch)
        with pytest.raises(NodeError, match="has ended and cannot be removed"):
            prolog.end(JOB, host.places)
    assert "/dev/nvidia0" not in host.allow["user-20000.slice"]


@pytest.mark.holds(
    "a job is given no GPU that is being divided or granted",
    "a job's GPUs are opened while nobody else changes grants",
    "a job's GPUs are closed while nobody else changes grants",
)
def test_jobs_begin_and_end_while_nobody_else_changes_grants(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(prolog, "flocked", partial(flocked, seconds=0.1))
    for path in (reconcile.adding_path(host.places), reconcile.lock_path(host.places)):
        with flocked(path), pytest.raises(NodeError, match="has been held for"):
            prolog.begin(JOB, host.places, NOW)
        assert recorded(host) == []
    begin(host)
    with flocked(reconcile.lock_path(host.places)), pytest.raises(NodeError, match="has been held for"):
        prolog.end(JOB, host.places)
    assert len(recorded(host)) == 1
    with flocked(reconcile.adding_path(host.places)):
        prolog.end(JOB, host.places)
    assert recorded(host) == [], "an end does not wait for whoever divides GPUs"


@pytest.mark.holds("whoever holds the limits' lock keeps no job from its GPUs")
def test_limits_that_somebody_else_sets_keep_no_job_from_its_gpus(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_limits, "flocked", partial(flocked, seconds=0.1))
    with flocked(f"{host.places.run}/locks/raised-limits"):
        said = prolog.begin(JOB, host.places, NOW)
        assert said[-1].startswith("limits do not follow jobs: ")
        assert "/dev/nvidia0" in host.allow["user-20000.slice"]
        prolog.end(JOB, host.places)
    assert "/dev/nvidia0" not in host.allow["user-20000.slice"]


def test_a_job_whose_end_is_over_by_this_clock_takes_its_node_from_nobody(host: GatedHost) -> None:
    assert begin(host, replace(JOB, until=100))["user-20000.slice"] == ["/dev/nvidia0"]


def test_two_jobs_of_one_person_end_in_any_order(host: GatedHost) -> None:
    other = Job("13", "minji", 20000, [1], 5000)
    begin(host)
    assert begin(host, other)["user-20000.slice"] == ["/dev/nvidia0", "/dev/nvidia1"]
    host.told.clear()
    prolog.end(JOB, host.places)
    assert host.units()["user-20000.slice"] == ["/dev/nvidia1"]


def test_what_slurm_gives_to_the_next_is_no_longer_the_last_one_s(host: GatedHost) -> None:
    begin(host)  # its epilog never ran
    told = begin(host, Job("13", "jiho", 20001, [0], 5000))
    assert told == {"user-20000.slice": [], "user-20001.slice": ["/dev/nvidia0"]}
    assert [one.user for one in recorded(host)] == ["jiho"]


@pytest.mark.parametrize("begin", [1000, NOW + 600], ids=["now", "when a clock that was put back gets there"])
def test_what_an_admin_has_granted_keeps_a_job_from_starting(host: GatedHost, begin: float) -> None:
    grants.write(Grant("a1", "jiho", 20001, ["GPU-a"], int(begin), 4000, "root@nas"), host.places.state)
    with pytest.raises(NodeError, match="jiho was granted GPU-a by root@nas"):
        prolog.begin(replace(JOB, gpus=[1, 0]), host.places, NOW)
    assert [one.user for one in recorded(host)] == ["jiho"]


def test_a_grant_of_an_admin_s_that_is_over_keeps_no_job_from_starting(host: GatedHost) -> None:
    """The timer may not have taken it away yet; what it would drain is a node on which nobody has a GPU."""
    grants.write(Grant("a1", "jiho", 20001, ["GPU-a"], 1000, int(NOW), "root@nas"), host.places.state)
    prolog.begin(JOB, host.places, NOW)
    assert [one.user for one in recorded(host) if one.until > NOW] == ["minji"]


@pytest.mark.parametrize("job", [Job("12", "minji", 30000, [0], 5000), Job("12", "nobody-knows", 20000, [0], 5000)])
def test_a_job_of_whom_this_host_knows_otherwise_does_not_start(host: GatedHost, job: Job) -> None:
    with pytest.raises(NodeError, match="does not have the uid"):
        prolog.begin(job, host.places, NOW)
    assert recorded(host) == []


def test_a_gpu_that_does_not_answer_keeps_a_job_from_starting(host: GatedHost) -> None:
    with pytest.raises(NodeError, match="does not answer"):
        prolog.begin(Job("12", "minji", 20000, [7], 5000), host.places, NOW)


SICK = Sick("GPU 0: Xid 48", "GPU-a")


@pytest.mark.parametrize(
    ("sick", "full", "drained"),
    [
        ([], [], ""),
        ([SICK], [], "gpuadmin sick: GPU 0: Xid 48"),
        ([], ["/var"], "gpuadmin full disk: /var"),
        ([Sick("the homes (/home) do not answer", passes=True)], [], "gpuadmin for now: the homes"),
    ],
)
@pytest.mark.holds("no job begins on a node that is sick or full")
def test_a_node_that_is_sick_or_full_begins_no_job_and_says_why(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, sick: list[Sick], full: list[str], drained: str
) -> None:
    """Slurm drains it as well, with other words, and not once more: what passes then passes by itself."""
    told: list[str] = []

    def bring(wanted: draining.Wanted, **_: object) -> list[str]:
        told.append(f"{wanted.mark} {wanted.reason}")
        return []

    node = health.Health(sick, full, True, [], [], NOW)
    monkeypatch.setattr(health, "look_at_node", lambda *_, **__: node)
    monkeypatch.setattr(draining, "bring", bring)
    job = replace(JOB, node="gpu1", gpus=[] if full else JOB.gpus)
    with pytest.raises(NodeError, match=f"job 12: gpu1 takes no jobs: {drained}") if drained else nullcontext():
        prolog.begin(job, host.places, NOW)
    assert (len(recorded(host)), bool(told)) == (not drained, bool(drained))
    prolog.end(job, host.places)
    assert all(one.startswith(drained) for one in told)
    assert len(told) == 2 * bool(drained), "a job's end says so at once, too"


def test_a_grant_that_cannot_be_read_keeps_a_job_from_starting(host: GatedHost) -> None:
    grants.write(Grant("a1", "jiho", 20001, ["GPU-b"], 1000, 4000, "root@nas"), host.places.state)
    (Path(host.places.state) / grants.DIRECTORY / "a1.json").write_text("{")
    with pytest.raises(NodeError, match="opens nothing"):
        prolog.begin(JOB, host.places, NOW)
    assert recorded(host) == [], "its own is not written"


def test_gpus_that_could_not_be_opened_keep_a_job_from_starting(host: GatedHost) -> None:
    host.refuses = "user-20000.slice"
    with pytest.raises(NodeError, match="could not be set"):
        prolog.begin(JOB, host.places, NOW)


def test_where_gpus_are_everybody_s_nothing_is_granted(host: GatedHost) -> None:
    Path(host.places.settings).write_text(json.dumps({"access": "open", "gpus": {}, "exempt": []}))
    assert begin(host) == {}
    assert recorded(host) == []


def test_a_job_without_gpus_is_nobody_s_business(host: GatedHost) -> None:
    assert prolog.begin(Job("12", "minji", 30000, [], 5000), host.places, NOW) == []
    assert recorded(host) == []


SILENT = Job("12", "minji", 20000, [], 5000, "node1")
FORGED = "x Nodes=node1 CPU_IDs=0-7 Mem=64000 GRES=gpu:1(IDX:1)"


def details(gres: str, name: str = "x", **more: str | None) -> str:
    allocation = [{"name": "node1", "cpus": {"count": 1}, "memory": {"allocated": 100}}]
    job = {"name": name, "gres_detail": [gres], "job_resources": {"nodes": {"allocation": allocation}}}
    return json.dumps({"jobs": [{**job, **more}]})


@pytest.mark.holds("a job has the GPUs of which slurmd is silent")
def test_what_slurmd_does_not_say_slurmctld_does(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(host, monkeypatch, scontrol=(0, details("gpu:1(IDX:1)")))
    prolog.begin(SILENT, host.places, NOW)
    assert [one.gpus for one in recorded(host)] == [["GPU-b"]]


@pytest.mark.parametrize("text", [details("", FORGED), f"JobId=12 JobName={FORGED} UserId=minji(20000)\n"])
def test_a_name_gives_nobody_a_gpu(host: GatedHost, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Seen on a lab: scontrol prints the name as it is, before what the job has."""
    answers(host, monkeypatch, scontrol=(0, text))
    assert prolog.begin(SILENT, host.places, NOW) == []
    assert recorded(host) == []


@pytest.mark.holds("a job that has GPUs of which nobody says which they are does not start")
def test_gpus_of_which_nobody_says_which_they_are_start_no_job(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(host, monkeypatch, scontrol=(0, details("gpu:1(CNT:1)")))
    with pytest.raises(NodeError, match="job 12: Slurm does not say which GPUs"):
        prolog.begin(SILENT, host.places, NOW)


@pytest.mark.parametrize(
    ("qos", "comment", "who", "reason"),
    [
        ("exception", '{"id": "ab", "who": "root@ctl", "reason": "paper"}', "root@ctl", "paper"),
        ("people", '{"id": "ab", "who": "root@ctl", "reason": "paper"}', "Slurm", "job 12"),
        ("exception", "", "Slurm", "job 12"),
        ("exception", None, "Slurm", "job 12"),
        ("exception", '{"who": "a\\nb", "reason": ["x"]}', "Slurm", "job 12"),
        ("exception", json.dumps({"who": "x" * 300, "reason": "논문"}), "x" * 200, "논문"),
    ],
)
def test_everybody_reads_who_made_an_exception_and_why(
    host: GatedHost, qos: str, comment: str | None, who: str, reason: str
) -> None:
    host.slurm = 0, details("gpu:1(IDX:0)", qos=qos, admin_comment=comment)
    begin(host, replace(JOB, node="node1"))
    (grant,) = recorded(host)
    assert (grant.id, grant.who, grant.reason, grant.memory) == ("slurm-12", who, reason, 100 << 20)


def test_the_programs(host: GatedHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert prolog.main("slurm-prolog", host.places, SAID) == 0
    assert "user-20000.slice: closed but for" in capsys.readouterr().out
    assert prolog.main("slurm-epilog", host.places, SAID) == 0
    assert recorded(host) == []


def answers(host: GatedHost, monkeypatch: pytest.MonkeyPatch, **said: tuple[int, str]) -> None:
    """What Slurm's programs say on this host."""
    run = host.run

    def command(words: Sequence[str]) -> object:
        if words[:2] == ("timeout", "5"):
            code, text = said["listjobs" if "listjobs" in words else words[2]]
            return Finished(words, code, text, "")
        return run(words)

    monkeypatch.setattr(host, "run", command)


def test_what_an_epilog_did_not_do_is_done_by_the_next_look(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(host)
    answers(host, monkeypatch, listjobs=(0, "JOBID\n13\n"))
    assert "the grant slurm-12 of minji has ended" in host.go(NOW + 200).done
    assert recorded(host) == []


@pytest.mark.root
def test_a_disk_that_people_have_filled_keeps_no_job_from_its_gpus(host: GatedHost, tmp_path: Path) -> None:
    disk = Path(host.places.state)
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
    try:
        with suppress(OSError), (disk / "full").open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
        assert prolog.main("slurm-prolog", host.places, SAID) == 0
        assert [one.id for one in recorded(host)] == [JOB.grant]
        files = Path(host.places.run + grants.OF_JOBS)
        assert [path.stat().st_mode & 0o777 for path in (files, *files.iterdir())] == [0o755, 0o644], "no secret"
        assert prolog.main("slurm-epilog", host.places, SAID) == 0
        assert recorded(host) == []
    finally:
        subprocess.run(["umount", disk], check=True)
