"""users.yml: the registry of people. Edited by hand as well as by verbs, so comments and order survive."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import ValidationError

from gpuadmin.config.memory import remember
from gpuadmin.config.rewrite import Edit, with_lists
from gpuadmin.config.schema import Registry, Settings, User
from gpuadmin.config.schema.accounts import Retired
from gpuadmin.config.validate import validated
from gpuadmin.config.yamlfile import YamlFile, write_atomically
from gpuadmin.errors import ConfigError, RefusedError

EntryT = TypeVar("EntryT", User, Retired)
LOST = "restore it from version control or a copy: without it uids would be given twice; for nobody write `users: []`"


@dataclass(frozen=True)
class RegistryFile:
    """The registry as a valid model, and the file it came from."""

    file: YamlFile
    registry: Registry
    #: The file's text as it was read; None where there is no file.
    base: str | None = None

    @classmethod
    def load(cls, path: Path, settings: Settings | None) -> RegistryFile:
        """Load users.yml. Raises ConfigError with every mistake, and where it is missing: that does not mean nobody.

        `settings`: None if they could not be loaded; what they decide is not looked at.
        """
        file = YamlFile.load(path, missing=LOST)
        if not file.data:  # guard: a registry that is empty is not nobody
            raise ConfigError(f"{path}: is empty", hint=LOST)
        return replace(cls.of(file, settings), base=file.text)

    @classmethod
    def of(cls, file: YamlFile, settings: Settings | None) -> RegistryFile:
        """Given a file, return the registry. Raises ConfigError with every mistake."""
        # `users:` with nothing below it is null in YAML and an empty list to people
        data = {key: [] if item is None and key in ("users", "retired") else item for key, item in file.data.items()}
        try:
            registry = validated(Registry, file, data)
        except ConfigError as error:
            # report what is wrong between the others now, not after these are corrected
            more = _conflicts(_valid(User, data.get("users")), _valid(Retired, data.get("retired")), settings)
            lines = [error.message, *(f"{file.where(path)}: {text}" for path, text in more)]
            raise ConfigError("\n  ".join(lines), hint=error.hint) from None
        found = _conflicts(enumerate(registry.users), enumerate(registry.retired), settings)
        problems = [f"{file.where(path)}: {text}" for path, text in found]
        if problems:
            raise ConfigError("\n  ".join(problems), hint="correct these lines, then: gpuadmin check")
        return cls(file, registry)

    def find(self, name: str) -> User | None:
        """The person of that login name, if registered."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, User]:
        return {user.name: user for user in self.registry.users}

    def changed(
        self,
        settings: Settings,
        *,
        add: Sequence[User] = (),
        update: Iterable[User] = (),
        retire: Mapping[str, int | None] = MappingProxyType({}),
        forget: Collection[str] = (),
        today: date | None = None,
        arguments: Mapping[str, str] = MappingProxyType({}),
    ) -> RegistryFile:
        """Given people to add, to update (by name), to retire, and retired ones to forget, return the new registry,
        validated as a whole. `retire`: by name, the uid of those whose entry has none, where it is known. `arguments`:
        field → what it was given as, for errors: they name that and the person, not a line of a file.

        Nothing is written: `save` does that.
        """
        users, update = self.registry.users, list(update)
        self._refuse_conflicts(settings, [*add, *update], {*retire, *forget}, arguments)
        place = {user.name: index for index, user in enumerate(users)}
        gone = sorted(place[name] for name in retire if name in place)
        # somebody who comes back is no longer retired
        free = {*forget, *(user.name for user in add)}
        people = Edit(
            change={place[user.name]: partial(_merge, user=user) for user in update},
            drop=gone,
            add=[_new(user) for user in add],
        )
        retired = Edit(
            drop=[index for index, entry in enumerate(self.registry.retired) if entry.name in free],
            # guard: a removed account leaves its uid taken -> []
            add=[entry for index in gone if (entry := _tombstone(users[index], retire, today or date.today()))],
        )
        changed = RegistryFile.of(with_lists(self.file, {"users": people, "retired": retired}), settings)
        return replace(changed, base=self.base)

    def _refuse_conflicts(
        self, settings: Settings, given: Sequence[User], gone: Collection[str], arguments: Mapping[str, str]
    ) -> None:
        """Raise ConfigError if the people given contradict the others, who were read and validated."""
        names = {user.name for user in given}
        people = [*(user for user in self.registry.users if user.name not in {*names, *gone}), *given]
        retired = [entry for entry in self.registry.retired if entry.name not in {*names, *gone}]
        found = []
        for path, text in _conflicts(enumerate(people), enumerate(retired), settings):
            of_user = path[0] == "users"
            field = str(path[2]) if len(path) > 2 else ""
            whose = (
                f"'{people[int(path[1])].name}': " if of_user and f"'{people[int(path[1])].name}'" not in text else ""
            )
            label = f"{arguments.get(field, field)}: " if field and field != "name" else ""
            found.append(f"{label}{whose}{text}")
        if found:
            raise ConfigError("\n  ".join(found), hint="nothing was changed")

    def save(self, *, forget: Collection[str] = ()) -> None:
        """Write users.yml atomically, and remember whose the uids are. `forget`: names whose uids are free again.

        Raises RefusedError if somebody has changed the file since it was read.
        """
        # guard: what an admin wrote into users.yml meanwhile is not written over
        if self.base is not None and YamlFile.load(self.file.path, missing=LOST).text != self.base:
            raise RefusedError(
                f"{self.file.path}: was changed meanwhile; nothing was written over it", hint="run it again"
            )
        write_atomically(self.file.path, self.file.text)
        remember(self.file.path.parent, self.registry, forget=forget)


_DEFAULTS = User(name="x")


def _merge(entry: MutableMapping[str, Any], user: User) -> None:
    """Write a person's fields into their entry: what is the default is left out, what is unchanged is not touched."""
    for field in User.model_fields:
        value: Any = getattr(user, field)
        if value == getattr(_DEFAULTS, field) and field != "name":
            if field in entry:
                del entry[field]
        elif field == "keys":
            if list(entry.get("keys") or []) != list(value):
                entry["keys"] = list(value)
        elif entry.get(field) != value:
            # a copy: an object that is in the tree twice is written once, with an anchor, and then as an alias
            entry[field] = copy(value)


def _new(user: User) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": user.name}
    _merge(entry, user)
    return entry


def _tombstone(user: User, retire: Mapping[str, int | None], day: date) -> dict[str, Any]:
    """What stays of somebody who is removed; nothing if their uid is unknown."""
    uid = retire[user.name] if user.uid is None else user.uid
    if uid is None:
        return {}
    address = {} if user.email is None else {"email": user.email}
    return {"name": user.name, "uid": uid, **address, "removed": day}


def _valid(model: type[EntryT], entries: object) -> Iterator[tuple[int, EntryT]]:
    """Those entries of a list that are right by themselves, with their positions."""
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        with suppress(ValidationError):
            yield index, model.model_validate(entry)


def _conflicts(
    users: Iterable[tuple[int, User]],
    retirees: Iterable[tuple[int, Retired]],
    settings: Settings | None,
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What no single field shows, with its place: names, uids and keys that appear twice, uids outside the range."""
    names: dict[str, str] = {}
    uids: dict[int, str] = {}
    keys: dict[str, str] = {}
    accounts = None if settings is None else settings.accounts
    reserved = {"root"} if settings is None else {settings.admin.user, settings.accounts.group, "root"}
    for index, user in users:
        where: tuple[str | int, ...] = ("users", index)
        if user.name in names:  # guard: a name stands once in users.yml
            yield (*where, "name"), f"'{user.name}' appears twice"
        if user.name in reserved:  # guard: the admin account is nobody's name
            yield (*where, "name"), f"'{user.name}' is the cluster's own admin account or group"
        names[user.name] = user.name
        if user.uid is None:
            if accounts is not None and accounts.source == "registry":
                way = f"write one that is free, or take this out and type gpuadmin add-user {user.name}"
                yield where, f"'{user.name}' has no uid; {way}"
        else:
            # guard: uids in users.yml are people's
            if accounts is not None and not accounts.uid_first <= user.uid <= accounts.uid_last:
                yield (
                    (*where, "uid"),
                    f"{user.uid} is outside the site's range "
                    f"{accounts.uid_first}-{accounts.uid_last} (accounts.uid_first, accounts.uid_last)",
                )
            if user.uid in uids:  # guard: a uid stands once in users.yml
                yield (*where, "uid"), f"{user.uid} is taken by '{uids[user.uid]}'"
            uids.setdefault(user.uid, user.name)
        for position, key in enumerate(user.keys):
            blob = key.split()[1]
            if blob in keys:  # guard: a key is one person's
                owner = "the same person" if keys[blob] == user.name else f"'{keys[blob]}'"
                yield (*where, "keys", position), f"{owner} has this ssh key already"
            keys[blob] = user.name
    for index, retired in retirees:
        if retired.uid in uids:  # guard: a retired uid is nobody else's
            yield (
                ("retired", index, "uid"),
                f"{retired.uid} is taken by '{uids[retired.uid]}'; "
                f"a home, a backup or Docker data of '{retired.name}' may still belong to it",
            )
        uids.setdefault(retired.uid, retired.name)
        if retired.name in names:  # guard: a retired name is not a user's
            yield ("retired", index, "name"), f"'{retired.name}' is also under users"
