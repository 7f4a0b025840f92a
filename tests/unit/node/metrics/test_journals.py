"""What hosts log, on the monitor host: whose lines they are, how they are shown, and what is deleted."""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import journals

NOW = 1_795_900_000.0  # 2026-11-28 21:06 UTC
TODAY = "2026-11-28"


def write(directory: Path, name: str, *, age: float = 0, kib: int = 4) -> Path:
    path = directory / f"remote-CN={name}"
    path.write_bytes(os.urandom(kib * 1024))
    os.utime(path, (NOW - age, NOW - age))
    return path


def left(directory: Path) -> list[str]:
    return sorted(path.name.removeprefix("remote-CN=") for path in directory.iterdir())


DAY = 86400
#: Files (name, age in seconds, KiB), and which of them are there after a sweep of 3 days and 100 KiB.
SWEPT: list[tuple[str, list[tuple[str, float, int]], list[str]]] = [
    ("a day's file is set aside", [("n1.journal", 5, 4)], [f"n1@{TODAY}.journal"]),
    ("once a day", [("n1.journal", 5, 4), (f"n1@{TODAY}.journal", 9, 4)], ["n1.journal", f"n1@{TODAY}.journal"]),
    ("old ones go", [(f"n1@{TODAY}.journal", 1, 4), ("n1@a.journal", 3 * DAY + 1, 4), ("n1@b.journal", 3 * DAY - 9, 4)],
     [f"n1@{TODAY}.journal", "n1@b.journal"]),
    ("of a host that has been dead for days as well", [("n1.journal", 4 * DAY, 4)], []),
    ("what was damaged counts", [("n1@a.journal~", 9, 80), ("n1@b.journal", 5, 80)], ["n1@b.journal"]),
    ("the oldest go first, and only until it is enough",
     [("n1@a.journal", 30, 60), ("n1@b.journal", 20, 60), ("n1@c.journal", 10, 30)], ["n1@b.journal", "n1@c.journal"]),
    ("a host's flood deletes its own lines alone",
     [("n1@a.journal", 30, 90), ("n1@b.journal", 20, 90), (f"n1@{TODAY}.journal", 9, 9), ("n1.journal", 1, 120),
      ("n2@a.journal", 2 * DAY, 90), ("n10@a.journal", 2 * DAY, 90)],
     [f"n1@{TODAY}.journal", "n10@a.journal", "n2@a.journal"]),
]  # fmt: skip


@pytest.mark.parametrize(("files", "kept"), [case[1:] for case in SWEPT], ids=[case[0] for case in SWEPT])
def test_a_sweep(tmp_path: Path, files: list[tuple[str, float, int]], kept: list[str]) -> None:
    for name, age, kib in files:
        write(tmp_path, name, age=age, kib=kib)
    (tmp_path / "notes.txt").write_text("an admin's own")
    assert journals.sweep(3, 100 * 1024, str(tmp_path), NOW) == 0
    assert left(tmp_path) == sorted([*kept, "notes.txt"])


def test_the_timer_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(journals, "sweep", lambda *numbers: asked.append(numbers) or 0)
    assert commands.main(["journals", "14", "512000000"]) == 0
    assert asked == [(14, 512_000_000)]
    assert commands.main(["journals", "14", "x"]) == 2


class Journalctl:
    """Answers with the lines of a host; the last files it was asked for."""

    def __init__(self, lines: dict[str, list[Any]], status: int = 0, complaint: str = "") -> None:
        self.lines, self.status, self.complaint = lines, status, complaint
        self.asked: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.asked.append(command)
        host = next(word for word in command if word.startswith("--file=")).partition("CN=")[2].partition(".")[0]
        lines = [one if isinstance(one, str) else json.dumps(one) for one in self.lines[host.partition("@")[0]]]
        return subprocess.CompletedProcess(command, self.status, "\n".join(lines), self.complaint)


def line(at: float, text: object = "hello", **more: object) -> dict[str, object]:
    return {
        "__REALTIME_TIMESTAMP": str(int(at * 1e6)),
        "MESSAGE": text,
        "SYSLOG_IDENTIFIER": "sshd",
        "_PID": "7",
        **more,
    }


def read(directory: Path, names: Sequence[str], runner: Journalctl, lines: int = 9, *options: str) -> dict[str, Any]:
    return journals.read(names, lines, options, "UTC-09:00", str(directory), runner)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_lines_of_several_hosts_are_in_order_of_time(tmp_path: Path) -> None:
    for name in ("n1.journal", "n1@x.journal", "n10.journal"):
        write(tmp_path, name)
    ask = Journalctl({
        "n1": [line(NOW), line(NOW - 20, "b", _HOSTNAME="n10"), line(NOW - 20, "b"), line(NOW - 90, "cut")],
        "n10": [line(NOW - 10, "c", SYSLOG_IDENTIFIER=None, _COMM="kernel", _PID=None)],
    })  # fmt: skip
    found = read(tmp_path, ["n1", "gone", "n10"], ask, 3, "--grep=x y", "--since=-2h")
    assert found == {
        "lines": [
            "2026-11-29 06:06:20 n1 sshd[7]: b",  # once, though it was sent twice; and by the name of its certificate
            "2026-11-29 06:06:30 n10 kernel: c",
            "2026-11-29 06:06:40 n1 sshd[7]: hello",
        ],
        "missing": ["gone"],
    }
    first, second = ask.asked
    assert {"--grep=x y", "--since=-2h", "--reverse", "--lines=3"} <= set(first)
    assert [word for word in second if word.startswith("--file")] == [f"--file={tmp_path}/remote-CN=n10.journal"]


#: What a host can send as a field, and how the line is shown.
HOSTILE: list[tuple[object, str]] = [
    ("a\nNov 29 n2 sshd: forged", "a Nov 29 n2 sshd: forged"),
    ("\x1b]0;title\x07x", " ]0;title x"),
    ([104, 105, 255, 10], "hi� "),
    ([None, "x", 1e9, [1], 104], "h"),
    (None, ""),
    ({"a": 1}, "{'a': 1}"),
    ("x" * 9000, "x" * journals.LONGEST),
]


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_a_line_is_one_line_of_plain_text(tmp_path: Path, text: object, shown: str) -> None:
    write(tmp_path, "n1.journal")
    (found,) = read(tmp_path, ["n1"], Journalctl({"n1": [line(NOW, text)]}))["lines"]
    assert found == f"2026-11-29 06:06:40 n1 sshd[7]: {shown}"


@pytest.mark.usefixtures("zone")
def test_what_is_no_line_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "n1.journal")
    odd = [
        "",
        "{",
        "[]",
        "3",
        {"MESSAGE": "no time"},
        {"__REALTIME_TIMESTAMP": [1]},
        line(1e15, "of year 31690708"),
    ]
    (found,) = read(tmp_path, ["n1"], Journalctl({"n1": odd}))["lines"]
    assert found.endswith("of year 31690708")
    assert found[:4] == time.strftime("%Y")


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("complaint", ["", "Failed to parse timestamp: 2hours"])
def test_what_journalctl_refuses_is_said(tmp_path: Path, complaint: str) -> None:
    write(tmp_path, "n1.journal")
    ask = Journalctl({"n1": []}, 1, complaint)
    if not complaint:
        assert read(tmp_path, ["n1"], ask) == {"lines": [], "missing": []}, "no line is like that"
        return
    with pytest.raises(NodeError, match="the lines of n1 cannot be read: Failed to parse timestamp: 2hours"):
        read(tmp_path, ["n1"], ask)
