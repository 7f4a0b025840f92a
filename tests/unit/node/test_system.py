"""What kind of host it is, and the commands that install packages there."""

from __future__ import annotations

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import parse_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.system import family, parse_dpkg_status, parse_os_release
from ansible_collections.gpuadmin.node.plugins.modules.host_facts import look_at
from ansible_collections.gpuadmin.node.plugins.modules.packages import last_words, unit_command


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


def test_installation_runs_in_a_named_unit() -> None:
    command = unit_command(("apt-get", "install", "x"), 60)
    assert command[0] == "systemd-run"
    assert "--unit=gpuadmin-packages.service" in command
    assert command[-4:] == ("--", "apt-get", "install", "x")


def test_last_words_are_the_errors() -> None:
    text = "Reading package lists...\nE: Unable to locate package x\nE: y\n"
    assert last_words(text) == "E: Unable to locate package x E: y"
    assert last_words("one\n\ntwo\n") == "one two"
