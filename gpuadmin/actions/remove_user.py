"""Lock and remove accounts; or forget whose uids were theirs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.accounts import requests as accounts
from gpuadmin.actions.shared.accounts import converge, perform, refuse_carried
from gpuadmin.common.text import counted
from gpuadmin.config.memory import owners, recall
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.session import opened


def remove_user(options: Options, names: Sequence[str], *, archive_home: bool) -> int:
    """Remove accounts everywhere, and with `archive_home` move the homes to the attic. Returns the exit code."""
    with opened("remove-user", options) as session:
        site = session.site
        accounts.refuse_protected(site.settings, names, "remove-user")
        registered = [name for name in dict.fromkeys(names) if site.registry.find(name)]
        leaving = {user.name: user.uid for user in accounts.known(site.registry, registered)}
        # people whose removal was interrupted, or missed a node, are named again
        retired = {entry.name: entry.uid for entry in site.registry.registry.retired}
        again = {name: retired[name] for name in names if name not in leaving and name in retired}
        accounts.known(site.registry, [name for name in names if name not in again])
        registry = site.registry.changed(site.settings, retire=leaving) if leaving else site.registry
        absent = [(name, uid) for name, uid in {**leaving, **again}.items() if uid is not None]
        extra = {}
        if archive_home:
            if options.limit and not session.named("storage"):
                raise ConfigError("--archive-home works on the storage host, which --limit leaves out")
            extra["gpuadmin_archive_homes"] = [{"name": name, "uid": uid} for name, uid in absent]
        change = converge(
            session,
            registry,
            [],
            title=f"Remove {counted(len(absent), 'account')} from {site.settings.name}",
            absent=absent,
            extra=extra,
            archive_homes=archive_home,
        )
        return perform(session, change)


def forget_user(options: Options, names: Sequence[str]) -> int:
    """Forget which uids they had: in users.yml, in runs/, and on the storage host. Returns the exit code."""
    names = list(dict.fromkeys(names))
    with opened("remove-user", options, forget=names) as session:
        site = session.site
        present = [name for name in names if site.registry.find(name)]
        if present:
            raise ConfigError(
                f"{', '.join(present)}: still registered; only somebody who was removed can be forgotten",
                hint=f"gpuadmin remove-user {' '.join(present)}",
            )
        known = {*recall(site.directory).uids.values(), *owners(site.registry.registry).values()}
        strangers = [name for name in names if name not in known]
        if strangers and not session.named("storage"):
            raise ConfigError(f"{', '.join(strangers)}: never had a uid here", hint="gpuadmin check")
        refuse_carried(session, names)
        registry = site.registry.changed(site.settings, forget=names)
        title = f"Forget whose uids were {', '.join(names)}'s"
        change = converge(
            session, registry, [], title=title, extra={"gpuadmin_forget": names}, homes=False, forget=names
        )  # fmt: skip
        return perform(session, change)
