"""import-applications, from the command line to users.yml, what Ansible is asked, mails, record and exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.results import HostResult, RunResult
from tests.support.applications import DEADLINE, FORM, GROUP, USERS, answer, prepare
from tests.support.fake_ansible import Ansible, Cli
from tests.support.mail_server import StartServer
from tests.support.sites import public_key
from tests.support.verbs import fail, succeed


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "form.csv").write_text(FORM)
    (tmp_path / "group.csv").write_bytes(GROUP.encode("cp949"))
    return [str(tmp_path / "form.csv"), "--members", str(tmp_path / "group.csv")]


def test_three_lists_and_nothing_is_changed(ansible: Ansible, cli: Cli, files: list[str]) -> None:
    site = prepare(ansible)
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    result = json.loads(succeed(cli, "import-applications", *files, "--json"))["result"]
    assert [(entry["email"], entry["account"]) for entry in result["ready"]] == [
        ("minji@example.org", "minji"),
        ("old@example.org", "old"),
    ]
    assert [(entry["email"], entry["missing"]) for entry in result["incomplete"]] == [
        ("yuna@example.org", ["key_missing"]),
        ("seo@example.org", ["form"]),
    ]
    assert [entry["reason"] for entry in result["unknown"]] == ["is not in the group's list"]
    assert "2 ready, 2 incomplete, 1 unknown" in succeed(cli, "import-applications", *files)
    assert ansible.asked == []
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == before


def test_every_mail_can_be_seen_first(ansible: Ansible, cli: Cli, files: list[str], tmp_path: Path) -> None:
    site = prepare(ansible)
    for more in ([], ["--apply", "--yes"]):
        out = succeed(cli, "import-applications", *files, "--preview", *more)
        assert out.count("To: ") == 4
        assert "ssh -i ~/.ssh/id_ed25519 -p 2 minji@127.0.0.1" in out
        assert "ssh-keygen -t ed25519" in out
    _code, out, _ = cli("import-applications", *files, "--preview", "--json", "--mail-dir", str(tmp_path / "mails"))
    mails = json.loads(out)["result"]["mails"]
    assert [mail["address"].split("@")[0] for mail in mails] == ["minji", "old", "yuna", "seo"]
    assert str(DEADLINE) in mails[0]["text"]
    assert len(list((tmp_path / "mails").glob("*.eml"))) == 4
    assert ansible.asked == []
    assert (site / "users.yml").read_text() == USERS
    assert not (site / "mails.jsonl").exists()


def test_accounts_and_mails(ansible: Ansible, cli: Cli, files: list[str], serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server)
    code, out, err = cli("import-applications", *files, "--apply", "--yes", "--json")
    assert code == 4, err  # node2 does not answer; the others are done
    (invocation,) = ansible.asked
    assert invocation.playbook == "sync-users"
    assert [(user["name"], user["uid"], user["docker"]) for user in invocation.variables["gpuadmin_users"]] == [
        ("minji", 20002, True),
        ("old", 20001, False),
    ]
    users = (site / "users.yml").read_text()
    assert f"expires: {DEADLINE}" in users
    assert "note: 김민지" in users
    assert server.recipients == [f"{name}@example.org" for name in ("minji", "old", "yuna", "seo")]
    minji, old, yuna, seo = (message.get_content() for message in server.messages)
    assert "김민지 님" in minji
    assert "docker run" in minji
    assert "add-me-to-docker-user" in old
    assert "ssh-keygen" in yuna
    assert "설문" in seo
    document = json.loads(out)
    assert [mail["state"] for mail in document["result"]["mails"]] == ["sent"] * 4
    assert document["result"]["not_mailed"] == []
    recorded = json.loads((site / "runs" / document["run"] / "result.json").read_text())
    assert recorded["result"]["mails"] == document["result"]["mails"]
    plan = json.loads((site / "runs" / document["run"] / "run.json").read_text())["plan"]
    assert len([step for step in plan["steps"] if step["host"] == "mail"]) == 4
    assert any("is not in the group's list" in warning for warning in plan["warnings"])
    # the same again: nobody new, nobody is mailed twice
    succeed(cli, "import-applications", *files, "--apply", "--yes")
    assert len(server.mails) == 4
    assert len(ansible.asked) == 1
    assert users == (site / "users.yml").read_text()


def test_who_is_corrected_later(
    ansible: Ansible, cli: Cli, files: list[str], serve: StartServer, tmp_path: Path
) -> None:
    server = serve()
    prepare(ansible, server)
    cli("import-applications", *files, "--apply", "--yes")
    row = f"2026/11/21 9:00:00 오전 GMT+9,yuna@example.org,박유나,20260003,{public_key('yuna')},예,\n"
    (tmp_path / "form.csv").write_text(FORM + row)
    cli("import-applications", *files, "--apply", "--yes")
    assert server.recipients[4:] == ["yuna@example.org"], "something else is missing now"
    ansible.answer = answer("yuna")
    (tmp_path / "form.csv").write_text(FORM + row.replace("예,\n", "예,동의\n"))
    _, out, _ = cli("import-applications", *files, "--apply", "--yes")
    assert "line 6 counts, the latest; not line 4" in out
    assert server.recipients[5:] == ["yuna@example.org"]
    assert "yuna 계정 안내" in server.messages[5]["Subject"]


NOT_THERE = {
    "no node has the account": answer("minji", "old", nodes="conflict"),
    "no home": answer("minji", "old", homes="conflict"),
    "nothing is known": RunResult({"storage": HostResult("unreachable"), "node1": HostResult("unreachable")}),
    "interrupted": RunResult(answer("minji", "old").hosts, interrupted=True),
}


@pytest.mark.parametrize("first", NOT_THERE.values(), ids=NOT_THERE.keys())
def test_nobody_is_welcomed_before_they_can_log_in(
    ansible: Ansible, cli: Cli, files: list[str], serve: StartServer, first: RunResult
) -> None:
    server = serve()
    prepare(ansible, server)
    ansible.answer = first
    cli("import-applications", *files, "--apply", "--yes")
    assert "minji@example.org" not in server.recipients
    ansible.answer = answer("minji", "old")
    cli("import-applications", *files, "--apply", "--yes")
    assert sorted(server.recipients) == [f"{name}@example.org" for name in ("minji", "old", "seo", "yuna")]
    assert [user["name"] for user in ansible.asked[1].variables["gpuadmin_users"]] == ["minji", "old"]


def test_killed_at_any_moment(
    ansible: Ansible, cli: Cli, files: list[str], serve: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before users.yml is written, after, and while the hosts are at it: the next run does the rest, once."""
    from gpuadmin.config.registry import RegistryFile

    server = serve()
    site = prepare(ansible, server)

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> RunResult:
        raise Killed

    real = RegistryFile.save

    def saved_and_killed(file: RegistryFile, **more: Any) -> None:
        real(file, **more)
        raise Killed

    for target, replacement in (
        ("gpuadmin.config.registry.RegistryFile.save", killed),
        ("gpuadmin.config.registry.RegistryFile.save", saved_and_killed),
        ("gpuadmin.ansible.runner.run", killed),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, replacement)
            with pytest.raises(Killed):
                cli("import-applications", *files, "--apply", "--yes")
    assert "minji" in (site / "users.yml").read_text()
    assert server.mails == []
    cli("import-applications", *files, "--apply", "--yes")
    cli("import-applications", *files, "--apply", "--yes")
    assert server.recipients == [f"{name}@example.org" for name in ("minji", "old", "yuna", "seo")]


def test_a_mail_server_that_is_away_keeps_no_account_back(
    ansible: Ansible, cli: Cli, files: list[str], serve: StartServer
) -> None:
    site = prepare(ansible)
    ansible.answer.hosts.update(storage1=HostResult("ok"), node2=HostResult("ok"))
    code, out, err = cli("import-applications", *files, "--apply", "--yes", "--json")
    assert code == 1
    assert "127.0.0.1:9: " in err
    assert json.loads(out)["result"]["not_mailed"] == ["minji", "old"]
    assert "minji" in (site / "users.yml").read_text()
    server = serve()
    settings = json.loads((site / "gpuadmin.yml").read_text())
    settings["mail"]["port"] = server.port
    (site / "gpuadmin.yml").write_text(json.dumps(settings))
    succeed(cli, "import-applications", *files, "--apply", "--yes")
    assert len(server.mails) == 4


def test_a_mail_that_may_have_been_sent_is_said(
    ansible: Ansible, cli: Cli, files: list[str], serve: StartServer
) -> None:
    server = serve(die_in_data="minji@example.org", shared="both")
    prepare(ansible, server)
    code, out, _ = cli("import-applications", *files, "--apply", "--yes", "--json")
    assert [mail["state"] for mail in json.loads(out)["result"]["mails"]] == ["unknown", "failed", "failed", "failed"]
    second = serve(shared="both", answers={"yuna@example.org": "550 5.1.1 no such user"})
    prepare(ansible, second)
    (ansible.site / "users.yml").write_text(ansible.users_yml[0])
    cli("import-applications", *files, "--apply", "--yes")
    assert second.recipients == [f"{name}@example.org" for name in ("minji", "old", "seo")]
    code, out, err = cli("import-applications", *files, "--apply", "--yes", "--json")
    assert code == 0
    assert [entry["names"] for entry in json.loads(out)["result"]["stuck"]] == [["minji"], ["yuna@example.org"]]
    for words in ("to send it: --again minji", "refused (550 5.1.1 no such user)"):
        assert words in " ".join(err.split())
    cli("import-applications", *files, "--apply", "--yes", "--again", "minji")
    assert second.recipients[3:] == ["minji@example.org"]


def test_check_says_what_would_be_done(ansible: Ansible, cli: Cli, files: list[str]) -> None:
    site = prepare(ansible)
    code, out, _ = cli("import-applications", *files, "--apply", "--check")
    assert code == 4
    assert ansible.asked[0].check
    for words in ("users.yml: write minji, old", "account minji, uid 20002", "minji <minji@example.org>: the account"):
        assert words in " ".join(out.split())
    assert (site / "users.yml").read_text() == USERS
    assert not (site / "mails.jsonl").exists()


def test_those_who_are_not_in_the_group(ansible: Ansible, cli: Cli, files: list[str], serve: StartServer) -> None:
    server = serve()
    prepare(ansible, server)
    cli("import-applications", *files, "--apply", "--yes", "--tell-unknown")
    assert "eve@example.org" in server.recipients
    assert "group" in server.messages[-1].get_content()
    assert "needs --members" in fail(cli, 2, "import-applications", files[0], "--tell-unknown")


def test_a_name_is_chosen(ansible: Ansible, cli: Cli, files: list[str]) -> None:
    prepare(ansible)
    _, out, _ = cli("import-applications", *files, "--name", "minji@example.org=kimmj", "--json")
    assert json.loads(out)["result"]["ready"][0]["account"] == "kimmj"
    for wrong in ("minji=kimmj", "minji@example.org", "minji@example.org="):
        assert "must be ADDRESS=NAME" in fail(cli, 2, "import-applications", *files, "--name", wrong)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"term": {"name": "2026-1", "deadline": "2026-06-30"}}, "would end on 2026-06-30"),
        ({"mail": None}, "mail: is missing"),
    ],
)
def test_what_is_refused_before_anything_is_changed(
    ansible: Ansible, cli: Cli, files: list[str], more: dict[str, Any], words: str
) -> None:
    site = prepare(ansible, **more)
    assert words in fail(cli, 2, "import-applications", *files, "--apply", "--yes")
    assert (site / "users.yml").read_text() == USERS
    assert ansible.asked == []


def test_without_a_terminal_and_without_yes(ansible: Ansible, cli: Cli, files: list[str]) -> None:
    site = prepare(ansible)
    assert "not confirmed" in fail(cli, 5, "import-applications", *files, "--apply")
    assert (site / "users.yml").read_text() == USERS
    assert not (site / "mails.jsonl").exists()


def test_hostile_cells_reach_nothing(ansible: Ansible, cli: Cli, tmp_path: Path, serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server)
    template = "{{ lookup('file', '/etc/passwd') }}"
    cells = ["=cmd|'/C calc'!A0", template, "a\nBcc: x@example.org", "\x1b[31mred", "a" * 9999]
    rows = "".join(
        f'a{number}@example.org,"{cell}",2026000{number},{public_key(str(number))},yes,"{cell}"\n'
        for number, cell in enumerate(cells)
    )
    (tmp_path / "form.csv").write_text(f"email,name,student id,ssh key,agree? (terms),이용 수칙 동의\n{rows}")
    assert "\x1b[31mred" not in succeed(cli, "import-applications", str(tmp_path / "form.csv"), "--apply", "--yes")
    assert (site / "users.yml").read_text() == USERS
    assert len(server.mails) == 5
    for message in server.messages:
        assert "Bcc" not in message
        assert "root:" not in message.get_content()
