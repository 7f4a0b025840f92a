"""Find the host that is not like the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common.sections import SECTIONS
from gpuadmin.common.text import counted, listed
from gpuadmin.comparison.odd import GROUPS, ODD, UNDECIDED, Comparison, compare
from gpuadmin.comparison.words import between_groups, lines, unknown_lines
from gpuadmin.config.groups import GROUPS as OF_SITE
from gpuadmin.console import echo
from gpuadmin.display import styled
from gpuadmin.errors import ConfigError, ExitCode
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import Session, opened

_STYLES = {ODD: "bold yellow", UNDECIDED: "magenta", GROUPS: "dim"}


def compare_hosts(options: Options, patterns: Sequence[str], sections: Sequence[str]) -> int:
    """Read what the hosts are set to, and show what differs. `patterns`: hosts; none: all. `sections`: these, whole.
    Returns the exit code.
    """
    for name in sections:
        if name not in SECTIONS:
            raise ConfigError(f"{name!r} is not a section", hint=f"the sections are {', '.join(SECTIONS)}")
    with opened("compare", options, changes=False) as session:
        asked = _hosts(session, patterns)
        ignore = session.site.settings.compare.ignore
        # a section that is asked for by name is compared, whatever the site ignores
        wanted = list(sections) or [name for name in SECTIONS if name not in ignore]
        builder = PlanBuilder("Compare hosts")
        builder.add_all(asked, ["read what it is set to"])
        session.planned(builder.build())
        run = session.run("compare", asked, {"gpuadmin_sections": wanted}, check=True, quiet=True)
        answers = Answers.of(run.hosts, asked, "settings")
        groups = {host.name: set(host.groups) & set(OF_SITE) for host in session.hosts}
        found = compare(answers.known, groups, wanted, ignore)
        if not options.json:
            _show(session, found, groups, sections, answers)
        code = (
            run.code
            or answers.code  # guard: a host that did not answer is not said to be like the others
            or (ExitCode.DIFFERS if found.differing else ExitCode.DONE)
            # guard: what could not be read is not said to be alike
            or (ExitCode.HOST_FAILED if found.unknown else ExitCode.DONE)
        )
        return report(session, run, _document(found, answers), code=code, show=lambda: None)


def _hosts(session: Session, patterns: Sequence[str]) -> list[str]:
    """The hosts to compare. Raises ConfigError for fewer than two."""
    hosts = session.those(patterns, *OF_SITE)
    if len(hosts) < 2:
        raise ConfigError(
            f"{counted(len(hosts), 'host')} cannot be compared",
            hint="name two or more, or none for all; gpuadmin status shows the hosts",
        )
    return hosts


def _document(found: Comparison, answers: Answers) -> dict[str, Any]:
    return {
        "differing": found.differing,
        "found": [one.document() for one in found.found],
        "ignored": found.hidden,
        "unknown": {host: dict(sections) for host, sections in found.unknown.items()},
        "silent": dict(answers.unknown),
    }


def _show(
    session: Session,
    found: Comparison,
    groups: Mapping[str, Collection[str]],
    whole: Sequence[str],
    answers: Answers,
) -> None:
    console = session.console
    for section, of_section in lines(found, groups, whole).items():
        console.print(styled((section, "bold"), f": {SECTIONS[section].replace('`', '')}"))
        for line in of_section:
            console.print(styled("  ", (line.hosts, _STYLES[line.how]), f": {line.text}"))
            for part in line.below:
                console.print(styled(f"      {part}"))
    if not found.differing and answers.known:
        where = counted(len(answers.known), "host that answered", "hosts that answered")
        console.print(f"Nothing differs within a group, on {where}.")
    if apart := between_groups(found, whole):
        counts = ", ".join(f"{section} {number}" for section, number in apart.items())
        console.print(
            styled(("Different between groups, the same within each", "dim"), f": {counts}; --section shows it")
        )
    if found.hidden:
        console.print(f"{counted(found.hidden, 'setting')} hidden by compare.ignore in gpuadmin.yml")
    for words in unknown_lines(found.unknown, answers.unknown):
        console.print(styled((words, "magenta")))
    if found.differing:
        count = counted(len(found.differing), "host differs", "hosts differ")
        echo(f"{count}: {listed(found.differing)}", err=True)
