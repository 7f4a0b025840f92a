"""Packages of each family of distributions, the largest first."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import packages

from tests.unit.node.host_settings.conftest import Host

DPKG = """Package: small
Status: install ok installed
Installed-Size: 9
Architecture: amd64
Version: 1.0-1

Package: large
Status: install ok installed
Installed-Size: 1000
Architecture: i386
Version: 2.0

Package: gone
Status: deinstall ok config-files
Version: 3
"""


def test_names_and_versions(host: Host) -> None:
    place = host({"etc/os-release": "ID=debian\n", "var/lib/dpkg/status": DPKG})
    assert list(packages.packages(place).items()) == [("large:i386", "2.0"), ("small", "1.0-1")]
    rpm = {"rpm --query": "9 small 1-1\n1000 large 2-1\n"}
    assert list(packages.packages(host({"etc/os-release": "ID=rhel\n"}, rpm))) == ["large", "small"]
    assert packages.packages(host({"etc/os-release": "ID=arch\n"}, {"pacman -Q": "a 1-1\n"})) == {"a": "1-1"}


def test_an_unknown_kind_is_unknown(host: Host) -> None:
    with pytest.raises(NodeError):
        packages.packages(host({"etc/os-release": "ID=gentoo\n"}))
    with pytest.raises(NodeError):
        packages.packages(host({"etc/os-release": "ID=rhel\n"}))
