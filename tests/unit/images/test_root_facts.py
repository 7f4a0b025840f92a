"""What is asked of a root."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import root_facts

STATUS = """Package: rsync
Status: {status}
Architecture: amd64
Version: 3.4.1+ds1-5
Description: -
Maintainer: -
Conffiles:
 /etc/default/rsync 5e9ff44d2a1bb1b9a8d9ba4a3ba4be3c

"""


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="needs dpkg-query")
@pytest.mark.parametrize(
    ("status", "there"),
    [
        ("install ok installed", True),
        ("hold ok installed", True),
        ("install ok unpacked", True),
        ("deinstall ok config-files", False),
    ],
)
def test_packages_of_dpkg(tmp_path: Path, status: str, there: bool) -> None:
    """What was removed but for its settings is not there."""
    database = tmp_path / "usr/lib/sysimage/dpkg"
    database.mkdir(parents=True)
    (database / "status").write_text(STATUS.format(status=status))
    assert root_facts.packages(str(tmp_path)) == ({"rsync": "3.4.1+ds1-5"} if there else {})
