"""Second copies: sent to the other host, and fetched from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    making,
    restore,
    restore_plan,
    transfer,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.unit.node.storage import FIRST, MINJI, SECOND, Storage, flip, mounted, run, wanted

pytestmark = pytest.mark.usefixtures("end_of_the_year")


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


PROGRAM = """
import sys
sys.path.insert(0, {collections!r})
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, copy_server
import os
backup_set.now = lambda: os.environ["TEST_NOW"]
os.environ["SSH_ORIGINAL_COMMAND"] = sys.argv[1]
sys.exit(copy_server.main({directory!r}, 1))
"""


@pytest.fixture
def remote(storage: Storage, tmp_path: Path) -> Iterator[tuple[transfer.Remote, Path]]:
    """Another host: another btrfs, and the forced command without the ssh in front of it."""
    collections = str(Path(transfer.__file__).parents[6])
    with mounted(tmp_path / "disk2", tmp_path / "other", 256) as point:
        program = PROGRAM.format(collections=collections, directory=str(point / "copies"))
        yield transfer.Remote("nas2", (sys.executable, "-c", program)), point / "copies"


@pytest.mark.btrfs
def test_a_second_copy(storage: Storage, remote: tuple[transfer.Remote, Path]) -> None:
    there, directory = remote
    home = storage.home("minji", 20001, {"big": os.urandom(2_000_000)})
    run("btrfs", "subvolume", "create", home / "data")
    first = storage.backup()
    assert transfer.send(first, there, []).strip()
    assert set(backup_set.complete(str(directory))[0].homes) == {"minji"}
    (home / "small").write_bytes(b"x")
    second = storage.backup(SECOND)
    sizes = []
    real = subprocess.Popen

    class Counting(real):
        def __init__(self, command: list[str], **more: object) -> None:
            sizes.append(command)
            super().__init__(command, **more)

    transfer.subprocess.Popen = Counting
    try:
        transfer.send(second, there, [first])
    finally:
        transfer.subprocess.Popen = real
    assert ("btrfs", "send", "--quiet", "-p", f"{first.path}/homes", f"{second.path}/homes") in sizes
    copies = backup_set.complete(str(directory))
    assert [copy.name for copy in copies] == [FIRST, SECOND]
    # a person's home can be restored there, too
    assert Path(copies[1].home("minji"), "small").read_bytes() == b"x"
    # again: nothing is sent
    assert transfer.send(second, there, [first]).strip()


@pytest.mark.btrfs
def test_a_copy_that_breaks_is_none(storage: Storage, remote: tuple[transfer.Remote, Path]) -> None:
    there, directory = remote
    storage.home(*MINJI)
    backup = storage.backup()
    script = 'case "$4" in receive*) head -c 300 | "$@";; *) exec "$@";; esac'
    cutting = transfer.Remote("nas2", ("sh", "-c", script, "sh", *there.command))
    with pytest.raises(NodeError, match="was not copied"):
        transfer.send(backup, cutting, [])
    deaf = transfer.Remote("nas2", ("sh", "-c", "cat > /dev/null"))
    with pytest.raises(NodeError, match="did not say"):
        transfer.send(backup, deaf, [])
    assert backup_set.complete(str(directory)) == []
    transfer.send(backup, there, [])
    copy = backup_set.complete(str(directory))[0]
    flip(copy.home("minji"))
    with pytest.raises(NodeError, match="damaged"):
        transfer.send(backup, there, [])


@pytest.mark.btrfs
def test_what_is_lost_here_comes_back_from_the_other_host(
    storage: Storage, remote: tuple[transfer.Remote, Path]
) -> None:
    there, _directory = remote
    home = storage.home("minji", 20001, {"thesis": b"precious", "big": os.urandom(1_000_000)})
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/set").write_bytes(b"1")
    Storage.give(home, 20001)
    sums = {FIRST: checksum_of(storage.backup())}
    transfer.send(storage_set(storage, FIRST), there, [])
    (home / "thesis").write_bytes(b"more")
    sums[SECOND] = checksum_of(storage.backup(SECOND))
    transfer.send(storage_set(storage, SECOND), there, [storage_set(storage, FIRST)])
    # what is here and verified is taken from here
    assert restore_plan.locate(wanted(storage), there)[1] is False
    for name in (FIRST, SECOND):
        backup_set.remove(str(storage.directory), name)
    # after the disk was exchanged, the timer has backed an empty home up; nobody means that one
    shutil.rmtree(home)
    storage.home("minji", 20001, {})
    storage.backup("20261229T010203Z-daily", verify=[])
    found, fetch = restore_plan.locate(wanted(storage), there)
    assert (found.name, fetch, found.homes["minji"].verified) == (SECOND, True, None)
    for name in (SECOND, FIRST):  # the first one as a difference to the second
        fetched = transfer.fetch(name, str(storage.directory), there)
        assert transfer.fetch(name, str(storage.directory), there).name == name
        assert making.verify(fetched, ["minji"]).homes["minji"].verified
        assert checksum_of(fetched) == sums[name]
    assert (home.exists(), list(home.iterdir())) == (True, [])
    restore.execute(wanted(storage, mode="in-place"))
    assert (home / "thesis").read_bytes() == b"more"
    assert (home / "data/set").read_bytes() == b"1"
    # and a new one goes there as a difference to what came back
    third = storage.backup("20261230T010203Z-manual")
    assert transfer.send(third, there, [storage_set(storage, SECOND)]).strip()


def storage_set(storage: Storage, name: str) -> backup_set.Backup:
    found = backup_set.load(str(storage.directory), name)
    assert found is not None
    return found


def checksum_of(backup: backup_set.Backup) -> str:
    return backup.homes["minji"].checksum


@pytest.mark.btrfs
def test_a_fetch_that_breaks_leaves_nothing(storage: Storage, remote: tuple[transfer.Remote, Path]) -> None:
    there, directory = remote
    storage.home("minji", 20001, {"big": os.urandom(1_000_000)})
    transfer.send(storage.backup(), there, [])
    backup_set.remove(str(storage.directory), FIRST)
    cutting = transfer.Remote(
        "nas2", ("sh", "-c", 'case "$4" in send*) "$@" | head -c 3000;; *) exec "$@";; esac', "sh", *there.command)
    )
    with pytest.raises(NodeError, match="did not come from nas2"):
        transfer.fetch(FIRST, str(storage.directory), cutting)
    late = transfer.Remote(
        "nas2", ("sh", "-c", 'case "$4" in send*) "$@"; exit 3;; *) exec "$@";; esac', "sh", *there.command)
    )
    with pytest.raises(NodeError, match="did not come whole"):
        transfer.fetch(FIRST, str(storage.directory), late)
    assert backup_set.names(str(storage.directory)) == []
    deaf = transfer.Remote("nas2", ("false",))
    with pytest.raises(NodeError, match=r"no backup with a home of minji .*; and nas2: list"):
        restore_plan.locate(wanted(storage), deaf)
    with pytest.raises(NodeError, match="nor on nas2"):
        restore_plan.locate(wanted(storage, user="jiho"), there)
    flip(backup_set.complete(str(directory))[0].home("minji"), "big", b"x" * 1_000_000)
    transfer.fetch(FIRST, str(storage.directory), there)
    with pytest.raises(NodeError, match="is not what was backed up"):
        restore.execute(wanted(storage))


@pytest.mark.btrfs
@pytest.mark.parametrize(
    "lie",
    [
        {"homes": {"../../etc/x": {}}},
        {"nested": {"": "../../x"}},
        {"inside": "../.."},
        {"inside": "/etc"},
        {"format": 3},
        None,
    ],
)
def test_what_the_other_host_says_is_not_trusted(storage: Storage, tmp_path: Path, lie: dict[str, Any] | None) -> None:
    storage.home(*MINJI)
    backup = storage.backup()
    document = json.loads(Path(backup.path, "backup.json").read_text())
    uuids = {"homes": "12345678-1234-1234-1234-123456789012"}
    if lie is None:
        uuids = {}
    elif "homes" in lie:
        document["homes"] = dict.fromkeys(lie["homes"], document["homes"]["minji"])
    elif "nested" in lie:
        document["homes"]["minji"]["nested"] = lie["nested"]
    else:
        document |= lie
    (tmp_path / "said").write_text(json.dumps({"backup": json.dumps(document), "uuids": uuids}))
    liar = transfer.Remote("nas2", ("sh", "-c", f"cat {tmp_path}/said"))
    with pytest.raises(NodeError, match=r"refused|format"):
        transfer.describe(FIRST, str(storage.directory), liar)


@pytest.mark.btrfs
@pytest.mark.parametrize("said", ["", "{}", '{"backup": "{}", "uuids": {}}', '{"backup": [], "uuids": []}'])
def test_words_of_the_other_host_that_are_none(storage: Storage, said: str) -> None:
    """Whoever looks for the newest there gets a sentence, too."""
    mad = transfer.Remote("nas2", ("sh", "-c", f"case \"$0\" in list) echo {FIRST};; *) echo '{said}';; esac"))
    with pytest.raises(NodeError, match=f"no backup with a home of minji .*; and .*{FIRST}.* cannot be read"):
        restore_plan.locate(wanted(storage), mad)


@pytest.mark.btrfs
def test_the_other_host_lets_the_oldest_of_the_timer_s_go(
    storage: Storage, remote: tuple[transfer.Remote, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps one, as its role says, and for a month all. What an admin made stays, and what nobody else has."""
    there, directory = remote
    storage.home(*MINJI)
    sent = [storage.backup()]
    transfer.send(sent[0], there, [])
    for month, day, then in (("12", "22", 2), ("12", "23", 3), ("12", "24", 4), ("01", "25", 2)):
        year = 2026 + (month == "01")
        monkeypatch.setenv("TEST_NOW", f"{year}-{month}-{day}T02:00:00Z")
        sent.append(storage.backup(f"{year}{month}{day}T010203Z-daily", verify=[]))
        transfer.send(sent[-1], there, sent[-2::-1])
        assert len(backup_set.complete(str(directory))) == then
    assert [one.name for one in backup_set.complete(str(directory))] == [FIRST, "20270125T010203Z-daily"]
