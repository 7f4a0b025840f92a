"""Whose every uid was on the storage host: remembered there, because homes, the attic and backups carry them on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping

from gpuadmin.common.names import LOGIN
from gpuadmin.common.records.people import KnownUids

from ..errors import NodeError, in_words
from ..fields import STAMP, quoted, valid_name, whole_number
from ..files import flocked, read_bytes, write_atomic
from ..homes.attic import ATTIC
from ..paths import STATE

_ARCHIVE = re.compile(rf"({LOGIN})-([0-9]{{1,10}})-{STAMP}\.")


def describe(memory: Mapping[int, str] | None, seen: Mapping[int, str], problem: str | None = None) -> KnownUids:
    """Given uid → who had it (None if it cannot be read) and uid → what carries it, return the report of them."""
    told = None if memory is None else {str(uid): name for uid, name in memory.items()}
    return KnownUids(told, {str(uid): words for uid, words in seen.items()}, problem)


def path(root: str, state: str) -> str:
    """Where the owners of the homes below ``root`` are remembered."""
    return os.path.join(state, "uids", re.sub(r"[^A-Za-z0-9._-]", "_", root.strip("/")) + ".json")


def recall(root: str, state: str) -> dict[int, str]:
    """Whose each uid was; nobody's where nothing was ever remembered. A file that cannot be read is an error."""
    file = path(root, state)
    raw = read_bytes(file)
    if raw is None:
        return {}
    try:
        found = {int(uid): name for uid, name in json.loads(raw.decode())["uids"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NodeError(f"{file} is damaged, so it is not known who had which uid: restore or delete it") from error
    if not all(valid_name(name) for name in found.values()):
        raise NodeError(f"{file} is damaged, so it is not known who had which uid: restore or delete it")
    return found


def see(root: str, archives: str | None) -> dict[int, str]:
    """The uids that homes, the attic and an earlier gpuadmin's archives carry, and which of them, in words."""
    found: dict[int, str] = {}
    # guard: what is in the attic carries its uid -> (root, archives)
    for directory in (root, os.path.join(root, ATTIC), archives):
        if directory is None or not os.path.isdir(directory):
            continue
        with os.scandir(directory) as entries:
            for entry in entries:
                match = _ARCHIVE.match(entry.name) if directory == archives else None
                try:
                    uid = int(match[2]) if match else entry.stat(follow_symlinks=False).st_uid
                except FileNotFoundError:  # it has just gone
                    continue
                if uid:
                    found.setdefault(uid, f"{directory}/{quoted(entry.name)[1:-1]}")
    return found


def people(given: Iterable[Mapping[str, object]]) -> dict[int, str]:
    """Given {name, uid}, return uid → name of those that are well-formed."""
    found = {}
    for one in given:
        uid = whole_number(one.get("uid"))
        if uid is not None and uid > 0 and valid_name(one.get("name")):
            found[uid] = str(one["name"])
    return found


def of_others(
    memory: Mapping[str, str] | None, given: Iterable[Mapping[str, object]], forget: Collection[str] = ()
) -> dict[str, str]:
    """Those people whose uid is remembered as somebody else's, and whose. Names in ``forget`` are dropped."""
    owners = {int(uid): name for uid, name in (memory or {}).items() if name not in forget}
    return {
        name: f"uid {uid} was given to {owners[uid]}, as this host remembers: nothing made"
        for uid, name in ((whole_number(one.get("uid")), str(one.get("name"))) for one in given)
        if
        # guard: nobody gets a home whose uid is remembered as somebody else's -> False
        uid is not None and owners.get(uid, name) != name
    }


def keep(
    root: str, archives: str | None, remember: Iterable[Mapping[str, object]], forget: Collection[str],
    *, check: bool, state: str = STATE,
) -> KnownUids:  # fmt: skip
    """Remember whose uids these are and forget others (unless ``check``); return what is known afterwards.

    A uid that something still carries is not forgotten. A memory that cannot be read is left as it is.
    """
    seen = see(root, archives)
    try:
        if check:
            return describe(recall(root, state), seen)
        # guard: uids are remembered under the lock
        with flocked(path(root, state) + ".lock"):
            memory = recall(root, state)
            kept = {
                uid: name
                for uid, name in memory.items()
                if uid in seen  # guard: the storage host does not forget a uid that something carries
                or name not in forget
            }
            carried = [f"uid {uid} is not forgotten: {seen[uid]} carries it" for uid in kept if kept[uid] in forget]
            # whoever had a uid first keeps it: the admin says what a contradiction means
            # guard: the storage host keeps the first owner of a uid -> {**kept, **people(remember)}
            after = {**people(remember), **kept}
            if after != memory:
                text = json.dumps({"root": root, "uids": {str(uid): name for uid, name in sorted(after.items())}})
                write_atomic(path(root, state), text.encode() + b"\n", mode=0o600)
            return describe(after, seen, "; ".join(carried) or None)
    except (NodeError, OSError) as error:
        return describe(None, seen, in_words(error))
