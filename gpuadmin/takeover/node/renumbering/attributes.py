"""Ids that are inside of extended attributes: ACLs and the root of a capability. Bytes in, bytes out.

The format of a capability: include/uapi/linux/capability.h (VFS_CAP_REVISION_3 ends with the uid of its namespace's
root), little-endian. That of an ACL: ../attributes.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import ENTRY, GROUP, USER, acl_entries

CAPABILITY = "security.capability"
_VERSION = struct.Struct("<I")
_REVISION_3, _REVISION_MASK, _LENGTH_3 = 0x03000000, 0xFF000000, 24

Becomes = Callable[[int], "int | None"]


def acl_moved(value: bytes, uid: Becomes, gid: Becomes) -> bytes | None:
    """An ACL with its ids moved; None: it names none of them. Raises OddAttribute."""
    entries = acl_entries(value)
    moved = []
    for tag, rights, number in entries:
        found = uid(number) if tag == USER else gid(number) if tag == GROUP else None
        moved.append((tag, rights, number if found is None else found))
    if moved == entries:
        return None
    became = {(tag, after[2]) for (tag, _, before), after in zip(entries, moved) if after[2] != before}
    # an entry for an id that was nobody's gives its new owner nothing
    moved = [one for one, old in zip(moved, entries) if one != old or (one[0], one[2]) not in became]
    # libacl wants them in the order of tags and then of ids
    return value[:4] + b"".join(ENTRY.pack(*one) for one in sorted(moved, key=lambda one: (one[0], one[2])))


def capability_moved(value: bytes, uid: Becomes) -> bytes | None:
    """A file's capability with the uid of its namespace moved; None: that uid is not moved."""
    if len(value) != _LENGTH_3 or _VERSION.unpack_from(value)[0] & _REVISION_MASK != _REVISION_3:
        return None
    found = uid(struct.unpack_from("<I", value, 20)[0])
    return None if found is None else value[:20] + struct.pack("<I", found)
