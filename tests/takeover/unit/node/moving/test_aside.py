"""The old home on a node: set aside only as it was compared, and deleted only as it was set aside."""

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.moving import aside, discard_check, record, serving
from tests.support.moving_homes import Cluster, differ, facts, old, own
from tests.support.storage import run

pytestmark = pytest.mark.root
MINJI = 31501


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = Cluster(tmp_path / "c")
    found.home("gpu1", "minji", MINJI, {"thesis": b"precious\n", "more/x": b"x"})
    return found


def placed(cluster: Cluster) -> dict[str, Any]:
    """Her home, on the storage host by now."""
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    (part,) = cluster.do("take", parts)["parts"]
    found: dict[str, Any] = part
    return found


def home(cluster: Cluster) -> Path:
    return cluster.base / "gpu1" / "home" / "minji"


def before(cluster: Cluster) -> Path:
    return cluster.base / "gpu1" / "home.before" / "minji"


def discard(cluster: Cluster, part: dict[str, Any]) -> dict[str, object]:
    return aside.discard(cluster.node_homes(part), cluster.node_state(part), old(part))


@pytest.mark.holds("an old home is what was moved")
def test_what_changed_after_it_was_compared_stays_where_it_is(cluster: Cluster) -> None:
    part = placed(cluster)
    (home(cluster) / "thesis").write_bytes(b"later\n")
    found = facts(home(cluster))
    with pytest.raises(NodeError, match="has changed since it was compared"):
        cluster.aside([part])
    assert differ(found, home(cluster)) == []
    # an admin has looked at it, and renames it
    before(cluster).parent.mkdir(mode=0o700, exist_ok=True)
    home(cluster).rename(before(cluster))
    cluster.aside([part])


@pytest.mark.holds("nobody is let in before their old home has its name on the disk")
def test_put_back_it_is_the_home_again_and_can_be_set_aside(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    part = placed(cluster)
    found = facts(home(cluster))
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(aside, "sync_filesystem", lambda path: synced.append((path, home(cluster).exists())))
    put_back = partial(aside.put_back, cluster.node_homes(part), cluster.node_state(part), old(part))
    put_back()
    for _ in range(2):
        cluster.aside([part])
        assert not home(cluster).exists()
        put_back()
        assert synced[-1] == (cluster.node_homes(part), True)
        put_back()
        assert differ(found, home(cluster)) == []
    cluster.aside([part])
    home(cluster).mkdir()
    with pytest.raises(NodeError, match="nothing was replaced"):
        put_back()
    assert differ(found, before(cluster)) == [], "a new home there is not replaced"


def test_a_home_that_became_a_mount_meanwhile_is_named(cluster: Cluster) -> None:
    part = placed(cluster)
    run("mount", "--bind", home(cluster), home(cluster))
    try:
        with pytest.raises(NodeError, match="is a mount of its own"):
            cluster.aside([part])
    finally:
        run("umount", home(cluster))
    cluster.aside([part])


def test_set_aside_again_changes_nothing(cluster: Cluster) -> None:
    part = placed(cluster)
    for _ in range(2):
        cluster.aside([part])
    assert before(cluster).stat().st_ino == part["inode"]
    assert before(cluster).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.holds("a home arrives where root alone can enter")
def test_a_place_that_others_can_enter_is_not_used(cluster: Cluster) -> None:
    part = placed(cluster)
    before(cluster).parent.mkdir(mode=0o755)
    before(cluster).parent.chmod(0o755)
    with pytest.raises(NodeError, match="root alone"):
        cluster.aside([part])
    assert home(cluster).exists()


def test_discarded_as_it_was_set_aside_and_again_nothing(cluster: Cluster) -> None:
    part = placed(cluster)
    cluster.aside([part])
    assert discard(cluster, part)["kept"] == 0
    assert not before(cluster).exists()
    assert discard(cluster, part)["deleted"] == 0
    assert (cluster.homes / "minji" / "thesis").exists()


@pytest.mark.parametrize("what", ["changed", "another", "a link", "another's"])
def test_what_is_not_what_was_set_aside_is_not_deleted(cluster: Cluster, what: str) -> None:
    part = placed(cluster)
    cluster.aside([part])
    top = before(cluster)
    if what == "changed":
        (top / "thesis").write_bytes(b"somebody worked here\n")
    elif what == "another's":
        os.chown(top, 0, 0)
    else:
        top.rename(top.with_name("away"))
        if what == "a link":
            top.symlink_to(cluster.homes / "minji")
        else:
            top.mkdir()
            (top / "thesis").write_bytes(b"precious\n")
            own(top, MINJI)
    with pytest.raises(NodeError):
        discard(cluster, part)
    assert (cluster.homes / "minji" / "thesis").read_bytes() == b"precious\n"
    assert (top.with_name("away") if what in ("another", "a link") else top).exists()


@pytest.mark.holds("what is not known to be an old home is kept")
def test_where_nothing_is_known_or_its_disk_is_not_mounted_nothing_is_said_to_be_deleted(cluster: Cluster) -> None:
    part = placed(cluster)
    cluster.aside([part])
    with pytest.raises(NodeError, match="has no record"):
        discard(cluster, {**part, "inode": part["inode"] + 1})
    before(cluster).parent.rename(cluster.base / "unmounted")
    with pytest.raises(NodeError, match="mount the disk"):
        discard(cluster, part)


def test_an_old_home_is_found_when_the_shared_ones_are_mounted_over_the_others(cluster: Cluster) -> None:
    part = placed(cluster)
    cluster.aside([part])
    run("mount", "-t", "tmpfs", "none", cluster.node_homes(part))
    try:
        assert discard(cluster, part)["kept"] == 0
    finally:
        run("umount", cluster.node_homes(part))
    assert not before(cluster).exists()


@pytest.mark.holds("what is mounted inside of a tree is not entered")
def test_what_an_admin_has_mounted_in_an_old_home_is_not_deleted_with_it(cluster: Cluster) -> None:
    """A mount goes along when the directory around it is renamed, and `mount --bind` has the same device."""
    (cluster.base / "shared").mkdir()
    (cluster.base / "shared/data").write_bytes(b"everybody's")
    (home(cluster) / "shared").mkdir()
    run("mount", "-o", "bind", cluster.base / "shared", home(cluster) / "shared")
    try:
        part = placed(cluster)
        cluster.aside([part])
        with pytest.raises(NodeError, match="is mounted there"):
            discard(cluster, part)
    finally:
        run("umount", before(cluster) / "shared")
    assert (cluster.base / "shared/data").read_bytes() == b"everybody's"


def test_a_deletion_that_was_cut_goes_on(cluster: Cluster) -> None:
    part = placed(cluster)
    cluster.aside([part])
    (Path(record.directory(cluster.node_state(part))) / f"minji.{part['inode']}.going").touch()
    (before(cluster) / "thesis").unlink()
    discard(cluster, part)
    assert not before(cluster).exists()


@pytest.mark.holds("what is moved is the directory that was decided on")
def test_a_deletion_that_was_cut_does_not_go_on_with_another_directory(cluster: Cluster) -> None:
    """What is left of the old one cannot be compared any more, so what is there has to be it."""
    part = placed(cluster)
    cluster.aside([part])
    (Path(record.directory(cluster.node_state(part))) / f"minji.{part['inode']}.going").touch()
    before(cluster).rename(before(cluster).with_name("away"))
    before(cluster).mkdir()
    (before(cluster) / "thesis").write_bytes(b"newer\n")
    own(before(cluster), MINJI)
    with pytest.raises(NodeError, match="not the directory that was decided on"):
        discard(cluster, part)
    assert (before(cluster) / "thesis").read_bytes() == b"newer\n"


def test_a_later_home_with_the_inode_of_one_that_was_deleted_is_set_aside_and_compared(cluster: Cluster) -> None:
    """ext4 gives the inode of a deleted directory to the next one. A cut had left the mark of that deletion."""
    part = placed(cluster)
    kept = Path(record.directory(cluster.node_state(part)))
    (kept / "minji.aside.json").write_text(json.dumps({"inode": part["inode"], "where": None}))
    (kept / f"minji.{part['inode']}.going").touch()
    cluster.aside([part])
    (before(cluster) / "thesis").write_bytes(b"somebody worked here\n")
    with pytest.raises(NodeError, match="has changed"):
        discard(cluster, part)
    assert (before(cluster) / "thesis").exists()


def noted(cluster: Cluster, part: dict[str, Any]) -> record.Part:
    known = record.load(str(cluster.state), "minji", "gpu1")
    assert known is not None
    return record.save(str(cluster.state), replace(known, step=record.ASIDE))


@pytest.mark.holds("what is discarded is in a manifest that is whole")
@pytest.mark.holds("an old home is kept where the new one is another")
def test_before_a_discard_the_storage_host_is_asked_what_became_of_it(cluster: Cluster) -> None:
    part = placed(cluster)
    root, state = str(cluster.homes), str(cluster.state)
    with pytest.raises(NodeError, match="was not moved"):
        discard_check.missing(root, state, "minji", "gpu1")
    noted(cluster, part)
    assert discard_check.missing(root, state, "minji", "gpu1") == 0
    new = cluster.homes / "minji"
    (new / "more" / "x").unlink()
    (new / "new").touch()
    assert discard_check.missing(root, state, "minji", "gpu1") == 1
    manifest = Path(record.path(state, "minji", "gpu1", "gz"))
    text = manifest.read_bytes()
    serving.written(str(manifest), lambda write: None)
    with pytest.raises(NodeError, match="is not the manifest"):
        discard_check.missing(root, state, "minji", "gpu1")
    manifest.write_bytes(text)
    new.rename(new.with_name("away"))
    cluster.home("storage", "minji", MINJI, {"thesis": b"precious\n"})
    with pytest.raises(NodeError, match="not the directory that was moved"):
        discard_check.missing(root, state, "minji", "gpu1")


@pytest.mark.holds("an old home of which nothing is elsewhere is kept")
def test_the_only_copy_is_not_discarded_because_a_new_home_has_the_inode_of_the_one_that_was_removed(
    cluster: Cluster,
) -> None:
    """remove-user and add-user on the storage host: ext4 and xfs give a free inode to the next directory."""
    part = placed(cluster)
    noted(cluster, part)
    new = cluster.homes / "minji"
    for path in (new / "more" / "x", new / "thesis"):
        path.unlink()
    (new / "more").rmdir()
    (new / ".profile").write_bytes(b"umask 022\n")
    own(new, MINJI)
    with pytest.raises(NodeError, match="nothing of it"):
        discard_check.missing(str(cluster.homes), str(cluster.state), "minji", "gpu1")
