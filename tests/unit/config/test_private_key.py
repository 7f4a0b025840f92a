"""The admin's key on this machine: what is wrong with it is said before a host is blamed."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuadmin.config import private_key
from gpuadmin.config.private_key import key_problem, login_problem, public_blob

pytestmark = pytest.mark.needs("ssh-keygen")
Cli = Callable[..., tuple[int, str, str]]


def make_key(path: Path, passphrase: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    return str(path)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's agent, and a home without keys."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    socket = tmp_path / "agent"
    running = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    while not socket.exists():
        assert running.poll() is None
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield
    running.terminate()
    running.wait()


def test_a_good_one(tmp_path: Path) -> None:
    assert key_problem(make_key(tmp_path / "key")) is None


@pytest.mark.parametrize(
    ("content", "mode", "words", "hint"),
    [
        (None, 0o644, "is open to others (mode 0644), so ssh does not use it", "chmod 600 "),
        (None, 0o640, "is open to others (mode 0640), so ssh does not use it", "chmod 600 "),
        ("garbage\n", 0o600, "is not a private key that ssh can read (", "restore it"),
        ("", 0o600, "is not a private key that ssh can read (", "restore it"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", 0o600, "not a private key that ssh can read (", "restore it"),
        ("ssh-ed25519 AAAA a@b\n", 0o644, "is a public key", "name the private one"),
    ],
)
def test_what_ssh_does_not_use(tmp_path: Path, content: str | None, mode: int, words: str, hint: str) -> None:
    key = Path(make_key(tmp_path / "key"))
    if content is not None:
        key.write_text(content)
        key.with_suffix(".pub").unlink()
    key.chmod(mode)
    problem = key_problem(str(key))
    assert problem is not None
    assert words in problem.message
    assert hint in problem.hint
    assert problem.sure


def test_nothing_a_directory_and_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("none", "is not a file"), ("", "is a directory"), ("pipe", "is a named pipe")):
        problem = key_problem(str(tmp_path / name))
        assert problem is not None
        assert problem.message.startswith(words)


@pytest.mark.needs("ssh-agent", "ssh-add")
def test_a_passphrase_is_none_where_an_agent_has_it_open(tmp_path: Path, agent: None) -> None:
    key = make_key(tmp_path / "key", "secret")
    problem = key_problem(key)
    assert problem is not None
    assert "has a passphrase, and no ssh-agent has it open" in problem.message
    assert not problem.sure
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "secret", "-N", "", "-f", key], check=True)
    subprocess.run(["ssh-add", "-q", key], check=True, stdin=subprocess.DEVNULL)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", key], check=True)
    assert key_problem(key) is None


def test_of_one_s_own_keys_one_is_enough(alone: Path) -> None:
    assert login_problem(None) is None  # perhaps ~/.ssh/config names one
    make_key(alone / ".ssh/id_rsa", "secret")
    problem = login_problem(None)
    assert problem is not None
    assert problem.key == "~/.ssh/id_rsa"
    make_key(alone / ".ssh/id_ed25519")
    assert login_problem(None) is None


@pytest.mark.needs("ssh-agent", "ssh-add")
def test_an_agent_without_keys_helps_nobody(alone: Path, agent: None) -> None:
    """It says so on stdout, in words."""
    make_key(alone / ".ssh/id_rsa", "secret")
    assert login_problem(None) is not None


def test_a_key_of_somebody_else_s_is_no_matter_of_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh looks at the mode of one's own alone."""
    key = Path(make_key(tmp_path / "key"))
    key.chmod(0o640)
    monkeypatch.setattr(private_key.os, "getuid", lambda: key.stat().st_uid + 1)
    ssh = private_key.ask_program
    monkeypatch.setattr(private_key, "ask_program", lambda *words: None if "-y" in words else ssh(*words))
    assert key_problem(str(key)) is None


def test_the_public_key_of_a_private_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The .pub beside it counts where it has a passphrase alone: it may be another's."""
    key, other = (Path(make_key(tmp_path / name)) for name in ("key", "other"))
    blob = key.with_suffix(".pub").read_text().split()[1]
    assert public_blob(str(key)) == blob
    other.with_suffix(".pub").replace(key.with_suffix(".pub"))
    assert public_blob(str(key)) == blob
    locked = Path(make_key(tmp_path / "locked", "secret"))
    assert public_blob(str(locked)) == locked.with_suffix(".pub").read_text().split()[1]
    locked.with_suffix(".pub").write_text("")
    assert public_blob(str(locked)) is None
    locked.with_suffix(".pub").unlink()
    assert public_blob(str(locked)) is None
    assert public_blob(None) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert public_blob(str(other)) is None
    assert key_problem(str(other)) is None, "without OpenSSH nobody can tell"


def test_check_tries_the_key(site: Path, cli: Cli, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    Path(key).chmod(0o644)
    settings = site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("  user: gpuadmin\n", f"  user: gpuadmin\n  ssh_key: {key}\n"))
    code, out, _ = cli("check", "--site", str(site))
    assert (code, f"error: gpuadmin.yml: admin.ssh_key: {key} is open to others (mode 0644)" in out) == (2, True), out
    Path(key).unlink()
    make_key(Path(key), "secret")
    code, out, _ = cli("check", "--site", str(site))
    assert (code, f"warning: gpuadmin.yml: admin.ssh_key: {key} has a passphrase" in out) == (0, True), out


def test_check_tries_the_key_of_one_host(site: Path, cli: Cli, tmp_path: Path) -> None:
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/node1.yml").write_text(f"ansible_ssh_private_key_file: {tmp_path}/none\n")
    code, out, _ = cli("check", "--site", str(site))
    words = f"error: inventory: node1: ansible_ssh_private_key_file: {tmp_path}/none is not a file"
    assert (code, words in out) == (2, True), out
