"""Files of root's that one person may read, and nobody else: what they have on disks."""

from __future__ import annotations

import os
import pwd

from ..files import write_atomic


def give(path: str, name: str, data: bytes) -> None:
    """Write a file that this person alone may read, besides root. For an unknown name nothing is written.

    ``path``: in a directory of root's. It is not on the disk before the next sync: it is made again.
    """
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return
    if os.path.lexists(path):
        os.unlink(path)  # it may have belonged to another uid of this name
    write_atomic(
        path,
        data,
        mode=0o400,  # guard: each person's file is theirs alone -> 0o444
        owner=(uid, 0),
        sync=False,
    )
