"""What has to hold before anything is wiped. Each raises RefusedError with the way out."""

from __future__ import annotations

from datetime import datetime, timedelta

from gpuadmin.errors import RefusedError, UnreachableError
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.planner import Decision

OLDEST = timedelta(minutes=30)  # what was seen longer ago is looked at again before anything is wiped


def refuse_unknown(phase: str, facts: Facts) -> None:
    """Raise UnreachableError if nobody could see which homes and backups there are."""
    if facts.homes_unknown is not None:
        raise UnreachableError(
            f"{phase}: which homes and backups there are is not known: {facts.homes_unknown}; nothing is done",
            hint="when the storage host answers: gpuadmin semester-reset --resume",
        )


def refuse_unbacked(decision: Decision, facts: Facts) -> None:
    """Raise RefusedError unless the decided backup has a verified home of everybody whose home goes."""
    found = next((one for one in facts.backups() if one["name"] == decision.backup), None)
    if found is None:  # guard: without the decided backup nothing is wiped
        raise RefusedError(
            f"there is no complete backup {decision.backup}; nothing is wiped",
            hint="gpuadmin semester-reset --resume makes it",
        )
    for one, name in decision.going:
        home = found["homes"].get(name)
        if (
            home is None  # guard: a home that is not in the backup is not wiped
            or not home.get("verified")  # guard: a home that is not verified is not wiped
            or home["uid"] != one.uid  # guard: a home of another uid in the backup proves nothing
        ):
            what = f"{name}'s home" if name == one.name else name
            raise RefusedError(
                f"{what} (uid {one.uid}) is not verified in {decision.backup}; nothing is wiped",
                hint=f"let them stay for now: --keep {one.name}; or look: gpuadmin list-backups {one.name}",
            )


def refuse_stale(decision: Decision, facts: Facts, now: datetime) -> None:
    """Raise RefusedError if the hosts were looked at again after it was decided, or too long ago."""
    age = now - datetime.fromisoformat(facts.at)
    if (
        decision.at < facts.at  # guard: a plan from before the last look wipes nothing
        or age > OLDEST  # guard: an old plan wipes nothing
    ):
        raise RefusedError(
            f"the plan of {decision.at} is older than what is known of the hosts now, or too old; nothing is wiped",
            hint="run it again: gpuadmin semester-reset --resume",
        )


def refuse_running(decision: Decision, facts: Facts) -> None:
    """Raise RefusedError if somebody who leaves still runs something."""
    names = set(decision.names)
    for host, running in facts.processes().items():
        still = sorted(names & set(running))
        if still:  # guard: who still runs something is not wiped
            raise RefusedError(
                f"{host}: {', '.join(still)} still run something; nothing is wiped",
                hint="gpuadmin semester-reset --resume --phase end-sessions",
            )
