"""What the verbs about accounts share: from a changed registry to a plan and a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from gpuadmin.accounts.change_kinds import describe_changes
from gpuadmin.accounts.desired import variables
from gpuadmin.accounts.ids import subid_range
from gpuadmin.accounts.requests import is_theirs, known
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted, listed, the_page
from gpuadmin.config.adopted import read_adoption
from gpuadmin.config.load import Site
from gpuadmin.config.memory import Memory, owners, recall, refuse_contradictions
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import User
from gpuadmin.display import styled
from gpuadmin.errors import ConfigError, HostFailedError, RefusedError
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session
from gpuadmin.text import one_line


@dataclass(frozen=True)
class Change:
    """A registry as it shall be, and what hosts have to do for it."""

    registry: RegistryFile
    plan: Plan
    variables: dict[str, Any]
    forget: Sequence[str] = ()


def account_actions(user: User, session: Session) -> list[str]:
    """What a node does for a person, with the ids."""
    settings = session.site.settings
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
    session: Session,
    registry: RegistryFile,
    users: Sequence[User],
    *,
    title: str,
    describe: Callable[[User, Session], list[str]] = account_actions,
    absent: Sequence[tuple[str, int]] = (),
    extra: dict[str, Any] | None = None,
    homes: bool = True,
    archive_homes: bool = False,
    forget: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Change:
    """Given the registry as it shall be and the people concerned, return the change."""
    builder = PlanBuilder(title)
    if registry.file.text != session.site.registry.file.text:
        names = ", ".join([*(user.name for user in users), *(name for name, _ in absent), *forget])
        builder.add("site", f"{registry.file.path.name}: write {names}")
    settings = session.site.settings
    if homes:
        builder.add_all(
            session.named("storage"),
            [f"home {settings.homes.export}/{user.name}, if there is none" for user in users],
        )
    # where no home is made, the storage host's part is the account alone, as it is on a node
    hosts = session.named("gpu") if homes else session.named("gpu", "storage")
    for user in users:
        builder.add_all(hosts, describe(user, session))
    rest = "Docker data stays" if archive_homes else "home and Docker data stay"
    for name, uid in absent:
        builder.add_all(
            session.named("gpu", "storage"),
            [f"remove the account {name} (uid {uid}); {rest}, what runs goes on"],
        )
        if archive_homes:
            home = f"{settings.homes.export}/{name}"
            builder.add_all(session.named("storage"), [f"move {home} to {settings.homes.export}/.gpuadmin-attic"])
    for name in [*(user.name for user in users if _locks(session, user)), *(name for name, _ in absent)]:
        builder.add_all(_gated(session), [f"{name}: end grants of GPUs"])
    for name in forget:
        builder.add("site", f"forget whose uid was {name}'s: it may be given to somebody else")
        builder.add_all(session.named("storage"), [f"forget {name}'s uid, unless a home or the attic carries it"])
    if not session.named("gpu", "storage"):
        builder.warn("no host is in the groups gpu and storage (inventory/hosts.yml): only users.yml changes")
    named = set(session.named("gpu", "storage"))
    left = [host.name for host in session.site.inventory.hosts if {"gpu", "storage"} & set(host.groups)]
    if left := [name for name in left if name not in named]:
        builder.warn(f"{listed(left)}: left out by --limit, and unchanged until gpuadmin sync-users runs there")
    for line in notes:
        builder.warn(line)
    for user in users:
        if user.expires is not None and user.expires < date.today():
            builder.warn(f"{user.name}: valid until {user.expires}, which is past: the account is closed")
    for line in limits_later(session, users):
        builder.warn(line)
    keyless = [user.name for user in users if not user.keys and not user.locked]
    if keyless and settings.accounts.source == "registry":
        has = "has" if len(keyless) == 1 else "have"
        builder.warn(
            f"{listed(keyless)} {has} no ssh key in users.yml: without one in their home on the hosts nobody logs in; "
            "gpuadmin change-user NAME --add-key FILE.pub gives one"
        )
    return Change(registry, builder.build(), variables(settings, users, absent) | (extra or {}), forget)


def limits_later(session: Session, users: Sequence[User]) -> list[str]:
    """What to say of people who come into a group or leave one that has limits: a verb about accounts changes none."""
    section = session.site.settings.limits
    limited = {group for entry in (section.people if section else []) for group in entry.groups}
    before = {user.name: session.site.registry.find(user.name) for user in users}
    moved = [
        user.name
        for user in users
        if (old := getattr(before[user.name], "group", None)) != user.group and {old, user.group} & limited
    ]
    return [f"{listed(moved)}: limits follow the group with the next gpuadmin provision"] if moved else []


def _locks(session: Session, user: User) -> bool:
    """Whether somebody is locked by this change, and was not before."""
    before = session.site.registry.find(user.name)
    return user.locked and not (before is not None and before.locked)


def _gated(session: Session) -> list[str]:
    """The nodes whose GPUs are for those who were granted one."""
    own = {host.name: host.variables.get("gpus_access") for host in session.site.inventory.hosts}
    access = session.site.settings.gpus.access
    return [name for name in session.named("gpu") if (own[name] or access) == "granted"]


def perform(session: Session, change: Change, found: RunResult | None = None) -> int:
    """Show the plan, ask, write users.yml and bring the hosts to it. Returns the exit code.

    `found`: in a check, what the hosts say of this very change, where they were asked already.
    """
    if not session.plan(change.plan):
        return nothing(session)
    session.confirm()  # guard: an account verb asks before it does something
    session.save(change.registry, forget=change.forget)
    run = found or session.run("sync-users", None, change.variables, check=session.check)
    return report(session, run, account_result(run))


def ask_uids(session: Session, found: RunResult | None = None) -> dict[str, Any]:
    """Ask the storage hosts which uids they remember and see: host → `{"memory": …, "seen": …}`.

    `found`: a look at accounts that asked them already. Raises UnreachableError or HostFailedError if one does not say.
    Nobody is asked where a site has no storage host, and where a directory gives the uids.
    """
    site = session.site
    storage = [host.name for host in site.inventory.group("storage")]
    if not storage or site.settings.accounts.source != "registry":
        return {}
    run = found or session.look("sync-users", storage, variables(site.settings, ()))
    answers = Answers.of(run.hosts, storage, "uids")
    answers.require("which uids are taken")  # guard: no uid is given before the storage host has spoken
    for host, answer in answers.known.items():
        if answer["memory"] is None:
            reason = one_line(f"{host}: {answer['problem']}")
            raise HostFailedError(f"which uids are taken is not known: {reason}")
    return dict(answers.known)


@dataclass(frozen=True)
class Taken:
    """Uids that no newcomer gets. `uids`: uid → what carries it. `notes`: where hosts looked, and where not."""

    uids: Mapping[int, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def describe_passed_over(self, free: RegistryFile, chosen: RegistryFile) -> list[str]:
        """Given the registry as it would be if these were free, and as it shall be, say which of them nobody gets."""
        would, will = owners(free.registry).keys(), owners(chosen.registry).keys()
        between = range(min(would - will, default=0), max(will - would, default=-1))
        lost = sorted(uid for uid in self.uids.keys() - will if uid in between or uid in would)
        more = [f"and {len(lost) - 10} more uids are given to nobody"] if len(lost) > 10 else []
        return [f"uid {uid} is given to nobody: {self.uids[uid]}" for uid in lost[:10]] + more


#: Variables of a run that also asks hosts which uids something carries (disk/carried_ids.py).
ASK_CARRIED = {"gpuadmin_carried": True}
MOST_CARRIED = 5000  # uids of one host: a captured node cannot use up all that there are


def uids_elsewhere(session: Session, found: RunResult | None = None) -> Taken:
    """Return the uids that something on a host carries, or carried when the site was adopted, before one is given.

    `found`: a look that asked all hosts already, with ASK_CARRIED. A node that does not answer is in the notes. Raises
    what `ask_uids` raises, RefusedError if users.yml contradicts what a host remembers, and ConfigError if --limit
    leaves out the storage host: it would not learn whose the uid is.
    """
    storage = [host.name for host in session.site.inventory.group("storage")]
    # guard: no uid is given that the storage host would not learn
    if storage and session.site.settings.accounts.source == "registry" and not session.named("storage"):
        raise ConfigError(
            "--limit leaves out the storage host, which remembers whose a new uid is",
            hint=f"--limit {session.options.limit},{','.join(storage)}",
        )
    if session.site.settings.accounts.source != "registry":
        return Taken()
    hosts = session.named("gpu", "storage")
    found = found or session.look("sync-users", hosts, variables(session.site.settings, ()) | ASK_CARRIED)
    taken: dict[int, str] = {}
    for host, answer in ask_uids(session, found).items():
        wrong = Memory.parse(answer["memory"]).contradictions(session.site.registry.registry)
        refuse_contradictions(wrong, f"users.yml and what {host} remembers")
        taken |= {int(uid): f"{host}: {carrier}" for uid, carrier in answer["seen"].items()}
    answers = Answers.of(found.hosts, hosts, "carried")
    adopted, problem = _find_adopted_uids(session.site)
    left = [problem] if problem else []
    for host, answer in answers.known.items():
        if len(answer["ids"]) > MOST_CARRIED:  # guard: one host cannot use up all uids
            left.append(f"{host} (it says that {len(answer['ids'])} uids are carried there)")
            continue
        for uid, carrier in answer["ids"].items():
            taken.setdefault(int(uid), f"{host}: {carrier}")
    for uid, carrier in adopted.items():
        taken.setdefault(uid, carrier)
    concerned = [host.name for host in session.site.inventory.hosts if {"gpu", "storage"} & set(host.groups)]
    left += [f"{name} (left out by --limit)" for name in concerned if name not in hosts]
    return Taken(taken, _describe_look(answers, left))


def _describe_look(answers: Answers, left: Sequence[str]) -> list[str]:
    """Say where hosts looked for uids that something carries, and where not."""
    looked: dict[tuple[str, ...], list[str]] = {}
    missed = [f"{host} ({why})" for host, why in answers.unknown.items()] + [*left]
    for host, answer in answers.known.items():
        looked.setdefault(tuple(answer["looked"]), []).append(host)
        missed += [f"{host}: {words}" for words in answer["not_looked"]]
    words = "; ".join(
        f"{', '.join(['accounts and groups', *where])} of {listed(hosts)}" for where, hosts in looked.items()
    )
    return [
        *([f"no uid is given that something carries, as far as was looked: {one_line(words)}"] if looked else []),
        *([f"not looked at for uids: {one_line(listed(missed))}"] if missed else []),
    ]


def _find_adopted_uids(site: Site) -> tuple[dict[int, str], str]:
    """Return uids that adopt saw and nobody in users.yml has or had: uid → what carried it; and why none are known."""
    found: dict[int, str] = {}
    try:
        for host, answer in read_adoption(site.directory)["hosts"].items():
            seen, place = answer["seen"], f"{host}, when it was adopted"
            for home in seen["homes"] or ():
                for entry in home["entries"]:
                    found.setdefault(int(entry["uid"] or 0), f"{place}: {home['path']}/{entry['name']}")
            for account in seen["accounts"] or ():
                found.setdefault(int(account["uid"] or 0), f"{place}: account {account['name']}")
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):  # JSON has infinity
        return {}, "what adopt saw (adoption.json is damaged)"
    registered = owners(site.registry.registry)
    return {uid: words for uid, words in found.items() if uid not in registered}, ""


def refuse_carried(session: Session, names: Sequence[str]) -> None:
    """Raise RefusedError if a home, the attic or an archive still carries a uid that was one of these people's."""
    site = session.site
    remembered = [recall(site.directory).uids, owners(site.registry.registry)]
    for host, answer in ask_uids(session).items():
        for uid, carrier in answer["seen"].items():
            for uids in (*remembered, Memory.parse(answer["memory"]).uids):
                if uids.get(int(uid)) in names:  # guard: a uid that something carries is not forgotten
                    raise RefusedError(
                        f"uid {uid} was {uids[int(uid)]}'s, and is carried by {host}: {carrier}",
                        hint="a uid is forgotten when nothing carries it any more: what is in the attic"
                        f" is yours to move away or to delete: {the_page('restore')}",
                    )


def ask_carried(session: Session, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Given the variables of a look at everybody, add ASK_CARRIED if somebody is new to the site."""
    return {**given, **ASK_CARRIED} if _find_strangers(session.site) else given


def _find_strangers(site: Site) -> dict[int, str]:
    """Return the people (uid → name) who came into users.yml since a verb of gpuadmin last succeeded."""
    remembered = recall(site.directory).uids
    people = {user.uid: user.name for user in site.registry.registry.users if user.uid is not None}
    return {uid: name for uid, name in people.items() if remembered.get(uid) != name}


def _describe_strangers(session: Session, found: RunResult) -> list[str]:
    """Name people whose first account gets a uid that something carries: an admin may mean that, and sees it."""
    lines = []
    for uid, name in _find_strangers(session.site).items():
        has = [(host.reports.get("users") or {}).get(name, {}).get("status") for host in found.hosts.values()]
        if set(has) - {"missing", None}:  # the files of an account that is there are theirs
            continue
        for host, result in found.hosts.items():
            words = (result.reports.get("carried") or {"ids": {}})["ids"].get(str(uid))
            if words is not None and not is_theirs(words, name):
                lines.append(f"{host}: uid {uid}, which {name} gets, is carried by {words}")
    return lines


def show_changes(session: Session, found: RunResult) -> None:
    """Print what a look says would change for people who have an account, before the table shortens it; and who gets
    files that are there."""
    for line in _describe_strangers(session, found):
        session.console.print(styled(("Note:", "yellow"), f" {line}"))
    reports = {host: result.reports.get("users") or {} for host, result in found.hosts.items()}
    if lines := describe_changes(reports):
        session.console.print(styled(("For people who have an account there:", "yellow")))
        for line in lines:
            session.console.print(f"  {one_line(line)}")


def show_notes(session: Session, found: RunResult) -> None:
    """Print what hosts say beside what they did: what nothing enforces, what is still in use, what nobody names."""
    notes: dict[str, list[str]] = {}
    for host, result in found.hosts.items():
        for line in result.reports.get("problems") or ():
            notes.setdefault(line, []).append(host)
    for line, hosts in notes.items():
        session.console.print(styled(("Note:", "yellow"), f" {listed(hosts)}: {one_line(line)}"))


def require_known_name(site: Site, name: str) -> None:
    """Raise ConfigError, with the name that may be meant, where nobody of that name is registered, or ever was.

    With a directory others may have an account, too.
    """
    remembered = {*owners(site.registry.registry).values(), *recall(site.directory).uids.values()}
    if site.settings.accounts.source == "registry" and name not in remembered:
        known(site.registry, [name])


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
