"""What is out of sight in the home root: homes on their way to be deleted, under ``.gpuadmin-wiping/BACKUP/USER``."""

from __future__ import annotations

import os

from ..fields import quoted

TRASH = ".gpuadmin-wiping"


def names(root: str) -> list[str]:
    """What is out of sight and not deleted, as BACKUP/USER."""
    place = os.path.join(root, TRASH)
    if not os.path.isdir(place):
        return []
    return sorted(f"{one}/{name}" for one in os.listdir(place) for name in _entries(os.path.join(place, one)))


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):  # it has just been emptied, or is nothing of ours
        return []


def problems(root: str) -> dict[str, str]:
    """The same, as what a backup says that it does not hold."""
    return {
        quoted(f"{TRASH}/{one}"): "is what a wipe left because its backup lacks it (gpuadmin clear-leftovers)"
        for one in names(root)
    }
