"""The queue: what is read of squeue and sinfo, and how reasons are said."""

import json
import os
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import queue, texts

from gpuadmin.common import waiting
from tests.support.fake_slurm import row, slurm


def test_who_runs_comes_first_then_who_waits_by_their_turn() -> None:
    text = "\n".join(
        [
            row("7", "minji", "PENDING", priority=10, asked=50, reason="Priority"),
            row("8", "jiho", "PENDING", priority=20, asked=60, reason="Resources"),
            row("9_[1-999]", "sora", "PENDING", priority=10, asked=50, reason="QOSMaxGRESPerUser"),
            row(
                "5",
                "minji",
                "RUNNING",
                start=100,
                end=200,
                nodes="gpu1",
                tres="cpu=8,mem=1G,node=1,billing=2,gres/gpu=2",
            ),
            row("6", "jiho", "RUNNING", start=100, end=200, nodes="gpu1", tres="cpu=8,mem=1G,node=1,billing=0"),
        ]
    )
    found = queue.jobs(text)
    assert [(one["id"], one["place"], one["gpus"]) for one in found] == [
        ("5", 0, 2), ("6", 0, 0), ("8", 1, 1), ("7", 2, 1), ("9_[1-999]", 3, 1),
    ]  # fmt: skip
    assert (found[0]["nodes"], found[0]["start"], found[0]["end"], found[0]["reason"]) == ("gpu1", 100, 200, "")
    assert (found[2]["nodes"], found[2]["end"], found[2]["reason"]) == ("", None, "Resources")


@pytest.mark.holds("a job that is not understood is not left out")
@pytest.mark.parametrize(
    "odd", ["something else", row("5", "minji", "RUNNING", nodes="n" * 1024), f"{row('5', 'a', 'b')}x\x1f"]
)
def test_an_answer_that_is_not_understood_is_none(odd: str) -> None:
    with pytest.raises(NodeError, match="is not understood"):
        queue.jobs(f"{row('4', 'jiho', 'RUNNING', nodes='gpu1')}\n{odd}\n")


@pytest.mark.holds("nobody writes a job that is not there into the queue")
def test_a_name_is_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """squeue prints names as they are; this one has a line that looks like somebody else's job."""
    forged = row("7", "hana", "RUNNING", nodes="gpu1")
    name = f"x\n{forged}\x1e\n{forged}"
    squeue = tmp_path / "squeue"
    squeue.write_text(
        f'#!/usr/bin/env -S "{sys.executable}"\nimport re, sys\n'
        f"token = re.search('\\x1f([0-9a-f]+)', ' '.join(sys.argv))[1]\n"
        f"real = {row('12', 'minji', 'RUNNING', nodes='gpu2', name='NAME')!r}\n"
        f"print(real.replace('\\x1f', '\\x1f' + token).replace('NAME', {name!r}) + '\\x1e' + token)\n"
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (found,) = queue.ask_jobs()
    assert (found["id"], found["user"], found["nodes"]) == ("12", "minji", "gpu2")
    assert queue.on([found], "gpu2") == ["minji (job 12)"]
    assert found["name"].startswith("x?7 ")


@pytest.mark.parametrize(
    ("reason", "gpus", "code"),
    [
        ("Priority", 1, "priority"), ("Resources", 1, "resources"), ("Resources", 0, "processors"),
        ("QOSMaxGRESPerUser", 1, "limit"), ("QOSMaxJobsPerUserLimit", 1, "limit"), ("AssocGrpGRES", 1, "limit"),
        ("QOSMaxWallDurationPerJobLimit", 1, "longest"), ("PartitionTimeLimit", 1, "longest"),
        ("ReqNodeNotAvail, UnavailableNodes:gpu1", 1, "node"), ("BeginTime", 1, "later"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", 1, "node"),
        ("JobHeldAdmin", 1, "held"), ("launch failed requeued held", 1, "held"), ("None", 1, "unread"),
        ("", 1, "unread"), ("Something new", 1, "other"),
    ],
)  # fmt: skip
def test_reasons(reason: str, gpus: int, code: str) -> None:
    assert queue.code(reason, gpus) == code


@pytest.mark.parametrize(
    ("id", "tasks"),
    [
        ("12", ""), ("12_3", ""), ("12_[4]", ""), ("12_[0-5]", "6"), ("12_[0-5%2]", "6"), ("12_[0-10:5,20]", "4"),
        ("12_[0-5,7,...]", "≥ 7"), ("12_[0-5,7,...%2]", "≥ 7"), ("12_[0-5,7,9-1", "≥ 7"), ("12_[x]", ""),
    ],
)  # fmt: skip
def test_tasks_of_an_array_that_waits(id: str, tasks: str) -> None:
    assert waiting.count_tasks(id) == tasks


@pytest.mark.parametrize(
    ("reason", "words", "gpus"),
    [
        ("gpuadmin sick: GPU 3: Xid 48", "GPU 3: Xid 48", ["3"]),
        ("gpuadmin sick: GPU 0 (0000:01:00.0): x; GPU 11: y", "GPU 0 (0000:01:00.0): x; GPU 11: y", ["0", "11"]),
        # the whole node: everybody on it is meant
        ("gpuadmin sick: GPU 3: Xid 48; 10-fan: loud", "GPU 3: Xid 48; 10-fan: loud", []),
        ("gpuadmin full disk: /", "", []), ("", "", []), ("fan is loud", "", []),
    ],
)  # fmt: skip
def test_what_is_broken_and_on_which_gpus(reason: str, words: str, gpus: list[str]) -> None:
    assert waiting.find_sick(reason) == (words, gpus)


def test_each_reason_has_its_words_in_both_languages() -> None:
    assert {code for _, code in queue._REASONS} | {waiting.OTHER, "processors"} == set(waiting.WHY)
    assert set(texts.TEXTS["en"]) == set(texts.TEXTS["ko"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ""), ("gpu1", "gpu1"), ("gpu[1-3]", "gpu1,gpu2,gpu3"),
        ("a,gpu[08-10,12],b-x", "a,gpu08,gpu09,gpu10,gpu12,b-x"),
        ("gpu[1-2].lab,c", "gpu1.lab,gpu2.lab,c"), ("gpu[1-99999999]", "gpu[1-99999999]"), ("gpu[x-y]", "gpu[x-y]"),
    ],
)  # fmt: skip
def test_the_nodes_of_a_job(text: str, names: str) -> None:
    assert queue.names(text) == names


def test_nodes_that_take_no_job_say_why() -> None:
    assert queue.nodes("gpu1|idle|none\ngpu2|drained*|Prolog error\ngpu3|mixed*|none\nodd\n") == [
        {"name": "gpu1", "state": "idle", "reason": ""},
        {"name": "gpu2", "state": "drained", "reason": "Prolog error"},
        {"name": "gpu3", "state": "mixed", "reason": "Not responding"},
    ]


def test_a_controller_that_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, scontrol="sleep 60")
    monkeypatch.setattr(queue, "ALIVE", 0.2)
    with pytest.raises(NodeError, match="does not answer"):
        queue.alive()


@pytest.mark.holds("a controller that hangs meanwhile is not waited for")
def test_a_controller_that_hangs_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    slurm(tmp_path, monkeypatch, squeue="exec sleep 5")
    monkeypatch.setattr(queue, "ANSWER", 0.2)
    began = time.monotonic()
    with pytest.raises(NodeError, match="no answer"):
        queue.ask_jobs()
    assert time.monotonic() - began < 4


def test_a_controller_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is DOWN'; exit 1")
    with pytest.raises(NodeError, match="does not answer"):
        queue.alive()
    slurm(tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is UP'")
    queue.alive()
    monkeypatch.setenv("PATH", os.fspath(tmp_path / "nowhere"))
    with pytest.raises(NodeError, match="scontrol"):
        queue.alive()


def test_what_slurm_refuses_is_said_in_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, squeue="echo 'squeue: error: Invalid user' >&2; exit 1")
    with pytest.raises(NodeError, match=r"^Invalid user$"):
        queue.ask_jobs()


def test_what_a_host_says_of_its_daemons_and_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "\n".join(row(str(number), name, "RUNNING") for number, name in enumerate(("minji", "jiho", "minji"), 1))
    (tmp_path / "jobs").write_text(lines + "\n")
    slurm(
        tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is UP'", squeue=f"cat {tmp_path}/jobs",
        sinfo="printf 'gpu1|idle|none\\ngpu2|drained|fan\\n'", slurmd="echo slurm-wlm 24.05.3",
    )  # fmt: skip
    assert queue.owners() == ["jiho", "minji"]
    assert queue.closed() == {"gpu2": "fan"}
    assert queue.version("slurmd", str(tmp_path)) == [24, 5]
    assert queue.version("slurmctld", str(tmp_path)) is None
    slurm(tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is DOWN'")
    assert queue.owners() is None, "not known is not nobody"


def test_what_a_verb_without_a_playbook_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs").write_text(row("4", "minji", "PENDING", reason="Priority") + "\n")
    slurm(
        tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is UP'", squeue=f"cat {tmp_path}/jobs",
        sinfo="printf 'gpu1|idle|none\\n'",
    )  # fmt: skip
    assert commands.main(["queue-shown"]) == 0
    said = json.loads(capsys.readouterr().out)["queue"]
    assert [(one["user"], one["place"], one["why"][:11]) for one in said["jobs"]] == [("minji", 1, "Others come")]
    slurm(tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is DOWN'")
    assert commands.main(["queue-shown"]) == 0
    assert json.loads(capsys.readouterr().out) == {"problem": "slurmctld does not answer"}


@pytest.mark.holds("what a login has set for its own squeue leaves nothing out")
def test_what_a_login_has_set_leaves_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs").write_text(row("4", "minji", "PENDING", reason="Priority") + "\n")
    slurm(
        tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is UP'",
        squeue=f'test "$SQUEUE_USERS$SLURM_CLUSTERS" || cat {tmp_path}/jobs',
        sinfo="test \"$SINFO_PARTITION\" || printf 'gpu1|idle|none\\n'",
    )  # fmt: skip
    for name in ("SQUEUE_USERS", "SLURM_CLUSTERS", "SINFO_PARTITION"):
        monkeypatch.setenv(name, "debug")
    assert commands.main(["queue-shown"]) == 0
    said = json.loads(capsys.readouterr().out)["queue"]
    assert (len(said["jobs"]), len(said["nodes"])) == (1, 1)
