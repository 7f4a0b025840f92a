"""What an admin sees of a renumbering before it happens. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.common.text import counted, listed, size_words, the_page
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.power import Decision
from gpuadmin.takeover.plans.renumbering import Moves, begun, find_kept


def plan(
    seen: Mapping[str, Any],
    moves: Moves,
    under_way: Sequence[str],
    opening: Mapping[str, Sequence[str]],
    decision: Decision,
    strange: Sequence[str] = (),
    *,
    queued: bool = False,
) -> Plan:
    """What an admin is shown before anything happens. ``opening``: host → whom it opens again, and no more.

    ``decision``: which hosts boot, in which order, and which cannot. ``strange``: see ``find_strange``. ``queued``:
    whether there is a queue.
    """
    builder = PlanBuilder("Give people one uid on every host", destroys=True)
    for words in strange:
        builder.warn(words)
    for host, names in opening.items():
        builder.add(host, f"open again {listed(names)}: closed by a run that ended before it had changed anything")
    kept = find_kept({host: seen[host] for host in under_way if seen[host]["whole"]}, begun(seen))
    for name, why in sorted(kept.items()):
        builder.warn(f"{name} stays locked out: {why}")
    for host in under_way:
        people, out = sorted(seen[host]["people"]), sorted(set(kept) & set(seen[host]["people"]))
        going = listed([one for one in people if one not in out]) or "accounts that were closed"
        if not seen[host]["whole"]:
            builder.add(host, f"go on with what was begun: {listed(people) or going}")
        else:
            builder.add(host, f"keep {listed(out)} locked out" if out == people != [] else f"open again {going}")
        if seen[host]["problem"]:
            builder.warn(f"{host}: its last boot could not do it: {seen[host]['problem']}")
    if any(answer["rest"] for answer in seen.values()):
        builder.warn("what was begun comes to its end first: run it again for anybody else")
    for host, of in moves.hosts.items():
        if host not in under_way:
            builder.add_all([host], steps(seen[host], of))
        for name in sorted(set(of) & set(seen[host]["renamed"])):
            for words in seen[host]["renamed"][name]["left"]:
                builder.warn(f"{host}: {words}")
    if agree(seen, moves):
        builder.warn(
            "all hosts agree on these people's uids already: keeping them costs nothing and is often right. "
            f"accounts.uid_first: 1000 in gpuadmin.yml, and their uids in users.yml: {the_page('renumber')}"
        )
    for name, why in sorted(moves.left.items()):
        builder.warn(f"{name} is left alone: {why}")
    for number, step in enumerate(decision.steps, start=1):
        when = "; ids change at that boot, before anybody can log in" if step.step == "switch" else ""
        builder.add_all(step.hosts, [f"{number}. {step.does}{when}"])
    for host, why in decision.refused.items():
        builder.warn(f"{host} cannot reboot: {why}")
    renamed = {
        one["was"] for host, of in moves.hosts.items() for name, one in seen[host]["renamed"].items() if name in of
    }
    if renamed:
        builder.warn(
            f"what {listed(sorted(renamed))} wrote into files themselves keeps the old paths: conda and virtual "
            "environments, crontab lines, scripts"
        )
    if renamed and queued:
        builder.warn(
            f"Slurm cannot rename {listed(sorted(renamed))}: associations and past jobs keep the old name, and "
            "gpuadmin provision makes the new one"
        )
    if moves.hosts:
        builder.warn(f"{counted(len(moves.people), 'person', 'people')} cannot log in until it has ended")
    if decision.steps:
        builder.warn(f"{listed(decision.hosts)} reboot: whatever anybody runs there ends, with a minute's notice")
    for host, answer in sorted(seen.items()):
        if host in moves.hosts:
            for line in notes(host, answer):
                builder.warn(line)
    return builder.build()


def agree(seen: Mapping[str, Mapping[str, Any]], moves: Moves) -> bool:
    """Whether every host says the same of everybody who would be renumbered: then keeping the uids is the cheap way."""
    claimed: dict[str, set[int]] = {}
    for people in moves.hosts.values():
        for name, (old, new) in people.items():
            if old != new:
                claimed.setdefault(name, set()).add(old)
    for answer in seen.values():
        for name, uids in claimed.items():
            if name in answer["has"]:
                uids.add(answer["has"][name])
    taken = [uid for uids in claimed.values() for uid in uids]
    return bool(claimed) and all(len(uids) == 1 for uids in claimed.values()) and len(set(taken)) == len(taken)


def steps(answer: Mapping[str, Any], moves: Mapping[str, tuple[int, int]]) -> list[str]:
    """What happens on one host, a line for each person, with what they have there."""
    lines = []
    for name, (old, new) in moves.items():
        renamed = answer["renamed"].get(name)
        words = [f"{renamed['was']} becomes {name}"] if renamed else []
        words += [f"home {before} becomes {after}" for before, after in renamed["homes"]] if renamed else []
        parts = []
        for tree, people in sorted(answer.get("trees", {}).items()):
            if name in people:
                entries, size = people[name]
                parts.append(f"{counted(entries, 'file')}, {size_words(size)} in {tree}")
        swap = " (changes places)" if any(pair[0] == new for other, pair in moves.items() if other != name) else ""
        if old != new or not renamed:
            words += [f"uid and gid {old} become {new}{swap}", *(parts or ["no files"])]
        lines.append(f"{name}: {'; '.join(words)}")
    return lines


def notes(host: str, answer: Mapping[str, Any]) -> list[str]:
    """What an admin has to know of a host beside."""
    lines = [f"{host}: {text}" for text in answer.get("notes", [])]
    lines += [f"{host}: not looked at: {text}" for text in answer.get("unknown", [])]
    lines += [f"{host}: {text} names such a uid or name: look at it yourself" for text in answer.get("written", [])]
    return lines
