"""What is refused, or only looked at, whoever asks: one test for each check that no other test would miss."""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, files, unit
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import uids
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    copying,
    making,
    pruning,
    restore,
    transfer,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    jobs as work,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import archiving, directories
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access, sessions
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes as wipe
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import leftovers, scratch

from tests.unit.node.storage import FIRST, Storage, run

MINJI = ("minji", 20001)
SECOND = "20261222T010203Z-daily"


def restoring(storage: Storage, **more: Any) -> restore.Request:
    request = restore.Request(str(storage.root), str(storage.directory), "minji", FIRST, mountpoint=str(storage.point))
    return replace(request, **more)


@pytest.mark.btrfs
def test_a_home_that_is_somebody_else_s_by_now_stays(storage: Storage) -> None:
    home = storage.home(*MINJI)
    storage.backup()
    os.chown(home, 20002, 20002)
    assert "belongs to uid 20002" in storage.wipe(MINJI).conflicts[0]
    assert storage.names == ["minji"]


@pytest.mark.btrfs
def test_backups_that_others_can_reach_are_no_proof(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    storage.directory.chmod(0o755)
    for what in (
        lambda: storage.wipe(MINJI),
        lambda: storage.backup(SECOND),
        lambda: restore.execute(restoring(storage)),
    ):
        with pytest.raises(NodeError, match="root alone"):
            what()
    assert storage.names == ["minji"]


@pytest.mark.btrfs
def test_a_home_whose_backup_cannot_be_read_keeps_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is out of sight by then, and stays there."""
    storage.home(*MINJI)
    storage.home("jiho", 20002)
    storage.backup()
    storage.wipe(MINJI, ("jiho", 20002))
    twin = wipe.Twin

    def broken(top: str, nested: dict[str, str], begun: int) -> wipe.Twin:
        if top.endswith("/jiho"):
            raise OSError(5, "Input/output error")
        return twin(top, nested, begun)

    monkeypatch.setattr(wipe, "Twin", broken)
    done = wipe.empty_trash(storage.wiping())
    assert "stays, wholly or in part" in done["jiho"].reasons[0]
    assert (done["minji"].kept, done["minji"].deleted) == (0, 2)
    assert Path(wipe.trash(str(storage.root), FIRST, "jiho"), "thesis").exists()


@pytest.mark.btrfs
def test_a_backup_has_a_name_of_its_own_beside_the_homes(storage: Storage) -> None:
    storage.home(*MINJI)
    for change, words in (
        ({"name": "../20261221T010203Z-x"}, "not a name for a backup"),
        ({"directory": f"{storage.root}/backups"}, "is inside of the homes"),
        ({"root": f"{storage.point}/nothing"}, "there is no"),
    ):
        with pytest.raises(NodeError, match=words):
            making.create(replace(storage.request(), **change))
    assert storage.names == ["minji"]


@pytest.mark.btrfs
def test_a_restore_says_at_once_that_something_is_in_its_way(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    restore.execute(restoring(storage))
    with pytest.raises(NodeError, match="move it away first"):
        restore.compute(restoring(storage), Path("/proc/self/mountinfo").read_text())


Results = Iterator[tuple[object, object]]


@pytest.mark.btrfs
def test_a_verification_takes_back_nothing_that_others_record(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads for hours, without a lock: a second copy may be ready meanwhile."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    results = making.each

    def meanwhile(*given: Any) -> Results:
        backup_set.copied(backup, "other", "2026-12-22T01:02:03Z")
        yield from results(*given)

    monkeypatch.setattr(making, "each", meanwhile)
    found = making.verify(backup, ["minji"])
    assert found.homes["minji"].verified
    assert backup_set.load(str(storage.directory), FIRST) == found
    assert dict(found.copies) == {"other": "2026-12-22T01:02:03Z"}


@pytest.mark.btrfs
def test_a_set_that_is_deleted_while_it_is_verified_is_none_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever deletes a set first takes away what makes it one; its snapshots take longer."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    results = making.each

    def meanwhile(*given: Any) -> Results:
        for one in results(*given):
            (Path(backup.path) / "backup.json").unlink()
            yield one

    monkeypatch.setattr(making, "each", meanwhile)
    with pytest.raises(NodeError, match="was deleted while it was read"):
        making.verify(backup, ["minji"])
    assert backup_set.complete(str(storage.directory)) == []


@pytest.mark.btrfs
def test_of_two_who_record_neither_is_lost(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second copy is recorded between the other's reading and writing."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    real = backup_set.store
    others: list[threading.Thread] = []

    def slow(given: backup_set.Backup) -> None:
        if not others:
            others.append(threading.Thread(target=backup_set.copied, args=(backup, "later", "2026-12-22T01:02:03Z")))
            others[0].start()
            time.sleep(0.5)
        real(given)

    monkeypatch.setattr(backup_set, "store", slow)
    backup_set.copied(backup, "first", "2026-12-22T01:02:03Z")
    others[0].join()
    (found,) = backup_set.complete(str(storage.directory))
    assert set(found.copies) == {"first", "later"}


@pytest.mark.btrfs
def test_a_set_that_goes_is_not_recorded_again(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    others: list[threading.Thread] = []
    real, unlinked = backup_set.store, threading.Event()

    def deleting(paths: list[str]) -> None:
        unlinked.set()
        time.sleep(0.5)

    def slow(given: backup_set.Backup) -> None:
        others.append(threading.Thread(target=backup_set.remove, args=(str(storage.directory), backup.name)))
        others[0].start()
        unlinked.wait(0.5)
        real(given)

    monkeypatch.setattr(btrfs, "delete", deleting)
    monkeypatch.setattr(backup_set.shutil, "rmtree", lambda path: None)
    monkeypatch.setattr(backup_set, "store", slow)
    backup_set.copied(backup, "first", "2026-12-22T01:02:03Z")
    others[0].join()
    assert backup_set.complete(str(storage.directory)) == []


def test_a_link_in_place_of_a_set_is_not_deleted_through(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "backup.json").write_text("{}")
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / FIRST).symlink_to(other)
    backup_set.remove(str(tmp_path / "backups"), FIRST)
    assert (other / "backup.json").exists()


def test_a_set_of_a_format_to_come_is_not_guessed_at() -> None:
    document = {
        "format": backup_set.FORMAT + 1, "created": "2026-12-21T01:02:03Z", "root": "/srv/homes", "inside": "homes",
        "homes": {}, "problems": {}, "copies": {},
    }  # fmt: skip
    with pytest.raises(NodeError, match="this code knows"):
        backup_set.parse("/srv/backups", FIRST, json.dumps(document))


def test_a_copy_has_a_place_for_each_subvolume(tmp_path: Path) -> None:
    for name in ("source", "links", "place"):
        (tmp_path / name).mkdir()
    source, links, place = (os.open(tmp_path / name, os.O_RDONLY) for name in ("source", "links", "place"))
    try:
        with pytest.raises(NodeError, match="no place in the copy"):
            copying.Copier(links, Budget()).tree(source, {"gone/data": str(tmp_path)}, place, b"copy")
    finally:
        for handle in (source, links, place):
            os.close(handle)


# the other host of second copies


def there(script: str) -> transfer.Remote:
    """Another host that answers with a script of the shell; what is asked for is its $0."""
    return transfer.Remote("other", ("sh", "-c", script))


@pytest.mark.btrfs
@pytest.mark.parametrize("said", ["", "yes", "2026-12-22T01:02:03Z or so"])
def test_a_copy_counts_when_the_other_host_says_when_it_was_read(storage: Storage, said: str) -> None:
    storage.home(*MINJI)
    backup = storage.backup()
    other = there(f"case $0 in list) echo {FIRST};; verify*) echo '{said}';; esac")
    with pytest.raises(NodeError, match="did not say that it verified"):
        transfer.send(backup, other, [])


@pytest.mark.btrfs
def test_a_stream_that_breaks_here_is_no_copy(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other end may have taken what it got for all that there is."""
    storage.home(*MINJI)
    backup = storage.backup()
    monkeypatch.setattr(transfer, "send_command", lambda *_: ("sh", "-c", "echo half; exit 1"))
    taking = there("case $0 in list) ;; verify*) echo 2026-12-22T01:02:03Z;; *) cat >/dev/null;; esac")
    with pytest.raises(NodeError, match="was not copied"):
        transfer.send(backup, taking, [])


def test_a_stream_that_breaks_there_did_not_come_whole() -> None:
    with (
        pytest.raises(NodeError, match="did not come whole"),
        transfer._asked(there("echo half; exit 3"), ("send", FIRST, "homes"), "homes") as stream,
    ):
        assert os.read(stream, 100) == b"half\n"


# names and places


@pytest.mark.parametrize("name", ["../other", "", ".", "a/b"])
def test_nothing_is_archived_by_a_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    (other / "b").mkdir(parents=True)
    (tmp_path / "homes").mkdir()
    given = {"homes": str(tmp_path / "homes"), "name": name, "uid": os.getuid(), "directory": str(tmp_path / "archive"),
             "inode": other.stat().st_ino}  # fmt: skip
    with pytest.raises(NodeError, match="not a user's name"):
        archiving.archive(given)
    assert other.exists()


def leftover(storage: Storage) -> Path:
    trash = storage.root / wipe.TRASH
    for path in (trash, trash / FIRST):
        path.mkdir(mode=0o700)
    (trash / FIRST / "minji").mkdir()
    (trash / FIRST / "minji/late").write_bytes(b"work")
    return trash / FIRST / "minji/late"


@pytest.mark.btrfs
def test_leftovers_are_packed_where_root_alone_can_look(storage: Storage) -> None:
    late = leftover(storage)
    archive = storage.point / "archive"
    archive.mkdir(mode=0o755)
    request = leftovers.Request(str(storage.root), str(archive), mountpoint=str(storage.point))
    done = leftovers.clear(request)[f"{FIRST}/minji"]
    assert done["archive"] is None
    assert "root alone" in str(done["words"])
    assert late.exists()


@pytest.mark.btrfs
def test_leftovers_are_not_looked_for_below_a_mount_that_is_missing(storage: Storage) -> None:
    late = leftover(storage)
    request = leftovers.Request(str(storage.root), str(storage.point / "archive"), mountpoint=str(storage.root))
    with pytest.raises(NodeError, match="nothing is mounted"):
        leftovers.clear(request)
    assert late.exists()


def test_a_job_that_is_still_there_is_a_way_in(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").write_text("minji:!*:1:0:99999:7::1:\n")
    (tmp_path / "var/spool/cron/crontabs").mkdir(parents=True)
    person, host = Person("minji", 20001, range(0)), access.Host(root=str(tmp_path))
    assert access.way_in(person, host) is None
    (tmp_path / "var/spool/cron/crontabs/minji").write_text("* * * * * mine\n")
    assert access.way_in(person, host) == "has cron or at jobs"


@pytest.mark.root
@pytest.mark.parametrize("inner", ["", "disk"])
def test_scratch_that_something_is_mounted_on_stays(tmp_path: Path, inner: str) -> None:
    """It was looked at with what is mounted there, so the inode is the right one."""
    shared, other = tmp_path / "shared", tmp_path / "other"
    for path in (shared / "minji" / inner, other):
        path.mkdir(parents=True)
    (other / "thesis").write_bytes(b"not there")
    for path in (shared / "minji", other, other / "thesis"):
        os.chown(path, 20001, 20001)
    people = [Person("minji", 20001, range(0))]
    run("mount", "--bind", other, shared / "minji" / inner)
    try:
        items = [one.as_dict() for one in scratch.observe([str(shared)], None, people).items]
        plan, done = scratch.wipe(scratch.Request(items, [str(shared)], people))
        assert "is mounted there" in plan.conflicts[0]
        assert done == {}
        assert (other / "thesis").exists()
    finally:
        run("umount", shared / "minji" / inner)


def test_scratch_on_a_network_is_not_this_node_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "minji").mkdir()
    me = [Person("minji", tmp_path.stat().st_uid, range(0))]
    monkeypatch.setattr(scratch, "_look", lambda found, directory, *_: found.unknown.update({directory: 1}))
    assert scratch.observe([str(tmp_path)], None, me).unknown == {str(tmp_path): 1}
    monkeypatch.setattr(scratch.mounts, "network_filesystem", lambda path: "nfs4")
    assert scratch.observe([str(tmp_path)], None, me).unknown == {}


def mounted_at(root: Path) -> str:
    return f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {root} rw - btrfs /dev/b rw\n"


@pytest.mark.root
def test_a_home_that_appears_while_others_are_made_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename would replace a directory that is empty."""
    root = tmp_path / "homes"
    root.mkdir()
    monkeypatch.setattr(directories, "sync_filesystem", lambda path: (root / "minji").mkdir())
    request = directories.Request(str(root), [{"name": "minji", "uid": 20001}], skeleton=str(tmp_path / "none"))
    with pytest.raises(NodeError, match="just appeared"):
        directories.converge(request, mountinfo=mounted_at(root), lock=str(tmp_path / "lock"))
    assert (root / "minji").stat().st_uid == os.geteuid()


def test_nobody_s_home_is_both_made_and_archived() -> None:
    who = {"name": "minji", "uid": 20001}
    request = directories.Request("/h", [who], [who], archive_directory="/a")
    plan = directories.compute(request, {"minji": directories.Entry("directory", 20001)}, lambda *_: False)
    assert (plan.archive, plan.homes["minji"].status) == ([], "conflict")


@pytest.mark.root
def test_jobs_of_those_who_stay_are_left_alone(tmp_path: Path) -> None:
    for name in ("var/spool/cron/atjobs", "run/gpuadmin"):
        (tmp_path / name).mkdir(parents=True)
    for name, uid in (("a1", 20001), ("a2", 20002)):
        (tmp_path / "var/spool/cron/atjobs" / name).write_text("later\n")
        os.chown(tmp_path / "var/spool/cron/atjobs" / name, uid, uid)
    access.converge([Person("minji", 20001, range(0))], True, access.Host(root=str(tmp_path)), login=False)
    assert [one.name for one in (tmp_path / "var/spool/cron/atjobs").iterdir()] == ["a2"]


def test_a_file_is_not_written_through_a_link_that_has_just_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_text("not ours")
    (tmp_path / ".file.gpuadmin-new").symlink_to("other")
    monkeypatch.setattr(files.os, "unlink", lambda path: None)  # it has been made again since
    with pytest.raises(FileExistsError):
        files.write_atomic(str(tmp_path / "file"), b"ours", mode=0o600)
    assert (tmp_path / "other").read_text() == "not ours"


# locks: nothing is read that is then changed, and nothing changed, while another one is at it


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every lock is somebody else's; the paths of those that were asked for."""
    asked: list[str] = []

    def held(path: str, seconds: float = 0) -> Any:
        asked.append(path)
        raise NodeError(f"{path} is held")

    for module in (making, access, directories, leftovers, pruning, restore, uids, wipe, work):
        monkeypatch.setattr(module, "flocked", held)
    return asked


REMOTE = {"host": "other", "address": "127.0.0.1", "port": 1, "key": "/k", "known_hosts": "/h"}


@pytest.mark.parametrize(
    ("changes", "lock"),
    [
        (lambda at: pruning.prune(at, 1, 1), backup_set.LOCK),
        (lambda at: restore.execute(restore.Request(at, at, "minji", FIRST)), backup_set.LOCK),
        (lambda at: leftovers._delete(leftovers.Request(at, at), leftovers.Leftover("b", "u", 1, 0, 0), at), wipe.LOCK),
        (lambda at: directories.converge(directories.Request(at)), wipe.LOCK),
        (lambda at: access.converge([], True, access.Host(root=at)), "closing.lock"),
        (lambda at: work.fetch_backup({**REMOTE, "backup": FIRST, "directory": at}), work.COPY_LOCK),
    ],
)
def test_who_changes_something_takes_its_lock_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: list[str], changes: Callable[[str], object], lock: str
) -> None:
    monkeypatch.setattr(leftovers.packing, "delete", lambda *_: None)
    with pytest.raises(NodeError, match="is held"):
        changes(str(tmp_path))
    assert taken == [lock] or taken[0].endswith("/" + lock)


def test_whose_uids_are_remembered_under_a_lock(tmp_path: Path, taken: list[str]) -> None:
    known = uids.keep(str(tmp_path), None, [{"name": "minji", "uid": 20001}], [], check=False, state=str(tmp_path))
    assert "is held" in str(known.problem)
    assert taken


@pytest.mark.btrfs
def test_homes_go_and_backups_are_made_under_their_locks(storage: Storage, request: pytest.FixtureRequest) -> None:
    storage.home(*MINJI)
    storage.backup()
    asked: list[str] = request.getfixturevalue("taken")
    for changes in (lambda: storage.wipe(MINJI), lambda: storage.backup(SECOND)):
        with pytest.raises(NodeError, match="is held"):
            changes()
    assert asked == [wipe.LOCK, making.LOCK]
    assert storage.names == ["minji"]
    assert backup_set.names(str(storage.directory)) == [FIRST]


# check mode


def module(name: str, arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a module answers in check mode."""
    found = importlib.import_module(f"ansible_collections.gpuadmin.node.plugins.modules.{name}")
    with patch_module_args({**arguments, "_ansible_check_mode": True}), pytest.raises(SystemExit):
        found.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return result


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the jobs that were begun; none of them does anything."""
    names: list[str] = []

    def perform(name: str, *_: object, **__: object) -> object:
        names.append(name)
        return {}

    monkeypatch.setattr(unit, "perform", perform)
    return names


@pytest.mark.btrfs
def test_check_mode_begins_no_work_on_homes_and_backups(
    storage: Storage, begun: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    storage.home(*MINJI)
    storage.backup()
    late = leftover(storage)
    place = {"root": str(storage.root), "mountpoint": str(storage.point)}
    sets = {"directory": str(storage.directory)}
    before = storage.names
    for name, arguments, words in (
        ("wipe_homes", {**place, **sets, "backup": FIRST, "users": [{"name": "minji", "uid": 20001}]}, "wipe (uid"),
        ("restore_home", {**place, **sets, "user": "minji"}, "restore minji"),
        ("leftovers", {**place, "archive": str(storage.point / "archive")}, "pack what is left"),
        ("backup", {**place, **sets, "action": "make", "name": SECOND}, "snapshot of"),
        ("backup", {**sets, "action": "verify"}, "read 1 home"),
        ("backup", {**sets, "action": "copy", "remote": REMOTE}, "copy to other"),
    ):
        result = module(name, arguments, capsys)
        assert words in " ".join(result["operations"]), result
    assert begun == []
    assert storage.names == before
    assert late.exists()
    assert backup_set.names(str(storage.directory)) == [FIRST]


def test_check_mode_prunes_and_wipes_nothing(
    tmp_path: Path, begun: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "expired", lambda *_: [FIRST])
    pruned = module("backup", {"action": "prune", "directory": str(tmp_path)}, capsys)
    assert pruned["operations"] == [f"delete the backup {FIRST}"]
    module("wipe_scratch", {"people": [], "items": [], "directories": []}, capsys)
    assert begun == []


def test_only_what_was_shown_is_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the plan and the work another set may have become old enough."""
    given: list[Any] = []
    monkeypatch.setattr(unit, "perform", lambda *arguments: given.append(arguments[2]))
    monkeypatch.setattr(pruning, "expired", lambda *_: [FIRST])
    from ansible_collections.gpuadmin.node.plugins.module_utils.backups import actions

    actions.act({"action": "prune", "directory": "/x", "days": 1, "ordinary": 1, "only": None}, check=False)
    assert [one["only"] for one in given] == [[FIRST]]


def test_sessions_and_login_access_know_check_mode(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[bool] = []

    def look(*_: object, check: bool, **__: object) -> sessions.Plan:
        told.append(check)
        return sessions.Plan()

    monkeypatch.setattr(sessions, "converge", look)
    monkeypatch.setattr(access, "converge", look)
    for name in ("sessions", "login_access"):
        module(name, {"people": []}, capsys)
    assert told == [True, True]
