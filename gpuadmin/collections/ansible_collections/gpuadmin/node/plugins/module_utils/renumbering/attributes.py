"""Ids that are inside of extended attributes: ACLs and the root of a capability. Bytes in, bytes out.

Formats: include/uapi/linux/posix_acl_xattr.h (version 2, entries of tag, permissions, id) and capability.h
(VFS_CAP_REVISION_3 ends with the uid of its namespace's root), all little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

ACCESS, DEFAULT, CAPABILITY = "system.posix_acl_access", "system.posix_acl_default", "security.capability"
ACLS = (ACCESS, DEFAULT)
_VERSION, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
_USER, _GROUP, _MASK = 0x02, 0x08, 0x10
_REVISION_3, _REVISION_MASK, _LENGTH_3 = 0x03000000, 0xFF000000, 24

Becomes = Callable[[int], "int | None"]


class OddAttribute(ValueError):
    """An attribute that is not understood; its bytes stay as they are."""


def _entries(value: bytes) -> list[tuple[int, int, int]]:
    """Tag, permissions, id. Raises OddAttribute."""
    if len(value) < 4 or (len(value) - 4) % 8 or _VERSION.unpack_from(value)[0] != 2:
        raise OddAttribute("is an ACL of a version that is not known")
    return [(tag, rights, number) for tag, rights, number in _ENTRY.iter_unpack(value[4:])]


def named_rights(value: bytes) -> list[int]:
    """What an ACL gives to each whom it names: bits of read (4), write (2), execute (1). Raises OddAttribute."""
    entries = _entries(value)
    mask = next((rights for tag, rights, _ in entries if tag == _MASK), 7)
    return [rights & mask for tag, rights, _ in entries if tag in (_USER, _GROUP)]


def acl_moved(value: bytes, uid: Becomes, gid: Becomes) -> bytes | None:
    """An ACL with its ids moved; None: it names none of them. Raises OddAttribute."""
    entries = _entries(value)
    moved = []
    for tag, rights, number in entries:
        found = uid(number) if tag == _USER else gid(number) if tag == _GROUP else None
        moved.append((tag, rights, number if found is None else found))
    if moved == entries:
        return None
    became = {(tag, after[2]) for (tag, _, before), after in zip(entries, moved) if after[2] != before}
    # what somebody wrote down for an id that was nobody's is not what its new owner may
    moved = [one for one, old in zip(moved, entries) if one != old or (one[0], one[2]) not in became]
    # libacl wants them in the order of tags and then of ids
    return value[:4] + b"".join(_ENTRY.pack(*one) for one in sorted(moved, key=lambda one: (one[0], one[2])))


def capability_moved(value: bytes, uid: Becomes) -> bytes | None:
    """A file's capability whose namespace belongs to a moved uid, with the other uid; None: it names none of them."""
    if len(value) != _LENGTH_3 or _VERSION.unpack_from(value)[0] & _REVISION_MASK != _REVISION_3:
        return None
    found = uid(struct.unpack_from("<I", value, 20)[0])
    return None if found is None else value[:20] + struct.pack("<I", found)
