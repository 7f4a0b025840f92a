"""Code that a host keeps: a directory for each digest, whole from the moment it has its name.

modules/operation.py runs operations from it, and units run cli.py through the link that provision sets. Sources are
never written again, compiled files are added (compiled.py); what nobody runs from is pruned when another one comes
(docs/decisions/0078).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping

from .errors import NodeError
from .files import flocked, make_directory, sync_directory, sync_filesystem, unlink_if_present
from .paths import RUN, STATE

LINK = "gpuadmin_node"  # in the library: where units find cli.py
TAKEOVER_LINK = "gpuadmin_takeover"  # the same for units of the take-over, while it has any
_OURS = "ansible_collections/gpuadmin/node/plugins/module_utils"
_ENTRIES = {LINK: _OURS, TAKEOVER_LINK: "gpuadmin/takeover/node"}
LOCK = f"{_OURS}/lock"  # root's alone: anybody else who could lock it could have root's code refused, or never pruned
COMPILING = f"{_OURS}/compiling"  # root's alone: its holder compiles
_NAME = re.compile(r"[0-9a-f]{64}\.[a-z0-9-]+")
_PATH = re.compile(r"(?:[A-Za-z0-9_]+/)*[A-Za-z0-9_]+\.py")
_PART = ".part-"  # begun, or on its way out
_NEWEST = 3  # this one, the one before, and that of another controller


def place(digest: str, state: str = STATE) -> str:
    """The directory of the code of that digest, for the Python that runs this. Raises NodeError if it is none."""
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise NodeError(f"{digest[:80]!r} is not a sha256")
    return os.path.join(state, "lib", f"{digest}.{sys.implementation.cache_tag}")


def has(digest: str, state: str = STATE) -> bool:
    """Whether the host has the code of that digest."""
    return os.path.isdir(place(digest, state))


def linked(digest: str, state: str = STATE, name: str = LINK) -> bool:
    """Whether the units of a link run the code of that digest."""
    link = os.path.join(state, "lib", name)
    return os.path.islink(link) and os.readlink(link) == _target(digest, state, name)


def keep(digest: str, text: str, state: str = STATE, run: str = RUN) -> None:
    """Have the code of ``text`` (JSON: path → source) on this host. Raises NodeError if it is not of that digest."""
    target = place(digest, state)
    files = _files(digest, text)
    library = os.path.dirname(target)
    for directory in (state, library):
        make_directory(directory, 0o755)
    with flocked(os.path.join(run, "kept.lock")):
        if os.path.isdir(target):
            return
        _discard(library)  # guard: what was cut off goes before the next
        part = os.path.join(library, f"{_PART}new")
        umask = os.umask(
            0o022  # guard: what is kept only root writes -> 0
        )  # people read it: gpuadmin-me
        try:
            for path, source in files.items():
                _write(os.path.join(part, path), source)
            for name in (LOCK, COMPILING):
                os.close(os.open(os.path.join(part, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            sync_filesystem(part)  # a name that is there after a power cut has all of its content
            os.rename(part, target)
        except BaseException:
            _discard(library)  # a full disk must not stay full
            raise
        finally:
            os.umask(umask)
        sync_directory(library)
        _prune(library, target)


def link(digest: str, state: str = STATE, run: str = RUN, name: str = LINK) -> None:
    """Have the units of a link run the code of that digest, which is here. A cut leaves the code before, or this."""
    path = os.path.join(state, "lib", name)
    part = os.path.join(state, "lib", f"{_PART}link")
    with flocked(os.path.join(run, "kept.lock")):
        unlink_if_present(part)
        os.symlink(_target(digest, state, name), part)
        os.rename(part, path)
        sync_directory(os.path.dirname(path))


def _target(digest: str, state: str, name: str) -> str:
    return os.path.join(os.path.basename(place(digest, state)), _ENTRIES[name])


def _files(digest: str, text: str) -> Mapping[str, str]:
    if hashlib.sha256(text.encode()).hexdigest() != digest:  # guard: what is kept is of its digest
        raise NodeError("the code that arrived is not what was sent: its sha256 is another one")
    files = json.loads(text)
    odd = [path for path in files if not _PATH.fullmatch(path)]
    if odd:  # guard: the code has no path that leads elsewhere
        raise NodeError(f"{odd[0]!r} is not the path of a Python file")
    return dict(files)


def _write(path: str, source: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
        stream.write(source)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _discard(library: str) -> None:
    """Remove what an earlier call left when it was cut off. Nobody is at it: this one has the lock."""
    for name in os.listdir(library):
        if name.startswith(_PART):
            _remove(os.path.join(library, name))


def _prune(library: str, target: str) -> None:
    """Remove old directories that nobody runs from and units do not run."""
    links = [path for path in (os.path.join(library, name) for name in _ENTRIES) if os.path.islink(path)]
    needed = {target, *(os.path.join(library, os.readlink(path).partition("/")[0]) for path in links)}
    found = [os.path.join(library, name) for name in os.listdir(library) if _NAME.fullmatch(name)]
    found.sort(key=lambda path: os.lstat(path).st_mtime, reverse=True)
    for path in found[_NEWEST:]:
        if path in needed:  # guard: what units run is not pruned -> path == target
            continue
        try:
            # guard: code without its lock stays -> os.open(path, os.O_RDONLY)
            handle = os.open(os.path.join(path, LOCK), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # without its lock nobody knows whether somebody runs from it: it stays
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: what somebody runs from is not pruned
            going = os.path.join(library, f"{_PART}{os.path.basename(path)}")
            os.rename(path, going)
            shutil.rmtree(going)
        except BlockingIOError:
            pass  # somebody runs from it
        finally:
            os.close(handle)
