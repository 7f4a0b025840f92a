"""What a person's slice may take while their jobs run, and that it is taken back."""

import errno
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked, write_atomic
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gate import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import applying
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.bounds import Machine
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import slice_limits
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.slice_limits import Share, parse_node_share

from tests.support.fake_slurm import slurm

pytestmark = pytest.mark.root

GIB = 1 << 30
MACHINE = Machine(memory=64 * GIB, swap=0, tasks=1000, processors=16)
FORGED = "x Nodes=node1 CPU_IDs=0-7 Mem=64000 GRES=gpu:1(IDX:1)"  # a name that anybody may give to a job


def said(*gres: str, name: str = "x", **memory: object) -> str:
    """What Slurm 24.11 prints of a job on node1, node2 and node7, as far as it is read here."""
    there = [("node1", 2048, 5), ("node2", 2048, 5), ("node7", 512, 1)]
    allocation = [
        {"name": node, "cpus": {"count": count}, "memory": {"allocated": memory.get(node, size)}}
        for node, size, count in there
    ]
    job = {"name": name, "gres_detail": list(gres), "job_resources": {"nodes": {"allocation": allocation}}}
    return json.dumps({"jobs": [job]})


SAID = said("gpu:1(IDX:0)", "gpu:1(IDX:0)", "gpu:1(IDX:1)")
JOB = Grant("slurm-12", "minji", 20000, ["GPU-a"], 1000, 5000, "Slurm", "", "slurm", memory=2 * GIB, processors=3)


@pytest.mark.parametrize(
    ("text", "node", "share"),
    [
        (SAID, "node2", Share(2048 << 20, 5, (0,), True)),
        (SAID, "node7", Share(512 << 20, 1, (1,), True)),
        (said("gpu:a100:2(IDX:0-1),gpu:1(IDX:4)"), "node1", Share(2048 << 20, 5, (0, 1, 4), True)),
        (said("gpu:8(IDX:0-99999999999)"), "node1", Share(2048 << 20, 5, (), True)),
        (said("gpu:8(IDX:7-0)"), "node1", Share(2048 << 20, 5, (), True)),
        (said("gpu:a100:2(CNT:2)"), "node1", Share(2048 << 20, 5, (), True)),
        (said("shard:1(IDX:0)"), "node1", Share(2048 << 20, 5)),
        (said(), "node1", Share(2048 << 20, 5)),
        (said(name=FORGED), "node1", Share(2048 << 20, 5)),
        (SAID, "node3", Share()),
        (said(node1="x"), "node1", Share()),
        (said(node1=None), "node1", Share()),
        ('{"jobs": []}', "node1", Share()),
        ('{"jobs": [{}, {}]}', "node1", Share()),
        ("[" * 100_000, "node1", Share()),
        ("", "node1", Share()),
        (f"JobId=12 JobName={FORGED} UserId=minji(20000)", "node1", Share()),
    ],
)
def test_what_a_job_has_of_a_node(text: str, node: str, share: Share) -> None:
    assert parse_node_share(text, node) == share


@pytest.mark.parametrize("status", [1, 0])
def test_what_slurm_does_not_say_raises_nothing(status: int) -> None:
    def command(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert tuple(words[:2]) == ("timeout", "5")
        if status == 0:
            raise OSError("no such program")
        return subprocess.CompletedProcess(words, status, SAID, "")

    assert slice_limits.ask("12", "node1", command) == Share()


@pytest.mark.holds("of a job on several nodes nobody says how much this one has")
@pytest.mark.parametrize(
    ("nodes", "tres", "qos", "comment", "share"),
    [
        ("node1", "cpu=3,mem=2G,node=1,gres/gpu=1", "people", "", Share(2 * GIB, 3, (), True, until=5000)),
        ("node1", "cpu=3,mem=1536M,node=1", "people", '{"who": "x"}', Share(1536 << 20, 3, until=5000)),
        ("node[1-2]", "cpu=6,mem=4G,node=2,gres/gpu=2", "people", "", Share(0, 0, (), True, until=5000)),
        ("node2", "cpu=3,mem=2G,node=1", "people", "", Share(until=5000)),
        (
            "node1",
            "cpu=1",
            "exception",
            '{"who": "ada", "reason": "paper"}',
            Share(0, 1, (), False, "ada", "paper", 5000),
        ),
    ],
)
def test_a_scontrol_that_knows_no_json(
    nodes: str, tres: str, qos: str, comment: str, share: Share, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before Slurm 23.02. What cannot be asked then raises nothing."""
    old = "scontrol: unrecognized option '--json'"
    row = "\x1f".join(f"{one:<64}" for one in (nodes, "5000", tres, qos, comment, ""))
    (tmp_path / "row").write_text(f"{row}\n")

    def command(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 1, "", old)

    assert slice_limits.ask("12", "node1", command) == Share()
    slurm(tmp_path, monkeypatch, squeue=f"cat {tmp_path}/row")
    assert slice_limits.ask("12", "node1", command) == share


@pytest.mark.holds("jobs take nothing of what the node keeps for itself")
@pytest.mark.parametrize(
    ("base", "share", "wanted"),
    [
        # what is limited goes up by what the jobs have
        (
            {"MemoryMax": str(8 * GIB), "CPUQuota": "200%"}, Share(4 * GIB, 2),
            {"MemoryMax": 12 * GIB, "CPUQuota": "400%"},
        ),
        # what is not limited is not mentioned
        ({"MemoryMax": "infinity", "CPUQuota": ""}, Share(4 * GIB, 2), {}),
        ({}, Share(4 * GIB, 2), {}),
        ({"MemoryMax": str(8 * GIB), "CPUQuota": "200%"}, Share(), {}),
        # up to what all people together have, and no less than before
        ({"MemoryMax": str(50 * GIB)}, Share(60 * GIB), {"MemoryMax": MACHINE.for_people}),
        ({"MemoryMax": str(63 * GIB)}, Share(GIB), {"MemoryMax": 63 * GIB}),
        ({"CPUQuota": "1500%"}, Share(0, 16), {"CPUQuota": "1600%"}),
    ],
)  # fmt: skip
def test_what_a_slice_is_told(base: dict[str, str], share: Share, wanted: dict[str, object]) -> None:
    assert slice_limits.bounds(base, share, MACHINE) == {name: str(value) for name, value in wanted.items()}


@dataclass
class Host:
    places: Places
    limits: applying.Places
    told: list[tuple[str, ...]] = field(default_factory=list)
    refuses: bool = False

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert tuple(command[:3]) == ("systemctl", "set-property", "--runtime")
        self.told.append(tuple(command[3:]))
        if self.refuses:
            return subprocess.CompletedProcess(command, 1, "", "no\n")
        place = Path(self.places.control) / f"{command[3]}.d"
        place.mkdir(parents=True, exist_ok=True)
        for one in command[4:]:
            (place / f"50-{one.partition('=')[0]}.conf").write_text(one)
        return subprocess.CompletedProcess(command, 0, "", "")

    def go(self, now: float = 1500) -> list[str]:
        self.told.clear()
        return slice_limits.apply(self.places, now, self.limits).problems

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in Path(self.places.control).rglob("50-*.conf"))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    proc = tmp_path / "proc"
    (proc / "sys/kernel").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: {64 << 20} kB\nSwapTotal: 0 kB\n")
    for name in ("threads-max", "pid_max"):
        (proc / "sys/kernel" / name).write_text("1000\n")
    state, run = tmp_path / "state", tmp_path / "run"
    (run / "locks").mkdir(parents=True)
    state.mkdir()
    (state / applying.RECORD).write_text(
        json.dumps({"memory": "8G", "swap": "0", "tasks": "500", "processors": "unlimited", "processor_weight": 100})
    )
    found = Host(
        Places(state=str(state), run=str(run), control=str(tmp_path / "control"), kept=str(tmp_path / "kept"),
               lookup=lambda name: (20000, 20000)),
        applying.Places(state=str(state), run=str(run), control=str(tmp_path / "control"), proc=str(proc)),
    )  # fmt: skip
    found.places = replace(found.places, command=found.run)
    return found


@pytest.mark.holds("what a job raised is taken back at its end")
def test_limits_follow_jobs(host: Host) -> None:
    state = host.places.state
    assert (host.go(), host.told) == ([], [])
    grants.write(JOB, state)
    assert (host.go(), host.told) == ([], [("user-20000.slice", f"MemoryMax={10 * GIB}")])
    assert (host.go(), host.told) == ([], []), "a second look changes nothing"
    # two jobs of one person, ending in any order
    grants.write(replace(JOB, id="slurm-13", gpus=["GPU-b"], memory=GIB), state)
    host.go()
    assert host.told == [("user-20000.slice", f"MemoryMax={11 * GIB}")]
    grants.delete(["slurm-12"], state, host.places.run)
    host.go()
    assert host.told == [("user-20000.slice", f"MemoryMax={9 * GIB}")]
    grants.delete(["slurm-13"], state, host.places.run)
    host.go()
    assert host.told == [("user-20000.slice", f"MemoryMax={8 * GIB}")]
    assert host.files == [], "nothing hides what the site says later"
    assert (host.go(), host.told) == ([], [])


def test_a_job_whose_time_is_over_raises_nothing(host: Host) -> None:
    grants.write(JOB, host.places.state)
    host.go()
    assert (host.go(now=6000), host.told) == ([], [("user-20000.slice", f"MemoryMax={8 * GIB}")])


def test_an_admins_grant_raises_nothing(host: Host) -> None:
    grants.write(replace(JOB, source="admin"), host.places.state)
    assert (host.go(), host.told) == ([], [])


def test_what_systemd_refuses_is_told_and_tried_again(host: Host) -> None:
    grants.write(JOB, host.places.state)
    host.refuses = True
    (problem,) = host.go()
    assert problem == f"user-20000.slice: MemoryMax={10 * GIB} could not be set: no"
    host.refuses = False
    assert (host.go(), len(host.told)) == ([], 1)


@pytest.mark.holds("what an admin has set by hand stays")
@pytest.mark.parametrize("where", ["control", "kept"])
def test_what_an_admin_has_set_by_hand_stays(host: Host, where: str) -> None:
    grants.write(JOB, host.places.state)
    place = Path(getattr(host.places, where)) / "user-20000.slice.d"
    place.mkdir(parents=True)
    (place / "50-MemoryMax.conf").write_text("[Slice]\nMemoryMax=1G\n")
    assert (host.go(), host.told) == ([], [])


@pytest.mark.holds("a full /run keeps no job from its GPUs")
@pytest.mark.parametrize("room", [0, 1])
def test_what_cannot_be_remembered_is_a_problem_and_no_more(
    host: Host, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:  # fmt: skip
    """Nothing is raised that would not be taken back. ``room``: for so many files."""
    written: list[int] = []

    def full(*given: Any, **named: Any) -> None:
        written.append(1)
        if len(written) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomic(*given, **named)

    grants.write(JOB, host.places.state)
    monkeypatch.setattr(slice_limits, "write_atomic", full)
    assert host.go() == ["what limits were raised is not remembered: No space left on device"]
    assert len(host.told) == room
    monkeypatch.undo()
    assert (host.go(), host.told) == ([], [("user-20000.slice", f"MemoryMax={10 * GIB}")])
    grants.delete([JOB.id], host.places.state, host.places.run)
    assert (host.go(), host.told, host.files) == ([], [("user-20000.slice", f"MemoryMax={8 * GIB}")], [])


@pytest.mark.holds("what is raised was remembered before, and is taken back")
@pytest.mark.parametrize("ends", [False, True])
def test_whoever_is_killed_leaves_no_raised_limit(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:  # fmt: skip
    """As soon as systemd has done what it was told, and before anything else."""

    def killed(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        host.run(command)
        raise KeyboardInterrupt

    grants.write(JOB, host.places.state)
    with pytest.raises(KeyboardInterrupt):
        slice_limits.apply(replace(host.places, command=killed), 1500, host.limits)
    if ends:
        grants.delete([JOB.id], host.places.state, host.places.run)
    else:
        assert (host.go(), host.told) == ([], [("user-20000.slice", f"MemoryMax={10 * GIB}")])
        assert (host.go(), host.told) == ([], [])
        grants.delete([JOB.id], host.places.state, host.places.run)
    assert (host.go(), host.told) == ([], [("user-20000.slice", f"MemoryMax={8 * GIB}")])
    assert host.files == []


@pytest.mark.holds("limits are brought to jobs by one at a time")
def test_limits_are_brought_to_jobs_by_one_at_a_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    grants.write(JOB, host.places.state)
    monkeypatch.setattr(slice_limits, "flocked", partial(flocked, seconds=0.1))
    with flocked(f"{host.places.run}/locks/raised-limits"), pytest.raises(NodeError, match="has been held for"):
        host.go()
    assert host.told == []


@pytest.mark.holds("limits keep no job from its GPUs")
def test_damaged_limits_are_a_problem_and_no_more(host: Host) -> None:
    (Path(host.places.state) / applying.RECORD).write_text("{")
    grants.write(JOB, host.places.state)
    (problem,) = host.go()
    assert problem.startswith("user-20000.slice: limits do not follow its jobs: ")


def test_a_systemd_that_does_not_answer_is_a_problem_and_tried_again(host: Host) -> None:
    def late(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        raise NodeError("no answer in 30 s")

    grants.write(JOB, host.places.state)
    problems = slice_limits.apply(replace(host.places, command=late), 1500, host.limits).problems
    assert problems == [f"user-20000.slice: MemoryMax={10 * GIB} could not be set: no answer in 30 s"]
    assert (host.go(), host.told) == ([], [("user-20000.slice", f"MemoryMax={10 * GIB}")])
