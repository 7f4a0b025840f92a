"""End grants of GPUs before their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuadmin.actions.shared.grants import clock, gpu_words, look
from gpuadmin.actions.shared.queue import controller
from gpuadmin.answers import Answers
from gpuadmin.config.queue import there
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened

JOB = "slurm-"  # how the grant of a job is called


def revoke(options: Options, names: Sequence[str]) -> int:
    """End all grants of these people, and those with these ids. Returns the exit code."""
    with opened("revoke", options) as session:
        answers, _ = look(session, {})
        builder = PlanBuilder("Revoke grants")
        ending: dict[str, list[str]] = {}
        jobs: dict[str, None] = {}  # one may be on several nodes
        queued = there(session.site.settings, session.site.inventory.hosts)
        seen = set()
        for host, answer in answers.known.items():
            for one in answer["grants"]:
                matched = {one["id"], one["user"]} & set(names)
                if not matched:
                    continue
                seen |= matched
                what = gpu_words(one["gpus"], answer["gpus"])
                if queued and one["id"].startswith(JOB):
                    # guard: a grant of a job's ends with the job, or Slurm would give nobody that GPU
                    jobs.setdefault(one["id"][len(JOB) :], None)
                    builder.add(host, f"{what} of {one['user']}: cancel job {one['id'][len(JOB) :]} of the queue")
                    continue
                ending.setdefault(host, []).append(one["id"])
                builder.add(host, f"{what} of {one['user']}, granted until {clock(one['until'])} (grant {one['id']})")
        people = {user.name for user in session.site.registry.registry.users}
        unknown = [name for name in names if name not in seen and name not in people]
        if unknown and not answers.unknown:
            raise ConfigError(f"no grant has the id {unknown[0]!r}, and nobody has that name", hint="gpuadmin grants")
        if ending or jobs:
            builder.warn("what holds a GPU keeps it; gpuadmin idle --act tells its person, and ends it after a notice")
        if not session.plan(builder.build()):
            return nothing(session, [answers])
        session.confirm()
        run = session.run("grant", list(ending), {"gpuadmin_grants_end": ending}, check=session.check)
        after = Answers.of(run.hosts, list(ending), "grants")
        left = {host: {one["id"] for one in answer["grants"]} for host, answer in after.known.items()}
        # guard: a grant that a node still has is not said to have ended -> ending
        ended = {host: [one for one in ids if one not in left[host]] for host, ids in ending.items() if host in left}
        if jobs:
            keeper = controller(session)
            cancelled = session.run("grant", [keeper], {"gpuadmin_cancel": list(jobs)}, check=session.check)
            run = replace(cancelled, hosts={**run.hosts, **cancelled.hosts})
            if not cancelled.code:
                ended[keeper] = [f"{JOB}{one}" for one in jobs]
        return report(session, run, {"ended": ended}, unknown=[answers])
