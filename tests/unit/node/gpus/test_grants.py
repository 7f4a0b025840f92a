"""Grants as files, and those that are jobs'."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import LATEST, Grant

from tests.support.gated_host import read_only

ONE = Grant("a1", "minji", 20000, ["GPU-0"], 1000, 2000, "root@nas", "deadline")
OTHER = replace(ONE, id="b2", user="jiho", uid=20001, gpus=["GPU-1"])


@pytest.mark.parametrize(("now", "holds"), [(999, False), (1000, True), (1999, True), (2000, False), (9000, False)])
def test_when_a_grant_holds(now: int, holds: bool) -> None:
    assert ONE.holds(now) is holds


def test_everybody_has_the_union_of_their_own() -> None:
    more = replace(ONE, id="c3", gpus=["GPU-2", "GPU-0"])
    over = replace(ONE, id="d4", gpus=["GPU-3"], until=1100)
    assert grants.by_uid([ONE, OTHER, more, over], 1500) == {20000: ["GPU-0", "GPU-2"], 20001: ["GPU-1"]}


@pytest.mark.root
def test_what_is_written_is_read(tmp_path: Path) -> None:
    grants.write(ONE, str(tmp_path))
    grants.write(OTHER, str(tmp_path))
    assert grants.read(str(tmp_path)) == ([ONE, OTHER], [])
    grants.delete(["a1", "gone"], str(tmp_path))
    assert grants.read(str(tmp_path)) == ([OTHER], [])


@pytest.mark.root
@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "\\xff", json.dumps({**asdict(ONE), "uid": "x"}), json.dumps({**asdict(ONE), "id": "z9"}),
     json.dumps({**asdict(ONE), "uid": 0}), json.dumps({**asdict(ONE), "gpus": []}),
     json.dumps({**asdict(ONE), "gpus": ["../../dev/sda"]}), json.dumps({**asdict(ONE), "until": 999})],
)  # fmt: skip
def test_a_damaged_file_opens_nothing_and_stops_no_other(tmp_path: Path, text: str) -> None:
    grants.write(OTHER, str(tmp_path))
    (tmp_path / grants.DIRECTORY / "a1.json").write_text(text)
    found, problems = grants.read(str(tmp_path))
    assert found == [OTHER]
    assert len(problems) == 1
    assert "a1.json opens nothing" in problems[0]


@pytest.mark.root
@pytest.mark.holds("a grant's id is not a path")
def test_what_may_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="nobody's who needs a grant"):
        grants.write(replace(ONE, uid=0), str(tmp_path))
    for reason in ("a\x1b[2J", "x" * (grants.LONGEST + 1)):
        with pytest.raises(NodeError, match="printable"):
            grants.write(replace(ONE, reason=reason), str(tmp_path))
    for name in ("../a1", "", "a1/b", "x" * 41):
        with pytest.raises(NodeError, match="no usable id"):
            grants.write(replace(ONE, id=name), str(tmp_path))
    assert grants.read(str(tmp_path)) == ([], [])


def test_a_number_is_of_those_that_nobody_has() -> None:
    there = ["GPU-0", "GPU-1", "GPU-2"]
    assert grants.choose(1, there, [ONE], 1500) == ["GPU-1"]
    assert grants.choose(2, there, [ONE], 1500) == ["GPU-1", "GPU-2"]
    with pytest.raises(NodeError, match="asked for: 3; granted to nobody: 2 of 3"):
        grants.choose(3, there, [ONE], 1500)
    assert grants.choose(3, there, [ONE], 2000) == there, "what is over keeps nothing"


def test_what_somebody_has_is_not_given_to_another() -> None:
    with pytest.raises(NodeError, match=r"granted to minji \(grant a1\)"):
        grants.choose(["GPU-0"], ["GPU-0", "GPU-1"], [ONE], 1500)
    assert grants.choose(1, ["GPU-0", "GPU-1"], [ONE], 500) == ["GPU-1"], "a clock was put back"
    with pytest.raises(NodeError, match="there is no GPU GPU-9; there are: GPU-0"):
        grants.choose(["GPU-9"], ["GPU-0"], [], 1500)


def damaged(directory: Path, **other: object) -> list[str]:
    """What is wrong with the grant a1 that has these fields; b2 is always as it was."""
    grants.write(OTHER, str(directory))
    (directory / grants.DIRECTORY / "a1.json").write_text(json.dumps({**asdict(ONE), **other}))
    found, problems = grants.read(str(directory))
    assert found == [OTHER]
    return problems


@pytest.mark.root
@pytest.mark.holds("root and daemons are granted nothing")
@pytest.mark.parametrize("uid", [-1, 0, 33, 999, 2**32 - 1, 2**40])
def test_uids_that_are_nobody_s(tmp_path: Path, uid: int) -> None:
    (problem,) = damaged(tmp_path, uid=uid)
    assert "nobody's who needs a grant" in problem


@pytest.mark.root
@pytest.mark.holds("a grant ends at a time that dates can say")
@pytest.mark.parametrize("until", [grants.LATEST + 1, 10**18, 10**400])
def test_an_end_that_no_date_can_say(tmp_path: Path, until: int) -> None:
    (problem,) = damaged(tmp_path, until=until)
    assert "is not a time" in problem


@pytest.mark.root
def test_a_file_that_is_too_large_or_too_deep(tmp_path: Path) -> None:
    grants.write(OTHER, str(tmp_path))
    (tmp_path / grants.DIRECTORY / "a1.json").write_text("[" * 60_000)
    (tmp_path / grants.DIRECTORY / "c3.json").write_bytes(b" " * (grants.LARGEST + 1))
    found, problems = grants.read(str(tmp_path))
    assert found == [OTHER]
    assert "c3.json is larger than any grant" in problems[1]


@pytest.mark.root
def test_what_is_no_file(tmp_path: Path) -> None:
    grants.write(OTHER, str(tmp_path))
    directory = tmp_path / grants.DIRECTORY
    (directory / "a1.json").mkdir()
    (directory / "c3.json").symlink_to(directory / "b2.json")
    (directory / "d4.json").symlink_to("/dev/zero")
    found, problems = grants.read(str(tmp_path))
    assert found == [OTHER]
    assert [problem.split()[0].rpartition("/")[2] for problem in problems] == ["a1.json", "c3.json", "d4.json"]


@pytest.mark.root
@pytest.mark.holds("who can write a grant is root alone")
def test_what_others_can_write_opens_nothing(tmp_path: Path) -> None:
    for one in (ONE, OTHER):
        grants.write(one, str(tmp_path))
    directory = tmp_path / grants.DIRECTORY
    os.chown(directory / "a1.json", ONE.uid, -1)
    found, (problem,) = grants.read(str(tmp_path))
    assert (found, "a1.json can be written by others than root" in problem) == ([OTHER], True)
    (directory / "b2.json").chmod(0o666)
    assert grants.read(str(tmp_path))[0] == []
    directory.chmod(0o777)
    assert grants.read(str(tmp_path)) == ([], [f"no grant is known: {directory} can be written by others than root"])


@pytest.mark.holds("grants that cannot be listed are not taken for none")
def test_grants_that_cannot_be_listed_are_not_none(tmp_path: Path) -> None:
    """Whoever asks for grants to end what was not granted would end everybody's work."""
    assert grants.read(str(tmp_path)) == ([], [])
    (tmp_path / grants.DIRECTORY).write_text("")
    found, (problem,) = grants.read(str(tmp_path))
    assert (found, problem.startswith("no grant is known: ")) == ([], True)


@pytest.mark.root
@pytest.mark.holds("an end does not wait for a disk")
def test_what_cannot_be_removed_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (ONE, OTHER):
        grants.write(one, str(tmp_path))
    with monkeypatch.context() as patch:
        read_only(patch)
        (problem,) = grants.delete(["a1"], str(tmp_path), str(tmp_path))
    assert "a1.json has ended and cannot be removed" in problem
    assert grants.read(str(tmp_path), str(tmp_path)) == ([OTHER], [])
    assert grants.delete([], str(tmp_path), str(tmp_path)) == []
    assert grants.ended(str(tmp_path)) == []
    assert grants.read(str(tmp_path), str(tmp_path)) == ([OTHER], [])


@pytest.mark.root
@pytest.mark.holds("after a power cut no grant is there again that has ended")
def test_an_end_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grants.write(ONE, str(tmp_path))
    path = tmp_path / grants.DIRECTORY / "a1.json"
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(grants, "sync_directory", lambda directory: synced.append((directory, path.exists())))
    grants.delete(["a1"], str(tmp_path), str(tmp_path))
    assert synced == [(str(path.parent), False)]


def test_a_gpu_that_is_named_twice_is_one() -> None:
    assert grants.choose(["GPU-0", "GPU-0"], ["GPU-0", "GPU-1"], [], 1500) == ["GPU-0"]


JOB = Grant("slurm-12", "minji", 20000, ["GPU-a"], 1000, 5000, "Slurm", "job 12", "slurm")
ADMIN = Grant("a1", "jiho", 20001, ["GPU-b"], 1000, 5000, "root@nas")
NOW = 2000.0
STEP = "/system.slice/node1_slurmstepd.scope/job_12/step_0/user/task_0"


def says(code: int, text: str = "", error: str = "") -> Callable[[Sequence[str]], subprocess.CompletedProcess[str]]:
    def answer(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert tuple(command[:2]) == ("timeout", "5"), "Slurm's programs may take for ever"
        return subprocess.CompletedProcess(command, code, text, error)

    return answer


def late(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    raise NodeError("no answer")


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (says(0, "JOBID\n12\n14\n"), []),
        (says(0, "JOBID\n120\n"), ["slurm-12"]),
        (says(0, "No slurmstepd's found on this node\n"), ["slurm-12"]),
        (says(0, "", "No slurmstepd's found on this node\n"), ["slurm-12"]),
        (says(0, "", "slurm_load_jobs error: 12\n"), []),
        (says(1, "", "No slurmstepd's found on this node\n"), []),
        (says(0, "something that nobody knows\n"), []),
        (says(0), []),
        (says(1, "JOBID\n14\n"), []),
        (says(124), []),
        # Slurm 22.05
        (says(1, "", "No job steps exist on this node.\n"), ["slurm-12"]),
        (says(0, "PID      JOBID    STEPID   LOCALID GLOBALID\n12       14       extern   0       0\n"), ["slurm-12"]),
        (says(0, "PID      JOBID    STEPID   LOCALID GLOBALID\n-1       12       0        0       0\n"), []),
        (says(2, "", "No job steps exist on this node.\n"), []),
        (late, []),
    ],
)
def test_only_what_slurm_says_has_ended_has_ended(
    answer: Callable[[Sequence[str]], subprocess.CompletedProcess[str]], ended: list[str]
) -> None:
    assert [one.id for one in grants.ended_jobs([JOB, ADMIN], answer, NOW)] == ended


def test_a_job_that_is_about_to_start_is_not_asked_for() -> None:
    assert grants.ended_jobs([JOB], late, JOB.begin + 10) == []


@pytest.mark.holds("an end that Slurm does not say prolongs nothing")
def test_more_time_is_asked_for_shortly_before_the_end() -> None:
    later, commands = "9000", []

    def answer(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return says(0, f"{later}\n")(command)

    assert list(grants.prolonged([JOB, ADMIN], answer, 4900)) == [
        Grant("slurm-12", "minji", 20000, ["GPU-a"], 1000, 9000, "Slurm", "job 12", "slurm")
    ]
    # local time would have one hour twice when clocks go back
    assert ("SLURM_TIME_FORMAT=%s" in commands[0], len(commands)) == (True, 1)
    assert grants.prolonged([JOB], answer, 3000) == []
    assert grants.prolonged([JOB], answer, 5000) == [], "what has ended does not begin again"
    assert grants.prolonged([JOB], says(1), 4900) == []
    (last,) = grants.prolonged([JOB], says(0, "253402300799"), 4900)
    assert last.until == LATEST, "a grant may end no later"
    for odd in ("N/A", f"EndTime={later}", f"{later}\n{later}", "2026-10-25T02:30:00", "9" * 5000, "-9"):
        assert grants.prolonged([JOB], says(0, odd), 4900) == []


@pytest.mark.parametrize(
    ("cgroup", "uid", "now", "gpus"),
    [
        (STEP, 20000, NOW, {"GPU-a"}),
        (STEP, 20001, NOW, set()),
        (STEP, 20000, 5000, set()),
        (STEP.replace("job_12", "job_13"), 20000, NOW, set()),
        (STEP.replace("job_12", "job_120"), 20000, NOW, set()),
        ("/system.slice/hub.service/slurmstepd.scope/job_12", 20000, NOW, set()),
        ("/user.slice/user-20000.slice/node1_slurmstepd.scope/job_12", 20000, NOW, set()),
    ],
)
def test_a_job_opens_its_own(cgroup: str, uid: int, now: float, gpus: set[str]) -> None:
    assert grants.granted(cgroup, uid, [JOB, ADMIN], now) == gpus
