"""What pends from earlier runs, by their records: runs that were cut off, and hosts where one did not succeed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.errors import ExitCode
from gpuadmin.records import CONFIRMED, NOTHING
from gpuadmin.report import name_status
from gpuadmin.results import HostResult

#: What these could not do on a host, a later run of a verb of CONVERGING there does.
OF_ACCOUNTS = frozenset(
    ("add-user", "change-user", "remove-user", "lock-user", "unlock-user", "extend-user", "extend-term",
     "import-applications", "sync-users")
)  # fmt: skip
CONVERGING = frozenset(("sync-users", "provision"))
#: With these a verb does on hosts what users.yml does not say: only the same again does it.
ONCE = frozenset(("--archive-home", "--forget"))
#: What one of these did is not what another, with other words, could not do.
EACH = frozenset(("restore-home",))
EVERYWHERE = ""  # in place of a host's name
#: Their own journals and records say what pends of these; nobody but the admin knows what a command was for; and what
#: an audit could not look at the next one says.
ELSEWHERE = frozenset(("semester-reset", "notify", "run", "audit"))


@dataclass(frozen=True)
class Pending:
    """A run that did not come to its end everywhere. `hosts`: where not, and why; none where that is not known.

    `silent`: those of them that it did not reach.
    """

    run: str
    verb: str
    arguments: tuple[str, ...]
    started: str
    status: str  # failed | interrupted | unfinished | damaged | going on
    hosts: Mapping[str, str] = field(default_factory=dict)
    silent: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "run": self.run,
            "verb": self.verb,
            "arguments": list(self.arguments),
            "started": self.started,
            "status": self.status,
            "hosts": dict(self.hosts),
            "silent": list(self.silent),
        }


def pending(records: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> list[Pending]:
    """Given runs with their results, newest first, return those that left something undone, newest first.

    A run in check mode changes nothing and leaves nothing; one that was refused, or whose command line was wrong, had
    begun nothing; a dismissed one is closed. What a run could not do on a host is done when a later one of the same
    verb succeeded there. For accounts that must be for the same people, or bring the host all of users.yml; for EACH it
    must be the same.
    """
    found = []
    done: dict[tuple[str, ...], set[str]] = {}  # what succeeded later, and on which hosts; EVERYWHERE where as a whole
    for run, result in records:
        verb, status = str(run["verb"]), str(run["status"])
        if (
            # guard: a check leaves nothing behind
            run["check"] or verb in ELSEWHERE or status == "refused" or _began_nothing(run, result)
        ):
            continue
        hosts = (result or {}).get("hosts") or {}
        meant = meaning(run["arguments"])
        key = (
            (verb, *meant)
            if verb
            in OF_ACCOUNTS
            # guard: another home's restore is not this one's
            | EACH
            else (verb,)
        )
        healed = set(done.get(key, ()))
        if (
            verb in OF_ACCOUNTS
            # guard: what users.yml does not say is not done by sync-users
            and not ONCE & set(meant)
        ):
            healed |= {host for converging in CONVERGING for host in done.get((converging,), ())}
        bad = {
            name: str(host["message"] or host["status"])
            for name, host in hosts.items()
            if host["status"] in _BAD
            # guard: what a run could not do on a host is left until it is done there -> not healed
            and name not in healed
        }
        # a run that ended because of hosts says which; of any other nobody knows how far it came
        by_hosts = (ExitCode.HOST_FAILED, ExitCode.HOST_UNREACHABLE)
        named = (
            run["exit_code"] in by_hosts or (run["exit_code"] == ExitCode.INTERRUPTED and verb in CONVERGING)
        ) and any(host["status"] in _BAD for host in hosts.values())
        if run["exit_code"] == ExitCode.INTERRUPTED:  # records of earlier versions have another word for it
            status = name_status(ExitCode.INTERRUPTED)
        if not run.get("dismissed") and (bad or not (status == "ok" or named or EVERYWHERE in healed)):
            silent = tuple(name for name in bad if HostResult(hosts[name]["status"]).silent)
            left = Pending(str(run["id"]), verb, tuple(run["arguments"]), str(run["started"]), status, bad, silent)
            found.append(left)
        good = {name for name, host in hosts.items() if host["status"] in ("ok", "changed")}
        if (
            status == "ok"
            # guard: a run for some hosts is not one for all
            and not any(str(one).startswith("--limit") for one in run["arguments"])
        ):
            good.add(EVERYWHERE)
        for one in {key, (verb,)}:
            done.setdefault(one, set()).update(good)
    return found


def _began_nothing(run: Mapping[str, Any], result: Mapping[str, Any] | None) -> bool:
    """Whether a run ended before it wrote or sent anything: it only looked, or the command line was wrong."""
    reached, slip = (result or {}).get("reached"), bool(run["exit_code"] == ExitCode.USAGE)
    if reached is None:  # the record of an earlier version, or of a run that was cut off
        return slip
    return bool(
        reached == NOTHING
        or (
            reached == CONFIRMED  # guard: what was sent to hosts pends whatever the error
            and slip
        )
    )


def meaning(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line without what only says how it is run: two that mean the same are equal."""
    kept = []
    rest = iter(str(argument) for argument in arguments)
    for argument in rest:
        if argument in ("--site", "--limit"):
            next(rest, None)
        elif not argument.startswith(("--site=", "--limit=")) and argument not in _MANNER:
            kept.append(argument)
    return tuple(kept)


_BAD = (
    "failed",
    "interrupted",
    "unreachable",
    # guard: what a run did not get to is left of it
    "not run",
)
_MANNER = frozenset(("--yes", "-y", "--json", "-v", "-vv", "-vvv", "--verbose", "--ask-pass", "--ask-become-pass"))
