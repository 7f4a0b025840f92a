"""The unit that holds a root open."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.root import session


class Systemd:
    """Answers commands as systemd would, and remembers them."""

    def __init__(self, active: bool = False, status: int = 0) -> None:
        self.active, self.status = active, status
        self.commands: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(tuple(command))
        if command[:2] == ("systemctl", "show"):
            return subprocess.CompletedProcess(command, 0, "active" if self.active else "inactive", "")
        return subprocess.CompletedProcess(command, self.status, "", "no")


@pytest.fixture
def managed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This machine as one with a read-only root and systemd."""
    monkeypatch.setattr(session.root_code, "inspect", lambda *_a: session.root_code.Root("/", "/roots/a", True))
    monkeypatch.setattr(session.root_code, "is_read_only", lambda _path: False)
    monkeypatch.setattr(session.root_code, "RUN", str(tmp_path / "run"))
    monkeypatch.setattr(session.os.path, "isdir", lambda _path: True)
    return tmp_path / "run"


def test_session_starts_a_unit_with_shipped_code(managed: Path) -> None:
    systemd = Systemd()
    monkey = session.open_session(900, systemd)
    start = systemd.commands[-1]
    assert start[:2] == ("systemd-run", "--unit=gpuadmin-root-session.service")
    assert "--lease=900" in start
    assert monkey == {"needed": True, "unit": session.UNIT, "writable": True}
    assert (managed / "root_holder.py").read_text() == Path(session.root_code.__file__).read_text()


def test_session_is_renewed(managed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[float] = []
    monkeypatch.setattr(session.root_code, "write_deadline", written.append)
    systemd = Systemd(active=True)
    session.open_session(900, systemd)
    assert written == [900]
    assert all(command[0] == "systemctl" for command in systemd.commands)


def test_session_that_does_not_start(managed: Path) -> None:
    with pytest.raises(NodeError, match="could not be opened"):
        session.open_session(900, Systemd(status=1))
