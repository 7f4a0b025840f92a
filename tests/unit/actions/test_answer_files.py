"""Answer files: each installer takes its own, and all end in what the role `bootstrap` makes."""

import json
import os
import pwd
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuadmin.actions.shared.answer_files import FILES, make_command
from tests.support.sites import make_site
from tests.support.verbs import fail, succeed

Cli = Callable[..., tuple[int, str, str]]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGY0mNRDSXyXVOc7Yhx1gHKkQyQ0Zp3mG2oWnJ1pV5bN"


@pytest.fixture
def written(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = make_site(tmp_path / "site", settings={"admin": {"user": "gpuadmin", "ssh_key": f"{tmp_path}/id"}})
    (tmp_path / "id.pub").write_text(f"{KEY} me, and 'nobody' else\n")
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    target = tmp_path / "answers"
    succeed(cli, "install", "--answers", str(target), "--check")
    assert not target.exists()
    assert "gpuadmin trust HOST; gpuadmin provision\n" in succeed(cli, "install", "--answers", str(target))
    return target


def read_command(text: str) -> str:
    """What an installer would give to a shell, of the line that has it in single quotes."""
    return shlex.split(text)[-1]


def test_what_installers_take(written: Path) -> None:
    """They ask which disk is written, and run the same at their end."""
    assert sorted(one.name for one in written.iterdir()) == ["cloud-config", "meta-data", "preseed.cfg", "user-data"]
    lines = (written / "preseed.cfg").read_text().splitlines()
    assert not [line for line in lines if line.startswith("d-i partman")]
    command = read_command(next(line for line in lines if "late_command" in line))
    autoinstall = yaml.safe_load((written / "user-data").read_text())["autoinstall"]
    assert autoinstall["interactive-sections"] == ["storage"]
    assert autoinstall["user-data"] == {"users": [{"name": "gpuadmin", "lock_passwd": False}]}
    (late,) = autoinstall["late-commands"]
    assert shlex.split(late) == ["curtin", "in-target", "--", "sh", "-c", command]
    cloud = yaml.safe_load((written / "cloud-config").read_text())
    assert [one.strip() for one in cloud["runcmd"]] == [command]
    for name in ("user-data", "cloud-config"):
        assert (written / name).read_text().startswith("#cloud-config\n")
    assert f"echo {KEY} >/var/home/gpuadmin/.ssh/authorized_keys" in command


def test_a_name_that_yaml_reads_as_something_else(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_site(tmp_path / "site", settings={"admin": {"user": "no", "ssh_key": f"{tmp_path}/id"}})
    (tmp_path / "id.pub").write_text(f"{KEY}\n")
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    succeed(cli, "install", "--answers", str(tmp_path / "answers"))
    found = yaml.safe_load((tmp_path / "answers/user-data").read_text())
    assert found["autoinstall"]["user-data"]["users"][0]["name"] == "no"


def test_into_a_directory_that_is_there_and_below_none(written: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    succeed(cli, "install", "--answers", str(tmp_path / "empty"))
    told = json.loads(succeed(cli, "install", "--answers", str(tmp_path / "new/below"), "--json"))
    assert told["result"]["files"] == [f"{tmp_path}/new/below/{name}" for name in FILES]
    assert {one.name for one in (tmp_path / "empty").iterdir()} == {one.name for one in written.iterdir()}


@pytest.mark.needs("debconf-set-selections")
def test_debconf_takes_the_answers(written: Path) -> None:
    done = subprocess.run(["debconf-set-selections", "-c", written / "preseed.cfg"], capture_output=True, check=True)
    assert done.stderr == b""


@pytest.mark.holds("answer files replace no file")
def test_nothing_is_replaced(written: Path, cli: Cli) -> None:
    (written / "preseed.cfg").write_text("mine")
    assert "is there already" in fail(cli, 5, "install", "--answers", str(written))
    assert (written / "preseed.cfg").read_text() == "mine"
    (written / "preseed.cfg").unlink()
    for name in ("user-data", "cloud-config", "meta-data"):
        (written / name).unlink()
    (written / "preseed.cfg").symlink_to("/a/disk/that/is/away/preseed.cfg")
    assert "is there already" in fail(cli, 5, "install", "--answers", str(written))
    assert (written / "preseed.cfg").is_symlink()


@pytest.mark.parametrize("more", [(), ("--check",)])
def test_what_is_no_directory(more: tuple[str, ...], written: Path, cli: Cli, tmp_path: Path) -> None:
    """A check refuses what the run would."""
    (tmp_path / "away").symlink_to("/a/disk/that/is/away")
    (tmp_path / "id.pub").chmod(0o755)
    for place in ("id.pub", "id.pub/below", "away", "away/below"):
        error = fail(cli, 2, "install", "--answers", str(tmp_path / place), *more)
        assert f"{tmp_path / place.split('/')[0]} is not a directory that you can write to" in error


@pytest.mark.root
def test_the_end_is_what_bootstrap_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, run; where it would change this machine, its words point into a directory."""
    user = pwd.getpwuid(0).pw_name
    command = make_command(user, KEY)
    for place in ("/var/home", "/etc/sudoers.d"):
        command = command.replace(place, f"{tmp_path}{place}")
    (tmp_path / "etc/sudoers.d").mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "useradd").write_text(f'#!/bin/sh\nmkdir {tmp_path}/var/home/{user}\necho "$@" >{tmp_path}/words\n')
    (programs / "useradd").chmod(0o755)
    subprocess.run(["sh", "-c", command], check=True, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
    keys = tmp_path / "var/home" / user / ".ssh/authorized_keys"
    assert keys.read_text() == f"{KEY}\n"
    assert (keys.stat().st_mode & 0o777, keys.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    sudoers = tmp_path / f"etc/sudoers.d/gpuadmin-{user}"
    assert sudoers.read_text() == f"{user} ALL=(ALL:ALL) NOPASSWD: ALL\n"
    assert sudoers.stat().st_mode & 0o777 == 0o440
    assert "--password * --uid 900" in (tmp_path / "words").read_text()
