"""Extended attributes, including ACLs and capabilities.

The format of an ACL: include/uapi/linux/posix_acl_xattr.h (version 2, entries of tag, permissions, id), little-endian.
"""

from __future__ import annotations

import errno
import os
import struct

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
ACLS = (ACCESS, DEFAULT)
ENTRY = struct.Struct("<HHI")
USER, GROUP = 0x02, 0x08
_VERSION, _MASK = struct.Struct("<I"), 0x10


class OddAttribute(ValueError):
    """An attribute that is not understood; its bytes stay as they are."""


def attribute_names(of: int | str) -> list[str]:
    """The extended attributes of an open file, without those that a host's policy sets."""
    try:
        return sorted(name for name in os.listxattr(of) if name != "security.selinux")
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM):  # guard: attributes that cannot be listed are an error
            raise
        return []


def read_attributes(of: int | str) -> dict[str, bytes]:
    """The same with their values."""
    return {name: os.getxattr(of, name) for name in attribute_names(of)}


def acl_entries(value: bytes) -> list[tuple[int, int, int]]:
    """Tag, permissions, id. Raises OddAttribute."""
    if len(value) < 4 or (len(value) - 4) % 8 or _VERSION.unpack_from(value)[0] != 2:
        raise OddAttribute("is an ACL of a version that is not known")
    return [(tag, rights, number) for tag, rights, number in ENTRY.iter_unpack(value[4:])]


def named_rights(value: bytes) -> list[int]:
    """What an ACL gives to each whom it names: bits of read (4), write (2), execute (1). Raises OddAttribute."""
    entries = acl_entries(value)
    mask = next((rights for tag, rights, _ in entries if tag == _MASK), 7)
    return [rights & mask for tag, rights, _ in entries if tag in (USER, GROUP)]
