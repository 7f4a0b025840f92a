"""A person's jobs of 30 days: what is asked of the accounting, and how it is put into words."""

import json
import os
import pwd
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import gpu, gpu_jobs, queue

from tests.support.fake_slurm import slurm

ME, UID = pwd.getpwuid(os.getuid()).pw_name, os.getuid()
G = 1 << 30
ALLOC = f"billing=4,cpu=8,gres/gpu=2,gres/gpu:h100=2,mem={64 * G},node=1"


def row(job: str, state: str = "COMPLETED", **other: str) -> dict[str, str]:
    """A row of sacct's, with the fields that gpu_jobs asks for."""
    return {
        "JobID": job, "JobIDRaw": job, "Submit": "1900000000", "Start": "1900000600", "End": "1900007800",
        "TimelimitRaw": "240", "State": state, "ExitCode": "0:0", "NodeList": "gpu[1-2]", "AllocTRES": ALLOC,
        "ReqTRES": "cpu=8,gres/gpu=2", "MaxRSS": "", "TotalCPU": "00:00:00", "ElapsedRaw": "7200",
        "SystemComment": "", "JobName": "train",
    } | other  # fmt: skip


def line(**fields: str) -> str:
    """The same as sacct prints it, with a bar between fields."""
    return "|".join(fields[name] for name in gpu_jobs._FIELDS)


ENDS = [
    (row("1"), "done", "완료"),
    (row("1", "FAILED", ExitCode="3:0"), "failed: the command ended with 3", "실패: 명령의 종료 코드 3"),
    (row("1", "FAILED", ExitCode="0:11"), "failed: ended by signal 11", "실패: 시그널 11"),
    (row("1", "TIMEOUT"), "its time was over: ask for more hours", "시간 초과: 다음에는 시간을 더 길게 요청하세요"),
    (row("1", "OUT_OF_MEMORY"), "out of memory: ask for more with --memory", "메모리 부족: --memory로 더 요청하세요"),
    (row("1", "NODE_FAIL"), "its node failed: ask your admins", "노드 장애: 관리자에게 문의하세요"),
    (row("1", f"CANCELLED by {UID}"), "you ended it", "직접 끝냄"),
    (row("1", f"CANCELLED by {UID}", JobName="gpu-get"), "given back", "반납함"),
    (row("1", f"CANCELLED by {UID}", JobName="gpu-run", Start="Unknown"), "you gave your place up", "대기 취소"),
    (row("1", "CANCELLED by 4294967294"), "ended by an admin (4294967294)", "관리자(4294967294)가 끝냄"),
    (row("1", "REVOKED\x1b[2J"), "Slurm says: REVOKED?[2J", "Slurm: REVOKED?[2J"),
]


@pytest.mark.parametrize(("told", "english", "korean"), ENDS)
def test_how_a_job_ended(told: dict[str, str], english: str, korean: str) -> None:
    (one,) = gpu_jobs.parse_jobs([told])
    assert [gpu_jobs.describe_end(one, language) for language in ("en", "ko")] == [english, korean]


def test_what_a_job_used_of_what_it_had() -> None:
    batch = row("7.batch", MaxRSS=str(20 * G), TotalCPU="1-00:00:00")
    use = gpu_jobs.build_use_command("7", 0.4321, 12 * G, 80 * G)[-1].partition("=")[2]
    extern = row("7.extern", MaxRSS=str(99 * G))
    one, beside = gpu_jobs.parse_jobs([
        row("7", SystemComment=use), batch, extern, row("7.0", MaxRSS=str(30 * G), TotalCPU="02:00:00.5"),
        row("6", JobName="gpu-run", Submit="1800000000"), row("6.batch", MaxRSS=str(G), TotalCPU="00:00:01"),
    ])  # fmt: skip
    assert (one["id"], one["nodes"], one["gpus"], one["limit"]) == ("7", "gpu1,gpu2", 2, 14400)
    assert gpu_jobs._row(one, "en")[3:] == [
        "0:10:00", "2:00:00 of 4:00:00", "gpu1,gpu2", "2", "done",
        "GPU 43%, 12.0 of 80 GiB, 12.0 of 8 CPUs, memory 30.0 of 64 GiB",
    ]  # fmt: skip
    assert gpu_jobs._row(beside, "en")[-1] == "–", "what a job does that does nothing is not its person's use"


def test_one_that_waits_has_what_it_asked_for() -> None:
    waits = row("7", "PENDING", Start="Unknown", End="Unknown", AllocTRES="", NodeList="None assigned", ElapsedRaw="0")
    (one,) = gpu_jobs.parse_jobs([waits])
    assert (one["start"], one["gpus"], gpu_jobs._row(one, "en")[3:6]) == (None, 2, ["–", "–", "–"])


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What sacct prints is in the file `said`, with a bar between fields; how it is called goes into `called`."""
    ends = 'between=$(printf %s "$*" | grep -o "delimiter=[^ ]*" | cut -d= -f2)'
    script = f'echo "$*" >{tmp_path}/called; {ends}; sed "s/|/$between/g" {tmp_path}/said'
    slurm(tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is UP'", sacct=script)
    monkeypatch.setenv("LANG", "C")
    return tmp_path


@pytest.mark.holds("nobody writes a job that is not there into the accounting")
def test_ones_own_jobs_are_shown(sacct: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forged = "x\x1f\n" + line(**row("99")).replace("|", "\x1f")
    (sacct / "said").write_text("".join(f"{line(**one)}|\n" for one in (row("7", JobName=forged), row("8"))))
    assert gpu.main(["jobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["Job", "7", "8"]
    assert f"--user={UID}" in (sacct / "called").read_text()
    assert gpu.main(["jobs", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["7", "8"]
    (sacct / "said").write_text("")
    assert gpu.main(["jobs"]) == 0
    assert capsys.readouterr().out == "You have had no job in the last 30 days.\n"


@pytest.mark.holds("an answer that is not understood is not shown")
def test_an_answer_that_is_cut_is_none(sacct: Path) -> None:
    (sacct / "said").write_text(line(**row("7")))
    with pytest.raises(NodeError, match="not understood"):
        queue.accounting(gpu_jobs._FIELDS)
