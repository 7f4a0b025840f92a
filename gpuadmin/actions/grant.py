"""Give somebody GPUs of a node until a time. The node chooses them, opens them, and takes them back by itself."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuadmin.accounts.requests import known
from gpuadmin.actions.shared.grants import gpu_words, look
from gpuadmin.actions.shared.queue import away, controller, way_back
from gpuadmin.answers import Answers
from gpuadmin.common.text import as_fields, clock, counted, listed
from gpuadmin.config.queue import takes_jobs
from gpuadmin.errors import ConfigError, HostFailedError, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.pending import meaning
from gpuadmin.plan import PlanBuilder
from gpuadmin.records import CONFIRMED, NOTHING, history
from gpuadmin.session import Session, opened
from gpuadmin.who import who

LONGEST = 200  # characters of a reason, as nodes take it


@dataclass(frozen=True)
class Granting:
    """What the command line asks for. `number`: so many; or `ids`; or a MIG device of the profile `mig`. `hours` or
    `until`, as it was typed."""

    name: str
    host: str
    number: int
    ids: Sequence[str]
    hours: int | None
    until: str | None
    reason: str
    mig: str = ""


def grant(options: Options, request: Granting) -> int:
    """Grant it. Returns the exit code."""
    with opened("grant", options) as session:
        (user,) = known(session.site.registry, [request.name])
        if user.locked:  # guard: who is locked is granted nothing
            raise RefusedError(f"{user.name} is locked", hint=f"gpuadmin unlock-user {user.name}")
        hosts = session.site.inventory.limited(request.host, "HOST")
        if len(hosts) != 1 or "gpu" not in hosts[0].groups:
            raise ConfigError(f"{request.host} is not the name of a node", hint="name one host of the group gpu")
        host = hosts[0].name
        if len(request.reason) > LONGEST or not request.reason.isprintable():
            raise ConfigError(f"--reason: at most {LONGEST} printable characters, in one line")
        until = end(request, datetime.now())
        wanted: dict[str, Any] = {
            "id": _id(session), "user": user.name, "uid": user.uid, "until": int(until.timestamp()),
            "who": who(), "number": request.number, "gpus": list(request.ids), "reason": request.reason,
            **({"mig": request.mig} if request.mig else {}),
        }  # fmt: skip
        # guard: an admin grants no GPU that the queue would give to somebody else
        if takes_jobs(session.site.settings, session.site.inventory.hosts, hosts[0]):
            return _exception(session, host, wanted)
        answers, run = look(session, {host: wanted})
        if host not in answers.known:
            return report(session, run, {}, unknown=[answers])
        new = _find_grant(answers, host, wanted["id"])
        if new is None:
            raise HostFailedError(f"{host} does not say which GPU it would grant", hint="gpuadmin runs --log")
        if run.hosts[host].status == "ok":  # the answer to an earlier try was lost, and the node has kept the grant
            gpus = gpu_words(new["gpus"], answers.known[host]["gpus"])
            session.console.print(f"{host} has granted it already: {gpus} until {clock(new['until'])} ({new['id']}).")
            return report(session, run, {"grant": new, "id": new["id"]}, advice="gpuadmin grants")
        builder = PlanBuilder(f"Grant {counted(len(new['gpus']), 'GPU')} of {host} to {user.name}")
        builder.add(host, f"{gpu_words(new['gpus'], answers.known[host]['gpus'])} until {clock(wanted['until'])}")
        for gpu, people in answers.known[host].get("held", {}).items():
            if people:
                what = gpu_words([gpu], answers.known[host]["gpus"])
                builder.warn(f"{what} is open now in programs of {listed(people)}, which go on")
        session.plan(builder.build())
        session.confirm()  # guard: a grant begins once that is confirmed
        run = session.run("grant", [host], {"gpuadmin_grant": {host: wanted}}, check=session.check)
        # what the node gave: another admin may have been quicker, and it has chosen others
        given = _find_grant(Answers.of(run.hosts, [host], "grants"), host, wanted["id"])
        if given is None:  # guard: what may have been granted is not granted once more without a word
            session.console.print(
                f"It is not known whether {host} has granted it. The same command again finds it, if it has, or"
                f" grants it; gpuadmin grants shows it as {wanted['id']}."
            )
        return report(session, run, {"grant": given, "id": wanted["id"]}, advice="gpuadmin grants")


def _exception(session: Session, host: str, wanted: Mapping[str, Any]) -> int:
    """Have Slurm give it, as a job in that person's name, which starts now or not at all. Returns the exit code."""
    if wanted["gpus"] or wanted.get("mig"):
        raise RefusedError(f"Slurm chooses which GPUs of {host} somebody has", hint="say how many: --gpus")
    if not wanted["reason"]:
        why = f"{host} is in the queue: say why {wanted['user']} does not have to wait"
        raise ConfigError(why, hint="--reason TEXT")
    keeper = controller(session)
    seen = away(session, [host])
    if seen.unknown:  # guard: nobody comes before all others where nobody knows who is there
        raise HostFailedError(f"{keeper}: {seen.unknown}", hint="gpuadmin queue")
    if host in seen.closed:
        back = way_back(seen.closed[host]).replace("NODE", host)
        raise RefusedError(f"{host} takes no jobs: {seen.closed[host]}", hint=back)
    builder = PlanBuilder(f"Give {counted(wanted['number'], 'GPU')} of {host} to {wanted['user']} out of turn")
    builder.add(host, f"until {clock(wanted['until'])}, as a job of Slurm's: {wanted['reason']}")
    if seen.jobs.get(host):
        builder.warn(f"there now: {', '.join(seen.jobs[host])}; if too few GPUs are free nothing is done")
    session.plan(builder.build())
    session.confirm()  # guard: somebody comes before all others once that is confirmed
    given = {name: wanted[name] for name in ("id", "user", "uid", "until", "who", "reason")}
    asked = {"gpuadmin_exception": {**given, "node": host, "gpus": wanted["number"]}}
    run = session.run("grant", [keeper], asked, check=session.check)
    answers = Answers.of(run.hosts, [keeper], "queue")
    jobs = answers.known.get(keeper, {}).get("jobs", ())
    job = next((one for one in jobs if (one.get("exception") or {}).get("id") == wanted["id"]), None)
    return report(session, run, {"grant": job, "id": wanted["id"]}, advice="gpuadmin queue")


def _id(session: Session) -> str:
    """The grant's id, by the run that asks for it. Where the outcome of the same command of the same admin is not known
    it is the first such one's: its node may have written the grant before the connection broke.
    """
    first = session.begun().id
    for run, result in history(session.site.runs):
        if run["verb"] != "grant" or run["check"] or run["id"] == session.begun().id or run["who"] != who():
            continue
        if meaning(run["arguments"]) != meaning(sys.argv[1:]):
            continue
        # its outcome is known: the same again is one more
        if run["dismissed"] or as_fields((result or {}).get("result")).get("grant"):
            break
        if (result or {}).get("reached") in (NOTHING, CONFIRMED):
            continue
        # guard: what may have been granted is found by the same command -> first
        first = run["id"]
    return hashlib.sha256(first.encode()).hexdigest()[:8]


def _find_grant(answers: Answers, host: str, id: str) -> Mapping[str, Any] | None:
    """The grant of this id, as its node says it is; None: it has none, or has not said."""
    return next((one for one in answers.known.get(host, {}).get("grants", ()) if one["id"] == id), None)


def end(request: Granting, now: datetime) -> datetime:
    """When it ends, in the admin's own time. Raises ConfigError for what is not a time, or one that is over."""
    if request.hours is not None:
        # elapsed time: local time leaves out an hour, or has one twice, when clocks change
        return datetime.fromtimestamp(now.timestamp() + request.hours * 3600)
    text = request.until or ""
    if text == "tonight":
        text = "23:59"
    for form in ("%H:%M", "%Y-%m-%d", "%Y-%m-%dT%H:%M"):
        try:
            found = datetime.strptime(text, form)
        except ValueError:
            continue
        if form == "%H:%M":
            found = now.replace(hour=found.hour, minute=found.minute, second=0, microsecond=0)
        elif form == "%Y-%m-%d":  # that day counts
            found = found.replace(hour=23, minute=59)
        if found <= now:
            raise ConfigError(
                f"--until {request.until} is in the past", hint="name a later time, as this machine's clock has it"
            )
        return found
    raise ConfigError(f"--until {request.until!r} is not a time", hint="tonight, HH:MM, YYYY-MM-DD or YYYY-MM-DDTHH:MM")
