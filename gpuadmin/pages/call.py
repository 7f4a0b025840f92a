"""A term's call for applications, and the survey that goes with it, written for a site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from gpuadmin.applications.questions import questions
from gpuadmin.config.login import Node
from gpuadmin.config.schema import Settings
from gpuadmin.errors import ConfigError
from gpuadmin.pages.gpus import Gpus
from gpuadmin.pages.guide import contact
from gpuadmin.pages.render import markdown

NAME = "call-for-applications"
SURVEY = "survey"


@dataclass(frozen=True)
class Call:
    """What a call is for. `until`: the last day to apply; `deadline`: the last day of the accounts."""

    term: str | None
    deadline: date | None
    until: date | None = None
    members: str | None = None


def make_call(settings: Settings, today: date, *, coming: bool, until: date | None, members: str | None) -> Call:
    """Given settings and today, return the call for this term, or for the `coming` one.

    `until`: the last day to apply; `members`: where the group's applications are taken. Raises ConfigError if the term
    is over, or people could apply until after its end.
    """
    term = settings.term
    if coming and (term is None or term.next is None):
        raise ConfigError("gpuadmin.yml: term.next: is missing", hint="its name and its deadline: the term to call for")
    wanted = None if term is None else term.next if coming else term
    deadline = (None if coming else settings.applications.expires) or (wanted.deadline if wanted is not None else None)
    if deadline is not None and deadline < today:
        raise ConfigError(
            f"the accounts would end on {deadline}, which is past",
            hint="set the next term (term) in gpuadmin.yml, or give --next",
        )
    if until is not None and until < today:
        raise ConfigError(f"--until {until}: is in the past", hint="today or a later day, as YYYY-MM-DD")
    if until is not None and deadline is not None and until > deadline:
        hint = "an earlier day"
        if coming:
            hint += "; or a later term.next.deadline in gpuadmin.yml"
        elif term is not None and term.next is not None:
            hint += f"; or --next: the call is for {term.next.name} then, the term after this one"
        else:
            hint += "; or --next, once gpuadmin.yml says which term comes after this one (term.next: name, deadline)"
        raise ConfigError(f"--until {until}: is after the day on which the accounts end ({deadline})", hint=hint)
    return Call(None if wanted is None else wanted.name, deadline, until, members)


def call(
    language: str,
    settings: Settings,
    nodes: Sequence[Node],
    given: Call,
    *,
    gpus: Sequence[Gpus] = (),
    site: Path | None = None,
    survey: bool = False,
) -> str:
    """Given a language, settings and nodes, return the call as Markdown; with `survey` the questions for its form.

    `gpus`: what is known of them. `site`: whose own templates come first. Raises ConfigError.
    """
    values = {
        "cluster": settings.name,
        "nodes": [asdict(node) for node in nodes],
        "gpus": [asdict(one) for one in gpus],
        "docker": settings.docker.enabled,
        "term": given.term,
        "deadline": None if given.deadline is None else str(given.deadline),
        "until": None if given.until is None else str(given.until),
        "members": given.members,
        "form": settings.applications.form,
        "domains": list(settings.applications.domains),
        "questions": [asdict(one) for one in questions(settings, language)],
        "contact": contact(settings),
        "guide": None if settings.mail is None else settings.mail.guide,
    }
    return markdown("call", f"{SURVEY if survey else NAME}.{language}.md.j2", values, site)
