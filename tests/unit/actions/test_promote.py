"""`gpuadmin promote`: whose copy is served, what keeps two hosts from serving, and what a run goes on with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.actions.shared.metrics import SECRET
from gpuadmin.announcements import Announcements
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.promotion import READ_ONLY, WRITES
from gpuadmin.results import HostResult, RunResult
from tests.support.copies import COPIES, FIRST, PEOPLE, SECOND, THIRD, backup, home
from tests.support.fake_ansible import Cli
from tests.support.sites import make_site

AWAY = HostResult("unreachable", message="timed out")
HOSTS = """# of our site
all:
  children:
    gpu: {hosts: {gpu1: {}, gpu2: {}}}
    storage:
      hosts:
        nas1: {ansible_host: 10.0.0.1, bmc: {address: 10.9.0.1}}  # the big one
    backup:
      hosts:
        nas2:
          # in the cellar
          ansible_host: 10.0.0.2
# the end
"""
USERS = "users:\n" + "".join(f"  - {{name: {name}, uid: {uid}}}\n" for name, uid in PEOPLE.items())


class Site:
    """Answers for Ansible. `serves`: who reaches the old one's NFS port; `bad`: which tasks or playbooks fail."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[Invocation] = []
        self.serves: set[str] = set()
        self.up = {"nas2", "gpu1"}
        self.bad: set[str] = set()
        self.copies = COPIES
        self.own: list[dict[str, Any]] = []  # the old host's backups
        self.cut: set[str] = set()  # playbooks that somebody interrupts
        self.meanwhile: Callable[[], object] = lambda: None  # what somebody does while homes are made
        self.switched: set[str] = set()  # who mounts nothing from the old one any more

    @property
    def done(self) -> list[tuple[str, str | None]]:
        """What was done, where."""
        return [(str(one.playbook), one.limit) for one in self.asked if not one.check]

    @property
    def hosts(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.directory / "inventory/hosts.yml").read_text())["all"]["children"]
        return {name: found[name]["hosts"] for name in ("storage", "backup")}

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        self.asked.append(invocation)
        tasks = str(invocation.variables.get("gpuadmin_promote_tasks", invocation.playbook))
        hosts = {name: self._answer(name, tasks) for name in (invocation.limit or "").split(",")}
        return RunResult(hosts, interrupted=tasks in self.cut)

    def _answer(self, name: str, tasks: str) -> HostResult:
        if name not in self.up:
            return AWAY
        if tasks in self.bad:
            return HostResult("failed", message="no room")
        if tasks == "promote":
            self.meanwhile()
        if tasks != "look":
            self.switched |= {name} if tasks == "provision" else set()
            return HostResult("changed", ["x"])
        mounts = [] if name in self.switched else ["/home"]
        held = {"minji": ["vim (7)"]} if name == "gpu1" else {}
        return HostResult("ok", reports={
            "facts": {"backups": self.copies if name == "nas2" else self.own},
            "former_homes": {"answers": name in self.serves, "mounts": mounts, "held": held},
        })  # fmt: skip


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    directory = make_site(tmp_path / "site", USERS)
    (directory / "inventory/hosts.yml").write_text(HOSTS)
    found = Site(directory)
    monkeypatch.setattr("gpuadmin.ansible.runner.run", found.run)
    monkeypatch.setenv("GPUADMIN_SITE", str(directory))
    return found


PROMOTED = {
    "storage": {"nas2": {"ansible_host": "10.0.0.2", "backups_directory": "/srv/backups"}},
    "backup": {"nas1": {"ansible_host": "10.0.0.1", "bmc": {"address": "10.9.0.1"},
                        "backups_directory": "/srv/storage/copies"}},
}  # fmt: skip


def test_it_is_shown_and_done_in_order(there: Site, cli: Cli) -> None:
    code, out, err = cli("promote", "nas2", "--check")
    assert code == 0, err
    for words in (
        "2 homes as of 2026-12-22", "inventory/hosts.yml: nas2 is in storage, nas1 in backup",
        "gpu1: minji has files open by vim (7)", "yuna begins with an empty home: there is no copy",
        "gpu2 does not mount again (timed out)", "gpuadmin power off nas1",
    ):  # fmt: skip
        assert words in out
    assert (there.done, (there.directory / "inventory/hosts.yml").read_text()) == ([], HOSTS)
    code, out, err = cli("promote", "nas2", "--yes")
    assert code == 4, out + err  # gpu2 is away
    assert there.done == [("promote", "nas2"), ("announce", "gpu1"), ("provision", "gpu1,gpu2,nas2")]
    staged, _, provisioned = (one.variables for one in there.asked if not one.check)
    assert staged["gpuadmin_promote"] == {"former": "nas1", "homes": {"minji": SECOND, "jiho": FIRST, "_slurm": SECOND}}
    former = provisioned["gpuadmin_former"]
    assert (former["server"], former["above"]) == ("10.0.0.1", "/srv/storage")
    assert "The storage host failed" in former["message"]
    assert WRITES not in former["message"]
    assert READ_ONLY not in former["message"]
    assert "스토리지 서버에 장애" in former["message"]
    assert there.hosts == PROMOTED
    text = (there.directory / "inventory/hosts.yml").read_text()
    assert [
        line for line in ("# of our site", "# the big one", "# in the cellar", "# the end") if line not in text
    ] == []


def test_homes_are_made_where_no_node_has_them_mounted(there: Site, cli: Cli) -> None:
    """All nodes are off, as after a power cut: who comes first would find no homes."""
    there.up = {"nas2"}
    code, _out, err = cli("promote", "nas2", "--yes")
    assert code == 4, err
    (made,) = [one for one in there.asked if one.playbook == "promote" and not one.check]
    assert made.variables["gpuadmin_promote"]["homes"].keys() == {"minji", "jiho", "_slurm"}
    assert there.hosts == PROMOTED


def test_what_a_run_would_do_is_asked_first(there: Site, cli: Cli) -> None:
    """The backup host says in the plan what it would rename, before anybody agrees."""
    _code, out, _err = cli("promote", "nas2", "--check")
    asked = [one.variables.get("gpuadmin_promote_tasks") for one in there.asked]
    assert asked[:2] == ["look", "promote"]
    assert "nas2   would change   x" in out


@pytest.mark.holds("what was written there meanwhile stays")
def test_what_an_admin_writes_into_the_inventory_meanwhile_stays(there: Site, cli: Cli) -> None:
    file = there.directory / "inventory/hosts.yml"
    there.meanwhile = lambda: file.write_text(HOSTS.replace("gpu2: {}", "gpu2: {}, gpu3: {}"))
    assert cli("promote", "nas2", "--yes")[0] == 4
    assert there.hosts == PROMOTED
    assert "gpu3: {}" in file.read_text()


@pytest.mark.holds("a host that serves by itself, and was not promoted, changes no places of copies")
def test_the_storage_host_itself_is_the_wrong_name(there: Site, cli: Cli) -> None:
    there.up |= {"nas1", "gpu2"}
    there.switched = {"gpu1", "gpu2"}  # nobody has homes from nas2
    code, _out, err = cli("promote", "nas1", "--yes")
    assert (code, there.done, (there.directory / "inventory/hosts.yml").read_text()) == (2, [], HOSTS)
    assert "nas1 serves the homes already" in err
    assert "the host to promote is nas2" in err


def test_it_is_about_all_hosts(there: Site, cli: Cli) -> None:
    code, _out, err = cli("promote", "nas2", "--yes", "--limit", "gpu1")
    assert (code, there.asked) == (2, [])
    assert "--limit" in err


def test_the_plan_says_what_is_left_behind(there: Site, cli: Cli) -> None:
    """The old one answers, and its NFS server is stopped."""
    there.up |= {"nas1"}
    there.own = [backup(THIRD, minji=home(20000))]
    code, out, err = cli("promote", "nas2", "--yes")
    assert code == 4, err
    for words in (
        f"minji: nas1 has a newer backup, {THIRD}, of which nas2 has no copy", "images are on nas1",
        "what was saved after these copies, the attic", "when nas1 is back: gpuadmin provision makes it",
        "gpu1\n    mounts them from there without a reboot; people are told",
    ):  # fmt: skip
        assert words in out
    assert "nas2\n    mounts them" not in out
    # what people read stays, whatever is announced next; and who has not been told is known
    kept = Announcements.of(there.directory)
    (one,) = kept
    assert "The storage host failed" in one.texts["en"]
    assert kept.reached(one) == ["gpu1"]


def test_nothing_is_done_while_the_old_one_serves(there: Site, cli: Cli) -> None:
    there.serves = {"gpu1"}
    code, _out, err = cli("promote", "nas2", "--yes")
    assert code == 5
    assert "nas1 serves: its NFS port answers gpu1" in err
    assert (there.done, there.hosts["storage"].keys()) == ([], {"nas1"})


@pytest.mark.holds("homes are served from elsewhere once that is confirmed")
def test_it_is_asked(there: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"gpuadmin.session.sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    assert cli("promote", "nas2")[0] == 5
    assert (there.done, there.hosts["storage"].keys()) == ([], {"nas1"})


@pytest.mark.holds("the inventory names a host that has its homes")
def test_what_was_cut_goes_on(there: Site, cli: Cli) -> None:
    there.up |= {"gpu2"}
    there.bad = {"promote"}
    assert cli("promote", "nas2", "--yes")[0] == 3
    assert there.hosts["storage"].keys() == {"nas1"}
    there.bad = {"provision"}
    assert cli("promote", "nas2", "--yes")[0] == 3
    assert there.hosts == PROMOTED
    there.bad, there.asked = set(), []
    code, _out, err = cli("promote", "nas2", "--yes")
    assert code == 0, err
    assert there.done == [("announce", "gpu1,gpu2"), ("provision", "gpu1,gpu2,nas2")], "homes are not made anew"
    assert there.hosts == PROMOTED
    # the old one is back: provision has taken its export away
    there.up |= {"nas1"}
    assert cli("promote", "nas2", "--yes")[0] == 0
    assert there.done[-1] == ("provision", "gpu1,gpu2,nas2,nas1")


def test_first_people_only_read(there: Site, cli: Cli) -> None:
    there.up |= {"gpu2"}
    code, out, err = cli("promote", "nas2", "--read-only", "--yes")
    assert code == 0, err
    assert "people can read\n" in out
    assert there.hosts["storage"]["nas2"]["homes_read_only"] is True
    assert READ_ONLY in there.asked[-1].variables["gpuadmin_former"]["message"]
    code, out, err = cli("promote", "nas2", "--read-only", "--yes")
    assert code == 0, err
    assert there.asked[-1].variables["gpuadmin_former"]["message"] == READ_ONLY
    code, out, err = cli("promote", "nas2", "--yes")
    assert code == 0, err
    assert there.hosts == PROMOTED
    assert there.asked[-1].variables["gpuadmin_former"]["message"] == WRITES


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("nas2:\n", "nas3:\n"), "no such host: nas2"),
        (("    backup:\n", "    monitor:\n"), "nas2 cannot be promoted"),
        (("        nas1: {", "        nas0: {}\n        nas1: {"), "nas2 cannot be promoted"),
        (("gpu: {hosts: {", "old: {hosts: {nas1: {}}}\n    gpu: {hosts: {"), ""),
        (("    storage:\n      hosts:\n", "    storage: {children: {big: {}}}\n    big:\n      hosts:\n"), "by hand"),
    ],
)
def test_what_cannot_be_edited_is_refused(there: Site, cli: Cli, change: tuple[str, str], words: str) -> None:
    (there.directory / "inventory/hosts.yml").write_text(HOSTS.replace(*change))
    code, _out, err = cli("promote", "nas2", "--check")
    assert (code == 0) == (not words), err
    assert words in err


def test_nothing_follows_where_somebody_interrupts(there: Site, cli: Cli) -> None:
    there.cut = {"announce"}
    assert cli("promote", "nas2", "--yes")[0] != 0
    assert there.done == [("promote", "nas2"), ("announce", "gpu1")]


def test_a_host_without_copies_has_nothing_to_serve(there: Site, cli: Cli) -> None:
    there.copies = []
    code, _out, err = cli("promote", "nas2", "--yes")
    assert (code, there.done) == (2, [])
    assert "nas2 has no copy of any home" in err


def change(there: Site, section: str, name: str, value: str) -> None:
    file = there.directory / "gpuadmin.yml"
    found = yaml.safe_load(file.read_text())
    found.setdefault(section, {})[name] = value
    file.write_text(yaml.safe_dump(found))


@pytest.mark.parametrize(("server", "words"), [("nas1", "nas2 cannot be promoted"), ("nas2", "")])
def test_a_site_that_names_its_server(there: Site, cli: Cli, server: str, words: str) -> None:
    change(there, "homes", "server", server)
    code, _out, err = cli("promote", "nas2", "--check")
    assert (code, words in err) == (2 if words else 0, True), err


def test_a_site_whose_accounts_a_directory_has(there: Site, cli: Cli) -> None:
    """All have their homes of whom there are copies: users.yml names nobody."""
    change(there, "accounts", "source", "directory")
    (there.directory / "users.yml").write_text("users: []\n")
    code, out, err = cli("promote", "nas2", "--check")
    assert code == 0, err
    assert "junho" in out
    assert "minji.restored-x" in out


def test_the_sites_secret_is_kept(there: Site, cli: Cli) -> None:
    """Of which the certificates are that `provision` gives hosts."""
    hosts = HOSTS + "    monitor: {hosts: {mon1: {}}}\n"
    (there.directory / "inventory/hosts.yml").write_text(hosts.replace("# the end\n", ""))
    there.up |= {"mon1", "gpu2"}
    assert cli("promote", "nas2", "--yes")[0] == 0
    assert (there.directory / SECRET).exists()


@pytest.mark.holds("an inventory that would name two storage hosts is not written")
def test_an_inventory_of_several_files_is_read_whole(there: Site, cli: Cli) -> None:
    (there.directory / "inventory/more.yml").write_text("storage: {hosts: {nas1: {}}}\n")
    code, _out, err = cli("promote", "nas2", "--yes")
    assert (code, there.done) == (2, [])
    assert "is not in storage alone" in err
