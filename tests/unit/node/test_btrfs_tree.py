"""What btrfs' trees say is below a subvolume: however many, however long the way there."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs_tree import children

from tests.support.storage import mounted


@pytest.mark.btrfs
def test_those_directly_below(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "point", 128) as point:
        btrfs.create(str(point / "own"))
        btrfs.create(str(point / "own/inner"))
        top = btrfs.open_directory(str(point))
        here = os.dup(top)
        for _ in range(25):  # more than the kernel has room for in an answer
            os.mkdir("d" * 200, dir_fd=here)
            here, above = btrfs.open_directory("d" * 200, here), here
            os.close(above)
        btrfs.create(f"/proc/self/fd/{here}/far")
        os.close(here)
        own = btrfs.open_directory("own", top)
        try:
            assert sorted(children(top)) == ["/".join(["d" * 200] * 25) + "/far", "own"]
            assert list(children(own)) == ["inner"]
        finally:
            os.close(own)
            os.close(top)


@pytest.mark.btrfs
def test_more_than_one_answer_holds(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "point", 256) as point:
        names = [f"s{number}" for number in range(300)]
        for name in names:
            btrfs.create(str(point / name))
        top = btrfs.open_directory(str(point))
        try:
            assert sorted(children(top)) == sorted(names)
        finally:
            os.close(top)
