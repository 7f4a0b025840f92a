"""Who leaves at the end of a term, and what of theirs is deleted. Pure: people, settings and facts in, a decision out.

Anything that does not clearly belong to somebody who leaves is kept and reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from gpuadmin.accounts.ids import subid_range
from gpuadmin.config.schema import Registry, Settings
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.term import current_term, standings
from gpuadmin.similar import did_you_mean


@dataclass(frozen=True)
class Leaver:
    """Somebody who leaves. `home`: whether a home of theirs will be wiped; None if nobody could look.

    `beside`: what restores made beside it.
    """

    name: str
    uid: int
    subid_start: int
    subid_count: int
    email: str | None = None
    home: bool | None = False
    beside: tuple[str, ...] = ()
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    @property
    def directories(self) -> tuple[str, ...]:
        """The names of all that goes of theirs in the home root."""
        return (*((self.name,) if self.home else ()), *self.beside)

    def person(self) -> dict[str, Any]:
        """What a host receives about them."""
        return {"name": self.name, "uid": self.uid, "subid_start": self.subid_start, "subid_count": self.subid_count}


@dataclass(frozen=True)
class Decision:
    """What a reset does, decided once. `staying` and `kept` say why; `silent` are hosts that nobody could look at."""

    term: str
    backup: str
    at: str
    leaving: tuple[Leaver, ...] = ()
    staying: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    scratch: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.leaving)

    @property
    def wiped(self) -> tuple[Leaver, ...]:
        """Those whose home goes, or something beside it, as far as it is known."""
        return tuple(one for one in self.leaving if one.directories)

    @property
    def going(self) -> tuple[tuple[Leaver, str], ...]:
        """All that goes in the home root: whose, and its name."""
        return tuple((one, name) for one in self.leaving for name in one.directories)

    def document(self) -> dict[str, Any]:
        """As the journal has it."""
        document = asdict(self)
        document["scratch"] = {host: [dict(item) for item in items] for host, items in self.scratch.items()}
        return document

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Decision:
        """The decision of a journal. Raises ValueError where it is none."""
        # a file's name need not be Unicode, which a parser of JSON wants: "?" stands for it while types are looked at
        text = json.dumps(document, ensure_ascii=False).encode(errors="replace")
        _DECISION.validate_json(text, strict=True)  # guard: a value of another type in the journal decides nothing
        leaving = (Leaver(**{**one, "beside": tuple(one.get("beside", ()))}) for one in document.get("leaving", ()))
        scratch = {host: tuple(items) for host, items in document.get("scratch", {}).items()}
        for item in (item for items in scratch.values() for item in items):
            if not isinstance(item.get("user"), str):
                raise ValueError("scratch")
        return cls(**{**document, "leaving": tuple(leaving), "scratch": scratch})


_DECISION: TypeAdapter[Decision] = TypeAdapter(Decision)


def slug(term: str) -> str:
    """A term's name as a part of file names and of a backup's name: `2026-2`."""
    return re.sub(r"[^a-z0-9.-]+", "-", term.casefold()).strip("-.")[:40].strip("-.") or "term"


def backup_name(now: str, label: str) -> str:
    """Given `2026-12-21T01:02:03Z` and a label, return `20261221T010203Z-<label>`."""
    return f"{re.sub('[-:]', '', now)}-{label}"


def kept_until(backup: str, days: int) -> date | None:
    """Given a backup's name, which says when it is made, and `backups.days`, return the last day on which it surely is.

    None if the name does not say it.
    """
    made = re.match(r"(\d{4})(\d\d)(\d\d)T", backup)
    try:
        return None if made is None else date(*(int(part) for part in made.groups())) + timedelta(days=days)
    except (ValueError, OverflowError):
        return None


def decide(
    settings: Settings, registry: Registry, facts: Facts, *, keep: Collection[str] = (), backup: str
) -> Decision:
    """Given the site and what its hosts say, decide who leaves, whose home is deleted, and what else of theirs."""
    term = current_term(settings)
    refuse_unknown_keep(registry, keep)
    homes = facts.of_homes()
    staying: dict[str, str] = {}
    kept: dict[str, str] = {}
    leaving: list[Leaver] = []
    for standing in standings(registry, settings, keep):
        user = standing.user
        uid = facts.identities().get(user.name) if user.uid is None else user.uid
        if standing.stays:  # guard: protected people, the extended and those kept stay
            staying[user.name] = standing.reason
        elif uid is None:
            # guard: whose uid nobody knows stays
            staying[user.name] = "no host knows the uid, so nothing of theirs can be told from others'"
        # guard: a uid outside of people's range stays
        elif not settings.accounts.uid_first <= uid <= settings.accounts.uid_last:
            staying[user.name] = f"uid {uid} is outside of people's range"
        else:
            first, last = subid_range(uid, settings)
            leaving.append(Leaver(user.name, uid, first, last - first + 1, user.email))
    leaving = [_with_homes(one, homes, kept) for one in leaving]
    if homes is not None:
        going = {name for one in leaving for name in (one.name, *one.beside)}
        kept |= _kept_homes(homes, going | set(kept), staying, registry)
    scratch = {
        host: items
        for host in facts.hosts
        if (items := tuple(item for item in facts.scratch(host) if _is_theirs(item, leaving)))
    }
    kept |= {f"{host}: {where}": why for host in facts.hosts for where, why in facts.scratch_problems(host).items()}
    decision = Decision(
        term.name, backup, facts.at, tuple(leaving), staying, kept, scratch,
        {host: facts.problems.get(host, "did not answer") for host in facts.silent},
    )  # fmt: skip
    refuse_contradiction(decision, settings, registry)  # guard: a contradiction is looked for in each decision
    return decision


def _with_homes(one: Leaver, homes: Mapping[str, Any] | None, kept: dict[str, str]) -> Leaver:
    """Somebody with what of theirs goes: the home, and what restores made beside it, if it is theirs by uid, too."""
    beside = [name for name, found in sorted((homes or {}).items()) if found.get("of") == one.name != name]
    return replace(
        one,
        home=_home_goes(one.name, one, homes, kept),
        beside=tuple(name for name in beside if _home_goes(name, one, homes, kept)),
    )


def _home_goes(name: str, one: Leaver, homes: Mapping[str, Any] | None, kept: dict[str, str]) -> bool | None:
    if homes is None:
        return None
    found = homes.get(name)
    if found is None:
        return False
    reason = None
    if found["kind"] != "directory":  # guard: a home that is not a directory stays
        reason = f"is a {found['kind']}, not a directory"
    elif found["uid"] != one.uid:  # guard: what is beside a home is the person's
        reason = f"belongs to uid {found['uid']}, not to {one.name} (uid {one.uid})"
    elif found["problem"]:  # guard: a home with something mounted in it stays
        reason = str(found["problem"])
    if reason:
        kept[name] = reason
    return reason is None


def _kept_homes(
    homes: Mapping[str, Any], decided: Collection[str], staying: Mapping[str, str], registry: Registry
) -> dict[str, str]:
    """Homes that are nobody's who leaves, and why they stay."""
    retired = {entry.name for entry in registry.retired}
    found = {}
    for name, home in homes.items():
        if name in decided or name.startswith("."):
            continue
        owner = home.get("of") or name
        if owner in staying:  # guard: the homes of who stays are kept, in words
            found[name] = staying[owner] if owner == name else f"{owner}'s, who stays: {staying[owner]}"
        elif owner in retired:
            found[name] = "of a removed account: gpuadmin remove-user --archive-home"
        else:
            # guard: a home that nobody knows is kept, in words
            found[name] = f"nobody in users.yml has this name (uid {home['uid']})"
    return found


def _is_theirs(item: Mapping[str, Any], leaving: Iterable[Leaver]) -> bool:
    for one in leaving:
        if item["user"] == one.name:
            uid = int(item["uid"])
            # guard: scratch of another uid is not theirs -> True
            return uid == one.uid or one.subid_start <= uid < one.subid_start + one.subid_count
    return False


def refuse_unknown_keep(registry: Registry, keep: Collection[str]) -> None:
    """A slip in --keep would wipe the person who was meant."""
    unknown = sorted(set(keep) - {user.name for user in registry.users})
    if unknown:  # guard: a slip in --keep is refused
        close = did_you_mean(unknown[0], (user.name for user in registry.users))
        raise ConfigError(
            f"--keep {' '.join(unknown)}: not registered, so it would keep nobody",
            hint=close or "gpuadmin list-users shows who is registered",
        )


def refuse_contradiction(decision: Decision, settings: Settings, registry: Registry) -> None:
    """Raise RefusedError if somebody both leaves and stays, by name or by uid, or where two share a uid."""
    both = set(decision.names) & set(decision.staying)
    if both:  # guard: nobody both leaves and stays
        raise RefusedError(f"{', '.join(sorted(both))}: both leaves and stays; nothing is done")
    protected = [name for name in decision.names if settings.is_protected(name)]
    if protected:  # guard: nobody who is protected leaves
        raise RefusedError(f"{', '.join(protected)}: protected, and among those who leave; nothing is done")
    uids: dict[int, str] = {}
    for user in registry.users:
        if user.name in decision.staying and user.uid is not None:
            uids[user.uid] = user.name
    for one in decision.leaving:
        if one.uid in uids:  # guard: a uid is one person's
            raise RefusedError(f"uid {one.uid} is {one.name}'s and {uids[one.uid]}'s; nothing is done")
        uids[one.uid] = one.name


def narrowed(
    decision: Decision, settings: Settings, registry: Registry, *, keep: Collection[str] = (),
    wiped: Collection[str] = (),
) -> Decision:  # fmt: skip
    """Given a decision that was made earlier, return it without those who stay by now; nobody is ever added.

    `wiped`: those whose home is gone already; for them it is too late, and they remain. Somebody who is no longer
    registered is left out, too: nobody can tell whose things those are.
    """
    refuse_unknown_keep(registry, [name for name in keep if name not in decision.names])
    now = {standing.user.name: standing for standing in standings(registry, settings, keep)}
    staying, leaving = dict(decision.staying), []
    for one in decision.leaving:
        standing = now.get(one.name)
        known = None if standing is None else standing.user.uid
        if one.name in wiped:
            leaving.append(one)
        elif standing is None:
            staying[one.name] = "is not in users.yml any more"  # guard: who is not registered any more stays
        elif standing.stays:  # guard: who was extended meanwhile stays
            staying[one.name] = standing.reason
        elif known is not None and known != one.uid:  # guard: whose uid changed meanwhile stays
            staying[one.name] = f"has uid {known} now, and had {one.uid} when it was decided"
        else:
            leaving.append(one)
    names = {one.name for one in leaving}
    scratch = {
        host: found
        for host, items in decision.scratch.items()
        # guard: scratch of who stays by now is left -> (found := tuple(items))
        if (found := tuple(item for item in items if item["user"] in names))
    }
    result = replace(decision, leaving=tuple(leaving), staying=staying, scratch=scratch)
    # guard: a contradiction is looked for in a decision that was narrowed
    refuse_contradiction(result, settings, registry)
    return result


def with_facts(decision: Decision, facts: Facts) -> Decision:
    """The decision with what is seen now: homes that are still there, and what nodes hold that were silent before."""
    homes = facts.of_homes()
    kept = dict(decision.kept)
    leaving = decision.leaving
    if homes is not None:
        for one in decision.leaving:
            for name in (one.name, *(name for name, home in homes.items() if home.get("of") == one.name)):
                kept.pop(name, None)
        leaving = tuple(_with_homes(one, homes, kept) for one in decision.leaving)
    scratch = {
        host: items
        for host in facts.hosts
        if (items := tuple(item for item in facts.scratch(host) if _is_theirs(item, leaving)))
    }
    silent = {host: facts.problems.get(host, "did not answer") for host in facts.silent}
    return replace(decision, at=facts.at or decision.at, leaving=leaving, kept=kept, scratch=scratch, silent=silent)
