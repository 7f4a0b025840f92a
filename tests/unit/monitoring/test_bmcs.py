"""What BMCs measure: the distribution's exporter asks OpenIPMI's simulator, Prometheus judges by the role's rules."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.actions.shared.metrics import metrics_variables
from gpuadmin.config.check import findings
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables
from gpuadmin.errors import ConfigError
from tests.support import role_variables
from tests.support.simulated_bmc import WORKAROUND, Sensor, free_port, simulated

ROLE = Path(__file__).resolve().parents[3] / "roles/monitoring"
#: A room that is hot, a fan that stands still, and a supply that has lost its input.
SENSORS = [
    Sensor("Inlet Temp", kind=1, unit=1, raw=36, upper=45),
    Sensor("Fan1A", kind=4, unit=18, raw=2, factor=100, lower=5),
    Sensor("Fan2A", kind=4, unit=18, raw=45, factor=100, lower=5),
    Sensor("PS1 Status", kind=8, bits=(0,)),
    Sensor("PS2 Status", kind=8, bits=(0, 3)),
]


def make(
    directory: Path, address: str, settings: str = "", groups: tuple[str, ...] = ("storage", "monitor"), **bmc: Any
) -> Site:
    (directory.parent / "password").write_text("secret\n")
    (directory.parent / "password").chmod(0o600)
    bmc = {"address": address, "kind": "ipmi", **bmc}
    hosts = [
        SiteHost("nas1", groups, {"ansible_host": "10.0.0.10"}),
        SiteHost("gpu1.lab", ("gpu",), {"ansible_host": "10.0.0.1", "bmc": bmc, "place": "room 301, rack 2"}),
        SiteHost("gpu2", ("gpu",), {"ansible_host": "10.0.0.2", "place": "room 301, rack 3"}),
    ]
    write_site(directory, name="test", settings={}, hosts=hosts, schemas=False)
    with (directory / "gpuadmin.yml").open("a", encoding="utf-8") as stream:
        sensors = f"{{user: admin, password_file: {directory.parent}/password, workarounds: [{WORKAROUND}]}}"
        stream.write(f"bmc: {{user: operator, sensors: {sensors}}}\n{settings}")
    return load_site(str(directory))


def role_of(site: Site) -> dict[str, Any]:
    """The role's variables on the monitor host."""
    cluster = Cluster(site.settings, tuple(site.inventory.hosts), metrics_variables(site, bytes(32)))
    found = variables(cluster, site.inventory.group("monitor")[0])
    return {name: value for name, value in found.items() if name.startswith("monitoring_")}


def rendered(site: Site, name: str, **more: Any) -> str:
    values = yaml.safe_load((ROLE / "vars/main.yml").read_text()) | role_of(site)
    values |= {"ansible_facts": {"gpuadmin": {"codename": "trixie"}}}
    return role_variables.rendered("monitoring", name, values | more)


@contextmanager
def runs(home: Path, *command: str) -> Iterator[None]:
    quiet, surroundings = subprocess.DEVNULL, {**os.environ, "HOME": str(home)}  # FreeIPMI keeps lists of sensors there
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=surroundings)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


def find_alerts(address: str, count: int) -> dict[str, Any]:
    """Those of Prometheus, by name, once there are so many."""
    end, found = time.monotonic() + 60, dict[str, Any]()
    while len(found) < count:
        assert time.monotonic() < end, found
        time.sleep(0.2)  # Prometheus asks and judges once a second
        with suppress(OSError), urllib.request.urlopen(f"http://{address}/api/v1/alerts", timeout=30) as answer:
            found = {one["labels"]["alertname"]: one for one in json.load(answer)["data"]["alerts"]}
    return found


@pytest.mark.needs("ipmi_sim", "prometheus-ipmi-exporter", "promtool")
def test_from_a_bmc_to_an_alert(tmp_path: Path) -> None:
    """With the role's files, but for their places, ports and patience."""
    exporter, prometheus, rules = free_port(), free_port(), tmp_path / "etc/rules"
    with simulated(tmp_path, SENSORS) as address:
        (tmp_path / "power").write_text("1")
        site = make(tmp_path / "site", address, "metrics: {power_budgets: {room 301: 1}}\n")
        for place in (rules, tmp_path / "etc/targets"):
            place.mkdir(parents=True)
        for name in ("bmcs", "gpus"):  # quicker
            lines = (ROLE / f"files/rules/{name}.yml").read_text().splitlines()
            (rules / f"{name}.yml").write_text("\n".join("" if "for:" in one else one for one in lines))
        (rules / "budgets.yml").write_text(rendered(site, "budgets.yml.j2"))
        (tmp_path / "ipmi.yml").write_text(rendered(site, "ipmi.yml.j2"))
        (tmp_path / "etc/targets/bmc.json").write_text(rendered(site, "bmcs.json.j2"))
        places = {"_monitoring_directory": str(tmp_path / "etc"), "_monitoring_credentials": {"prometheus": "/"}}
        settings = yaml.safe_load(rendered(site, "prometheus.yml.j2", **places).replace("9290", str(exporter)))
        job = next(one for one in settings["scrape_configs"] if one["job_name"] == "bmc")
        settings["scrape_configs"] = [{**job, "scrape_interval": "1s", "scrape_timeout": "1s"}]
        settings["global"]["evaluation_interval"] = "1s"
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings))
        asked = ("prometheus-ipmi-exporter", f"--config.file={tmp_path}/ipmi.yml")
        watch = ("prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data")
        at = f"127.0.0.1:{prometheus}"
        both = ((*asked, f"--web.listen-address=127.0.0.1:{exporter}"), (*watch, f"--web.listen-address={at}"))
        with runs(tmp_path, *both[0]), runs(tmp_path, *both[1]):
            alerts = find_alerts(at, 3)
            assert set(alerts) == {"InletHot", "FanFailed", "SupplyLost"}
            words = [one["annotations"]["summary"] for one in alerts.values()]
            assert sorted(words) == [
                "gpu1.lab (room 301, rack 2): Fan1A has failed, or turns too slowly",
                "gpu1.lab (room 301, rack 2): a power supply is lost (PS2 Status)",
                "gpu1.lab (room 301, rack 2): the air that comes in has 36 °C",
            ]
            assert "--place 'room 301, rack 2'" in alerts["InletHot"]["annotations"]["todo"]


@pytest.mark.needs("promtool")
def test_a_host_says_nothing_of_others(tmp_path: Path) -> None:
    """A second sum of a room would end the alert about its budget; an alert of its making would keep nodes off."""
    said = b'place:watts{place="room 301"} 1\nALERTS{alertname="InletHot",alertstate="firing"} 1\nnode_load1 7\n'

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    places = {"_monitoring_directory": str(tmp_path), "_monitoring_credentials": {"prometheus": "/"}}
    settings = yaml.safe_load(rendered(make(tmp_path / "site", "10.9.0.1"), "prometheus.yml.j2", **places))
    job = next(one for one in settings["scrape_configs"] if one["job_name"] == "node")
    left = {name: value for name, value in job.items() if name not in ("tls_config", "file_sd_configs")}
    left |= {"scheme": "http", "scrape_interval": "1s", "scrape_timeout": "1s"}
    left |= {"static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [left]}))
    at = f"127.0.0.1:{free_port()}"
    watch = ("prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with runs(tmp_path, *watch, f"--web.listen-address={at}"):
            end, names = time.monotonic() + 60, list[str]()
            while "node_load1" not in names:
                assert time.monotonic() < end
                time.sleep(0.2)  # Prometheus asks once a second
                with suppress(OSError), urllib.request.urlopen(f"http://{at}/api/v1/label/__name__/values") as answer:
                    names = json.load(answer)["data"]
        assert not {"place:watts", "ALERTS"} & {*names}
    finally:
        server.shutdown()
        server.server_close()


def test_a_budget_counts_the_hosts_of_its_place(tmp_path: Path) -> None:
    """A dot in a host's name is no joker."""
    site = make(tmp_path / "site", "10.9.0.1", "metrics: {power_budgets: {room 301: 12000, rack 3: 6000}}\n")
    rules = tmp_path / "budgets.yml"
    rules.write_text(rendered(site, "budgets.yml.j2"))
    hosts = {"gpu1.lab": 5000, "gpu1xlab": 100, "gpu2": 700, "nas1": 300}
    series = [
        {
            "series": f'host:watts{{instance="{name}",by="{"bmc" if watts > 1000 else "gpus"}"}}',
            "values": f"{watts}x5",
        }
        for name, watts in hosts.items()
    ]
    expected = {
        "place:watts": {'{place="room 301"}': 5700, '{place="rack 3"}': 700},
        "place:budget_watts": {'{place="room 301"}': 12000, '{place="rack 3"}': 6000},
        "place:hosts": {
            '{by="bmc",place="room 301"}': 1, '{by="gpus",place="room 301"}': 1, '{by="gpus",place="rack 3"}': 1,
        },
    }  # fmt: skip
    checks = [
        {
            "expr": name,
            "eval_time": "5m",
            "exp_samples": [{"labels": name + at, "value": value} for at, value in wanted.items()],
        }
        for name, wanted in expected.items()
    ]
    test = {
        "rule_files": [str(rules)],
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rules.write_text(rendered(make(tmp_path / "other", "10.9.0.1"), "budgets.yml.j2"))
    assert yaml.safe_load(rules.read_text())["groups"][0]["rules"] == []


def test_a_budget_of_a_place_that_no_host_has(tmp_path: Path) -> None:
    site = make(tmp_path / "site", "10.9.0.1", "metrics: {power_budgets: {room 301: 12000, room 302: 1}}\n")
    assert [one.message for one in findings(site) if "power_budgets" in one.where] == [
        "no host has 'room 302' in its place"
    ]


def test_what_the_monitor_host_is_told(tmp_path: Path) -> None:
    """The account that only reads, and of Redfish the address alone; who has no BMC or no sensors is not asked."""
    site = make(tmp_path / "site", "10.9.0.1:6230")
    (one,) = role_of(site)["monitoring_sensors"]
    assert one == {
        "name": "gpu1.lab", "place": "room 301, rack 2", "target": "10.9.0.1:6230", "address": "10.9.0.1",
        "user": "admin", "password": "secret", "workarounds": [WORKAROUND],
    }  # fmt: skip
    unit = rendered(site, "ipmi.service.j2")
    assert "IPAddressDeny=any\nIPAddressAllow=localhost 10.9.0.1\n" in unit
    assert "--web.listen-address=127.0.0.1:" in unit
    assert "secret" not in unit
    others: list[tuple[dict[str, Any], list[str]]] = [
        ({"kind": "redfish"}, ["10.9.0.1"]), ({"kind": "wol"}, []), ({"sensors": None}, []),
    ]  # fmt: skip
    for number, (bmc, targets) in enumerate(others):
        found = role_of(make(tmp_path / f"site{number}", "10.9.0.1:6230", **bmc))["monitoring_sensors"]
        assert [one["target"] for one in found] == targets, bmc


@pytest.mark.holds(
    "a BMC's password goes to no monitor host that is a node, or that asks no BMCs",
    "a BMC's password goes to addresses of BMCs alone, and a filter of systemd's knows no names",
)
@pytest.mark.parametrize(
    ("address", "groups", "words"),
    [
        ("10.9.0.1", ("storage", "gpu", "monitor"), "nas1 of the group monitor asks no BMCs: it is a node"),
        (
            "bmc1.example.org",
            ("storage", "monitor"),
            "gpu1.lab: bmc.address bmc1.example.org: bmc.sensors needs its IP",
        ),
    ],
)
def test_where_no_password_goes(tmp_path: Path, address: str, groups: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        metrics_variables(make(tmp_path / "site", address, groups=groups), bytes(32))


def test_a_password_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make(tmp_path / "site", "10.9.0.1")
    (tmp_path / "password").unlink()
    with pytest.raises(ConfigError, match=r"gpu1.lab: bmc.sensors.password_file: .*No such file"):
        metrics_variables(site, bytes(32))
    monkeypatch.setenv("GPUADMIN_BMC_SENSORS_PASSWORD", "other")
    assert metrics_variables(site, bytes(32))["gpuadmin_metrics"]["sensors"][0]["password"] == "other"
