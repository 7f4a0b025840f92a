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
_USER, _GROUP = 0x02, 0x08
_REVISION_3, _REVISION_MASK, _LENGTH_3 = 0x03000000, 0xFF000000, 24

Becomes = Callable[[int], "int | None"]


class OddAttribute(ValueError):
    """An attribute that is not understood; its bytes stay as they are."""


def acl_moved(value: bytes, uid: Becomes, gid: Becomes) -> bytes | None:
    """An ACL with its ids moved; None: it names none of them. Raises OddAttribute."""
    if len(value) < 4 or (len(value) - 4) % 8 or _VERSION.unpack_from(value)[0] != 2:
        raise OddAttribute("is an ACL of a version that is not known")
    entries = [(tag, rights, number) for tag, rights, number in _ENTRY.iter_unpack(value[4:])]
    moved = []
    for tag, rights, number in entries:
        found = uid(number) if tag == _USER else gid(number) if tag == _GROUP else None
        moved.append((tag, rights, number if found is None else found))
    if moved == entries:
        return None
    named = [(tag, number) for tag, _, number in moved if tag in (_USER, _GROUP)]
    if len(set(named)) != len(named):
        raise OddAttribute("is an ACL that would name one id twice")
    # libacl wants them in the order of tags and then of ids
    return value[:4] + b"".join(_ENTRY.pack(*one) for one in sorted(moved, key=lambda one: (one[0], one[2])))


def capability_moved(value: bytes, uid: Becomes) -> bytes | None:
    """A file's capability whose namespace belongs to a moved uid, with the other uid; None: it names none of them."""
    if len(value) != _LENGTH_3 or _VERSION.unpack_from(value)[0] & _REVISION_MASK != _REVISION_3:
        return None
    found = uid(struct.unpack_from("<I", value, 20)[0])
    return None if found is None else value[:20] + struct.pack("<I", found)
