"""Second copies: sent to the other host home by home, whatever one of them is, and brought back from it."""

import json
import os
import random
import shutil
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    home_manifest,
    home_reader,
    received,
    restore,
    restore_plan,
    sending,
    transfer,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.backup_set import Backup
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import Bounds
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.wire import Pulse, Stopped
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget, OverBudget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry

from tests.support.backup_contents import everything, rubbish
from tests.support.backup_keeper import Keeper, keeper
from tests.support.deep_tree import bottom, plant
from tests.support.storage import FIRST, JIHO, MINJI, SECOND, Storage, run, wanted

pytestmark = pytest.mark.usefixtures("end_of_the_year")
THIRD = "20261229T010203Z-daily"


@pytest.fixture
def other(storage: Storage, tmp_path: Path) -> Iterator[Keeper]:
    with keeper(tmp_path) as found:
        yield found


def copy(backup: Backup, other: Keeper, *earlier: Backup, limits: transfer.Limits | None = None) -> dict[str, str]:
    return transfer.send(backup, other.remote, earlier, limits, workers=1)[1]


def as_it_was(backup: Backup, other: Keeper, user: str = "minji") -> None:
    """The copy of a home is, entry by entry, what was backed up; nothing else is beside it."""
    found = other.sets[backup.name]
    assert found.homes[user].checksum == backup.homes[user].checksum
    lines = home_reader.lines(found.home(user), form=backup.format)
    assert home_manifest.total(lines).checksum == backup.homes[user].checksum
    assert list(Path(found.path).glob("homes/.*")) == []


@pytest.mark.btrfs
def test_a_second_copy(storage: Storage, other: Keeper) -> None:
    home = storage.home("minji", 20001, {"big": os.urandom(2_000_000)})
    storage.home(*JIHO)
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/in").write_bytes(b"inside")
    first = storage.backup()
    assert copy(first, other) == {}
    assert set(other.sets[FIRST].homes) == {"minji", "jiho"}
    assert all(home.verified for home in other.sets[FIRST].homes.values())
    as_it_was(first, other)
    (home / "small").write_bytes(b"x")
    second = storage.backup(SECOND)
    before = written(other)
    assert copy(second, other, first) == {}
    assert written(other) - before < 1_000_000  # what is the same shares its blocks
    as_it_was(second, other)
    as_it_was(second, other, "jiho")
    assert copy(second, other, first) == {}  # again: nothing is sent
    with pytest.raises(OSError, match="Read-only"):
        Path(other.sets[SECOND].home("minji"), "new").write_bytes(b"")


def written(other: Keeper) -> int:
    run("sync", "-f", other.point)
    space = os.statvfs(other.point)
    return (space.f_blocks - space.f_bfree) * space.f_frsize


@pytest.mark.btrfs
def test_all_that_a_home_may_hold_and_how_it_changes(storage: Storage, other: Keeper) -> None:
    home = storage.home(*MINJI)
    everything(home)
    first = storage.backup()
    assert copy(first, other) == {}
    as_it_was(first, other)
    (home / "three").unlink()
    os.link(home / "one", home / "four")
    (home / "sticky").chmod(0o700)
    shutil.rmtree(home / "frozen")
    (home / "frozen").write_bytes(b"a file now")
    (home / "fifo").unlink()
    (home / "fifo").mkdir()
    os.link(home / "one", home / "fifo/five")
    (home / "one").chmod(0o640)
    second = storage.backup(SECOND)
    assert copy(second, other, first) == {}
    as_it_was(second, other)
    third = storage.backup(THIRD)  # nothing has changed
    assert copy(third, other, second, first) == {}
    as_it_was(third, other)


def change(chance: random.Random, home: Path) -> None:
    """A few things that people do, at random."""
    paths = sorted(home.rglob("*"))
    files = [one for one in paths if stat.S_ISREG(one.lstat().st_mode)]
    directories = [home, *(one for one in paths if stat.S_ISDIR(one.lstat().st_mode))]
    for _ in range(chance.randrange(1, 6)):
        new = chance.choice(directories) / f"n{chance.randrange(12)}"
        what = chance.randrange(8)
        try:
            if what == 0 and files:
                with chance.choice(files).open("r+b") as stream:
                    stream.seek(chance.randrange(40_000))
                    stream.write(chance.randbytes(chance.randrange(9000)))
            elif what == 1 and files:
                os.truncate(chance.choice(files), chance.randrange(50_000))
            elif what == 2 and files:
                os.link(chance.choice(files), new)
            elif what == 3 and files:
                chance.choice(files).replace(new)
            elif what == 4:
                new.mkdir()
            elif what == 5:
                victim = chance.choice([*paths, new])
                shutil.rmtree(victim) if victim.is_dir() and not victim.is_symlink() else victim.unlink()
            elif what == 6:
                new.symlink_to("anywhere")
            else:
                new.write_bytes(chance.randbytes(chance.randrange(20_000)))
        except OSError:
            continue
        paths = sorted(home.rglob("*"))
        files = [one for one in paths if stat.S_ISREG(one.lstat().st_mode)]
        directories = [home, *(one for one in paths if stat.S_ISDIR(one.lstat().st_mode))]


@pytest.mark.btrfs
@pytest.mark.parametrize("seed", range(4))
def test_differences_of_any_kind(storage: Storage, other: Keeper, seed: int) -> None:
    """Each copy is made of the one before, and none is sent whole because the difference was wrong."""
    chance, sets = random.Random(seed), []
    home = storage.home(*MINJI)
    for number in range(8):
        change(chance, home)
        made = storage.backup(f"202612{number + 10}T010203Z-manual", verify=[])
        assert transfer.send(made, other.behind(NOT_WHOLE if sets else '"$@"'), sets[::-1], workers=1)[1] == {}
        as_it_was(made, other)
        sets.append(made)


#: A host that takes differences, and no home as a whole.
NOT_WHOLE = 'case "$4" in "home "*" "*" "*) exec "$@";; "home "*) exit 1;; *) exec "$@";; esac'


@pytest.mark.btrfs
@pytest.mark.parametrize(("levels", "name"), [(16, "x" * 252), (1500, "d"), (700, "y" * 250)])
def test_a_path_of_any_length_stops_nobody(storage: Storage, other: Keeper, levels: int, name: str) -> None:
    """btrfs send ended at some 4,050 bytes, and with it everybody's second copy."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    plant(home, [name] * levels)
    first = storage.backup(verify=[])
    assert copy(first, other) == {}
    as_it_was(first, other)
    assert Path(other.sets[FIRST].manifest("minji")).stat().st_size < 100_000
    (home / "more").write_bytes(b"x")
    second = storage.backup(SECOND, verify=[])
    assert copy(second, other, first) == {}
    as_it_was(second, other)
    assert bottom(Path(other.sets[SECOND].home("minji")), [name] * levels) == b"deep"


@pytest.mark.holds("a hole is sent as one")
@pytest.mark.btrfs
def test_a_sparse_file_costs_what_it_holds(storage: Storage, other: Keeper) -> None:
    """Sent as a difference, `btrfs send -p` writes zeros for a hole, up to all of the disk."""
    home = storage.home(*MINJI)
    with (home / "sparse").open("wb") as stream:
        stream.truncate(7 << 60)
        stream.seek(1 << 60)
        stream.write(b"x" * 4096)
    first = storage.backup(verify=[])
    assert copy(first, other) == {}
    with (home / "sparse").open("r+b") as stream:
        stream.truncate(0)
        stream.truncate(7 << 60)
        stream.seek(6 << 60)
        stream.write(b"y" * 4096)
    second = storage.backup(SECOND, verify=[])
    before = written(other)  # whoever reads holes, or writes them, is at it for years: the home's time ends first
    assert transfer.send(second, other.behind(NOT_WHOLE), [first], transfer.Limits(seconds=120))[1] == {}
    assert written(other) - before < 1 << 20
    as_it_was(second, other)
    facts = Path(other.sets[SECOND].home("minji"), "sparse").stat()
    assert (facts.st_size, facts.st_blocks * 512) == (7 << 60, 4096)


@pytest.mark.btrfs
def test_a_home_that_cannot_be_copied_is_named_and_the_others_are_copied(storage: Storage, other: Keeper) -> None:
    storage.home("minji", 20001, {f"f{number}": b"x" for number in range(1500)})
    storage.home(*JIHO)
    backup = storage.backup(verify=[])
    other.arguments = "1, 21600, 1000"
    lacking = copy(backup, other)
    assert set(lacking) == {"minji"}
    assert "holds more than 1000 entries (backups.home_entries)" in lacking["minji"]
    assert set(other.sets[FIRST].homes) == {"jiho"}
    assert [one.name for one in Path(other.sets[FIRST].path, "homes").iterdir()] == ["jiho"]
    recorded = backup_set.copied(backup, "nas2", backup_set.now(), lacking)
    assert recorded.uncopied == {"nas2": lacking}
    # later it is allowed, and comes to the set that is there
    other.arguments = "1, 21600, 2000000"
    assert copy(backup, other) == {}
    assert set(other.sets[FIRST].homes) == {"jiho", "minji"}
    assert backup_set.copied(backup, "nas2", backup_set.now(), {}).uncopied == {}


@pytest.mark.btrfs
def test_raised_limits_are_the_backup_host_s_own_too(storage: Storage, other: Keeper) -> None:
    """Its role writes what a home may hold; without that a set with more was never verified there."""
    storage.home("minji", 20001, {f"f{number}": b"x" for number in range(1500)})
    backup = storage.backup()
    other.arguments = "1, 21600, 1000"
    assert set(copy(backup, other)) == {"minji"}
    other.arguments = "1, 21600, 5000"
    assert copy(backup, other) == {}
    assert other.sets[FIRST].homes["minji"].verified


@pytest.mark.btrfs
def test_a_copy_that_breaks_is_none(storage: Storage, other: Keeper) -> None:
    storage.home("minji", 20001, {"big": os.urandom(1_000_000)})
    storage.home(*JIHO)
    backup = storage.backup()
    cutting = other.behind('case "$4" in "home "*minji*) head -c 3000 | "$@";; *) exec "$@";; esac')
    lacking = transfer.send(backup, cutting, [], workers=1)[1]
    assert (set(lacking), set(other.sets[FIRST].homes)) == ({"minji"}, {"jiho"})
    assert "stopped before the end" in lacking["minji"]
    assert copy(backup, other) == {}
    as_it_was(backup, other)


@pytest.mark.btrfs
def test_a_damaged_copy_is_named(storage: Storage, other: Keeper) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    backup = storage.backup(verify=[])
    assert copy(backup, other) == {}
    flip_copy(other.sets[FIRST].home("minji"))
    verified = storage.backup()
    lacking = copy(verified, other)
    assert set(lacking) == {"minji"}
    assert "is damaged" in lacking["minji"]
    assert other.sets[FIRST].homes["jiho"].verified


def flip_copy(home: str) -> None:
    run("btrfs", "property", "set", "-ts", home, "ro", "false")
    facts = Path(home, "thesis").stat()
    Path(home, "thesis").write_bytes(b"Precious\n")
    os.utime(f"{home}/thesis", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    run("btrfs", "property", "set", "-ts", home, "ro", "true")


@pytest.mark.btrfs
def test_a_damaged_parent_damages_nothing_further(storage: Storage, other: Keeper) -> None:
    """What a difference was put on is compared; where it is wrong, the home is sent whole."""
    home = storage.home(*MINJI)
    first = storage.backup(verify=[])
    assert copy(first, other) == {}
    parent = other.sets[FIRST].home("minji")
    run("btrfs", "property", "set", "-ts", parent, "ro", "false")
    Path(parent, "smuggled").write_bytes(b"x")
    run("btrfs", "property", "set", "-ts", parent, "ro", "true")
    (home / "new").write_bytes(b"y")
    second = storage.backup(SECOND, verify=[])
    assert set(transfer.send(second, other.behind(NOT_WHOLE), [first])[1]) == {"minji"}
    assert copy(second, other, first) == {}
    as_it_was(second, other)


@pytest.mark.btrfs
@pytest.mark.parametrize("script", ["exec sleep 600", "exec cat >/dev/null", "exec yes", "yes >&2", "exit 255"])
def test_a_host_that_hangs_is_given_up(storage: Storage, script: str) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    mad = transfer.Remote("nas2", ("sh", "-c", script), Bounds(idle=0.5, total=3))
    begun = time.monotonic()
    with pytest.raises(NodeError, match="nas2: list"):
        transfer.send(backup, mad, [])
    assert time.monotonic() - begun < 60, "it would go on for ever"


@pytest.mark.btrfs
def test_a_host_that_hangs_with_homes_is_not_asked_for_all_of_them(
    storage: Storage, other: Keeper, tmp_path: Path
) -> None:
    for number in range(8):
        storage.home(f"user{number}", 20001 + number)
    backup = storage.backup(verify=[])
    calls = tmp_path / "calls"  # the first one hangs; then ssh says that there is no connection, which takes no time
    silent = f'echo >>{calls}; [ "$(wc -l <{calls})" -gt 1 ] || exec sleep 600; exit 255'
    mute = other.behind(f'case "$4" in "home "*) {silent};; *) exec "$@";; esac')
    lacking = transfer.send(backup, replace(mute, bounds=Bounds(idle=8, total=60)), [], workers=1)[1]
    asked = calls.read_text().count("\n")
    assert (len(lacking), asked in (transfer.LOST, transfer.LOST + 1)) == (8, True), "one more may have begun"
    assert ["stood still" in why for why in lacking.values()].count(True) == 1


@pytest.mark.btrfs
def test_what_an_older_gpuadmin_says_is_a_sentence(storage: Storage, other: Keeper) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    older = transfer.Remote("nas2", ("sh", "-c", f"echo {FIRST}"))
    with pytest.raises(NodeError, match="gpuadmin provision --limit nas2"):
        transfer.send(backup, older, [])
    for question in (f"receive {FIRST} homes 1", f"manifest {FIRST} minji", f"show {FIRST}", f"commit {FIRST} x"):
        with (
            pytest.raises(NodeError, match="gpuadmin provision brings both"),
            transfer.asked(other.remote, *question.split()) as link,
        ):
            link.get()


@pytest.mark.btrfs
def test_what_is_lost_here_comes_back_from_the_other_host(storage: Storage, other: Keeper) -> None:
    """One home costs one home, and no set is brought back for it."""
    home = storage.home("minji", 20001, {"thesis": b"precious", "dir/one": os.urandom(100_000)})
    os.link(home / "dir/one", home / "dir/two")
    os.link(home / "dir/one", home / "three")
    storage.home(*JIHO)
    storage.give(home, 20001)
    first = storage.backup()
    assert copy(first, other) == {}
    asked = wanted(storage, remote=other.remote)
    assert restore_plan.locate(asked)[1] is False  # what is here and verified is taken from here
    backup_set.remove(str(storage.directory), FIRST)
    shutil.rmtree(home)
    storage.home("minji", 20001, {})
    storage.backup("20261229T010203Z-daily", verify=[])  # after the disk was exchanged: nobody means that one
    assert restore_plan.locate(asked)[1] is True
    done = restore.execute(replace(asked, mode="in-place", uid=20009))
    assert (done["checksum"] != first.homes["minji"].checksum, done["entries"]) == (True, first.homes["minji"].entries)
    assert ((home / "thesis").read_bytes(), (home / "thesis").stat().st_uid) == (b"precious", 20009)
    assert (home / "dir/one").stat().st_nlink == 3
    part = restore.execute(replace(asked, path="dir/two"))
    assert Path(str(part["target"])).read_bytes() == (home / "three").read_bytes()
    part = restore.execute(replace(asked, path="dir"))
    assert Path(str(part["target"]), "two").stat().st_nlink == 2
    kept = Path(str(restore.execute(replace(asked, mode="attic"))["target"]))
    assert (kept.parent.name, (kept / "thesis").read_bytes()) == (".gpuadmin-attic", b"precious")
    assert (backup_set.names(str(storage.directory)), rubbish(storage)) == (["20261229T010203Z-daily"], [])
    with pytest.raises(NodeError, match="nowhere is not in the backup"):
        restore.execute(replace(asked, path="nowhere"))
    with pytest.raises(NodeError, match="nor on nas2"):
        restore_plan.locate(replace(asked, user="sora"))
    deaf = transfer.Remote("nas2", ("false",))
    with pytest.raises(NodeError, match=r"no backup with a home of sora .*; and nas2: list"):
        restore_plan.locate(replace(asked, user="sora", remote=deaf))


@pytest.mark.holds("what the other host sends back is compared")
@pytest.mark.btrfs
@pytest.mark.parametrize("what", ["content", "manifest", "cut"])
def test_what_comes_back_is_compared(storage: Storage, other: Keeper, what: str) -> None:
    home = storage.home(*MINJI)
    assert copy(storage.backup(), other) == {}
    backup_set.remove(str(storage.directory), FIRST)
    shutil.rmtree(home)
    remote = other.remote
    found = other.sets[FIRST]
    if what == "content":
        flip_copy(found.home("minji"))
    elif what == "manifest":
        flip_copy(found.home("minji"))
        lines = list(home_reader.lines(found.home("minji")))
        import gzip

        with gzip.open(found.manifest("minji"), "wb") as stream:
            home_manifest.total(iter(lines), home_manifest.Writer(stream.write))
    else:
        remote = other.behind('case "$4" in send*) "$@" | head -c 300;; *) exec "$@";; esac')
    with pytest.raises(NodeError):
        restore.execute(wanted(storage, remote=remote))
    assert (storage.names, rubbish(storage)) == ([restore_plan.RESTORING], [])


@pytest.mark.holds("a set that is read is not deleted")
@pytest.mark.btrfs
def test_restores_go_on_beside_a_backup_and_a_copy(storage: Storage, other: Keeper) -> None:
    """Only who makes a set waits for who makes one; what is read is not deleted."""
    storage.home(*MINJI)
    backup = storage.backup()
    with backup_set.flocked(backup_set.LOCK), backup_set.reading(str(storage.directory), FIRST):
        assert restore.execute(wanted(storage))["backup"] == FIRST
        with pytest.raises(backup_set.InUse, match="is being read"):
            backup_set.remove(str(storage.directory), FIRST)
        assert backup_set.load(str(storage.directory), FIRST) == backup
        assert copy(backup, other) == {}


@pytest.mark.btrfs
def test_the_other_host_lets_the_oldest_of_the_timer_s_go(
    storage: Storage, other: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps one, as its role says, and for a month all. What an admin made stays, and what nobody else has."""
    storage.home(*MINJI)
    sent = [storage.backup()]
    copy(sent[0], other)
    for month, day, then in (("12", "22", 2), ("12", "23", 3), ("12", "24", 4), ("01", "25", 2)):
        year = 2026 + (month == "01")
        monkeypatch.setenv("TEST_NOW", f"{year}-{month}-{day}T02:00:00Z")
        sent.append(storage.backup(f"{year}{month}{day}T010203Z-daily", verify=[]))
        assert copy(sent[-1], other, *sent[-2::-1]) == {}
        assert len(other.sets) == then
    assert list(other.sets) == [FIRST, "20270125T010203Z-daily"]


@pytest.mark.btrfs
def test_copies_of_an_older_gpuadmin_are_restored_and_built_on(storage: Storage, other: Keeper) -> None:
    """One snapshot of all homes, those inside of homes beside it, whole paths in manifests, and btrfs receive."""
    home = storage.home("minji", 20001, {"thesis": b"precious", "a/b": os.urandom(300_000)})
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/in").write_bytes(b"inside")
    storage.give(home, 20001)
    first = storage.backup()
    as_before(first)
    first = backup_set.complete(str(storage.directory))[0]
    place = other.directory / FIRST
    place.mkdir(parents=True)
    other.directory.chmod(0o700)
    (place / "nested").mkdir()
    for part in ("homes", "nested/0"):
        stream = storage.point / "stream"
        run("btrfs", "send", "-q", "-f", stream, f"{first.path}/{part}")
        run("btrfs", "receive", "-q", "-f", stream, (place / part).parent)
        stream.unlink()
    shutil.copytree(f"{first.path}/manifest", place / "manifest")
    shutil.copy(f"{first.path}/backup.json", place)
    (home / "new").write_bytes(b"y")
    second = storage.backup(SECOND, verify=[])
    assert transfer.send(second, other.behind(NOT_WHOLE), [first])[1] == {}
    as_it_was(second, other)
    assert copy(first, other) == {}
    backup_set.remove(str(storage.directory), FIRST)
    shutil.rmtree(home)
    done = restore.execute(wanted(storage, backup=FIRST, remote=other.remote))
    assert Path(str(done["target"]), "data/in").read_bytes() == b"inside"
    assert done["checksum"] == first.homes["minji"].checksum
    backup_set.remove(str(other.directory), FIRST)
    assert list(other.sets) == [SECOND]


def as_before(backup: Backup) -> None:
    """Make a set what it was in format 2."""
    import gzip

    for user in backup.homes:
        lines = list(home_manifest.read(backup.manifest(user)))
        with gzip.open(backup.manifest(user), "wt") as stream:
            for one in lines:
                values = [one.path, one.kind, one.mode, one.uid, one.gid, one.size, one.mtime, one.content, one.link,
                          one.attributes, one.inode, one.ctime]  # fmt: skip
                stream.write(json.dumps(values, separators=(",", ":")) + "\n")
    path = Path(backup.path, "backup.json")
    document = json.loads(path.read_text()) | {"format": 2}
    del document["uncopied"]
    path.write_text(json.dumps(document))


@pytest.mark.btrfs
@pytest.mark.parametrize("said", ["", "yes", "2026-12-22T01:02:03Z or so"])
def test_a_copy_counts_when_the_other_host_says_when(storage: Storage, other: Keeper, said: str) -> None:
    storage.home(*MINJI)
    backup = storage.backup()
    answer = json.dumps({"when": said})
    liar = other.behind(f"""case "$4" in commit*) echo '{answer}';; *) exec "$@";; esac""")
    with pytest.raises(NodeError, match="did not say when"):
        transfer.send(backup, liar, [])


@pytest.mark.btrfs
def test_a_parent_is_the_same_here_and_there(storage: Storage, other: Keeper) -> None:
    """A set of the same name with another home in it is not a base for a difference."""
    home = storage.home(*MINJI)
    first = storage.backup(verify=[])
    assert copy(first, other) == {}
    (home / "new").write_bytes(b"x")
    second = storage.backup(SECOND, verify=[])
    strange = replace(first, homes={"minji": replace(first.homes["minji"], checksum="0" * 64)})
    assert set(transfer.send(second, other.behind(NOT_WHOLE), [strange])[1]) == {"minji"}
    assert "ended with 1" in transfer.send(second, other.behind(NOT_WHOLE), [strange])[1]["minji"]
    assert transfer._parent(second, "minji", [strange], {FIRST: first}) is None
    assert transfer._parent(second, "minji", [first], {FIRST: first}) == first


@pytest.mark.holds("what was touched is read again")
@pytest.mark.btrfs
def test_a_difference_that_writes_what_is_wrong_is_found(
    storage: Storage, other: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a difference has touched is read where it arrived, also where its times are as before."""
    home = storage.home("minji", 20001, {"thesis": b"precious", "same": b"kept"})
    first = storage.backup(verify=[])
    assert copy(first, other) == {}
    (home / "new").write_bytes(b"all that there is to send")
    second = storage.backup(SECOND, verify=[])
    real = sending.Sender._differ

    def wrong(self: sending.Sender, entry: Any, line: Any, before: Any) -> None:
        if line.path == "same":
            self._link.put("patch", name="same", size=4)
            self._link.put("data", b"KEPT", at=0)
            self._give(entry)
        else:
            real(self, entry, line, before)

    monkeypatch.setattr(sending.Sender, "_differ", wrong)
    lacking = transfer.send(second, other.behind(NOT_WHOLE), [first])[1]
    assert set(lacking) == {"minji"}
    monkeypatch.undo()


@pytest.mark.btrfs
def test_files_that_share_their_blocks_are_no_way_to_fill_the_other_disk(
    storage: Storage, other: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is whole in a copy; what would be many times as large there is named, and costs nothing."""
    home = storage.home("minji", 20001, {"one": os.urandom(2 << 20)})
    storage.home(*JIHO)
    for number in range(40):
        run("cp", "--reflink=always", home / "one", home / f"more{number}")
    backup = storage.backup(verify=[])
    monkeypatch.setattr(sending, "MORE", 8 << 20)
    lacking = copy(backup, other)
    assert set(lacking) == {"minji"}
    assert "its files share their blocks" in lacking["minji"]
    monkeypatch.setattr(sending, "MORE", 10 << 30)
    assert copy(backup, other) == {}


@pytest.mark.btrfs
def test_nor_are_files_that_have_come_to_share_their_blocks(
    storage: Storage, other: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a difference to what they were."""
    home = storage.home("minji", 20001, {"one": os.urandom(1 << 20)})
    for number in range(12):
        (home / f"more{number}").write_bytes(b"x")
    first = storage.backup(verify=[])
    assert copy(first, other) == {}
    for number in range(12):
        run("cp", "--reflink=always", home / "one", home / f"more{number}")
    second = storage.backup(SECOND, verify=[])
    monkeypatch.setattr(sending, "MORE", 1 << 20)
    lacking = copy(second, other, first)
    assert "its files share their blocks" in lacking["minji"]


@pytest.mark.btrfs
def test_what_is_sent_is_not_deleted_meanwhile(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is an answer of another kind than lists of names an end of all copies."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    tried: list[bool] = []

    def every(tasks: list[transfer.Task], _workers: int) -> dict[str, str]:
        with pytest.raises(backup_set.InUse):
            backup_set.remove(str(storage.directory), FIRST)
        tried.extend(task.send for task in tasks)
        return {}

    monkeypatch.setattr(transfer, "_all", every)
    answer = json.dumps({"sets": {}, "there": 5, "kept": {"minji": 1}, "when": "2026-12-22T00:00:00Z"})
    assert transfer.send(backup, transfer.Remote("nas2", ("sh", "-c", f"cat >/dev/null; echo '{answer}'")), [])[1] == {}
    assert tried == [True]


@pytest.mark.holds("what is on its way to the disk takes room, too", "room is left")
@pytest.mark.btrfs
def test_one_that_takes_all_room_takes_nobody_s_copy(storage: Storage, tmp_path: Path) -> None:
    """Small homes go first; and who had no room beside a large one has another try when that is gone."""
    storage.home("minji", 20001, {"huge": os.urandom(110 << 20)})
    storage.home("jiho", 20002, {"large": os.urandom(10 << 20)})
    storage.home("sora", 20003)
    backup = storage.backup(verify=[])
    with keeper(tmp_path, 128) as small:
        lacking, lowest = _lowest(small.point, lambda: transfer.send(backup, small.remote, [], workers=2)[1])
        assert set(lacking) == {"minji"}
        space = os.statvfs(small.point)
        assert lowest > space.f_blocks * space.f_frsize * 0.045, "less would stay free than the reserve"
        assert "would stay free" in lacking["minji"]
        assert set(small.sets[FIRST].homes) == {"jiho", "sora"}

    tries: list[str] = []

    def one(task: transfer.Task) -> transfer.NoRoomThere | None:
        tries.append(task.user)
        return transfer.NoRoomThere("less would stay free") if tries.count(task.user) == 1 else None

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transfer, "each", lambda work, tasks, *_: [(task, one(task)) for task in tasks])
        task = transfer.Task(backup, "jiho", transfer.Remote("nas2", ()), transfer.Limits(), send=True, verify=False)
        assert (transfer._all([task], 2), tries) == ({}, ["jiho", "jiho"])


def _lowest(point: Path, work: Callable[[], dict[str, str]]) -> tuple[dict[str, str], int]:
    """What some work returns, and how few bytes were free meanwhile."""
    seen, over = [], threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            space = os.statvfs(point)
            seen.append(space.f_bavail * space.f_frsize)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        return work(), min(seen)
    finally:
        over.set()
        looking.join()


def test_one_more_walk_through_a_home_that_is_sent_gets_no_more_time() -> None:
    link: Any = None
    budget = Pulse(link, -1.0)
    budget.seconds = 60.0
    with pytest.raises(OverBudget):
        budget.again().check()


DEAF = Bounds(idle=0.3, total=2)
#: What the other host does, what that is, and what is said of it.
ANSWERS: dict[str, tuple[str, type[NodeError], str]] = {
    "it is away": ("exit 255", Stopped, "nas2: list: ended with 255"),
    "ssh says why": ("echo no route >&2; exit 255", Stopped, "nas2: list: no route"),
    "it refuses": ("echo Error: no >&2; exit 1", NodeError, "nas2: list: no"),
    "it ends": ("exit 3", NodeError, "nas2: list: ended with 3"),
    "it refuses when it has answered": ("echo '{\"sets\": {}}'; echo no >&2; exit 1", NodeError, "nas2: list: no"),
    "it is silent": ("exec sleep 60", Stopped, "stood still"),
    "it answers and goes on": ("echo '{\"sets\": {}}'; exec >&-; exec sleep 60", Stopped, "nas2: list"),
    "it is an older one": (f"echo {FIRST}", NodeError, "gpuadmin provision --limit nas2"),
    "it says no document": ("echo '[]'", NodeError, "gpuadmin provision --limit nas2"),
    "it says no sets": ("echo '{\"sets\": 5}'", NodeError, "gpuadmin provision --limit nas2"),
    "it goes very deep": ("yes [ | head -c 100000 | tr -d '\\n'", NodeError, "gpuadmin provision --limit nas2"),
    "it goes on and on": ("yes", NodeError, "nas2: list: the answer is longer than"),
}


@pytest.mark.parametrize(("script", "kind", "words"), ANSWERS.values(), ids=ANSWERS.keys())
def test_how_the_other_host_answers(
    monkeypatch: pytest.MonkeyPatch, script: str, kind: type[NodeError], words: str
) -> None:
    """Who is away is told from who refuses: of one that is away not all homes are tried."""
    monkeypatch.setattr(transfer, "ANSWER", 1 << 17)
    begun = time.monotonic()
    with pytest.raises(NodeError, match=words) as caught:
        transfer.sets(transfer.Remote("nas2", ("sh", "-c", script), DEAF), "/d")
    assert type(caught.value) is kind
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize(("status", "kind"), [(1, NodeError), (255, Stopped), (0, Stopped)])
def test_who_refuses_in_the_middle_is_not_away(status: int, kind: type[NodeError]) -> None:
    remote = transfer.Remote("nas2", ("sh", "-c", f"echo Error: no >&2; exit {status}"), DEAF)
    with pytest.raises(NodeError, match="nas2: home: no") as caught, transfer.asked(remote, "home") as link:
        link.get()
    assert type(caught.value) is kind


def test_a_name_with_a_space_is_one_word_there() -> None:
    with transfer.asked(transfer.Remote("nas2", ("echo",)), "send", FIRST, "minji", "my thesis; $(x)") as link:
        assert link.rest(1000) == f"send {FIRST} minji 'my thesis; $(x)'\n".encode()


def test_ssh_trusts_one_key_and_one_host_and_asks_nobody(tmp_path: Path) -> None:
    """As ssh itself understands it."""
    key = tmp_path / "copy"
    key.write_text("a key")  # ssh leaves out one that is not there
    program, *rest = transfer.ssh_command("10.0.0.9", str(key), "/keys/known", 2222)
    said = run(program, "-G", *rest)
    assert rest[rest.index("-F") + 1] == "none"
    for line in (
        "user root", "hostname 10.0.0.9", "port 2222", f"identityfile {key}", "identitiesonly yes",
        "batchmode yes", "userknownhostsfile /keys/known", "globalknownhostsfile none", "stricthostkeychecking true",
        "connecttimeout 20", "serveraliveinterval 15", "serveralivecountmax 8", "requesttty false",
    ):  # fmt: skip
        assert line in said.splitlines(), line


HOME = backup_set.Home(20001, 1, 9, "a" * 64, "2026-12-21T02:00:00Z", 257, "", 1)
SET = Backup(FIRST, "2026-12-21T01:02:03Z", {"minji": HOME, "jiho": HOME}, {}, {}, f"/d/{FIRST}", "/srv/homes", "homes")


def test_what_another_host_says_of_its_sets() -> None:
    """One that cannot be read hides no other, and nothing counts as verified here by its word."""
    good = backup_set.document(replace(SET, inside="."))
    answer = json.dumps({"sets": {"../x": good, FIRST: good, SECOND: {**good, "root": 5}}})
    remote = transfer.Remote("nas2", ("sh", "-c", f"echo '{answer}'"))
    assert list(transfer.sets(remote, "/d")) == [FIRST]
    found = transfer.newest("minji", "/d", remote)
    assert found is not None
    assert {home.verified for home in found.homes.values()} == {None}
    assert transfer.newest("minji", "/d", remote, SECOND) is None


LATER = replace(SET, name=SECOND)
#: What was sent before, as it is here and there: whether a difference to it may be sent.
PARENTS: dict[str, tuple[Backup, dict[str, Backup], bool]] = {
    "the same here and there": (SET, {FIRST: SET}, True),
    "not there": (SET, {}, False),
    "there without that home": (SET, {FIRST: replace(SET, homes={"jiho": HOME})}, False),
    "here without that home": (replace(SET, homes={"jiho": HOME}), {FIRST: SET}, False),
    "another one there": (SET, {FIRST: replace(SET, homes={"minji": replace(HOME, checksum="b" * 64)})}, False),
    "somebody else's": (
        replace(SET, homes={"minji": replace(HOME, uid=20002)}),
        {FIRST: replace(SET, homes={"minji": replace(HOME, uid=20002)})}, False,
    ),
    "of another format": (replace(SET, format=1), {FIRST: replace(SET, format=1)}, False),
    "itself": (LATER, {SECOND: LATER}, False),
}  # fmt: skip


@pytest.mark.parametrize(("earlier", "there", "may"), PARENTS.values(), ids=PARENTS.keys())
def test_what_a_difference_is_sent_to(earlier: Backup, there: dict[str, Backup], may: bool) -> None:
    assert transfer._parent(LATER, "minji", [earlier], there) == (earlier if may else None)


def task(path: Path, *, parent: Backup | None = None, size: int = 9) -> transfer.Task:
    found = replace(SET, path=str(path), homes={"minji": replace(HOME, bytes=size)})
    return transfer.Task(found, "minji", transfer.Remote("nas2", ()), transfer.Limits(), True, False, parent)


GONE, REFUSED = transfer.Lost("away"), transfer.Failed("no")
#: What becomes of homes, one after the other, and who is not tried any more.
FATES: dict[str, tuple[list[object], list[int]]] = {
    "away": ([GONE, GONE, GONE, None, None], [0, 1, 2, 3, 4]),
    "away from time to time": ([GONE, GONE, None, GONE, GONE, REFUSED, GONE, None], [0, 1, 3, 4, 5, 6]),
    "it refuses each": ([REFUSED] * 5, [0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize(("fates", "lacking"), FATES.values(), ids=FATES.keys())
def test_who_lacks_a_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fates: list[object], lacking: list[int]
) -> None:
    tasks = [replace(task(tmp_path), user=f"user{number}") for number in range(len(fates))]
    monkeypatch.setattr(transfer, "_each", lambda tasks, _workers: zip(tasks, fates, strict=True))
    found = transfer._all(tasks, 1)
    assert sorted(found) == [f"user{number}" for number in lacking]
    assert "was not reached" not in found.values()


#: What is raised while a home is sent, and what that is.
ENDS: list[tuple[Exception, type]] = [
    (Stopped("stood still"), transfer.Lost),
    (NodeError("no"), transfer.Failed),
    (NodeError("less than 1 GiB of the file system would stay free"), transfer.NoRoomThere),
    (NodeError("nas2: home: No space left on device"), transfer.NoRoomThere),
    (NodeError("nas2: home: Disk quota exceeded"), transfer.NoRoomThere),
    (OSError(5, "Input/output error"), transfer.Failed),
]


@pytest.mark.parametrize(("error", "kind"), ENDS)
def test_how_a_home_that_is_sent_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, kind: type
) -> None:
    """A difference that is refused is followed by the whole home; one that nobody listens to is not."""
    sent: list[str | None] = []
    (tmp_path / FIRST).mkdir()

    def stream(_task: transfer.Task, parent: Backup | None) -> None:
        sent.append(parent.name if parent else None)
        if parent is not None:
            with pytest.raises(backup_set.InUse):
                backup_set.remove(str(tmp_path), FIRST)
        raise error

    monkeypatch.setattr(transfer, "_stream", stream)
    assert type(transfer._one(task(tmp_path, parent=replace(SET, path=str(tmp_path / FIRST))))) is kind
    assert sent == ([FIRST] if kind is transfer.Lost else [FIRST, None])
    sent.clear()
    (tmp_path / FIRST).rmdir()
    transfer._one(task(tmp_path, parent=replace(SET, path=str(tmp_path / FIRST))))
    assert sent == [None], "the earlier one was deleted meanwhile"


def test_a_size_that_is_only_a_number_is_not_waited_for(tmp_path: Path) -> None:
    """No home has more bytes than are in use on its disk."""
    space = os.statvfs(tmp_path)
    assert task(tmp_path, size=2**87).seconds <= 21600 + space.f_blocks * space.f_frsize / transfer.RATE


def test_a_large_home_may_take_longer(tmp_path: Path) -> None:
    """Beside what any home may take, as long as its bytes need on the slowest line that is waited for."""
    assert task(tmp_path, size=0).seconds == transfer.Limits().seconds
    assert task(tmp_path, size=transfer.RATE * 3).seconds == transfer.Limits().seconds + 3


def test_a_home_is_asked_for_as_long_as_it_may_take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not as long as all homes of a set."""
    asked: list[tuple[str, float]] = []

    @contextmanager
    def ask(_remote: transfer.Remote, question: str, *_: str, seconds: float) -> Iterator[Any]:
        asked.append((question, seconds))
        yield SimpleNamespace(wait=lambda: ("done", {}, b""), put=lambda *_, **__: None)

    monkeypatch.setattr(transfer, "asked", ask)
    monkeypatch.setattr(sending, "send", lambda *_: None)
    one = replace(task(tmp_path), verify=True)
    assert transfer._one(one) is None
    assert asked == [("home", 2 * one.seconds), ("verify", 3 * one.seconds)]


def test_who_had_no_room_is_tried_again_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[tuple[int, int]] = []

    def each(_work: object, tasks: list[transfer.Task], workers: int, _seconds: float) -> Iterator[Any]:
        tried.append((len(tasks), workers))
        yield from [(one, transfer.NoRoomThere("full")) for one in tasks]

    monkeypatch.setattr(transfer, "each", each)
    found = list(transfer._each([task(tmp_path)] * 2, 2))
    assert (len(found), tried) == (4, [(2, 2), (2, 1)])


def test_a_manifest_that_comes_back_has_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The other host is believed nothing: it fills no disk of this one."""
    monkeypatch.setattr(received, "MANIFEST", 5)
    head = b'{"op":"manifest","bytes":6}'
    (tmp_path / "said").write_bytes(struct.pack(">I", len(head)) + head + b"x" * 6)
    remote = transfer.Remote("nas2", ("sh", "-c", f"cat {tmp_path}/said"))
    with (tmp_path / "manifest").open("wb") as manifest, pytest.raises(NodeError, match="longer than 5 bytes"):
        transfer.fetch(remote, FIRST, "minji", "", manifest.fileno(), -1, -1, lambda one: one)
    assert (tmp_path / "manifest").stat().st_size == 0


def test_while_there_is_nothing_to_send_there_are_signs_of_life() -> None:
    said: list[str] = []
    link: Any = SimpleNamespace(put=said.append, flush=lambda: said.append("flushed"))
    budget = Pulse(link, 60.0)
    budget.check()
    assert said == []
    budget._pulsed -= budget.EVERY + 1
    budget.check()
    budget.check()
    assert said == ["wait", "flushed"]
    again: Any = budget.again()  # one more walk through the home
    again._pulsed -= again.EVERY + 1
    again.check()
    assert said == ["wait", "flushed"] * 2


@pytest.mark.parametrize("last", ["done", "give"])
def test_a_home_is_there_when_the_other_host_says_so(tmp_path: Path, last: str) -> None:
    link: Any = SimpleNamespace(wait=lambda: (last, {}, b""))
    if last == "done":
        transfer._done(link, task(tmp_path))
    else:
        with pytest.raises(NodeError, match="did not say that it has minji"):
            transfer._done(link, task(tmp_path))


class Said:
    """A link that keeps what is put."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def put(self, operation: str, _data: bytes = b"", **fields: Any) -> None:
        self.records.append((operation, fields))


def entry(path: Path, name: str, handle: int) -> Entry:
    return Entry(name.encode(), name.encode(), handle, (path / name).lstat())


def line(path: str, kind: str = "f", **more: Any) -> home_manifest.Line:
    values = {"mode": 0o600, "uid": 0, "gid": 0, "size": 1, "mtime": 1, "content": "x", "link": "", "attributes": "",
              "inode": 300, "ctime": 1}  # fmt: skip
    return home_manifest.Line(path, kind, **{**values, **more})


def test_what_is_sent_is_what_was_looked_at(tmp_path: Path) -> None:
    """A file that was exchanged, a manifest of something else, an earlier home without the file."""
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x")
    link: Any = Said()
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        one = entry(tmp_path, "a", handle)
        (tmp_path / "b").replace(tmp_path / "a")
        with pytest.raises(NodeError, match="was exchanged"):
            sending.Sender(link, Budget()).whole(one)
        one, top = entry(tmp_path, "a", handle), line(".", "d")
        for lines in ([top, line("b")], [top]):
            with pytest.raises(NodeError, match="does not match what is there"):
                sending.Sender(link, Budget()).difference([one], iter(lines), iter([top]))
        twin: Any = SimpleNamespace(directory=lambda _path: None)
        with pytest.raises(NodeError, match="is not in the earlier backup"):
            sending.Sender(link, Budget(), twin).difference(
                [one], iter([top, line("a")]), iter([top, line("a", size=2)])
            )
    finally:
        os.close(handle)


def test_names_of_one_file_cost_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which files were seen is held while a home is sent: more than an honest home has is refused."""
    (tmp_path / "a").write_bytes(b"")
    os.link(tmp_path / "a", tmp_path / "b")
    monkeypatch.setattr("ansible_collections.gpuadmin.node.plugins.module_utils.budget.MEMORY", 10)
    link: Any = Said()
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OverBudget, match="more names at once"):
            sending.Sender(link, Budget()).whole(entry(tmp_path, "a", handle))
    finally:
        os.close(handle)
