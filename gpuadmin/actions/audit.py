"""Say which box is which, what moved since it was recorded, and who has power over the hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuadmin.actions.shared.labels import write_labels
from gpuadmin.actions.shared.now import plain_table
from gpuadmin.actions.shared.privileges import Seen as Privileges
from gpuadmin.actions.shared.privileges import declared
from gpuadmin.answers import Answers, combine_exit_codes
from gpuadmin.auditing.hardware import FILE, KINDS, Box, Change, Seen, changes, load, merged, save, summary
from gpuadmin.auditing.policy import against
from gpuadmin.common.text import counted, listed
from gpuadmin.config.groups import GROUPS
from gpuadmin.config.inventory import Host
from gpuadmin.console import echo
from gpuadmin.display import styled
from gpuadmin.errors import ConfigError, ExitCode
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened


@dataclass(frozen=True)
class _Found:
    """What an audit found. `record`: what the site had recorded; None if nothing yet."""

    hosts: list[Host]
    record: Mapping[str, Box] | None
    seen: Mapping[str, Seen]
    moved: list[Change]
    power: Privileges
    ssh: list[tuple[str, str]]
    exposed: Answers
    boxes: Answers

    @property
    def any(self) -> bool:
        """Whether somebody has to look at something."""
        readable = any(answer["found"] for answer in self.exposed.known.values())
        return bool(self.moved or self.power.roots or self.ssh or readable)

    @property
    def partly(self) -> bool:
        """Whether a host that answered does not know some of it."""
        return bool(
            any(seen.unknown for seen in self.seen.values())
            or any(answer["unknown"] for answer in self.exposed.known.values())
            or any(answer["unknown"] for answer in self.power.answers.values())
        )

    def document(self) -> dict[str, Any]:
        return {
            "hosts": {host.name: _box(host, self.seen.get(host.name)) for host in self.hosts},
            "recorded": self.record is not None,
            "moved": [one.document() for one in self.moved],
            "power": [one.document() for one in self.power.roots],
            "ssh": [{"host": host, "words": words} for host, words in self.ssh],
            "exposed": dict(self.exposed.known),
            "unknown": {**self.exposed.unknown, **self.power.unknown.unknown, **self.boxes.unknown},
        }


def audit(options: Options, patterns: Sequence[str], *, record: bool, labels: Path | None = None) -> int:
    """Look at the hosts, and with `record` write what is where; or write `labels` for them. Returns the exit code: 6
    where something was found.
    """
    if labels is not None:
        return write_labels(options, patterns, labels)
    with opened("audit", options, changes=record) as session:
        asked = _hosts(session, patterns)
        recorded = load(session.site.directory)
        builder = PlanBuilder("Audit hosts")
        builder.add_all(asked, ["look which machine it is, and who has power over it"])
        session.planned(builder.build())
        run = session.look("audit", asked, declared(session), quiet=True)
        found = _found(session, run, asked, recorded)
        if not options.json:
            _show(session, found, record=record)
        written = _record(session, found) if record else False
        code = (
            run.code
            # guard: a host that is silent is not clean
            or combine_exit_codes([found.boxes, found.exposed, found.power.unknown])
            or (ExitCode.DIFFERS if found.any else ExitCode.DONE)
            # guard: what could not be looked at is not clean
            or (ExitCode.HOST_FAILED if found.partly else ExitCode.DONE)
        )
        return report(session, run, found.document() | {"written": written}, code=code, show=lambda: None)


def _hosts(session: Session, patterns: Sequence[str]) -> list[str]:
    hosts = session.those(patterns, *GROUPS)
    if not hosts:
        raise ConfigError("this names no host of the site", hint="gpuadmin status shows its hosts")
    return hosts


def _found(session: Session, run: RunResult, asked: Sequence[str], recorded: Mapping[str, Box] | None) -> _Found:
    boxes = Answers.of(run.hosts, asked, "hardware")
    seen = {host: Seen.of(answer) for host, answer in boxes.known.items()}
    power = Privileges.of(session, run)
    policy = session.site.settings.audit.ssh
    return _Found(
        [host for host in session.hosts if host.name in asked],
        recorded,
        seen,
        changes(recorded, seen) if recorded else [],
        power,
        [(host, words) for host, answer in power.answers.items() for words in against(policy, answer["sshd"])],
        Answers.of(run.hosts, asked, "exposed"),
        boxes,
    )


def _record(session: Session, found: _Found) -> bool:
    """Show what the record would say otherwise, ask, and write it whole. Returns whether it was written."""
    old = found.record or {}
    new = merged(old, found.seen, [host.name for host in session.site.inventory.hosts])
    plan = _plan(old, new)
    if not session.plan(plan):
        known = f"{FILE} says all of that already."
        session.console.print(f"No host answered: {FILE} is not written." if found.record is None else known)
        return False
    session.confirm()
    if session.check:  # guard: a check records no hardware
        return False
    save(session.site.directory, new)
    return True


def _plan(old: Mapping[str, Box], new: Mapping[str, Box]) -> Plan:
    builder = PlanBuilder(f"Write {FILE}")
    for host in sorted({*old, *new}):
        if host not in new:
            builder.add(host, "is not in the inventory any more, and leaves the record")
        elif host not in old:
            builder.add(host, summary(new[host]))
        else:
            for kind, (one, many) in KINDS.items():
                was, now = old[host].get(kind, {}), new[host].get(kind, {})
                if more := now.keys() - was.keys():
                    builder.add(host, f"{counted(len(more), one, many)} more: {listed(sorted(more))}")
                if less := was.keys() - now.keys():
                    builder.add(host, f"{counted(len(less), one, many)} less: {listed(sorted(less))}")
    return builder.build(question=f"Write {FILE}?")


def _box(host: Host, seen: Seen | None) -> dict[str, Any]:
    """A host as it is shown: what the inventory says, and what is in it."""
    of_inventory = {name: host.variables.get(name) for name in ("place", "owner", "purpose")}
    parts = None if seen is None else {kind: dict(parts) for kind, parts in seen.parts.items()}
    return {**of_inventory, "parts": parts, "unknown": None if seen is None else dict(seen.unknown)}


def _show(session: Session, found: _Found, *, record: bool) -> None:
    console = session.console
    rows = []
    for one in found.hosts:
        box = _box(one, found.seen.get(one.name))
        parts: Mapping[str, Mapping[str, str]] = box["parts"] or {}
        chassis = ", ".join(f"{words} {name}".strip() for name, words in parts.get("chassis", {}).items())
        counts = {kind: str(len(parts[kind])) if kind in parts else "?" for kind in ("gpu", "disk", "network")}
        rows.append([one.name, *(str(box[name] or "—") for name in ("place", "owner", "purpose")), chassis or "—"])
        rows[-1] += [counts["gpu"], counts["disk"], counts["network"]]
    titles = ("Host", "Place", "Owner", "Purpose", "Chassis", "GPUs", "Disks", "NICs")
    console.print(plain_table(titles, rows, right=titles[5:]))
    _lines(
        session, "Moved, swapped or gone since it was recorded", [(moved.host, moved.words) for moved in found.moved]
    )
    if found.record is None and not record:
        console.print(f"Nothing is recorded yet, so nothing can have moved: gpuadmin audit --record writes {FILE}.")
    found.power.show(session, roots_only=True)
    _lines(session, "sshd is not as audit.ssh in gpuadmin.yml wants it", found.ssh)
    readable = []
    for host, answer in found.exposed.known.items():
        readable += [(host, f"{it['path']} ({it['owner']}, mode {it['mode']})") for it in answer["found"]]
        readable += [(host, f"and {number} more of {whose}") for whose, number in answer["more"].items()]
    _lines(session, "Private, and others can read it", readable)
    for host, answer in found.exposed.known.items():
        for path, why in answer["unknown"].items():
            console.print(styled(("Not looked at to the end", "dim"), f": {host}: {path}: {why}"))
    not_known: dict[tuple[str, str], list[str]] = {}
    for host, seen in found.seen.items():
        for kind, why in seen.unknown.items():
            not_known.setdefault((KINDS[kind][1] if kind in KINDS else kind, why), []).append(host)
    for (kinds, why), hosts in not_known.items():
        console.print(styled(("Not known", "dim"), f": {listed(hosts)}: {kinds}: {why}"))
    silent = {**found.exposed.unknown, **found.boxes.unknown}
    for host, why in silent.items():
        console.print(styled((f"{host}: unknown", "magenta"), f": {why}"))
    if found.any:
        total = len(found.moved) + len(found.power.roots) + len(found.ssh) + len(readable)
        echo(f"{counted(total, 'finding')}", err=True)


def _lines(session: Session, title: str, lines: Sequence[tuple[str, str]]) -> None:
    if lines:
        session.console.print(styled((f"{title}:", "bold yellow")))
    for host, words in lines:
        session.console.print(styled("  ", (host, "yellow"), f": {words}"))
