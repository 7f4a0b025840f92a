"""notify and extend-term, from the command line to mails, ledger, record and exit code."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_ansible import Ansible, Cli
from tests.support.mail_server import StartServer
from tests.support.mails import USERS, deadline, prepare
from tests.support.verbs import fail, succeed


def runs(site: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((site / "runs").glob("*/result.json"))]


def test_everybody_is_mailed_once(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server)
    code, out, err = cli("notify", "--yes")
    assert code == 0, err
    assert "2 of 2 mails sent" in out
    assert "no e-mail address, so not notified: yuna" in out
    assert server.recipients == ["minji@example.org", "jiho@example.org"]
    assert "5 days" in server.messages[0].get_content()
    for arguments in (["--yes"], ["--yes", "--again", "minji"], ["--yes", "--json"]):
        out = succeed(cli, "notify", *arguments)
    assert json.loads(out)["result"]["mails"] == []
    assert len(server.mails) == 2
    (run,) = runs(site)
    assert [mail["state"] for mail in run["result"]["mails"]] == ["sent", "sent"]
    assert ansible.asked == [], "no host is asked"


def test_looking_first(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    site = prepare(ansible, None)
    before = sorted(path.name for path in site.rglob("*"))
    kept = ["--preview", "--mail-dir", str(tmp_path / "x")]
    for arguments in (["--check"], ["--preview"], ["--check", "--json"], kept):
        code, out, err = cli("notify", *arguments)
        assert code == 0, err
        assert "minji" in out + err
    assert len(list((tmp_path / "x").glob("*.eml"))) == 2
    assert sorted(path.name for path in site.rglob("*")) == before
    code, out, _ = cli("notify", "--preview")
    assert "@127.0.0.1:project/" in out
    assert "Subject: [test] 계정 만료 5일 전 안내 / [test] Your account ends in 5 days" in out
    assert out.count("To: ") == 2
    assert "not confirmed" in fail(cli, 5, "notify")


def test_files_instead_of_mails(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    prepare(ansible, None)
    for said in (True, False):
        out = succeed(cli, "notify", "--yes", "--mail-dir", str(tmp_path / "out"))
        assert (f"2 of 2 mails written to {tmp_path / 'out'}." in " ".join(out.split())) == said
        assert "sent." not in out
    files = list((tmp_path / "out").glob("*.eml"))
    assert len(files) == 2
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    assert json.loads(cli("notify", "--check", "--json")[1])["result"]["mails"] == []
    (tmp_path / "file").touch()
    assert "Traceback" not in fail(cli, 2, "notify", "--yes", "--mail-dir", str(tmp_path / "file"))


def test_a_refused_address(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve(answers={"minji@example.org": "550 5.1.1 no such user"})
    site = prepare(ansible, server)
    code, out, _ = cli("notify", "--yes", "--json")
    assert code == 1
    document = json.loads(out)
    assert document["status"] == "failed"
    assert [(mail["names"], mail["state"]) for mail in document["result"]["mails"]] == [
        (["minji"], "refused"),
        (["jiho"], "sent"),
    ]
    code, out, err = cli("notify", "--yes", "--json")
    assert code == 0
    assert json.loads(out)["result"]["refused"][0]["address"] == "minji@example.org"
    assert "550 5.1.1 no such user" in err
    (site / "users.yml").write_text(USERS.replace("minji@", "kim@"))
    assert cli("notify", "--yes")[0] == 0
    assert server.recipients == ["jiho@example.org", "kim@example.org"]


def test_what_is_uncertain_is_said_and_sent_only_when_asked(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve(die_in_data="minji@example.org", shared="both")
    prepare(ansible, server)
    code, out, _ = cli("notify", "--yes")
    assert code == 1
    assert "unknown" in out
    second = serve(shared="both")
    prepare(ansible, second)
    assert "--again minji" in succeed(cli, "notify", "--yes")
    assert second.recipients == ["minji@example.org", "jiho@example.org"]
    assert cli("notify", "--yes", "--again", "minji")[0] == 0
    assert second.recipients == ["minji@example.org", "jiho@example.org", "minji@example.org"]
    first, _, again = second.messages
    assert first["Message-ID"] == again["Message-ID"]


def test_a_server_that_is_away(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible, None)
    err = fail(cli, 1, "notify", "--yes")
    assert "127.0.0.1:9: " in err
    assert "no mail was sent" in err
    assert not (site / "mails.jsonl").exists()
    assert runs(site)[0]["status"] == "failed"


def test_a_site_without_mail(ansible: Ansible, cli: Cli) -> None:
    assert "mail: is missing" in fail(cli, 2, "notify", "--yes")
    assert "not registered: 'nobody'" in fail(cli, 2, "notify", "--again", "nobody", "--yes")


def test_the_password_is_nowhere(
    ansible: Ansible, cli: Cli, serve: StartServer, certificate: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(security="starttls", user="gpu", password="s3cret-word", **certificate)
    site = prepare(ansible, server, security="starttls", user="gpu", ca_file=certificate["certificate"])
    assert "no password for gpu" in fail(cli, 2, "notify", "--yes")
    monkeypatch.setenv("GPUADMIN_SMTP_PASSWORD", "s3cret-word")
    succeed(cli, "notify", "--yes")
    assert server.mails[0]["user"] == "gpu"
    for path in site.rglob("*"):
        assert not path.is_file() or b"s3cret-word" not in path.read_bytes()


def test_a_sites_own_template(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    site = prepare(ansible, None)
    (site / "templates/mail").mkdir(parents=True)
    (site / "templates/mail/notice.en.j2").write_text("Subject: Bye\n\nOnly {{ days }} days, {{ items[0].account }}\n")
    assert "Only 5 days, minji" in cli("notify", "--preview")[1]
    (site / "templates/mail/notice.en.j2").write_text("Subject: Bye\n\n{{ oops }}\n")
    for arguments in (["--check"], ["--yes", "--mail-dir", str(tmp_path / "x")]):
        assert "notice.en.j2" in fail(cli, 2, "notify", *arguments)
    assert not (site / "mails.jsonl").exists()


def test_who_is_extended_gets_no_reminder(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server)
    code, out, err = cli("extend-term", "minji", "--until", str(deadline() + timedelta(days=90)), "--yes")
    assert code == 0, err
    assert "stays beyond 2026-2" in out
    assert ansible.asked[0].playbook == "sync-users"
    assert [user["name"] for user in ansible.asked[0].variables["gpuadmin_users"]] == ["minji"]
    assert "stays: 2026-2" in (site / "users.yml").read_text()
    cli("notify", "--yes")
    assert server.recipients == ["jiho@example.org"]
    for arguments in (["minji", "--until", "soon"], ["minji", "--until", str(deadline())], ["nobody"]):
        fail(cli, 2, "extend-term", *arguments, "--yes")
    assert len(ansible.asked) == 1
