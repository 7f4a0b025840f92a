"""What a reset did, for the terminal, for programs and to keep: who went, who was kept and why, what is pending."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gpuadmin.common.text import size_words
from gpuadmin.config.schema import Settings
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.display import make_table, styled
from gpuadmin.jsontext import json_text
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.machine import PHASES, WIPE, State
from gpuadmin.semester.planner import Leaver
from gpuadmin.templates import load_report_template
from gpuadmin.terminal import SafeConsole


def document(state: State, settings: Settings, facts: Facts) -> dict[str, Any]:
    """Given a journal's state and what the hosts say now, return the whole report."""
    decision = state.decision
    assert decision is not None
    found = next((one for one in facts.backups() if one["name"] == decision.backup), None)
    wiped: list[dict[str, Any]] = []
    gone = WIPE in state.done
    for one, name in [(leaver, name) for leaver in decision.leaving for name in _list_homes(leaver, found)]:
        home = None if found is None else found["homes"].get(name)
        wiped.append(
            {
                "name": name,
                "of": one.name,
                "uid": one.uid,
                "home": _of_home(home, facts, gone=gone and name not in state.kept),
                "problem": state.kept.get(name),
                "files": 0 if home is None else home["files"],
                "bytes": 0 if home is None else home["bytes"],
                "verified": None if home is None else home["verified"],
            }
        )
    return {
        "cluster": settings.name,
        "begun": state.since,
        "last": state.last,
        "who": list(state.who),
        "term": decision.term,
        "phases": {phase: state.word(phase) for phase in PHASES},
        "leaving": wiped,
        "staying": dict(decision.staying),
        "kept": dict(decision.kept),
        "bytes_freed": sum(one["bytes"] for one in wiped if one["home"] == "wiped")
        + sum(int(values["bytes"]) for values in state.deleted.values()),
        "scratch": dict(state.deleted),
        "backup": None if found is None else {
            "name": found["name"], "path": found["path"], "created": found["created"],
            "until": until(found["created"], settings.backups.days), "copies": dict(found["copies"]),
            "uncopied": {host: dict(homes) for host, homes in found.get("uncopied", {}).items()},
        },
        "leftovers": facts.waiting(),
        "unknown": dict(facts.problems),
        "pending": {phase: dict(hosts) for phase, hosts in state.pending.items() if hosts},
    }  # fmt: skip


def _of_home(home: Mapping[str, Any] | None, facts: Facts, *, gone: bool) -> str:
    """What became of somebody's home: wiped, kept, none, or unknown. `home`: as it is in the backup."""
    if facts.homes_unknown is not None:
        return "unknown"
    if home is None:
        return "none"
    return "wiped" if gone else "kept"


def _list_homes(one: Leaver, backup: Mapping[str, Any] | None) -> list[str]:
    """Somebody's home, and what of theirs was beside it when it was backed up: such a name has a dot, a user's has
    not."""
    homes = (backup or {}).get("homes", {})
    beside = (name for name, home in homes.items() if name.startswith(f"{one.name}.") and home["uid"] == one.uid)
    return [one.name, *sorted(beside)]


def until(created: str, days: int) -> str:
    """Until when a backup that was made then stays, as a date."""
    return str((datetime.fromisoformat(created) + timedelta(days=days)).date())


def write(journal: Journal, report: Mapping[str, Any]) -> Path:
    """Write report.json and report.html beside the journal; return the page's path."""
    template = load_report_template(
        "semester.html.j2",
        size=size_words,
        time=lambda at: f"{at[:16].replace('T', ' ')} UTC",  # as the journal has it
    )
    page = template.render(report)
    write_atomically(journal.directory / "report.json", json_text(report) + "\n",
                     mode=0o600)  # fmt: skip
    write_atomically(journal.directory / "report.html", page, mode=0o600)
    return journal.directory / "report.html"


def show(console: SafeConsole, report: Mapping[str, Any], page: Path | None) -> None:
    """Print the report for people."""
    table = make_table("Left", "uid", "Home", "Files", "Size", right=("uid", "Files", "Size"))
    for one in report["leaving"]:
        home = one["home"] if not one["problem"] else f"kept: {one['problem']}"
        # what restores made beside somebody's home is nobody by itself
        name = one["name"] if one["name"] == one["of"] else f"{one['of']}, beside the home: {one['name']}"
        table.add_row(name, str(one["uid"]), home, str(one["files"]), size_words(one["bytes"]))
    console.print(table)
    kept = {name: reason for name, reason in report["kept"].items() if name not in report["staying"]}
    for title, names in (("Stays", report["staying"]), ("Kept", kept)):
        for name, reason in names.items():
            console.print(f"{title}: {name}: {reason}")
    if report["backup"]:
        backup = report["backup"]
        copies = ", ".join(f"{host} (verified {when})" for host, when in backup["copies"].items())
        console.print(f"Backup: {backup['name']} in {backup['path']}, until {backup['until']}")
        console.print(f"Second copy: {copies}" if copies else styled(("No second copy on another host.", "yellow")))
        for host, homes in backup["uncopied"].items():
            for name, why in homes.items():
                console.print(styled((f"No second copy of {name} on {host}:", "yellow"), f" {why}"))
    console.print(f"Freed: {size_words(report['bytes_freed'])}")
    for name in report["leftovers"]:
        console.print(
            styled(("Left by a wipe, because its backup lacks it:", "yellow"), f" {name} (gpuadmin clear-leftovers)")
        )
    for host, reason in report["unknown"].items():
        console.print(styled(("Not known:", "yellow"), f" what {host} has: {reason}"))
    for phase, hosts in report["pending"].items():
        for host, reason in hosts.items():
            console.print(styled(("Pending:", "yellow"), f" {phase} on {host}: {reason}"))
    if page is not None:
        console.print(f"Report: {page}")
