"""Whether somebody's home is there, theirs, and can be written to."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from gpuadmin.config.schema import User
from gpuadmin.diagnosis.finding import Finding
from gpuadmin.text import size_words

Facts = Mapping[str, Any]
FULL = 16 << 20  # bytes: with less nobody logs in to a desktop, saves a checkpoint, or writes a lock
_STORAGE = "look at the storage host: gpuadmin status"
SLOW = 500.0  # milliseconds for one question to a file server


def server(host: str, facts: Facts) -> Iterator[Finding]:
    """The file system of all homes on one host."""
    mount, homes, here = facts.get("mount"), facts.get("homes"), (host,)
    where = f"{mount['source']} ({mount['type']})" if mount and mount["source"] else "nothing"
    if "homes" in facts["late"]:
        cause = f"the homes do not answer: {where} has said nothing for 3 seconds"
        yield Finding("homes-late", cause, _STORAGE, _why(host, facts, "homes"), here)
        return
    if homes is None:
        words = str(facts["unknown"].get("homes", ""))
        if "tale" in words:
            again = f"gpuadmin run HOSTS -- umount -l {shlex.quote(str((mount or {}).get('point')))}"
            cause = f"the homes are stale: {where} is not any more what was mounted"
            yield Finding("homes-stale", cause, again, _why(host, facts, "homes"), here)
        elif words:
            remedy = "gpuadmin provision --limit HOSTS"
            yield Finding("homes-not-mounted", "the homes are not there", remedy, _why(host, facts, "homes"), here)
        return
    mount = homes["mount"]
    where = f"{mount['source']} ({mount['type']})"
    if facts["node"] and not mount["network"] and mount["type"] != "autofs":
        cause = f"the homes are not mounted: their place is on {where}"
        yield Finding("homes-not-mounted", cause, "gpuadmin provision --limit HOSTS", (), here)
        return
    if homes["free"] < FULL:
        cause = f"the disk of the homes is full: {size_words(homes['free'])} of {size_words(homes['bytes'])} free"
        room = "make room on the storage host, or ask people to: gpuadmin list-backups"
        yield Finding("homes-full", cause, room, (f"{host}: {where}",), here)
    if homes["inodes"] and not homes["inodes_free"]:
        cause = "the file system of the homes has no inode left: no file can be made"
        yield Finding("homes-inodes", cause, "delete many small files on the storage host", (f"{host}: {where}",), here)
    if mount["read_only"] and facts["node"]:
        cause = "the homes are read-only"
        yield Finding("homes-read-only", cause, _STORAGE, (f"{host}: {where}",), here)
    if homes["milliseconds"] > SLOW:
        cause = f"the homes are slow: one question took {homes['milliseconds']:.0f} ms"
        yield Finding("homes-slow", cause, _STORAGE, (f"{host}: {where}",), here)


def _why(host: str, facts: Facts, part: str) -> tuple[str, ...]:
    why = facts["unknown"].get(part)
    return (f"{host}: {part}: {why}",) if why else ()


def home(name: str, user: User | None, host: str, facts: Facts, storage: str, export: str) -> Iterator[Finding]:
    """One home, where all of them can be looked at."""
    found, here = facts.get("home"), (host,)
    uid = None if user is None else user.uid
    if uid is None:
        uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    if found is None or user is None or facts.get("homes") is None:
        return
    mount = facts["homes"]["mount"]
    if facts["node"] and not mount["network"]:
        return  # what is below an empty mount point says nothing
    path = found["path"]
    quoted = shlex.quote(path.rpartition("/")[2])
    if found["kind"] is None:
        remedy = f"gpuadmin sync-users makes a new one; gpuadmin restore-home {name} brings it back from a backup"
        yield Finding("home-missing", f"{name} has no home: {path} is missing", remedy, (), here)
    elif found["kind"] in ("stale", "error"):
        cause = f"{name}'s home cannot be looked at: {found['error']}"
        yield Finding("homes-stale", cause, f"gpuadmin run HOSTS -- umount -l {mount['point']}", (), here)
    elif found["kind"] != "directory":
        kind = "a symbolic link" if found["kind"] == "link" else "a file"
        yield Finding("home-kind", f"{name}'s home is {kind}: {path}", f"gpuadmin ssh {storage}", (), here)
    elif uid is not None and found["uid"] != uid:
        cause = f"{name}'s home belongs to {found['owner']}, not to uid {uid}"
        remedy = f"gpuadmin run {storage} -- chown {uid}:{uid} {export}/{quoted}"
        yield Finding("home-owner", cause, remedy, (f"{host}: {path}",), here)
    elif found["mode"] & 0o700 != 0o700:
        cause = f"{name} may not use their own home: it has mode {found['mode']:04o}"
        remedy = f"gpuadmin run {storage} -- chmod u+rwx {export}/{quoted}"
        yield Finding("home-mode", cause, remedy, (f"{host}: {path}",), here)
