"""What is asked of a root."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import root_facts

from tests.unit.node.images.conftest import fill

STATUS = """Package: rsync
Status: {status}
Architecture: amd64
Version: 3.4.1+ds1-5
Description: -
Maintainer: -
Conffiles:
 /etc/default/rsync 5e9ff44d2a1bb1b9a8d9ba4a3ba4be3c

"""


@pytest.mark.needs("dpkg-query")
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


USAGE = """Overall:
    Device size:		        8589934592
    Device allocated:		        2726297600
    Device unallocated:		        5863636992
    Used:			        1970782208
    Free (estimated):		        6300000000	(min: 3368181504)
    Free (statfs, df):		        0
    Data ratio:			              1.00
    Metadata ratio:		              {ratio}

Data,single: Size:2000000000, Used:1563636992 (78.18%)
   /dev/vda2	2000000000

Metadata,{profile}: Size:268435456, Used:168435456 (62.75%)
   /dev/vda2	536870912
"""


@pytest.mark.parametrize(("profile", "ratio", "more"), [("single", "1.00", 5863636992), ("DUP", "2.00", 2931818496)])
def test_room_on_a_disk(monkeypatch: pytest.MonkeyPatch, profile: str, ratio: str, more: int) -> None:
    """Metadata that is kept twice takes twice the space; what df says is not asked."""
    monkeypatch.setattr(root_facts, "run", lambda command: USAGE.format(profile=profile, ratio=ratio))
    assert root_facts.free_bytes("/") == {"data": 6300000000, "metadata": 100000000 + more}


@pytest.mark.btrfs
@pytest.mark.parametrize(
    ("remove", "words"),
    [
        ("initrd.img", "has no initrd.img to boot"),
        ("etc/systemd/system/multi-user.target.wants/gpuadmin-trial.service", "no unit that would judge its trial"),
        ("etc/initramfs-tools/scripts/init-top/gpuadmin-trial", "nothing that would end a trial that hangs"),
        ("usr/lib/modules/6.1.0/modules.dep", "has no modules for its kernel"),
    ],
)
def test_what_an_image_needs_to_be_tried(tmp_path: Path, remove: str, words: str) -> None:
    fill(tmp_path, "node1")
    script = tmp_path / root_facts.EARLY
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    root_facts.check_boots(str(tmp_path), "one")
    (tmp_path / remove).unlink()
    with pytest.raises(NodeError, match=words):
        root_facts.check_boots(str(tmp_path), "one")
