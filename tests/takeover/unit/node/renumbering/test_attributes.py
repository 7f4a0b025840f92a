"""Ids inside of attributes, byte by byte."""

import struct

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import OddAttribute

from gpuadmin.takeover.node.renumbering import attributes

SWAP = {1001: 1002, 1002: 1001}.get


def acl(*entries: tuple[int, int, int], version: int = 2) -> bytes:
    return struct.pack("<I", version) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 2**32 - 1
OWNER, MASK, OTHER = (0x01, 7, NOBODY), (0x10, 7, NOBODY), (0x20, 0, NOBODY)


def test_names_of_people_and_groups_are_moved_and_nothing_else() -> None:
    before = acl(OWNER, (0x02, 6, 1001), (0x02, 4, 1002), (0x04, 5, NOBODY), (0x08, 1, 1001), MASK, OTHER)
    after = acl(OWNER, (0x02, 4, 1001), (0x02, 6, 1002), (0x04, 5, NOBODY), (0x08, 1, 20001), MASK, OTHER)
    assert attributes.acl_moved(before, SWAP, {1001: 20001}.get) == after


def test_an_acl_of_others_stays() -> None:
    assert attributes.acl_moved(acl(OWNER, (0x02, 6, 1003), MASK, OTHER), SWAP, SWAP) is None


@pytest.mark.parametrize("odd", [b"", b"\2\0\0\0abc", acl(OWNER, version=1)])
def test_an_acl_that_is_odd_is_not_rewritten(odd: bytes) -> None:
    with pytest.raises(OddAttribute):
        attributes.acl_moved(odd, {1001: 20001}.get, SWAP)


def test_an_acl_that_names_the_new_id_already_is_the_moved_one_s() -> None:
    """Anybody can write down an id that is nobody's: that stops nobody's renumbering."""
    before = acl(OWNER, (0x02, 4, 1001), (0x02, 6, 20001), (0x08, 1, 1001), (0x08, 7, 20001), MASK, OTHER)
    after = acl(OWNER, (0x02, 4, 20001), (0x08, 1, 20001), MASK, OTHER)
    assert attributes.acl_moved(before, {1001: 20001}.get, {1001: 20001}.get) == after


def capability(revision: int, root: int | None) -> bytes:
    return struct.pack("<IIIII", revision | 1, 0x2000, 0, 0, 0) + (b"" if root is None else struct.pack("<I", root))


def test_a_capability_of_a_namespace_follows_its_root() -> None:
    assert attributes.capability_moved(capability(0x03000000, 1001), SWAP) == capability(0x03000000, 1002)
    assert attributes.capability_moved(capability(0x03000000, 5), SWAP) is None
    assert attributes.capability_moved(capability(0x02000000, None), SWAP) is None
