"""The health checks of a trial, and an ordinary person who wants every node to go back."""

import errno
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.images import health, trial
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import ImageSettings, Places

pytestmark = pytest.mark.holds("a unit that a person made fail sends no node back")


CHECKS = Path(__file__).resolve().parents[4] / "roles/btrfs_root/templates/checks"
root_only = pytest.mark.root  # acts as another user or mounts


def without_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no O_TMPFILE."""
    real = os.open

    def refuse(path: str, flags: int, *arguments: object, **more: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *arguments, **more)

    monkeypatch.setattr(health.os, "open", refuse)


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_directory_that_can_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unnamed: bool) -> None:
    if not unnamed:
        without_unnamed_files(monkeypatch)
    assert health.cannot_write(str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []
    assert "No such file" in str(health.cannot_write(str(tmp_path / "missing")))


def test_names_that_somebody_could_know_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name with a number of a process is taken, by links to a file of root's."""
    precious = tmp_path / "precious"
    precious.write_text("root's")
    place = tmp_path / "local"
    place.mkdir()
    for pid in range(os.getpid() - 50, os.getpid() + 500):
        (place / f".gpuadmin-check.{pid}").symlink_to(precious)
    for unnamed in (True, False):
        if not unnamed:
            without_unnamed_files(monkeypatch)
        assert health.cannot_write(str(place)) is None
        assert precious.read_text() == "root's"


def test_even_a_name_that_was_guessed_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("root's")
    place = tmp_path / "local"
    place.mkdir()
    without_unnamed_files(monkeypatch)
    monkeypatch.setattr(health.secrets, "token_hex", lambda _count: "guessed")
    (place / ".gpuadmin-check-guessed").symlink_to(precious)
    assert health.cannot_write(str(place)) is not None
    (place / ".gpuadmin-check-guessed").unlink()
    (place / ".gpuadmin-check-guessed").hardlink_to(precious)
    assert health.cannot_write(str(place)) is not None
    assert precious.read_text() == "root's"


@root_only
def test_a_disk_that_people_have_filled_is_no_reason_to_go_back_but_a_read_only_one_is(tmp_path: Path) -> None:
    place = tmp_path / "local"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=3", "tmpfs", place], check=True)
    try:
        with pytest.raises(OSError, match="No space"), (place / "mine").open("wb") as stream:
            stream.write(bytes(1 << 20))
        (place / "another").write_text("")  # neither blocks nor inodes are left
        with pytest.raises(OSError, match="No space"):
            (place / "third").write_text("x")
        assert health.cannot_write(str(place)) is None
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        assert "Read-only" in str(health.cannot_write(str(place)))
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_the_check_of_a_trial_looks_at_var_and_local(tmp_path: Path) -> None:
    places = Places(root=str(tmp_path), state=str(tmp_path))
    (tmp_path / "var").mkdir()
    assert "local cannot be opened" in str(trial.check(places, ImageSettings(), "writable"))
    (tmp_path / "local").mkdir()
    assert trial.check(places, ImageSettings(), "writable") is None


@pytest.mark.parametrize(
    ("unit", "of_people"),
    [
        ("user@20001.service", True),
        ("user-runtime-dir@20001.service", True),
        ("session-12.scope", True),
        ("run-user-20001.mount", True),
        ("home-minji-mnt.mount", True),
        ("local-x.mount", True),
        ("systemd-coredump@3-99-20001.service", True),
        ("user-20001.slice", True),
        ("home.mount", False),
        ("local.mount", False),
        ("ssh.service", False),
        ("user.slice", False),
        ("systemd-user-sessions.service", False),
        ("gpuadmin-accounts.service", False),
    ],
)
def test_units_that_a_person_can_make_fail_are_not_the_roots(
    unit: str, of_people: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "failed_units", lambda: [unit])
    problem = trial.check(Places(root=str(tmp_path), state=str(tmp_path)), ImageSettings(), "units")
    assert problem == (None if of_people else f"failed since the switch: {unit}")


@contextmanager
def listening(uid: int) -> Iterator[int]:
    """A process of ``uid`` listens on a port of this machine, and greets as sshd does."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        if uid == 0:
            found.listen()
            yield port
            return
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(uid)
        with socket.socket() as mine:
            mine.bind(("127.0.0.1", port))
            mine.listen()
            os.write(writer, b"x")
            while True:
                mine.accept()[0].send(b"SSH-2.0-of-a-person\r\n")
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    try:
        yield port
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def fake_sshd(path: Path, port: int, *, valid: bool = True, greets: bool = True, word: str = "port") -> str:
    path.write_text(
        "#!/bin/sh\ncase $1 in\n"
        f"-t) {'exit 0' if valid else 'echo bad option >&2; exit 255'} ;;\n"
        f"-T) echo 'usepam yes'; echo '{word} {port}'; echo 'port 9' ;;\n"
        f"-i) {'echo SSH-2.0-x' if greets else ':'} ;;\nesac\n"
    )
    path.chmod(0o755)
    return str(path)


@root_only
def test_sshd_that_a_person_pretends_to_be(tmp_path: Path) -> None:
    with listening(20001) as port:
        problem = health.sshd_problem(fake_sshd(tmp_path / "sshd", port))
        assert problem == f"root does not listen on the ssh port {port}, but uid 20001 does"
    assert "root does not listen" in str(health.sshd_problem(fake_sshd(tmp_path / "sshd", port)))


@root_only
def test_sshd_that_people_keep_busy_is_there_all_the_same(tmp_path: Path) -> None:
    """Nobody has to be let in by the listener for the check to pass: who connects first can see to that."""
    with listening(0) as port:
        threads = [threading.Thread(target=socket.create_connection, args=(("127.0.0.1", port),)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for word in ("port", "Port"):  # since OpenSSH 10.6
            assert health.sshd_problem(fake_sshd(tmp_path / "sshd", port, word=word)) is None
        assert "sshd: bad option" in str(health.sshd_problem(fake_sshd(tmp_path / "sshd", port, valid=False)))
        assert health.sshd_problem(fake_sshd(tmp_path / "sshd", port, greets=False)) == "sshd does not greet"


def test_the_scripts_of_the_role_leave_it_to_the_nodes_code() -> None:
    """Shell has neither O_EXCL nor a name that nobody knows, and connects to whoever listens."""
    for script in CHECKS.glob("*/*"):
        lines = [line for line in script.read_text().splitlines() if not line.startswith("#")]
        text = "\n".join(lines).replace(">/dev/null", "").replace("2>&1", "")
        assert ">" not in text, script
        assert "/dev/tcp" not in text, script
        assert "$$" not in text, script
    for name in ("writable", "sshd", "root", "identity", "units", "gpus"):
        assert any(f"image-check {name}" in script.read_text() for script in CHECKS.glob("required.d/*")), name
    assert "image-check gpus-worse" in (CHECKS / "wanted.d/30-gpus.j2").read_text()
