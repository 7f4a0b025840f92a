"""Where the sockets of open ssh connections lie: whoever could put one there would answer in a host's place."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuadmin.ansible import connections
from gpuadmin.errors import GpuadminError


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the directory will be: not below pytest's, which may be too deep for a socket."""
    above = Path(tempfile.mkdtemp(prefix="g", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(above))
    yield above / f"gpuadmin-{os.getuid()}"
    shutil.rmtree(above)


def test_it_is_ours_alone_and_one_for_each_site(ours: Path, tmp_path: Path) -> None:
    first = connections.directory(tmp_path / "a/known_hosts", ())
    assert first.parent == ours
    assert connections.directory(tmp_path / "b/known_hosts", ()) != first
    assert connections.directory(tmp_path / "a/known_hosts", ()) == first
    assert {path.stat().st_mode & 0o777 for path in (ours, first)} == {0o700}


def test_what_a_site_trusts_decides_which_connections_serve_it(ours: Path, tmp_path: Path) -> None:
    """A connection that a good key opened hid for five minutes that the key was bad, and that no host key was known."""
    known_hosts, key = tmp_path / "known_hosts", tmp_path / "key"
    seen = []

    def look() -> None:
        seen.append(connections.directory(known_hosts, (key,)))

    look()
    known_hosts.write_text("node1 ssh-ed25519 AAAA\n")
    look()
    key.write_text("a key\n")
    key.chmod(0o644)  # whatever the umask
    look()
    key.chmod(0o600)
    look()
    key.write_text("another key\n")
    look()
    known_hosts.write_text("")
    look()
    assert len(set(seen)) == len(seen)
    seen.clear()
    look()
    look()
    assert len(set(seen)) == 1


def test_what_the_site_no_longer_trusts_is_ended(ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known_hosts, key = tmp_path / "known_hosts", tmp_path / "key"
    before, other = connections.directory(known_hosts, (key,)), connections.directory(tmp_path / "b/known_hosts", ())
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_more: asked.append(command))
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as elsewhere:
        listener.bind(str(before / "node1"))
        elsewhere.bind(str(other / "node1"))
        connections.directory(known_hosts, (key,))
        assert asked == []
        key.write_text("a key\n")
        connections.directory(known_hosts, (key,))
    assert [command[command.index("-o") + 1] for command in asked] == [f"ControlPath={before}/node1"]


def test_one_that_others_can_enter_is_refused(ours: Path, tmp_path: Path) -> None:
    ours.mkdir(mode=0o700)
    ours.chmod(0o770)
    with pytest.raises(GpuadminError, match="belongs to somebody else or is open to others"):
        connections.directory(tmp_path / "known_hosts", ())


def test_a_link_is_refused(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    ours.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GpuadminError, match="belongs to somebody else"):
        connections.directory(tmp_path / "known_hosts", ())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_another_persons_is_refused(ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    monkeypatch.setattr(connections, "_SHORT", ours.parent)  # which is not that person's
    (ours.parent / f"gpuadmin-{other}").mkdir(mode=0o700)
    monkeypatch.setattr(connections.os, "getuid", lambda: other)
    with pytest.raises(GpuadminError, match="belongs to somebody else"):
        connections.directory(tmp_path / "known_hosts", ())


@pytest.mark.holds("nobody can put other sockets in the place of ours")
@pytest.mark.parametrize(
    ("mode", "taken"),
    [(0o700, True), (0o755, True), (0o1777, True), (0o777, False), (0o775, False), (0o757, False)],
)
def test_where_others_could_put_theirs_instead(
    mode: int, taken: bool, ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to the directory above renames ours and answers in every host's place."""
    short = ours.parent / "short"
    short.mkdir()
    monkeypatch.setattr(connections, "_SHORT", short)
    ours.parent.chmod(mode)
    assert connections.directory(tmp_path / "known_hosts", ()).parent.parent == (ours.parent if taken else short)
    short.chmod(mode)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    if taken:
        connections.directory(tmp_path / "known_hosts", ())
    else:
        with pytest.raises(GpuadminError, match=f"{short}: others can replace what is in it"):
            connections.directory(tmp_path / "known_hosts", ())


@pytest.mark.holds("nobody can put other sockets in the place of ours")
def test_a_directory_below_another_persons_is_not_taken(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of whoever called su: XDG_RUNTIME_DIR is still theirs."""
    stat = Path.stat

    def of_another(path: Path, **given: bool) -> os.stat_result:
        found = stat(path, **given)
        return os.stat_result((*found[:4], os.getuid() + 1, *found[5:])) if path == ours.parent else found

    short = ours.parent / "short"
    short.mkdir()
    monkeypatch.setattr(connections, "_SHORT", short)
    monkeypatch.setattr(Path, "stat", of_another)
    assert connections.directory(tmp_path / "known_hosts", ()).parent.parent == short


def test_a_connection_that_another_run_uses_is_not_cut(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that change nothing, or one that does and one that looks, share the connections of a site."""
    control = connections.directory(tmp_path / "known_hosts", ())
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_more: asked.append(command))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control / "node1"))
        connections.close(tmp_path / "known_hosts")
        connections.close(tmp_path / "known_hosts", at_once=True)
    assert [command[command.index("-O") + 1] for command in asked] == ["stop", "exit"]


def test_two_runs_that_delete_the_same_old_ones(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    known_hosts, key = tmp_path / "known_hosts", tmp_path / "key"
    old = connections.directory(known_hosts, ())
    iterdir = Path.iterdir

    def late(path: Path) -> Iterator[Path]:
        if path == old:
            old.rmdir()  # as the other run does
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", late)
    assert connections.directory(known_hosts, (key,)).is_dir()
    assert not old.exists()


@pytest.mark.holds("connections of a run that begins keep their directory")
def test_one_that_a_run_begins_with_is_not_old(ours: Path, tmp_path: Path) -> None:
    """It had been there for days, and another run deleted it before ssh had a socket in it."""
    known_hosts, key = tmp_path / "known_hosts", tmp_path / "key"
    first, unused = connections.directory(known_hosts, ()), connections.directory(known_hosts, (tmp_path / "b",))
    for one in (first, unused):
        os.utime(one, (1, 1))
    assert connections.directory(known_hosts, ()) == first
    connections.directory(known_hosts, (key,))
    assert (first.exists(), unused.exists()) == (True, False)


def test_where_none_can_be_made(ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours.write_text("")
    with pytest.raises(GpuadminError, match=f"gpuadmin-{os.getuid()}: File exists"):
        connections.directory(tmp_path / "known_hosts", ())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(ours.parent / "gone"))
    with pytest.raises(GpuadminError, match="No such file or directory"):
        connections.directory(tmp_path / "known_hosts", ())


@pytest.mark.holds("the sockets of connections have short paths")
def test_a_deep_runtime_directory_has_no_socket(ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`unix_listener: path "…" too long for Unix domain socket`, which ssh said of every host."""
    monkeypatch.setattr(connections, "_SHORT", ours.parent / "short")
    (ours.parent / "short").mkdir()

    def opened() -> bytes:
        """The socket that ssh makes: it renames it when it listens."""
        (path,) = [word.removeprefix("ControlPath=") for word in connections.shared(tmp_path / "k", (), "login")[-1:]]
        return os.fsencode(f"{path}.{'x' * 16}")

    shortest = len(opened())
    for length in (103, 104):  # 103: what macOS allows
        above = ours.parent / ("d" * (length - shortest - 1))
        above.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(above))
        assert opened().startswith(os.fsencode(above if length == 103 else ours.parent / "short") + b"/gpuadmin-")
        assert len(opened()) <= 103


@pytest.mark.holds("the sockets of connections have short paths")
def test_a_link_to_a_deep_runtime_directory_has_no_socket(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible tells ssh where the link leads."""
    short, deep = ours.parent / "short", ours.parent / ("d" * 100)
    for one in (short, deep):
        one.mkdir()
    monkeypatch.setattr(connections, "_SHORT", short)
    (ours.parent / "link").symlink_to(deep)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(ours.parent / "link"))
    assert connections.directory(tmp_path / "known_hosts", ()).parent.parent == short


@pytest.mark.needs("ssh")
@pytest.mark.parametrize("name", ["plain", "50% lab", "%h", "two  blanks", 'a "quote"', "back\\slash", "it's", "한글"])
def test_ssh_takes_a_path_as_it_is(name: str, tmp_path: Path) -> None:
    """A `%` in the path of a site made every host unreachable."""
    path = tmp_path / name / "known_hosts"
    done = subprocess.run(
        ["ssh", "-F", "none", "-G", *connections.options(path), "host"], capture_output=True, text=True, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("userknownhostsfile ")]
    assert line.removeprefix("userknownhostsfile ").startswith(f"{path} "), line


@pytest.mark.needs("ssh")
def test_ssh_takes_a_key_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "50% k" / "key"
    option = f"IdentityFile={connections.file_word(path)}"
    line = ("ssh", "-F", "none", "-v", "-o", option, "-o", "ProxyCommand=false", "host")
    words = subprocess.run(line, capture_output=True, text=True, check=False).stderr
    assert f"identity file {path} type" in words, words
