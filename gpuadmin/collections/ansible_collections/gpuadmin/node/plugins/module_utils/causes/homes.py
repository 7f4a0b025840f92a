"""Whether somebody's home is there, theirs, and can be written to."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuadmin.common.text import size_words

from .cause import Cause, Facts, Person

FULL = 16 << 20  # bytes: with less nobody logs in to a desktop, saves a checkpoint, or writes a lock
_STORAGE = "look at the storage host: gpuadmin status"
SLOW = 500.0  # milliseconds for one question to a file server


def server(facts: Facts) -> Iterator[Cause]:
    """The file system of all homes on one host."""
    mount, homes = facts.get("mount"), facts.get("homes")
    where = f"{mount['source']} ({mount['type']})" if mount and mount["source"] else "nothing"
    if "homes" in facts["late"]:
        cause = f"the homes do not answer: {where} has said nothing for 3 seconds"
        yield Cause("homes-late", cause, _STORAGE, _why(facts))
        return
    if homes is None:
        words = str(facts["unknown"].get("homes", ""))
        if "tale" in words:
            again = f"gpuadmin run HOSTS -- umount -l {shlex.quote(str((mount or {}).get('point')))}"
            cause = f"the homes are stale: {where} is no longer what was mounted"
            yield Cause("homes-stale", cause, again, _why(facts))
        elif words:
            remedy = "gpuadmin provision --limit HOSTS"
            yield Cause("homes-not-mounted", "the homes are not there", remedy, _why(facts))
        return
    mount = homes["mount"]
    where = f"{mount['source']} ({mount['type']})"
    if facts["node"] and not mount["network"] and mount["type"] != "autofs":
        cause = f"the homes are not mounted: their place is on {where}"
        yield Cause("homes-not-mounted", cause, "gpuadmin provision --limit HOSTS")
        return
    if homes["free"] < FULL:
        left, most = size_words(homes["free"]), size_words(homes["bytes"])
        room = "make room on the storage host, or ask people to: gpuadmin list-backups"
        yield Cause("homes-full", f"the disk of the homes is full: {left} of {most} free", room, (where,), (left, most))
    if homes["inodes"] and not homes["inodes_free"]:
        cause = "the file system of the homes has no inode left: no new file can be made"
        yield Cause("homes-inodes", cause, "delete many small files on the storage host", (where,))
    if mount["read_only"] and facts["node"]:
        yield Cause("homes-read-only", "the homes are read-only", _STORAGE, (where,))
    if homes["milliseconds"] > SLOW:
        took = f"{homes['milliseconds']:.0f}"
        yield Cause("homes-slow", f"the homes are slow: one question took {took} ms", _STORAGE, (where,), (took,))


def _why(facts: Facts) -> tuple[str, ...]:
    why = facts["unknown"].get("homes")
    return (f"homes: {why}",) if why else ()


def home(person: Person, facts: Facts) -> Iterator[Cause]:
    """One home, where all of them can be looked at."""
    found, name, uid = facts.get("home"), person.name, person.uid
    if uid is None:
        uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    if found is None or not person.registered or facts.get("homes") is None:
        return
    mount = facts["homes"]["mount"]
    if facts["node"] and not mount["network"]:
        return  # what is below an empty mount point proves nothing
    path = found["path"]
    place = f"EXPORT/{shlex.quote(path.rpartition('/')[2])}"
    if found["kind"] is None:
        remedy = f"gpuadmin sync-users makes a new one; gpuadmin restore-home {name} brings it back from a backup"
        yield Cause("home-missing", f"{name} has no home: {path} is missing", remedy, (), (path,))
    elif facts["node"] and found.get("passwd"):
        cause = f"{name}'s home is {found['passwd']} there by passwd, and not {path}"
        yield Cause("home-passwd", cause, "gpuadmin sync-users --limit HOSTS", (), (found["passwd"], path))
    elif found["kind"] in ("stale", "error"):
        cause = f"{name}'s home cannot be looked at: {found['error']}"
        yield Cause("homes-stale", cause, f"gpuadmin run HOSTS -- umount -l {shlex.quote(str(mount['point']))}")
    elif found["kind"] != "directory":
        kind = "a symbolic link" if found["kind"] == "link" else "a file"
        yield Cause("home-kind", f"{name}'s home is {kind}: {path}", "gpuadmin ssh STORAGE", (), (path,))
    elif uid is not None and found["uid"] != uid:
        cause = f"{name}'s home belongs to {found['owner']}, not to uid {uid}"
        yield Cause("home-owner", cause, f"gpuadmin run STORAGE -- chown {uid}:{uid} {place}", (path,), (path,))
    elif found["mode"] & 0o700 != 0o700:
        cause = f"{name} may not use their own home: it has mode {found['mode']:04o}"
        yield Cause("home-mode", cause, f"gpuadmin run STORAGE -- chmod u+rwx {place}", (path,), (path,))
    else:
        for other in found.get("others") or ():
            what = other["name"]
            cause = f"{name}'s ~/{what} belongs to {other['owner']}"
            yield Cause(
                "home-others", cause, f"gpuadmin run STORAGE -- chown -h {uid}:{uid} {place}/{what}", (), (what,)
            )
