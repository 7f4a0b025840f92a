"""import-applications --since-last: what is shown, what is done all the same, and whose account is not given back."""

import json
from itertools import count
from pathlib import Path

import pytest

from gpuadmin.results import RunResult
from tests.support.applications import FORM, GROUP, answer, prepare
from tests.support.fake_ansible import Ansible, Cli
from tests.support.mail_server import StartServer
from tests.support.sites import public_key
from tests.support.verbs import succeed

NEW = f"2026/11/21 9:00:00 오전 GMT+9,sua@example.org,정수아,20260005,{public_key('sua')},예,동의\n"


@pytest.fixture
def evening(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is typed every evening. Evenings of one second are told apart by the end of a run's id."""
    number = count(1)
    monkeypatch.setattr("gpuadmin.records.secrets.token_hex", lambda _size: f"{next(number):04x}")
    (tmp_path / "form.csv").write_text(FORM)
    (tmp_path / "group.csv").write_text(GROUP + "20260005,sua@example.org\n")
    arguments = ["import-applications", str(tmp_path / "form.csv"), "--members", str(tmp_path / "group.csv")]
    return [*arguments, "--apply", "--yes", "--since-last"]


def all_answer(ansible: Ansible) -> None:
    """Nothing is left over for the next evening."""
    assert ansible.answer is not None
    hosts = ansible.answer.hosts
    ansible.answer = RunResult({"storage1": hosts["storage"], "node1": hosts["node1"], "node2": hosts["node1"]})


def append(evening: list[str], row: str) -> None:
    form = Path(evening[1])
    form.write_text(form.read_text() + row)


def test_every_evening(ansible: Ansible, cli: Cli, evening: list[str], serve: StartServer) -> None:
    server = serve()
    site = prepare(ansible, server)
    all_answer(ansible)
    out = succeed(cli, *evening)
    assert "No earlier import is recorded: everything is shown." in out
    assert "2 ready, 3 incomplete, 1 unknown" in out
    runs = len(list((site / "runs").iterdir()))
    code, out, err = cli(*evening)
    assert code == 0, err
    assert "0 ready, 0 incomplete, 0 unknown" in out
    assert "is not in the group's list" not in out + err
    assert len(list((site / "runs").iterdir())) == runs + 1, "an evening without news is an import, too"
    append(evening, NEW)
    ansible.answer = answer("sua")
    all_answer(ansible)
    assert "1 ready, 0 incomplete, 0 unknown" in succeed(cli, *evening)
    assert [user["name"] for user in ansible.asked[-1].variables["gpuadmin_users"]] == ["sua"]
    assert server.recipients.count("sua@example.org") == 2  # asked for the form, and welcomed


def test_what_changed_is_new(ansible: Ansible, cli: Cli, evening: list[str], serve: StartServer) -> None:
    prepare(ansible, serve())
    all_answer(ansible)
    cli(*evening)
    append(evening, "2026/11/21 9:00:00 오전 GMT+9,yuna@example.org,박유나,20260003,not a key,예,동의\n")
    _, out, _ = cli(*evening)
    assert "0 ready, 1 incomplete, 0 unknown" in out
    Path(evening[3]).write_text(GROUP.replace("20260004,seo@example.org\n", "20260009,eve@example.org\n"))
    ansible.answer = answer("eve")
    all_answer(ansible)
    _, out, _ = cli(*evening)
    assert "1 ready, 0 incomplete, 0 unknown" in out, "who was unknown is in the group now"


@pytest.mark.holds("what is left to do is done although it is not new")
def test_what_is_left_to_do_is_done_although_it_is_not_new(
    ansible: Ansible, cli: Cli, evening: list[str], serve: StartServer
) -> None:
    server = serve()
    prepare(ansible, server)
    ansible.answer = answer("minji", "old", nodes="conflict")
    cli(*evening)
    assert "minji@example.org" not in server.recipients
    ansible.answer = answer("minji", "old")
    _, out, _ = cli(*evening)
    assert "0 ready" in out
    assert sorted(server.recipients)[:2] == ["minji@example.org", "old@example.org"]


@pytest.mark.holds("a removed account is not given back by an old form")
def test_a_removed_account_is_not_given_back(
    ansible: Ansible, cli: Cli, evening: list[str], serve: StartServer
) -> None:
    site = prepare(ansible, serve())
    cli(*evening)
    cli("remove-user", "minji", "--yes")
    _, out, _ = cli(*evening)
    assert "minji@example.org: the account was removed since" in " ".join(out.split())
    assert "name: minji" in (site / "users.yml").read_text().partition("retired:")[2]
    assert "name: minji" not in (site / "users.yml").read_text().partition("retired:")[0]
    again = FORM.splitlines()[1].replace("2026/11/20 3:04:05", "2026/11/22 3:04:05")
    append(evening, again + "\n")
    _, out, _ = cli(*evening)
    assert "1 ready" in out, "who sends a new form asks again"


def test_a_refused_or_checked_import_is_not_the_last_one(
    ansible: Ansible, cli: Cli, evening: list[str], serve: StartServer
) -> None:
    prepare(ansible, serve())
    without_yes = [word for word in evening if word != "--yes"]
    assert cli(*without_yes)[0] == 5
    cli(*without_yes, "--check")
    _, out, _ = cli(*evening)
    assert "No earlier import is recorded" in out


def test_without_apply_it_only_shows(ansible: Ansible, cli: Cli, evening: list[str], serve: StartServer) -> None:
    site = prepare(ansible, serve())
    cli(*evening)
    runs = sorted((site / "runs").iterdir())
    looked = [word for word in evening if word not in ("--apply", "--yes")]
    result = json.loads(succeed(cli, *looked, "--json"))["result"]
    assert [result[name] for name in ("ready", "incomplete", "unknown")] == [[], [], []]
    assert sorted((site / "runs").iterdir()) == runs
