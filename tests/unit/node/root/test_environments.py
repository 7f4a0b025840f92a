"""An environment of Python packages: made beside the one before, used whole, and made once."""

import sys
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.root import operations, packages, session
from ansible_collections.gpuadmin.node.plugins.module_utils.root.operations import PythonEnvironmentOrder


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is run in the unit; venv makes a directory, and pip fails for a package `bad`."""
    found: list[tuple[str, ...]] = []

    def in_unit(command: tuple[str, ...], timeout: int) -> packages.Done:
        found.append(tuple(command))
        if command[1:3] == ("-Im", "venv"):
            Path(command[3], "bin").mkdir(parents=True)
        return packages.Done(int("bad==1" in command), "ERROR: No match for bad")

    monkeypatch.setattr(packages, "in_unit", in_unit)
    monkeypatch.setattr(packages, "wait_for_another", lambda timeout: None)
    for name in ("open_session", "close_session"):
        monkeypatch.setattr(session, name, lambda *_, name=name: found.append((name,)))
    return found


@pytest.mark.holds("nothing is built from source as root")
@pytest.mark.holds("the environment that people run stays")
def test_it_is_made_once_and_replaced_whole(tmp_path: Path, ran: list[tuple[str, ...]]) -> None:
    def have(*wanted: str, check: bool = False, index: str | None = None) -> list[str]:
        order = PythonEnvironmentOrder(str(tmp_path / "env"), wanted, index)
        return list(operations.ensure_python_environment(order, check).operations)

    assert have("one==1", check=True) == [f"install one==1 in {tmp_path}/env"]
    assert ran == []
    have("one==1", index="https://example.org/simple")
    current = (tmp_path / "env/current").resolve()
    assert ran[0] == ("open_session",)
    assert ran[1] == (sys.executable, "-Im", "venv", str(current))
    assert {"--only-binary=:all:", "--index-url", "https://example.org/simple", "one==1"} < set(ran[2])
    assert ran[3] == ("close_session",)
    ran.clear()
    assert have("one==1") == []
    assert ran == []
    # one that cannot be made leaves the one before in use
    with pytest.raises(NodeError, match="bad==1 cannot be installed: "):
        have("bad==1")
    assert ran[-1] == ("close_session",)
    assert [one.name for one in (tmp_path / "env").iterdir() if not one.is_symlink()] == [current.name]
    have("one==2")
    assert (tmp_path / "env/current").resolve() != current
    assert current.is_dir(), "what runs from it goes on"
    have("one==3")
    assert not current.exists()


def test_what_a_cut_has_left_keeps_none_from_being_made(
    tmp_path: Path, ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: str) -> None:
        raise KeyboardInterrupt

    order = PythonEnvironmentOrder(str(tmp_path / "env"), ("one==1",), None)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", cut)  # the link is beside the one that people run
        with pytest.raises(KeyboardInterrupt):
            operations.ensure_python_environment(order, False)
    operations.ensure_python_environment(order, False)
    assert (tmp_path / "env/current/bin").is_dir()
    assert len(list((tmp_path / "env").iterdir())) == 2
