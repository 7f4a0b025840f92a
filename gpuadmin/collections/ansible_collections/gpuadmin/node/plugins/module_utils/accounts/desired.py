"""accounts.json: the desired state of people's accounts on this node, in its state, which no image touches.

``{"format": 1, "root": id of the root it was last applied to in full, "settings": {…}, "users": [{…}], "removed":
[{name, uid}]}``. A user has what the controller says, and what only this node knows: ``password`` (a hash or null),
``password_changed`` (days since 1970-01-01 or null), ``groups`` (supplementary groups besides the site's).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from gpuadmin.common.records.people import AccountSettings

from .. import documents
from ..errors import NodeError
from ..fields import User, quoted
from ..files import read_bytes, write_atomic

FORMAT = 1
FILE = "accounts.json"


@dataclass(frozen=True)
class Settings(AccountSettings):
    """What holds for all accounts of a host."""

    @property
    def people(self) -> range:
        """The uids that somebody of the site can have here. Subordinate ids, of which each person has tens of thousands
        in namespaces of theirs, are above."""
        return range(self.uid_first, self.uid_last + 1 if self.source == "registry" else self.subid_base)


@dataclass(frozen=True)
class Record:
    """A user with what only this node knows about the account."""

    user: User
    password: str | None = None
    password_changed: int | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class DesiredState:
    settings: Settings | None = None
    records: Mapping[str, Record] = field(default_factory=dict)
    removed: tuple[tuple[str, int], ...] = ()
    root: str | None = None


def settings_from(raw: Mapping[str, object]) -> Settings:
    """Given a mapping that may hold more, return the settings in it. Raises NodeError, which names the key."""
    given = documents.to_plain(_own(Settings, raw))  # of an order groups are records already
    found = documents.parse(Settings, given, "settings", templated=True)
    return replace(found, groups=tuple(found.groups))


def parse_user(raw: Mapping[str, object]) -> tuple[User | None, str | None]:
    """Given one entry of ``users``, which may hold more, return (user, None) or (None, why it is refused).

    The controller has checked the values (users.yml is read by a schema); here they get their types.
    """
    defaults = {"gid": raw.get("uid"), "home": f"/home/{raw.get('name')}"}
    try:
        user = documents.parse(User, {**defaults, **_own(User, raw)}, "user", templated=True)
    except NodeError as error:
        return None, str(error)
    return replace(user, keys=tuple(dict.fromkeys(user.keys))), None


def _own(kind: type, raw: Mapping[str, object]) -> dict[str, object]:
    return {one.name: raw[one.name] for one in fields(kind) if raw.get(one.name) is not None}


def parse(data: bytes, path: str) -> DesiredState:
    """Given the file's bytes, return the desired state; a newer format or damage is an error, never an empty one."""
    try:
        raw = json.loads(data.decode("utf-8"))
        if not isinstance(raw, dict):
            raise ValueError("not an object")
        if raw.get("format") != FORMAT:
            raise NodeError(
                f"{path} has format {quoted(raw.get('format'))}; this code knows {FORMAT}. "
                "Update gpuadmin's node code (gpuadmin provision), nothing was changed"
            )
        records: dict[str, Record] = {}
        for item in raw["users"]:
            user, problem = parse_user(item)
            if user is None:
                raise ValueError(problem)
            records[user.name] = Record(
                user, item.get("password"), item.get("password_changed"), tuple(item.get("groups") or ())
            )
        removed = tuple((str(item["name"]), int(item["uid"])) for item in raw["removed"])
        settings = settings_from(raw["settings"]) if raw.get("settings") else None
        return DesiredState(settings, records, removed, raw.get("root"))
    except NodeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodeError(f"{path} cannot be read ({error}); nothing was changed. Restore it or move it away") from error


def load(state: str) -> DesiredState:
    """Read the desired state from the state directory; an empty one if there is no file yet."""
    path = os.path.join(state, FILE)
    data = read_bytes(path)
    return DesiredState() if data is None else parse(data, path)


def subordinate(state: str, why: str) -> Callable[[int], str | None]:
    """Who is refused before their turn (``why``): with subordinate ids one person is tens of thousands, and keeps
    others out."""
    try:
        settings = load(state).settings
    except NodeError:
        settings = None  # whoever asks is served, or told that it failed
    return lambda uid: why if settings is not None and uid >= settings.people.stop else None


def render(desired: DesiredState) -> bytes:
    users = []
    for record in sorted(desired.records.values(), key=lambda one: one.user.uid):
        item = asdict(record.user)
        item.update(
            password=record.password, password_changed=record.password_changed, groups=list(record.groups)
        )  # fmt: skip
        users.append(item)
    document = {
        "format": FORMAT,
        "root": desired.root,
        "settings": None if desired.settings is None else asdict(desired.settings),
        "users": users,
        "removed": [{"name": name, "uid": uid} for name, uid in desired.removed],
    }
    return (json.dumps(document, indent=1, ensure_ascii=True, sort_keys=True) + "\n").encode()


def save(state: str, desired: DesiredState) -> None:
    """Write the desired state, durably, readable by root alone (it holds password hashes)."""
    path = os.path.join(state, FILE)
    if os.path.lexists(path):
        os.chmod(path, 0o600)
    write_atomic(path, render(desired), mode=0o600)
