"""announce, from the command line to users' mails, what nodes are given, the record and the exit code."""

import json
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.actions import announce as action
from gpuadmin.announcements import Announcement, Announcements
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.errors import ConfigError
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible
from tests.support.mail_server import Server, StartServer, serve

__all__ = ["ansible", "serve"]

TODAY = date(2026, 11, 21)
USERS = f"""\
users:
  - {{name: minji, uid: 20000, email: minji@example.org}}
  - {{name: jiho, uid: 20001, email: jiho@example.org}}
  - {{name: locked, uid: 20002, email: locked@example.org, locked: true}}
  - {{name: gone, uid: 20003, email: gone@example.org, expires: {TODAY - timedelta(days=1)}}}
  - {{name: silent, uid: 20004}}
"""
TEXTS = ["announce", "--ko", "정전\n28일 9시부터", "--en", "No power\non the 28th", "--until", str(TODAY)]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The day of all tests is `TODAY`: a run that goes past midnight asks the same."""
    set_day(monkeypatch, TODAY)


def set_day(monkeypatch: pytest.MonkeyPatch, day: date) -> None:
    class Clock(date):
        @classmethod
        def today(cls) -> date:
            return day

    monkeypatch.setattr(action, "date", Clock)


def prepare(ansible: Ansible, server: Server | None = None, mail: bool = True) -> Path:
    assert ansible.site is not None
    about = {"host": "127.0.0.1", "port": server.port if server else 9, "security": "none", "sender": "gpu@example.org"}
    (ansible.site / "gpuadmin.yml").write_text(json.dumps({"name": "test", **({"mail": about} if mail else {})}))
    (ansible.site / "users.yml").write_text(USERS)
    ansible.answer = RunResult({name: HostResult("changed") for name in ("node1", "node2")})
    return ansible.site


def given(invocation: Invocation) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = invocation.variables["gpuadmin_announcements"]
    return found


def announced(cli: Cli) -> list[dict[str, Any]]:
    code, out, err = cli("announce", "--list", "--json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)["result"]["announcements"]
    return found


@pytest.mark.holds("who is locked is announced nothing")
def test_mails_and_logins(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    prepare(ansible, server)
    code, out, err = cli(*TEXTS, "--yes")
    assert code == 0, err
    assert f"at login, on {TODAY}: No power" in out
    assert "silent" in out
    assert server.recipients == ["minji@example.org", "jiho@example.org"]
    assert server.messages[0]["Subject"] == "[test] 정전 / [test] No power"
    assert "28일 9시부터" in server.messages[0].get_content()
    (invocation,) = ansible.asked
    assert (invocation.playbook, invocation.limit) == ("announce", "node1,node2")
    (entry,) = given(invocation)["node1"]
    assert entry["text"] == "*** test: 정전\n28일 9시부터\n\n*** test: No power\non the 28th"
    days = (datetime(2026, 11, 21), datetime(2026, 11, 22))
    assert (entry["begin"], entry["end"]) == tuple(day.timestamp() for day in days)
    # the same again reaches hosts that were away, and mails nobody twice
    code, _, err = cli(*TEXTS, "--yes")
    assert code == 0, err
    assert len(server.mails) == 2
    assert given(ansible.asked[1]) == given(invocation)
    assert [one["state"] for one in announced(cli)] == ["announced"]


def test_it_is_seen_first(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible)
    before = {path for path in site.rglob("*") if path.is_file()}
    code, out, err = cli(*TEXTS, "--preview")
    assert code == 0, err
    assert "To: minji@example.org, jiho@example.org (2 mails, one to each)" in out
    assert out.count("\n28일 9시부터\n") == 1, "the same words once, and not beside the mails as well"
    assert ansible.asked == []
    code, out, err = cli(*TEXTS, "--check")
    assert code == 0, err
    assert [invocation.check for invocation in ansible.asked] == [True]
    assert cli(*TEXTS)[0] == 5, "nobody confirmed it"
    assert {path for path in site.rglob("*") if path.is_file() and "runs" not in path.parts} == {
        path for path in before if "runs" not in path.parts
    }
    assert announced(cli) == []


def test_two_at_once_and_one_is_taken_back(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible, mail=False)
    first = ["announce", "--ko", "하나", "--en", "One", "--until", str(TODAY), "--on", "node1", "--yes"]
    _, out, _ = cli(*first)
    assert "gpuadmin.yml has no `mail`: nobody is mailed" in out
    cli("announce", "--ko", "둘", "--en", "Two", "--until", str(TODAY + timedelta(days=3)), "--yes")
    assert {host: len(found) for host, found in given(ansible.asked[1]).items()} == {"node1": 2, "node2": 1}
    name = announced(cli)[0]["id"]
    ansible.answer = RunResult({"node1": HostResult("unreachable", message="away")})
    code, _, err = cli("announce", "--take-back", name[:-1], "--yes")
    assert code == 4, err
    assert announced(cli)[0]["state"] == "announced", "a node shows it still: the same again goes on"
    ansible.answer = RunResult({"node1": HostResult("changed")})
    code, _, err = cli("announce", "--take-back", name, "--yes")
    assert code == 0, err
    assert [entry["text"] for entry in given(ansible.asked[-1])["node1"]] == ["*** test: 둘\n\n*** test: Two"]
    assert [one["state"] for one in announced(cli)] == ["taken back", "announced"]
    code, _, err = cli("announce", "--take-back", name, "--yes")
    assert code == 2
    assert "there is no announcement" in err


@pytest.mark.holds("of two announcements that begin so none is taken back")
def test_a_beginning_names_one_announcement(tmp_path: Path) -> None:
    record = Announcements.of(tmp_path)
    one = Announcement("ab1", {}, TODAY, TODAY, ())
    record._all = {"ab1": one, "ab2": replace(one, id="ab2")}
    assert record.find("ab2").id == "ab2"
    for name in ("ab", "", "x"):
        with pytest.raises(ConfigError):
            record.find(name)


@pytest.mark.holds("an announcement is the same one after midnight")
def test_it_goes_on_after_midnight(
    ansible: Ansible, cli: Cli, serve: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun before midnight is the same announcement after it: one at login, and one mail."""
    server = serve()
    prepare(ansible, server)
    later = [*TEXTS[:6], str(TODAY + timedelta(days=3)), "--yes"]
    ansible.answer = RunResult({"node1": HostResult("changed"), "node2": HostResult("unreachable", message="away")})
    assert cli(*later)[0] == 4

    set_day(monkeypatch, TODAY + timedelta(days=1))
    ansible.answer = RunResult({name: HostResult("changed") for name in ("node1", "node2")})
    code, _, err = cli(*later)
    assert code == 0, err
    assert given(ansible.asked[1]) == given(ansible.asked[0])
    assert len(announced(cli)) == 1
    assert len(server.mails) == 2


@pytest.mark.holds("the same texts are mailed once, for whichever nodes")
def test_a_host_that_is_gone_from_the_site(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    """Its node is taken out of the inventory; nobody is mailed the same texts again, and it can be taken back."""
    server = serve()
    site = prepare(ansible, server)
    assert cli(*TEXTS, "--yes")[0] == 0
    inventory = site / "inventory" / "hosts.yml"
    found = yaml.safe_load(inventory.read_text())
    del found["all"]["children"]["gpu"]["hosts"]["node2"]
    inventory.write_text(yaml.safe_dump(found))
    ansible.answer = RunResult({"node1": HostResult("changed")})
    code, _, err = cli(*TEXTS, "--yes")
    assert code == 0, err
    assert ansible.asked[-1].limit == "node1"
    assert len(given(ansible.asked[-1])["node1"]) == 1, "nobody reads it twice"
    assert len(server.mails) == 2
    for one in announced(cli):
        assert cli("announce", "--take-back", one["id"], "--yes")[0] == 0
    assert given(ansible.asked[-1]) == {"node1": []}
    assert {one["state"] for one in announced(cli)} == {"taken back"}


def test_who_interrupts_it_sends_no_mail(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    prepare(ansible, server)
    ansible.answer = RunResult({"node1": HostResult("changed")}, interrupted=True)
    assert cli(*TEXTS, "--yes")[0] == 130
    assert server.mails == []
    ansible.answer = RunResult({name: HostResult("changed") for name in ("node1", "node2")})
    assert cli(*TEXTS, "--yes")[0] == 0
    assert len(server.mails) == 2
    assert len(announced(cli)) == 1


def test_it_is_not_taken_back_where_limit_leaves_it(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible, mail=False)
    cli(*TEXTS, "--yes")
    name = announced(cli)[0]["id"]
    ansible.answer = RunResult({"node1": HostResult("changed")})
    code, out, err = cli("announce", "--take-back", name, "--limit", "node1", "--yes")
    assert code == 0, err
    assert "it stays on node2, which --limit leaves out" in out
    assert announced(cli)[0]["state"] == "announced"


def test_who_is_on_some_hosts(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    prepare(ansible, server)
    status = {"people": ["jiho", "stranger"], "gpu_people": [], "unknown": {}}
    ansible.answer = RunResult({"node2": HostResult("ok", reports={"status": status})})
    code, out, err = cli(*TEXTS, "--on", "node2", "--yes")
    assert code == 0, err
    assert server.recipients == ["jiho@example.org"]
    assert "node2" in server.messages[0].get_content()
    assert "not in users.yml, so not mailed: stranger" in out
    assert [(one.playbook, one.check, one.limit) for one in ansible.asked] == [
        ("status", True, "node2"), ("announce", False, "node2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        HostResult("unreachable", message="away"),
        HostResult("ok", reports={"status": {"people": None, "gpu_people": []}}),
    ],
    ids=["away", "it cannot say"],
)
def test_who_is_there_is_not_known(ansible: Ansible, cli: Cli, serve: StartServer, answer: HostResult) -> None:
    server = serve()
    prepare(ansible, server)
    ansible.answer = RunResult({"node2": answer})
    code, out, _ = cli(*TEXTS, "--on", "node2", "--yes")
    assert code == 4
    assert "nobody knows who is on it" in out
    assert server.mails == []


def test_a_host_that_is_away_keeps_no_mail_back(ansible: Ansible, cli: Cli, serve: StartServer) -> None:
    server = serve()
    prepare(ansible, server)
    ansible.answer = RunResult({"node1": HostResult("changed"), "node2": HostResult("unreachable")})
    code, _, _ = cli(*TEXTS, "--yes")
    assert code == 4
    assert len(server.mails) == 2


def test_texts_from_files(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    prepare(ansible, mail=False)
    for language, text in (("ko", "\ufeff정전\r\n\r\n내일"), ("en", "No power\n\ttomorrow\n")):
        (tmp_path / language).write_text(text, newline="")
    code, _, err = cli(
        "announce", "--ko", f"@{tmp_path / 'ko'}", "--en", f"@{tmp_path / 'en'}", "--until", str(TODAY), "--yes"
    )
    assert code == 0, err
    assert announced(cli)[0]["texts"] == {"ko": "정전\n\n내일", "en": "No power\n    tomorrow"}


WRONG = {
    "one language": (["announce", "--ko", "정전", "--until", str(TODAY)], "--en: the text is missing"),
    "a template": ([*TEXTS[:4], "{{ x }}", "--until", str(TODAY)], "--en: line 1: holds the template marker"),
    "a control sequence": (
        [*TEXTS[:4], "x\x1b[2J", "--until", str(TODAY)],
        "--en: line 1: holds the control character",
    ),
    "too long": ([*TEXTS[:4], "x\n" * 41, "--until", str(TODAY)], "--en: has 41 lines"),
    "no end": (TEXTS[:5], "--until is missing"),
    "the past": ([*TEXTS[:6], "2020-01-01"], "--until 2020-01-01: is in the past"),
    "begun and over": ([*TEXTS[:6], "2020-01-02", "--from", "2020-01-01"], "--until 2020-01-02: is in the past"),
    "before it begins": ([*TEXTS, "--from", str(TODAY + timedelta(days=1))], "is before --from "),
    "no node": ([*TEXTS, "--on", "storage1"], "this names no node"),
    "no such host": ([*TEXTS, "--on", "nowhere"], "--on nowhere: names no host"),
    "no such file": ([*TEXTS[:4], "@/nowhere/x", "--until", str(TODAY)], "--en: /nowhere/x: No such file"),
    "nothing": (["announce"], "give the texts"),
    "two things": ([*TEXTS, "--list"], "give the texts"),
}


@pytest.mark.holds("an announcement is a template of nobody", "an announcement that is over is refused")
@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused(ansible: Ansible, cli: Cli, arguments: list[str], words: str) -> None:
    site = prepare(ansible, mail=False)
    code, _, err = cli(*arguments, "--yes")
    assert code == 2, err
    assert words in err
    assert ansible.asked == []
    assert not (site / "announcements.jsonl").exists()


def test_a_damaged_record(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible, mail=False)
    cli(*TEXTS, "--yes")
    record = site / "announcements.jsonl"
    whole = record.read_text()
    record.write_text(whole + '{"torn": ')
    assert len(announced(cli)) == 1, "a crash while it was written"
    cli("announce", "--ko", "하나", "--en", "One", "--until", str(TODAY), "--yes")
    assert len(announced(cli)) == 2
    record.write_text("{}\n" + whole)
    code, _, err = cli(*TEXTS, "--yes")
    assert code == 2
    assert "announcements.jsonl:1: is damaged" in err


def test_the_dashboard_has_what_is_announced_on_any_node(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible, mail=False)
    hosts = yaml.safe_load((site / "inventory/hosts.yml").read_text())
    hosts["all"]["children"]["monitor"] = {"hosts": {"watch": {"ansible_host": "127.0.0.1"}}}
    (site / "inventory/hosts.yml").write_text(yaml.safe_dump(hosts))
    for name, words in (("node1", "One"), ("node2", "Two")):
        ansible.answer = RunResult({host: HostResult("changed") for host in (name, "watch")})
        code, out, err = cli(
            "announce", "--ko", "정전", "--en", words, "--until", str(TODAY), "--on", name, "--yes"
        )  # fmt: skip
        assert code == 0, err
        assert "on the dashboard, and its page without a login" in out
    found = given(ansible.asked[1])
    assert {host: len(entries) for host, entries in found.items()} == {"node2": 1, "watch": 2}
    assert ansible.asked[1].limit == "node2,watch"
    name = announced(cli)[0]["id"]
    ansible.answer = RunResult({host: HostResult("changed") for host in ("node1", "watch")})
    code, out, err = cli("announce", "--take-back", name, "--yes")
    assert code == 0, err
    assert "no longer shown on the dashboard" in out
    left = given(ansible.asked[2])
    assert left["node1"] == []
    assert [entry["text"].endswith("Two") for entry in left["watch"]] == [True]


def test_without_a_dashboard_its_host_is_left_alone(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible, mail=False)
    hosts = yaml.safe_load((site / "inventory/hosts.yml").read_text())
    hosts["all"]["children"]["monitor"] = {"hosts": {"watch": {"ansible_host": "127.0.0.1"}}}
    (site / "inventory/hosts.yml").write_text(yaml.safe_dump(hosts))
    (site / "gpuadmin.yml").write_text(json.dumps({"name": "test", "metrics": {"dashboard": {"enabled": False}}}))
    assert cli(*TEXTS, "--yes")[0] == 0
    assert "watch" not in given(ansible.asked[0])


def test_the_list_says_where_nobody_reads_it_yet(ansible: Ansible, cli: Cli) -> None:
    """Power was off: it is recorded, and no node shows it."""
    prepare(ansible, mail=False)
    away = HostResult("unreachable", message="does not answer (timed out)")
    ansible.answer = RunResult({"node1": away, "node2": away})
    assert cli(*TEXTS, "--yes")[0] == 4
    assert [one["state"] for one in announced(cli)] == ["on no node yet"]
    assert announced(cli)[0]["reached"] == []
    ansible.answer = RunResult({"node1": HostResult("changed"), "node2": away})
    assert cli(*TEXTS, "--yes")[0] == 4
    assert [one["state"] for one in announced(cli)] == ["not yet on node2"]
    ansible.answer = RunResult({"node1": HostResult("ok"), "node2": HostResult("changed")})
    assert cli(*TEXTS, "--yes")[0] == 0
    assert [one["state"] for one in announced(cli)] == ["announced"]
    assert announced(cli)[0]["reached"] == ["node1", "node2"]


def test_what_an_earlier_version_recorded_is_announced(ansible: Ansible, cli: Cli) -> None:
    """It did not say which nodes it reached."""
    site = prepare(ansible, mail=False)
    line = {"event": "announced", "id": "a1b2c3d4", "begin": str(TODAY), "until": str(TODAY), "hosts": ["node1"]}
    (site / "announcements.jsonl").write_text(json.dumps({**line, "texts": {"en": "x", "ko": "x"}}) + "\n")
    assert [(one["state"], one["reached"]) for one in announced(cli)] == [("announced", None)]


@pytest.mark.parametrize("reached", ['"node1"', "[1]", "{}"])
def test_a_record_that_says_nothing_of_nodes_is_damaged(ansible: Ansible, cli: Cli, reached: str) -> None:
    site = prepare(ansible, mail=False)
    (site / "announcements.jsonl").write_text(f'{{"event": "reached", "id": "a1b2c3d4", "hosts": {reached}}}\n')
    code, _, err = cli("announce", "--list")
    assert (code, "announcements.jsonl:1: is damaged" in err) == (2, True), err
