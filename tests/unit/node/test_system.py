"""What kind of host it is, and the commands that install packages there."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.system import (
    family,
    parse_dpkg_status,
    parse_os_release,
    units,
)


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


def test_units_of_a_systemd_that_does_not_answer_are_not_none() -> None:
    assert units(("sh", "-c", "echo b.service active; echo; echo a.service; exit 1")) == ["a.service", "b.service"]
    with pytest.raises(NodeError, match="does not say what it has: Failed to list units: Connection timed out"):
        units(("sh", "-c", "echo Failed to list units: Connection timed out >&2; exit 1"))
    with pytest.raises(NodeError, match="No such file"):
        units(("/nonexistent/systemctl",))
