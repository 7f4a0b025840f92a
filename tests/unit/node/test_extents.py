"""Where the data of a file is: its checksum, and copies that share blocks."""

import os
import random
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import extents
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.storage import Storage


@pytest.mark.btrfs
def test_a_checksum_is_of_what_is_in_a_file_and_not_of_how_it_is_stored(storage: Storage) -> None:
    """Zeros or holes; blocks of btrfs, of the memory's file system; a piece of any length at any place."""
    chance = random.Random(14)
    sums = set()
    content = bytearray(3 << 20)
    for _ in range(40):
        at, length = chance.randrange(len(content)), chance.choice([1, 100, 4096, 70_000])
        content[at : at + length] = chance.randbytes(len(content[at : at + length]))
    content[-5:] = b"\0\0\0\0\1"
    for top in (storage.point, Path("/dev/shm")):
        for holes in (False, True):
            path = top / f"gpuadmin-test-{os.getpid()}"
            with path.open("wb") as stream:
                if holes:
                    stream.truncate(len(content))
                    for at in range(0, len(content), 512):
                        if any(content[at : at + 512]):
                            stream.seek(at)
                            stream.write(content[at : at + 512])
                else:
                    stream.write(content)
            handle = os.open(path, os.O_RDONLY)
            sums.add(extents.digest(handle, len(content), Budget()))
            os.close(handle)
            path.unlink()
    assert len(sums) == 1
    content[4096 * 17] ^= 1
    (storage.point / "other").write_bytes(content)
    with (storage.point / "other").open("rb") as stream:
        assert extents.digest(stream.fileno(), len(content), Budget()) not in sums


@pytest.mark.btrfs
def test_where_data_lies_is_part_of_the_checksum(tmp_path: Path) -> None:
    sums = set()
    for at in (0, 4096, 8192):
        path = tmp_path / str(at)
        path.write_bytes(bytes(at) + b"x" * 4096 + bytes(8192 - at))
        with path.open("rb") as stream:
            sums.add(extents.digest(stream.fileno(), 12288, Budget()))
    assert len(sums) == 3


@pytest.mark.holds("a budget of what a copy may write")
@pytest.mark.btrfs
def test_a_copy_has_a_limit_where_blocks_are_not_shared(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    source, target = os.open(tmp_path / "a", os.O_RDONLY), os.open("/dev/shm", os.O_RDWR | os.O_TMPFILE)
    with pytest.raises(NodeError, match="shares no blocks"):
        extents.copy(source, target, 10_000, Budget(written=9_999))
    extents.copy(source, target, 10_000, Budget(written=10_000))
    os.close(source)
    os.close(target)
