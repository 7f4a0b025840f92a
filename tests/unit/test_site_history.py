"""Two machines and one site: a lock and a history on the storage host, which here is a process of this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuadmin import records, session, site_history
from gpuadmin.actions.runs import runs as show_runs
from gpuadmin.config.load import Site, load_site
from gpuadmin.errors import GpuadminError, RefusedError, UnreachableError
from gpuadmin.options import Options
from gpuadmin.records import Record, list_runs
from gpuadmin.session import opened
from gpuadmin.site_history import SiteHistory, behind, commit_here, declared_account, find_keeper
from tests.support.node_code import write_out
from tests.support.sites import make_site, public_key

PLAN: dict[str, Any] = {"title": "Add minji", "steps": [], "warnings": [], "destroys": False}
ADMINS = [{"name": name, "uid": uid, "keys": [public_key(name)]} for name, uid in (("kim", 700), ("lee", 701))]


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Site, Site]:
    """A site's directories on two machines. Their storage host is this one."""
    node_code, home = write_out(tmp_path / "lib"), f"HOME={tmp_path / 'storage'}"
    command = ("env", home, sys.executable, "-IB", str(node_code / "cli.py"), "site-history")
    monkeypatch.setattr(site_history, "_COMMAND", command)
    real = SiteHistory._open

    def local(self: SiteHistory) -> None:
        self._host = replace(self._host, variables={**self._host.variables, "ansible_connection": "local"})
        real(self)

    monkeypatch.setattr(SiteHistory, "_open", local)
    first, second = (
        load_site(str(make_site(tmp_path / name, settings={"admins": ADMINS}))) for name in ("kims", "lees")
    )
    return first, second


def connect(site: Site) -> SiteHistory:
    host = find_keeper(site)
    assert host is not None
    return SiteHistory(site, host)


@pytest.fixture
def held(sites: tuple[Site, Site]) -> Iterator[SiteHistory]:
    """The lock, held by the first machine."""
    history = connect(sites[0])
    history.take("sync-users")
    history.begin("sync-users")
    yield history
    history.close()


GOING_ON: list[Record] = []


def record(site: Site, *, ended: bool = True, verb: str = "sync-users") -> str:
    made = Record.begin(site.runs, verb, arguments=[verb], check=False, plan=PLAN, account="kim")
    if ended:
        made.finish({"status": "ok", "hosts": {}}, 0)
    GOING_ON.append(made)
    return made.id


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, False), ({"admins": ADMINS[:1]}, False), ({"admins": ADMINS}, True), ({"runs": {"shared": True}}, True),
        ({"admins": ADMINS, "runs": {"shared": False}}, False),
    ],
)  # fmt: skip
def test_only_several_admins_share_a_lock(tmp_path: Path, settings: Mapping[str, Any], kept: bool) -> None:
    assert (find_keeper(load_site(str(make_site(tmp_path, settings=settings)))) is not None) is kept


def test_a_host_that_is_no_storage_host_keeps_no_lock(tmp_path: Path) -> None:
    """Whatever homes.server names: another machine, whose files are older, would look elsewhere."""
    settings = {"admins": ADMINS, "homes": {"server": "node1"}}
    site = load_site(str(make_site(tmp_path, settings=settings)))
    assert site.settings.homes.server == "node1" in {one.name for one in site.inventory.group("gpu")}
    assert find_keeper(site) is None


@pytest.mark.holds("one machine at a time changes a site")
def test_the_second_machine_is_told_who_holds_the_lock(sites: tuple[Site, Site], held: SiteHistory) -> None:
    with pytest.raises(RefusedError) as caught, opened("add-user", Options(site=str(sites[1].directory))):
        pytest.fail("two change the site")
    assert "the site is locked" in caught.value.message
    assert "(sync-users, " in caught.value.message
    assert "storage1 keeps its lock" in caught.value.message
    held.close()
    with opened("add-user", Options(site=str(sites[1].directory))) as run:
        assert run.history is not None


def test_a_controller_that_was_killed_leaves_no_lock_and_is_named(
    sites: tuple[Site, Site], held: SiteHistory, capsys: pytest.CaptureFixture[str]
) -> None:
    held._ssh.kill()
    held._ssh.wait()
    with opened("add-user", Options(site=str(sites[1].directory))):
        pass
    assert "(sync-users, " in (said := capsys.readouterr().err)
    assert "was cut off" in said
    with opened("add-user", Options(site=str(sites[0].directory))):
        pass
    assert "cut off" not in capsys.readouterr().err, "this one ended"


@pytest.mark.holds("a run whose lock another machine has begins nothing more")
def test_a_run_whose_lock_another_machine_has_begins_nothing_more(sites: tuple[Site, Site]) -> None:
    with opened("add-user", Options(site=str(sites[0].directory))) as run:
        assert run.history is not None
        run.history._ssh.kill()
        run.history._ssh.wait()
        other = connect(sites[1])
        other.take("sync-users")
        with pytest.raises(RefusedError, match="the site is locked"):
            run.run("sync-users", ["node1"], {}, check=False)
        other.close()
        run.history.hold("add-user")  # nobody has it: it is taken again
        with pytest.raises(RefusedError):
            connect(sites[1]).take("sync-users")


@pytest.mark.holds("nobody goes on without the site's lock by mistake", "a storage host that hangs is not waited for")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exec sleep 60", "timed out"),
        ("echo 'ssh: connect to host x port 22: No route to host' >&2; exit 255", "cannot be reached"),
        ("echo '{\"gpuadmin\": [1]}'; sleep 60", "timed out"),
        ("yes hello | head -c 100000; exit 1", ""),
    ],
)
def test_a_storage_host_that_is_away_or_hangs_is_asked_about(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    monkeypatch.setattr(site_history, "_COMMAND", ("sh", "-c", command))
    monkeypatch.setattr(site_history, "SECONDS", 0.5)
    begun = time.monotonic()
    options = Options(site=str(sites[1].directory), yes=True)
    with pytest.raises(RefusedError) as caught, opened("add-user", options):
        pytest.fail("it went on without the lock")
    assert time.monotonic() - begun < 20
    assert "the site's lock cannot be taken: storage1" in caught.value.message
    assert why in caught.value.message.lower()
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    monkeypatch.setattr(session, "agree", agree)
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with opened("add-user", options) as run:
        assert run.history is None
    assert len(asked) == 1, "also with --yes"
    with opened("trust", Options(site=str(sites[1].directory), yes=True)):
        pass  # it brings a host as far as that it can be asked


@pytest.mark.holds("a host that has no such lock yet can be provisioned")
def test_a_host_without_such_code_can_be_provisioned(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(site_history, "_COMMAND", ("sh", "-c", "exit 2"))
    with opened("provision", Options(site=str(sites[1].directory), yes=True)):
        pass
    assert "gpuadmin provision brings it" in capsys.readouterr().err


def test_records_are_read_on_every_machine(
    sites: tuple[Site, Site], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    mine, cut, look = record(sites[0]), record(sites[0], ended=False), record(sites[0], verb="status")
    for site in sites:
        assert show_runs(str(site.directory), None, log=False, as_json=False) == 0
    shown = capsys.readouterr().out
    assert shown.count(mine) == 2
    assert " as kim" in shown
    assert shown.count(cut) == 1, "it goes on"
    assert shown.count(look) == 1, "looks at the status stay where they were"
    records.dismiss(sites[1].runs, mine)
    for site in reversed(sites):
        show_runs(str(site.directory), None, log=False, as_json=False)
    assert {run["dismissed"] is not None for run in list_runs(sites[0].runs) if run["id"] == mine} == {True}
    show_runs(str(sites[1].directory), mine, log=False, as_json=True)
    shown = capsys.readouterr().out
    assert json.loads(shown[shown.index("{\n") :])["result"]["run"]["account"] == "kim"


@pytest.mark.holds("a record of this machine is not replaced")
def test_a_record_of_this_machine_is_never_replaced(sites: tuple[Site, Site]) -> None:
    mine = record(sites[0])
    records.receive(sites[0].runs, mine, {"run.json": "{}", "dismissed.json": '{"who": "x", "at": "y"}'})
    (run,) = list_runs(sites[0].runs)
    assert (run["status"], run["dismissed"]["who"]) == ("ok", "x")
    records.receive(sites[1].runs, mine, {"run.json": "{}", "../x": "x"})
    assert sorted(path.name for path in sites[1].runs.rglob("*")) == [mine, "copy", "run.json"]


@pytest.mark.holds("what a machine calls a record is no path", "what another machine calls a record is no path")
@pytest.mark.parametrize("identity", ["../../etc", "20260101T000000-x-0000/..", "", "status"])
def test_what_another_machine_calls_a_record_is_no_path(
    sites: tuple[Site, Site], held: SiteHistory, identity: str
) -> None:
    for asked in ("get", "put"):
        with pytest.raises(GpuadminError, match="no id of a record"):
            held.ask(asked, id=identity, files={"run.json": "{}"}, keep=5)
    with pytest.raises(AssertionError):
        records.receive(sites[0].runs, identity, {"run.json": "{}"})


@pytest.mark.holds("a record that is odd does not keep the lock, or another record, from anybody")
@pytest.mark.parametrize(
    "answer", [{}, {"records": []}, {"records": {"20260101T000000-x-0000": 7}}, {"records": {"../x": ["run.json"]}}]
)
def test_an_odd_history_keeps_the_lock_from_nobody(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch, answer: Mapping[str, Any]
) -> None:
    ask: Callable[..., Mapping[str, Any]] = SiteHistory.ask
    monkeypatch.setattr(SiteHistory, "ask", lambda self, do, **more: answer if do == "list" else ask(self, do, **more))
    with opened("add-user", Options(site=str(sites[1].directory))) as run:
        assert run.history is not None
    assert list_runs(sites[1].runs) == []


@pytest.mark.holds("a storage host whose disk is full is asked about, as one that is away")
def test_a_storage_host_whose_disk_is_full_is_asked_about(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes room there needs the lock as well."""
    full = ("sh", "-c", 'ulimit -f 0; exec "$@"', "-", *site_history._COMMAND)
    monkeypatch.setattr(site_history, "_COMMAND", full)
    options = Options(site=str(sites[1].directory))
    with pytest.raises(RefusedError, match="File too large") as caught, opened("add-user", options):
        pytest.fail("it went on without the lock")
    assert "the site's lock cannot be taken" in caught.value.message
    monkeypatch.setattr(session, "agree", lambda _: True)
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with opened("add-user", options) as run:
        assert run.history is None
        with pytest.raises(RefusedError, match="the site is locked"):
            connect(sites[0]).take("add-user")


def test_a_record_that_the_storage_host_does_not_give_keeps_the_lock_from_nobody(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    connect(sites[0]).close()
    there = tmp_path / "storage/.local/state/gpuadmin-site/runs"
    for name in ("20260101T000000-add-user-0000", "20260103T000000-add-user-0000"):
        (there / name / "log.txt").mkdir(parents=True)
    called_off = there / "20260102T000000-announce-0000"
    called_off.mkdir()
    (called_off / "run.json").write_text("{}")
    with opened("add-user", Options(site=str(sites[1].directory))) as run:
        assert run.history is not None
    assert capsys.readouterr().err.count("the records of other machines: storage1: the site's history: ") == 1
    assert (sites[1].runs / called_off.name / "run.json").exists(), "an older one is fetched all the same"


@pytest.mark.holds("only who holds the lock says who has it")
def test_only_who_holds_the_lock_says_who_has_it(sites: tuple[Site, Site], held: SiteHistory) -> None:
    other = connect(sites[1])
    with pytest.raises(GpuadminError, match="the lock is not held"):
        other.ask("name", holder={"who": "me"})
    with pytest.raises(GpuadminError, match="KeyError"):
        other.ask("delete")
    other.close()


@pytest.mark.holds("a record has no other files than these")
def test_no_more_records_are_kept_than_the_site_says(sites: tuple[Site, Site], tmp_path: Path) -> None:
    held = connect(sites[0])
    for second in range(5):
        held.ask("put", id=f"20260101T00000{second}-add-user-0000", files={"run.json": "{}", "odd": "x"}, keep=2)
    held.close()
    kept = sorted(path.relative_to(tmp_path).name for path in tmp_path.glob("storage/**/runs/*/*"))
    assert kept == ["run.json", "run.json"]


@pytest.mark.holds("the lock of a machine that died is explained")
def test_the_lock_of_a_machine_that_died_is_explained() -> None:
    begun = {"since": "2026-11-03T01:00:00+00:00", "pid": 7}
    holder = {"who": "kim@laptop", "account": "kim2", "verb": "provision", **begun}
    error = site_history._refusal("storage1", {"holder": holder, "silent": 1000.5})
    assert "kim@laptop as kim2 (provision, 2026-11-03" in error.message
    assert "has heard nothing of that machine for 16 minutes" in error.message
    assert error.hint is not None
    assert error.hint.endswith("gpuadmin ssh storage1 kill 7")
    assert "heard" not in site_history._refusal("storage1", {"holder": holder, "silent": 12.0}).message
    assert "somebody" in site_history._refusal("storage1", {"holder": {"pid": "\x1b[2J"}, "silent": "x"}).message


def git(site: Site, *words: str) -> None:
    identity = ("-c", "user.name=kim", "-c", "user.email=kim@example.org")
    subprocess.run(["git", "-C", site.directory, *identity, *words], check=True, capture_output=True)


def test_a_repository_that_has_nothing_of_the_site_has_no_commit_of_it(
    sites: tuple[Site, Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook's environment names another repository, and an admin's settings have git say more."""
    site, _ = sites
    git(site, "init", "-q")
    git(site, "commit", "-q", "--allow-empty", "-m", "nothing")
    assert commit_here(site) is None
    gpg = tmp_path / "gpg"
    signing = "cat >/dev/null; printf '\\n[GNUPG:] SIG_CREATED x\\n' >&2; echo '-----BEGIN PGP SIGNATURE-----'"
    gpg.write_text(f"#!/bin/sh\n{signing}\n")
    gpg.chmod(0o755)
    git(site, "config", "gpg.program", str(gpg))
    git(site, "config", "log.showSignature", "true")
    git(site, "add", ".")
    git(site, "commit", "-q", "-S", "-m", "1")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert re.fullmatch(r"[0-9a-f]{40}", commit_here(site) or "")


@pytest.mark.holds(
    "files that are behind another machine's are not brought to hosts",
    "what another machine wrote is no option of git's",
)
def test_a_machine_whose_files_are_behind_is_told_before_it_changes_anything(sites: tuple[Site, Site]) -> None:
    first, second = sites
    git(first, "init", "-q")
    git(first, "add", ".")
    git(first, "commit", "-q", "-m", "1")
    git(second, "init", "-q")
    assert commit_here(second) is None
    git(second, "fetch", "-q", str(first.directory))
    git(second, "reset", "-q", "--hard", "FETCH_HEAD")
    (first.directory / "users.yml").write_text("users: []\n# newer\n")
    git(first, "commit", "-q", "-a", "-m", "2")
    with opened("add-user", Options(site=str(first.directory))):
        pass
    for _ in range(2):  # whoever was refused is not the last run
        with (
            pytest.raises(RefusedError, match=r"behind: the last run of .* was with commit"),
            opened("add-user", Options(site=str(second.directory), yes=True)),
        ):
            pytest.fail("older files were brought to hosts")
    git(second, "pull", "-q", str(first.directory))
    (second.directory / "users.yml").write_text("users: []\n# newest\n")
    git(second, "commit", "-q", "-a", "-m", "3")
    with opened("add-user", Options(site=str(second.directory))):
        pass
    assert behind(second, {"commit": "--output=/etc/passwd"}) is None
    assert behind(second, {"commit": commit_here(second)}) is None


def test_the_account_is_the_one_whose_key_is_used(
    sites: tuple[Site, Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    admins = [*ADMINS, {"name": "park", "uid": 702, "keys": [key.with_suffix(".pub").read_text().strip()]}]
    settings = {"admins": admins, "admin": {"ssh_key": str(key)}}
    monkeypatch.setattr(site_history, "who", lambda: "lee@laptop")
    assert declared_account(load_site(str(make_site(tmp_path / "parks", settings=settings)))) == "park"
    assert declared_account(sites[0]) == "lee"
    monkeypatch.setattr(site_history, "who", lambda: "choi@laptop")
    assert declared_account(sites[0]) is None


def test_a_table_of_ten_thousand_runs_is_there_in_a_second(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = make_site(tmp_path / "site")
    for number in range(10_000):
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(1_700_000_000 + 60 * number))
        directory = site / "runs" / f"{stamp}-add-user-{number:04x}"
        directory.mkdir(parents=True)
        run = {"id": directory.name, "verb": "add-user", "arguments": [], "check": False, "who": "kim@laptop",
               "started": "2026-11-03T01:00:00+00:00", "plan": PLAN}  # fmt: skip
        (directory / "run.json").write_text(json.dumps(run))
    begun = time.process_time()
    show_runs(str(site), None, log=False, as_json=False)
    assert time.process_time() - begun < 1
    shown = capsys.readouterr()
    assert shown.out.count("add-user") == 100
    assert "gpuadmin runs --all" in shown.err


@pytest.mark.holds("a record that stays here for now ends no run")
def test_a_record_that_cannot_be_sent_ends_no_run(sites: tuple[Site, Site], capsys: pytest.CaptureFixture[str]) -> None:
    with opened("add-user", Options(site=str(sites[0].directory))) as run:
        assert run.history is not None
        run.begun()
        run.history._ssh.kill()
        run.history._ssh.wait()
        other = connect(sites[1])
        other.take("sync-users")
        run.settle(0, {})
        other.close()
    assert "The next run sends the record of this one." in capsys.readouterr().err


@pytest.mark.holds("a request has an end")
def test_a_request_that_was_cut_is_none(tmp_path: Path) -> None:
    code = write_out(tmp_path / "lib") / "cli.py"
    done = subprocess.run(
        [sys.executable, "-IB", code, "site-history"], input=b'{"do": "list", "newest": 1}', capture_output=True,
        env={"HOME": str(tmp_path)}, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"")


def test_interrupts_are_the_run_s_and_not_the_lock_s(held: SiteHistory) -> None:
    assert os.getpgid(held._ssh.pid) != os.getpgid(0)
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert isinstance(held.ask("list", newest=5), dict)
    held._ssh.kill()
    held._ssh.wait()
    with pytest.raises(UnreachableError):
        held.ask("list", newest=5)
