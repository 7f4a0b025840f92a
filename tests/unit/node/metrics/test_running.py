"""Pass after pass: on a period, at once where there is something new, and never twice at a time."""

import hashlib
import itertools
import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import code_cache
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import running
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.running import repeat
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE


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


def test_the_code_is_where_units_find_it() -> None:
    assert f"{STATE}/lib/{code_cache.LINK}" == running.CODE
    assert running.OURS.endswith(f"/{code_cache._OURS}"), "where the link leads"


def test_where_there_is_no_link_nothing_is_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
