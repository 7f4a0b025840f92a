"""adopt as a whole, on hosts that answer as they are told: the files that it writes, and what it leaves alone."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.cli import cli
from gpuadmin.config.check import findings
from gpuadmin.config.load import load_site
from gpuadmin.errors import ConfigError
from gpuadmin.host_keys import HostKey
from gpuadmin.results import HostResult, RunResult
from gpuadmin.takeover.actions.adopt import _kinds
from gpuadmin.takeover.actions.shared import outside
from gpuadmin.takeover.adoption.conflict import Conflict
from tests.support.adoptable import ANSWER, ROOT, account, homes, host, keys, storage
from tests.support.sites import public_key

Answers = dict[str, Mapping[str, Any]]
Run = Callable[..., Any]


class Hosts:
    """Hosts that answer; those in `closed` let nobody become root. `asked`: how each look was made."""

    def __init__(self) -> None:
        self.answers: Answers = {"gpu1": host().answer, "nas1": storage().answer}
        self.closed: set[str] = set()
        self.asked: list[tuple[set[str], Any]] = []

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        names = set((invocation.limit or "").split(","))
        become = invocation.variables.get("ansible_become")
        self.asked.append((names, become))
        assert invocation.check, "hosts are only looked at"
        return RunResult({name: self._answer(name, become) for name in names})

    def _answer(self, name: str, become: object) -> HostResult:
        if name in self.closed and become:
            return HostResult("failed", message="Missing sudo password")
        if name not in self.answers:
            return HostResult("unreachable", message="does not answer (timed out)")
        return HostResult("ok", reports={"adoption": self.answers[name]})


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hosts:
    found = Hosts()
    kind, blob = public_key("host").split()[:2]
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    monkeypatch.setattr("gpuadmin.ansible.runner.run", found.run)
    monkeypatch.setattr(
        "gpuadmin.actions.trust.fetch_host_keys",
        lambda hosts: [HostKey(one.name, one.address, one.port, kind, blob) for one in hosts],
    )
    return found


@pytest.fixture
def adopt(there: Hosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the verb on tmp_path/lab; returns its document."""

    def run(*arguments: str, code: int = 0) -> Any:
        given = ["adopt", "--site", str(tmp_path / "lab"), "--yes", "--json", *arguments]
        capsys.readouterr()
        ended = cli.main(given, standalone_mode=False)
        out, err = capsys.readouterr()
        assert ended == code, out + err
        return json.loads(out)

    return run


def everything(directory: Path) -> dict[str, str]:
    files = (one for one in directory.rglob("*") if one.is_file() and "runs" not in one.parts)
    return {str(one.relative_to(directory)): one.read_text() for one in files}


def test_a_site_that_check_accepts(adopt: Run, tmp_path: Path) -> None:
    found = adopt("gpu1=10.0.0.1:2222", "nas1")["result"]
    site = load_site(str(tmp_path / "lab"))
    assert [one for one in findings(site) if one.level == "error"] == []
    assert {one.name: set(one.groups) for one in site.inventory.hosts} == {
        "gpu1": {"gpu", "golden"}, "nas1": {"storage"},
    }  # fmt: skip
    assert [(user.name, user.uid, len(user.keys)) for user in site.registry.registry.users] == [
        ("minji", 1001, 1), ("jiho", 1002, 0),
    ]  # fmt: skip
    assert (site.settings.accounts.uid_first, site.settings.homes.export) == (1000, "/srv/homes")
    assert site.inventory.named(["gpu1"])[0].port == 2222
    assert "[10.0.0.1]:2222 " in site.known_hosts.read_text()
    assert "10.0.0.1" in (tmp_path / "lab/inventory/hosts.yml").read_text()
    assert set(found["written"]) >= {"gpuadmin.yml", "users.yml", "known_hosts", "adoption.md", "adoption.json"}
    assert len([one for one in (tmp_path / "lab/runs").iterdir() if one.is_dir()]) == 1, "its record is the site's"


def test_a_second_run_finds_nothing_and_writes_nothing(adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1")
    before = everything(tmp_path / "lab")
    found = adopt()["result"]
    assert (found["new"], found["written"]) == ({"hosts": [], "people": [], "conflicts": []}, [])
    assert everything(tmp_path / "lab") == before


def test_a_later_run_adds_what_is_new_and_leaves_what_people_wrote(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1")
    users = tmp_path / "lab/users.yml"
    users.write_text(users.read_text().replace("name: minji", "name: minji  # head of the lab"))
    settings = tmp_path / "lab/gpuadmin.yml"
    settings.write_text(settings.read_text() + "# ours\n")
    accounts = [ROOT, account("minji", 1001), account("yuna", 1003), account("ham", 1002)]
    there.answers["gpu2"] = host("gpu2", accounts=accounts, keys={"yuna": keys(public_key("minji"))}).answer
    found = adopt("gpu2")["result"]
    assert found["new"]["hosts"] == ["gpu2"]
    assert found["new"]["people"] == ["yuna", "ham"]
    site = load_site(str(tmp_path / "lab"))
    uids = {user.name: user.uid for user in site.registry.registry.users}
    assert (uids["yuna"], uids["jiho"]) == (1003, 1002)
    assert uids["ham"] not in (1001, 1002, 1003), "a uid that somebody of the site has is not a newcomer's"
    assert {one.name for one in site.inventory.group("golden")} == {"gpu1"}, "one is golden already"
    assert "# head of the lab" in users.read_text()
    assert settings.read_text().endswith("# ours\n")
    by_name = {user.name: user for user in site.registry.registry.users}
    assert by_name["yuna"].keys == [], "a key of somebody's who is registered is not another's"


@pytest.mark.holds("who was removed from a site is not adopted again")
def test_who_was_removed_is_not_adopted_again(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1")
    there.answers["gpu1"] = host(accounts=[ROOT, account("minji", 1001), account("jiho", 1050)]).answer
    path = tmp_path / "lab/users.yml"
    kept = path.read_text().partition("  - name: jiho")[0]
    path.write_text(f"{kept}\nretired:\n  - {{name: jiho, uid: 1002, removed: 2026-02-01}}\n")
    assert adopt()["result"]["new"]["people"] == []
    assert "- name: jiho" not in path.read_text()


@pytest.mark.holds("files that are no site's yet are not made one")
def test_files_that_are_there_without_a_site_stay(adopt: Run, tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/users.yml").write_text("users: [{name: boss, uid: 20000}]\n")
    with pytest.raises(ConfigError, match="is there already"):
        adopt("gpu1", "nas1")
    assert list(everything(tmp_path / "lab")) == ["users.yml"]


@pytest.mark.holds("a page that somebody has edited is not written over")
def test_what_people_write_into_the_page_stays(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1")
    page = tmp_path / "lab/adoption.md"
    page.write_text(page.read_text() + "\nAsked jiho on Monday.\n")
    there.answers["gpu1"] = host(groups=[{"name": "docker", "gid": 990, "members": ["minji"]}]).answer
    (written, _document) = adopt()["result"]["written"]
    assert page.read_text().endswith("Asked jiho on Monday.\n")
    assert "In the group docker" in (tmp_path / "lab" / written).read_text()


def test_what_was_settled_is_counted(there: Hosts, adopt: Run) -> None:
    there.answers["gpu1"] = host(groups=[{"name": "docker", "gid": 990, "members": ["minji"]}]).answer
    adopt("gpu1", "nas1")
    there.answers["gpu1"] = host().answer
    found = adopt()["result"]
    assert (found["settled"], found["new"]["conflicts"]) == (1, [])


def report(tmp_path: Path) -> tuple[Any, str]:
    return json.loads((tmp_path / "lab/adoption.json").read_text()), (tmp_path / "lab/adoption.md").read_text()


DOCKER = [{"name": "docker", "gid": 990, "members": ["minji"]}]


def test_one_host_adds_to_the_report_and_replaces_nothing_of_the_others(
    there: Hosts, adopt: Run, tmp_path: Path
) -> None:
    there.answers["gpu1"] = host(groups=DOCKER).answer
    adopt("gpu1", "nas1")
    accounts = [ROOT, account("minji", 1005), account("jiho", 1002)]
    there.answers["gpu2"] = host("gpu2", groups=DOCKER, accounts=accounts).answer
    found = adopt("gpu2")["result"]
    assert found["settled"] == 0
    document, page = report(tmp_path)
    assert set(document["hosts"]) == {"gpu1", "nas1", "gpu2"}
    assert document["people"]["minji"] == {"uid": 1001, "hosts": {"gpu1": 1001, "gpu2": 1005}}
    (docker,) = (one for one in document["conflicts"] if one["kind"] == "in the group docker")
    assert (docker["hosts"], docker["remedies"][0]) == (["gpu2", "gpu1"], "# as root on gpu2, gpu1")
    homes_of_first = [one for one in document["conflicts"] if one["kind"] == "no admin account"]
    assert [line for one in homes_of_first for line in one["remedies"]] == [
        "gpuadmin bootstrap gpu2 --as USER", "gpuadmin bootstrap gpu1 nas1 --as root",
    ]  # fmt: skip
    assert document["uids"].startswith("Hosts agree on the uids of 1 of 2 people")
    assert "Of gpu1, nas1 it has what an earlier look found." in page
    assert page.count("| gpu1 |") == page.count("| nas1 |") == page.count("| gpu2 |") == 1
    # what is settled on one host is settled there, and stays with the others
    there.answers["gpu2"] = host("gpu2", accounts=accounts).answer
    adopt("gpu2")
    (docker,) = (one for one in report(tmp_path)[0]["conflicts"] if one["kind"] == "in the group docker")
    assert (docker["hosts"], bool(docker["looked"])) == (["gpu1"], True)
    # a host that does not answer any more was looked at all the same
    del there.answers["gpu2"]
    adopt(code=4)
    assert set(report(tmp_path)[0]["hosts"]) == {"gpu1", "nas1", "gpu2"}


def test_of_a_damaged_report_nothing_is_taken_over(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1")
    document = report(tmp_path)[0]
    path = tmp_path / "lab/adoption.json"
    odd = ({"hosts": {"gpu1": 7}}, {"conflicts": [{}]}, {"people": []}, {"when": None})
    for text in (*(json.dumps({**document, **damage}) for damage in odd), "[]", "[" * 100_000):
        path.write_text(text)
        adopt("gpu1")
        assert set(report(tmp_path)[0]["hosts"]) == {"gpu1"}


@pytest.mark.holds("of a host that was not looked at nobody says that it agrees")
def test_of_a_host_that_does_not_answer_it_is_not_said_that_it_agrees(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1", "gone", code=4)
    document, page = report(tmp_path)
    assert document["uids"].startswith("The hosts that were looked at agree on the uids of all 2 people")
    assert "gone: not looked at" in document["uids"]
    assert "- The hosts that were looked at agree" in page
    assert load_site(str(tmp_path / "lab")).registry.registry.users[0].keys == [], "nobody knows what it has"
    there.answers["gone"] = host("gone").answer
    adopt("gone")
    assert report(tmp_path)[0]["uids"].startswith("All hosts agree on the uids of all 2 people")


def test_what_one_protected_stays_protected(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1")
    settings = tmp_path / "lab/gpuadmin.yml"
    settings.write_text(settings.read_text().replace("protected: []", "protected: [backup2]"))
    accounts = [ROOT, account("minji", 1001), account("jiho", 1002), account("backup2", 1200)]
    there.answers["gpu1"] = host(accounts=accounts).answer
    found = adopt()["result"]
    assert found["new"]["people"] == []
    (one,) = (one for one in found["conflicts"] if one["people"] == ["backup2"])
    assert (one["level"], "It is under `protected`" in one["words"]) == ("note", True)


def test_a_check_writes_nothing(adopt: Run, tmp_path: Path) -> None:
    adopt("gpu1", "nas1", "--check", code=4)
    assert not (tmp_path / "lab").exists()


@pytest.mark.holds("a host that is in no site is asked when its key is pinned")
def test_a_host_whose_key_is_not_pinned_is_asked_nothing(there: Hosts, adopt: Run) -> None:
    adopt("gpu1", "nas1", "--check", code=4)
    assert there.asked == []


def test_without_root_a_host_is_asked_once_more(there: Hosts, adopt: Run) -> None:
    there.closed = {"gpu1"}
    found = adopt("gpu1", "nas1", "--admin", "minji")["result"]
    assert there.asked == [({"gpu1", "nas1"}, True), ({"gpu1"}, False)]
    assert [one["hosts"] for one in found["conflicts"] if one["kind"] == "read without root"] == [["gpu1"]]


def test_a_host_that_does_not_answer_is_left_out_and_said(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    found = adopt("gpu1", "nas1", "gone", code=4)["result"]
    assert list(found["silent"]) == ["gone"]
    assert {one.name for one in load_site(str(tmp_path / "lab")).inventory.hosts} == {"gpu1", "nas1"}
    there.answers["gone"] = host("gone").answer
    assert adopt("gone")["result"]["new"]["hosts"] == ["gone"]


def test_the_address_of_a_host_that_was_not_looked_at_is_not_forgotten(
    there: Hosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is in no inventory, and the next command needs it."""
    for names in (["gone=127.0.0.1:2203"], ["gpu1", "nas1", "gone=127.0.0.1:2203"], ["gpu1", "gone=127.0.0.1:2203"]):
        assert cli.main(["adopt", "--site", str(tmp_path / "lab"), "--yes", *names], standalone_mode=False) == 4
        assert "Hint: when that is settled: gpuadmin adopt gone=127.0.0.1:2203 …\n" in capsys.readouterr().err


def test_a_conflict_of_no_host_names_none() -> None:
    found = [Conflict("no account", "note", f"{name} has none", people=(name,)) for name in ("kim", "p.alum")]
    assert _kinds(found) == ["no account: 2: kim, p.alum"]
    assert _kinds([replace(one, hosts=("gpu1",)) for one in found]) == ["no account: 2 on gpu1: kim, p.alum"]


def test_no_host_that_answers_makes_no_site(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    there.answers = {}
    adopt("gpu1", code=4)
    assert not (tmp_path / "lab").exists()


def test_a_name_that_is_not_found_is_given_an_address(
    there: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no inventory yet in which somebody could give it one."""
    lost = HostResult("unreachable", message="its name cannot be resolved: give ansible_host in inventory/")
    answer = there._answer
    monkeypatch.setattr(there, "_answer", lambda name, become: lost if name == "lost" else answer(name, become))
    for names in (["lost"], ["gpu1", "nas1", "lost"]):
        assert cli.main(["adopt", "--site", str(tmp_path / "lab"), "--yes", *names], standalone_mode=False) == 4
        assert "gpuadmin adopt lost=ADDRESS …" in capsys.readouterr().err


EVIL = "x\n- {{ lookup('pipe', 'id') }}\n# \x1b[2J <script> | `id` \u202e ```"


def test_a_host_that_lies_writes_data(there: Hosts, adopt: Run, tmp_path: Path) -> None:
    """Whatever it says is a value in the files, or is not in them: the border bounds it, and this escapes it."""
    entry = {"name": EVIL, "kind": "other", "uid": 7, "owner": EVIL, "mode": 0}
    there.answers["gpu1"] = {
        **ANSWER,
        "accounts": [ROOT, account("minji", 1001, gecos=EVIL), account(EVIL, 1004), account("{{x}}", 1005)],
        "homes": [{**homes(source=EVIL), "entries": [entry]}, homes(path="/{{ x }}")],
        "keys": {"minji": keys(f"ssh-ed25519 {EVIL}", f"{public_key('1')} {EVIL}"), EVIL: keys()},
        "sudo": [{"key": EVIL, "words": EVIL}],
        "system": {**ANSWER["system"], "name": EVIL},
    }
    adopt("gpu1", "nas1")
    site = load_site(str(tmp_path / "lab"))
    assert [user.name for user in site.registry.registry.users] == ["minji"]
    for name, text in everything(tmp_path / "lab").items():
        assert not set("\x1b\u202e") & set(text), name
        assert name.startswith("adoption") or "lookup" not in text, name


@pytest.mark.parametrize("word", ["-oProxyCommand=x", "a b", "a=b c", "gpu1:99999", "=x", "../x"])
def test_what_is_no_host_is_refused(word: str, adopt: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        adopt("--", word)
    assert not (tmp_path / "lab").exists()


def test_hosts_as_people_name_them() -> None:
    found = {one.name: dict(one.variables) for one in outside.named(["a", "b=10.0.0.1", "c:22", "d=x.example:2222"])}
    assert found == {
        "a": {}, "b": {"ansible_host": "10.0.0.1"}, "c": {"ansible_port": 22},
        "d": {"ansible_host": "x.example", "ansible_port": 2222},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--identity", "/missing/key"], "--identity: /missing/key is not a file"),
        (["--admin", "-x"], "--admin: '-x' is not the name of an account"),
        (["--admin", "a b"], "--admin: 'a b' is not the name of an account"),
        (["--admin", ""], "--admin: '' is not the name of an account"),
    ],
)
def test_no_host_is_asked_with_a_login_that_cannot_be(there: Hosts, tmp_path: Path, words: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        cli.main(["adopt", "gpu1", "--site", str(tmp_path / "new"), *words], standalone_mode=False)
    assert there.asked == []
