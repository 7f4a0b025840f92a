"""What the verbs about accounts share: from a changed registry to a plan and a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._verb import Verb, Work

if TYPE_CHECKING:
    from gpuadmin.cli._options import Options
    from gpuadmin.config.registry import RegistryFile
    from gpuadmin.config.schema import User
    from gpuadmin.run import RunResult


def account_actions(user: User, verb: Verb) -> list[str]:
    """What a node does for a person, in words that name ids."""
    from gpuadmin.accounts import subid_range

    settings = verb.site.settings
    if user.uid is None:
        return [f"{user.name}: home, Docker and subids by what the directory says"]
    parts = [f"account {user.name}, uid {user.uid}"]
    if user.docker and settings.docker.enabled:
        first, last = subid_range(user.uid, settings)
        parts.append(f"rootless Docker with subids {first}-{last}")
    if user.expires:
        parts.append(f"valid until {user.expires}")
    if user.locked:
        parts.append("locked")
    parts.append(f"{len(user.keys)} ssh key{'' if len(user.keys) == 1 else 's'}")
    return [", ".join(parts)]


def converge(
    verb: Verb,
    registry: RegistryFile,
    users: Sequence[User],
    *,
    title: str,
    describe: Callable[[User, Verb], list[str]] = account_actions,
    absent: Sequence[tuple[str, int]] = (),
    extra: dict[str, Any] | None = None,
    homes: bool = True,
    archive_homes: bool = False,
) -> Work:
    """Given the registry as it shall be and the people concerned, return the work."""
    from gpuadmin.accounts import variables
    from gpuadmin.plan import PlanBuilder

    builder = PlanBuilder(title, destroys=archive_homes)
    changed = registry.file.text != verb.site.registry.file.text
    if changed:
        names = ", ".join([user.name for user in users] + [name for name, _ in absent])
        builder.add("site", f"{registry.file.path.name}: write {names}")
    settings = verb.site.settings
    if homes:
        builder.add_all(
            verb.named("storage"),
            [f"home {settings.homes.export}/{user.name}, if there is none" for user in users],
        )
    nodes = verb.named("gpu")
    for user in users:
        builder.add_all(nodes, describe(user, verb))
    for name, uid in absent:
        builder.add_all(
            verb.named("gpu", "storage"),
            [f"remove the account {name} (uid {uid}); home and Docker data stay"],
        )
        if archive_homes:
            home = f"{settings.homes.export}/{name}"
            builder.add_all(verb.named("storage"), [f"pack {home} into an archive, verify it, then remove {home}"])
    for user in users:
        if not user.keys and not user.locked and settings.accounts.source == "registry":
            builder.warn(f"{user.name} has no ssh key and cannot log in until one is given (--key)")
    return Work(
        plan=builder.build(),
        variables=variables(registry, settings, users, absent) | (extra or {}),
        write=registry.save if changed else lambda: None,
        result=account_result,
    )


def update(
    name: str,
    options: Options,
    names: Sequence[str],
    fields: dict[str, Any],
    *,
    action: Callable[[User], str],
    before: Callable[[Verb], None] = lambda verb: None,
) -> int:
    """Change fields of registered people and converge them: lock-user, unlock-user, extend-user."""
    from gpuadmin.accounts import known
    from gpuadmin.cli._verb import opened, perform

    with opened(name, options) as verb:
        before(verb)
        people = [user.model_copy(update=fields) for user in known(verb.site.registry, names)]
        registry = verb.site.registry.changed(verb.site.settings, update=people)
        title = f"{name}: {', '.join(user.name for user in people)}"
        work = converge(verb, registry, people, title=title, describe=lambda user, _: [action(user)], homes=False)
        return perform(verb, work)


def account_result(run: RunResult) -> dict[str, Any]:
    """What every host says of every person: `{"users": {NAME: {HOST: {"status", "operations", "problem"}}}}`."""
    users: dict[str, dict[str, Any]] = {}
    problems: dict[str, list[str]] = {}
    for host_name, host in run.hosts.items():
        for name, entry in (host.reports.get("users") or {}).items():
            users.setdefault(name, {})[host_name] = entry
        if host.reports.get("problems"):
            problems[host_name] = list(host.reports["problems"])
    return {"users": users, "problems": problems}
