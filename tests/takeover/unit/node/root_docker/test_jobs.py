"""What root's Docker has becomes a person's: carried whole, compared, resumed, and removed only when it is both."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.root_docker import api, jobs, record, volumes
from gpuadmin.takeover.node.root_docker.namespace import Person
from tests.support.docker_node import MINJI, UID, Node, two_daemons

pytestmark = pytest.mark.root  # a user namespace with many ids
IMAGE, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    with two_daemons(monkeypatch) as found:
        at = found.data
        (at / "file").write_text("of root")
        (at / "of-1000").write_text("hers")
        os.chown(at / "of-1000", 1000, 1000)
        os.link(at / "of-1000", at / "linked")
        (at / "out").symlink_to("/etc/shadow")
        with (at / "sparse").open("wb") as stream:
            stream.truncate(1 << 30)
        (at / os.fsdecode(b"a\nb\xff c")).mkdir(mode=0o1777)
        yield found


def test_a_volume_and_an_image_are_carried(node: Node) -> None:
    node.root.image(IMAGE, "tiny:latest", "hub:5000/deep/tiny:1")
    done = node.carry(images=(IMAGE,), volumes=("data",), c1="train")
    assert done["problems"] == {}
    assert node.differences() == []
    assert (node.copy / "sparse").stat().st_blocks < 100
    assert node.hers.images[IMAGE]["RepoTags"] == ["tiny:latest", "hub:5000/deep/tiny:1"]
    assert [one["words"] for one in node.carry(images=(IMAGE,), volumes=("data",))["parts"]] == ["", ""]
    assert not [one for one in node.root.asked if not one.startswith("GET")], "root's Docker is as it was"


def _cut_at(node: Node, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool = False) -> None:
    """Carry, and end before or after that step as a kill does: nothing is tidied up."""
    real = volumes.inside

    def cut(who: Person, function: Any, *arguments: Any, **more: Any) -> Any:
        if function.__name__ != step:
            return real(who, function, *arguments, **more)
        if after:
            real(who, function, *arguments, **more)
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(volumes, "inside", cut)
        with suppress(SystemExit):
            node.carry(volumes=("data",))


STEPS = ("_unpack", "_arrived", "_place")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.holds("a volume that was carried stays carried after a power cut")
def test_cut_off_anywhere_it_goes_on(node: Node, monkeypatch: pytest.MonkeyPatch, step: str, after: bool) -> None:
    _cut_at(node, monkeypatch, step, after=after)
    if step != "_place":
        assert "data" not in node.hers.volumes, "no half of it has the name"
    elif not after:
        assert list(node.copy.iterdir()) == []
    assert node.carry(volumes=("data",))["problems"] == {}
    assert node.differences() == []
    assert list((node.hers.root / volumes.STAGING).iterdir()) == []


def _hers(node: Node) -> None:
    (node.hers.volume("data") / "precious").write_text("hers")


def _running(node: Node) -> None:
    node.root.container("train", IMAGE, "data", running=True)


REFUSED = [
    pytest.param(_hers, "has a volume of that name", marks=pytest.mark.holds("a volume of theirs is not overwritten")),
    pytest.param(
        lambda node: os.chown(node.data / "file", 70000, 0), "files of id 70000",
        marks=pytest.mark.holds("an id that the person does not have is refused"),
    ),
    pytest.param(
        lambda node: os.mknod(node.data / "null", 0o20666, os.makedev(1, 3)), "device nodes",
        marks=pytest.mark.holds("device nodes are named, not left out"),
    ),
    pytest.param(
        lambda node: node.root.volume("data", Options={"type": "nfs"}), "mounted from elsewhere",
        marks=pytest.mark.holds("what a volume mounts from elsewhere is not copied"),
    ),
    pytest.param(
        lambda node: node.root.volume("data", Driver="nfs"), "has the driver nfs",
        marks=pytest.mark.holds("what another driver has elsewhere is not copied"),
    ),
    pytest.param(lambda node: node.root.volumes.clear(), "no such volume"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_what_is_not_carried(node: Node, change: Any, words: str) -> None:
    change(node)
    before = dict(node.hers.volumes)
    node.root.image(IMAGE)
    done = node.carry(images=(IMAGE,), volumes=("data",), c1="train")
    assert words in done["problems"]["volume data"]
    assert IMAGE in node.hers.images, "the rest goes on"
    assert node.hers.volumes == before
    assert record.load(node.arguments["state"], "minji", UID).containers == {}


@pytest.mark.holds("a name of a volume is not a path")
def test_a_name_that_is_a_path_is_refused(node: Node) -> None:
    assert "not the name of a volume" in node.carry(volumes=("../etc",))["problems"]["volume ../etc"]


@pytest.mark.holds("what was copied is compared with what there is")
def test_what_changes_meanwhile_is_not_taken(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real = volumes._copy

    def copy(*arguments: Any) -> None:
        real(*arguments)
        (node.data / "file").write_text("other")

    monkeypatch.setattr(volumes, "_copy", copy)
    assert "'file' differs in size, mtime, content" in node.refused()
    assert node.hers.volumes == {}
    assert _staged(node) == []


@pytest.mark.holds("a volume that is being written is not copied")
def test_what_is_in_use_is_not_even_copied(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "_copy", lambda *_: pytest.fail("it was copied"))
    _running(node)
    assert "in use by train" in node.refused()
    assert node.moved.volumes == {}


@pytest.mark.holds("a volume that came into use meanwhile is not taken")
def test_what_comes_into_use_meanwhile_is_not_taken(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real = volumes._copy

    def copy(*arguments: Any) -> None:
        real(*arguments)
        _running(node)

    monkeypatch.setattr(volumes, "_copy", copy)
    assert "in use by train" in node.refused()
    assert node.hers.volumes == {}


def _staged(node: Node) -> list[Path]:
    place = node.hers.root / volumes.STAGING
    return list(place.iterdir()) if place.exists() else []


@pytest.mark.holds("what has changed since a cut is copied anew")
def test_what_changes_after_a_cut_is_carried_as_it_is_now(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    _cut_at(node, monkeypatch, "_place")
    (node.data / "file").write_text("newer")
    assert node.carry(volumes=("data",))["problems"] == {}
    assert node.differences() == []


@pytest.mark.holds("one rename, which replaces an empty directory alone")
def test_what_a_person_writes_before_it_is_placed_stays(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    _cut_at(node, monkeypatch, "_place")
    (node.copy / "precious").write_text("hers")
    assert "cannot be given its name" in node.refused()
    assert [one.name for one in node.copy.iterdir()] == ["precious"]
    assert node.moved.volumes["data"].step == record.COPIED
    (node.copy / "precious").unlink()
    assert node.carry(volumes=("data",))["problems"] == {}
    assert node.differences() == []


@pytest.mark.holds("what is written down as carried is on the disk")
def test_it_is_on_the_disk_before_it_is_written_down(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()  # the process of the person says it
    monkeypatch.setattr(volumes, "sync_filesystem", lambda _: os.write(writer, b"synced "))
    real = record.save

    def save(state: str, moved: record.Moved) -> None:
        os.write(writer, f"{moved.volumes['data'].step} ".encode())
        real(state, moved)

    monkeypatch.setattr(record, "save", save)
    assert node.carry(volumes=("data",))["problems"] == {}
    os.close(writer)
    with os.fdopen(reader) as said:
        assert said.read().split()[:3] == [record.BEGUN, "synced", record.COPIED]


@pytest.mark.holds("a person's socket is opened as that person")
def test_each_daemon_is_asked_by_its_own(node: Node) -> None:
    node.root.image(IMAGE, "tiny:latest")
    assert node.carry(images=(IMAGE,), volumes=("data",))["problems"] == {}
    assert (node.root.callers, node.hers.callers) == ({0}, {UID})


@pytest.mark.holds("what a daemon says has an end")
def test_a_daemon_that_says_too_much(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.hers.volume("data", Labels={"odd": "x" * 1000})
    monkeypatch.setattr(api, "LARGEST", 900)
    assert "sends more than 900 bytes" in node.refused()


@pytest.mark.parametrize("odd", [{"Labels": ["x"]}, {"Labels": "x"}, {"Labels": {volumes.LABEL: ["x"]}}])
def test_a_daemon_that_says_odd_things_of_a_volume(node: Node, odd: dict[str, Any]) -> None:
    _carried(node)
    node.hers.volumes["data"].update(odd)
    assert "has a volume of that name" in node.refused()


def test_a_daemon_that_says_odd_things_of_an_image(node: Node) -> None:
    node.root.image(IMAGE)
    node.hers.image(IMAGE)
    node.hers.images[IMAGE]["RootFS"] = ["x"]
    node.hers.broken = "no"
    assert "has not arrived" in node.carry(images=(IMAGE,))["problems"][f"image {IMAGE}"]


@pytest.mark.holds("an image is there when the daemon has all its layers")
def test_an_image_that_has_not_arrived(node: Node) -> None:
    node.root.image(IMAGE)
    node.hers.broken = "no space left on device"
    assert "no space left" in node.carry(images=(IMAGE,))["problems"][f"image {IMAGE}"]
    assert node.moved.images == {}


@pytest.mark.holds("a tag of theirs stays where it is")
def test_a_tag_of_hers_stays(node: Node) -> None:
    node.root.image(IMAGE, "tiny:latest")
    node.hers.image(OTHER, "tiny:latest")
    assert node.carry(images=(IMAGE,))["notes"] == ["tiny:latest is another image of theirs: kept"]
    assert (node.hers.images[OTHER]["RepoTags"], node.hers.images[IMAGE]["RepoTags"]) == (["tiny:latest"], [])


@pytest.mark.holds("an id of an image is not a path")
def test_an_id_that_is_a_path_is_refused(node: Node) -> None:
    node.root.image("../info")
    assert "not the id of an image" in node.carry(images=("../info",))["problems"]["image ../info"]
    assert node.root.asked == []


@pytest.mark.holds("what is odd about one volume stops no other")
def test_what_is_odd_about_one_stops_no_other(node: Node) -> None:
    node.root.volume("first", Driver="nfs")
    node.root.volume("gone").rmdir()
    done = node.carry(volumes=("first", "gone", "data"))
    assert set(done["problems"]) == {"volume first", "volume gone"}
    assert "No such file" in done["problems"]["volume gone"]
    assert node.differences() == []


@pytest.mark.holds("a container is known as carried only with all that it has")
def test_a_container_whose_volume_is_not_carried_is_not_known(node: Node) -> None:
    node.root.volume("far", Driver="nfs")
    node.carry(volumes=("data", "far"), c1="train")
    assert node.moved.containers == {}
    node.root.volume("far")
    node.carry(volumes=("data", "far"), c1="train")
    assert node.moved.containers == {"c1": "train"}


def _carried(node: Node) -> str:
    node.root.image(IMAGE, "tiny:latest")
    ident = node.root.container("train", IMAGE, "data")
    assert node.carry(images=(IMAGE,), volumes=("data",), **{ident: "train"})["problems"] == {}
    return ident


def test_what_was_carried_is_removed(node: Node) -> None:
    ident = _carried(node)
    done = node.discard(images=(IMAGE,), volumes=("data",), **{ident: "train"})
    assert done["problems"] == {}
    assert (node.root.images, node.root.volumes, node.root.containers) == ({}, {}, {})
    assert not list(Path(node.arguments["state"], record.DIRECTORY).iterdir())


def _another(node: Node) -> None:
    """She has removed the volume, and made another of the name."""
    node.hers.volumes["data"]["Labels"] = {}


def _elsewhere(node: Node) -> None:
    """She has the volume, and other content in it."""
    node.copy.rename(node.copy.with_name("before"))
    node.copy.mkdir()


def _run(node: Node) -> None:
    for one in node.root.containers.values():
        one["State"]["Running"] = True


KEPT = [
    pytest.param(lambda node: (node.data / "file").write_text("new"), "volume data", "has changed since",
                 marks=pytest.mark.holds("a volume that has changed since is kept")),
    pytest.param(lambda node: node.hers.volumes.clear(), "volume data", "it is the only one",
                 marks=pytest.mark.holds("a volume that is there once is kept")),
    pytest.param(_another, "volume data", "it is the only one",
                 marks=pytest.mark.holds("another volume of that name is not what was carried")),
    pytest.param(_elsewhere, "volume data", "it is the only one",
                 marks=pytest.mark.holds("a directory in its place is not the copy")),
    pytest.param(lambda node: node.root.volume("data", CreatedAt="later"), "volume data", "has changed since",
                 marks=pytest.mark.holds("a volume that has changed since is kept")),
    pytest.param(lambda node: node.root.container("more", OTHER, "data"), "volume data", "container more has it",
                 marks=pytest.mark.holds("a volume that a container has is kept")),
    pytest.param(lambda node: node.root.images[IMAGE]["RepoTags"].append("new:1"), f"image {IMAGE}", "another name",
                 marks=pytest.mark.holds("an image that now has another name is kept")),
    pytest.param(lambda node: node.hers.images.clear(), f"image {IMAGE}", "it is the only one",
                 marks=pytest.mark.holds("an image that is there once is kept")),
    pytest.param(lambda node: node.root.container("more", IMAGE), f"image {IMAGE}", "container more is made of it",
                 marks=pytest.mark.holds("an image that a container needs is kept")),
    pytest.param(_run, "container", "runs",
                 marks=pytest.mark.holds("a container that runs is not removed")),
]  # fmt: skip


@pytest.mark.parametrize(("change", "what", "words"), KEPT)
def test_what_is_kept(node: Node, change: Any, what: str, words: str) -> None:
    ident = _carried(node)
    change(node)
    problems = node.discard(images=(IMAGE,), volumes=("data",), **{ident: "train"})["problems"]
    assert [why for name, why in problems.items() if name.startswith(what) and words in why], problems
    kept = {"volume": node.root.volumes, "image": node.root.images, "container": node.root.containers}
    assert kept[what.split(maxsplit=1)[0]]


@pytest.mark.holds("a container that was not carried is not removed")
@pytest.mark.holds("a volume that was not carried is not removed")
@pytest.mark.holds("an image that was not carried is not removed")
def test_nothing_else_is_removed(node: Node) -> None:
    node.root.image(IMAGE)
    node.hers.image(IMAGE)
    ident = node.root.container("train", OTHER)
    problems = node.discard(images=(IMAGE,), volumes=("data",), **{ident: "train"})["problems"]
    assert set(problems.values()) == {"was not carried"}
    assert len(problems) == 3
    assert node.root.images
    assert node.root.volumes
    assert node.root.containers


@pytest.mark.holds("a volume that was not carried is not removed")
def test_what_was_carried_in_part_is_kept(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    _cut_at(node, monkeypatch, "_place")
    assert node.discard(volumes=("data",))["problems"] == {"volume data": "was not carried"}
    assert node.root.volumes


def test_layers_of_other_images_are_not_pruned(node: Node) -> None:
    ident = _carried(node)
    node.discard(images=(IMAGE,), **{ident: "train"})
    deleted = [one for one in node.root.asked if one.startswith("DELETE /images/")]
    assert deleted
    assert all(one.endswith("?noprune=1") for one in deleted)


@pytest.mark.holds("what another of the same name had is not discarded")
def test_what_another_of_the_name_had(node: Node) -> None:
    _carried(node)
    with pytest.raises(NodeError, match="uid 31001, not 31002"):
        record.load(node.arguments["state"], "minji", 31002)


@pytest.mark.holds("root's daemon is not started by being asked")
def test_a_daemon_that_does_not_run_is_not_asked(node: Node, tmp_path: Path) -> None:
    pid = tmp_path / "docker.pid"
    assert not api.running(str(node.root.socket), str(pid))
    pid.write_text("999999999")
    assert not api.running(str(node.root.socket), str(pid))
    pid.write_text(str(os.getpid()))
    assert api.running(str(node.root.socket), str(pid))


@pytest.mark.holds("a socket of somebody's is not root's Docker")
def test_a_socket_of_hers_is_not_roots(node: Node, tmp_path: Path) -> None:
    pid = tmp_path / "docker.pid"
    pid.write_text(str(os.getpid()))
    os.chown(node.root.socket, UID, UID)
    assert not api.running(str(node.root.socket), str(pid))


@pytest.mark.holds("a directory of another's is not taken for theirs")
def test_whose_docker_it_is(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="has no Docker here"):
        jobs.theirs(MINJI, str(tmp_path))
    (tmp_path / "minji").mkdir()
    with pytest.raises(NodeError, match="does not belong to minji"):
        jobs.theirs(MINJI, str(tmp_path))
    (tmp_path / "minji").rmdir()
    (tmp_path / "minji").symlink_to("/etc")
    os.chown(tmp_path / "minji", UID, UID, follow_symlinks=False)
    with pytest.raises(NodeError, match="does not belong to minji"):
        jobs.theirs(MINJI, str(tmp_path))


@pytest.mark.holds("what was carried is looked up in its own directory alone")
@pytest.mark.parametrize("name", ["../minji", "", "."])
def test_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(NodeError, match="not the name of a person"):
        record.load(str(tmp_path), name, UID)


@pytest.mark.holds("what is carried goes to whom it was named for")
@pytest.mark.parametrize(("uid", "here"), [(31001, 31002), (0, 0)])
def test_somebody_else_of_the_name(uid: int, here: int) -> None:
    with pytest.raises(NodeError, match="has uid"):
        jobs.of("minji", uid, lookup=lambda name: (here, here))


@pytest.mark.holds("a byte now and then is no answer")
@pytest.mark.parametrize("head", [
    None, b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{",
    b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n{",
])  # fmt: skip
def test_a_daemon_that_sends_a_byte_now_and_then_is_not_waited_for(tmp_path: Path, head: bytes | None) -> None:
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)

        def drip() -> None:
            with suppress(OSError):
                channel = listener.accept()[0]
                channel.recv(65536)
                channel.sendall(head or b"")
                for _ in range(100):  # 10 s, where nobody gives up
                    channel.sendall(b" " if head is not None else b"")
                    time.sleep(0.1)  # between two bytes
                channel.close()

        threading.Thread(target=drip, daemon=True).start()
        begun = time.monotonic()
        with pytest.raises(NodeError, match="takes too long to answer"):
            api.Daemon(path, seconds=0.5).find("/volumes/x")
        assert time.monotonic() - begun < 5


@pytest.mark.holds("who never ceases to send is not waited for")
def test_nothing_is_taken_and_nothing_given_after_the_end() -> None:
    with api._Bounded(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.end = time.monotonic() - 1
        for late in (lambda: channel.recv_into(bytearray(1)), lambda: channel.sendall(b"x")):
            with pytest.raises(socket.timeout):
                late()


@pytest.mark.parametrize(("text", "words"), [
    ('{"format": 2, "name": "minji", "uid": 1, "volumes": {}}', "of another version"),
    ('{"format": 1, "name": "minji", "uid": 2, "volumes": {}}', "with uid 2"),
    ("[]", "is damaged"),
])  # fmt: skip
@pytest.mark.holds("what another version has carried is not taken for ours")
def test_a_record_that_is_not_ours_is_left_alone(tmp_path: Path, text: str, words: str) -> None:
    where = tmp_path / record.DIRECTORY / "minji.json"
    where.parent.mkdir()
    where.write_text(text)
    with pytest.raises(NodeError, match=words):
        record.load(str(tmp_path), "minji", 1)
    assert where.read_text() == text
