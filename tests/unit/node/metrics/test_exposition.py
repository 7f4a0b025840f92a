"""Text for Prometheus: of images, of the queue, of people's slices, and what the collector has written."""

import hashlib
import itertools
import json
import os
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, code_cache
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places, Running
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import queueing, roots, running, slices
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.exposition import Samples
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.measured import MOST, measured
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.running import repeat
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.common.metrics import METRICS
from tests.support.fake_slurm import row, slurm
from tests.support.metrics_text import values

LINE = re.compile(r'gpuadmin_collector_incomplete\{user="(?:[^"\\\n]|\\["\\n])*"\} 1')


def test_a_metric_with_its_help() -> None:
    samples = Samples()
    samples.put("gpuadmin_gpus_on_bus", 2)
    samples.put("gpuadmin_gpu_power_watts", 121.5, uuid="GPU-1")
    samples.put("gpuadmin_gpu_power_watts", None, uuid="GPU-2")
    samples.put("gpuadmin_gpu_power_watts", float("nan"), uuid="GPU-3")
    assert samples.render() == (
        "# HELP gpuadmin_gpus_on_bus GPUs on the PCI bus.\n"
        "# TYPE gpuadmin_gpus_on_bus gauge\n"
        "gpuadmin_gpus_on_bus 2\n"
        "# HELP gpuadmin_gpu_power_watts Power that the GPU draws.\n"
        "# TYPE gpuadmin_gpu_power_watts gauge\n"
        'gpuadmin_gpu_power_watts{uuid="GPU-1"} 121.5\n'
    )


def test_what_the_table_lacks_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Samples().put("gpuadmin_other", 1)
    with pytest.raises(KeyError):
        Samples().put("gpuadmin_gpu_power_watts", 1, uuid="x", pid="7")


@settings(max_examples=300)
@given(st.text())
def test_a_label_is_one_label_whatever_is_in_it(text: str) -> None:
    samples = Samples()
    samples.put("gpuadmin_collector_incomplete", 1, user=text)
    lines = samples.render().split("\n")
    assert len(lines) == 4
    assert LINE.fullmatch(lines[2])
    lines[2].encode()


def test_names_and_labels_are_as_prometheus_wants_them() -> None:
    for one in METRICS:
        assert re.fullmatch(r"gpuadmin_[a-z_]+[a-z]", one.name)
        assert one.name.endswith("_total") == (one.kind == "counter"), one.name
        assert not set(one.labels) & {"pid", "command", "instance", "job"}, one.name
        assert one.help.endswith((".", "use."))
    assert len({one.name for one in METRICS}) == len(METRICS)


def directories(at: Path) -> tuple[str, str]:
    for name in ("sampler", "mapper"):
        (at / name).mkdir(exist_ok=True)
    return str(at / "sampler"), str(at / "mapper")


def test_both_and_the_host(tmp_path: Path) -> None:
    both = directories(tmp_path)
    (tmp_path / "sampler/gpus.prom").write_text("gpuadmin_gpus_on_bus 8\n")
    (tmp_path / "mapper/people.prom").write_text('gpuadmin_user_tasks{user="minji"} 3\ngpuadmin_cut_off{us')
    (tmp_path / "mapper/.people.prom.x").write_text("gpuadmin_gpus_on_bus 9\n")
    found = values(measured(both))
    assert (found["gpuadmin_gpus_on_bus"], found['gpuadmin_user_tasks{user="minji"}']) == (8, 3)
    assert found["node_memory_MemTotal_bytes"] > found["node_memory_MemAvailable_bytes"] > 0
    assert "gpuadmin_cut_off" not in measured(both)


def test_one_process_of_the_collector_is_away(tmp_path: Path) -> None:
    both = directories(tmp_path)
    (tmp_path / "mapper/people.prom").write_text("gpuadmin_gpus_on_bus 8\n")
    (tmp_path / "sampler").rmdir()
    assert "gpuadmin_gpus_on_bus" in measured(both)


def test_nothing_is_not_an_empty_answer(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"^the collector has written nothing in .*: .* gpuadmin provision sets it up"):
        measured(directories(tmp_path))


def test_a_file_without_an_end_and_one_that_is_none(tmp_path: Path) -> None:
    both = directories(tmp_path)
    with (tmp_path / "mapper/people.prom").open("wb") as stream:
        stream.write(b"gpuadmin_gpus_on_bus 8\n")
        stream.truncate(MOST * 4)
    assert len(measured(both)) < 1000
    (tmp_path / "mapper/people.prom").unlink()
    os.mkfifo(tmp_path / "mapper/people.prom")
    with pytest.raises(NodeError, match="regular"):
        measured(both)


UP = "echo 'Slurmctld(primary) at storage1 is UP'"


def test_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row("4", "minji", "RUNNING", end=2000, nodes="gpu2", tres="cpu=1,gres/gpu=2"),
        row("7", "minji", "RUNNING", end=3000, nodes="gpu1", qos="exception", project="nlp"),
        row("5", "jiho", "PENDING", asked=900, reason="Priority"),
        row("6", "jiho", "RUNNING", end=3000, nodes="gpu1", tres="cpu=1"),
    ]
    (tmp_path / "said").write_text("\n".join(rows))
    (tmp_path / "noted").write_text('7\x1f{"id": "a1", "who": "kim@ctl", "reason": "paper \\"x\\""}\x1f')
    slurm(
        tmp_path, monkeypatch, scontrol=UP, sacctmgr="echo gpu",
        squeue=f'case "$*" in *--jobs=7*) cat {tmp_path}/noted;; *) cat {tmp_path}/said;; esac',
        sinfo="echo 'gpu1|idle|none'; echo 'gpu2|drained|Prolog error'",
    )  # fmt: skip
    assert queueing.main(str(tmp_path / "out")) == 0
    text = (tmp_path / "out/queue.prom").read_text()
    assert 'gpuadmin_queue_allocated_gpus{user="minji",account="people",project=""} 2\n' in text
    assert 'gpuadmin_queue_allocated_gpus{user="minji",account="people",project="nlp"} 1\n' in text
    assert 'gpuadmin_queue_place{id="5",user="jiho",account="people",gpus="1",why="priority"} 1\n' in text
    assert 'gpuadmin_queue_waiting_since_timestamp_seconds{id="5",user="jiho"} 900\n' in text
    assert (
        'until_timestamp_seconds{id="4",user="minji",account="people",gpus="2",nodes="gpu2",notebook=""} 2000\n' in text
    )
    assert 'gpuadmin_queue_node_closed{node="gpu2",state="drained",reason="Prolog error"} 1\n' in text
    assert 'gpuadmin_queue_exception{id="7",who="kim@ctl",reason="paper \\"x\\""} 1\n' in text
    assert text.count("gpuadmin_queue_exception{") == 1
    assert 'node="gpu1"' not in text
    assert "gpuadmin_queue_up 1\n" in text
    assert "gpuadmin_queue_accounting_up 1\n" in text
    assert 'id="6"' not in text, "a job without GPUs"


@pytest.mark.holds("a queue that nobody knows is not an empty one")
def test_a_controller_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, scontrol="echo down", sacctmgr="exit 1")
    assert queueing.main(str(tmp_path / "out")) == 0
    text = (tmp_path / "out/queue.prom").read_text()
    assert "gpuadmin_queue_up 0\n" in text
    assert "gpuadmin_queue_accounting_up 0\n" in text
    assert "gpuadmin_queue_allocated_gpus" not in text


PENDING = {"stage": "pending", "image": "term2", "root": "term2", "time": 1000.5, "boot_id": "a"}
SINCE = "gpuadmin_image_pending_since_timestamp_seconds"


def said(state: Path, running: str, journal: dict[str, Any] | None = None) -> dict[str, float]:
    for name, what in (("images.json", {}), ("roots.json", {"images": {"term1+2": "term1"}}), ("switch.json", journal)):
        if what is not None:
            (state / name).write_text(json.dumps(what))
    samples = Samples()
    roots.put(samples, Places(root=str(state), state=str(state), running=Running(5, f"/roots/{running}")))
    return values(samples.render())


def test_a_node_without_images_and_a_confirmed_root_wait_for_nobody(tmp_path: Path) -> None:
    samples = Samples()
    roots.put(samples, Places(state=str(tmp_path)))
    assert samples.render() == ""
    found = said(tmp_path, "term1+2", {**PENDING, "stage": "confirmed"})
    assert found == {'gpuadmin_image_info{image="term1"}': 1}


@pytest.mark.parametrize(("running", "trial"), [("term1+2", "false"), ("term2", "true")])
def test_a_switch_that_is_not_confirmed(tmp_path: Path, running: str, trial: str) -> None:
    found = said(tmp_path, running, PENDING)
    assert found[f'{SINCE}{{image="term2",trial="{trial}"}}'] == 1000.5


@pytest.mark.parametrize("read_only", [True, False])
def test_a_root_that_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool) -> None:
    found = btrfs.Subvolume(5, read_only, "u", "", "")
    monkeypatch.setattr(btrfs, "inspect", lambda path: found)
    assert said(tmp_path, "term2")["gpuadmin_image_root_writable"] == (0 if read_only else 1)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 9}'])
def test_records_that_are_damaged_are_not_taken_for_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.json").write_text("{}")
    (tmp_path / "switch.json").write_text(text)
    with pytest.raises(NodeError):
        roots.put(Samples(), Places(state=str(tmp_path), running=Running(5, "/roots/term2")))


def passes(period: float, seconds: float, early: bool = False) -> list[float]:
    times: list[float] = []
    ended = threading.Event()

    def one_pass() -> None:
        times.append(time.monotonic())
        if times[-1] - times[0] >= seconds:
            ended.set()

    repeat(one_pass, ended, period, lambda: early)
    return times


def test_on_a_period() -> None:
    times = passes(0.3, 0.9)
    assert 3 <= len(times) <= 5
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.25


def test_at_once_where_there_is_something_new() -> None:
    assert len(passes(60, 0.05, early=True)) > 5


@pytest.mark.root
def test_it_ends_when_units_run_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept code is never written to again: other code is another directory, and the link leads there."""
    texts = [json.dumps({"ansible_collections/gpuadmin/node/plugins/module_utils/cli.py": f"{n} = 1\n"}) for n in "ab"]
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    state, run = str(tmp_path / "state"), str(tmp_path / "run")
    (tmp_path / "run").mkdir()
    for digest, text in zip(digests, texts, strict=True):
        code_cache.keep(digest, text, state, run)
    code_cache.link(digests[0], state, run)
    monkeypatch.setattr(running, "CODE", f"{state}/lib/{code_cache.LINK}", raising=False)
    monkeypatch.setattr(running, "OURS", os.path.realpath(running.CODE))
    ended, count = threading.Event(), []

    def one_pass() -> None:
        count.append(1)
        if len(count) == 3:
            code_cache.link(digests[1], state, run)
        if len(count) == 6:
            ended.set()

    repeat(one_pass, ended, 0.01)
    assert len(count) == 3
    repeat(one_pass, ended, 0.01)
    assert len(count) == 3, "it came while this process began: what runs is still the code before"


def test_the_code_is_where_units_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{STATE}/lib/{code_cache.LINK}" == running.CODE
    assert running.OURS.endswith(f"/{code_cache._OURS}"), "where the link leads"
    monkeypatch.setattr(running, "CODE", str(tmp_path / "none"))
    assert not running.superseded()


def test_systemd_is_told_and_need_not_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("notify")
        monkeypatch.setenv("NOTIFY_SOCKET", "notify")
        passes(0.01, 0.0)
        assert [heard.recv(64) for _ in range(2)] == [b"READY=1", b"WATCHDOG=1"]
    (tmp_path / "notify").unlink()
    running.tell("WATCHDOG=1")


def test_files_are_whole_and_readable(tmp_path: Path) -> None:
    running.write(str(tmp_path), "x.prom", "a 1\n")
    assert (tmp_path / "x.prom").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["x.prom"]
    running.remove(str(tmp_path), "x.prom", "y.prom")
    assert list(tmp_path.iterdir()) == []


def test_everybody_who_runs_something(tmp_path: Path) -> None:
    for uid in (1001, 1009):
        at = tmp_path / f"user.slice/user-{uid}.slice"
        at.mkdir(parents=True)
        (at / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n")
        (at / "memory.current").write_text("4096\n")
        (at / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
        (at / "pids.current").write_text("5\n")
        (at / "io.stat").write_text("8:0 rbytes=10 wbytes=20 rios=1 wios=1\n8:16 rbytes=1 wbytes=2\n")
    (tmp_path / "user.slice/user-x.slice").mkdir()
    (tmp_path / "user.slice/user-1002.slice").mkdir()
    samples = Samples()
    slices.put(samples, {1001: "alice", 1002: "bob"}.get, str(tmp_path))
    assert values(samples.render()) == {
        'gpuadmin_user_cpu_seconds_total{user="alice"}': 2.5,
        'gpuadmin_user_memory_bytes{user="alice"}': 4096,
        'gpuadmin_user_oom_kills_total{user="alice"}': 2,
        'gpuadmin_user_tasks{user="alice"}': 5,
        'gpuadmin_user_io_read_bytes_total{user="alice"}': 11,
        'gpuadmin_user_io_written_bytes_total{user="alice"}': 22,
    }, "who is not an account is left out, and what is not counted is not zero"


def test_a_host_that_counts_nothing_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        slices.put(Samples(), str, str(tmp_path))
