"""Who is root on the hosts, or could be: whom the site declares, and what a look for others saw."""

from __future__ import annotations

from datetime import date
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common.text import counted
from gpuadmin.config.groups import GROUPS
from gpuadmin.display import styled
from gpuadmin.errors import ExitCode
from gpuadmin.privileges import ROOT, Answer, Finding, findings, ignored
from gpuadmin.results import RunResult
from gpuadmin.session import Session


def declared(session: Session) -> dict[str, Any]:
    """Who may be root according to the site: protected accounts that are not in users.yml, and declared admins until
    their last day. No person is meant to be root.
    """
    today = date.today()
    registry = session.site.registry
    return {
        "gpuadmin_declared": [
            one
            for one in session.site.settings.protected
            if registry.find(one) is None  # guard: a person who is protected is not meant to be root
        ]
        + [
            one.name
            for one in session.site.settings.admins or ()
            # guard: who is no longer an admin is not meant to be root
            if one.sudo and (one.until is None or one.until >= today)
        ]
    }


class Seen:
    """What a look for privileges saw: its findings, and for each host what is not known."""

    def __init__(self, found: list[Finding], hidden: int, answers: dict[str, Answer], unknown: Answers) -> None:
        self.found = found
        self.hidden = hidden
        self.answers = answers
        self.unknown = unknown

    @classmethod
    def of(cls, session: Session, run: RunResult) -> Seen:
        """Given the run, return what its hosts answered, as far as it is understood."""
        inventory = session.site.inventory
        groups = {name: {host.name for host in inventory.group(name)} for name in GROUPS}
        asked = [name for name in run.hosts if any(name in members for members in groups.values())]
        heard = Answers.of(run.hosts, asked, "privileges")
        # a host that provision could not set up has still said who is root there
        answers = {name: found for name, found in run.reported("privileges").items() if found and name in asked}
        unknown = {name: why for name, why in heard.unknown.items() if name not in answers}
        found, hidden = ignored(findings(answers, groups), session.site.settings.drift.ignore)
        return cls(found, hidden, answers, Answers(answers, unknown, heard.failed & unknown.keys()))

    @property
    def hosts(self) -> set[str]:
        return {host for one in self.found for host in one.hosts}

    @property
    def code(self) -> ExitCode:
        return self.unknown.code

    def document(self) -> dict[str, Any]:
        return {
            "found": [one.document() for one in self.found],
            "ignored": self.hidden,
            "aside": {host: answer["aside"] for host, answer in self.answers.items() if answer["aside"]},
            "unknown": {host: answer["unknown"] for host, answer in self.answers.items() if answer["unknown"]},
            "silent": dict(self.unknown.unknown),
        }

    @property
    def roots(self) -> list[Finding]:
        """Those by which somebody is root, or could be."""
        return [one for one in self.found if one.rank == ROOT]

    def show(self, session: Session, *, roots_only: bool = False) -> None:
        """Who is root, or could be, first; then what else differs, and what nobody knows."""
        console = session.console
        roots = self.roots
        rest = [one for one in self.found if one.rank != ROOT]
        if roots:
            console.print(styled(("Root, or could be:", "bold red")))
        elif not self.answers:  # guard: where no host answered nobody is said to be nobody -> False
            console.print(styled(("Root, or could be: not known, no host answered", "magenta")))
        else:
            where = counted(len(self.answers), "host that answered", "hosts that answered")
            console.print(f"Root, or could be: nobody that the site does not declare, on {where}")
        self._lines(session, roots, "bold red")
        if rest and not roots_only:
            console.print(styled(("Not as it was set up:", "yellow")))
            self._lines(session, rest, "yellow")
        if self.hidden:
            console.print(f"{counted(self.hidden, 'line')} hidden by drift.ignore in gpuadmin.yml")
        for host, why in self.unknown.unknown.items():
            console.print(styled((f"{host}: who is root there is not known", "magenta"), f": {why}"))
        for words, hosts in self._aside().items():
            console.print(styled(("Not checked", "dim"), f": {', '.join(hosts)}: {words}"))

    def _aside(self) -> dict[str, list[str]]:
        """What was not looked at, in words, and where."""
        found: dict[str, list[str]] = {}
        for host, answer in self.answers.items():
            for words in (*(f"{part}: {why}" for part, why in answer["unknown"].items()), *answer["aside"]):
                found.setdefault(words, []).append(host)
        return found

    @staticmethod
    def _lines(session: Session, found: list[Finding], style: str) -> None:
        for one in found:
            session.console.print(styled("  ", (", ".join(one.hosts), style), f": {one.line}"))
