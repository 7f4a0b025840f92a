"""What somebody wants to be another for a person who is registered. Pure; no host is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.accounts.importing import is_file, read_keys
from gpuadmin.accounts.requests import make_user
from gpuadmin.common.names import KEY_TYPES
from gpuadmin.common.text import listed
from gpuadmin.config.fields import key_fingerprint
from gpuadmin.config.schema import User
from gpuadmin.errors import ConfigError

#: What `change-user` writes as it is given, and empties.
TEXTS = ("email", "note", "group")


@dataclass(frozen=True)
class Wanted:
    """What change-user was asked for. None: stays as it is. An empty text takes an address, a note or a group away.

    `keys`: these, and no others. `remove_keys`: each a key, a file of keys, a fingerprint, or a key's comment.
    """

    keys: tuple[str, ...] | None = None
    add_keys: tuple[str, ...] = ()
    remove_keys: tuple[str, ...] = ()
    email: str | None = None
    note: str | None = None
    group: str | None = None
    docker: bool | None = None
    projects: tuple[str, ...] | None = None

    @property
    def for_hosts(self) -> bool:
        """Whether all nodes have a part in it: an address, a note and a group are the site's, or the queue's."""
        return bool(self.keys is not None or self.add_keys or self.remove_keys or self.docker is not None)


def change(user: User, wanted: Wanted) -> User:
    """Given a person and what is wanted, return them as they shall be, validated. Raises ConfigError."""
    keys = list(user.keys) if wanted.keys is None else _valid(user, wanted.keys)
    for item in wanted.remove_keys:
        gone = _named(user, keys, item)
        keys = [key for key in keys if key not in gone]
    there = {_blob(key) for key in keys}
    keys += [key for key in _valid(user, wanted.add_keys) if _blob(key) not in there]
    fields = user.model_dump() | {"keys": keys}
    for field in TEXTS:
        value = getattr(wanted, field)
        if value is not None:
            fields[field] = value or None
    if wanted.projects is not None:
        fields["projects"] = [one for one in dict.fromkeys(wanted.projects) if one]
    if wanted.docker is not None:
        fields["docker"] = wanted.docker
    return make_user(fields)


def on_nodes(before: User, after: User) -> list[str]:
    """What becomes another for a person on the nodes, a line each."""
    old, new = {_blob(key): key for key in before.keys}, {_blob(key): key for key in after.keys}
    lines = [f"{after.name}: remove ssh key {describe_key(key)}" for blob, key in old.items() if blob not in new]
    lines += [f"{after.name}: add ssh key {describe_key(key)}" for blob, key in new.items() if blob not in old]
    if before.docker != after.docker:
        lines.append(f"{after.name}: {'rootless Docker' if after.docker else 'no longer set up for Docker'}")
    return lines or [f"{after.name}: keys and Docker as users.yml has them"]


def on_site(before: User, after: User) -> list[str]:
    """What becomes another for a person in users.yml alone, a line each."""
    old, new = ({**user.model_dump(), "projects": listed(user.projects)} for user in (before, after))
    return [
        f"{after.name}: {field} {old[field] or 'none'} → {new[field] or 'none'}"
        for field in (*TEXTS, "projects")
        if getattr(before, field) != getattr(after, field)
    ]


def notes(before: User, after: User) -> list[str]:
    """What an admin may expect of a change, and does not get."""
    found = []
    if {_blob(key) for key in before.keys} - {_blob(key) for key in after.keys}:
        found.append(
            f"open logins of {after.name} stay open, and so do keys in their own ~/.ssh/authorized_keys;"
            " lock-user keeps somebody out"
        )
    if before.docker and not after.docker:
        found.append(f"{after.name} keeps their Docker setup, and can still run add-me-to-docker-user")
    return found


def describe_key(key: str) -> str:
    """A public key as an admin recognises it: fingerprint and comment."""
    return " ".join(filter(None, [key_fingerprint(_blob(key)), _comment(key)]))


def _blob(key: str) -> str:
    return key.split()[1]


def _comment(key: str) -> str:
    return " ".join(key.split()[2:])


def _valid(user: User, keys: Sequence[str]) -> list[str]:
    """Given keys as somebody wrote them, return them validated. Raises ConfigError."""
    return make_user({"name": user.name, "keys": list(keys)}).keys


def _named(user: User, keys: Sequence[str], item: str) -> list[str]:
    """Those of a person's keys that an admin means. Raises ConfigError for a key that they do not have."""
    if item.split(" ", 1)[0] in KEY_TYPES or is_file(item):
        wanted = {_blob(key) for key in _valid(user, read_keys([item], "--remove-key"))}
        found = [key for key in keys if _blob(key) in wanted]
    else:
        found = [key for key in keys if item and item in (key_fingerprint(_blob(key)), _comment(key))]
        if len(found) > 1:  # guard: a key that two have is taken from neither
            raise ConfigError(
                f"'{user.name}' has {len(found)} keys named {item[:60]!r}",
                hint=f"name one by its fingerprint: {', '.join(key_fingerprint(_blob(key)) for key in found)}",
            )
    if not found:  # guard: a key that is not somebody's is not taken for removed
        has = "; ".join(describe_key(key) for key in keys) or "no key"
        raise ConfigError(
            f"--remove-key {item[:60]!r}: '{user.name}' has no such key in users.yml",
            hint=f"they have {has}; to bring hosts to users.yml: gpuadmin sync-users",
        )
    return found
