"""Pinning host keys: a key that changed is never taken without being told to, and other hosts' keys stay."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gpuadmin.config.inventory import Host
from gpuadmin.trust import HostKey, pinned_keys, with_pinned

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


def pinned(site: Path) -> dict[tuple[str, str], str]:
    path = site / "known_hosts"
    return pinned_keys(path.read_text()) if path.exists() else {}


def test_a_key_is_pinned_when_it_was_confirmed(answers: dict[str, tuple[str, str]], site: Path, cli: Cli) -> None:
    answers["node1"] = ("ssh-ed25519", FIRST)
    code, _out, err = cli("trust", "node1")
    assert code == 5
    assert "not confirmed" in err
    assert pinned(site) == {}
    code, _out, err = cli("trust", "node1", "--yes")
    assert code == 0, err
    assert pinned(site) == {("[127.0.0.1]:2", "ssh-ed25519"): FIRST}


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa"], ids=["another key", "a key of another kind"])
def test_a_key_that_changed_is_refused(answers: dict[str, tuple[str, str]], site: Path, cli: Cli, kind: str) -> None:
    """Also with --yes: somebody else may answer in the host's place. --replace takes it, and no other host's goes."""
    (site / "known_hosts").write_text(f"# a comment\n[127.0.0.1]:2 ssh-ed25519 {FIRST}\n{OTHER}\n")
    before = (site / "known_hosts").read_text()
    answers["node1"] = (kind, SECOND)
    code, _out, err = cli("trust", "node1", "--yes")
    assert code == 5
    assert "another key is pinned for node1" in err
    assert (site / "known_hosts").read_text() == before
    code, _out, err = cli("trust", "node1", "--replace", "--yes")
    assert code == 0, err
    assert (site / "known_hosts").read_text() == f"# a comment\n{OTHER}\n[127.0.0.1]:2 {kind} {SECOND}\n"


def test_a_host_that_does_not_answer_keeps_its_key(answers: dict[str, tuple[str, str]], site: Path, cli: Cli) -> None:
    (site / "known_hosts").write_text(f"{OTHER}\n")
    answers["node1"] = ("ssh-ed25519", FIRST)
    code, _out, err = cli("trust", "node1", "node2", "--yes")
    assert code == 4
    assert "node2: no answer" in err
    assert pinned(site) == {("[127.0.0.1]:3", "ssh-ed25519"): SECOND, ("[127.0.0.1]:2", "ssh-ed25519"): FIRST}


@pytest.mark.parametrize("line", ["#h ssh-ed25519 x", "@revoked h ssh-ed25519", "|1|a|b= ssh-ed25519 x", "h ssh-rsa"])
def test_what_pins_nothing(line: str) -> None:
    assert pinned_keys(f"{line}\n") == {}


def test_a_line_of_two_names_goes_with_either_of_them() -> None:
    new = HostKey("node1", "a", 22, "ssh-ed25519", SECOND)
    assert with_pinned(f"a,b ssh-ed25519 {FIRST}\nc ssh-ed25519 {FIRST}\n", [new]) == (
        f"c ssh-ed25519 {FIRST}\na ssh-ed25519 {SECOND}\n"
    )
