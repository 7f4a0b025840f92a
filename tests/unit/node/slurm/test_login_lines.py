"""Two lines of the queue at log-in: what is somebody's, their place, and nothing that holds no longer."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gate import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import login_lines

from gpuadmin.common.waiting import SICK
from tests.support.fake_slurm import row, slurm

UP = "echo 'Slurmctld(primary) at storage1 is UP'"
NOW = time.mktime((2026, 11, 25, 14, 0, 0, 0, 0, -1))


def job(user: str, **more: Any) -> dict[str, Any]:
    return {"id": "4", "user": user, "gpus": 1, "waits": False, "end": int(NOW) + 7200, "nodes": "gpu2", "place": 0,
            "reason": "", **more}  # fmt: skip


def waits(user: str, **more: Any) -> dict[str, Any]:
    return job(user, waits=True, end=None, nodes="", place=2, reason="Priority", **more)


def test_what_each_person_reads() -> None:
    found = login_lines.texts(
        [job("minji"), waits("jiho", gpus=2), waits("sua", id="9_[0-5]"), waits("hana"), job("hana", end=None)], NOW
    )
    assert found["minji.en"] == (
        "You have 1 GPU of gpu2 until 16:00.\n`gpu release` gives back what you no longer need.\n"
    )
    assert found["jiho.en"].startswith("You are waiting for 2 GPUs. Your place in the queue: 2. Others come first")
    assert found["sua.en"].startswith("You are waiting for 6 × 1 GPU. Your place in the queue: 2.")
    assert found["hana.en"].count("\n") == 2, "two lines, whatever somebody has"
    assert found[".nobody.en"].startswith("You have no GPU. People waiting for one: 3.\n`gpu get`")
    assert found["minji.ko"].startswith("사용 중: gpu2의 GPU 1개(16:00까지).\n")
    assert login_lines.texts([], NOW)[".nobody.en"].startswith("You have no GPU. Nobody is waiting")
    assert login_lines.texts([job("minji", gpus=0)], NOW).keys() == login_lines.texts([], NOW).keys(), (
        "a job without GPUs"
    )


@pytest.mark.parametrize(
    ("reason", "line"), [(f"{SICK} GPU 3: Xid 48", "gpu2 is faulty: GPU 3: Xid 48. Unless"), ("fan is loud", None)]
)
def test_a_sick_node_is_told_to_whoever_has_gpus_of_its_node(reason: str, line: str | None) -> None:
    jobs = [job("minji"), job("hana", nodes="gpu1"), waits("jiho")]
    found = login_lines.texts(jobs, NOW, closed={"gpu2": reason})
    assert found == {**login_lines.texts(jobs, NOW), **{name: found[name] for name in ("minji.en", "minji.ko")}}
    assert found["minji.en"].splitlines()[2:] == ([] if line is None else [found["minji.en"].splitlines()[2]])
    assert line is None or found["minji.en"].splitlines()[2].startswith(line)
    assert ("gpu2: 노드에 이상이 있습니다(GPU 3: Xid 48)" in found["minji.ko"]) == (line is not None)


@pytest.mark.holds("what is not a name becomes no file", "nobody reads of a GPU that is no longer theirs")
def test_what_is_not_told() -> None:
    nobody = {".nobody.en", ".nobody.ko"}
    assert set(login_lines.texts([job("../minji"), job(".nobody")], NOW)) == nobody
    assert set(login_lines.texts([job("minji", end=int(NOW) - 1)], NOW, away=True)) == nobody


@pytest.mark.root
@pytest.mark.holds("nodes of which Slurm says nothing keep nobody's lines from them")
def test_a_controller_that_is_away_takes_nothing_from_who_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, places = tmp_path / "queue", Places(state=str(tmp_path / "state"), run=str(tmp_path / "run"))
    directory.mkdir()
    end = int(time.time()) + 3600
    lines = "\n".join(
        [row("4", "minji", "RUNNING", end=end, nodes="gpu2"), row("5", "jiho", "PENDING", reason="Priority")]
    )
    (tmp_path / "said").write_text(lines)
    slurm(tmp_path, monkeypatch, scontrol=UP, squeue=f"cat {tmp_path}/said")
    assert login_lines.main(str(directory), places) == 0
    assert {"minji.en", "jiho.ko", ".nobody.en"} < {one.name for one in directory.iterdir()}
    before = (directory / "minji.en").stat().st_mtime_ns
    assert login_lines.main(str(directory), places) == 0
    assert (directory / "minji.en").stat().st_mtime_ns == before, "what is there already is not written again"
    assert len(json.loads((directory / ".jobs.json").read_text())) == 2
    slurm(tmp_path, monkeypatch, sinfo=f"echo 'gpu2|draining|{SICK} GPU 0: Xid 48'")
    assert login_lines.main(str(directory)) == 0
    assert "gpu2 is faulty: GPU 0: Xid 48." in (directory / "minji.en").read_text()
    slurm(tmp_path, monkeypatch, sinfo="exit 1")
    assert login_lines.main(str(directory)) == 0
    assert (directory / "minji.en").read_text().startswith("You have 1 GPU of gpu2")
    slurm(tmp_path, monkeypatch, scontrol="sleep 9")
    began = time.monotonic()
    assert login_lines.main(str(directory), places) == 0
    assert time.monotonic() - began < 4
    text = (directory / "minji.en").read_text()
    assert text.startswith("You have 1 GPU of gpu2")
    assert "does not answer now" in text
    assert not (directory / "jiho.en").exists(), "nobody knows their place"
    assert "does not answer now" in (directory / ".nobody.en").read_text()


@pytest.mark.root
@pytest.mark.holds("a job's later end prolongs its own grant alone, and none that has ended")
def test_a_grant_gets_its_jobs_later_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a job that was given more time on another node."""
    now = int(time.time())
    places = Places(state=str(tmp_path / "state"), run=str(tmp_path / "run"))
    source = grants.SOURCE
    cases = {  # the grant → its end, whose it is, what gave it, and its end afterwards
        f"{source}-4": (now + 600, "minji", source, now + 7200),
        f"{source}-5": (now + 600, "jiho", source, now + 600),
        f"{source}-6": (now - 1, "minji", source, now - 1),
        f"{source}-7": (now + 600, "minji", "admin", now + 600),
        f"{source}-8": (now + 9000, "minji", source, now + 9000),
    }
    for id, (end, user, by, _) in cases.items():
        grants.write_until_boot(Grant(id, user, 20000, ["0"], now - 900, end, "root", "", by), places.run)
    jobs = "\n".join(row(str(id), "minji", "RUNNING", end=now + 7200, nodes="gpu1") for id in range(4, 9))
    (tmp_path / "said").write_text(jobs)
    slurm(tmp_path, monkeypatch, scontrol=UP, squeue=f"cat {tmp_path}/said")
    assert login_lines.main(str(tmp_path / "queue"), places) == 0
    found = {one.id: one.until for one in grants.read(places.state, places.run)[0]}
    assert found == {id: case[3] for id, case in cases.items()}


def test_what_has_ended_lately_is_read_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, places = tmp_path / "queue", Places(state=str(tmp_path / "state"), run=str(tmp_path / "run"))
    now = int(time.time())
    gone = [
        ("9", "minji", "OUT_OF_MEMORY", now - 60, "gres/gpu=1", ""),
        ("7_3", "minji", "TIMEOUT", now - 90, "gres/gpu=1", ""),
        ("8", "jiho", "CANCELLED", now - 60, "gres/gpu=1", ""), ("6", "yuna", "FAILED", now - 60, "cpu=1", ""),
        ("5", "hana", "CANCELLED", now - 60, "gres/gpu=1", '{"id": "", "ended": "idle"}'),
    ]  # fmt: skip
    lines = ["\x1f".join([*map(str, one), ""]) for one in gone]
    (tmp_path / "ended").write_text("\n".join(lines))
    (tmp_path / "said").write_text("")
    squeue = f'case "$*" in *TIMEOUT*) cat {tmp_path}/ended;; *) cat {tmp_path}/said;; esac'
    slurm(tmp_path, monkeypatch, scontrol=UP, squeue=squeue, sinfo="true")
    assert login_lines.main(str(directory), places) == 0
    assert {one.name for one in directory.iterdir() if one.name.endswith("en")} == {".nobody.en", "minji.en", "hana.en"}
    nobody, ask, first, second = (directory / "minji.en").read_text().splitlines()
    assert (nobody, ask) == tuple((directory / ".nobody.en").read_text().splitlines())
    assert re.fullmatch(r"Job 7 ended at [-0-9: ]+: its time was over\.", first)
    assert "Job 9 ended at" in second
    assert "GPU를 사용하지 않아" in (directory / "hana.ko").read_text()
    # slurmctld forgets it after minutes, and the node does after a day
    (tmp_path / "ended").write_text("")
    assert login_lines.main(str(directory), places) == 0
    assert (directory / "minji.en").exists()
    monkeypatch.setattr(login_lines.time, "time", lambda: now + login_lines.DAY)
    assert login_lines.main(str(directory), places) == 0
    assert not (directory / "minji.en").exists()
