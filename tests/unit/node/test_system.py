"""What kind of host it is, and the commands that install packages there."""

from __future__ import annotations

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.system import family, parse_dpkg_status, parse_os_release


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
