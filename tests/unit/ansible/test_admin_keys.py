"""Who is to blame where ssh may not log in: this machine's key, before the host."""

import subprocess
from pathlib import Path

import pytest

from gpuadmin.ansible.admin_keys import AdminKeys
from gpuadmin.ansible.events import unreachable_message
from gpuadmin.ansible.invocation import Invocation, Secrets, environment
from gpuadmin.config.inventory import Host
from gpuadmin.results import DENIED, HostResult, RunResult

pytestmark = pytest.mark.needs("ssh-keygen")


def made(path: Path, passphrase: str = "", mode: int = 0o600) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    path.chmod(mode)
    return str(path)


def denied(*names: str) -> RunResult:
    message = unreachable_message("ops@10.0.0.1: Permission denied (publickey).")
    return RunResult({name: HostResult("unreachable", message=message) for name in names})


def test_the_key_is_named_where_it_is_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    bad, good = made(tmp_path / "open", mode=0o644), made(tmp_path / "good")
    hosts = [Host("node1", ()), Host("node2", (), {"ansible_ssh_private_key_file": good})]
    found = AdminKeys.of(hosts, bad, None).blamed(denied("node1", "node2")).hosts
    why = "is open to others (mode 0644), so ssh does not use it"
    assert found["node1"].message == f"{DENIED}: the key {bad} of this machine {why}"
    assert found["node2"].message == DENIED
    above = AdminKeys.of(hosts, bad, good).blamed(denied("node1")).hosts
    assert above["node1"].message == DENIED
    silent = RunResult({"node1": HostResult("unreachable", message="does not answer (timed out)")})
    assert AdminKeys.of(hosts, bad, None).blamed(silent) == silent


def test_ssh_asks_nobody_for_a_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    keys = AdminKeys.of([Host("node1", ())], made(tmp_path / "key", "secret"), None)
    assert keys.ask

    def arguments(secrets: Secrets) -> str:
        return environment(
            Invocation("x", (), tmp_path / "known_hosts", 1, keys=keys, secrets=secrets), tmp_path, tmp_path
        )["ANSIBLE_SSH_ARGS"]

    assert "BatchMode=yes" in arguments(Secrets())
    assert "BatchMode" not in arguments(Secrets(ssh="x"))
    assert not AdminKeys.of([Host("node1", ())], made(tmp_path / "good"), None).ask
