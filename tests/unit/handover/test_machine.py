"""What of a site's life sits on one machine: its repository, timers, ssh's settings, variables."""

import subprocess
from pathlib import Path

import pytest

from gpuadmin.config.inventory import Host
from gpuadmin.handover import machine
from gpuadmin.handover.items import IN_ORDER, MISSING, UNKNOWN, YOURS
from gpuadmin.handover.machine import aliases, repository, timers, variables


def git(where: Path, *words: str) -> None:
    name = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(where), *name, *words], check=True, capture_output=True)


def states(site: Path) -> list[tuple[str, str]]:
    return [(one.state, one.words.partition(";")[0].partition(":")[0]) for one in repository(site)]


def test_a_repository_from_nothing_to_pushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    site, remote = tmp_path / "site", tmp_path / "remote.git"
    site.mkdir()
    assert states(site) == [(MISSING, "is not in a git repository that you can read")]
    git(site, "init")
    (site / "gpuadmin.yml").write_text("name: x\n")
    assert states(site) == [(YOURS, "1 change is not committed"), (MISSING, "has no remote")]
    git(site, "add", ".")
    git(site, "commit", "-m", "x")
    git(tmp_path, "init", "--bare", str(remote))
    git(site, "remote", "add", "origin", str(remote))
    assert states(site) == [(IN_ORDER, "all of it is committed"), (YOURS, "the branch has no upstream")]
    git(site, "push", "-u", "origin", "HEAD")
    assert states(site)[1] == (IN_ORDER, "all commits are pushed, as of the last fetch")
    git(site, "commit", "--allow-empty", "-m", "y")
    assert states(site)[1] == (YOURS, "1 commit is not pushed")


def test_a_repository_s_settings_run_nothing(tmp_path: Path) -> None:
    """Who may write to the site could have a program run as whoever looks."""
    git(tmp_path, "init")
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    spy.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(spy))
    states(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_without_git_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert states(tmp_path) == [(UNKNOWN, "this machine has no git")]
    assert [(one.state, one.words) for one in aliases([Host("gpu1", ())])] == [
        (UNKNOWN, "ssh does not say how it reaches gpu1")
    ]


def test_a_site_that_another_repository_ignores_is_kept_by_nobody(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("site\n")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/gpuadmin.yml").write_text("name: x\n")
    assert states(tmp_path / "site") == [(MISSING, "is in another repository, which ignores it")]


@pytest.mark.holds("a file of the site that git ignores is not committed")
def test_people_that_git_ignores_are_kept_by_nobody(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("users.yml\n")
    (tmp_path / "gpuadmin.yml").touch()
    (tmp_path / "users.yml").touch()
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "x")
    assert states(tmp_path)[0] == (MISSING, "git ignores users.yml")


@pytest.mark.parametrize(
    "address", ["kim:s3cret@git.example.org/site", "kim:kim@s3cret@git.example.org/site",
                "git.example.org/site?private_token=s3cret", "kim@git.example.org/site#s3cret"],
)  # fmt: skip
def test_a_token_in_the_remotes_address_is_not_shown(tmp_path: Path, address: str) -> None:
    git(tmp_path, "init")
    (tmp_path / "gpuadmin.yml").touch()
    git(tmp_path, "remote", "add", "origin", f"https://{address}")
    items = list(repository(tmp_path))
    assert "s3cret" not in str(items)
    assert [one.state for one in items if "password or a token" in one.words] == [YOURS]
    assert items[-1].where == "https://git.example.org/site"


def test_what_settles_it_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "x")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "x@example.org")
    site = tmp_path / "내 클러스터 a"
    site.mkdir()
    (site / "gpuadmin.yml").write_text("name: x\n")
    (item,) = repository(site)
    subprocess.run(["sh", "-c", f"{item.command} -m x"], check=True, capture_output=True)
    assert states(site) == [(IN_ORDER, "all of it is committed"), (MISSING, "has no remote")]


def test_a_directory_has_no_query(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "gpuadmin.yml").touch()
    git(tmp_path, "remote", "add", "origin", "/srv/git/site#1")
    items = list(repository(tmp_path))
    assert "password or a token" not in str(items)
    assert items[-1].where == "/srv/git/site#1"


def test_timers_that_call_gpuadmin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, system, cron = tmp_path / "own", tmp_path / "system", tmp_path / "crontab"
    own.mkdir()
    system.mkdir()
    (own / "gpuadmin-notify-x-1.service").write_text("ExecStart=python -m gpuadmin notify\n")
    (own / "gpuadmin-notify-x-1.timer").write_text("# gpuadmin\n")
    (own / "other.service").write_text("Description=gpuadmin\nExecStart=/bin/true\n")
    (system / "link.service").symlink_to("/dev/zero")
    (system / "long.service").write_text("ExecStart=/bin/sh -c \\\n  'gpuadmin status'\n")
    (system / "other.service.d").mkdir()
    (system / "other.service.d/own.conf").write_text("[Service]\nExecStart=gpuadmin status\n")
    cron.write_text("# gpuadmin\n0 9 * * * kim PASSWORD=s3cret gpuadmin status\n")
    monkeypatch.setattr(machine, "ask_program", lambda *command: None)
    items = list(timers(own, (str(system), str(cron), str(tmp_path / "none"))))
    assert [(one.state, Path(one.where).name) for one in items] == [
        (YOURS, "gpuadmin-notify-x-1.service"), (YOURS, "long.service"), (YOURS, "own.conf"), (YOURS, "crontab"),
    ]  # fmt: skip
    assert "s3cret" not in str(items)
    assert items[0].command.startswith(
        "systemctl --user disable --now gpuadmin-notify-x-1.timer; what it did the monitor"
    )
    assert [one.state for one in timers(tmp_path / "none", ())] == [IN_ORDER]
    agents = tmp_path / "Library/LaunchAgents"
    agents.mkdir(parents=True)
    (agents / "lab.notify.plist").write_text("<array><string>/opt/bin/gpuadmin</string><string>notify</string></array>")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(agents / "lab.notify.plist") in [one.where for one in timers(tmp_path / "none")]


def test_hosts_that_only_your_settings_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = "hostname {0}\nport 22\nidentityfile ~/.ssh/id_ed25519\n"

    def asked(*command: str) -> subprocess.CompletedProcess[str]:
        address, mine = command[-1], "-F" not in command
        text = plain.format("10.0.0.1" if mine and address == "gpu1" else address)
        text = text.replace("port 22", "port 2200") if mine and address == "gpu3" else text
        return subprocess.CompletedProcess(command, 255 if address == "odd" else 0, text, "")

    monkeypatch.setattr(machine, "ask_program", asked)
    hosts = [Host("gpu1", ()), Host("gpu2", ()), Host("gpu3", (), {"ansible_port": 22}), Host("odd", ())]
    assert [(one.state, one.words) for one in aliases(hosts)] == [
        (YOURS, "ssh takes hostname from your own settings for gpu1"),
        (UNKNOWN, "ssh does not say how it reaches odd"),
    ]
    assert [one.state for one in aliases(hosts[1:3])] == [IN_ORDER]


def test_variables_by_name_alone() -> None:
    (item,) = variables({"GPUADMIN_SMTP_PASSWORD": "s3cret", "ANSIBLE_CONFIG": "x", "HOME": "/", "GPUADMIN_SITE": "y"})
    assert item.state == YOURS
    assert "ANSIBLE_CONFIG, GPUADMIN_SMTP_PASSWORD are set" in item.words
    assert "s3cret" not in str(item)
    assert next(variables({})).state == IN_ORDER
