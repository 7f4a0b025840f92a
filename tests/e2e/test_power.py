"""A hung node comes back from afar, and GPUs draw no more than the site says, also after a boot.

The storage host asks a BMC that runs on itself: it answers as DMTF's Redfish mockups do, and what it is told is done to
the lab's host from outside.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import fake_driver
from tests.support.gated_cluster import opened
from tests.support.lab_cluster import Cluster
from tests.support.monitored import within
from tests.support.queued_cluster import queued

pytestmark = pytest.mark.lab
NODE, STORAGE = "node1", "storage1"
PLACE = "/var/tmp/bmc"
BMC = """
import base64, http.server, json, pathlib, ssl
PLACE, LOGIN = pathlib.Path("/var/tmp/bmc"), "Basic " + base64.b64encode(b"admin:secret").decode()
SYSTEM = "/redfish/v1/Systems/437XR1138R2"
class Redfish(http.server.BaseHTTPRequestHandler):
    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        if self.headers["Authorization"] != LOGIN:
            return self.answer(401, {})
        reset = {"target": SYSTEM + "/Actions/ComputerSystem.Reset"}
        self.answer(200, {"/redfish/v1/Systems": {"Members": [{"@odata.id": SYSTEM}]}}.get(self.path, {
            "PowerState": (PLACE / "state").read_text().strip(), "Actions": {"#ComputerSystem.Reset": reset}}))
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["ResetType"]
        if self.headers["Authorization"] == LOGIN and self.path == SYSTEM + "/Actions/ComputerSystem.Reset":
            (PLACE / "asked").write_text(asked)
            return self.answer(204, {})
        self.answer(401, {})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), Redfish)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(PLACE / "cert", PLACE / "key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def runs(cluster: Cluster) -> bool:
    hosts = json.loads(cluster.lab("status", "--json"))["hosts"]
    return any(one["name"] == NODE and one["pid"] for one in hosts)


def obey(cluster: Cluster, done: threading.Event) -> None:
    """Do to the host what its BMC is told, and let the BMC see how it is."""
    while not done.wait(1):
        asked = cluster.ssh("admin", STORAGE, f"sudo cat {PLACE}/asked && sudo rm {PLACE}/asked").stdout.strip()
        if asked:
            cluster.lab("start" if asked == "On" else "power-cut", NODE)
        state = "On" if runs(cluster) else "Off"
        cluster.ssh("admin", STORAGE, f"echo {state} | sudo tee {PLACE}/new && sudo mv {PLACE}/new {PLACE}/state")


@contextmanager
def with_bmc(cluster: Cluster, directory: Path) -> Iterator[None]:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bmc", "-keyout", "key"]
    subprocess.run([*made, "-out", "cert"], cwd=directory, check=True, capture_output=True)
    key = subprocess.run(
        "openssl x509 -in cert -noout -pubkey | openssl pkey -pubin -outform der "
        "| openssl dgst -sha256 -binary | base64",
        shell=True, cwd=directory, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    files = {name: (directory / name).read_text() for name in ("cert", "key")} | {"bmc.py": BMC, "state": "On"}
    cluster.admin(STORAGE, f"mkdir -p {PLACE}")
    for name, text in files.items():
        subprocess.run(
            [*cluster.ssh_command("admin", STORAGE), f"sudo tee {PLACE}/{name}"],
            input=text, text=True, check=True, capture_output=True,
        )  # fmt: skip
    cluster.admin(STORAGE, f"systemd-run --unit=bmc --collect python3 {PLACE}/bmc.py")
    password = directory / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    own = cluster.site / "inventory/bmc.yml"
    own.write_text(f"gpu: {{hosts: {{{NODE}: {{bmc: {{address: '127.0.0.1:8443', key: '{key}'}}}}}}}}\n")
    done = threading.Event()
    thread = threading.Thread(target=obey, args=(cluster, done))
    thread.start()
    try:
        with cluster.settings(lambda text: f"{text}\nbmc: {{user: admin, password_file: {password}}}\n"):
            yield
    finally:
        done.set()
        thread.join()
        own.unlink()
        cluster.lab("start", NODE)


def power(cluster: Cluster) -> dict[str, object]:
    seen = cluster.gpuadmin("power", "status")["result"]["hosts"][NODE]
    return {name: seen[name] for name in ("state", "answers", "problem")}


# slow: what it asks is asked of real simulators in tests/unit/node/bmcs as well
@pytest.mark.slow
@pytest.mark.story("power")
def test_a_hung_node_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    with with_bmc(cluster, tmp_path):
        cluster.gpuadmin("provision", "--limit", STORAGE, "--yes")  # curl
        assert power(cluster) == {"state": "on", "answers": True, "problem": ""}

        def boot() -> str:
            return cluster.admin(
                NODE, "cat /proc/sys/kernel/random/boot_id; systemctl show -P UserspaceTimestampMonotonic"
            )

        # one that answers goes by itself, and comes
        first = boot()
        document = cluster.gpuadmin("power", "cycle", NODE, "--yes")
        assert document["result"]["cut"] == []
        second = boot()
        assert first != second
        # one that hangs is cut off
        cluster.ssh("admin", NODE, "sudo systemctl mask --runtime --now ssh.socket ssh.service; sudo pkill -x sshd")
        assert power(cluster) == {"state": "on", "answers": False, "problem": ""}
        document = cluster.gpuadmin("power", "cycle", NODE, "--yes")
        assert document["result"]["cut"] == [NODE]
        assert boot() not in (first, second)
        # off, and on again; who has it off needs nothing
        assert cluster.gpuadmin("power", "off", NODE, "--yes")["hosts"][NODE]["status"] == "changed"
        assert power(cluster) == {"state": "off", "answers": False, "problem": ""}
        cluster.gpuadmin("power", "off", NODE, "--yes")
        cluster.gpuadmin("power", "on", NODE, "--yes")
        assert power(cluster)["answers"]


# slow: which nodes go and come is decided in tests/unit/actions/test_power_for_jobs.py
@pytest.mark.slow
@pytest.mark.root  # light hosts, which have GPUs
def test_an_idle_node_goes_and_comes_for_a_job(with_queue: Cluster, tmp_path: Path) -> None:
    """By what the timers `shutdown` and `power` run."""
    with queued(with_queue) as cluster, with_bmc(cluster, tmp_path):

        def come() -> Any:
            return cluster.gpuadmin("power", "on", "--queue", "--yes")["hosts"]

        cluster.gpuadmin("provision", "--limit", STORAGE, "--yes")  # curl
        full = "sbatch --gres=gpu:2 --nodelist=node2 -D / -o /dev/null --wrap 'sleep 3600'"
        cluster.person("jiho", "node2", full)
        within(60, lambda: opened(cluster, "jiho", node="node2") == "01")
        gone = cluster.gpuadmin("shutdown", "gpu", "--idle", "2", "--yes")["result"]
        assert (gone["steps"], list(gone["refused"])) == ([[NODE]], ["node2"])
        within(120, lambda: power(cluster)["state"] == "off")
        assert come() == {}, "no job waits"
        cluster.person("minji", "node2", "gpu get 2 --no-wait")
        assert come()[NODE]["status"] == "changed"
        within(120, lambda: opened(cluster, "minji") == "01")
        assert come() == {}


def power_limits(cluster: Cluster) -> set[str]:
    return set(re.findall(r"power_limit = (\d+)", cluster.admin(NODE, f"cat {fake_driver.DESCRIBED}")))


@pytest.mark.needs("cc")
def test_gpus_draw_no_more_than_the_site_says(cluster: Cluster) -> None:
    fake_driver.install(cluster, NODE)

    def with_cap(watts: int) -> AbstractContextManager[None]:
        return cluster.settings(lambda text: f"{text}\ngpus: {{power_cap: {watts}}}\n")

    def provision(code: int) -> Any:
        return cluster.gpuadmin("provision", "--limit", NODE, "--yes", code=code)["hosts"][NODE]

    with with_cap(50):
        assert "is not a valid power limit which should be between 200.00 W and 700.00 W" in provision(3)["message"]
    with with_cap(500):
        worse = str(cluster.gpuadmin("list-gpus")["result"]["nodes"][NODE]["worse"])
        assert "GPU 0 (0000:01:00.0) may draw 700 W, and gpus.power_cap is 500 W" in worse
        provision(0)
        assert power_limits(cluster) == {"500000"}
        assert "may draw" not in str(cluster.gpuadmin("list-gpus")["result"]["nodes"][NODE]["worse"])
        assert provision(0)["status"] == "ok"
        # a GPU forgets it at each boot
        fake_driver.describe(cluster, NODE, fake_driver.WHOLE)
        assert power_limits(cluster) == {"700000"}
        cluster.reboot(NODE)
        cluster.wait(lambda: cluster.ssh("admin", NODE, f"sudo grep 'power_limit = 500000' {fake_driver.DESCRIBED}"))
    provision(0)
    cluster.admin(NODE, "test ! -e /var/lib/gpuadmin/gpu-power")
