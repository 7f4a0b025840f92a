"""What the verbs about accounts share: from a changed registry to a plan and a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._verb import Verb, Work
from gpuadmin.errors import ConfigError, HostFailedError, RefusedError
from gpuadmin.words import counted, one_line

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
    parts.append(counted(len(user.keys), "ssh key"))
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
    forget: Sequence[str] = (),
) -> Work:
    """Given the registry as it shall be and the people concerned, return the work."""
    from gpuadmin.accounts import variables
    from gpuadmin.plan import PlanBuilder

    builder = PlanBuilder(title, destroys=archive_homes)
    changed = registry.file.text != verb.site.registry.file.text
    if changed:
        names = ", ".join([*(user.name for user in users), *(name for name, _ in absent), *forget])
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
    for name in forget:
        builder.add("site", f"forget whose uid was {name}'s: it may be given to somebody else")
        builder.add_all(verb.named("storage"), [f"forget {name}'s uid, unless a home or an archive carries it"])
    for user in users:
        if not user.keys and not user.locked and settings.accounts.source == "registry":
            builder.warn(f"{user.name} has no ssh key and cannot log in until one is given (--key)")
    return Work(
        plan=builder.build(),
        variables=variables(registry, settings, users, absent) | (extra or {}),
        write=(lambda: registry.save(forget=forget)) if changed else lambda: None,
        registry=registry,
        forget=forget,
        result=account_result,
    )


def ask_uids(verb: Verb) -> dict[str, Any]:
    """Ask the storage hosts which uids they remember and see: host → `{"memory": …, "seen": …}`.

    Raises UnreachableError or HostFailedError where one does not say. Nobody is asked where a site has no storage host,
    and where a directory gives the uids.
    """
    from gpuadmin.accounts import variables
    from gpuadmin.answers import Answers
    from gpuadmin.cli._verb import ask_secrets, require_confirmation_possible
    from gpuadmin.console import Progress, make_console
    from gpuadmin.run import Invocation, run

    site = verb.site
    storage = [host.name for host in site.inventory.group("storage")]
    if not storage or site.settings.accounts.source != "registry":
        return {}
    if not verb.options.check:
        require_confirmation_possible(verb.options)
    given = {"gpuadmin_site": site.settings.model_dump(mode="json"), **variables(site.registry, site.settings, ())}
    with Progress(make_console(json=verb.options.json), verbose=verb.options.verbose) as progress:
        result = run(
            Invocation(
                playbook="list-users",
                inventory=site.inventory.sources,
                known_hosts=site.known_hosts,
                hosts=len(storage),
                variables=given,
                limit=",".join(storage),
                check=True,
                verbosity=verb.options.verbose,
                secrets=ask_secrets(verb.options),
            ),
            on_task=progress.task,
        )
    answers = Answers.of(result.hosts, storage, "uids")
    answers.require("which uids are taken")
    for host, said in answers.known.items():
        if said["memory"] is None:
            reason = one_line(f"{host}: {said['problem']}")
            raise HostFailedError(f"which uids are taken is not known: {reason}")
    return dict(answers.known)


def uids_elsewhere(verb: Verb) -> dict[int, str]:
    """Before a uid is given: which are carried by what the storage hosts hold, uid → what carries it, in words.

    Raises what `ask_uids` raises, RefusedError where users.yml contradicts what a host remembers, and ConfigError where
    --limit leaves out the storage host: it would not learn whose the uid is.
    """
    from gpuadmin.cli._verb import refuse_contradictions
    from gpuadmin.config.memory import Memory

    storage = [host.name for host in verb.site.inventory.group("storage")]
    if storage and verb.site.settings.accounts.source == "registry" and not verb.named("storage"):
        raise ConfigError(
            "--limit leaves out the storage host, which remembers whose a new uid is",
            hint=f"--limit {verb.options.limit},{','.join(storage)}",
        )
    taken: dict[int, str] = {}
    for host, said in ask_uids(verb).items():
        found = Memory.parse(said["memory"]).contradictions(verb.site.registry.registry)
        refuse_contradictions(found, f"users.yml and what {host} remembers")
        taken |= {int(uid): f"{host}: {words}" for uid, words in said["seen"].items()}
    return taken


def refuse_carried(verb: Verb, names: Sequence[str]) -> None:
    """Raise RefusedError where a home or an archive still carries a uid that was one of these people's."""
    from gpuadmin.config.memory import Memory, owners, recall

    site = verb.site
    known = [recall(site.directory).uids, owners(site.registry.registry)]
    for host, said in ask_uids(verb).items():
        for uid, words in said["seen"].items():
            for uids in (*known, Memory.parse(said["memory"]).uids):
                if uids.get(int(uid)) in names:
                    raise RefusedError(
                        f"uid {uid} was {uids[int(uid)]}'s, and is carried by {host}: {words}",
                        hint="a uid is forgotten when nothing carries it any more: gpuadmin remove-user --archive-home",
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
