"""A named volume of root's Docker becomes one of a person's: whole, and compared, before it has its name.

Its content is unpacked beside the person's volumes, in their user namespace, where ids are as in a container. Their
daemon makes an empty volume then, and one rename gives it what is there.
"""

from __future__ import annotations

import gzip
import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_manifest import Line, Total
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_reader import lines
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import sync_directory, sync_filesystem
from ansible_collections.gpuadmin.node.plugins.module_utils.purge import gone

from . import record, survey
from .api import Daemon, room
from .namespace import Person, inside
from .record import COPIED, DONE, Moved, Volume

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,254}")  # Docker's own rule
LABEL = "gpuadmin.move-docker"
STAGING = "gpuadmin-move"  # in the person's data
_ATTRIBUTES = ("--numeric-owner", "--acls", "--xattrs", "--xattrs-include=*")


def _lines(top: str) -> Iterator[Line]:
    """Of all but sockets, which no copy has."""
    return (line for line in lines(top, budget=Budget(setting=False)) if line.kind != "s")


def manifest(top: str, write: Callable[[Line], object] = lambda line: None) -> Total:
    return home_manifest.total(_lines(top), write)


def in_use(root: Daemon, name: str, *, ended: bool = False) -> list[str]:
    """The names of containers that run with a volume; ``ended``: of others that have it, too."""
    found = root.listed("/containers/json", all="1" if ended else "0", filters=f'{{"volume":["{name}"]}}')
    return [str((one.get("Names") or ["?"])[0]).lstrip("/") for one in found]


def source(root: Daemon, name: str) -> tuple[dict[str, Any], str]:
    """What root's daemon says of a volume, and where its content is. Raises NodeError where it has none."""
    if not NAME.fullmatch(name):  # guard: a name of a volume is not a path
        raise NodeError("that is not the name of a volume")
    volume = root.find(f"/volumes/{name}")
    if volume is None:
        raise NodeError("root's Docker has no such volume")
    where = str(volume.get("Mountpoint"))
    survey.mounted(where)
    return volume, where


def _free(root: Daemon, name: str) -> None:
    """Raise NodeError while a container runs with a volume."""
    if busy := in_use(root, name):
        raise NodeError(f"is in use by {', '.join(busy[:5])}: docker stop {busy[0]}, then run it again")


def _ours(theirs: dict[str, Any] | None, noted: Volume | None) -> bool:
    """Whether a volume of a person's is the one that was made for them."""
    labels = None if theirs is None else theirs.get("Labels")
    return isinstance(labels, dict) and noted is not None and labels.get(LABEL) == noted.token


def carry(root: Daemon, hers: Daemon, who: Person, data: str, moved: Moved, state: str, name: str) -> str:
    """Carry a volume. ``data``: the directory of the person's Docker. Returns what was done, in words."""
    theirs = hers.find(f"/volumes/{name}")
    noted = moved.volumes.get(name)
    ours = _ours(theirs, noted)
    # guard: a volume of theirs is not overwritten
    if theirs is not None and not ours:
        raise NodeError(f"{who.name} has a volume of that name: they must rename or remove it")
    if ours and noted is not None and noted.step == DONE:
        return ""
    told, where = source(root, name)
    if why := survey.cannot(told):
        raise NodeError(why)
    _free(root, name)  # guard: a volume that is being written is not copied
    if noted is None or not _goes_on(who, data, name, noted, where):
        size = survey.needed(where, who)
        token = noted.token if ours and noted is not None else secrets.token_hex(16)
        noted = moved.volumes[name] = Volume(record.BEGUN, 0, 0, token, str(told.get("CreatedAt", "")))
        record.save(state, moved)
        try:
            _copy(who, data, name, where, size)
            noted.inode, want = _compared(who, data, state, name, where)
            _free(root, name)  # guard: a volume that came into use meanwhile is not taken
        except (NodeError, OSError):
            inside(who, _clear, data, name)  # guard: a full disk leaves nothing half
            raise
        noted.step, noted.checksum, noted.files, noted.bytes = COPIED, want.checksum, want.files, want.bytes
        record.save(state, moved)
    if theirs is None:
        hers.ask("POST", "/volumes/create", {"Name": name, "Driver": "local", "Labels": {LABEL: noted.token}})
    inside(who, _place, data, name, noted.inode)
    noted.step = DONE
    record.save(state, moved)
    return f"{noted.files} files, {noted.bytes} bytes"


def _goes_on(who: Person, data: str, name: str, noted: Volume, where: str) -> bool:
    """Whether what a cut has left is a whole copy of what root's Docker has."""
    if noted.step != COPIED:
        return False
    at = inside(who, _at, data, name, noted.inode)
    return at == "placed" or (
        at == "staged"
        and manifest(where).checksum == noted.checksum  # guard: what has changed since a cut is copied anew
    )


def still(hers: Daemon, who: Person, data: str, name: str, noted: Volume) -> bool:
    """Whether the person still has the volume that was carried."""
    return (
        _ours(hers.find(f"/volumes/{name}"), noted)  # guard: another volume of that name is not what was carried
        and inside(who, _at, data, name, noted.inode) == "placed"  # guard: a directory in its place is not the copy
    )


def _copy(who: Person, data: str, name: str, where: str, size: int) -> None:
    with subprocess.Popen(
        ("tar", "--create", "--sparse", "--one-file-system", *_ATTRIBUTES, f"--directory={where}", "."),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    ) as packer:  # fmt: skip
        try:
            assert packer.stdout is not None
            inside(who, _unpack, data, name, packer.stdout.fileno(), size)
        finally:
            packer.kill()  # it has ended, unless the other side did first


def _compared(who: Person, data: str, state: str, name: str, where: str) -> tuple[int, Total]:
    """The inode of the copy, and what the original has. Raises NodeError with how they differ."""
    with tempfile.TemporaryFile(dir=state) as kept:  # a person's process is given it open, and has no other way to it
        with gzip.GzipFile(fileobj=kept, mode="wb", compresslevel=1, mtime=0) as stream:
            want = manifest(where, home_manifest.Writer(stream.write))
        kept.seek(0)
        inode, differences = inside(who, _arrived, data, name, kept)
    if differences:  # guard: what was copied is compared with what there is
        raise NodeError(
            f"the copy differs from the volume ({'; '.join(differences)}): if somebody wrote to it, run it again"
        )
    return inode, want


def _staged(data: str, name: str) -> str:
    return os.path.join(data, STAGING, name)


def _final(data: str, name: str) -> str:
    return os.path.join(data, "volumes", name, "_data")


# What follows runs as the person, in their namespace.


def _clear(data: str, name: str) -> None:
    try:
        handle = open_directory(os.path.join(data, STAGING))
    except FileNotFoundError:
        return
    try:
        gone(handle, name)
    finally:
        os.close(handle)


def _unpack(data: str, name: str, stream: int, size: int) -> None:
    _clear(data, name)
    staged = _staged(data, name)
    os.makedirs(staged, mode=0o700)
    room(staged, size)
    done = subprocess.run(
        ("tar", "--extract", "--preserve-permissions", "--same-owner", *_ATTRIBUTES, f"--directory={staged}"),
        stdin=stream, capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NodeError(f"could not be unpacked (it needs {size} bytes): {words[0][-300:] if words else 'tar'}")


def _arrived(data: str, name: str, kept: IO[bytes]) -> tuple[int, list[str]]:
    """The inode of a copy, and how it differs from a manifest."""
    staged = _staged(data, name)
    differences = home_manifest.compare(home_manifest.read(kept), _lines(staged))
    sync_filesystem(staged)  # guard: what is written down as carried is on the disk
    return os.stat(staged).st_ino, differences


def _at(data: str, name: str, inode: int) -> str:
    """Where the copy is: ``placed``, ``staged``, or nowhere."""
    for path, words in ((_final(data, name), "placed"), (_staged(data, name), "staged")):
        try:
            if inode and os.lstat(path).st_ino == inode:
                return words
        except OSError:
            continue
    return ""


def _place(data: str, name: str, inode: int) -> None:
    if _at(data, name, inode) == "placed":
        return
    try:
        os.rename(_staged(data, name), _final(data, name))  # guard: one rename, which replaces an empty directory alone
    except OSError as error:
        raise NodeError(f"cannot be given its name: {in_words(error)}") from None
    sync_directory(os.path.dirname(_final(data, name)))
    sync_directory(os.path.join(data, STAGING))
