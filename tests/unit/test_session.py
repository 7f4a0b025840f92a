"""A session: passwords are asked for once, every run has a record and a log, and an interruption is 130 everywhere."""

import errno
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from gpuadmin.ansible.interrupt import handed_on
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.config.memory import recall
from gpuadmin.config.registry import RegistryFile
from gpuadmin.errors import ExitCode, RefusedError
from gpuadmin.lock import HANDED_ON, site_lock
from gpuadmin.options import Options
from gpuadmin.records import Record
from gpuadmin.results import HostResult, RunResult
from gpuadmin.session import opened
from tests.support.image_cluster import B, manifest, node
from tests.support.sites import UIDS, make_site
from tests.support.verbs import fail, succeed

Cli = Callable[..., tuple[int, str, str]]
HOSTS = ("storage1", "node1", "node2")


@dataclass
class Ansible:
    """Answers as a cluster with an image does. `cut`: the number of the run that is interrupted, from 0 on."""

    site: Path
    cut: int | None = None
    asked: list[Invocation] = field(default_factory=list)

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        self.asked.append(invocation)
        assert invocation.log is not None
        with invocation.log.open("a") as log:
            log.write(f"output of {invocation.playbook}\n")
        if self.cut == len(self.asked) - 1:
            return RunResult({"node1": HostResult("ok")}, interrupted=True)
        store = {"b": {"manifest": manifest("b", B, "a"), "text": "{}", "problem": None}}
        storage: dict[str, Any] = {"backups": [], "homes": {}, "processes": {}}
        old = {"roots": ["old"], "images": []}
        reports: dict[str, Any] = {
            "storage1": {"store": store, "uids": UIDS, "pruned": [], "facts": storage},
            "node1": {"node": node(rollback="z", prunable=old), "facts": {"processes": {}}},
            "node2": {"node": node(rollback="z", prunable=old), "facts": {"processes": {}}},
        }
        asked = HOSTS if invocation.limit is None else invocation.limit.split(",")
        return RunResult({name: HostResult("ok", reports=reports[name]) for name in asked})

    @property
    def records(self) -> list[dict[str, Any]]:
        """Each run's run.json and result.json as one, and its log."""
        found = []
        for directory in sorted(self.site.glob("runs/2*")):
            values = [json.loads((directory / name).read_text()) for name in ("run.json", "result.json")]
            found.append({**values[0], **values[1], "log": (directory / "log.txt").read_text()})
        return found


@pytest.fixture
def ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ansible:
    site = make_site(tmp_path / "site", "users:\n  - {name: minji, uid: 20000}\nretired: []\n")
    (site / "image_signing_key").write_text("a key")
    with (site / "gpuadmin.yml").open("a") as settings:
        settings.write("\nterm: {name: 2026-2, deadline: 2026-01-31}\n")
    fake = Ansible(site)
    monkeypatch.setattr("gpuadmin.ansible.runner.run", fake.run)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    return fake


#: Verbs that look at hosts before they do something, and what they do then.
LOOKING = {
    "push": ["push-image", "b", "--yes"],
    "rollback": ["rollback-image", "--yes"],
    "build": ["build-image", "c", "--yes"],
    "prune": ["prune-images", "--keep", "1", "--yes"],
    "add": ["add-user", "jiho", "--yes"],
    "reset": ["semester-reset", "--term", "2026-2", "--yes"],
}


@pytest.mark.parametrize("arguments", LOOKING.values(), ids=LOOKING.keys())
def test_an_interrupted_look_is_130_and_in_the_record(ansible: Ansible, cli: Cli, arguments: list[str]) -> None:
    ansible.cut = 0
    users = (ansible.site / "users.yml").read_text()
    code, out, err = cli(*arguments, "--json")
    assert code == ExitCode.INTERRUPTED, err
    assert json.loads(out)["status"] == "interrupted"
    assert len(ansible.asked) == 1, "nothing is done after it"
    assert (ansible.site / "users.yml").read_text() == users
    (record,) = ansible.records
    assert (record["verb"], record["status"], record["exit_code"]) == (
        arguments[0],
        "interrupted",
        ExitCode.INTERRUPTED,
    )
    assert "interrupted" in record["result"]["error"]
    assert f"output of {ansible.asked[0].playbook}" in record["log"]


@pytest.mark.parametrize("arguments", LOOKING.values(), ids=LOOKING.keys())
def test_passwords_are_asked_for_once(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    asked: list[str] = []

    def prompt(text: str, *, hide_input: bool, **_more: object) -> str:
        assert hide_input, "nobody beside the admin reads it"
        asked.append(text)
        return f"s3cret {len(asked)}"

    monkeypatch.setattr("click.prompt", prompt)
    cli(*arguments, "--ask-pass", "--ask-become-pass")
    assert asked == ["ssh password", "sudo password"]
    assert len(ansible.asked) > 1
    assert {(one.secrets.ssh, one.secrets.become) for one in ansible.asked} == {("s3cret 1", "s3cret 2")}
    assert "s3cret" not in "".join(path.read_text() for path in ansible.site.rglob("runs/*/*"))


def test_who_gives_no_sudo_password_gives_the_one_of_ssh(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or none, if there is none: an empty one would be tried."""
    monkeypatch.setattr("click.prompt", lambda _text, *, default, **_more: "s3cret" if default is None else default)
    for options, want in ((["--ask-pass", "--ask-become-pass"], "s3cret"), (["--ask-become-pass"], None)):
        ansible.asked.clear()
        assert cli("push-image", "b", "--yes", *options)[0] == 0
        assert {one.secrets.become for one in ansible.asked} == {want}


@pytest.mark.parametrize(
    ("steps", "reached"),
    [(["look"], "nothing"), (["look", "confirm"], "confirmed"), (["confirm", "send", "confirm", "look"], "sent")],
)
def test_how_far_a_run_came_is_in_its_record(ansible: Ansible, steps: list[str], reached: str) -> None:
    with opened("backup", Options(yes=True)) as session:
        for step in steps:
            if step == "confirm":
                session.confirm()
            else:
                session.run("backup", ["node1"], {}, check=step == "look")
        session.settle(0, {})
    assert [record["reached"] for record in ansible.records] == [reached]


@pytest.mark.parametrize("arguments", [["push-image", "b"], ["add-user", "yuna"]])
def test_a_check_asks_nothing_and_changes_nothing(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: pytest.fail("was asked"))
    users = (ansible.site / "users.yml").read_text()
    succeed(cli, *arguments, "--check")
    assert {one.check for one in ansible.asked} == {True}
    assert (ansible.site / "users.yml").read_text() == users


def test_a_look_and_the_work_are_one_record_with_one_log(ansible: Ansible, cli: Cli) -> None:
    out = succeed(cli, "push-image", "b", "--yes", "--json")
    (record,) = ansible.records
    assert json.loads(out)["run"] == record["id"]
    assert record["plan"]["title"] == "Move nodes to the image b"
    assert record["log"] == (
        "=== list-images (check)\noutput of list-images\n=== push-image\noutput of push-image\n"
    )  # fmt: skip


def test_a_run_on_no_host_is_no_run(ansible: Ansible) -> None:
    """To Ansible an empty limit means all hosts."""
    with opened("backup", Options(yes=True)) as session:
        assert session.run("backup", [], {}, check=False) == RunResult({})
        assert session.record is None
    assert ansible.asked == []


@pytest.mark.parametrize(
    ("answers", "reached"),
    [
        ([HostResult("failed", refused=True)], "nothing"),
        ([HostResult("failed")], "sent"),
        ([HostResult("ok"), HostResult("failed", refused=True)], "sent"),
        ([HostResult("failed", refused=True), HostResult("ok")], "sent"),
    ],
)
def test_a_run_that_every_host_refused_sent_nothing(
    ansible: Ansible, monkeypatch: pytest.MonkeyPatch, answers: list[HostResult], reached: str
) -> None:
    given = iter(answers)
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda *_one, **_more: RunResult({"storage1": next(given)}))
    with opened("backup", Options(yes=True)) as session:
        session.confirm()
        for _ in answers:
            session.run("backup", ["storage1"], {}, check=False)
        session.settle(3, {})
    directory = next(ansible.site.glob("runs/2*"))
    assert json.loads((directory / "result.json").read_text())["reached"] == reached


def test_a_run_is_on_the_hosts_that_were_named(ansible: Ansible) -> None:
    with opened("backup", Options(yes=True, limit="node1,node2")) as session:
        session.run("backup", ["node1", "storage1"], {}, check=False)
        session.run("backup", None, {}, check=False)
    assert [one.limit for one in ansible.asked] == ["node1,storage1", "node1,node2"]


def test_every_run_is_told_the_site_s_host_keys(ansible: Ansible, cli: Cli) -> None:
    succeed(cli, "push-image", "b", "--yes")
    assert {one.known_hosts for one in ansible.asked} == {ansible.site / "known_hosts"}


def test_who_says_no_after_a_look_leaves_a_record(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    assert cli("push-image", "b")[0] == ExitCode.REFUSED
    (record,) = ansible.records
    assert (record["status"], record["exit_code"]) == ("refused", ExitCode.REFUSED)
    assert [one.check for one in ansible.asked] == [True]


#: Verbs that ask before they do something; what they look at first is in check mode.
ASKING = {
    **{name: [word for word in given if word != "--yes"] for name, given in LOOKING.items()},
    "build by hand": ["build-image", "c", "--shell"],
    "backup": ["backup"],
    "clear": ["clear-leftovers"],
    "lock": ["lock-user", "minji"],
    "prepare": ["prepare-root"],
    "provision": ["provision"],
    "remove": ["remove-user", "minji", "--archive-home"],
    "restore": ["restore-home", "minji", "--in-place"],
    "sync": ["sync-users"],
    "verify": ["verify-backup"],
}


@pytest.mark.holds(
    "a phase of a reset asks before it does something",
    "an account verb asks before it does something",
    "backup asks before it does something",
    "build-image asks before it does something",
    "clear-leftovers asks before it does something",
    "prepare-root asks before it does something",
    "provision asks before it does something",
    "prune-images asks before it does something",
    "push-image asks before it does something",
    "restore-home asks before it does something",
    "rollback-image asks before it does something",
    "sync-users asks before it does something",
)
@pytest.mark.parametrize("arguments", ASKING.values(), ids=ASKING.keys())
def test_who_says_no_has_changed_nothing(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    before = {path.name: path.read_bytes() for path in ansible.site.iterdir() if path.is_file()}
    assert "not confirmed" in fail(cli, ExitCode.REFUSED, *arguments)
    changing = [
        one.playbook for one in ansible.asked if not one.check and one.variables.get("gpuadmin_phase") != "facts"
    ]
    assert changing == []
    assert {path.name: path.read_bytes() for path in ansible.site.iterdir() if path.is_file()} == before


def test_nobody_is_asked_where_it_is_not_known_what_would_happen(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: pytest.fail("was asked"))
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda *_given, **_more: RunResult({}, error="no such role"))
    assert "Error: no such role" in fail(cli, ExitCode.ERROR, "restore-home", "minji")


@pytest.mark.parametrize("code", [ExitCode.HOST_FAILED, ExitCode.HOST_UNREACHABLE])
def test_nobody_is_asked_for_what_no_host_can_do(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, code: ExitCode
) -> None:
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: pytest.fail("was asked"))
    bad = HostResult("failed" if code == ExitCode.HOST_FAILED else "unreachable", message="no such backup")
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda *_given, **_more: RunResult({"storage1": bad}))
    left, out, err = cli("restore-home", "minji")
    assert (left, out.count("no such backup"), err.count("Hint:")) == (code, 1, 1), (out, err)
    assert "Hint: the table says why; which backups there are: gpuadmin list-backups minji" in " ".join(err.split())


def test_who_leaves_at_the_password_has_changed_nothing(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prompt(text: str, **_more: object) -> str:
        raise click.Abort

    monkeypatch.setattr("click.prompt", prompt)
    users = (ansible.site / "users.yml").read_text()
    assert cli("lock-user", "minji", "--yes", "--ask-pass")[0] == ExitCode.INTERRUPTED
    assert (ansible.site / "users.yml").read_text() == users
    assert ansible.asked == []


def test_what_an_admin_wrote_is_remembered_when_it_came_to_the_hosts(ansible: Ansible, cli: Cli) -> None:
    """A uid that the site remembers is given to nobody else."""
    with (ansible.site / "users.yml").open("r+") as users:
        text = users.read().replace("users:\n", "users:\n  - {name: yuna, uid: 20007}\n")
        users.seek(0)
        users.write(text)
    for option, remembered in (("--check", False), ("--yes", True)):
        succeed(cli, "sync-users", option)
        assert (20007 in recall(ansible.site).uids) == remembered


@pytest.mark.parametrize("lost", [False, True])
def test_who_is_forgotten_is_not_remembered_again_by_that_very_verb(ansible: Ansible, cli: Cli, *, lost: bool) -> None:
    """Also somebody who is not in users.yml any more, which then stays as it is."""
    users = ansible.site / "users.yml"
    without = users.read_text()
    users.write_text(without.replace("retired: []", "retired:\n  - {name: sora, uid: 20009, removed: 2026-01-02}"))
    assert cli("sync-users", "--yes")[0] == 0
    assert 20009 in recall(ansible.site).uids
    if lost:
        users.write_text(without)
    succeed(cli, "remove-user", "--forget", "sora", "--yes")
    assert dict(recall(ansible.site).uids) == {20000: "minji"}


def test_a_verb_is_refused_where_users_yml_lost_somebody_whom_the_site_remembers(ansible: Ansible, cli: Cli) -> None:
    assert cli("sync-users", "--yes")[0] == 0
    ansible.asked.clear()
    (ansible.site / "users.yml").write_text("users: []\nretired: []\n")
    assert "minji" in fail(cli, ExitCode.REFUSED, "sync-users", "--yes")
    assert ansible.asked == []


#: How a verb opens the site: whether it is a check, is kept out while another run changes the site, and where users.yml
#: contradicts what the site remembers.
KINDS: dict[str, tuple[dict[str, Any], bool, bool, bool]] = {
    "one that changes things": ({}, False, True, True),
    "with --check": ({"options": Options(check=True)}, True, False, True),
    "a look at its mails": ({"check": True}, True, False, True),
    "one that looks": ({"changes": False}, True, False, False),
    "one that leaves the site alone": ({"exclusive": False}, False, False, False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_how_a_verb_opens_the_site(ansible: Ansible, kind: str) -> None:
    given, check, alone, held = KINDS[kind]
    given = {"options": Options(yes=True), **given}
    with opened("sync-users", Options(yes=True)) as session:
        session.remember()

    def found() -> object:
        try:
            with opened("x", **given) as session:
                return session.check
        except RefusedError as error:
            return error.format_message()

    with site_lock(ansible.site / "runs", "another"):
        assert ("the site is locked" in str(found())) == alone
    assert found() is check
    (ansible.site / "users.yml").write_text("users: []\nretired: []\n")
    assert ("minji" in str(found())) == held
    given["forget"] = ["minji"]
    assert found() is check


def test_who_has_no_lock_here_asks_for_none_elsewhere(ansible: Ansible, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage host keeps it for the window that waits for this verb, and for whoever changes something."""
    asked: list[str] = []
    (ansible.site / "gpuadmin.yml").write_text("name: test\nruns: {shared: true}\n")
    monkeypatch.setattr("gpuadmin.session._locked_everywhere", lambda session, stack: asked.append(session.verb))
    with opened("status", Options(), changes=False), opened("sync-users", Options(check=True)):
        pass
    with site_lock(ansible.site / "runs", "maintain") as lock:
        monkeypatch.setenv(HANDED_ON, str(lock))
        with opened("reboot", Options(yes=True)) as session:
            assert (session.lock, session.check) == (None, False)
    with opened("provision", Options(yes=True)) as session:
        assert session.lock is not None
    assert asked == ["provision"]


def test_records_of_runs_are_kept_as_the_site_says(ansible: Ansible, cli: Cli) -> None:
    with (ansible.site / "gpuadmin.yml").open("a") as settings:
        settings.write("\nruns: {keep: 1}\n")
    for _ in range(2):
        assert cli("sync-users", "--yes")[0] == 0
    assert len(list(ansible.site.glob("runs/2*"))) == 1


def test_who_cannot_be_asked_is_told_so_before_a_host_is(ansible: Ansible, cli: Cli) -> None:
    """And who looks at no host, because none is concerned, is asked all the same."""
    assert "Hint: give --yes" in fail(cli, ExitCode.REFUSED, "restore-home", "minji")
    assert "restore-home" not in [one.playbook for one in ansible.asked]
    with opened("backup", Options()) as session, pytest.MonkeyPatch.context() as patched:
        patched.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
        session.predict("backup", [], {})


def test_what_must_not_be_lost_comes_before_the_table(ansible: Ansible, capsys: pytest.CaptureFixture[str]) -> None:
    with opened("provision", Options()) as session, pytest.MonkeyPatch.context() as patched:
        patched.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
        session.predict(
            "provision", None, {}, first=lambda found: session.console.print(f"of {len(found.hosts)} hosts")
        )
    out = capsys.readouterr().out
    assert out.index("Looking at what") < out.index("of 3 hosts") < out.index("Would change")


@pytest.mark.holds("a question is asked where somebody can answer", "a question is asked where somebody reads it")
@pytest.mark.parametrize(("reads", "sees"), [(True, True), (False, True), (True, False), (False, False)])
def test_a_question_needs_who_reads_it_and_who_answers(
    ansible: Ansible, monkeypatch: pytest.MonkeyPatch, reads: bool, sees: bool
) -> None:
    """Somebody who has put what is said into a file would answer to nothing."""
    with opened("backup", Options()) as session:
        ends = {name: SimpleNamespace(isatty=lambda at=at: at) for name, at in (("stdin", reads), ("stderr", sees))}
        monkeypatch.setattr("gpuadmin.session.sys", SimpleNamespace(**ends))
        if reads and sees:
            session.require_confirmation_possible()
        else:
            with pytest.raises(RefusedError, match="no terminal to ask on"):
                session.require_confirmation_possible()
    assert ansible.asked == []


@pytest.mark.parametrize("arguments", [["push-image", "b"], ["add-user", "yuna"]])
def test_without_a_terminal_the_plan_is_shown_and_nothing_is_changed(
    ansible: Ansible, cli: Cli, arguments: list[str]
) -> None:
    users = (ansible.site / "users.yml").read_text()
    code, out, err = cli(*arguments)
    assert (code, "Hint: give --yes" in err) == (ExitCode.REFUSED, True), err
    assert re.search("Add 1 account|Move nodes to the image b", out), out
    assert all(one.check for one in ansible.asked)
    assert (ansible.site / "users.yml").read_text() == users


def test_what_ends_a_verb_in_the_middle_is_in_its_record(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of ours, after a look: the run is not left as if it were still going on."""

    def defect(*_arguments: object, **_more: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(RegistryFile, "save", defect)
    with pytest.raises(ZeroDivisionError):
        cli("add-user", "jiho", "--yes")
    (record,) = ansible.records
    assert (record["status"], record["exit_code"]) == ("failed", ExitCode.ERROR)
    assert record["result"]["error"] == "ZeroDivisionError: a defect"
    assert "Error: ZeroDivisionError: a defect" in cli("runs", record["id"])[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_between_two_playbooks_is_an_interruption_too(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(RegistryFile, "save", lambda *_given, **_more: signal.raise_signal(number))
    signal.signal(number, signal.SIG_DFL)  # what was to be ignored would be ignored
    code, _, err = cli("add-user", "jiho", "--yes")
    assert (code, err.splitlines()[-1:]) == (ExitCode.INTERRUPTED, ["Interrupted."])
    (record,) = ansible.records
    assert (record["status"], record["exit_code"]) == ("interrupted", ExitCode.INTERRUPTED)
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.holds("a signal that was to be ignored ends no run")
def test_what_was_to_be_ignored_is_ignored(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `nohup gpuadmin …` has it."""

    def save(*_given: object, **_more: object) -> None:
        signal.raise_signal(signal.SIGHUP)
        with handed_on() as received:
            signal.raise_signal(signal.SIGHUP)
            assert received == []

    monkeypatch.setattr(RegistryFile, "save", save)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert cli("add-user", "jiho", "--yes")[0] == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_full_disk_is_an_error_in_words(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Record, "finish", full)
    code, out, err = cli("lock-user", "minji", "--yes", "--json")
    assert code == ExitCode.ERROR
    assert "Error: No space left on device, on this machine\nHint: make room" in err
    assert json.loads(out)["status"] == "failed"


def test_a_full_disk_does_not_hide_what_ended_a_run(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Record, "finish", full)
    ansible.cut = 0
    err = fail(cli, ExitCode.INTERRUPTED, "push-image", "b", "--yes")
    assert "Note: how this run ended could not be recorded: No space left on device" in err
    assert "Error: interrupted while looking; nothing was changed" in err


@pytest.mark.parametrize(
    ("bad", "check", "hint"),
    [
        (HostResult("failed", message="x", obstacles=["x"]), False, "what is said above has to be settled first; the"),
        (HostResult("failed", message="x", refused=True), False, "what is said above has to be settled first; the"),
        (HostResult("failed", ["a file"], message="x"), False, "--log; then run it again"),
        (HostResult("failed", message="x"), True, "--log\n"),
        (HostResult("failed", message="x", obstacles=["x"]), True, "what is said above has to be settled first; the"),
    ],
)
def test_what_was_refused_or_only_looked_at_is_not_to_be_run_again(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, bad: HostResult, check: bool, hint: str
) -> None:
    found = RunResult({"storage1": HostResult("not run", message="its turn did not come"), "node1": bad})
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda *_given, **_more: found)
    code, _, err = cli("provision", "--limit", "storage1,node1", "--check" if check else "--yes")
    assert (code, hint in err, "run it again" in err) == (ExitCode.HOST_FAILED, True, "run it again" in hint), err
