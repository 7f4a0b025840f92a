"""gpuadmin logs, from its command line to what the monitor host is asked and what people and programs see."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from gpuadmin.actions import logs
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli
from tests.support.fake_ansible import ansible as bare
from tests.support.measured_site import ansible, inventory
from tests.support.role_variables import given, rendered

__all__ = ["ansible", "bare"]
LINE = "node1 2026-11-29T06:06:20+09:00 sshd[7]: Accepted publickey for minji"
GONE = "nothing is kept of node2; gpuadmin provision lets it send what it logs"


def answer(ansible: Ansible, output: str = "", errors: str = "") -> None:
    report = {"status": 0, "output": output, "errors": errors}
    ansible.answer = RunResult({"storage1": HostResult("ok", reports={"command": report})})


def test_the_monitor_host_is_asked(ansible: Ansible, cli: Cli) -> None:
    answer(ansible, f"{LINE}\n")
    code, out, err = cli("logs", "node1", "--since", "-2h")
    assert (code, out) == (0, f"{LINE}\n"), err
    (asked,) = ansible.asked
    assert (asked.playbook, asked.limit, asked.check) == ("run", "storage1", False)
    line = asked.variables["command_line"]
    assert "--directory=/var/log/gpuadmin-journals/node1 --lines=200 --since=-2h" in line
    assert "node2" not in line
    assert cli("logs", "nowhere")[0] == 2


def test_without_a_name_it_is_all_hosts_and_what_is_missing_is_said(ansible: Ansible, cli: Cli) -> None:
    answer(ansible, f"{LINE}\n", f"{GONE}\n")
    code, out, err = cli("logs")
    assert (code, out) == (3, f"{LINE}\n")
    assert GONE in err
    line = ansible.asked[0].variables["command_line"]
    assert all(f"/{name} " in line for name in ("node1", "node2", "storage1"))


@pytest.mark.holds("what hosts logged is in no record, which is kept longer")
def test_lines_are_in_the_document_and_in_no_record(ansible: Ansible, cli: Cli) -> None:
    answer(ansible, f"{LINE}\n")
    code, out, err = cli("logs", "--json")
    assert code == 0, err
    assert json.loads(out)["result"] == {"output": [LINE], "errors": []}
    assert ansible.site is not None
    written = [path.read_text() for path in (ansible.site / "runs").rglob("*") if path.is_file()]
    assert written
    assert not any("Accepted publickey" in text for text in written)


def test_a_monitor_host_that_does_not_answer(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({"storage1": HostResult("unreachable", message="does not answer (timed out)")})
    code, _, err = cli("logs")
    assert code == 4
    assert "storage1 (does not answer (timed out))" in err


@pytest.mark.parametrize("section", ["journals", "dashboard"])
def test_without_a_monitor_host_or_switched_off(ansible: Ansible, cli: Cli, section: str) -> None:
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nmetrics: {{{section}: {{enabled: false}}}}\n")
    code, _, err = cli("logs")
    assert code == 2
    assert f"metrics.{section}.enabled" in err
    (inventory(ansible) / "monitor.yml").unlink()
    code, _, err = cli("logs")
    assert code == 2
    assert "no monitor host" in err
    assert ansible.asked == []


#: Options, and what journalctl is called with; the last word is where its output goes.
LINES = [
    ({}, "+0900", "UTC-09:00", ["--lines=5"], "cat"),
    ({"unit": "slurmd", "since": "-2h", "until": None}, "-0330", "UTC+03:30",
     ["--lines=5", "--unit=slurmd", "--since=-2h"], "cat"),
    ({"grep": "a b|$(x)'"}, "+0000", "UTC-00:00", ["--grep=a b|$(x)'"], "tail -n 5"),
]  # fmt: skip


@pytest.mark.holds("a host's lines have its name")
@pytest.mark.parametrize(("words", "zone", "east", "expected", "last"), LINES)
def test_the_line_for_the_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: dict[str, str | None], zone: str, east: str,
    expected: list[str], last: str,
) -> None:  # fmt: skip
    """Run by a shell, with a journalctl that says how it was called, and a line that tries to be another host's."""
    (tmp_path / "node1").mkdir()
    program = tmp_path / "bin/journalctl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$TZ" "$@" "node2 forged"\nhead -c 9000 /dev/zero | tr "\\0" x\n')
    program.chmod(0o755)
    monkeypatch.setattr(logs, "DIRECTORY", str(tmp_path))
    line = logs.make_line(["node1", "node2"], 5, words, zone)
    path = f"{program.parent}:{os.environ['PATH']}"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True, env={"PATH": path})
    called = [east, "--quiet", "--no-hostname", "--output=short-iso", f"--directory={tmp_path}/node1", *expected]
    shown = [f"node1 {word}" for word in (*called, "node2 forged", "x" * logs.LONGEST)]
    assert done.stdout.splitlines() == (shown if last == "cat" else shown[-5:])
    assert done.stderr == f"{GONE}\n"


OFF = {"metrics": {"journals": {"enabled": False}}}
PLACES = {"_metrics_tls_own": "/own", "_metrics_tls_directory": "/etc/x"}


def test_hosts_send_to_the_monitor_host_with_a_certificate_of_their_own() -> None:
    on = given("metrics_tls", "gpu", "monitor", gpuadmin_address="fd00::1")
    assert on["metrics_tls_journals"] == "https://[fd00::1]:19532"
    assert given("metrics_tls", "gpu")["metrics_tls_journals"] == "", "without a monitor host nowhere"
    off = given("metrics_tls", "gpu", "monitor", site=OFF)
    for name in ("gpuadmin-journal-upload.service.j2", "gpuadmin-journal-sudo.service.j2"):
        assert "ConditionPathExists=/off\n" in rendered("metrics_tls", name, {**off, **PLACES})
        assert "/off" not in rendered("metrics_tls", name, {**on, **PLACES})
    unit = rendered("metrics_tls", "gpuadmin-journal-upload.service.j2", {**on, **PLACES})
    assert " --system " in unit, "people's own journals are not sent"
    assert "LoadCredential=key:/own/sender.key\n" in unit


def test_an_alert_leads_to_its_lines() -> None:
    text = (Path(__file__).resolve().parents[3] / "roles/monitoring/files/mail.tmpl").read_text()
    assert "gpuadmin logs {{ . }} --since @" in text
