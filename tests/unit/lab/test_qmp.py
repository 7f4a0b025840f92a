"""A QMP server of three lines, and what the client makes of its answers."""

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.errors import GpuadminError
from gpuadmin.lab import clock
from gpuadmin.lab.qmp import Qmp


def serve(directory: Path, name: str, talk: Callable[[Any], None]) -> threading.Thread:
    """Answer one connection at a socket in a directory whose path may be long."""
    server = socket.socket(socket.AF_UNIX)
    folder = os.open(directory, os.O_PATH)
    server.bind(f"/proc/self/fd/{folder}/{name}")
    server.listen()

    def run() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            talk(stream)
        server.close()
        os.close(folder)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def qemu(*answers: dict[str, Any]) -> Callable[[Any], None]:
    def talk(stream: Any) -> None:
        stream.write('{"QMP": {}}\n')
        stream.flush()
        for answer in ({"return": {}}, *answers):
            if "event" not in answer:
                stream.readline()
            stream.write(json.dumps(answer) + "\n")
            stream.flush()

    return talk


def test_events_are_skipped_and_the_path_may_be_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    serve(deep, "qmp.sock", qemu({"event": "STOP"}, {"return": 7}))
    with Qmp(deep) as monitor:
        assert monitor.command("stop") == 7


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"return": "Error: Snapshot 'x' does not exist\r\n"}, "does not exist"),
        ({"error": {"class": "GenericError", "desc": "no such thing"}}, "no such thing"),
    ],
)
def test_what_the_monitor_says_is_an_error(tmp_path: Path, answer: dict[str, Any], words: str) -> None:
    serve(tmp_path, "qmp.sock", qemu(answer))
    with Qmp(tmp_path) as monitor, pytest.raises(GpuadminError, match=words):
        monitor.monitor("loadvm x")


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(GpuadminError, match="does not answer"):
        Qmp(tmp_path)


def test_clock_over_serial(tmp_path: Path) -> None:
    heard: list[str] = []

    def guest(stream: Any) -> None:
        heard.append(stream.readline())
        stream.write("set\n")
        stream.flush()

    serve(tmp_path, "clock.sock", guest)
    assert clock.set_over_serial(tmp_path)
    assert float(heard[0]) > 1_600_000_000
    (tmp_path / "clock.sock").unlink()
    assert clock.set_over_serial(tmp_path) is False
    serve(tmp_path, "clock.sock", lambda stream: stream.readline() and None)
    assert clock.set_over_serial(tmp_path, limit=0.5) is False
