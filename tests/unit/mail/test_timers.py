"""Verbs that mail are one machine's: with two ledgers people are mailed twice."""

import subprocess
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from gpuadmin import who
from gpuadmin.actions.shared.mails import Post
from gpuadmin.common.mail.ledger import State
from gpuadmin.common.mail.letter import Letter
from gpuadmin.config.load import load_site
from gpuadmin.config.schema.timers import IdleShutdown
from gpuadmin.errors import RefusedError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.options import MailOptions, Options
from gpuadmin.session import opened
from tests.support import role_variables
from tests.support.role_variables import ROLES, rendered
from tests.support.sites import make_site


@pytest.mark.holds("nobody is mailed from two machines")
def test_a_verb_that_mails_is_the_monitor_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = {"host": "h", "sender": "a@example.org"}
    settings = {"timers": {"verbs": ["notify"]}, "mail": mail, "runs": {"shared": False}}
    site = make_site(tmp_path, settings=settings)
    assert load_site(str(site)).settings.timers is not None
    with opened("notify", Options(site=str(site))) as session, pytest.raises(RefusedError, match="known there alone"):
        Post.of(session, MailOptions())
    with opened("notify", Options(site=str(site), check=True)) as session:
        assert Post.of(session, MailOptions())
    with opened("announce", Options(site=str(site))) as session:
        assert Post.of(session, MailOptions())
    monkeypatch.setattr(who, "who", lambda: "gpuadmin-timers@monitor1")
    with opened("notify", Options(site=str(site))) as session:
        assert Post.of(session, MailOptions())


def test_the_monitor_hosts_ledger_is_not_in_the_way_of_what_admins_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its clone would be as it is for ever: git pulls over no file of its own, and the unit goes on."""

    def git(directory: Path, *words: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", "-C", str(directory), *name, *words], check=True, capture_output=True, text=True
        ).stdout

    def mail(site: Path, key: str) -> None:
        ledger, letter = Ledger.of(site), Letter("term", "minji@example.org", (key,), ("minji",), key)
        assert ledger.open_keys([key], "minji@example.org") == (key,)
        ledger.finish(letter, ledger.begin(letter, "x"), State.SENT)

    site, clone = make_site(tmp_path / "site"), tmp_path / "clone"
    (site / ".gitignore").write_text("/runs/\n")
    git(site, "init", "--quiet")
    for key in ("first", "second"):
        mail(site, key)
        git(site, "add", ".")
        git(site, "commit", "--quiet", "--message", key)
        if key == "first":
            git(tmp_path, "clone", "--quiet", str(site), str(clone))
            monkeypatch.setattr(who, "who", lambda: "gpuadmin-timers@monitor1")
            mail(clone, "reminder")
            monkeypatch.undo()
    git(clone, "pull", "--ff-only", "--quiet")
    assert git(clone, "status", "--porcelain") == ""
    monkeypatch.setattr(who, "who", lambda: "gpuadmin-timers@monitor1")
    assert Ledger.of(clone).open_keys(["first", "second", "reminder"], "minji@example.org") == (), (
        "nobody is mailed twice"
    )


@pytest.mark.needs("systemd-analyze")
def test_nodes_go_off_when_the_site_says(tmp_path: Path) -> None:
    """At that time alone: neither after a boot, nor later for a time that was missed."""
    order = {"when": "Fri 20:00", "nodes": 4, "hosts": "gpu:!gpu1", "place": "room 301"}
    values = role_variables.given(
        "timers", "monitor", site={"timers": {"verbs": ["power", "shutdown"], "shutdown": order}}
    )
    values |= yaml.safe_load((ROLES / "timers/vars/main.yml").read_text())
    for name, own in (("_timers_commands", "command"), ("_timers_when", "when")):
        values[name] = {**values[name], "shutdown": values["timers_shutdown"][own]}
    unit = tmp_path / "gpuadmin-timer-shutdown.service"
    unit.write_text(rendered("timers", "gpuadmin-timer.service.j2", {**values, "__verb": "shutdown"}))
    line = next(one for one in unit.read_text().splitlines() if one.startswith("ExecStart="))
    assert ' shutdown gpu:!gpu1 --idle 4 --place "room 301" --yes --site ' in line
    assert "RestartPreventExitStatus=2 6 3 4" in unit.read_text(), "each try would switch as many off again"
    timer = rendered("timers", "gpuadmin-timer.timer.j2", {**values, "__verb": "shutdown"})
    assert {"OnCalendar=Fri 20:00", "Persistent=no"} <= {*timer.splitlines()}
    assert "OnBootSec" not in timer
    often = rendered("timers", "gpuadmin-timer.service.j2", {**values, "__verb": "power"})
    assert " power on --queue --yes --site " in often
    assert "Restart=" not in often, "it comes again in ten minutes"
    assert "TimeoutStartSec=2h" in often
    daily = rendered("timers", "gpuadmin-timer.service.j2", {**values, "__verb": "notify"})
    assert "RestartPreventExitStatus=2 6\n" in daily, "a mail server that was away is asked again"


@pytest.mark.parametrize("when", ["", "x\ny", "Fri; rm", "$(x)", "%h"])
def test_a_time_that_is_none(when: str) -> None:
    with pytest.raises(ValidationError, match="when"):
        IdleShutdown.model_validate({"when": when, "nodes": 1})


@pytest.mark.parametrize("verb", ["idle", "windows"])
def test_a_repository_that_hangs_holds_up_no_timer(verb: str) -> None:
    """A window's unit has no end of its own: git would keep all later windows from their time."""
    values = yaml.safe_load((ROLES / "timers/vars/main.yml").read_text())
    unit = rendered("timers", "gpuadmin-timer.service.j2", {**values, "__verb": verb, "timers_program": "gpuadmin"})
    (before,) = [line for line in unit.splitlines() if line.startswith("ExecStartPre=")]
    assert before.startswith("ExecStartPre=-/usr/bin/timeout 120 /usr/bin/git -C ")
