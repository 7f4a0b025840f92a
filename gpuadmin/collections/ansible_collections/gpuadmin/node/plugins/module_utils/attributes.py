"""Extended attributes, including ACLs and capabilities."""

from __future__ import annotations

import errno
import os


def attribute_names(of: int | str) -> list[str]:
    """The extended attributes of an open file, without those that a host's policy sets."""
    try:
        return sorted(name for name in os.listxattr(of) if name != "security.selinux")
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM):  # guard: attributes that cannot be listed are an error
            raise
        return []


def attributes_of(of: int | str) -> dict[str, bytes]:
    """The same with their values."""
    return {name: os.getxattr(of, name) for name in attribute_names(of)}
