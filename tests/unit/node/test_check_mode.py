"""What check mode does not do: no work is begun, and what is shown is what the run does."""

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.admin import Observed
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, pruning
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import to_plain
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access, sessions, terminals
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import stopping

from tests.support.operations import ask
from tests.support.sites import public_key
from tests.support.storage import FIRST, MINJI, Storage, leftover

pytestmark = pytest.mark.holds(
    "a check makes no admin account", "a check runs no command", "a command that failed has failed",
    "what this run did to backups is not asked of it again", "check mode begins no backup", "check mode sends no copy",
    "check mode prunes nothing", "only what was shown is pruned",
)  # fmt: skip


SECOND = "20261222T010203Z-daily"


REMOTE = {"host": "other", "address": "127.0.0.1", "port": 1, "key": "/k", "known_hosts": "/h"}


def look(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """What an operation answers in check mode."""
    return ask(name, document, check=True)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the jobs that were begun; none of them does anything."""
    names: list[str] = []
    monkeypatch.setattr(background, "perform", lambda name, *_, **__: names.append(name) or {})
    return names


@pytest.mark.holds(
    "check mode clears no leftovers",
    "check mode empties no trash",
    "check mode makes no backup",
    "check mode moves no home",
    "check mode restores nothing",
)
@pytest.mark.btrfs
def test_check_mode_begins_no_work_on_homes_and_backups(storage: Storage, begun: list[str]) -> None:
    storage.home(*MINJI)
    storage.backup()
    late = leftover(storage)
    place = {"root": str(storage.root), "mountpoint": str(storage.point)}
    sets = {"directory": str(storage.directory)}
    before = storage.names
    for name, arguments, words in (
        ("wipe_homes", {**place, **sets, "backup": FIRST, "users": [{"name": "minji", "uid": 20001}]}, "wipe (uid"),
        ("restore_home", {**place, **sets, "user": "minji"}, "restore minji"),
        ("leftovers", place, "move what is left"),
        ("backup", {**place, **sets, "action": "make", "name": SECOND}, "snapshot of"),
        ("backup", {**sets, "action": "verify"}, "read 1 home"),
        ("backup", {**sets, "action": "copy", "remote": REMOTE}, "copy to other"),
    ):
        result = look(name, arguments)
        assert words in " ".join(result["operations"]), result
    assert begun == []
    assert storage.names == before
    assert late.exists()
    assert backup_set.names(str(storage.directory)) == [FIRST]


@pytest.mark.holds("check mode wipes no scratch")
def test_check_mode_prunes_and_wipes_nothing(tmp_path: Path, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "expired", lambda *_: [FIRST])
    pruned = look("backup", {"action": "prune", "directory": str(tmp_path)})
    assert pruned["operations"] == [f"delete the backup {FIRST}"]
    look("wipe_scratch", {"people": [], "items": [], "directories": []})
    assert begun == []


def test_only_what_was_shown_is_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the plan and the work another set may have become old enough."""
    given: list[Any] = []
    monkeypatch.setattr(background, "perform", lambda *arguments, **_more: given.append(arguments[2]))
    monkeypatch.setattr(pruning, "expired", lambda *_: [FIRST])
    ask("backup", {"action": "prune", "directory": "/x"})
    assert [one.only for one in given] == [[FIRST]]


@pytest.mark.btrfs
def test_a_backup_that_is_asked_for_again_because_ssh_broke_is_done(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set that was "there already" changed nothing, one that was verified was read again, and nothing was old."""
    storage.home(*MINJI)
    said: dict[tuple[str, str], Any] = {}

    def perform(name: str, function: Any, arguments: dict[str, Any], *, start: str) -> Any:
        assert (name, start) not in said
        return said.setdefault((name, start), to_plain(function(arguments)))

    monkeypatch.setattr(background, "perform", perform)
    monkeypatch.setattr(background, "said", lambda *whose: said.get(whose))
    sets = {"directory": str(storage.directory), "run_id": "ours"}
    make = {"action": "make", "root": str(storage.root), "mountpoint": str(storage.point), "name": FIRST}
    for given in (make, {"action": "verify"}, {"action": "prune", "only": [FIRST], "days": 0}):
        if given["action"] == "prune":
            storage.backup(SECOND)
        first = ask("backup", {**sets, **given})
        again = ask("backup", {**sets, **given})
        assert (again.get("msg"), again["changed"], again["report"]) == (None, True, first["report"])
        assert FIRST in again["operations"][0]
    assert backup_set.names(str(storage.directory)) == [SECOND]
    assert len(said) == 3
    of_another_run = ask("backup", {**sets, **make, "run_id": "another's"})
    assert (of_another_run["changed"], len(said)) == (True, 4)


@pytest.mark.parametrize("kind", ["make", "copy"])
def test_who_was_left_out_is_named_by_whoever_asks_again(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    found = {
        "name": FIRST,
        "homes": {},
        "problems": {"minji": "took too long"},
        "uncopied": {"other": {"jiho": "full"}},
    }
    monkeypatch.setattr(
        background, "said", lambda name, start: found if (name, start) == (f"backup-{kind}", "x") else None
    )
    answer = ask("backup", {"action": kind, "directory": "/x", "run_id": "x"})
    named = {"make": "minji took too long: not backed up", "copy": "jiho has no copy on other: full"}
    assert answer["report"] == {"backup": found, "problems": [named[kind]]}


@pytest.mark.holds("check mode closes no login access", "check mode ends no sessions")
def test_sessions_and_login_access_know_check_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def converge(*_: object, check: bool, **__: object) -> sessions.Plan:
        told.append(check)
        return sessions.Plan()

    monkeypatch.setattr(sessions, "converge", converge)
    monkeypatch.setattr(access, "converge", converge)
    for name in ("sessions", "login_access"):
        look(name, {"people": []})
    assert told == [True, True]


@pytest.mark.holds("in check mode nobody is told that something is ended", "in check mode nothing idle is ended")
def test_check_mode_tells_nobody_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    looked: list[bool] = []
    monkeypatch.setattr(terminals, "tell", lambda *given, **_more: told.append(given) or 1)
    monkeypatch.setattr(stopping, "report", lambda _targets, *, check: looked.append(check) or [])
    stop = {"user": "minji", "uid": 20001, "uuid": "GPU-1", "since": 1, "notified": 2}
    answer = look("idle", {"tell": [{"uid": 20001, "message": "hello"}], "stop": [stop]})
    assert answer["report"]["idle"] == {"stopped": [], "terminals": 0}
    assert (told, looked) == ([], [True])


def test_check_mode_makes_no_admin_account(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(operations, "execute", lambda *given: made.append(given))
    monkeypatch.setattr(operations, "observe", lambda wanted: Observed())
    wanted = {"name": "gpuadmin", "uid": 900, "home": "/var/home/gpuadmin", "key": public_key("admin"),
              "homes": "/home", "uid_first": 20000, "uid_last": 49999}  # fmt: skip
    answer = look("admin_account", wanted)
    assert answer["operations"][0].startswith("make the account gpuadmin")
    assert made == []


def test_check_mode_runs_no_command_and_one_that_failed_has_failed(tmp_path: Path) -> None:
    answer = look("command", {"line": f"touch {tmp_path}/made"})
    assert answer["operations"] == [f"run: touch {tmp_path}/made"]
    assert answer["report"] == {}
    assert list(tmp_path.iterdir()) == []
    answer = ask("command", {"line": "echo no; exit 4"})
    assert (answer["failed"], answer["report"]["command"]["status"]) == (True, 4)
