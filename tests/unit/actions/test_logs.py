"""gpuadmin logs, from its command line to what the monitor host is asked and what people and programs see."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions import logs
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli
from tests.support.fake_ansible import ansible as bare
from tests.support.measured_site import ansible, inventory
from tests.support.role_variables import given, rendered

__all__ = ["ansible", "bare"]
LINE = "2026-11-29 06:06:20 node1 sshd[7]: Accepted publickey for minji"


def answer(ansible: Ansible, status: str = "ok", message: str | None = None, **report: Any) -> None:
    reports = {"journals": {"lines": [], "missing": [], **report}} if status == "ok" else {}
    ansible.answer = RunResult({"storage1": HostResult(status, message=message, reports=reports)})


def test_the_monitor_host_is_asked_for_all_hosts(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "own_zone", lambda: "UTC-09:00")
    answer(ansible, lines=[LINE], missing=["node2"])
    code, out, err = cli("logs")
    assert (code, out) == (0, f"{LINE}\n")
    assert "Nothing is kept of node2." in err
    (asked,) = ansible.asked
    assert (asked.playbook, asked.limit, asked.check) == ("logs", "storage1", True)
    order = asked.variables["gpuadmin_logs"]
    assert order == {"names": ["node1", "node2", "storage1"], "lines": 200, "options": [], "zone": "UTC-09:00"}


def test_hosts_and_words_are_passed_on(ansible: Ansible, cli: Cli) -> None:
    answer(ansible)
    words = ("--unit", "slurmd", "--since", "-2h", "--until", "07:00", "--grep", "a b|$(x)", "--lines", "5")
    code, _, err = cli("logs", "node2", *words)
    assert code == 0, err
    order = ansible.asked[0].variables["gpuadmin_logs"]
    assert order["names"] == ["node2"]
    assert order["options"] == ["--unit=slurmd", "--since=-2h", "--until=07:00", "--grep=a b|$(x)"]
    assert order["lines"] == 5
    assert cli("logs", "nowhere")[0] == 2


@pytest.mark.holds("what hosts logged is in no record, which is kept longer")
def test_lines_are_in_the_document_and_in_no_record(ansible: Ansible, cli: Cli) -> None:
    answer(ansible, lines=[LINE])
    code, out, err = cli("logs", "--json")
    assert code == 0, err
    assert json.loads(out)["result"] == {"lines": [LINE], "missing": []}
    assert ansible.site is not None
    written = [path.read_text() for path in (ansible.site / "runs").rglob("*") if path.is_file()]
    assert written
    assert not any("Accepted publickey" in text for text in written)


#: What the monitor host answers, and what the verb then ends with and says.
BAD = [
    ("unreachable", "does not answer (timed out)", 4, "storage1 (does not answer (timed out))"),
    ("failed", "the lines of node1 cannot be read: Failed to parse timestamp: x", 3, "Failed to parse timestamp: x"),
]


@pytest.mark.parametrize(("status", "message", "code", "words"), BAD)
def test_a_monitor_host_that_does_not_say(
    ansible: Ansible, cli: Cli, status: str, message: str, code: int, words: str
) -> None:
    answer(ansible, status, message)
    found, _, err = cli("logs")
    assert found == code
    assert words in err


def test_without_a_monitor_host_or_switched_off(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nmetrics: {{journals: {{enabled: false}}}}\n")
    code, _, err = cli("logs")
    assert code == 2
    assert "metrics.journals.enabled is false" in err
    (inventory(ansible) / "monitor.yml").unlink()
    code, _, err = cli("logs")
    assert code == 2
    assert "no monitor host" in err
    assert ansible.asked == []


@pytest.mark.parametrize(
    ("zone", "expected"), [("Asia/Seoul", "UTC-09:00"), ("UTC", "UTC-00:00"), ("NST3:30", "UTC+03:30")]
)
def test_the_admins_zone(monkeypatch: pytest.MonkeyPatch, zone: str, expected: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    found = logs.own_zone()
    monkeypatch.undo()
    time.tzset()
    assert found == expected


OFF = {"metrics": {"journals": {"enabled": False}}}


def test_hosts_send_to_the_monitor_host_with_their_own_certificate() -> None:
    on = given("metrics_tls", "gpu", "monitor", gpuadmin_address="fd00::1")
    assert on["metrics_tls_journals"] == "https://[fd00::1]:19532"
    assert given("metrics_tls", "gpu")["metrics_tls_journals"] == "", "without a monitor host nowhere"
    off = given("metrics_tls", "gpu", "monitor", site=OFF)
    more = {"_metrics_tls_own": "/own", "_metrics_tls_directory": "/etc/x"}
    for name in ("gpuadmin-journal-upload.service.j2", "gpuadmin-journal-sudo.service.j2"):
        assert "ConditionPathExists=/off\n" in rendered("metrics_tls", name, {**off, **more})
        assert "/off" not in rendered("metrics_tls", name, {**on, **more})
    unit = rendered("metrics_tls", "gpuadmin-journal-upload.service.j2", {**on, **more})
    assert " --system " in unit, "people's own journals are not sent"
    assert "LoadCredential=key:/own/exporter.key\n" in unit


def test_what_keeps_them_deletes_nothing_itself() -> None:
    values = {**given("monitoring", "monitor"), "_monitoring_directory": "/etc/m"}
    unit = rendered("monitoring", "gpuadmin-journals.service.j2", values)
    assert "\nSystemCallFilter=~unlink unlinkat\n" in unit
    assert "/off" not in unit
    off = {**given("monitoring", "monitor", site=OFF), "_monitoring_directory": "/etc/m"}
    assert "ConditionPathExists=/off\n" in rendered("monitoring", "gpuadmin-journals.service.j2", off)
    assert " journals 14 512000000\n" in rendered("monitoring", "gpuadmin-journals-sweep.service.j2", values)


def test_an_alert_leads_to_its_lines() -> None:
    text = (Path(__file__).resolve().parents[3] / "roles/monitoring/files/mail.tmpl").read_text()
    assert "gpuadmin logs {{ . }} --since @" in text
