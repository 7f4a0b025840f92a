"""What kind of host it is, and the commands that install packages there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import unit
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import parse_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.run import program
from ansible_collections.gpuadmin.node.plugins.module_utils.system import family, parse_dpkg_status, parse_os_release
from ansible_collections.gpuadmin.node.plugins.modules import packages
from ansible_collections.gpuadmin.node.plugins.modules.host_facts import look_at
from ansible_collections.gpuadmin.node.plugins.modules.packages import last_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID=debian\nVERSION_CODENAME=trixie\n", "debian"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "redhat"),
        ("ID=fedora\n", "redhat"),
        ("ID=arch\n", "archlinux"),
        ("ID=manjaro\nID_LIKE=arch\n", "archlinux"),
        ("# nothing\nID=alpine\n", None),
        ("", None),
    ],
)
def test_family(text: str, expected: str | None) -> None:
    assert family(parse_os_release(text)) == expected


def test_dpkg_status_counts_only_what_is_configured() -> None:
    text = (
        "Package: a\nStatus: install ok installed\nVersion: 1\n\n"
        "Package: b\nStatus: deinstall ok config-files\n\n"
        "Package: c\nStatus: install ok half-configured\n\n"
        "Package: d\nStatus: hold ok installed\nDescription: x\n Package: e\n"
    )
    assert parse_dpkg_status(text) == ["a", "d"]


MOUNTS = """\
22 1 0:20 / / rw - btrfs /dev/vda2 rw
30 22 0:40 / /home rw - autofs systemd-1 rw
31 30 0:41 / /home rw - nfs4 10.77.0.10:/srv/storage/homes rw
"""


def test_look_at_does_not_look_into_mounts() -> None:
    seen = look_at("/home", parse_mountinfo(MOUNTS))
    assert seen == {
        "mounts": [
            {"source": "systemd-1", "fstype": "autofs"},
            {"source": "10.77.0.10:/srv/storage/homes", "fstype": "nfs4"},
        ],
        "fstype": "nfs4",
        "entries": [],
    }


def test_look_at_what_is_not_there_yet() -> None:
    seen = look_at("/local/.docker", parse_mountinfo(MOUNTS))
    assert (seen["mounts"], seen["fstype"], seen["entries"]) == ([], "btrfs", [])


class Unit:
    """Notes what is to be done in a unit, and how; answers as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *statuses: int | str) -> None:
        self.statuses = list(statuses)
        self.commands: list[str] = []
        monkeypatch.setattr(unit, "perform", self)

    def __call__(self, name: str, work: object, arguments: dict[str, Any], *, properties: object) -> dict[str, object]:
        assert (name, work, properties) == ("packages", program, ("RuntimeMaxSec=60",))
        assert arguments["environment"]["DEBIAN_FRONTEND"] == "noninteractive"
        self.commands.append(arguments["command"][-1])
        status = self.statuses.pop(0)
        if isinstance(status, str):
            raise NodeError(status)
        return {"status": status, "output": "E: no\n" if status else ""}


def test_installation_runs_in_a_named_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "without_index", lambda _: False)
    ran = Unit(monkeypatch, 0)
    packages.install("debian", ["x"], refresh=False, timeout=60)
    assert ran.commands == ["x"]


def test_an_old_index_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "without_index", lambda _: False)
    ran = Unit(monkeypatch, 100, 0, 0)
    packages.install("debian", ["x"], refresh=False, timeout=60)
    assert ran.commands == ["x", "update", "x"]
    for statuses, problem in (
        ((100, 0, 100), "x cannot be installed: E: no"),
        ((100, "killed"), "x cannot be install"),
    ):
        Unit(monkeypatch, *statuses)
        with pytest.raises(NodeError, match=problem):
            packages.install("debian", ["x"], refresh=False, timeout=60)
    Unit(monkeypatch, "gpuadmin-packages.service ended without a word: time is over")
    with pytest.raises(NodeError, match=r"index of packages cannot be fetched: .* time is over"):
        packages.install("debian", ["x"], refresh=True, timeout=60)


def test_an_earlier_installation_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def working(name: str) -> bool:
        looked.append(name)
        return len(looked) < 3

    monkeypatch.setattr(unit, "working", working)
    monkeypatch.setattr(packages.time, "sleep", lambda _: None)
    packages.wait_for_another(60)
    assert looked == ["gpuadmin-packages.service"] * 3
    looked.clear()
    with pytest.raises(NodeError, match="has not ended in -1 seconds"):
        packages.wait_for_another(-1)


def test_last_words_are_the_errors() -> None:
    text = "Reading package lists...\nE: Unable to locate package x\nE: y\n"
    assert last_words(text) == "E: Unable to locate package x E: y"
    assert last_words("one\n\ntwo\n") == "one two"
