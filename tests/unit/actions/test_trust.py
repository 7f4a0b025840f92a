"""Pinning host keys: a key that changed is never taken without being told to, and other hosts' keys stay."""

import base64
import socket
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gpuadmin.config.inventory import Host
from gpuadmin.config.known_hosts import pinned_keys, with_lines
from gpuadmin.host_keys import HostKey, fetch_host_keys
from gpuadmin.results import UNRESOLVED
from gpuadmin.session import Session
from tests.support.verbs import fail, succeed

pytestmark = pytest.mark.holds(
    "a host key is pinned when it was confirmed",
    "a host key that changed is not taken by itself",
    "a host that the admin's own ssh knows otherwise is not new",
    "a new key replaces the host's own",
    "keys of other hosts stay",
    "what is pinned while somebody is asked stays",
)


Cli = Callable[..., tuple[int, str, str]]
FIRST, SECOND = (base64.b64encode(word * 8).decode() for word in (b"one ", b"two "))
OTHER = f"[127.0.0.1]:3 ssh-ed25519 {SECOND}"


@pytest.fixture
def answers(site: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str]]:
    """What hosts answer: name → (kind, key); who is not in it does not answer."""
    found: dict[str, tuple[str, str]] = {}

    def fetch(hosts: Iterable[Host]) -> list[HostKey]:
        keys = []
        for host in hosts:
            kind, key = found.get(host.name, ("", ""))
            problem = None if host.name in found else "timed out"
            keys.append(HostKey(host.name, host.address, host.port, kind, key, problem))
        return keys

    monkeypatch.setattr("gpuadmin.actions.trust.fetch_host_keys", fetch)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    return found


def pinned(site: Path, name: str = "[127.0.0.1]:2") -> dict[str, set[str]]:
    path = site / "known_hosts"
    return pinned_keys(path.read_text(), name) if path.exists() else {}


def test_a_key_is_pinned_when_it_was_confirmed(answers: dict[str, tuple[str, str]], site: Path, cli: Cli) -> None:
    answers["node1"] = ("ssh-ed25519", FIRST)
    assert "not confirmed" in fail(cli, 5, "trust", "node1")
    assert pinned(site) == {}
    succeed(cli, "trust", "node1", "--yes")
    assert pinned(site) == {"ssh-ed25519": {FIRST}}


def test_what_was_pinned_while_somebody_was_asked_stays(
    answers: dict[str, tuple[str, str]], site: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["node1"] = ("ssh-ed25519", FIRST)

    def meanwhile(session: Session, question: str) -> None:
        (site / "known_hosts").write_text(f"{OTHER}\n")

    monkeypatch.setattr(Session, "confirm", meanwhile)
    assert "was changed while you were asked; nothing was pinned" in fail(cli, 5, "trust", "node1", "--yes")
    assert (site / "known_hosts").read_text() == f"{OTHER}\n"


def test_a_key_that_the_admin_knows_otherwise_is_not_new(
    answers: dict[str, tuple[str, str]], site: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Somebody in the middle when a site begins: the admin's own ssh knew the host."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:2 ssh-ed25519 {FIRST}\n")
    answers["node1"] = ("ssh-ed25519", SECOND)
    assert "node1: ~/.ssh/known_hosts has another ssh-ed25519 key" in fail(cli, 5, "trust", "node1", "--yes")
    assert pinned(site) == {}
    answers["node1"] = ("ssh-rsa", SECOND)  # a key of another kind says nothing about this one
    assert cli("trust", "node1", "--yes")[0] == 0
    (site / "known_hosts").write_text("")
    answers["node1"] = ("ssh-ed25519", FIRST)
    assert cli("trust", "node1", "--yes")[0] == 0


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa"], ids=["another key", "a key of another kind"])
def test_a_key_that_changed_is_refused(answers: dict[str, tuple[str, str]], site: Path, cli: Cli, kind: str) -> None:
    """Also with --yes: somebody else may answer in the host's place. --replace takes it, and no other host's goes."""
    (site / "known_hosts").write_text(f"# a comment\n[127.0.0.1]:2 ssh-ed25519 {FIRST}\n{OTHER}\n")
    before = (site / "known_hosts").read_text()
    answers["node1"] = (kind, SECOND)
    assert "another key is known for node1" in fail(cli, 5, "trust", "node1", "--yes")
    assert (site / "known_hosts").read_text() == before
    succeed(cli, "trust", "node1", "--replace", "--yes")
    assert (site / "known_hosts").read_text() == f"# a comment\n{OTHER}\n[127.0.0.1]:2 {kind} {SECOND}\n"


@pytest.mark.usefixtures("answers")
def test_a_name_that_cannot_be_resolved_is_to_be_corrected(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(hosts: Iterable[Host]) -> list[HostKey]:
        return [HostKey(one.name, one.address, one.port, problem=UNRESOLVED) for one in hosts]

    monkeypatch.setattr("gpuadmin.actions.trust.fetch_host_keys", fetch)
    err = fail(cli, 4, "trust", "storage1", "--yes")
    assert "Hint: correct the name in inventory/, or give ansible_host there; then run it again" in err


def test_a_host_that_does_not_answer_keeps_its_key(answers: dict[str, tuple[str, str]], site: Path, cli: Cli) -> None:
    (site / "known_hosts").write_text(f"{OTHER}\n")
    answers["node1"] = ("ssh-ed25519", FIRST)
    err = fail(cli, 4, "trust", "node1", "node2", "--yes")
    assert "node2: unreachable" in err
    assert "Hint: when they answer: run it again" in err
    assert pinned(site) == {"ssh-ed25519": {FIRST}}
    assert pinned(site, "[127.0.0.1]:3") == {"ssh-ed25519": {SECOND}}


LINES = [
    *(f"{field} ssh-ed25519 x" for field in ("#h", "@revoked h", "|1|a|b=", "|2|YQ==|YQ==", "!h,*", "h?", "[h]:22")),
    "h ssh-rsa",
]


@pytest.mark.parametrize("line", LINES)
def test_what_pins_nothing(line: str) -> None:
    assert pinned_keys(f"{line}\n", "h") == {}


@pytest.mark.parametrize("field", ["node1", "NODE1", "x,node1", "node?", "*", "!node2,no*"])
def test_what_pins(field: str) -> None:
    text = f"{field} ssh-ed25519 {FIRST}\nother ssh-ed25519 {SECOND}\n{field} ssh-ed25519 {SECOND}\n"
    assert pinned_keys(text, "node1") == {"ssh-ed25519": {FIRST, SECOND}}


def hashed(path: Path) -> None:
    """Hash the names in a file of host keys, by OpenSSH's own hand."""
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)


def real_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().split()[1]


@pytest.mark.holds("a hashed line of a host goes with its new key", "a hashed name in known_hosts is a host's")
def test_a_hashed_name_is_a_host_s_as_well(
    answers: dict[str, tuple[str, str]], site: Path, cli: Cli, tmp_path: Path
) -> None:
    first, second = real_key(tmp_path / "one"), real_key(tmp_path / "two")
    (site / "known_hosts").write_text(f"[127.0.0.1]:2 ssh-ed25519 {first}\n[127.0.0.1]:3 ssh-ed25519 {second}\n")
    hashed(site / "known_hosts")
    assert "127.0.0.1" not in (before := (site / "known_hosts").read_text())
    answers["node1"] = ("ssh-ed25519", first)
    code, _out, err = cli("trust", "node1", "--yes")
    assert (code, "(pinned)" in err) == (0, True)
    assert "node1" not in cli("check")[1]
    answers["node1"] = ("ssh-ed25519", second)
    assert "another key is known for node1" in fail(cli, 5, "trust", "node1", "--yes")
    assert (site / "known_hosts").read_text() == before
    assert cli("trust", "node1", "--yes", "--replace")[0] == 0
    assert pinned(site) == {"ssh-ed25519": {second}}
    assert pinned(site, "[127.0.0.1]:3") == {"ssh-ed25519": {second}}
    assert len((site / "known_hosts").read_text().splitlines()) == 2


def test_a_host_that_refuses_is_said_in_words() -> None:
    """Not "[Errno 111] Connection refused"."""
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        host = Host("node1", (), {"ansible_host": "127.0.0.1", "ansible_port": closed.getsockname()[1]})
        (key,) = fetch_host_keys([host])
    assert key.problem == "nothing answers on its ssh port (connection refused)"
    (key,) = fetch_host_keys([Host("node1", (), {"ansible_host": "127.0.0.1", "ansible_port": 0})])
    assert "Errno" not in str(key.problem)


def test_a_site_that_cannot_be_written_is_said(
    answers: dict[str, tuple[str, str]], site: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpuadmin.actions.trust.write_atomically", full)
    answers["node1"] = ("ssh-ed25519", FIRST)
    code, _out, err = cli("trust", "node1", "--yes")
    assert (code, f"Error: {site}/known_hosts: No space left on device; nothing was pinned" in err) == (1, True)


def test_a_line_of_two_names_goes_with_either_of_them() -> None:
    new = HostKey("node1", "a", 22, "ssh-ed25519", SECOND)
    assert with_lines(f"a,b ssh-ed25519 {FIRST}\nc ssh-ed25519 {FIRST}\n", [new.line]) == (
        f"c ssh-ed25519 {FIRST}\na ssh-ed25519 {SECOND}\n"
    )
