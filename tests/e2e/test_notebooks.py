"""A notebook on a GPU of the queue: JupyterLab from the package index, in a browser as wide as a phone."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuadmin.config.schema.notebooks import Notebooks
from tests.support.browser import Browser, browser
from tests.support.gated_cluster import NODE, PROBE
from tests.support.lab_cluster import Cluster
from tests.support.monitored import monitor_host
from tests.support.notebook_wheels import INDEX, bring
from tests.support.prometheus import free_port
from tests.support.queued_cluster import SLURM, queued

# long: JupyterLab is installed, and a browser opened
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.long]  # light hosts, which have GPUs
DASHBOARD, PORT = free_port(), free_port()
SITE = f"""{SLURM}
notebooks: {{port: {PORT}, index: '{INDEX}'}}
metrics: {{interval: 10, dashboard: {{port: {DASHBOARD}}}}}
"""
#: Which GPUs of the node the kernel of a notebook can open.
CELL = """import os
print([n for n in (0, 1) if os.system(f": 2>/dev/null < /dev/nvidia{n}") == 0], os.getuid())"""
PHONE = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile"


@pytest.fixture
def notebooks(with_queue: Cluster) -> Iterator[Cluster]:
    bring(with_queue, Notebooks().packages, "node1", "node2")
    with monitor_host(with_queue), queued(with_queue, SITE) as found:
        yield found


@contextmanager
def forward(cluster: Cluster, name: str, asked: str) -> Iterator[None]:
    """What `gpu jupyter` prints for those whose browser does not reach the monitor host, through the same node."""
    ways = re.findall(r"-L (\S+)", asked)
    assert len(ways) == 2
    line = cluster.ssh_command(name, NODE)
    process = subprocess.Popen([*line[:-1], "-N", *(word for one in ways for word in ("-L", one)), line[-1]])
    try:
        time.sleep(2)  # ssh says nothing once it listens
        yield
    finally:
        process.terminate()
        process.wait(30)


def enter(page: Browser, asked: str) -> None:
    """Open the link, and press its one button."""
    (link,) = re.findall(r"https://localhost:\S+", asked)
    page.go(link)
    page.ask("document.querySelector('button').click()")


def run_cell(page: Browser, base: str, code: str) -> str:
    """A new notebook, a cell, and what it prints."""
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    content = {"cells": [], "metadata": spec, "nbformat": 4, "nbformat_minor": 5}
    body = json.dumps({"type": "notebook", "format": "json", "content": content})
    page.ask(f"""var made = 0; void fetch("{base}api/contents/first.ipynb", {{method: "PUT", body: {json.dumps(body)}}})
             .then(answer => made = answer.status)""")
    page.wait("made === 201")
    page.go(f"https://localhost:{PORT}{base}notebooks/first.ipynb")
    page.wait("!!document.querySelector('.jp-Notebook .cm-content')", 90)
    page.wait("!!document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')", 90)
    printed = "document.querySelector('.jp-OutputArea-output')"
    end = time.monotonic() + 180
    while not page.ask(f"!!{printed}"):  # a page that is still being drawn takes no key, and it may ask which kernel
        assert time.monotonic() < end, page.ask("document.body.innerText")
        page.ask("document.querySelector('.jp-Dialog .jp-mod-accept')?.click()")
        page.ask("document.querySelector('.jp-Notebook .cm-content').focus()")
        if code.splitlines()[0] not in page.ask("document.querySelector('.jp-Notebook').innerText"):
            page.order("Input.insertText", text=code)
        for kind in ("rawKeyDown", "keyUp"):
            page.order(
                "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, modifiers=8
            )
        time.sleep(10)  # a key is not pressed again while the kernel starts
    return str(page.ask("document.querySelector('.jp-OutputArea-output').innerText")).strip()


def gone(cluster: Cluster, name: str) -> None:
    cluster.wait(lambda: cluster.ssh(name, NODE, '[ -z "$(squeue --me --noheader)" ] && echo so'))
    cluster.wait(lambda: cluster.ssh(name, NODE, f'[ "$({PROBE})" = "" ] && echo so'))


def test_a_person_opens_a_notebook_from_their_phone(notebooks: Cluster, tmp_path: Path) -> None:
    asked = notebooks.person("minji", NODE, f"gpu jupyter --gpus 1 --node {NODE}")
    assert "works once" in asked
    job = notebooks.person("minji", NODE, "squeue --me --noheader --format=%i").strip()
    # whoever asks again gets no second one
    assert f"Job {job}: your notebook runs already" in notebooks.person("minji", NODE, "gpu jupyter")
    with forward(notebooks, "minji", asked), browser(tmp_path / "minji", "--ignore-certificate-errors") as page:
        page.screen(390, 844)
        page.order("Emulation.setUserAgentOverride", userAgent=PHONE)
        enter(page, asked)
        page.wait(f"location.port === '{PORT}'", 60)
        page.wait("!!document.querySelector('.jp-DirListing')", 90)
        uid, base = notebooks.person("minji", NODE, "id -u").strip(), f"/{NODE}/minji/{job}/"
        assert run_cell(page, base, CELL) == f"[0] {uid}"
        page.picture(tmp_path / "notebook-390.png")
        # another's session, from the same network
        other = notebooks.person("jiho", NODE, "gpuadmin-me web")
        with browser(tmp_path / "jiho", "--ignore-certificate-errors") as jiho:
            enter(jiho, other)
            jiho.wait("location.pathname === '/'")
            jiho.go(f"https://localhost:{PORT}/{NODE}/minji/{job}/lab")
            assert "not your notebook" in jiho.ask("document.body.innerText")
        attack(notebooks, uid)
        # the dashboard leads there as well
        notebooks.admin("storage1", "python3 -IB /var/lib/gpuadmin/lib/gpuadmin_node/cli.py queue-measured")
        page.order("Emulation.setUserAgentOverride", userAgent="")
        page.screen(1280, 800)
        page.go(f"https://localhost:{DASHBOARD}/queue")
        page.wait(
            "!!document.querySelector('a[href*=\"/minji/\"]') || (setTimeout(() => location.reload(), 2000), false)", 60
        )
        href = page.ask("document.querySelector('a[href*=\"/minji/\"]').href")
        assert href == f"https://localhost:{PORT}{base}lab"
        # closed: the job ends, and with it her hold of the GPU; the page that is still open says so
        page.go(href)
        page.wait("!!document.querySelector('.jp-Launcher, .jp-Notebook')", 90)
        page.picture(tmp_path / "notebook-1280.png")
        page.ask(f"void fetch('{base}api/shutdown', {{method: 'POST'}})")
        gone(notebooks, "minji")
        page.go(href)
        assert "has ended" in page.ask("document.body.innerText")
    # and by the shell, while a page is open
    asked = notebooks.person("minji", NODE, f"gpu jupyter --node {NODE}")
    assert "given back" in notebooks.person("minji", NODE, "gpu release")
    gone(notebooks, "minji")


def attack(cluster: Cluster, uid: str) -> None:
    """What somebody else on the node finds."""
    # no password is in the list of processes, and no port is theirs: not the server's, not its kernels'
    line = cluster.person("jiho", NODE, "ps -ww -u minji -o args= | grep [j]upyter-lab")
    assert re.search(r"--ServerApp\.token= ", line), line
    # (a kernel has one for what its child processes print, which takes nothing without a key)
    ports = [line for line in cluster.admin(NODE, "ss -Hltnpe").splitlines() if f"uid:{uid}" in line]
    server = cluster.admin(NODE, "pgrep -u minji -f bin/jupyter-lab").split()
    assert not [line for line in ports for pid in server if f"pid={pid}," in line], ports
    assert len(ports) <= 1, ports
    path = re.search(r"sock=(\S+)/socket", line)
    assert path is not None
    refused = cluster.ssh(
        "jiho", NODE, f"ls {path[1]}; python3 -c 'import socket; socket.socket(1).connect(\"{path[1]}/socket\")'"
    )
    assert refused.stderr.count("ermission denied") >= 2, refused.stderr
    # the front, from a node: by its address alone it does not answer
    ask = 'import socket; print(socket.create_connection(("{}", 9445), 3).recv(9))'
    for host in ("127.0.0.1", NODE):
        failed = cluster.ssh("jiho", NODE, f"python3 -c '{ask.format(host)}'")
        assert failed.returncode != 0, failed.stdout
    assert json.loads(cluster.person("jiho", NODE, "cat /var/lib/gpuadmin/notebooks.json"))["node"] == NODE
    assert cluster.ssh("jiho", NODE, "cat /var/lib/gpuadmin/notebooks/key").returncode != 0
    assert uid != cluster.person("jiho", NODE, "id -u").strip()
