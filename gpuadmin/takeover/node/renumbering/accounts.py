"""The accounts of those who are renumbered: closed meanwhile, given their new ids, and opened again as they were.

Each step may be done again: lines are found by names. accounts.json is kept in step, so that a boot in the middle
closes what is closed and opens nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import desired
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import (
    NAMES,
    NEW_FILE_MODES,
    RENAME_ORDER,
    Databases,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked, read_bytes, shadow_lock, write_atomic
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import open_root
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import decode, encode

from .decide import edited
from .journal import Journal, Renumbering

CLOSED_SINCE = "1"  # shadow(5), expiry: 1970-01-02


def texts(host: Host) -> dict[str, str | None]:
    """The account databases of a host."""
    found = {}
    for name in NAMES:
        data = read_bytes(host.path(f"etc/{name}"))
        found[name] = None if data is None else decode(data)
    return found


def _edit(host: Host, change: Callable[[Mapping[str, str | None]], Mapping[str, str]]) -> None:
    """Rewrite the databases under the locks that shadow-utils respect, in a root that is open only as long as that."""
    opened = open_root(host.root, state=host.path(host.state), run=host.path("run/gpuadmin"))
    with opened, shadow_lock(host.root, NAMES):
        before = texts(host)
        after = change(before)
        for kind in RENAME_ORDER:
            old = before.get(kind)
            if kind not in after or after[kind] == old:
                continue
            path = host.path(f"etc/{kind}")
            if old is not None:  # the backup that shadow-utils keep too
                write_atomic(f"{path}-", encode(old), mode=NEW_FILE_MODES[kind], model=path)
            write_atomic(path, encode(after[kind]), mode=NEW_FILE_MODES[kind])


def _record(host: Host, people: Sequence[Renumbering], change: Callable[[desired.Record, Renumbering], Any]) -> None:
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/accounts.lock")):
        known = desired.load(state)
        records = dict(known.records)
        for one in people:
            if one.name in records:
                records[one.name] = change(records[one.name], one)
        if records != known.records:
            desired.save(state, replace(known, records=records))


def _line(data: Databases, one: Renumbering) -> list[str] | None:
    """Somebody's line of shadow, by whichever name they have by now."""
    return data.shadow.get(one.was or one.name) or data.shadow.get(one.name)


def read_fields(host: Host, people: Sequence[Renumbering]) -> dict[str, list[Any]]:
    """What closing them changes: name → password field and expiry, and whether accounts.json has them locked."""
    data = Databases(texts(host))
    known = desired.load(host.path(host.state)).records
    found: dict[str, list[Any]] = {}
    for one in people:
        fields = _line(data, one)
        if fields is not None:
            record = known.get(one.name)
            found[one.name] = [fields[1], fields[7], None if record is None else record.user.locked]
    return found


def close(host: Host, journal: Journal) -> None:
    """Let none of them in: no key and no password opens an account that is locked and expired, nor cron nor at."""
    _record(host, journal.people, lambda record, one: replace(record, user=replace(record.user, locked=True)))

    def closed(before: Mapping[str, str | None]) -> dict[str, str]:
        data = Databases(before)
        for one in journal.people:
            fields = _line(data, one) if one.name in journal.closed else None
            if fields is not None:
                word = fields[1] if fields[1].startswith("!") else f"!{fields[1]}"
                # guard: nobody logs in while they are renumbered
                data.shadow.set(fields[0], [fields[0], word, *fields[2:7], CLOSED_SINCE, *fields[8:]])
        return data.texts()

    _edit(host, closed)


def renumber(host: Host, journal: Journal) -> None:
    """Give the accounts their new ids, in all databases."""
    _edit(host, lambda before: edited(before, [one for one in journal.people if one.changes]))
    _record(
        host, journal.people,
        lambda record, one: replace(record, user=replace(record.user, uid=one.new, gid=one.new)),
    )  # fmt: skip


def reopen(host: Host, journal: Journal) -> None:
    """Let them in again, if they were not locked before."""
    _record(
        host, journal.people,
        lambda record, one: replace(
            record, user=replace(record.user, locked=bool((journal.closed.get(one.name) or [0, 0, False])[2]))
        ),
    )  # fmt: skip

    def opened(before: Mapping[str, str | None]) -> dict[str, str]:
        data = Databases(before)
        for one in journal.people:
            fields = _line(data, one) if one.name in journal.closed else None
            if fields is None:
                continue
            word, expiry, _locked = journal.closed[one.name]
            # guard: a password that somebody has set meanwhile stays -> word
            password = word if fields[1].lstrip("!") == word.lstrip("!") else fields[1]
            until = expiry if fields[7] == CLOSED_SINCE else fields[7]  # guard: another expiry stays -> expiry
            data.shadow.set(fields[0], [fields[0], password, *fields[2:7], until, *fields[8:]])
        return data.texts()

    _edit(host, opened)


def update_memory(host: Host, people: Sequence[Renumbering]) -> None:
    """Give what the storage host remembers of whose uids were whose (accounts/uids.py) the new ones."""
    directory = os.path.join(host.path(host.state), "uids")
    new = {name: one for one in people for name in (one.name, one.was) if name}
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if not name.endswith(".json"):
            continue
        path = os.path.join(directory, name)
        with flocked(f"{path}.lock"):
            data = read_bytes(path)
            raw = None if data is None else json.loads(data)
            if not isinstance(raw, dict) or not isinstance(raw.get("uids"), dict):
                continue
            theirs = {owner for owner in raw["uids"].values() if owner in new}
            kept = {uid: owner for uid, owner in raw["uids"].items() if owner not in theirs}
            kept.update({str(new[owner].new): new[owner].name for owner in theirs})
            raw["uids"] = dict(sorted(kept.items(), key=lambda one: int(one[0])))
            write_atomic(path, json.dumps(raw).encode() + b"\n", mode=0o600)
