"""End grants of GPUs before their time."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.grants import gpu_words, look
from gpuadmin.actions.shared.queue import controller
from gpuadmin.answers import Answers
from gpuadmin.common.text import clock
from gpuadmin.config.load import Site
from gpuadmin.config.queue import there
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened

JOB = "slurm-"  # how the grant of a job is called


def _ending(site: Site) -> str:
    """What ends what holds a GPU whose grant is over."""
    if not site.inventory.group("monitor"):
        return "ask its person to end it: without a monitor host gpuadmin does not see who holds it"
    if site.settings.mail is None:
        return "ask its person to end it: without `mail` in gpuadmin.yml idle --act tells nobody"
    return "gpuadmin idle --act tells its person, and ends it after a notice"


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
                if one["id"].startswith(JOB):
                    number = one["id"][len(JOB) :]
                    if queued:
                        jobs.setdefault(number, None)
                        builder.add(host, f"{what} of {one['user']}: cancel job {number} of the queue")
                    else:
                        builder.warn(
                            f"{what} of {one['user']} on {host} belongs to job {number} of the queue, and gpuadmin.yml "
                            f"has no section slurm: it stays. `scancel {number}` on the queue's host ends it"
                        )
                    # guard: a grant of a job's ends with the job, or Slurm would give nobody that GPU
                    continue
                ending.setdefault(host, []).append(one["id"])
                builder.add(host, f"{what} of {one['user']}, granted until {clock(one['until'])} (grant {one['id']})")
        people = {user.name for user in session.site.registry.registry.users}
        unknown = [name for name in names if name not in seen and name not in people]
        if unknown and not answers.unknown:
            raise ConfigError(
                f"no grant has the id {unknown[0]!r}, and nobody has that name",
                hint="gpuadmin grants shows them; a node is named by --limit",
            )
        if ending or jobs:
            builder.warn(f"what holds a GPU keeps it; {_ending(session.site)}")
        if not session.plan(builder.build()):
            return nothing(session, [answers])
        session.confirm()  # guard: a grant ends before its time once that is confirmed
        run = session.run("grant", list(ending), {"gpuadmin_grants_end": ending}, check=session.check)
        after = Answers.of(run.hosts, list(ending), "grants")
        left = {host: {one["id"] for one in answer["grants"]} for host, answer in after.known.items()}
        # guard: a grant that a node still has is not said to have ended -> ending
        ended = {host: [one for one in ids if one not in left[host]] for host, ids in ending.items() if host in left}
        # guard: who stops it while grants end cancels no job -> jobs
        jobs = {} if run.interrupted else jobs
        if jobs:
            keeper = controller(session)
            cancelled = session.run("grant", [keeper], {"gpuadmin_cancel": list(jobs)}, check=session.check)
            run = run.then(cancelled)
            if not cancelled.code:
                ended[keeper] = [f"{JOB}{one}" for one in jobs]
        return report(session, run, {"ended": ended}, unknown=[answers])
