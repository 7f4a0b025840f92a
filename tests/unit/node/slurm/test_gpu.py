"""What people type, and what they are told."""

import json
import os
import pwd
import re
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import gpu, gpu_words, policy

from tests.support.fake_slurm import row, slurm

ME = pwd.getpwuid(os.getuid()).pw_name
UP = "echo 'Slurmctld(primary) at nas is UP'"


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Slurm's programs; what sbatch and scancel are called with is in `called`, and squeue prints the file `jobs`."""
    note = f'echo "$(basename $0) $*" >>{tmp_path}/called'
    slurm(
        tmp_path, monkeypatch, scontrol=UP, sbatch=f"{note}; echo 12", scancel=note,
        squeue=f"cat {tmp_path}/jobs", sinfo="echo 'gpu2|drained|Prolog error'",
    )  # fmt: skip
    (tmp_path / "jobs").write_text("")
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def jobs(place: Path, *rows: str) -> None:
    (place / "jobs").write_text("".join(f"{one}\n" for one in rows))


def types(place: Path, monkeypatch: pytest.MonkeyPatch, *nodes: tuple[str, str, str]) -> None:
    """What each node has, and what of it jobs have, as sinfo prints it."""
    (place / "types").write_text(
        "".join(f"{node:<64}\x1f{gres:<256}\x1f{used:<256}\x1f\n" for node, gres, used in nodes)
    )
    monkeypatch.setattr(gpu.queue, "TYPES", ("cat", str(place / "types")))


def called(place: Path) -> list[str]:
    path = place / "called"
    return path.read_text().splitlines() if path.exists() else []


def test_get_asks_and_waits(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = iter([
        [row("12", ME, "PENDING", reason="None")],
        [row("3", "jiho", "PENDING", priority=9, reason="Resources"), row("12", ME, "PENDING", reason="Priority")],
        [row("3", "jiho", "PENDING", priority=9, reason="Resources"), row("12", ME, "PENDING", reason="Priority")],
        [row("12", ME, "RUNNING", end=1795608428, nodes="gpu1", tres="gres/gpu=2", comment="(null)")],
        [row("12", ME, "RUNNING", end=1795608428, nodes="gpu1", tres="gres/gpu=2")],
    ])  # fmt: skip
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        jobs(bin, *next(turns))

    assert gpu.main(["get", "2", "--hours", "3", "--node", "gpu1"], sleep=sleep) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Job 12: you asked for 2 GPUs for 3 h."
    assert lines[1].startswith("Your place in the queue: 2. Others come first")
    assert lines[2].startswith("2 GPUs on gpu1 until ")
    assert lines[3].endswith("ssh gpu1"), "it is another node than the one they are on"
    assert len(lines) == 4, "the same place is not said twice"
    assert next(turns, None) is None, "it is said once the GPUs are open"
    (asked,) = called(bin)
    assert "--gres=gpu:2 --time=3:00:00" in asked
    assert "--nodelist=gpu1" in asked


@pytest.mark.holds("it is not guessed which type of GPUs somebody means")
def test_a_type_by_a_part_of_its_name(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    types(
        bin, monkeypatch, ("gpu1", "gpu:h100-80gb:8(S:0-1)", "gpu:h100-80gb:3(IDX:0,2-3)"),
        ("gpu2", "gpu:a100:4,mps:8", "gpu:a100:0(IDX:N/A),mps:0"),
        ("gpu3", "gpu:a100:2,gpu:6(S:0-1)", "gpu:a100:1(IDX:1),gpu:(null):2(IDX:3,7)"),
        ("gpu4", "gpu:a100-pcie:4", "gpu:a100-pcie:4(IDX:0-3)"),
    )  # fmt: skip
    for typed, given in (("H100", "h100-80gb"), ("a100", "a100"), ("pcie", "a100-pcie")):
        assert gpu.main(["get", "2", "--type", typed, "--no-wait"]) == 0
        assert f"--gres=gpu:{given}:2" in called(bin)[-1]
    before = called(bin)
    for typed in ("100", "v100"):
        assert gpu.main(["get", "--type", typed]) == 1
        assert (
            f"{typed}: no type of GPUs, or more than one, has that in its name. There are: a100, a100-pcie, h100-80gb"
            in capsys.readouterr().err
        )
    assert gpu.main(["get", "--type", "h100:8,x"]) == 2
    assert called(bin) == before
    assert gpu.main(["list"]) == 0
    free = (
        "GPUs: gpu1: 8 × h100-80gb (5 free); gpu2: 4 × a100; gpu3: 2 × a100 (1 free), 6 (4 free); "
        "gpu4: 4 × a100-pcie (0 free)\n"
    )
    assert free in capsys.readouterr().out, "gpu2 takes no jobs, so none of its GPUs is to be had"


@pytest.mark.holds("who asks for a GPU is given no part of one")
def test_mig_devices_are_asked_for_by_name(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def given(*arguments: str, nodes: dict[str, str]) -> str:
        types(bin, monkeypatch, *((node, gres, "gpu:(null):0(IDX:N/A)") for node, gres in nodes.items()))
        assert gpu.main(["get", *arguments, "--no-wait"]) == 0
        return called(bin)[-1]

    one = {"gpu1": "gpu:h100:1,gpu:1g.10gb:7(S:0-1)", "gpu2": "gpu:h100:8"}
    assert "--gres=gpu:1g.10gb:2 " in given("2", "--mig", "1G.10gb", nodes=one)
    assert "you asked for 2 × 1g.10gb for 1 h" in capsys.readouterr().out
    # Slurm would take a MIG device for a GPU
    assert "--gres=gpu:h100:1 " in given(nodes=one)
    several = {**one, "gpu3": "gpu:a100:4"}
    asked = given(nodes=several)
    assert "--gres=gpu:1 " in asked
    assert "--exclude=gpu1 " in asked
    assert "--gres=gpu:h100:1 " in given("--node", "gpu1", nodes=several)
    assert "--exclude" not in given(nodes={"gpu2": "gpu:h100:8", "gpu3": "gpu:a100:4"})
    types(bin, monkeypatch, ("gpu1", one["gpu1"], "gpu:h100:1(IDX:7),gpu:1g.10gb:2(IDX:0-1)"))
    before = called(bin)
    assert gpu.main(["get", "--mig", "3g.40gb"]) == 1
    assert "3g.40gb: no node has such MIG devices. There are: 1g.10gb" in capsys.readouterr().err
    assert gpu.main(["get", "--mig", "h100"]) == 2
    assert called(bin) == before
    assert gpu.main(["list"]) == 0
    out = capsys.readouterr().out
    assert "GPUs: gpu1: 1 × h100 (0 free)\n" in out
    assert "MIG devices: gpu1: 7 × 1g.10gb (5 free)\n" in out


def test_jobs_that_have_more_than_a_node_has_leave_none(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They go on where GPUs were taken out."""
    types(bin, monkeypatch, ("gpu1", "gpu:h100:4", "gpu:h100:8(IDX:0-7)"))
    assert gpu.main(["list"]) == 0
    assert "gpu1: 4 × h100 (0 free)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("job", "gpus"),
    [
        (row("4", "jiho", "RUNNING", nodes="gpu1"), "1 × h100"),
        (row("4", "jiho", "RUNNING", nodes="gpu2"), "1"),  # it has two types
        (row("4", "jiho", "RUNNING", nodes="gpu3"), "1"),  # it has one without a type
        (row("4", "jiho", "RUNNING", nodes="gpu1,gpu3"), "1"),
        (row("4_[0-5]", "jiho", "PENDING"), "6 × 1"),
    ],
)
def test_list_says_of_which_type_and_how_many(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], job: str, gpus: str
) -> None:
    has = {"gpu1": "gpu:h100:4", "gpu2": "gpu:h100:4,gpu:1g.10gb:7", "gpu3": "gpu:h100:4,gpu:2"}
    types(bin, monkeypatch, *((node, gres, "") for node, gres in has.items()))
    jobs(bin, job)
    assert gpu.main(["list"]) == 0
    assert re.split(" {2,}", capsys.readouterr().out.splitlines()[1])[2] == gpus


def test_who_stops_waiting_keeps_their_place(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    assert gpu.main(["get"], sleep=sleep) == 130
    assert "You keep your place" in capsys.readouterr().out
    assert [one.split()[0] for one in called(bin)] == ["sbatch"]


@pytest.mark.parametrize("fails", ["ping", "squeue"])
def test_a_controller_that_goes_away_meanwhile_is_waited_for(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: str
) -> None:
    waits = row("12", ME, "PENDING", reason="Resources")
    turns = iter([waits, "", "", waits, row("12", ME, "RUNNING", end=1795608428, nodes="gpu1,gpu2")])

    def sleep(seconds: float) -> None:
        turn = next(turns)
        down = "echo 'Slurmctld(primary) at nas is DOWN'"
        slurm(bin, monkeypatch, scontrol=UP if turn or fails == "squeue" else down)
        jobs(bin, turn)
        if not turn and fails == "squeue":
            (bin / "jobs").unlink()

    monkeypatch.setattr(gpu_words.socket, "gethostname", lambda: "gpu3")
    assert gpu.main(["get"], sleep=sleep) == 0
    _, place, away, again, have, there = capsys.readouterr().out.splitlines()
    assert place == again == "Your place in the queue: 1. Next, as soon as enough GPUs are free."
    assert away == "The queue does not answer now. You keep your place, and this keeps waiting."
    assert have.startswith("1 GPU on gpu1, gpu2 until ")
    assert there == "You are on gpu3: ssh gpu1; ssh gpu2"


def test_a_job_that_has_ended_before_it_was_seen(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["get"], sleep=lambda seconds: None) == 1
    assert "Job 12 has ended" in capsys.readouterr().out


def test_release_gives_back_what_came_from_get_alone(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs(
        bin, row("4", ME, "RUNNING", name="gpu-get", nodes="gpu1"), row("5", ME, "RUNNING", name="train", nodes="gpu1"),
        row("6", "somebody-else", "RUNNING", name="gpu-get", nodes="gpu1"),
    )  # fmt: skip
    assert gpu.main(["release"]) == 0
    assert called(bin) == ["scancel 4"]
    assert "gpu release 5" in capsys.readouterr().out
    assert gpu.main(["release", "5"]) == 0
    assert called(bin) == ["scancel 4", "scancel 5"]
    assert gpu.main(["release", "6"]) == 1
    assert capsys.readouterr().err == "6 is not a job of yours.\n"


def test_list_and_why_in_both_languages(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs(bin, row("4", "jiho", "RUNNING", end=1795608428, nodes="gpu1"), row("5", ME, "PENDING", reason="Resources"))
    assert gpu.main(["list"]) == 0
    out = capsys.readouterr().out
    assert "5" in out
    assert "place 1" in out
    assert "gpu2 takes no jobs now: Prolog error" in out
    assert gpu.main(["why", "--language", "ko"]) == 0
    waits, closed = capsys.readouterr().out.splitlines()
    assert waits == "5: 대기 순서: 1번째. GPU가 충분히 비면 바로 다음 차례입니다."
    assert "gpu2" in closed, "which may be what it waits for"
    assert "Prolog error" in closed
    jobs(bin, row("6", ME, "PENDING", tres="cpu=64,mem=1G,node=1", reason="Resources"))
    assert gpu.main(["why"]) == 0
    assert "1. Next, as soon as enough processors and memory are free." in capsys.readouterr().out
    jobs(bin, row("5", ME, "RUNNING", end=1795608428, nodes="gpu1"))
    assert gpu.main(["why"]) == 0
    assert "gpu2" not in capsys.readouterr().out


def test_everybody_sees_who_made_an_exception_and_why(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end = 1795608428
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(end))
    of = (("4", "exception"), ("5", "people"))
    jobs(bin, *(row(id, "jiho", "RUNNING", nodes="gpu1", qos=qos, end=end) for id, qos in of))
    said = json.dumps({"id": "ab", "who": "root@ctl", "reason": "paper"})
    (bin / "noted").write_text(f"{'4':<32}\x1f{said:<4096}\x1f\n")
    slurm(bin, monkeypatch, squeue=f'case "$*" in *admin_comment*) cat {bin}/noted;; *) cat {bin}/jobs;; esac')
    assert gpu.main(["list"]) == 0
    english = f"\nJob 4 is an exception: an admin (root@ctl) gave jiho 1 GPU on gpu1 until {until}: paper\n"
    assert english in capsys.readouterr().out
    assert gpu.main(["list", "--language", "ko"]) == 0
    out = capsys.readouterr().out
    assert f"\n작업 4: 관리자(root@ctl)가 jiho에게 따로 준 gpu1의 GPU 1개({until}까지). 이유: paper\n" in out
    assert "작업 5" not in out


def test_a_queue_that_does_not_answer(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm(bin, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is DOWN'")
    assert gpu.main(["get"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert called(bin) == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "sbatch: error: Batch job submission failed: Requested node configuration is not available",
            "No node has that",
        ),
        (
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)",
            "than one person may have",
        ),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination", "no account"),
        ("sbatch: error: something else", "Slurm refuses: something else"),
    ],
)
def test_refusals_say_what_to_do(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, words: str
) -> None:
    slurm(bin, monkeypatch, sbatch=f"echo '{said}' >&2; exit 1")
    assert gpu.main(["get"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"gpus": 2, "queued": 20}, "You may have 2 GPUs at once, for 30 h each time, and 20 jobs"),
        ({"queued": 5}, "You may have GPUs for 30 h each time, and 5 jobs, waiting ones counted. If you need"),
        (
            {"queued": 5, "cpus": 64, "memory": 400, "nodes": 1},
            "You may have GPUs for 30 h each time, and 5 jobs, waiting ones counted. All your jobs together may have "
            "64 processors, 400 GiB of memory, 1 node. If you need more",
        ),
        (None, "Ask your admins what is allowed."),
    ],
)
def test_a_refusal_names_the_limits(
    bin: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    limits: dict[str, int] | None,
    words: str,
) -> None:
    """As the site says them: a node does not reach slurmdbd."""
    path = tmp_path / "policy.json"
    monkeypatch.setattr(policy, "PATH", str(path))
    says = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, …)"
    own = {"phd": {"name": "phd", "share": 10, "hours": 30, **limits}} if limits else {}
    others = {"people": {"name": "people", "share": 10, "hours": 1, "gpus": 1, "queued": 1}}
    path.write_text(json.dumps({"extend": "free", "hours": {"people": 1, "phd": 30}, "limits": {**others, **own}}))
    up = "*ping*) echo 'Slurmctld(primary) at nas is UP';;"
    group = f"*assoc_mgr*users={ME}*) echo 'UserName={ME}({os.getuid()}) DefAccount=phd ';;"
    slurm(bin, monkeypatch, sbatch=f"echo '{says}' >&2; exit 1", scontrol=f'case "$*" in {up} {group} *) exit 1;; esac')
    assert gpu.main(["get", "9"]) == 1
    assert capsys.readouterr().err.startswith(f"That is more than one person may have at once, or for longer. {words}")
    for odd in (tmp_path / "none", path / "below a file"):  # one that is not there, and one that cannot be read
        monkeypatch.setattr(policy, "PATH", str(odd))
        assert gpu.main(["get", "9", "--language", "ko"]) == 1
        assert capsys.readouterr().err.endswith("허용량은 관리자에게 문의하세요.\n")


@pytest.mark.parametrize("language", ["en", "ko"])
def test_one_s_own_limits(
    bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], language: str
) -> None:
    """A line each, of what the site says of their group, and of their exceptions."""
    path = tmp_path / "policy.json"
    monkeypatch.setattr(policy, "PATH", str(path))
    limits = {"name": "phd", "share": 10, "hours": 30, "queued": 5, "gpus": 2, "cpus": 64}
    book = {"gpus": 4, "hours": 8, "days": 7, "standing": 1, "lead": 12}
    site = {"extend": "free", "hours": {"phd": 30}, "limits": {"phd": limits}, "book": {"phd": book}}
    up = "*ping*) echo 'Slurmctld(primary) at nas is UP';;"
    group = f"*assoc_mgr*users={ME}*) echo 'UserName={ME}({os.getuid()}) DefAccount=phd ';;"
    slurm(
        bin, monkeypatch, scontrol=f'case "$*" in {up} {group} *) exit 1;; esac',
        squeue=f'case "$*" in *--jobs=7*) cat {tmp_path}/noted;; *) cat {tmp_path}/jobs;; esac',
    )  # fmt: skip
    (tmp_path / "noted").write_text('7\x1f{"id": "a1", "who": "kim@ctl", "reason": "paper"}\x1f')
    jobs(bin, row("7", ME, "RUNNING", end=1795608428, nodes="gpu1", qos="exception"), row("8", "jiho", "RUNNING"))
    said = []
    rules: list[dict[str, object]] = [
        {"idle_hours": 2, "idle_notice": 4}, {"idle_hours": 2}, {"idle_hours": 2, "idle_exempt": [ME]}, {},
    ]  # fmt: skip
    for more in rules:
        path.write_text(json.dumps({**site, **more}))
        assert gpu.main(["limits", "--language", language]) == 0
        said.append(capsys.readouterr().out.splitlines())
    assert [len(lines) for lines in said] == [7, 7, 7, 6]
    lines = {line for one in said for line in one}
    for word in ("phd", "64", "30", "12", "gpu extend", "gpu book", "paper", "kim@ctl", "2", "4"):
        assert any(word in line for line in lines), word
    if language == "en":
        assert said[0][1] == "You may have 2 GPUs at once, for 30 h each time, and 5 jobs, waiting ones counted."
        assert said[0][5].endswith("you are told, and 4 h later its job is ended if it still is not.")
    path.write_text(json.dumps({"extend": "never", "hours": {}}))
    assert gpu.main(["limits", "--language", language]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    slurm(bin, monkeypatch, scontrol=f'case "$*" in {up} *) echo;; esac')
    assert gpu.main(["limits", "--language", language]) == 1


@pytest.mark.holds("what is no name is no project, also for sbatch's other options")
def test_a_project(bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["get", "--project", "nlp", "--no-wait"]) == 0
    assert " --wckey=nlp " in called(bin)[-1]
    assert gpu.main(["get", "--no-wait"]) == 0
    assert "--wckey" not in called(bin)[-1]
    for odd in ("*nlp", "a,b", "", "-x", "nlp "):
        assert gpu.main(["get", "--project", odd]) == 2
        assert "is not a project of yours" in capsys.readouterr().err
    assert len(called(bin)) == 2
    refused = "sbatch: error: Batch job submission failed: Invalid wckey specification"
    slurm(bin, monkeypatch, sbatch=f"echo '{refused}' >&2; exit 1")
    assert gpu.main(["get", "--project", "bio", "--language", "ko"]) == 1
    assert "'bio': 참여 중인 프로젝트가 아닙니다" in capsys.readouterr().err


@pytest.mark.parametrize(
    "typed",
    [
        ["get", "0"], ["get", "65"], ["get", "x"], ["get", "--hours", "0"], ["get", "--hours"], ["get", "--node", "-x"],
        ["get", "--node=a b"], ["release", "4;5"], ["list", "x"], ["frob"], ["why", "--language", "fr"], ["get", "-x"],
    ],
)  # fmt: skip
def test_what_is_not_understood_is_given_to_no_program(
    bin: Path, capsys: pytest.CaptureFixture[str], typed: list[str]
) -> None:
    assert gpu.main(typed) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 2, "what is wrong, and where to read more"
    assert "`gpu --help`" in error[1]
    assert called(bin) == []


@pytest.mark.parametrize("typed", [[], ["-h"], ["get", "--help"], ["--language", "ko"]])
def test_help(bin: Path, capsys: pytest.CaptureFixture[str], typed: list[str]) -> None:
    assert gpu.main(typed) == 0
    assert ("사용법: gpu run" if "ko" in typed else "usage: gpu run") in capsys.readouterr().out
