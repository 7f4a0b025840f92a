"""What gpuadmin.yml says of a cluster that exists: ids as they are, and where homes are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpuadmin.config.fields import not_root_path, plain_text
from gpuadmin.config.schema import HIGHEST_SUBID, Settings
from gpuadmin.config.schema.base import HIGHEST_HUMAN_UID, LOWEST_HUMAN_UID
from gpuadmin.takeover.adoption.groups import Homes

_USUAL_LAST = 18999  # below 19999, the gid of the group of all people where nothing else is said


def id_ranges(uids: Collection[int]) -> dict[str, Any]:
    """Given the uids that people have, return `accounts` and `subids`: a range that has as many as possible of them.

    Where all are in gpuadmin's own range, nothing has to be said.
    """
    default = Settings(name="x")
    first, last = default.accounts.uid_first, default.accounts.uid_last
    people = [uid for uid in uids if LOWEST_HUMAN_UID <= uid <= HIGHEST_HUMAN_UID]
    if all(first <= uid <= last for uid in people):
        return {}
    begin = LOWEST_HUMAN_UID if min(people) < first else first
    most = (HIGHEST_SUBID + 1 - default.subids.base) // default.subids.size
    end = min(max([_USUAL_LAST if begin == LOWEST_HUMAN_UID else last, *people]), begin + most - 1, HIGHEST_HUMAN_UID)
    accounts: dict[str, Any] = {"uid_first": begin, "uid_last": end}
    if begin <= default.accounts.gid <= end:
        if end == HIGHEST_HUMAN_UID:
            end = accounts["uid_last"] = end - 1
        accounts["gid"] = end + 1
    return {"accounts": accounts}


def home_settings(homes: Homes, disk: str | None = None) -> dict[str, Any]:
    """`homes`, as far as it is not what gpuadmin says by itself. `disk`: where that of the export is mounted."""
    found = {}
    for name, value in (("path", homes.path), ("export", homes.export), ("mountpoint", disk)):
        if value is not None:
            try:
                found[name] = not_root_path(value)
            except ValueError:  # a path that cannot be in an fstab: it is in the report
                continue
    if homes.server is not None and found.get("export"):
        found["server"] = homes.server
    return {"homes": found} if found else {}


def protected(names: Mapping[str, str]) -> dict[str, Any]:
    """`protected`: accounts with a uid of people's that are not people."""
    fitting = []
    for name in sorted(names):
        try:
            fitting.append(plain_text(name))
        except ValueError:
            continue
    return {"protected": fitting} if fitting else {}
