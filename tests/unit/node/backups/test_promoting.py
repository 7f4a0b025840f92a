"""Homes that are made of second copies: writable snapshots in one step; the copies and what was there stay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, operation
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import copy_server, promoting, transfer
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.verifying import Limits
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import directories

from gpuadmin.common.records.backups import PromoteOrder
from tests.support.backup_keeper import Keeper, keeper
from tests.support.storage import FIRST, JIHO, MINJI, SECOND, Storage

pytestmark = [pytest.mark.btrfs, pytest.mark.root, pytest.mark.usefixtures("end_of_the_year")]


@pytest.fixture
def other(storage: Storage, tmp_path: Path) -> Iterator[Keeper]:
    """Copies of two backups: jiho's home is in the first alone."""
    with keeper(tmp_path) as found:
        storage.home(*MINJI)
        storage.home(*JIHO)
        first = storage.backup(FIRST)
        transfer.send(first, found.remote, (), Limits(), workers=1)
        (storage.root / "minji/thesis").write_bytes(b"newer\n")
        subprocess.run(["rm", "-r", storage.root / "jiho"], check=True)
        transfer.send(storage.backup(SECOND), found.remote, (first,), Limits(), workers=1)
        yield found


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Where a host has the record and the exports."""
    found = {"PROMOTED": tmp_path / "state/promoted.json", "EXPORTS": tmp_path / "exports", "UNITS": tmp_path}
    found["PROMOTED"].parent.mkdir()
    for name, path in found.items():
        monkeypatch.setattr(copy_server if name == "PROMOTED" else promoting, name, str(path))
    monkeypatch.setattr(directories, "LOCK", str(tmp_path / "homes.lock"))
    return found


@pytest.fixture
def make(other: Keeper) -> Callable[..., Path]:
    """Make homes of the copies, beside them or at `root`; returns their directory."""

    def made(root: Path | None = None, **more: Any) -> Path:
        order = PromoteOrder(
            root=str(root or other.point / "storage/homes"), directory=str(other.directory), former="nas1",
            homes={"minji": SECOND, "jiho": FIRST}, mountpoint=None if root else str(other.point),
        )  # fmt: skip
        promoting.execute(replace(order, **more))
        return Path(order.root)

    return made


def test_people_write_on_in_snapshots_and_the_copies_stay(make: Any, other: Keeper) -> None:
    root = make()
    assert (root / "minji/thesis").read_bytes() == b"newer\n"
    assert (root / "jiho/thesis").read_bytes() == b"precious\n"
    assert ((root / "minji").stat().st_uid, (root / "minji").stat().st_mode & 0o777) == (MINJI[1], 0o700)
    assert root.stat().st_mode & 0o777 == 0o755
    (root / "minji/thesis").write_bytes(b"today\n")
    assert Path(other.sets[SECOND].home("minji"), "thesis").read_bytes() == b"newer\n"
    held = btrfs.inspect(other.sets[SECOND].home("minji"))
    assert held is not None
    assert held.read_only
    # the same again does nothing, as long as nobody was served
    make()
    assert (root / "minji/thesis").read_bytes() == b"today\n"
    assert [one.name for one in root.parent.iterdir()] == ["homes"]


@pytest.mark.holds("a check makes no homes")
def test_a_check_says_what_a_run_does(make: Any, other: Keeper, places: dict[str, Path]) -> None:
    order = PromoteOrder(
        str(other.point / "storage/homes"), str(other.directory), "nas1", {"minji": SECOND}, str(other.point)
    )
    answer = operation.run("promote_homes", vars(order), check=True)
    assert (answer["changed"], places["PROMOTED"].exists(), (other.point / "storage").exists()) == (True, False, False)
    assert "make 1 home in" in str(answer["operations"])


@pytest.mark.holds("homes that somebody may have written in are kept aside")
def test_homes_that_were_served_are_kept(make: Any, other: Keeper, places: dict[str, Path]) -> None:
    (other.point / "storage").mkdir()
    root = make()
    (root / "minji/thesis").write_bytes(b"today\n")
    places["EXPORTS"].touch()
    make()
    assert (root / "minji/thesis").read_bytes() == b"newer\n"
    (aside,) = root.parent.glob("homes.before-*")
    assert (aside / "minji/thesis").read_bytes() == b"today\n"


@pytest.mark.parametrize("cut", ["snapshot", "sync_filesystem", "write_atomic"])
def test_what_was_cut_is_made_by_the_next_run(
    make: Any, other: Keeper, cut: str, monkeypatch: pytest.MonkeyPatch, places: dict[str, Path]
) -> None:
    """Killed after the first snapshot, before the name, before the record."""
    (other.point / "storage").mkdir()
    place, calls = (btrfs if cut == "snapshot" else promoting), []
    real = getattr(place, cut)

    def killed(*given: Any, **more: Any) -> Any:
        calls.append(given)
        if len(calls) > (cut == "snapshot"):
            raise KeyboardInterrupt
        return real(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(place, cut, killed)
        with pytest.raises(KeyboardInterrupt):
            make()
    root = make()
    assert sorted(one.name for one in root.iterdir()) == ["jiho", "minji"]
    assert not root.with_name(f"homes{promoting.MAKING}").exists()
    assert json.loads(places["PROMOTED"].read_bytes())["former"] == "nas1"


def test_a_place_on_another_file_system_is_mounted_from_that_of_the_copies(
    make: Any, places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, ran = tmp_path / "else-where/homes", []

    def systemd(words: Any, **_more: Any) -> str:
        ran.append(words[1])
        if words[1] == "enable":
            (unit,) = tmp_path.glob("*.mount")
            found = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
            root.parent.mkdir(exist_ok=True)
            subprocess.run(["mount", "--bind", found["What"], found["Where"]], check=True)
        return ""

    monkeypatch.setattr(promoting, "run", systemd)
    try:
        make(root)
        assert (root / "minji/thesis").read_bytes() == b"newer\n"
        (unit,) = tmp_path.glob("*.mount")
        assert unit.name.endswith(r"-else\x2dwhere.mount")
        places["EXPORTS"].touch()
        make(root)  # mounted by now: what is there keeps another name
        assert list(root.parent.glob("homes.before-*"))
        assert ran == ["daemon-reload", "enable"]
    finally:
        subprocess.run(["umount", root.parent], check=False)


@pytest.mark.holds("what is in the place of homes is not hidden by a mount")
def test_what_cannot_be_is_refused(make: Any, other: Keeper, tmp_path: Path) -> None:
    (tmp_path / "full/x").mkdir(parents=True)
    with pytest.raises(NodeError, match="holds something"):
        make(tmp_path / "full/homes")
    for homes, words in (
        ({"minji": FIRST, "nobody": FIRST}, "no home of 'nobody'"),
        ({"../minji": FIRST}, "no home of"),
        ({"minji": "20200101T000000Z-daily"}, "no home of|No such file"),
    ):
        with pytest.raises((NodeError, FileNotFoundError), match=words):
            make(homes=homes)


@pytest.mark.holds("homes are not made where they could not get their name")
def test_a_place_that_is_a_mount_of_its_own(make: Any, other: Keeper, tmp_path: Path) -> None:
    """Nothing is mounted or made there, and a check says so."""
    root = tmp_path / "own"
    root.mkdir()
    with pytest.raises(NodeError, match="is a mount of its own"):
        make(root, mountpoint=str(root))
    subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True)
    try:
        with pytest.raises(NodeError, match="is a mount of its own"):
            make(root)
    finally:
        subprocess.run(["umount", root], check=True)
    assert not (other.directory / promoting.PLACE).exists()
    assert not list(tmp_path.glob("own.*"))


def serve(other: Keeper, request: str) -> str:
    return copy_server.serve(str(other.directory), request)


@pytest.mark.holds("a host that serves homes takes no copies of older ones")
def test_a_host_that_serves_takes_no_copies(other: Keeper, places: dict[str, Path]) -> None:
    assert serve(other, "serves") == '{"serves": false}'
    places["PROMOTED"].touch()
    assert serve(other, "serves") == '{"serves": true}'
    for request in (f"begin {SECOND}", f"commit {SECOND}", f"home {SECOND} minji", f"verify {SECOND} minji"):
        with pytest.raises(NodeError, match="serves the homes itself"):
            serve(other, request)
    assert '"sets"' in serve(other, "list"), "they can be read"


ANSWERS = {
    "yes": ("""echo '{"serves": true}'""", 9), "no": ("""echo '{"serves": false}'""", 0), "silent": ("exit 255", 0),
    "older": ("echo not understood >&2; exit 1", 0), "odd": ("""echo '{"serves": 1}'""", 0),
}  # fmt: skip


@pytest.mark.parametrize(("script", "code"), ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.holds("homes are served where nobody says that they are elsewhere")
def test_only_a_clear_word_keeps_homes_from_being_served(
    script: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = transfer.Remote("nas2", ("sh", "-c", script))
    monkeypatch.setattr(transfer, "connect", lambda host: host and asked)
    settings = tmp_path / "backups.json"
    assert promoting.main(str(settings)) == 0
    settings.write_text(json.dumps({"directory": "/x", "remote": None}))
    assert promoting.main(str(settings)) == 0
    remote = {"host": "nas2", "address": "10.0.0.2", "key": "/k", "known_hosts": "/h"}
    settings.write_text(json.dumps({"directory": "/x", "remote": remote}))
    assert promoting.main(str(settings)) == code
