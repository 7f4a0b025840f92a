"""End grants of GPUs before their time."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.grants import clock, gpu_words, look
from gpuadmin.answers import Answers
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def revoke(options: Options, names: Sequence[str]) -> int:
    """End all grants of these people, and those with these ids. Returns the exit code."""
    with opened("revoke", options) as session:
        answers, _ = look(session, {})
        builder = PlanBuilder("Revoke grants")
        ending: dict[str, list[str]] = {}
        seen = set()
        for host, answer in answers.known.items():
            for one in answer["grants"]:
                matched = {one["id"], one["user"]} & set(names)
                if not matched:
                    continue
                seen |= matched
                ending.setdefault(host, []).append(one["id"])
                what = gpu_words(one["gpus"], answer["gpus"])
                builder.add(host, f"{what} of {one['user']}, granted until {clock(one['until'])} (grant {one['id']})")
        people = {user.name for user in session.site.registry.registry.users}
        unknown = [name for name in names if name not in seen and name not in people]
        if unknown and not answers.unknown:
            raise ConfigError(f"no grant has the id {unknown[0]!r}, and nobody has that name", hint="gpuadmin grants")
        if ending:
            builder.warn("what holds a GPU keeps it; gpuadmin idle --act tells its person, and ends it after a notice")
        if not session.plan(builder.build()):
            return nothing(session, [answers])
        session.confirm()
        run = session.run("grant", list(ending), {"gpuadmin_grants_end": ending}, check=session.check)
        after = Answers.of(run.hosts, list(ending), "grants")
        left = {host: {one["id"] for one in answer["grants"]} for host, answer in after.known.items()}
        # guard: a grant that a node still has is not said to have ended -> ending
        ended = {host: [one for one in ids if one not in left[host]] for host, ids in ending.items() if host in left}
        return report(session, run, {"ended": ended}, unknown=[answers])
