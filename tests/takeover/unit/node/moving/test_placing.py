"""What gets its name on the storage host: in place of nothing, or of an untouched home that provisioning made."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import renaming
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.moving import jobs, looking, placing, record
from tests.support.moving_homes import Cluster, differ, facts, own
from tests.support.storage import mounted, run

pytestmark = pytest.mark.root
MINJI = 31301


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = Cluster(tmp_path / "c")
    found.home("gpu1", "minji", MINJI, {"thesis": b"precious\n"})
    found.home("gpu2", "minji", MINJI, {"other": b"other\n"})
    return found


@pytest.mark.holds("a home that was replaced is deleted only if nobody has used it")
def test_a_home_that_was_replaced_goes_only_if_nobody_has_used_it(cluster: Cluster) -> None:
    """Who had a file open in it may have written since it was exchanged."""
    (cluster.base / "at/gpu1").mkdir(parents=True)
    work = cluster.base / "at/gpu1/work"
    work.write_text("late")
    for path in (work, work.parent):
        os.chown(path, MINJI, MINJI)
    handle = open_directory(str(work.parent.parent))
    main = [record.Part("minji", MINJI, "gpu1", True, False, 1, 2, record.BEGUN, "", 0, 0, here=5)]
    try:
        with pytest.raises(NodeError, match="not an untouched home"):
            placing.tidy(handle, main, str(cluster.skeleton))
        assert work.read_text() == "late"
        work.unlink()
        placing.tidy(handle, main, str(cluster.skeleton))
        assert not work.parent.exists()
    finally:
        os.close(handle)


@pytest.mark.btrfs
def test_a_home_with_a_subvolume_is_not_untouched(cluster: Cluster, tmp_path: Path) -> None:
    """Under a name of the skeleton, where nothing was looked at: the home was deleted with all that is in it."""
    (cluster.skeleton / "data").mkdir()
    with mounted(tmp_path / "disk", tmp_path / "point", 200) as point:
        home = point / "gpu1"
        home.mkdir()
        run("btrfs", "subvolume", "create", home / "data")
        (home / "data/thesis").write_text("precious")
        own(home, MINJI)
        at, main = (
            open_directory(str(point)),
            record.Part("minji", MINJI, "gpu1", True, False, 1, 2, record.BEGUN, "", 0, 0, here=5),
        )
        try:
            with pytest.raises(NodeError, match="not an untouched home"):
                placing.tidy(at, [main], str(cluster.skeleton))
        finally:
            os.close(at)
        assert (home / "data/thesis").read_text() == "precious"


@pytest.mark.btrfs
@pytest.mark.holds("nobody is kept out for a move that cannot end")
def test_a_used_home_that_is_a_subvolume_is_named_before_anything_is_copied(tmp_path: Path) -> None:
    """Their homes were copied and their accounts closed, for "Invalid cross-device link", in each run."""
    with mounted(tmp_path / "disk", tmp_path / "point", 300) as point:
        cluster = Cluster(tmp_path / "c", point / "storage")
        for name, uid, files in (("jiho", 31302, {"work": b"x"}), ("minji", MINJI, {".profile": b"umask 022\n"})):
            run("btrfs", "subvolume", "create", cluster.homes / name)
            cluster.home("storage", name, uid, files)
        wanted = {"jiho": 31302, "minji": MINJI}
        said = looking.storage(str(cluster.homes), wanted, str(cluster.skeleton), str(cluster.state))
        assert "a subvolume or file system of its own" in said["problems"]["jiho"]
        cluster.home("gpu1", "minji", MINJI, {"thesis": b"precious\n"})
        parts = cluster.parts("minji", MINJI, "gpu1")
        cluster.do("copy", parts)
        assert cluster.do("take", parts)["problems"] == {}, "an unused one changes places"
        assert (cluster.homes / "minji/thesis").read_bytes() == b"precious\n"


@pytest.mark.holds("what is kept of one person keeps nothing of others")
def test_what_is_kept_of_one_person_keeps_nothing_of_others(cluster: Cluster) -> None:
    """A power cut after the exchange, and hers was written to: each later run stopped there."""
    moving = cluster.homes / ".gpuadmin-moving"
    for name, uid, files in (("jiho", 31302, {"work": b"late"}), ("minji", MINJI, {".profile": b"umask 022\n"})):
        home = cluster.home("storage", name, uid, {})
        record.save(
            str(cluster.state),
            record.Part(name, uid, "gpu1", True, False, 1, 2, record.BEGUN, "", 0, 0, here=home.stat().st_ino),
        )
        (moving / name / "gpu1").mkdir(parents=True)
        for inner, content in files.items():
            (moving / name / "gpu1" / inner).write_bytes(content)
        own(moving / name / "gpu1", uid)
    (moving / "aaa").write_text("")
    with pytest.raises(NodeError, match="jiho/gpu1 is kept: it is not an untouched home"):
        placing.leave(str(cluster.homes), str(cluster.state), str(cluster.skeleton))
    assert sorted(one.name for one in moving.iterdir()) == ["aaa", "jiho"]
    assert (moving / "jiho/gpu1/work").read_bytes() == b"late"


@pytest.mark.holds("what cannot be told may have its name")
def test_which_homes_have_their_names(tmp_path: Path) -> None:
    """That is which directory has it, whatever was written down."""
    homes = tmp_path / "homes"
    (homes / "minji/before-gpu2").mkdir(parents=True)
    main = record.Part(
        "minji", MINJI, "gpu1", True, False, 1, 2, record.BEGUN, "", 0, 0, here=(homes / "minji").stat().st_ino
    )
    part = replace(main, host="gpu2", main=False, here=(homes / "minji/before-gpu2").stat().st_ino)
    other = replace(main, here=5)
    handle = open_directory(str(homes))
    try:
        assert placing.placed(handle, main, None)
        assert placing.placed(handle, part, main)
        assert placing.placed(handle, part, None)
        assert all(placing.placed(handle, replace(other, step=step), None) for step in (record.PLACED, record.ASIDE))
        for one, of in (
            (other, None), (replace(main, name="jiho", here=0), None), (replace(part, here=5), main),
            (replace(part, host="gpu3", here=0), main), (part, other), (replace(part, name="jiho"), None),
        ):  # fmt: skip
            assert not placing.placed(handle, one, of)
    finally:
        os.close(handle)
    assert placing.any_placed(str(homes), [main, replace(part, here=5)])
    assert placing.any_placed(str(homes), [part]), "hers that was there before is the main one"
    assert not placing.any_placed(str(homes), [other, part])
    assert placing.any_placed(str(tmp_path / "unmounted"), [other])


@pytest.mark.holds("a home that somebody has used stays theirs")
def test_a_home_that_was_used_meanwhile_is_not_replaced(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    used = cluster.home("storage", "minji", MINJI, {"work": b"begun\n"})
    found = facts(used)
    assert "not empty any more" in cluster.do("take", parts)["problems"]["minji"]
    assert differ(found, used) == []


def test_into_a_home_that_is_there_all_go_as_before(cluster: Cluster) -> None:
    used = cluster.home("storage", "minji", MINJI, {"work": b"begun\n"})
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2", there=True)
    cluster.do("copy", parts)
    assert cluster.do("take", parts)["problems"] == {}
    assert sorted(one.name for one in used.iterdir()) == ["before-gpu1", "before-gpu2", "work"]


@pytest.mark.parametrize("what", ["directory", "link"])
def test_what_has_the_name_already_is_not_replaced(cluster: Cluster, what: str) -> None:
    """A link of that name in her home would lead elsewhere."""
    used = cluster.home("storage", "minji", MINJI, {"work": b"begun\n"})
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2", there=True)
    cluster.do("copy", parts)
    place = used / "before-gpu2"
    if what == "link":
        place.symlink_to("/etc")
    else:
        place.mkdir()
    assert "before-gpu2 already" in cluster.do("take", parts)["problems"]["minji"]
    assert sorted(one.name for one in used.iterdir()) == ["before-gpu2", "work"], "none of them, or all"


@pytest.mark.holds("a person's homes get their names together, or none does")
def test_where_one_home_cannot_be_fetched_none_of_hers_gets_its_name(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
    cluster.do("copy", parts)
    (cluster.base / "gpu2" / "home" / "minji" / "other").unlink()
    (cluster.base / "gpu2" / "home" / "minji").rename(cluster.base / "gpu2" / "home" / "gone")
    cluster.home("gpu2", "minji", MINJI, {"other": b"other\n"})
    problems = jobs.take(cluster.arguments(parts))["problems"]
    assert "not the directory that was decided on" in problems["minji"]
    assert not (cluster.homes / "minji").exists()


@pytest.mark.holds("what came out is looked at again")
def test_a_home_that_is_used_in_the_last_moment_gets_its_name_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = cluster.home("storage", "minji", MINJI, {".profile": b"umask 022\n"})
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    exchange = renaming.exchange

    def late(one: str, other: str) -> None:
        if not (used / "late").exists() and Path(other) == used:
            (used / "late").write_text("work")
            os.chown(used / "late", MINJI, MINJI)
        exchange(one, other)

    monkeypatch.setattr(placing, "exchange", late)
    assert "was just used" in cluster.do("take", parts)["problems"]["minji"]
    assert (used / "late").read_text() == "work"


@pytest.mark.parametrize("there", [True, False])
def test_who_has_a_home_in_two_places_after_a_failure_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """The disk fails, or the one of the records is full, right after the rename."""
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    known = record.load(str(cluster.state), "minji", "gpu1")
    assert known is not None
    taken = replace(known, step=record.CHANGING)
    monkeypatch.setattr(record if there else placing, "save" if there else "rename_new", full)
    monkeypatch.setattr(jobs, "each", lambda function, tasks, *_: [(one, taken) for one in tasks])
    done = cluster.do("take", parts)
    assert "No space" in done["problems"]["minji"]
    assert done["between"] == (["minji"] if there else [])
    assert (cluster.homes / "minji").exists() is there
