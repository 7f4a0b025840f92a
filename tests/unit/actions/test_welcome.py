"""add-user --mail: who gets the welcome mail, once, and only with an account."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions.shared.accounts import Taken
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import OTHER, Ansible, Cli, ansible
from tests.support.mail_server import Server, StartServer, certificate, serve

pytestmark = pytest.mark.holds(
    "a check mails nobody",
    "a check owes nobody a mail",
    "a check, or a run that was cut, mails nobody",
    "add-user with a mail asks before it does something",
    "who has been mailed is not mailed again",
    "who has no home is not welcomed",
    "who was there before is mailed when somebody asks",
)


__all__ = ["ansible", "certificate", "serve"]

YUNA = ["add-user", "yuna", "--email", "yuna@example.org", "--key", OTHER, "--note", "pays late", "--yes"]
AGAIN = ["add-user", "yuna", "--yes"]


def prepare(ansible: Ansible, server: Server | None = None, *, welcome: bool = False, homes: str = "created") -> Path:
    """A site that sends mail, and hosts that make the account of yuna."""
    assert ansible.site is not None
    port = 9 if server is None else server.port
    mail: dict[str, Any] = {"host": "127.0.0.1", "port": port, "security": "none", "sender": "gpu@example.org"}
    (ansible.site / "gpuadmin.yml").write_text(json.dumps({"name": "test", "mail": {**mail, "welcome": welcome}}))
    users: dict[str, Any] = {"yuna": {"status": "missing", "operations": [], "problem": None}}
    ansible.answer = RunResult(
        {
            "storage1": HostResult("changed", reports={"homes": {"yuna": {"status": homes}}, "users": {}}),
            "node1": HostResult("changed", reports={"users": users}),
            "node2": HostResult("ok", reports={"users": {}}),
        }
    )
    return ansible.site


def ledger(site: Path) -> list[str]:
    path = site / "mails.jsonl"
    return [json.loads(line)["state"] for line in path.read_text().splitlines()] if path.exists() else []


def test_nobody_is_mailed_who_was_not_to_be(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server)
    assert cli(*YUNA)[0] == 0
    prepare(ansible, server, welcome=True)
    code, _, err = cli(*AGAIN)
    assert code == 0, err
    assert cli("add-user", "seo", "--email", "seo@example.org", "--yes", "--no-mail")[0] == 0
    assert (server.recipients, ledger(site)) == ([], [])


@pytest.mark.holds("an admin's remark is not mailed to the person")
@pytest.mark.parametrize("by", ["option", "setting"])
def test_a_newcomer_is_mailed_once(ansible: Ansible, cli: Cli, serve: StartServer, by: str) -> None:
    server = serve()
    site = prepare(ansible, server, welcome=by == "setting")
    more = ["--mail"] if by == "option" else []
    code, out, err = cli(*YUNA, *more, "--json")
    assert code == 0, err
    assert json.loads(out)["result"]["mails"][0]["state"] == "sent"
    (message,) = server.messages
    assert "ssh -i ~/.ssh/id_ed25519 -p 2 yuna@127.0.0.1" in message.get_content()
    assert "pays late" not in message.get_content(), "a remark is for the admins"
    for _ in range(2):
        assert cli(*AGAIN, *more)[0] == 0
    assert server.recipients == ["yuna@example.org"]
    assert ledger(site) == ["owed", "intent", "sent"]


def test_somebody_who_was_there_is_mailed_when_asked_for(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    prepare(ansible, server)
    assert cli(*YUNA)[0] == 0
    assert cli(*AGAIN, "--mail")[0] == 0
    assert server.recipients == ["yuna@example.org"]


@pytest.mark.holds("who is to be welcomed is owed the mail before they are registered")
def test_who_has_no_account_yet_is_mailed_later(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server, welcome=True, homes="conflict")
    code, out, err = cli(*YUNA, "--json")
    assert code == 0
    assert "Not mailed before they have a home and an account: yuna" in err
    assert json.loads(out)["result"]["not_mailed"] == ["yuna"]
    assert (server.recipients, ledger(site)) == ([], ["owed"])
    prepare(ansible, server, welcome=True)
    assert cli(*AGAIN)[0] == 0
    assert server.recipients == ["yuna@example.org"]


def test_a_run_that_was_cut_off_forgets_nobody(
    ansible: Ansible, cli: Cli, serve: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    site = prepare(ansible, server, welcome=True)

    def cut(*_arguments: object, **_fields: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("gpuadmin.ansible.runner.run", cut)
        patched.setattr("gpuadmin.actions.add_user.uids_elsewhere", lambda session, looked: Taken())
        assert cli(*YUNA)[0] == 130
    assert ledger(site) == ["owed"]
    assert cli(*AGAIN)[0] == 0
    assert server.recipients == ["yuna@example.org"]


def test_a_run_that_was_interrupted_mails_nobody_yet(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server, welcome=True)
    whole = ansible.answer
    assert whole is not None
    ansible.answer = replace(whole, interrupted=True)
    assert cli(*YUNA)[0] == 130
    assert (server.recipients, ledger(site)) == ([], ["owed"])
    ansible.answer = whole
    assert cli(*AGAIN)[0] == 0
    assert server.recipients == ["yuna@example.org"]


def test_who_says_no_has_registered_and_mailed_nobody(
    ansible: Ansible, cli: Cli, serve: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    site = prepare(ansible, server, welcome=True)
    before = (site / "users.yml").read_text()
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    assert cli(*YUNA[:-1])[0] == 5
    assert (server.recipients, ledger(site), (site / "users.yml").read_text()) == ([], [], before)


def test_check_and_preview_send_nothing(ansible: Ansible, cli: Cli, serve: StartServer, tmp_path: Path) -> None:
    server = serve()
    site = prepare(ansible, server)
    before = (site / "users.yml").read_text()
    code, out, err = cli(*YUNA, "--mail", "--check")
    assert code == 0, err
    assert "yuna <yuna@example.org>: the account yuna" in out
    code, out, err = cli(*YUNA, "--preview", "--mail-dir", str(tmp_path / "mails"))
    assert code == 0, err
    assert "To: yuna@example.org" in out
    assert len(list((tmp_path / "mails").glob("*.eml"))) == 1
    assert [one.check for one in ansible.asked] == [True]
    assert (server.recipients, ledger(site), (site / "users.yml").read_text()) == ([], [], before)


def test_a_check_mails_nobody_who_has_an_account_either(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server)
    assert cli(*YUNA)[0] == 0
    code, out, err = cli(*AGAIN, "--mail", "--check")
    assert code == 0, err
    assert "yuna <yuna@example.org>: the account yuna" in out
    assert (server.recipients, ledger(site)) == ([], [])


def test_a_site_without_mail_is_said_before_any_host_is_asked(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible)
    (site / "gpuadmin.yml").write_text(json.dumps({"name": "test"}))
    code, _, err = cli(*YUNA, "--mail")
    assert code == 2
    assert "gpuadmin.yml: mail: is missing" in err
    assert (ansible.asked, ansible.looked) == ([], 0)


def test_who_has_no_address_is_named(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible, welcome=True)
    code, out, err = cli("add-user", "yuna", "--key", OTHER, "--yes")
    assert code == 0, err
    assert "not mailed, because they have no address (--email): yuna" in out


def test_a_mail_server_that_is_away_is_said_and_the_account_is_there(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible)
    code, _, err = cli(*YUNA, "--mail")
    assert code == 1
    assert "127.0.0.1" in err
    assert "yuna" in (site / "users.yml").read_text()


BAD = {
    "no mail settings": ["--mail"],
    "a preview that is not wanted": ["--no-mail", "--preview"],
    "once more, not wanted": ["--no-mail", "--again", "yuna"],
}


@pytest.mark.parametrize("more", BAD.values(), ids=BAD.keys())
def test_what_is_wrong_changes_nothing(ansible: Ansible, cli: Cli, more: list[str]) -> None:
    assert ansible.site is not None
    before = (ansible.site / "users.yml").read_text()
    assert cli(*YUNA, *more)[0] == 2
    assert ansible.asked == []
    assert (ansible.site / "users.yml").read_text() == before


def test_a_template_that_is_wrong_is_found_before_anything_is_changed(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible)
    before = (site / "users.yml").read_text()
    (site / "templates/mail").mkdir(parents=True, exist_ok=True)
    (site / "templates/mail/welcome.en.j2").write_text("Subject: x\n\n{{ nobody.knows }}\n")
    assert cli(*YUNA, "--mail")[0] == 2
    assert ansible.asked == []
    assert (site / "users.yml").read_text() == before
