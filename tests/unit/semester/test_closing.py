"""The mail to those who are locked out: with the lock, once, and whatever comes between."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from email import message_from_string
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions.semester import closing
from gpuadmin.common.mail.ledger import State
from gpuadmin.common.mail.transport import Answer
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.transport import Folder
from gpuadmin.semester.journal import Journal
from tests.support.semester_cluster import Cluster
from tests.support.verbs import fail, succeed

pytestmark = [
    pytest.mark.btrfs,
    pytest.mark.holds(
        "a mail server that is away does not stop a reset after the lock",
        "a reset does not end before its mails were handed over",
        "who is locked out again after an abort is told again",
        "who is locked out nowhere is not told that they are",
        "who was not told by the lock is told at the end",
    ),
]
Cli = Callable[..., tuple[int, str, str]]
ALL = ("semester-reset", "--yes", "--term", "2026-2", "--json")
OLD_JOURNAL = Path(__file__).parent / "journals/pending.jsonl"


@pytest.fixture
def mails(cluster: Cluster, tmp_path: Path) -> Path:
    """Where mails are written to; the site sends some now, and nobody answers at its server."""
    path = cluster.site / "gpuadmin.yml"
    mail = "mail: {host: 127.0.0.1, port: 9, security: none, sender: gpu@example.org}\n"
    path.write_text(path.read_text() + mail + "reset: {scratch: [/scratch]}\n")
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("uid: 20001", "uid: 20001, email: jiho@example.org"))
    return tmp_path / "mails"


def read(mails: Path) -> dict[str, str]:
    """Address -> text, of all mails."""
    found = [message_from_string(path.read_text(), EmailMessage, policy=default) for path in mails.glob("*.eml")]
    return {str(one["To"]): one.get_content() for one in found}


@pytest.mark.holds("nobody is reminded from two machines")
@pytest.mark.parametrize("verb", ["notify", "drift"])
def test_reminders_are_sent_by_one_machine(cluster: Cluster, cli: Cli, mails: Path, verb: str) -> None:
    """By the monitor host, where `notify` is its timers'. Only the one that sends them knows who was sent one."""
    settings, timed = cluster.site / "gpuadmin.yml", verb == "notify"
    text = settings.read_text().replace("2026-01-31", str(date.today() + timedelta(days=1)))
    settings.write_text(f"{text}timers: {{verbs: [{verb}]}}\nruns: {{shared: false}}\n")
    planned = json.loads(succeed(cli, "semester-reset", "--check", "--early", "--json"))["result"]["phases"]
    announce, lock = (planned[name]["plan"] for name in ("announce", "lock"))
    assert len(announce["steps"]) == (0 if timed else 2)
    by_monitor = "the monitor host sends the reminders (`timers`): none is sent from here"
    assert announce["warnings"] == ([by_monitor] if timed else [])
    untold = "gpuadmin sent no reminder of the deadline to minji, jiho"
    unknown = "whether reminders were sent is not known here: `gpuadmin runs` has the monitor host's `notify`"
    assert lock["warnings"] == [unknown if timed else untold]
    succeed(cli, "semester-reset", "--phase", "announce", "--yes", "--mail-dir", str(mails))
    assert set(read(mails)) == (set() if timed else {"minji@example.org", "jiho@example.org"})


@pytest.mark.parametrize("more", ["", "timers: {verbs: [notify]}\n", "slurm: {hours: 4}\n"])
def test_a_site_without_mail_reminds_nobody(cluster: Cluster, cli: Cli, more: str) -> None:
    settings = cluster.site / "gpuadmin.yml"
    settings.write_text(settings.read_text() + more + ("runs: {shared: false}\n" if "timers" in more else ""))
    planned = json.loads(succeed(cli, "semester-reset", "--check", "--json"))["result"]["phases"]
    assert planned["announce"]["plan"]["warnings"] == ["gpuadmin.yml has no `mail`: gpuadmin notifies nobody"]
    assert planned["lock"]["plan"]["warnings"] == []
    assert all(
        ("no Slurm jobs (running ones end now)" in step["action"]) == ("slurm" in more)
        for step in planned["lock"]["plan"]["steps"]
        if step["host"] != "site"
    )


def test_it_goes_out_with_the_lock(cluster: Cluster, cli: Cli, mails: Path) -> None:
    seen: list[tuple[str, bool]] = []
    cluster.before_run = lambda phase, check: seen.append((phase, bool(read(mails)))) if not check else None
    planned = json.loads(succeed(cli, "semester-reset", "--check", "--json"))["result"]["phases"]
    assert [step["action"] for step in planned["lock"]["plan"]["steps"] if step["host"] == "mail"] == [
        "minji <minji@example.org>: 2026-2 has ended for minji", "jiho <jiho@example.org>: 2026-2 has ended for jiho",
    ]  # fmt: skip
    assert not any(step["host"] == "mail" for step in planned["reopen"]["plan"]["steps"])
    seen.clear()
    out = succeed(cli, *ALL, "--mail-dir", str(mails))
    assert dict(seen)["lock"] is False
    assert dict(seen)["end-sessions"] is True
    result = json.loads(out)["result"]
    assert [mail["state"] for mail in result["phases"]["lock"]["result"]["mails"]] == ["sent", "sent"]
    assert result["phases"]["reopen"]["result"]["mails"] == []
    assert set(read(mails)) == {"minji@example.org", "jiho@example.org"}
    text = read(mails)["minji@example.org"]
    assert f"at least until {result['report']['backup']['until']}" in text
    assert "/scratch" in text
    assert "/dev/shm" not in text


def test_a_host_that_is_away_keeps_no_mail_back(cluster: Cluster, cli: Cli, mails: Path) -> None:
    cluster.away = {"node2"}
    fail(cli, 4, *ALL, "--mail-dir", str(mails))
    assert set(read(mails)) == {"minji@example.org", "jiho@example.org"}
    for path in mails.glob("*.eml"):
        path.unlink()
    cluster.away = set()
    assert cli(*ALL, "--resume", "--mail-dir", str(mails))[0] == 0
    assert read(mails) == {}


def test_nobody_is_told_who_is_locked_out_nowhere(cluster: Cluster, cli: Cli, mails: Path) -> None:
    cluster.away = {"node1", "node2"}
    assert cli(*ALL, "--mail-dir", str(mails))[0] == 4
    assert read(mails) == {}


def test_a_mail_server_that_is_away_holds_nothing_up(cluster: Cluster, cli: Cli, mails: Path) -> None:
    """The reset goes on; it ends when they are mailed."""
    err = fail(cli, 1, *ALL)
    assert err.count("not mailed yet: minji, jiho: 127.0.0.1:9: ") == 2, "by the lock, and by the end"
    assert "--resume tries again; --mail-dir DIR" in err
    state = Journal(cluster.site / "runs", "2026-2").state()
    assert state.done["lock"]["not_mailed"] == ["minji", "jiho"]
    assert state.next_phase() == "reopen"
    assert "minji" not in cluster.picture()["homes"]
    assert "retired" in (cluster.site / "users.yml").read_text(), "it went on for everybody but for the mails"
    before, users = cluster.picture(), (cluster.site / "users.yml").read_text()
    out = succeed(cli, *ALL, "--resume", "--mail-dir", str(mails))
    steps = json.loads(out)["result"]["phases"]["reopen"]["plan"]["steps"]
    assert len([step for step in steps if step["host"] == "mail"]) == 2
    assert set(read(mails)) == {"minji@example.org", "jiho@example.org"}
    assert cluster.picture() == {**before, "term": "2027-1"}, "nothing else is done again"
    assert (cluster.site / "users.yml").read_text() == users


def test_the_mails_of_a_phase_are_decided_once(
    cluster: Cluster, cli: Cli, mails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was shown and confirmed is what is sent; by the lock, and by the end what is left."""
    real, decided = closing.plan_closing, []

    def plan(*given: Any, **more: Any) -> Any:
        decided.append(real(*given, **more))
        return decided[-1]

    monkeypatch.setattr(closing, "plan_closing", plan)
    assert cli(*ALL, "--mail-dir", str(mails))[0] == 0
    assert [len(one.letters) for one in decided] == [2, 0]


def test_a_mail_that_is_refused_for_now_is_not_forgotten(
    cluster: Cluster, cli: Cli, mails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Folder.send

    def send(self: Folder, message: EmailMessage) -> Answer:
        return Answer(State.FAILED, "451 later") if "jiho" in str(message["To"]) else real(self, message)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "send", send)
        code, _out, err = cli(*ALL, "--mail-dir", str(mails))
    assert code == 1
    assert "not mailed yet: jiho: 451 later" in err
    assert set(read(mails)) == {"minji@example.org"}
    assert cluster.picture()["term"] == "2026-2"
    assert cli(*ALL, "--resume", "--mail-dir", str(mails))[0] == 0
    assert set(read(mails)) == {"minji@example.org", "jiho@example.org"}
    assert cluster.picture()["term"] == "2027-1"


class Cut(BaseException):
    """The controller's power."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [0, 1])
def test_cut_in_the_middle_of_the_mails(
    cluster: Cluster, cli: Cli, mails: Path, monkeypatch: pytest.MonkeyPatch, number: int, moment: str
) -> None:
    """Who may have been mailed is named, and not mailed again; the others are."""
    real, sent = Folder.send, []

    def send(self: Folder, message: EmailMessage) -> Any:
        sent.append(str(message["To"]))
        if len(sent) - 1 != number:
            return real(self, message)
        if moment == "after":
            real(self, message)
        raise Cut

    monkeypatch.setattr(Folder, "send", send)
    with pytest.raises(Cut):
        cli(*ALL, "--mail-dir", str(mails))
    monkeypatch.setattr(Folder, "send", lambda self, message: (sent.append(str(message["To"])), real(self, message))[1])
    out = succeed(cli, *ALL, "--resume", "--mail-dir", str(mails))
    assert sorted(sent) == ["jiho@example.org", "minji@example.org"]
    cut = "minji" if number == 0 else "jiho"
    lock = json.loads(out)["result"]["phases"]["lock"]
    assert [entry["names"] for entry in lock["result"]["uncertain"]] == [[cut]]
    assert any(f"--again {cut}" in warning for warning in lock["plan"]["warnings"])


def test_taken_back_and_locked_again(cluster: Cluster, cli: Cli, mails: Path) -> None:
    for phase in ("announce", "lock"):
        assert cli("semester-reset", "--phase", phase, "--yes", "--mail-dir", str(mails))[0] == 0
    out = succeed(cli, "semester-reset", "--abort", "--yes", "--json")
    warnings = json.loads(out)["result"]["phases"]["abort"]["plan"]["warnings"]
    assert warnings == ["mailed that their account has ended, so tell them that it has not: minji, jiho"]
    for path in mails.glob("*.eml"):
        path.unlink()
    assert cli(*ALL, "--mail-dir", str(mails))[0] == 0
    assert set(read(mails)) == {"minji@example.org", "jiho@example.org"}
    assert {entry.key for entry in Ledger.of(cluster.site)} == {
        "closing minji 2026-2", "closing jiho 2026-2", "closing minji 2026-2 2", "closing jiho 2026-2 2",
    }  # fmt: skip


def test_who_stays_after_all_is_named_to_the_admin(cluster: Cluster, cli: Cli, mails: Path) -> None:
    for phase in ("announce", "lock"):
        assert cli("semester-reset", "--phase", phase, "--yes", "--mail-dir", str(mails))[0] == 0
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, stays: 2026-2"))
    out = succeed(cli, "semester-reset", "--check", "--json")
    warnings = json.loads(out)["result"]["phases"]["release"]["plan"]["warnings"]
    assert warnings == ["mailed that their account has ended, so tell them that it has not: jiho"]


@pytest.mark.parametrize("lines", [5, 10, 12])
def test_a_reset_that_an_older_version_began(cluster: Cluster, cli: Cli, mails: Path, lines: int) -> None:
    """That one mailed at the end; its lock is done, and nobody was mailed."""
    journal = Journal(cluster.site / "runs", "2026-2")
    journal.directory.mkdir(parents=True)
    journal.path.write_text("".join(OLD_JOURNAL.read_text().splitlines(keepends=True)[:lines]))
    succeed(cli, *ALL, "--resume", "--mail-dir", str(mails))
    assert set(read(mails)) == {"minji@example.org", "jiho@example.org"}


def test_a_template_that_is_wrong_locks_nobody_out(cluster: Cluster, cli: Cli, mails: Path) -> None:
    (cluster.site / "templates/mail").mkdir(parents=True)
    (cluster.site / "templates/mail/closing.ko.j2").write_text("{% if %}")
    assert "templates/mail/closing.ko.j2:1: " in fail(cli, 2, *ALL, "--mail-dir", str(mails))
    assert cluster.locked == set()


def test_an_address_that_was_corrected_is_used(cluster: Cluster, cli: Cli, mails: Path) -> None:
    assert cli("semester-reset", "--phase", "announce", "--yes", "--mail-dir", str(mails))[0] == 0
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("jiho@example.org", "jiho.lee@example.org"))
    assert cli(*ALL, "--resume", "--mail-dir", str(mails))[0] == 0
    assert set(read(mails)) == {"minji@example.org", "jiho.lee@example.org"}
