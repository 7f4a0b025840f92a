"""Asking the hosts: one part of the playbook, and the facts that everything is decided from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuadmin.accounts.desired import variables as people
from gpuadmin.accounts.ids import subid_range
from gpuadmin.config.schema import Settings
from gpuadmin.results import RunResult
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.machine import BACKUP, END_SESSIONS, LOCK, PRUNE, REOPEN, WIPE
from gpuadmin.semester.term import current_term
from gpuadmin.session import Session

#: What the playbook calls the look at the hosts.
FACTS = "facts"
#: What is shown while a part runs; tests/contract/test_phases.py compares it with the phases.
DOING = {
    FACTS: "Looking at the hosts",
    LOCK: "Locking those out who leave",
    "unlock": "Letting people in again",
    END_SESSIONS: "Ending the sessions of those who leave",
    BACKUP: "Backing the homes up",
    "copy": "Making the second copy",
    WIPE: "Deleting homes and scratch of those who left",
    PRUNE: "Deleting old backups",
    REOPEN: "Removing the accounts of those who left",
}


def play(session: Session, part: str, hosts: Sequence[str], *, check: bool, **variables: Any) -> RunResult:
    """Run one part of the playbook. Raises InterruptedRun and GpuadminError if it did not come to an end."""
    site = session.site
    given = {"gpuadmin_phase": part, **people(site.settings, ()), **variables}
    doing = DOING[part] if part == FACTS or not check else f"Looking at what {part} would change"
    run = session.run(session.verb, hosts, given, check=check, label=part, doing=doing)
    begun = Journal(site.runs, current_term(site.settings).name).state().open
    return session.whole(
        run,
        f"interrupted in {part}; what was done is done",
        hint=f"go on with: gpuadmin {session.verb} --resume" if begun else "run it again",
    )


def gather(session: Session) -> Facts:
    """Ask all hosts for what has to be known before anything is decided."""
    users = session.site.registry.registry.users
    at = datetime.now(UTC).isoformat(timespec="seconds")
    hosts = session.named("gpu", "storage", "backup")

    def ask(people: list[dict[str, Any]], without_uid: list[str], on: Sequence[str]) -> Facts:
        asked = {"people": people, "names": without_uid}
        result = play(session, FACTS, on, check=False, gpuadmin_term=asked)
        return Facts.of(result.hosts, tuple(on), at)

    known = {user.name: user.uid for user in users if user.uid is not None}
    unnumbered = [user.name for user in users if user.uid is None]
    if unnumbered:
        # people whose uid only the hosts know can be looked for only after they reported it
        known |= ask([], unnumbered, session.named("storage")).identities()
    return ask(persons(known, session.site.settings), unnumbered, hosts)


def persons(uids: Mapping[str, int], settings: Settings) -> list[dict[str, Any]]:
    """Given names and uids, return what hosts receive about people; ids outside of people's range are nobody's."""
    found = []
    for name, uid in uids.items():
        # guard: a uid that is not a person's is told to no host -> True
        if settings.accounts.uid_first <= uid <= settings.accounts.uid_last:
            first, last = subid_range(uid, settings)
            found.append({"name": name, "uid": uid, "subid_start": first, "subid_count": last - first + 1})
    return found
