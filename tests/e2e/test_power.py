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

from tests.support import fake_driver, monitor_program
from tests.support.gated_cluster import opened
from tests.support.lab_cluster import Cluster
from tests.support.mail_sink import Sink
from tests.support.monitor_program import BY_HAND, fire, log
from tests.support.monitored import SETTINGS, asked, monitor_host, within
from tests.support.queued_cluster import SLURM, queued

pytestmark = pytest.mark.lab
NODE, STORAGE = "node1", "storage1"
PLACE, PASSWORD = "/var/tmp/bmc", "seldom-said"
BMC = """
import base64, http.server, json, pathlib, ssl
PLACE, LOGIN = pathlib.Path("/var/tmp/bmc"), "Basic " + base64.b64encode(b"admin:seldom-said").decode()
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
    own = cluster.site / "inventory/bmc.yml"
    own.write_text(f"gpu: {{hosts: {{{NODE}: {{bmc: {{address: '127.0.0.1:8443', key: '{key}'}}}}}}}}\n")
    done = threading.Event()
    thread = threading.Thread(target=obey, args=(cluster, done))
    thread.start()
    try:
        with (
            pytest.MonkeyPatch.context() as here,  # and a file on the monitor host
            cluster.settings(lambda text: f"{text}\nbmc: {{user: admin, password_file: ~/bmc-password}}\n"),
        ):
            here.setenv("GPUADMIN_BMC_PASSWORD", PASSWORD)
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
            shows = "cat /proc/sys/kernel/random/boot_id; systemctl show -P UserspaceTimestampMonotonic"
            return cluster.wait(lambda: cluster.ssh("admin", NODE, shows))  # sshd answers before anybody may log in

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


TIMERS = "timers: {verbs: [shutdown, power], shutdown: {when: 'Fri 20:00', nodes: 2}}\n"
#: What stands before the timers' key on the monitor host, as docs/security.md has it.
BEFORE = r"from=\"10.77.0.*\",restrict,port-forwarding,permitopen=\"127.0.0.1:9090\""
NARROW = (
    "cd $(getent passwd $SUDO_USER | cut -d: -f6)/.ssh; "
    'sed -i "\\|{key}| s|^|{before} |" authorized_keys; grep -c restrict authorized_keys'
)
#: Who has the BMC's password on a host (the journal has this test's own sudo); and which process, while a unit runs.
FOUND = (
    "find /etc /run /root /home /tmp /var/lib -xdev -name journal -prune -o -type f -size -2048k -print0 |"
    " timeout 200 xargs -0 grep -ls s[e]ldom-said; test $? != 124"
)
WATCH = (
    "systemd-run --quiet --collect --unit=watch sh -c 'while sleep 0.2; do "
    "grep -ls s[e]ldom-said /proc/[0-9]*/cmdline /proc/[0-9]*/environ >>/var/tmp/found; done'"
)
ROOM = "/run/gpuadmin-metrics/room"
HOT = f"mkdir {ROOM}; echo 'ipmi_temperature_celsius{{name=\"Inlet Temp\"}} 41' >{ROOM}/heat.prom"
#: Five minutes are long for a test.
SOONER = (
    "btrfs property set -ts / ro false; cd /etc/gpuadmin/monitoring/rules; "
    "sed -i '/alert: \\(InletHot\\|TimerFailed\\)/,/for:/ s/for: .*/for: 30s/' gpus.yml monitoring.yml; "
    "btrfs property set -ts / ro true; systemctl reload prometheus"
)


# slow: which nodes go and come is decided in tests/unit/actions/test_power_for_jobs.py
@pytest.mark.slow
@pytest.mark.root  # light hosts, which have GPUs
def test_idle_nodes_go_and_come_by_timers(with_queue: Cluster, tmp_path: Path) -> None:
    """By the units of the monitor host, with a gpuadmin of its own; with a BMC that hangs, and while it is too hot."""
    declared = monitor_program.DECLARED.format(key=monitor_program.make_key(with_queue))
    settings = f"{SLURM}\n{SETTINGS}{TIMERS}{declared}"
    with monitor_host(with_queue), queued(with_queue, settings) as cluster, with_bmc(cluster, tmp_path):
        cluster.gpuadmin("provision", "--limit", STORAGE, "--yes")  # curl
        cluster.admin(STORAGE, "systemctl stop 'gpuadmin-timer-*.timer'")
        monitor_program.set_up(cluster, tmp_path, *monitor_program.FILES)
        monitor_program.keep(cluster, "bmc-password", PASSWORD)
        key = cluster.key("gpuadmin-timers").split()[1]
        for host in (STORAGE, NODE, "node2"):
            before = BEFORE if host == STORAGE else BEFORE.partition(",port")[0]
            assert cluster.admin(host, NARROW.format(key=key, before=before)).strip() == "1"
        cluster.admin(STORAGE, SOONER)
        sink = Sink(cluster)

        # a node that somebody uses stays, and says why
        full = "sbatch --gres=gpu:2 --nodelist=node2 -D / -o /dev/null --wrap 'sleep 3600'"
        cluster.person("jiho", "node2", full)
        within(60, lambda: opened(cluster, "jiho", node="node2") == "01")
        assert fire(cluster, "shutdown", BY_HAND) == "0", log(cluster, "shutdown")
        words = " ".join(log(cluster, "shutdown").split())
        assert "node2 is left out: in use by jiho" in words
        assert "only 1 of the 2 nodes that you want can go" in words
        within(120, lambda: power(cluster)["state"] == "off")
        assert fire(cluster, "power", BY_HAND) == "0", log(cluster, "power")
        assert "Nothing to do" in log(cluster, "power"), "no job waits"

        # a job waits, and the BMC hangs: nothing is done, and the admin is told
        cluster.admin(STORAGE, "systemctl kill -s STOP bmc")
        cluster.person("minji", "node2", "gpu get 2 --no-wait")
        within(
            60, lambda: cluster.admin(STORAGE, "squeue --noheader --states=PENDING --format=%r | grep -v None; true")
        )
        cluster.admin(STORAGE, WATCH)
        assert fire(cluster, "power", BY_HAND) == "5", log(cluster, "power")
        assert "node1 is left out: curl: (28)" in " ".join(log(cluster, "power").split())
        cluster.admin(STORAGE, "systemctl stop watch; test ! -s /var/tmp/found")
        own = f"{monitor_program.HOME}/bmc-password"
        assert set(cluster.admin(STORAGE, FOUND).split()) == {own}
        assert cluster.admin(STORAGE, f"stat -c %U:%a {own}") == "gpuadmin-timers:600\n"
        assert cluster.admin("node2", FOUND) == ""
        seen = cluster.gpuadmin("status", code=4)  # node1 is off
        assert seen["result"]["hosts"][STORAGE]["timers"]["power"].endswith("failed")
        cluster.admin(STORAGE, HOT)

        def firing(name: str) -> list[dict[str, Any]]:
            return asked(cluster, f'ALERTS{{alertstate="firing",alertname="{name}"}}')

        within(600, lambda: firing("InletHot") and firing("TimerFailed"))
        (text, *_) = within(120, lambda: sink.about("TimerFailed"))
        assert "gpuadmin-timer-power.service" in text
        assert not firing("HostDown"), "a node that was switched off as idle is none that is missed"

        # the BMC is well again, and it is too hot
        cluster.admin(STORAGE, "systemctl kill -s CONT bmc")
        known = len(cluster.gpuadmin("runs")["result"]["runs"])
        assert fire(cluster, "power", BY_HAND) == "0", log(cluster, "power")
        assert "node1 stay off while there is an alert: InletHot" in " ".join(log(cluster, "power").split())
        assert len(cluster.gpuadmin("runs")["result"]["runs"]) == known, "what is asked every ten minutes is no run"
        assert power(cluster)["state"] == "off"

        cluster.admin(STORAGE, f"rm -r {ROOM}")
        within(300, lambda: not firing("InletHot"))
        assert fire(cluster, "power", BY_HAND) == "0", log(cluster, "power")
        assert power(cluster) == {"state": "on", "answers": True, "problem": ""}
        within(120, lambda: opened(cluster, "minji") == "01")
        assert fire(cluster, "power", BY_HAND) == "0"
        runs = [(one["verb"], one["who"]) for one in cluster.gpuadmin("runs")["result"]["runs"]]
        timers = f"gpuadmin-timers@{STORAGE}"
        assert {("shutdown", timers), ("power", timers)} <= set(runs)
        assert not [one for one in cluster.gpuadmin("status")["result"]["hosts"][STORAGE]["timers"].values()
                    if one.endswith("failed")]  # fmt: skip


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
