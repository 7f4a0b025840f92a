"""A tree below a root that is opened, and the session that ships the code for it."""

import json
import os
import stat
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.root import session
from ansible_collections.gpuadmin.node.plugins.module_utils.root.tree import (
    enabled,
    execute,
    masked,
    plan,
    run_after,
    validate,
)

from gpuadmin.common.records.files import Directory, File, FilesOrder, Link
from tests.support.operations import ask


class Systemd:
    """Answers commands as systemd would, and remembers them."""

    def __init__(self, *active: bool, status: int = 0) -> None:
        self.active, self.status = [*active] or [False], status
        self.commands: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(tuple(command))
        if command[:2] == ("systemctl", "show"):
            active = self.active.pop(0) if len(self.active) > 1 else self.active[0]
            return subprocess.CompletedProcess(command, 0, "active" if active else "inactive", "")
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
    session.open_session(900, systemd)
    start = systemd.commands[-1]
    assert start[:2] == ("systemd-run", "--unit=gpuadmin-root-session.service")
    assert "--lease=900" in start
    assert (managed / "root_holder.py").read_text() == Path(session.root_code.__file__).read_text()


def test_session_is_renewed(managed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[float] = []
    monkeypatch.setattr(session.root_code, "write_deadline", written.append)
    systemd = Systemd(True)
    session.open_session(900, systemd)
    assert written == [900]
    assert all(command[0] == "systemctl" for command in systemd.commands)


def test_session_that_does_not_start(managed: Path) -> None:
    with pytest.raises(NodeError, match="could not be opened"):
        session.open_session(900, Systemd(status=1))
    session.open_session(900, Systemd(False, True, status=1))  # another run has opened it meanwhile


@pytest.mark.root
def test_session_that_ends_while_it_is_renewed(managed: Path) -> None:
    systemd = Systemd(True, False)
    session.open_session(900, systemd)
    assert systemd.commands[-1][0] == "systemd-run"


def test_no_root_is_opened_that_nothing_would_close(managed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.os.path, "isdir", lambda _path: False)
    systemd = Systemd()
    with pytest.raises(NodeError, match="does not run systemd"):
        session.open_session(900, systemd)
    assert systemd.commands == []


@pytest.mark.parametrize(
    ("found", "closed", "well"),
    [("left open: closed", True, True), ("left open: closed", False, False), ("held open by dnf", False, True)],
)
def test_a_root_that_stays_open_is_an_error(
    managed: Path, monkeypatch: pytest.MonkeyPatch, found: str, closed: bool, well: bool
) -> None:
    monkeypatch.setattr(session.root_code, "close_left_open", lambda _path: found)
    monkeypatch.setattr(session.root_code, "is_read_only", lambda _path: closed)
    systemd = Systemd()
    with nullcontext() if well else pytest.raises(NodeError, match="the root is still writable"):
        session.close_session(systemd)
    assert systemd.commands[0][:2] == ("systemctl", "stop")


@pytest.mark.holds("a check runs no program in the root")
@pytest.mark.parametrize(("check", "argv", "ran"), [
    (True, ["true"], []), (False, ["true"], ["open", "closed"]), (False, ["false"], ["open", "closed"]),
    (False, ["sleep", "99"], ["open", "closed"]),
])  # fmt: skip
def test_a_program_runs_in_the_open_root(
    monkeypatch: pytest.MonkeyPatch, check: bool, argv: list[str], ran: list[str]
) -> None:
    """And for so long alone; the root does not close before that."""
    root: list[str] = []
    monkeypatch.setattr(session, "open_session", lambda lease: root.append("open" if lease > 1 else "too short"))
    monkeypatch.setattr(session, "close_session", lambda: root.append("closed"))
    result = ask("root_command", {"argv": argv, "timeout": 1}, check=check)
    assert ("msg" in result, root) == (argv != ["true"], ran)
    assert result["operations"] == ([] if "msg" in result else ["run true"])


def request(root: Path) -> FilesOrder:
    return FilesOrder(
        directories=[Directory(f"{root}/data", "0711"), Directory(f"{root}/code", exclusive=True)],
        files=[
            File(f"{root}/code/a.py", "a = 1\n"),
            File(f"{root}/etc/sudoers.d/x", "text\n", "0440"),
            File(f"{root}/bin/tool", "#!/bin/sh\n", "0755"),
        ],
        links=[Link(f"{root}/wants/x.service", "/etc/x.service")],
        absent=[f"{root}/old"],
    )


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (
            "",
            "make data, make code, write code/a.py, write etc/sudoers.d/x, write bin/tool, link wants/x.service",
        ),
        (
            "mkdir -m 755 data; mkdir code; touch code/stale.py; mkdir code/__pycache__; printf 'a = 1\\n' > code/a.py",
            "mode data, remove code/__pycache__, remove code/stale.py, write etc/sudoers.d/x, write bin/tool, "
            "link wants/x.service",
        ),
        (
            "mkdir wants; ln -s elsewhere wants/x.service; touch old; mkdir bin; printf '#!/bin/sh\\n' > bin/tool; "
            "chmod 644 bin/tool",
            "make data, make code, write code/a.py, write etc/sudoers.d/x, mode bin/tool, link wants/x.service, "
            "remove old",
        ),
    ],
)
def test_plan_is_what_is_done(tmp_path: Path, before: str, expected: str) -> None:
    assert os.system(f"cd {tmp_path} && umask 022 && {before or 'true'}") == 0
    wanted = request(tmp_path)
    steps = plan(wanted)
    assert ", ".join(f"{one.verb} {os.path.relpath(one.path, tmp_path)}" for one in steps.operations) == expected
    execute(steps)
    assert plan(wanted).operations == []
    assert (tmp_path / "code/a.py").read_text() == "a = 1\n"
    assert stat.S_IMODE((tmp_path / "etc/sudoers.d/x").stat().st_mode) == 0o440
    assert stat.S_IMODE((tmp_path / "etc/sudoers.d").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o711
    assert os.access(tmp_path / "bin/tool", os.X_OK)
    assert str((tmp_path / "wants/x.service").readlink()) == "/etc/x.service"
    assert [path.name for path in (tmp_path / "code").iterdir()] == ["a.py"]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("touch data", "is not a directory"),
        ("mkdir wants; touch wants/x.service", "is not a link"),
        ("mkdir -p bin; ln -s /bin/true bin/tool", "symbolic link"),
        ("mkdir -p bin/tool", "bin/tool is not a regular file"),
        ("mkdir bin; mkfifo bin/tool", "bin/tool is not a regular file"),
    ],
)
def test_what_is_in_the_way_is_left_alone(tmp_path: Path, before: str, words: str) -> None:
    assert os.system(f"cd {tmp_path} && {before}") == 0
    with pytest.raises(NodeError, match=words):
        plan(request(tmp_path))


def test_nothing_is_written_that_its_program_refuses(tmp_path: Path) -> None:
    path = f"{tmp_path}/settings"
    steps = plan(FilesOrder(files=[File(path, "bad\n", validate=("grep", "-q", "good", "%s"))]))
    with pytest.raises(NodeError, match="grep refuses it"):
        validate(steps.operations, check=False)
    missing = plan(FilesOrder(files=[File(path, "bad\n", validate=("no-such-program", "%s"))]))
    validate(missing.operations, check=True)


def test_what_follows_fails_in_words() -> None:
    run_after([["true"]])
    with pytest.raises(NodeError, match="sh -c echo oh; false failed: oh"):
        run_after([["sh", "-c", "echo oh; false"]])


def run(document: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    return ask("files", document, check=check)


@pytest.mark.root
def test_module_in_check_mode_says_what_the_run_does(tmp_path: Path) -> None:
    arguments = {
        "files": [
            {"path": f"{tmp_path}/a", "content": "shown\n"},
            {"path": f"{tmp_path}/b", "content": "hidden\n", "show_diff": False},
        ],
        "after": [["touch", f"{tmp_path}/followed"]],
    }
    check = run(arguments, check=True)
    assert list(tmp_path.iterdir()) == []
    real = run(arguments)
    assert {key: check[key] for key in ("changed", "operations", "diff")} == {
        key: real[key] for key in ("changed", "operations", "diff")
    }
    assert real["operations"] == [f"write {tmp_path}/a", f"write {tmp_path}/b"]
    assert "hidden" not in json.dumps(real["diff"])
    assert (tmp_path / "followed").exists()
    (tmp_path / "followed").unlink()
    again = run(arguments)
    assert (again["changed"], again["operations"]) == (False, [])
    assert not (tmp_path / "followed").exists()


UNIT = (
    "[Unit]\nWantedBy=no.target\n[Install]\n# WantedBy=no.target\nWantedBy=a.target b.target\nRequiredBy = c.target\n"
)


def test_enabling_is_what_the_unit_file_says() -> None:
    path = "/etc/systemd/user/x.socket"
    assert enabled([path], [File(path, UNIT)]) == [
        Link("/etc/systemd/user/a.target.wants/x.socket", path),
        Link("/etc/systemd/user/b.target.wants/x.socket", path),
        Link("/etc/systemd/user/c.target.requires/x.socket", path),
    ]
    with pytest.raises(NodeError, match="not one of the files"):
        enabled([path], [])
    with pytest.raises(NodeError, match="no WantedBy="):
        enabled([path], [File(path, "[Unit]\nWantedBy=no.target\n")])


def test_masking() -> None:
    assert masked(["docker.service"]) == [Link("/etc/systemd/system/docker.service", "/dev/null")]
    for name in ("", "/etc/passwd", "../x"):
        with pytest.raises(NodeError, match="not the name of a unit"):
            masked([name])


def test_module_enables(tmp_path: Path) -> None:
    unit = f"{tmp_path}/x.service"
    arguments = {"files": [{"path": unit, "content": UNIT}], "enable": [unit]}
    check = run(arguments, check=True)
    assert check["operations"][1] == f"link {tmp_path}/a.target.wants/x.service to {unit}"
    assert run(arguments) == check
    assert (tmp_path / "c.target.requires/x.service").read_text() == UNIT
    assert run(arguments)["changed"] is False


def test_a_source_is_expanded_on_the_controller(tmp_path: Path) -> None:
    result = run({"source": [{"path": str(tmp_path), "target": "/x"}]})
    assert "'source', which is not one of" in result["msg"]
