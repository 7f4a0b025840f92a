"""What people read when they log in: while it holds, and not a moment longer."""

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import announcements
from ansible_collections.gpuadmin.node.plugins.module_utils.logins.announcements import Announcement, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.logins.operations import AnnouncementsOrder

from tests.support.operations import ask

POWER = Announcement("a1", 100, 200, "No power.\n정전입니다.")
DISK = Announcement("b2", 150, 300, "A new disk.")


class Node:
    def __init__(self, tmp_path: Path) -> None:
        self.directory, self.motd = str(tmp_path), tmp_path / "run/motd.d/gpuadmin-announcements"
        self.file = tmp_path / announcements.FILE

    def converge(self, *wanted: Announcement, now: float, check: bool = False) -> list[str]:
        return converge(wanted, check=check, directory=self.directory, motd=str(self.motd), now=now)

    @property
    def text(self) -> str | None:
        return self.motd.read_text() if self.motd.exists() else None


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("now", "texts"), [(99, []), (100, [POWER]), (150, [POWER, DISK]), (200, [DISK]), (299, [DISK]), (300, [])]
)
def test_what_holds_now(node: Node, now: float, texts: list[Announcement]) -> None:
    node.converge(POWER, DISK, now=now)
    expected = "".join(f"\n{one.text}\n" for one in texts)
    assert node.text == (expected or None)
    announcements.show(announcements.load(str(node.file)), motd=str(node.motd), now=1000)
    assert node.text is None


def test_what_is_done_and_what_a_check_says(node: Node) -> None:
    assert node.converge(POWER, now=150, check=True) == ["announce a1"]
    assert not node.file.exists()
    assert node.text is None
    assert node.converge(POWER, now=150) == ["announce a1"]
    assert node.converge(POWER, now=150) == []
    assert node.converge(DISK, now=160, check=True) == ["announce b2", "take announcement a1 back"]
    assert "No power" in (node.text or "")
    assert node.converge(DISK, now=160) == ["announce b2", "take announcement a1 back"]
    assert node.text == "\nA new disk.\n"
    assert node.converge(now=160) == ["take announcement b2 back"]
    assert node.text is None


@pytest.mark.parametrize("damage", ["", "{", "[]x", '[{"id": 1}]', "\xff"])
def test_a_damaged_file(node: Node, damage: str) -> None:
    node.converge(POWER, now=150)
    node.file.write_bytes(damage.encode("latin-1"))
    with pytest.raises(NodeError):
        announcements.main(node.directory, str(node.motd))
    assert node.text is None, "what nobody can take away any more is not shown"
    assert node.converge(POWER, now=150) == ["announce a1"]
    assert "No power" in (node.text or "")


WRONG: list[Any] = [
    None, {}, [1], [{"id": "a"}], [{"id": "../a", "begin": 1, "end": 2, "text": "x"}],
    [{"id": "a", "begin": "1", "end": 2, "text": "x"}], [{"id": "a", "begin": True, "end": 2, "text": "x"}],
    [{"id": "a", "begin": 1, "end": 2, "text": "x\x1b[2J"}], [{"id": "a", "begin": 1, "end": 2, "text": "x" * 8001}],
    [{"id": "a", "begin": 1, "end": 2, "text": "x"}] * 51,
]  # fmt: skip


@pytest.mark.holds("a node shows nothing that a terminal obeys")
@pytest.mark.parametrize("entries", WRONG, ids=lambda one: str(one)[:40])
def test_what_is_no_announcement(entries: Any) -> None:
    with pytest.raises(NodeError):
        parse(AnnouncementsOrder, {"entries": entries}, "announcements")


def test_a_link_is_not_followed(node: Node, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    node.file.symlink_to(other)
    with pytest.raises(NodeError, match="symbolic link"):
        announcements.main(node.directory, str(node.motd))
    assert other.read_text() == "kept"


def test_the_command(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(announcements, "main", lambda directory: asked.append(directory) or 0)
    assert commands.main(["announcements"]) == 0
    assert asked == ["/var/lib/gpuadmin"]
    assert commands.main(["announcements", "x"]) == 2


def test_the_operation(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements.show, "__kwdefaults__", {"motd": str(node.motd), "now": None})
    monkeypatch.setattr(
        announcements.converge, "__kwdefaults__", {"directory": "/nowhere", "motd": str(node.motd), "now": None}
    )
    entry = {"id": "a1", "begin": 0, "end": 2**40, "text": "No power."}
    arguments = {"entries": [entry], "state_directory": node.directory}
    check = ask("announcements", arguments, check=True)
    assert (check["changed"], check["operations"], node.text) == (True, ["announce a1"], None)
    assert ask("announcements", arguments)["operations"] == ["announce a1"]
    assert node.text == "\nNo power.\n"
    assert ask("announcements", arguments)["changed"] is False
    assert json.loads(node.file.read_text())[0]["id"] == "a1"
    wrong = ask("announcements", {**arguments, "entries": [{**entry, "text": "\x07"}]})
    assert wrong["failed"] is True
    assert "printable" in wrong["msg"]
