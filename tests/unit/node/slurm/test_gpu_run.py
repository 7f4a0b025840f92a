"""`gpu run`: what is submitted, when the command runs, and that the job ends with it."""

import fcntl
import json
import os
import pwd
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import foreground, gpu, gpu_run, gpu_words

from tests.support.fake_slurm import row, slurm
from tests.support.machine import in_repository

ME = pwd.getpwuid(os.getuid()).pw_name
HERE = socket.gethostname()


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Slurm's programs; what they are called with is in `called`, and squeue prints the file `jobs`."""
    note = f'printf "%s\\n" "$(basename $0)" "$@" >>{tmp_path}/called'
    slurm(
        tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is UP'", sbatch=f"{note}; echo 12",
        scancel=note, squeue=f"cat {tmp_path}/jobs", sinfo=":", srun=f"{note}; exit 9",
    )  # fmt: skip
    monkeypatch.setenv("LANG", "C")
    return tmp_path


def start(place: Path, nodes: str) -> None:
    (place / "jobs").write_text(row("12", ME, "RUNNING", end=1795608428, nodes=nodes) + "\n")


def called(place: Path) -> list[str]:
    path = place / "called"
    return path.read_text().splitlines() if path.exists() else []


def no_pause(seconds: float) -> None:
    """The queue answers at once."""


def test_the_command_runs_here_and_the_gpu_goes_back(bin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    start(bin, HERE)
    words = [
        "run",
        "--gpus",
        "2",
        "--hours",
        "3",
        "--cpus",
        "4",
        "--memory",
        "32G",
        "--",
        "sh",
        "-c",
        "echo $0; exit 7",
        "--node",
    ]
    assert gpu.main(words, sleep=no_pause) == 7
    out, err = capfd.readouterr()
    assert out == "--node\n", "what follows -- is the command's"
    assert [line.split(":")[0] for line in err.splitlines()[::2]] == ["Job 12", "Job 12"]
    assert err.splitlines()[1].startswith(f"1 GPU on {HERE} until ")
    asked = called(bin)
    for one in (
        "--job-name=gpu-run",
        "--gres=gpu:2",
        "--time=3:00:00",
        "--cpus-per-task=4",
        "--mem=32G",
        "--no-requeue",
    ):
        assert one in asked
    assert asked[-2:] == ["scancel", "12"]


def test_it_runs_on_the_jobs_node_where_that_is_another(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(bin, "gpu7")
    monkeypatch.chdir(bin)
    assert gpu.main(["run", "true", "a b"], sleep=no_pause) == 9
    asked = called(bin)
    at = asked.index("srun")
    assert asked[at + 1 : at + 6] == ["--jobid=12", "--overlap", "--nodes=1", "--ntasks=1", f"--chdir={bin}"]
    assert asked[at + 6 : at + 9] == ["/usr/local/bin/gpu", "in-job", "12"]
    assert asked[-4:] == ["true", "a b", "scancel", "12"]


def test_who_stops_waiting_gives_the_place_up(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    assert gpu.main(["run", "true"], sleep=sleep) == 130
    assert "given up" in capsys.readouterr().err
    assert called(bin)[-2:] == ["scancel", "12"]


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        (["run"], 2, "what is to be run"),
        (["run", "--gpus", "0", "--", "true"], 2, "not a number from 1 to 64"),
        (["run", "--", "no-such-program"], 127, "no-such-program: there is no such command"),
        (["run", "--memory", "x", "true"], 2, "not a number"),
    ],
)
def test_what_cannot_be_run_is_not_waited_for(
    bin: Path, capsys: pytest.CaptureFixture[str], typed: list[str], status: int, said: str
) -> None:
    assert gpu.main(typed) == status
    assert said in capsys.readouterr().err
    assert called(bin) == []


def test_the_language_of_a_command_is_its_own() -> None:
    assert gpu_words.spoken(["run", "--", "x", "--language", "ko"], {"LANG": "C"}) == "en"


def test_a_detached_one_is_a_job_of_its_own(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = bin / "home"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for here, place in ((home / "work", home / "work"), (bin, home)):
        (bin / "called").unlink(missing_ok=True)
        monkeypatch.chdir(here)
        assert gpu.main(["run", "--detach", "--", "echo", "a b", "$X"]) == 0
        assert f"Its output: {place}/gpu-run-12.out." in capsys.readouterr().err
        asked = called(bin)
        for one in (f"--chdir={here}", f"--output={place}/gpu-run-%j.out", "--export=ALL", "--job-name=echo"):
            assert one in asked
        assert asked[-1] == "--wrap=exec echo 'a b' '$X'"


@pytest.mark.holds("a queue that does not answer ends nobody's command")
def test_the_command_is_asked_to_end_when_its_job_has(
    bin: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_run, "run_foreground", lambda *words: foreground.run_foreground(*words, looks=0.2))
    start(bin, HERE)
    assert gpu.main(["run", "sh", "-c", f"rm {bin}/jobs; sleep 1; exit 6"], sleep=no_pause) == 6
    start(bin, HERE)
    assert gpu.main(["run", "sh", "-c", f": >{bin}/jobs; exec sleep 60"], sleep=no_pause) == 143
    assert "your command is asked to end" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("gpus", "shown"),
    [
        (["GPU-1", "MIG-2"], {"CUDA_VISIBLE_DEVICES": "GPU-1,MIG-2"}),
        (["0"], {}),
        ([], {}),
    ],
)
def test_of_two_runs_on_a_node_each_sees_its_own(tmp_path: Path, gpus: list[str], shown: dict[str, str]) -> None:
    assert gpu_run.visible(gpus) == shown
    devices = [f"--device=nvidia.com/gpu={one}" for one in gpus] if shown else []
    assert gpu_run.with_devices(["docker", "run", "x"], gpus) == ["docker", "run", *devices, "x"]
    for own in (["docker", "run", "--device=a", "x"], ["docker", "ps"], ["sh"]):
        assert gpu_run.with_devices(own, gpus) == own
    (tmp_path / "grant").write_text(json.dumps({"gpus": gpus}))
    assert gpu_run.read_gpus(str(tmp_path / "grant")) == gpus
    assert gpu_run.read_gpus(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("says", "devices"),
    [
        ("Docker version 24.0.7, build 24.0.7-0ubuntu2", "--runtime=nvidia --env=NVIDIA_VISIBLE_DEVICES={0}1,{0}2"),
        ("Docker version 25.0.0, build x", "--device={0}1 --device={0}2"),
        ("something else", "--device={0}1 --device={0}2"),
    ],
)
def test_a_docker_that_knows_no_names_of_devices(tmp_path: Path, says: str, devices: str) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{says}'\n")
    docker.chmod(0o755)
    found = gpu_run.with_devices([str(docker), "run", "x"], ["GPU-1", "GPU-2"])
    assert " ".join(found[2:-1]) == devices.format("nvidia.com/gpu=GPU-")


def test_tmp_is_everybodys(bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    start(bin, HERE)
    monkeypatch.setattr(gpu_run, "secrets", SimpleNamespace(token_hex=lambda _: bin.name))
    lock = Path(f"/tmp/gpu-run-{bin.name}")
    assert gpu.main(["run", "sh", "-c", f"rmdir {lock}; exit 3"], sleep=no_pause) == 3
    (lock / "x").mkdir(parents=True)  # as what is another's: not exchanged
    try:
        assert gpu.main(["run", "true"], sleep=no_pause) == 1
    finally:
        (lock / "x").rmdir()
        lock.rmdir()
        Path(f"{lock}.new").rmdir()
    assert "nothing was run" in capsys.readouterr().err
    assert called(bin)[-2:] == ["scancel", "12"]


_IN_JOB = """import sys
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import gpu
sys.exit(gpu.main(["in-job", "12", sys.argv[1], "sh", "-c", sys.argv[2]]))
"""


def job_script(place: Path, monkeypatch: pytest.MonkeyPatch, lock: Path, begins: int = 2) -> "subprocess.Popen[bytes]":
    slurm(place, monkeypatch, scontrol=":")
    does = gpu_run._DOES.format(open="open", begins=begins, lock=lock)
    return subprocess.Popen(["sh", "-c", does])


def test_the_job_ends_when_nobody_has_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    began = time.monotonic()
    assert job_script(tmp_path, monkeypatch, lock).wait(10) == 0, "whose command never begins"
    assert time.monotonic() - began > 1.5
    words = [sys.executable, "-c", _IN_JOB, str(lock)]
    there = subprocess.Popen([*words, "sleep 2; exit 4"], env=in_repository())
    job = job_script(tmp_path, monkeypatch, lock, 20)
    assert there.wait(20) == 4
    assert job.wait(20) == 0
    assert not lock.exists()
    # a command that does not listen when who runs it is killed goes on, and keeps it
    there = subprocess.Popen(
        [*words, f"trap '' HUP; stat -c %a {lock} >{tmp_path}/began; exec sleep 3"], env=in_repository()
    )
    job = job_script(tmp_path, monkeypatch, lock, 20)
    while not (tmp_path / "began").exists():
        time.sleep(0.05)  # it begins by itself
    there.kill()
    time.sleep(1.2)  # longer than the job looks away
    assert job.poll() is None
    assert job.wait(20) == 0
    assert (tmp_path / "began").read_text() == "700\n", "nobody else may open it, and so lock it"


@pytest.mark.root
def test_what_somebody_else_locks_keeps_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    lock.mkdir()
    os.chown(lock, 12345, 12345)
    held = os.open(lock, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert job_script(tmp_path, monkeypatch, lock, 20).wait(10) == 0
        assert lock.exists()
    finally:
        os.close(held)
