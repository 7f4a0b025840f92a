"""The daily timer: units that systemd understands, put where it looks."""

import os
import subprocess
from pathlib import Path

import pytest

from gpuadmin.mail.timer import notify_timer, quoted
from tests.support.fake_ansible import Ansible, Cli
from tests.support.mails import prepare
from tests.support.verbs import fail, succeed

SYSTEMCTL = """#!/bin/sh
printf '%s\\n' "$*" >>"$XDG_CONFIG_HOME/calls"
[ ! -e "$XDG_CONFIG_HOME/fail" ] || { echo 'Failed to connect to bus' >&2; exit 1; }
"""


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl that notes what it is called with. Returns the person's configuration directory."""
    program, configuration = tmp_path / "bin/systemctl", tmp_path / "config"
    program.parent.mkdir()
    configuration.mkdir()
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(configuration))
    return configuration


def units(configuration: Path) -> list[Path]:
    return sorted((configuration / "systemd/user").glob("*"))


def test_installing_and_removing(ansible: Ansible, cli: Cli, systemctl: Path) -> None:
    site = prepare(ansible, None)
    code, out, err = cli("notify", "--install-timer", "--check")
    assert code == 0, err
    assert "Persistent=true" in out
    assert units(systemctl) == []
    for _ in range(2):
        succeed(cli, "notify", "--install-timer")
    service, timer = units(systemctl)
    assert f'"notify" "--yes" "--site" "{site}"' in service.read_text()
    assert timer.name == f"{service.stem}.timer"
    assert (systemctl / "calls").read_text().splitlines()[:2] == [
        "--user daemon-reload",
        f"--user enable --now {timer.name}",
    ]
    assert cli("notify", "--remove-timer")[1] == f"{service.stem}: removed\n"
    assert units(systemctl) == []
    assert cli("notify", "--remove-timer")[1] == f"{service.stem}: is not installed\n"
    assert not (site / "runs").joinpath("x").exists()


def test_what_a_timer_cannot_have(ansible: Ansible, cli: Cli, systemctl: Path) -> None:
    assert "mail: is missing" in fail(cli, 2, "notify", "--install-timer")
    prepare(ansible, None, user="gpu", host="localhost")
    assert "mail.password_file: is missing" in fail(cli, 2, "notify", "--install-timer")
    assert units(systemctl) == []
    assert cli("notify", "--install-timer", "--remove-timer")[0] == 2


def test_without_a_user_manager(ansible: Ansible, cli: Cli, systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(ansible, None)
    (systemctl / "fail").touch()
    err = fail(cli, 1, "notify", "--install-timer")
    assert "Failed to connect to bus" in err
    assert "cron" in err
    assert [path for path in units(systemctl) if not path.is_dir()] == [], "what does not run does not stay"
    (systemctl / "fail").unlink()
    assert cli("notify", "--install-timer")[0] == 0
    before = {path: path.read_text() for path in units(systemctl) if path.is_file()}
    assert len(before) == 2
    (systemctl / "fail").touch()
    assert cli("notify", "--install-timer")[0] == 1
    assert {path: path.read_text() for path in before} == before, "what was there before stays"
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "no systemctl" in fail(cli, 1, "notify", "--install-timer")


def test_each_site_has_its_own() -> None:
    first, second = notify_timer(Path("/home/a/cluster")), notify_timer(Path("/home/b/cluster"))
    assert first.name.startswith("gpuadmin-notify-cluster-")
    assert first.name != second.name
    assert notify_timer(Path("/사이트")).name.startswith("gpuadmin-notify-site-")


def test_any_path_stands_in_a_unit_as_it_is() -> None:
    assert quoted('/a b/100%/"x"/$HOME/\\') == '"/a b/100%%/\\"x\\"/$$HOME/\\\\"'


@pytest.mark.needs("systemd-analyze")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    timer = notify_timer(tmp_path / "my site", python="/bin/true")
    for name, text in timer.files.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in timer.files]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True, check=False
    )
    assert not [line for line in done.stderr.splitlines() if timer.name in line], done.stderr
