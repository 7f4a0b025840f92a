"""An environment of Python packages in the root, for everybody to run: made beside the one before, and used whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence

from ..errors import NodeError
from ..files import unlink_if_present
from . import packages

CURRENT = "current"


def name_environment(wanted: Sequence[str]) -> str:
    """Another set of packages has another directory, and so has another Python: an image may bring one."""
    text = "\n".join([f"{sys.version_info[0]}.{sys.version_info[1]}", *wanted])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_current(path: str, wanted: Sequence[str]) -> bool:
    """Whether it is there, and is what people run."""
    try:
        return os.readlink(os.path.join(path, CURRENT)) == name_environment(wanted)
    except OSError:
        return False


def make(path: str, wanted: Sequence[str], index: str | None, timeout: int) -> None:
    """Make it in an open root. What runs from the one before goes on: that one stays, others go. Raises NodeError."""
    name, link = name_environment(wanted), os.path.join(path, CURRENT)
    before = os.readlink(link) if os.path.islink(link) else ""
    os.makedirs(path, mode=0o755, exist_ok=True)
    unlink_if_present(f"{link}.new")  # left by a cut
    for one in os.listdir(path):
        if one not in (CURRENT, before):  # guard: the environment that people run stays
            shutil.rmtree(os.path.join(path, one))
    place = os.path.join(path, name)
    pip = (
        f"{place}/bin/python", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
        "--only-binary=:all:",  # guard: nothing is built from source as root
        *(["--index-url", index] if index else []), *wanted,
    )  # fmt: skip
    for command in ((sys.executable, "-Im", "venv", place), pip):
        done = packages.in_unit(command, timeout)
        if done.status != 0:
            shutil.rmtree(place)
            raise NodeError(f"{', '.join(wanted)} cannot be installed: {packages.last_words(done.output)}")
    os.symlink(name, f"{link}.new")
    os.replace(f"{link}.new", link)
