"""Homes of two nodes become one on the storage host: with everything in them, killed anywhere and gone on with."""

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import renaming
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.moving import jobs, placing, record, taking
from tests.support import independent
from tests.support.moving_homes import SERVE, Cluster, differ, facts, own
from tests.support.storage import mounted

pytestmark = pytest.mark.root
MINJI, JIHO = 31601, 31602
ODD = b"odd\nname \xff \x1b[2J"


def two_homes(base: Path, storage: Path | None = None) -> Cluster:
    """minji's homes on two nodes, and the untouched one that provisioning made on the storage host."""
    found = Cluster(base, storage)
    one = found.home("gpu1", "minji", MINJI, {"thesis": b"precious\n", "a/b/c": b"deep", ".profile": b"hers\n"})
    (one / "a" / "again").hardlink_to(one / "thesis")
    (one / "link").symlink_to("/etc/shadow")
    with (one / "sparse").open("wb") as stream:
        stream.truncate(1 << 32)
        stream.seek(1 << 31)
        stream.write(b"in the middle")
    os.setxattr(one / "thesis", "user.note", b"seen")
    (one / os.fsdecode(ODD)).write_bytes(b"odd")
    os.mkfifo(one / "pipe")
    own(one, MINJI)
    (one / "a" / "b" / "c").chmod(0o640)
    found.home("gpu2", "minji", MINJI, {"thesis": b"another\n", "results/1": b"1" * 5000})
    found.home("storage", "minji", MINJI, {".profile": b"umask 022\n"})
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return two_homes(tmp_path / "c")


def trees(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {host: facts(cluster.base / host / "home" / "minji") for host in ("gpu1", "gpu2")}


def moved_differ(cluster: Cluster, before: dict[str, dict[str, Any]]) -> list[str]:
    """How her home on the storage host differs from what the two nodes had."""
    home = cluster.homes / "minji"
    aside = cluster.base / "looked-at"
    (home / "before-gpu2").rename(aside)
    try:
        return differ(before["gpu1"], home) + differ(before["gpu2"], aside)
    finally:
        aside.rename(home / "before-gpu2")


def test_two_homes_become_one_and_the_old_ones_stay(cluster: Cluster) -> None:
    before = trees(cluster)
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
    assert cluster.do("copy", parts)["problems"] == {}
    done = cluster.do("take", parts)
    assert done["problems"] == {}
    assert moved_differ(cluster, before) == []
    cluster.aside(done["parts"])
    for host, found in before.items():
        assert not (cluster.base / host / "home" / "minji").exists()
        assert differ(found, cluster.base / host / "home.before" / "minji") == []
    placing.leave(str(cluster.homes), str(cluster.state), str(cluster.skeleton))
    assert not (cluster.homes / ".gpuadmin-moving").exists()


@pytest.mark.btrfs
def test_on_btrfs_where_an_open_directory_does_not_show_what_is_new(tmp_path: Path) -> None:
    with mounted(tmp_path / "image", tmp_path / "point", 300) as point:
        cluster = two_homes(tmp_path / "c", point)
        before = trees(cluster)
        parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
        assert cluster.do("copy", parts)["problems"] == {}
        assert cluster.do("take", parts)["problems"] == {}
        assert differ(before["gpu1"], cluster.homes / "minji")[0] == "b'before-gpu2' is new"


def test_what_changes_after_the_copy_is_fetched(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
    cluster.do("copy", parts)
    home = cluster.base / "gpu1" / "home" / "minji"
    (home / "thesis").write_bytes(b"better\n")  # and its other name, a/again
    (home / "a" / "b" / "c").unlink()
    (home / "new" / "er").mkdir(parents=True)
    with (home / "sparse").open("r+b") as stream:
        stream.truncate(1 << 20)
        stream.seek(1 << 19)
        stream.write(b"smaller")
    (home / "link").unlink()
    (home / "link").mkdir()
    own(home, MINJI)
    (home / "a").chmod(0o711)
    before = trees(cluster)
    assert cluster.do("take", parts)["problems"] == {}
    assert moved_differ(cluster, before) == []


def everything(cluster: Cluster, parts: list[dict[str, Any]]) -> None:
    """What a run does after another was cut off anywhere, as actions/move_homes.py orders it."""
    known = {one["host"]: one for one in cluster.parts_there("minji")}
    unplaced = [one for one in parts if not known.get(one["host"], {"placed": False})["placed"]]
    done = [one for one in known.values() if one["placed"]]
    if unplaced:
        assert cluster.do("copy", unplaced)["problems"] == {}
        taken = cluster.do("take", unplaced)
        assert taken["problems"] == {}
        done += taken["parts"]
    cluster.aside(done)
    placing.leave(str(cluster.homes), str(cluster.state), str(cluster.skeleton))


@pytest.mark.parametrize("job", ["copy", "take"])
def test_killed_before_each_step_and_gone_on_with(tmp_path: Path, job: str) -> None:
    """kill -9 of the storage host's job, at each of its steps in turn; then everything once more."""
    step, cut = 0, True
    while cut:
        step += 1
        cluster = two_homes(tmp_path / f"{step}")
        before = trees(cluster)
        parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
        if job == "take":
            cluster.do("copy", parts)
            (cluster.base / "gpu1" / "home" / "minji" / "thesis").write_bytes(b"changed since\n")
            before["gpu1"] = facts(cluster.base / "gpu1" / "home" / "minji")
        cut = cluster.killed(job, parts, step)
        # nothing is lost at any moment: the old homes are as they were
        for host, found in before.items():
            assert differ(found, cluster.base / host / "home" / "minji") == [], (step, host)
        everything(cluster, parts)
        home = cluster.homes / "minji"
        assert moved_differ(cluster, before) == [], step
        assert not (cluster.homes / ".gpuadmin-moving").exists(), step
        assert home.stat().st_uid == MINJI
    assert step > 8, "there were steps to be killed at"


@pytest.mark.holds("a copy is on the disk before it counts")
@pytest.mark.holds("what is renamed in is on the disk")
@pytest.mark.holds("a home has its name on the disk before the old one is set aside")
def test_what_counts_after_a_power_cut_is_on_the_disk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def noted(name: str, function: Any) -> Any:
        def called(*arguments: Any) -> Any:
            events.append(f"{name} {arguments[1].step}" if name == "save" else name)
            return function(*arguments)

        return called

    monkeypatch.setattr(jobs, "each", lambda function, tasks, *_: [(task, function(task)) for task in tasks])
    monkeypatch.setattr(record, "save", noted("save", record.save))
    for module in (taking, placing):
        monkeypatch.setattr(module, "sync_filesystem", noted("sync", module.sync_filesystem))
    monkeypatch.setattr(placing, "exchange", noted("exchange", renaming.exchange))
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    cluster.do("take", parts)
    assert events == [
        "save begun", "sync", "save copied", "save changing", "sync", "save changing", "sync", "exchange", "sync",
        "save placed",
    ]  # fmt: skip


@pytest.mark.holds("what was changed in part is read before it counts as known")
def test_what_a_cut_has_left_of_a_difference_is_read_first(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    known = record.load(str(cluster.state), "minji", "gpu1")
    assert known is not None
    record.save(str(cluster.state), replace(known, step=record.CHANGING))
    for home in (cluster.base / "gpu1" / "home" / "minji", cluster.homes / ".gpuadmin-moving" / "minji" / "gpu1"):
        (home / "new").write_bytes(b"it had come already\n")
        own(home, MINJI)
    before = facts(cluster.base / "gpu1" / "home" / "minji")
    assert cluster.do("copy", parts)["problems"] == {}
    assert cluster.do("take", parts)["problems"] == {}
    assert differ(before, cluster.homes / "minji") == []


@pytest.mark.holds("only what was copied is taken")
@pytest.mark.parametrize("what", ["nothing", "begun", "another"])
def test_what_was_not_copied_is_not_taken(cluster: Cluster, what: str) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1")
    arrived = cluster.homes / ".gpuadmin-moving" / "minji" / "gpu1"
    if what != "nothing":
        cluster.do("copy", parts)
        known = record.load(str(cluster.state), "minji", "gpu1")
        assert known is not None
        if what == "begun":
            record.save(str(cluster.state), replace(known, step=record.BEGUN))
        else:
            arrived.rename(arrived.with_name("away"))
            arrived.mkdir()
            own(arrived, MINJI)
    done = cluster.do("take", parts)
    assert done["problems"] == {"minji": "the home on gpu1 was not copied: run it again"}
    assert done["parts"] == []


@pytest.mark.holds("what has its place is not copied over")
@pytest.mark.holds("whose home had its name before is not let in because nothing was to be taken")
def test_what_another_run_has_moved_meanwhile_stays_where_it_is(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
    cluster.do("copy", parts)
    cluster.do("take", parts)
    found = facts(cluster.homes / "minji")
    assert "has been moved" in cluster.do("copy", parts)["problems"]["minji"]
    done = cluster.do("take", parts)
    assert (list(done["problems"]), done["between"]) == (["minji"], ["minji"])
    assert differ(found, cluster.homes / "minji") == []


#: gpu2 was taken over: it answers what has changed with signs of life alone.
SILENT = SERVE.replace(
    "try:\n",
    """
if sys.argv[3] == "gpu2" and sys.argv[4].startswith("difference"):
    import os, struct, time
    text = b'{"op":"wait"}'
    while True:
        os.write(1, struct.pack(">I", len(text)) + text)
        time.sleep(0.2)
try:
""",
    1,
)


@pytest.mark.holds("who is kept out is kept out for some times as long as the copy took")
@pytest.mark.holds("who has little is not kept out until the end of one that takes long")
def test_nobody_is_kept_out_by_the_home_of_another(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who are done are said to be while others are waited for, and these are left after some time."""
    monkeypatch.setattr(taking, "LEAST", 10.0)
    cluster.home("gpu1", "jiho", JIHO, {"x": b"his\n"})
    parts = [*cluster.parts("minji", MINJI, "gpu2"), *cluster.parts("jiho", JIHO, "gpu1")]
    assert cluster.do("copy", parts)["problems"] == {}
    slow = record.load(str(cluster.state), "minji", "gpu2")
    assert slow is not None
    record.save(str(cluster.state), replace(slow, seconds=3.0))  # she waits for 12 seconds, and is after him
    (cluster.base / "serve.py").write_text(SILENT)
    said: list[tuple[float, dict[str, Any]]] = []
    begun = time.monotonic()
    monkeypatch.setattr(
        jobs, "progress_writer", lambda *_: lambda text: said.append((time.monotonic() - begun, json.loads(text)))
    )
    done = cluster.do("take", parts)
    (soon, first), (late, last) = said
    assert ([one["name"] for one in first["parts"]], first["problems"]) == (["jiho"], {})
    assert last == done
    assert "not here within 12 seconds" in done["problems"]["minji"]
    assert soon < 12 <= late < 60
    assert done["between"] == []
    # the next run copies it anew: the difference would be as long again
    (cluster.base / "serve.py").write_text(SERVE)
    before = facts(cluster.base / "gpu2" / "home" / "minji")
    assert cluster.parts_there("minji")[-1]["step"] == record.LATE
    again = cluster.parts("minji", MINJI, "gpu2")
    (copied,) = cluster.do("copy", again)["parts"]
    assert copied["step"] == record.COPIED
    assert cluster.do("take", again)["problems"] == {}
    assert differ(before, cluster.homes / "minji") == []


@pytest.mark.holds("who fills the disk keeps nobody else out")
@pytest.mark.holds("who fills the disk ends nobody else's copy")
@pytest.mark.parametrize("job", ["copy", "take"])
def test_a_full_disk_is_a_problem_of_whose_home_has_no_room(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    cluster.home("gpu1", "jiho", JIHO, {"x": b"his\n"})
    parts = [*cluster.parts("minji", MINJI, "gpu2"), *cluster.parts("jiho", JIHO, "gpu1")]
    if job == "take":
        assert cluster.do("copy", parts)["problems"] == {}
    fill = taking._fill

    def full(task: taking.Task, *more: Any) -> None:
        if task.part.name == "minji":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fill(task, *more)

    monkeypatch.setattr(taking, "_fill", full)
    done = cluster.do(job, parts)
    assert [one["name"] for one in done["parts"]] == ["jiho"]
    assert done["problems"] == {"minji": os.strerror(errno.ENOSPC)}


@pytest.mark.holds(
    "whose record is damaged is not let in, and keeps nobody else out",
    "whose record is damaged is named, and the others are taken",
)
def test_a_damaged_record_is_a_problem_of_its_person(cluster: Cluster) -> None:
    cluster.home("gpu1", "jiho", JIHO, {"x": b"his\n"})
    parts = [*cluster.parts("minji", MINJI, "gpu2"), *cluster.parts("jiho", JIHO, "gpu1")]
    cluster.do("copy", parts)
    Path(record.path(str(cluster.state), "minji", "gpu2", "json")).write_text("{")
    done = cluster.do("take", parts)
    assert [one["name"] for one in done["parts"]] == ["jiho"]
    assert "is damaged" in done["problems"]["minji"]
    assert done["between"] == ["minji"], "it may have its name"


class Cut(BaseException):
    """As a kill: nothing is tidied up."""


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.holds("what is taken back is known by the disk from here on, whatever cuts it off")
def test_taken_back_all_is_as_before_and_cut_anywhere_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """An old home could not be set aside. ``there``: the storage host had a home of hers that she used."""
    step, cut = 0, True
    while cut:
        step += 1
        cluster = two_homes(tmp_path / f"{step}")
        if there:
            cluster.home("storage", "minji", MINJI, {"used": b"here\n"})
        before, here = trees(cluster), facts(cluster.homes / "minji")
        parts = cluster.parts("minji", MINJI, "gpu1", "gpu2", there=there)
        cluster.do("copy", parts)
        done = [record.Part(**one) for one in cluster.do("take", parts)["parts"]]
        left = step

        def counted(function: Any) -> Any:
            def counting(*given: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Cut
                return function(*given)

            return counting

        with monkeypatch.context() as patched:
            patched.setattr(record, "save", counted(record.save))
            for name in ("rename_new", "exchange", "sync_filesystem"):
                patched.setattr(placing, name, counted(getattr(placing, name)))
            try:
                jobs.take_back(str(cluster.homes), done, str(cluster.state), str(tmp_path / "run"))
                cut = False
            except Cut:
                pass
        for host, found in before.items():
            assert differ(found, cluster.base / host / "home" / "minji") == [], (step, host)
        if not cut:
            assert differ(here, cluster.homes / "minji") == []
            assert not any(one["placed"] for one in cluster.parts_there("minji"))
        everything(cluster, parts)
        if there:
            assert (cluster.homes / "minji" / "used").read_bytes() == b"here\n"
            found = facts(cluster.homes / "minji" / "before-gpu1")
            assert independent.differences(before["gpu1"], found) == []
        else:
            assert moved_differ(cluster, before) == [], step
    assert step > 5


@pytest.mark.holds("a home that others were set aside for stays")
def test_a_home_that_has_those_of_other_nodes_is_not_taken_back(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
    cluster.do("copy", parts)
    done = [record.Part(**one) for one in cluster.do("take", parts)["parts"]]
    main = [one for one in done if one.main]
    with pytest.raises(NodeError, match="homes of other nodes"):
        jobs.take_back(str(cluster.homes), main, str(cluster.state), str(cluster.base / "run"))
    assert all(one["placed"] for one in cluster.parts_there("minji"))


def test_of_two_in_a_home_that_was_there_before_one_is_taken_back(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2", there=True)
    cluster.do("copy", parts)
    done = [record.Part(**one) for one in cluster.do("take", parts)["parts"]]
    jobs.take_back(str(cluster.homes), done[:1], str(cluster.state), str(cluster.base / "run"))
    assert {one["host"]: one["placed"] for one in cluster.parts_there("minji")} == {
        done[0].host: False, done[1].host: True
    }  # fmt: skip


@pytest.mark.holds("the home of one keeps nobody else's in its place")
def test_whose_home_has_its_name_keeps_nobody_elses_there(cluster: Cluster) -> None:
    cluster.home("gpu2", "jiho", JIHO, {"x": b"his\n"})
    parts = [*cluster.parts("minji", MINJI, "gpu1"), *cluster.parts("jiho", JIHO, "gpu2")]
    cluster.do("copy", parts)
    done = [record.Part(**one) for one in cluster.do("take", parts)["parts"]]
    hers = [one for one in done if one.name == "minji"]
    jobs.take_back(str(cluster.homes), hers, str(cluster.state), str(cluster.base / "run"))
    found = {one["name"]: one["placed"] for one in cluster.parts_there("minji", "jiho")}
    assert found == {"minji": False, "jiho": True}


@pytest.mark.holds("nobody is let in before it is on the disk")
def test_what_is_taken_back_is_on_the_disk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
    cluster.do("copy", parts)
    done = [record.Part(**one) for one in cluster.do("take", parts)["parts"]]
    events: list[str] = []
    for name in ("rename_new", "exchange", "sync_filesystem"):
        function = getattr(placing, name)
        monkeypatch.setattr(placing, name, lambda *given, _name=name, _do=function: (events.append(_name), _do(*given)))
    jobs.take_back(str(cluster.homes), done, str(cluster.state), str(cluster.base / "run"))
    assert events == ["rename_new", "exchange", "sync_filesystem"]
