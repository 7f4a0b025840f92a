"""A real Prometheus on this machine's loopback interface, with measurements of a test's own."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def blocks(directory: Path, lines: Iterable[str], *, days: int = 0) -> Path:
    """Given samples as OpenMetrics lines (with a timestamp each), make a Prometheus' storage of them. ``days``: so long
    may a block be: of a year, blocks of two hours take promtool minutes.
    """
    text = directory / "samples.om"
    with text.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)
        stream.write("# EOF\n")
    storage = directory / "storage"
    storage.mkdir()
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, storage,
         *([f"--max-block-duration={24 * days}h"] if days else [])],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    return storage


@contextlib.contextmanager
def prometheus(directory: Path, storage: Path) -> Iterator[int]:
    """Run a Prometheus over a storage; gives its port."""
    port = free_port()
    settings = directory / "prometheus.yml"
    settings.write_text("global: {}\n")
    log = (directory / "prometheus.log").open("wb")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={storage}",
         f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        _wait(process, port, directory / "prometheus.log")
        yield port
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/-/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:  # it does not listen yet
            pass
        finally:
            connection.close()
        time.sleep(0.1)  # it says by nothing else that it is ready
    raise AssertionError(log.read_text())
