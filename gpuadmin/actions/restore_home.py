"""Bring a home, or a part of it, back from a backup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from gpuadmin.actions.shared.accounts import require_known_name
from gpuadmin.answers import Answers
from gpuadmin.common.text import listed
from gpuadmin.config.load import Site
from gpuadmin.config.schema import Settings, User
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.promotion import Choice, choose, find_end, find_uids
from gpuadmin.session import Session, opened

#: As the storage host names them: a time, and what it was made for.
BACKUP = re.compile(r"\d{8}T\d{6}Z-[a-z0-9.-]{1,62}")
_BESIDE = re.compile(r"^_|\.(restored|before)-\d")


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


def restore_all(options: Options) -> int:
    """Restore the home of everybody who has none, or one that nobody has used yet, from the newest verified backup that
    is anywhere. Returns the exit code."""
    with opened("restore-home", options) as session:
        settings, storage = session.site.settings, session.storage()
        people, answers, choice = _choose(session)
        wanted = {"homes": dict(choice.homes), "uids": people or {}, "skeleton": str(settings.homes.skeleton)}
        wanted["subids"] = [settings.subids.base, settings.subids.size, settings.accounts.uid_first]
        looked = session.look("restore-home", storage, {"gpuadmin_backup": {"restore_all": wanted}})
        seen = Answers.of(looked.hosts, storage, "restored_homes")
        why = dict(choice.without) | {name: why for found in seen.known.values() for name, why in found.items() if why}
        # guard: no home is restored where it is not known which are there -> name not in why
        homes = {name: one for name, one in choice.homes.items() if seen.known and name not in why}
        builder = PlanBuilder(f"Restore the homes of {settings.name} that are not there")
        lines = replace(choice, homes=homes).lines()
        builder.add_all(storage if homes else (), [f"{line}; compared with the backup" for line in lines])
        for reason in sorted({*why.values()}):
            builder.warn(f"left out: {listed([name for name in sorted(why) if why[name] == reason])}: {reason}")
        for name, backup in sorted(choice.newer.items()):
            if name in homes or name in choice.without:
                builder.warn(f"{name}: {backup} is newer, and not verified (restore-home {name} --from {backup})")
        for host, reason in {**answers.unknown, **seen.unknown}.items():
            builder.warn(f"{host} does not say what it has: {reason}")
        if not session.plan(builder.build()):
            return nothing(session, [answers, seen])
        session.confirm()  # guard: restore-home --all asks before it does something
        given = {"gpuadmin_backup": {"restore_all": {**wanted, "homes": homes}}}
        run = session.run("restore-home", storage, given, check=session.check)
        failed = {name: why for one in run.reported("restored_homes").values() for name, why in one.items() if why}
        result = {"homes": homes, "problems": failed, "left": why}
        return report(session, run, result, advice="run it again: it goes on with the others")


def _choose(session: Session) -> tuple[dict[str, int] | None, Answers, Choice]:
    """Who has an account (name → uid; None: a directory knows), what hosts say of backups, and what is best of it."""
    site, asked = session.site, session.named("storage", "backup")
    answers = Answers.of(session.look("list-backups", asked, {}).hosts, asked, "facts")
    sets = [one for found in answers.known.values() for one in found.get("backups", ())]
    people, gone = find_uids(site), [one.name for one in site.registry.registry.retired]
    good, every = ([_homes(one, verified=verified) for one in sets] for verified in (True, False))
    return people, answers, choose(good, people, gone, every, find_end(datetime.now(UTC)))


def _homes(one: Mapping[str, Any], *, verified: bool) -> dict[str, Any]:
    """A backup with people's homes alone: no copies that a restore made, and not the queue's accounting."""
    homes = {name: home for name, home in one["homes"].items() if not _BESIDE.search(name)}
    return {**one, "homes": {name: home for name, home in homes.items() if home["verified"] or not verified}}


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
