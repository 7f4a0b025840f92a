"""What somebody asks of accounts, and the registry that results. Pure; no host is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from gpuadmin.accounts.ids import next_uid
from gpuadmin.common.text import counted
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import Settings, User
from gpuadmin.config.validate import mistakes
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.similar import did_you_mean


@dataclass(frozen=True)
class Request:
    """What somebody asks of an account. None means: not given."""

    name: str
    uid: int | None = None
    email: str | None = None
    keys: tuple[str, ...] | None = None
    expires: date | None = None
    docker: bool | None = None
    group: str | None = None
    note: str | None = None
    projects: tuple[str, ...] | None = None

    def fields(self) -> dict[str, Any]:
        """The fields that were given, without the name."""
        given = {field: getattr(self, field) for field in ("uid", "email", "expires", "docker", "group", "note")}
        lists = {"keys": self.keys, "projects": self.projects}
        given |= {field: list(value) for field, value in lists.items() if value is not None}
        return {field: value for field, value in given.items() if value is not None}


def add(
    file: RegistryFile,
    settings: Settings,
    requests: Sequence[Request],
    elsewhere: Mapping[int, str] = MappingProxyType({}),
    *,
    arguments: Mapping[str, str] = MappingProxyType({}),
) -> RegistryFile:
    """Given requests for accounts, return the registry with them.

    Somebody who is registered already with the same fields is left as they are, so that an interrupted add can
    be run again; with other fields it is an error. Somebody who comes back gets the uid they had. `elsewhere`: uids
    that something carries, and what; nobody new is given them. `arguments`: as in RegistryFile.changed.
    """
    taken: set[int] = (
        {request.uid for request in requests if request.uid is not None}
        | elsewhere.keys()  # guard: a uid that something carries is given to nobody
    )
    retired = {entry.name: entry.uid for entry in file.registry.retired}
    new: list[User] = []
    seen: set[str] = set()
    for request in requests:
        if request.name in seen:  # guard: a name stands once among newcomers
            raise ConfigError(f"'{request.name}' is named twice", hint="name each person once")
        seen.add(request.name)
        present = file.find(request.name)
        if present is not None:
            _same_or_error(present, request)
            continue
        fields = request.fields()
        if "uid" not in fields and request.name in retired:
            fields["uid"] = retired[request.name]
        elif "uid" not in fields and settings.accounts.source == "registry":
            fields["uid"] = next_uid(file.registry, settings, taken, elsewhere)
            taken.add(fields["uid"])  # guard: two newcomers get two uids
        # guard: somebody who comes back has their uid
        elif retired.get(request.name, fields.get("uid")) != fields.get("uid"):
            raise RefusedError(
                f"'{request.name}' had uid {retired[request.name]}; a home, a backup or Docker data may still carry it",
                hint="leave --uid out, or gpuadmin remove-user --forget NAME once their data is gone",
            )
        carrier = elsewhere.get(fields.get("uid", -1))
        if carrier is not None and not is_theirs(carrier, request.name) and request.name not in retired:
            raise RefusedError(
                f"uid {fields['uid']}, for '{request.name}', is carried by {carrier}",
                hint="leave --uid out; or, if that is theirs, write them into users.yml and run gpuadmin sync-users",
            )
        new.append(make_user({"name": request.name, **fields}))
    for user in new:
        owner = next((entry for entry in file.registry.retired if entry.uid == user.uid), None)
        if owner is not None and owner.name != user.name:  # guard: a uid of somebody who left is not another's
            raise RefusedError(
                f"uid {user.uid} was {owner.name}'s; a home, a backup or Docker data may still belong to it",
                hint="leave --uid out, or gpuadmin remove-user --forget NAME once their data is gone",
            )
    return file.changed(settings, add=new, arguments=arguments) if new else file


def is_theirs(carrier: str, name: str) -> bool:
    """Given what carries a uid, return whether it is somebody's by its name: their home, or their account."""
    return carrier.endswith(f"/{name}") or carrier.rpartition(": ")[2] in (f"account {name}", f"group {name}")


def make_user(fields: Mapping[str, Any]) -> User:
    """Given a person's fields from the command line or a file, return them validated, or raise ConfigError."""
    try:
        return User.model_validate(dict(fields))
    except ValidationError as error:
        found = [f"{'.'.join(map(str, place)) or 'user'}: {words}" for place, words in mistakes(User, error)]
        raise ConfigError(f"{str(fields.get('name'))!r}: {'; '.join(found)}", hint="nothing was changed") from None


def request(fields: Mapping[str, Any]) -> Request:
    """Given a person's fields as somebody wrote them, return the request, validated. Raises ConfigError."""
    valid = make_user(fields)
    if "locked" in fields:  # guard: newcomers are not locked
        raise ConfigError(f"{valid.name!r}: locked: is not for newcomers", hint="add them, then: gpuadmin lock-user")
    given = {field: getattr(valid, field) for field in fields if field != "name"}
    given |= {field: tuple(given[field]) for field in ("keys", "projects") if field in given}
    return Request(name=valid.name, **given)


def _same_or_error(present: User, request: Request) -> None:
    for field, value in request.fields().items():
        if getattr(present, field) != value:  # guard: who is registered is not changed by an add
            raise ConfigError(
                f"'{request.name}' is registered already, with {'other' if field == 'keys' else 'another'} {field} "
                f"({_in_words(getattr(present, field))})",
                hint="gpuadmin change-user or extend-user; or edit users.yml and run gpuadmin sync-users",
            )


def _in_words(value: object) -> str:
    """A field's value in a sentence."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return counted(len(value), "ssh key")
    return "none" if value is None else str(value)


def known(file: RegistryFile, names: Sequence[str]) -> list[User]:
    """Given login names, return their entries; raise ConfigError naming those that are not registered."""
    unknown = [name for name in names if file.find(name) is None]
    if unknown:  # guard: who is not registered is said
        everybody = [user.name for user in file.registry.users]
        hint = did_you_mean(unknown[0], everybody) or "gpuadmin list-users shows who is registered"
        raise ConfigError(f"not registered: {', '.join(repr(name) for name in unknown)}", hint=hint)
    return [user for name in dict.fromkeys(names) if (user := file.find(name)) is not None]


def refuse_protected(settings: Settings, names: Iterable[str], verb: str) -> None:
    """Raise RefusedError if one of the names is protected."""
    for name in names:
        if settings.is_protected(name):  # guard: protected people are refused
            raise RefusedError(f"'{name}' is protected; {verb} does not touch it", hint="`protected` in gpuadmin.yml")
