"""`gpu jupyter`: the job that it asks for, JupyterLab's command line, and what is printed."""

import json
import os
import pwd
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import web_reach
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import queueing
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import (
    gpu,
    notebook,
    notebook_front,
    queue,
)

from tests.support.fake_slurm import row, slurm

ME = pwd.getpwuid(os.getuid()).pw_name
LINK = "https://10.1.0.9:9443/enter?link=link~gpu1~me~1~00~00"
SITE = {"node": "gpu1", "port": 9444, "idle": 7200, "programs": "/opt/notebooks/bin"}
WAY = {"forward": "9443:10.1.0.9:9443", "through": "10.1.0.1", "direct": True}


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with notebooks: what sbatch and scancel are called with is in `called`, squeue prints `jobs`."""
    note = f'echo "$(basename $0) $*" >>{tmp_path}/called'
    slurm(
        tmp_path, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is UP'", sbatch=f"{note}; echo 12",
        scancel=note, squeue=f"cat {tmp_path}/jobs", sinfo=":",
    )  # fmt: skip
    (tmp_path / "jobs").write_text("")
    for name, document in (("SETTINGS", SITE), ("WAY", WAY)):
        (tmp_path / name).write_text(json.dumps(document))
    monkeypatch.setattr(notebook.load_settings, "__defaults__", (str(tmp_path / "SETTINGS"),))
    monkeypatch.setattr(web_reach.main, "__defaults__", (str(tmp_path / "WAY"), str(tmp_path)))
    monkeypatch.setattr(web_reach.peercred_service, "ask", lambda path, seconds: (0, LINK))
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    for name in ("LC_ALL", "LC_MESSAGES", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def has(place: Path, *rows: str) -> None:
    (place / "jobs").write_text("".join(f"{one}\n" for one in rows))


def running(id: str = "12", **more: Any) -> str:
    return row(id, ME, "RUNNING", end=1795608428, nodes="gpu1", **{"name": notebook.NAME, **more})


def called(place: Path) -> list[str]:
    return (place / "called").read_text().splitlines() if (place / "called").exists() else []


def test_a_notebook_is_asked_for_waited_for_and_opened(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = iter([[row("12", ME, "PENDING", name=notebook.NAME, reason="Priority")], [running()]])
    assert gpu.main(["jupyter", "--gpus", "2", "--hours", "3"], sleep=lambda _: has(bin, *next(turns))) == 0
    (asked,) = called(bin)
    assert f"--job-name={notebook.NAME} --nodes=1 --gres=gpu:2 --time=3:00:00 --chdir={Path.home()}" in asked
    assert f"--output={notebook.LOG} --export=NIL" in asked
    assert "gpuadmin_node/cli.py notebook ''" in asked
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Job 12: you asked for 2 GPUs for 3 h."
    assert f"    {LINK}&notebook=gpu1/12" in said
    assert f"    ssh -N -L 9443:10.1.0.9:9443 -L 9444:10.1.0.9:9444 {ME}@10.1.0.1" in said
    assert f"    https://localhost:9443/enter?{LINK.partition('?')[2]}&notebook=gpu1/12" in said
    assert "gpu release 12" in said[-1]


def test_who_asks_again_gets_no_second_one(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    has(bin, running("7", name="gpu-get"), running("9", name=notebook.NAME))
    assert gpu.main(["jupyter"], sleep=lambda _: None) == 0
    assert called(bin) == []
    said = capsys.readouterr().out
    assert "Job 9: your notebook runs already." in said
    assert "&notebook=gpu1/9" in said
    # somebody else's is none of theirs
    has(bin, row("9", "somebody", "RUNNING", nodes="gpu1", name=notebook.NAME))
    assert gpu.main(["jupyter", "--detach"]) == 0
    assert len(called(bin)) == 1


def test_it_is_given_back_as_what_was_got_by_hand(bin: Path) -> None:
    has(bin, running("9"), running("10", name="train"))
    assert gpu.main(["release"]) == 0
    assert called(bin) == ["scancel 9"]


def test_a_cluster_without_notebooks(bin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bin / "SETTINGS").unlink()
    assert gpu.main(["jupyter", "--language", "ko"]) == 1
    assert "관리자에게 요청하세요" in capsys.readouterr().err
    assert called(bin) == []


def test_no_link_now(bin: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    has(bin, running())
    for answer in (None, (1, "locked")):
        monkeypatch.setattr(web_reach.peercred_service, "ask", lambda path, seconds, answer=answer: answer)
        assert gpu.main(["jupyter"], sleep=lambda _: None) == 1
        said = capsys.readouterr().err
        assert "has no link now" in said
        assert ("account is locked" if answer else "does not answer") in said


def test_an_environment_of_ones_own(tmp_path: Path) -> None:
    """The one that is active, if JupyterLab is in it; a path that is none is not taken."""
    own = tmp_path / "a b; c"
    (own / "bin").mkdir(parents=True)
    assert notebook.find_own({"VIRTUAL_ENV": str(own)}) == ""
    (own / "bin/jupyter-lab").touch(0o755)
    assert notebook.find_own({"CONDA_PREFIX": str(own)}) == f"{own}/bin"
    for odd in ({}, {"VIRTUAL_ENV": ""}, {"VIRTUAL_ENV": "bin"}, {"VIRTUAL_ENV": "/nowhere"}):
        assert notebook.find_own(odd) == ""
    # its path is one word to the shell
    assert shlex.split(notebook.build_script("/home/me", f"{own}/bin").does)[-1] == f"{own}/bin"


@pytest.mark.holds("nobody else opens a notebook's socket")
@pytest.mark.holds("a notebook's kernels are asked on no port")
def test_jupyters_command_line() -> None:
    command = notebook.build_jupyter_command("jupyter-lab", "/tmp/x", "/gpu1/minji/7/", "/home/minji", 7200)
    assert "--ServerApp.sock_mode=0600" in command
    assert "--KernelManager.transport=ipc" in command
    assert not [one for one in command if ".port" in one or ".ip=" in one]


def run_job(place: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """What becomes of the process of the job."""

    def run(program: str, words: list[str], environment: dict[str, str]) -> None:
        raise SystemExit(subprocess.run(words, executable=program, env=environment, check=False).returncode)

    monkeypatch.setattr(notebook.os, "execve", run)
    with pytest.raises(SystemExit) as ended:
        notebook.main("", str(place / "site"), str(place))
    return int(str(ended.value))


def test_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its job: a directory that nobody else enters, which is gone with it; its person's environment, and no port."""
    program = tmp_path / "bin/jupyter-lab"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nstat -c %a "$JUPYTER_RUNTIME_DIR" > seen\necho "$HOME $*" >> seen\nexit 3\n')
    program.chmod(0o755)
    (tmp_path / "site").write_text(json.dumps({**SITE, "programs": str(program.parent)}))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.chdir(tmp_path)
    done = run_job(tmp_path, monkeypatch)
    assert done == 3
    mode, line = (tmp_path / "seen").read_text().splitlines()
    assert mode == "700"
    assert f"--ServerApp.base_url=/gpu1/{ME}/17/ " in line
    assert [one.name for one in tmp_path.glob("gpuadmin-notebook-*")] == []
    with pytest.raises(NodeError, match="/nowhere/jupyter-lab is missing on gpu1"):
        notebook.main("/nowhere", str(tmp_path / "site"), str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(NodeError, match="started by `gpu jupyter`"):
        notebook.main("", str(tmp_path / "site"), str(tmp_path))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"GET /gpu1/minji/17/lab HTTP/1.1\r\n", ("minji", "17")),
        (b"GET /gpu1/minji/017/lab HTTP/1.1\r\n", None),
        (b"GET /gpu1/../minji/17/lab HTTP/1.1\r\n", None),
        (b"GET http://x/gpu1/minji/17/lab HTTP/1.1\r\n", None),
        (b"GET /gpu1/min\xffji/17/ HTTP/1.1\r\n", None),
        (b"\r\n", None),
    ],
)
def test_requests(line: bytes, expected: tuple[str, str] | None) -> None:
    assert notebook_front.parse_request(line) == expected


def test_it_is_started_by_its_unit() -> None:
    here = Path(notebook_front.__file__).parents[1] / "cli.py"
    done = subprocess.run(["python3", "-IB", str(here), "notebook-front"], capture_output=True, text=True, check=False)
    assert (done.returncode, "gpuadmin-notebooks.socket" in done.stderr) == (2, True), done.stderr
    with pytest.raises(NodeError, match="cannot be read"):
        notebook_front.build_context("/nowhere", "/nowhere")


def test_what_is_measured_says_which_job_is_a_notebook(bin: Path) -> None:
    has(bin, running("7", name="train"), running("9"))
    found = queueing.samples(queue.ask_jobs(), [])
    kept = {"user": ME, "account": "people", "gpus": "1", "nodes": "gpu1"}
    for job, said in (("7", ""), ("9", "yes")):
        name = "gpuadmin_queue_until_timestamp_seconds"
        assert found.get(name, id=job, **kept, notebook=said) == 1795608428
