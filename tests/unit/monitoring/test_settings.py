"""What provision tells the hosts about measurements, and the files that Prometheus and Alertmanager are given."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from gpuadmin.actions.shared.metrics import SECRET, keep_secret, metrics_variables, read_metrics_secret
from gpuadmin.config.check import findings
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.errors import ConfigError
from gpuadmin.monitoring.certificates import scraper
from tests.support import role_variables
from tests.support.fake_ansible import Ansible, Cli, ansible
from tests.support.role_variables import given

__all__ = ["ansible"]

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles/monitoring"
IPMI = ["prometheus-ipmi-exporter.service"]


def make(directory: Path, settings: str = "", monitor: tuple[str, ...] = ("storage", "monitor")) -> Site:
    hosts = [
        SiteHost("nas1", monitor, {"ansible_host": "10.0.0.10"}),
        SiteHost("gpu1", ("gpu",), {"ansible_host": "10.0.0.1", "gpuadmin_address": "fd00::1"}),
    ]
    write_site(directory, name="test", settings={}, hosts=hosts, schemas=False)
    with (directory / "gpuadmin.yml").open("a", encoding="utf-8") as stream:
        stream.write(settings)
    return load_site(str(directory))


MAIL = "mail: {host: mail.example.org, sender: gpu@example.org, user: gpu, password_file: %s}\n"


def with_mail(directory: Path) -> Site:
    password = directory.parent / "password"
    password.write_text("hunter2\n")
    password.chmod(0o600)
    return make(directory, MAIL % password + "metrics: {mail_to: [admins@example.org]}\n")


@pytest.mark.holds("a secret that is there is never replaced")
def test_the_secret_is_kept_once_and_for_its_owner(tmp_path: Path) -> None:
    site = make(tmp_path / "site")
    first = read_metrics_secret(site)
    assert read_metrics_secret(site) != first, "a look writes nothing"
    assert not (site.directory / SECRET).exists()
    keep_secret(site, first)
    assert read_metrics_secret(site) == first
    assert (site.directory / SECRET).stat().st_mode & 0o777 == 0o600
    assert f"/{SECRET}\n" in (site.directory / ".gitignore").read_text()
    keep_secret(site, read_metrics_secret(make(tmp_path / "other")))
    assert read_metrics_secret(site) == first, "what is there is never replaced"


@pytest.mark.parametrize("text", ["zz", "00", "0" * 63])
def test_a_secret_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    site = make(tmp_path / "site")
    path = site.directory / SECRET
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="32 bytes"):
        read_metrics_secret(site)
    path.write_text("00" * 32)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others can read it"):
        read_metrics_secret(site)


def test_what_hosts_are_told(tmp_path: Path) -> None:
    site = with_mail(tmp_path / "site")
    given = metrics_variables(site, bytes(32))["gpuadmin_metrics"]
    assert {one["name"]: (one["address"], one["kind"]) for one in given["targets"]} == {
        "nas1": ("10.0.0.10", "storage"), "gpu1": ("fd00::1", "gpu"),
    }  # fmt: skip
    assert set(given["hosts"]) == {"nas1", "gpu1"}
    assert given["scraper"]["certificate"] == scraper(bytes(32)).certificate
    assert given["mail"] == {
        "smarthost": "mail.example.org:587", "starttls": True, "user": "gpu", "sender": "gpu@example.org",
    }  # fmt: skip
    assert given["password"] == "hunter2"
    assert metrics_variables(make(tmp_path / "none", monitor=("storage",)), bytes(32)) == {}


def test_a_host_that_has_the_queue_alone_is_measured(tmp_path: Path) -> None:
    site = with_mail(tmp_path / "site")
    (site.directory / "inventory/queue.yml").write_text("slurm: {hosts: {queue1: {ansible_host: 10.0.0.7}}}\n")
    given = metrics_variables(load_site(str(site.directory)), bytes(32))["gpuadmin_metrics"]
    assert {"name": "queue1", "address": "10.0.0.7", "kind": "slurm"} in given["targets"]
    assert given["hosts"]["queue1"]["certificate"]


def test_provision_gives_it_and_keeps_the_secret(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    inventory = ansible.site / "inventory/hosts.yml"
    inventory.write_text(inventory.read_text().replace("monitor: {hosts: {}}", "monitor: {hosts: {storage1: {}}}"))
    code, _, err = cli("provision", "--check")
    assert code == 0, err
    assert not (ansible.site / SECRET).exists()
    code, _, err = cli("provision", "--yes")
    assert code == 0, err
    kept = read_metrics_secret(load_site(str(ansible.site)))
    cli("drift")
    checked, done, drift = (one.variables["gpuadmin_metrics"] for one in ansible.asked)
    assert done == drift
    assert done["scraper"]["certificate"] == scraper(kept).certificate
    assert checked != done, "a check has no secret yet, and says that all would be written"


FINDINGS = {
    "mail without mail": ("metrics: {mail_to: [a@example.org]}\n", ("storage", "monitor"), "no mail can be sent"),
    "nobody is told": ("", ("storage", "monitor"), "alerts reach nobody"),
    "a node watches": ("", ("gpu", "monitor"), "people log in there"),
    "TLS on another port": (
        "mail: {host: m, security: tls, port: 4650, sender: a@example.org}\nmetrics: {mail_to: [a@example.org]}\n",
        ("storage", "monitor"), "port 465 alone",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FINDINGS)
def test_what_check_finds(tmp_path: Path, case: str) -> None:
    settings, monitor, words = FINDINGS[case]
    found = [one for one in findings(make(tmp_path / "site", settings, monitor)) if words in one.message]
    assert len(found) == 1
    assert found[0].hint


@pytest.mark.parametrize("address", ["ftp://example.org/x", "example.org", "https://", "https://a b", "https://{{x}}"])
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.webhook"):
        make(tmp_path / "site", f"metrics: {{webhook: {json.dumps(address)}}}\n")


def rendered(name: str, **more: Any) -> str:
    """A template of the role monitoring, on a new site but for what is given."""
    values = given("monitoring", "monitor")
    values |= yaml.safe_load((ROLE / "vars/main.yml").read_text()) | {"_monitoring_mailed": False}
    return role_variables.rendered("monitoring", name, values | more)


MAILED: Mapping[str, Any] = {
    "_monitoring_mailed": True, "monitoring_mail_to": ["a@example.org", "b@example.org"],
    "monitoring_mail": {"smarthost": "m:587", "starttls": True, "user": "gpu", "sender": "gpu@example.org"},
    "monitoring_webhook": "https://example.org/a'b\"c", "monitoring_heartbeat": "https://example.org/beat",
}  # fmt: skip


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("codename", ["trixie", "jammy"])
def test_prometheus_takes_its_settings(tmp_path: Path, codename: str) -> None:
    targets = [
        {"name": "nas1", "address": "10.0.0.10", "kind": "storage"},
        {"name": "gpu1", "address": "fd00::1", "kind": "gpu"},
    ]
    (tmp_path / "rules").mkdir()
    for path in (ROLE / "files/rules").glob("*.yml"):
        (tmp_path / "rules" / path.name).write_text(path.read_text())
    (tmp_path / "targets").mkdir()
    for kind, port in (("node", 9100), ("ping", None)):
        text = rendered("targets.json.j2", monitoring_targets=targets, __port=port)
        (tmp_path / f"targets/{kind}.json").write_text(text)
    for name in ("authority.pem", "prometheus.pem", "key"):
        (tmp_path / name).touch()
    text = rendered(
        "prometheus.yml.j2", _monitoring_directory=str(tmp_path), monitoring_cluster='a "name": #1',
        _monitoring_credentials={"prometheus": str(tmp_path)}, ansible_facts={"gpuadmin": {"codename": codename}},
    )  # fmt: skip
    (tmp_path / "prometheus.yml").write_text(text)
    done = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    node, ping = (json.loads((tmp_path / f"targets/{kind}.json").read_text()) for kind in ("node", "ping"))
    assert [one["targets"] for one in node] == [["10.0.0.10:9100"], ["[fd00::1]:9100"]]
    assert [one["targets"] for one in ping] == [["10.0.0.10"], ["fd00::1"]]
    assert ping[1]["labels"] == {"instance": "gpu1", "kind": "gpu"}
    settings = yaml.safe_load(text)
    job = settings["scrape_configs"][0]
    assert job["honor_labels"] is False
    # Prometheus 2.31 of Ubuntu 22.04 does not start where it reads this; exporters accept nothing older in any case
    assert job["tls_config"].get("min_version") == (None if codename == "jammy" else "TLS13")
    assert settings["global"]["external_labels"]["cluster"] == 'a "name": #1'


@pytest.mark.needs("amtool")
@pytest.mark.parametrize("given", [{}, MAILED], ids=["nobody is told", "mail, webhook, heartbeat"])
def test_alertmanager_takes_its_settings(tmp_path: Path, given: Mapping[str, Any]) -> None:
    (tmp_path / "mail.tmpl").write_text((ROLE / "files/mail.tmpl").read_text())
    path = tmp_path / "alertmanager.yml"
    path.write_text(rendered("alertmanager.yml.j2", _monitoring_directory=str(tmp_path), **given))
    done = subprocess.run(["amtool", "check-config", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 templates" in done.stdout
    route = subprocess.run(
        ["amtool", "config", "routes", "test", f"--config.file={path}", "alertname=Heartbeat"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert route.stdout.strip() == "heartbeat"
    if given:
        (admins, heartbeat) = yaml.safe_load(path.read_text())["receivers"]
        assert [one["to"] for one in admins["email_configs"]] == ["a@example.org", "b@example.org"]
        assert admins["webhook_configs"][0]["url"] == "https://example.org/a'b\"c"
        assert heartbeat["webhook_configs"][0]["url"] == "https://example.org/beat"


def test_secrets_are_for_root_alone_and_in_no_diff() -> None:
    for role in ("monitoring", "metrics_tls"):
        tasks = yaml.safe_load((ROOT / f"roles/{role}/tasks/converge.yml").read_text())
        files = next(task["gpuadmin.node.files"]["files"] for task in tasks if "gpuadmin.node.files" in task)
        secret = [
            one
            for one in files
            if any(word in str(one["content"]) for word in ("_key ", "password", "alertmanager", "ipmi"))
        ]
        assert secret
        for one in secret:
            if "service.j2" in one["content"]:
                continue
            assert (one["mode"], one["show_diff"]) == ("0600", False), one["path"]


@pytest.mark.parametrize("name", ["prometheus", "alertmanager", "blackbox", "ipmi"])
def test_nothing_listens_on_the_network(name: str) -> None:
    text = rendered(f"{name}.service.j2")
    assert "--web.listen-address=127.0.0.1:" in text
    assert text.count("ExecStart=") == 2, "the distribution's own is taken back"


def test_what_peoples_files_take_is_read_on_a_host_by_the_exporter_alone() -> None:
    """The page shows it to its person and to admins: nobody else is to find it in the exporter's file on a node."""
    lines = (ROOT / "roles/node_metrics/templates/gpuadmin-disk-usage.service.j2").read_text().splitlines()
    assert {"Group={{ _node_metrics_user }}", "RuntimeDirectoryMode=0750"} <= set(lines)


def test_an_exporter_answers_to_prometheus_alone() -> None:
    text = (ROOT / "roles/metrics_tls/templates/web.yml.j2").read_text()
    settings = yaml.safe_load(text.replace("{{", "").replace("}}", ""))["tls_server_config"]
    assert settings["client_auth_type"] == "RequireAndVerifyClientCert"
    assert settings["client_ca_file"].endswith("authority.pem")
    assert settings["min_version"] == "TLS13"


def test_what_ran_already_follows_whatever_packages_were_missing() -> None:
    """An installation that failed at the last package had started Prometheus: with the settings of then, not of now."""
    changed = ["/etc/gpuadmin/monitoring/prometheus.yml", "/etc/systemd/system/prometheus.service.d/gpuadmin.conf"]
    environment = NativeEnvironment()
    environment.filters["intersect"] = lambda ours, theirs: [one for one in ours if one in theirs]
    environment.tests["subset"] = lambda ours, theirs: set(ours) <= set(theirs)

    def called(
        handler: Mapping[str, Any], paths: list[str], active: list[str], wanted: Sequence[str] = ("prometheus.service",)
    ) -> bool:
        facts = {"gpuadmin": {"packages": ["prometheus"], "active_units": active}}
        known = {
            "ansible_facts": facts, "ansible_check_mode": False, "__monitoring_files": {"paths": paths},
            "_monitoring_packages": ["prometheus", "prometheus-alertmanager"], "_monitoring_units": wanted,
            "_monitoring_restart": {"prometheus": changed[1:]}, "item": {"key": "prometheus", "value": changed[1:]},
        }  # fmt: skip
        return all(environment.compile_expression(one)(**known) for one in handler["when"])

    restart, reload, _ = yaml.safe_load((ROLE / "handlers/main.yml").read_text())
    running = ["prometheus.service"]
    assert (called(restart, changed, running), called(reload, changed, running)) == (True, False)
    assert (called(restart, changed[:1], running), called(reload, changed[:1], running)) == (False, True)
    assert (called(restart, changed, []), called(reload, changed[:1], [])) == (False, False), "it has just started"
    assert not called(restart, changed, running, []), "the site wants it no more, and it has just been stopped"


@pytest.mark.parametrize(
    ("sensors", "enabled", "active", "stopped"),
    [([], IPMI, IPMI, True), ([], [], IPMI, True), ([], IPMI, [], True), ([], [], [], False), ([1], IPMI, IPMI, False)],
    ids=["runs", "cut off before it was stopped", "waits for a boot", "never was", "is wanted"],
)
def test_who_asks_bmcs_no_more_is_stopped(
    sensors: list[object], enabled: list[str], active: list[str], stopped: bool
) -> None:
    """Its process has the BMCs' passwords."""
    tasks = yaml.safe_load((ROLE / "tasks/converge.yml").read_text())
    (task,) = [one for one in tasks if one["name"] == "Ask BMCs no more"]
    units = {"gpuadmin": {"enabled_units": enabled, "active_units": active}}
    known = {"monitoring_sensors": sensors, "ansible_facts": units}
    assert all(NativeEnvironment().compile_expression(one)(**known) for one in task["when"]) is stopped
