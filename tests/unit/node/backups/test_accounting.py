"""The database of Slurm's accounting among the homes: dumped whole or not at all, and saved as a home is."""

import gzip
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import accounting, copy_stream, making
from ansible_collections.gpuadmin.node.plugins.module_utils.commands import main
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import read_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import term_facts

from tests.support.storage import MINJI, Storage

pytestmark = pytest.mark.root

DUMP = "job_table minji 12\n-- Dump completed\n"
OLD = b"what was dumped before"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with a dump. `mariadb-dump` says what the file `says` has, and ends with what `ends` has."""
    programs, directory = tmp_path / "programs", tmp_path / accounting.NAME
    programs.mkdir()
    directory.mkdir(0o700)
    (directory / accounting.FILE).write_bytes(OLD)
    (tmp_path / "says").write_text(DUMP)
    (tmp_path / "ends").write_text("0")
    dumper = (
        f'#!/usr/bin/env -S "{sys.executable}"\nimport sys\nfrom pathlib import Path\nhere = Path({str(tmp_path)!r})\n'
    )
    dumper += "print('mariadb-dump: Error 2013: Lost connection', file=sys.stderr)\n"
    dumper += "assert sys.argv[-1] == 'slurm_acct_db'\n"
    dumper += "print((here / 'says').read_text(), end='')\nsys.exit(int((here / 'ends').read_text()))\n"
    scripts = {
        "mariadb-dump": dumper,
        # as the user slurm, whom this machine does not have
        "timeout": '#!/bin/sh\nshift 2\nexec "$@"\n',
        "setpriv": '#!/bin/sh\ntest "$1" = --reuid=slurm || exit 9\nshift 3\nexec "$@"\n',
    }
    for name, script in scripts.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin")
    return directory


def test_a_dump_takes_the_place_of_the_last_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / f"{accounting.FILE}.new").write_bytes(b"of one that was killed")
    synced: list[str] = []

    def sync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))

    monkeypatch.setattr(os, "fsync", sync)
    assert main(["slurm-dump", str(place)]) == 0
    assert [path.name for path in place.iterdir()] == [accounting.FILE]
    dumped = place / accounting.FILE
    assert (gzip.decompress(dumped.read_bytes()).decode(), dumped.stat().st_mode & 0o777) == (DUMP, 0o600)
    assert synced == [f"{dumped}.new", str(place)]


@pytest.mark.parametrize(("says", "ends"), [(DUMP, "2"), (DUMP.replace("-- Dump completed", ""), "0"), ("", "0")])
def test_a_dump_that_was_cut_short_is_none(
    place: Path, says: str, ends: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.parent / "says").write_text(says)
    (place.parent / "ends").write_text(ends)
    assert accounting.main(str(place)) == 1
    assert "Error: mariadb-dump: Error 2013: Lost connection" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {accounting.FILE: OLD}


@pytest.mark.holds("one dump is made at a time")
def test_a_second_dump_waits_for_the_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody starts one by hand: neither takes the other's file away, or gives it its name half done."""
    inside: list[bool] = []

    def write(path: str) -> None:
        with pytest.raises(NodeError, match="has been held"), flocked(accounting.LOCK, 0.0):
            pass
        inside.append(True)
        Path(path).touch()

    monkeypatch.setattr(accounting, "_write", write)
    accounting.dump(str(place))
    assert inside == [True]


def test_a_disk_without_room_keeps_the_last_dump(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, path: int) -> None:
            pass

        def spend(self, size: int) -> None:
            raise copy_stream.NoRoom("less than 16 GiB of the file system would stay free")

    monkeypatch.setattr(accounting, "Room", Full)
    with pytest.raises(copy_stream.NoRoom):
        accounting.dump(str(place))
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {accounting.FILE: OLD}


def test_a_place_that_others_can_enter_gets_no_dump(place: Path) -> None:
    place.chmod(0o755)
    with pytest.raises(NodeError, match="that root alone can enter"):
        accounting.dump(str(place))
    assert (place / accounting.FILE).read_bytes() == OLD


@pytest.mark.btrfs
def test_it_is_in_a_backup_as_a_home_and_is_named_where_it_is_old(storage: Storage) -> None:
    storage.home(*MINJI)
    key = f"'{accounting.NAME}/{accounting.FILE}'"
    request = replace(storage.request(), accounting=True)
    assert "is not there: systemctl status gpuadmin-slurm-dump.service" in making.plan(request)[1][key]
    place = storage.root / accounting.NAME
    place.mkdir(0o700)
    (place / accounting.FILE).write_bytes(OLD)
    os.utime(place / accounting.FILE, (86400, 86400))
    old = making.create(request)
    assert old.problems == making.plan(request)[1]
    assert "is of 1970-01-02 00:00 UTC" in old.problems[key]
    os.utime(place / accounting.FILE, (4102444800, 4102444800))
    ahead = accounting.problems(str(storage.root))
    assert "is of 2100-01-01 00:00 UTC" in ahead[key], "of a clock that was put right since"
    os.utime(place / accounting.FILE)
    backup = making.create(replace(storage.request(name="20261222T010203Z-daily"), accounting=True))
    home = backup.homes[accounting.NAME]
    assert (home.uid, home.files, home.verified is not None, backup.problems) == (0, 1, True, {})
    # a reset sees no home that is nobody's
    assert list(term_facts.of_homes(str(storage.root), str(storage.point), read_mountinfo())) == ["minji"]
