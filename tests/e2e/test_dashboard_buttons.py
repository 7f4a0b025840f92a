"""The dashboard's buttons, in a real browser: a person asks for a GPU of the queue, extends it, and gives it back."""

import contextlib
import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, browser
from tests.support.gated_cluster import NODE, PROBE
from tests.support.lab_cluster import Cluster
from tests.support.monitored import INTERVAL, link, monitor_host
from tests.support.prometheus import free_port
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.needs("chromium")]
SETTINGS = f"metrics: {{interval: {INTERVAL}, dashboard: {{buttons: true}}}}"
SLURM = "slurm: {constrain: [], hours: 4, book: {gpus: 2, hours: 2, lead: 0}}"
#: What is at the door for somebody with these files, or with none: what it answers, or why it does not.
KNOCK = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
if len(sys.argv) > 2: context.load_cert_chain(*sys.argv[2:])
try:
    with context.wrap_socket(socket.create_connection((sys.argv[1], 9446), 5)) as channel:
        channel.sendall(b"minji en release 1\\n")
        print("answer", channel.recv(100))
except OSError as error:
    print("none", error)
"""


@pytest.fixture
def pressing(with_queue: Cluster) -> Iterator[Cluster]:
    with (
        with_queue.settings(lambda text: f"{text}\n{SETTINGS}\n"),
        monitor_host(with_queue),
        queued(with_queue, SLURM) as found,
    ):
        yield found


@contextlib.contextmanager
def forwarded(cluster: Cluster) -> Iterator[str]:
    """The dashboard at a port of this machine, as somebody's own ssh has it."""
    port = free_port()
    program, *rest = cluster.ssh_command("admin", CONTROLLER)
    process = subprocess.Popen([program, "-N", "-L", f"{port}:127.0.0.1:9443", *rest], stdin=subprocess.DEVNULL)
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def see_queue(cluster: Cluster, page: Browser, address: str, script: str) -> None:
    """Have the queue measured, and look at its page until that is true in it."""
    cluster.admin(CONTROLLER, "python3 -IB /var/lib/gpuadmin/lib/gpuadmin_node/cli.py queue-measured")
    end = time.monotonic() + 120
    page.go(f"{address}/queue")
    while not page.ask(script):
        assert time.monotonic() < end, page.ask("document.body.innerText")
        time.sleep(2)  # Prometheus looks every ten seconds
        page.go(f"{address}/queue")


def press(page: Browser, verb: str, fields: dict[str, str]) -> str:
    """Fill a form and press its button; what the page says then."""
    form = f"document.querySelector('form[action=\"/queue/{verb}\"]')"
    for name, value in fields.items():
        page.ask(f"{form}.elements.{name}.value = {json.dumps(value)}")
    page.ask(f"{form}.querySelector('button').click()")
    page.wait("document.querySelector('.said') !== null && document.readyState === 'complete'", 60)
    found: str = page.ask("document.querySelector('.said').innerText")
    return found


def jobs(cluster: Cluster) -> str:
    return cluster.admin(CONTROLLER, "squeue -h -o '%u %T %l' | sort").strip()


@pytest.mark.slow
def test_a_gpu_is_asked_for_extended_and_given_back_in_a_browser(pressing: Cluster, tmp_path: Path) -> None:
    with forwarded(pressing) as address, browser(tmp_path, "--ignore-certificate-errors") as page:
        page.screen(390, 800)
        page.go(link(pressing, "minji", NODE).replace("https://10.77.0.10:9443", address))
        page.ask("document.querySelector('form button').click()")
        page.wait("document.querySelector('header nav') !== null")
        see_queue(pressing, page, address, "document.querySelector('form[action=\"/queue/get\"]') !== null")
        said = press(page, "get", {"gpus": "1", "hours": "2"})
        assert "you asked for 1 GPU for 2 h" in said
        pressing.wait(lambda: pressing.ssh("minji", NODE, "squeue -h -o %T | grep -q RUNNING && echo so"))
        where = pressing.admin(CONTROLLER, "squeue -h -o %N").strip()
        pressing.wait(lambda: pressing.ssh("minji", where, f'[ "$({PROBE})" = 0 ] && echo so'))

        # the same refusals as in a shell
        see_queue(pressing, page, address, "document.querySelector('form[action=\"/queue/extend\"]') !== null")
        assert "A job may take 4 h" in press(page, "extend", {"hours": "3"})
        see_queue(pressing, page, address, "document.querySelector('form[action=\"/queue/extend\"]') !== null")
        assert "yours until" in press(page, "extend", {"hours": "1"})
        assert jobs(pressing) == "minji RUNNING 3:00:00"

        # a booking, and back
        page.go(f"{address}/queue?lang=ko")
        day = time.strftime("%Y-%m-%dT09:00", time.localtime(time.time() + 2 * 86400))
        assert "예약 1:" in press(page, "book", {"gpus": "1", "hours": "2", "at": day})
        page.go(f"{address}/queue")
        assert "예약 1: 취소했습니다." in press(page, "cancel", {"number": "1"})

        see_queue(pressing, page, address, "document.querySelector('form[action=\"/queue/release\"]') !== null")
        page.ask("document.querySelector('details').open = true")
        assert "반납했습니다" in press(page, "release", {})
        pressing.wait(lambda: pressing.ssh("minji", where, f'[ "$({PROBE})" = "" ] && echo so'))
        assert jobs(pressing) == ""
    said = pressing.admin(CONTROLLER, "journalctl -o cat -u 'gpuadmin-queue-door@*'")
    assert "minji en get 1 2 : 0" in said

    # nobody else at the door: from a node, by IP alone; on the host itself, without the dashboard's certificate
    for host, files in (
        (NODE, ""), (CONTROLLER, ""),
        (CONTROLLER, "/etc/gpuadmin/monitoring/prometheus.pem /var/lib/gpuadmin/monitoring/prometheus.key"),
        (CONTROLLER, "/var/lib/gpuadmin/metrics_tls/exporter.pem /var/lib/gpuadmin/metrics_tls/exporter.key"),
    ):  # fmt: skip
        answer = pressing.admin(host, f"python3 -Ic {shlex.quote(KNOCK)} 10.77.0.10 {files}")
        assert answer.startswith(("none", "answer b''")), (host, files, answer)
    # whoever was locked presses nothing, with the session that they have
    assert "gpuadmin-queue-door.socket" not in pressing.admin(CONTROLLER, "systemctl --failed --plain --no-legend")
