"""Bring a home, or a part of it, back from a backup."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from gpuadmin.actions.shared.accounts import require_known_name
from gpuadmin.config.load import Site
from gpuadmin.config.schema import Settings, User
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened

#: As the storage host names them: a time, and what it was made for.
BACKUP = re.compile(r"\d{8}T\d{6}Z-[a-z0-9.-]{1,62}")


def restore_home(
    options: Options, user: str, *, backup: str | None, path: str, target: str | None, in_place: bool
) -> int:
    """Restore somebody's home, or `path` in it, from a backup or the newest verified one. Returns the exit code."""
    with opened("restore-home", options) as session:
        settings = session.site.settings
        refuse(session.site, user, backup=backup, path=path)
        person = session.site.registry.find(user)
        wanted = request(settings, user, person, backup=backup, path=path, target=target, in_place=in_place)
        builder = PlanBuilder(f"Restore {user}'s {path or 'home'} from {backup or 'the newest verified backup'}")
        where = {
            "beside": f"beside {settings.homes.export}/{user}",
            "in-place": f"to {settings.homes.export}/{user}; what is there is kept beside it",
            "directory": f"to {wanted['target']}",
            "attic": f"to {settings.homes.export}/.gpuadmin-attic, because nobody by that name has an account",
        }[wanted["mode"]]
        builder.add_all(session.storage(), [f"restore {where}; compare it with the backup"])
        given = {"gpuadmin_backup": {"restore": wanted}}
        session.plan(builder.build())
        advice = f"the table says why; which backups there are: gpuadmin list-backups {user}"
        session.predict("restore-home", None, given, advice)
        session.confirm()  # guard: restore-home asks before it does something
        run = session.run("restore-home", None, given, check=session.check)
        restored = next(iter(run.reported("restored").values()), None)
        return report(session, run, {} if restored is None else {"restored": restored}, advice=advice)


def refuse(site: Site, user: str, *, backup: str | None, path: str) -> None:
    """Raise ConfigError for what no backup can have: a path out of the home, a name that nobody has or ever had.

    A backup may be older than what the site remembers; who names it has looked.
    """
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path:  # guard: a restore is of what is in the home
        raise ConfigError(f"--path {path!r}: is not a path inside of the home", hint="such as --path thesis/chapter1")
    name = user.partition(".")[0]  # what a restore made beside a home is called NAME.restored-…
    if not name or "/" in user:  # guard: a restore is of a home
        raise ConfigError(f"{user!r} is not the name of a home", hint="gpuadmin list-backups shows whose homes it has")
    if backup is not None and not BACKUP.fullmatch(backup):
        raise ConfigError(f"--from {backup[:80]!r}: is not the name of a backup", hint=f"gpuadmin list-backups {user}")
    if backup is not None or site.settings.accounts.source != "registry":
        return
    try:
        require_known_name(site, name)
    except ConfigError as error:
        raise ConfigError(
            f"{user}: nobody by that name is or was registered",
            hint=f"{error.hint}; a backup that is older than users.yml: gpuadmin list-backups, then --from BACKUP",
        ) from None


def request(
    settings: Settings,
    user: str,
    person: User | None,
    *,
    backup: str | None,
    path: str,
    target: str | None,
    in_place: bool,
) -> dict[str, Any]:
    """Given the options and the person, return what the storage host is asked for."""
    mode = "directory" if target else "in-place" if in_place else "beside"
    if person is None and not target:
        mode = "attic"
    return {
        "user": user,
        "backup": backup or "",
        "mode": mode,
        "path": path,
        "target": target,
        "uid": None if person is None else person.uid,
        "subids": [settings.subids.base, settings.subids.size, settings.accounts.uid_first],
    }
