"""The mails to applicants: the account that they have, or what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from gpuadmin.applications.matching import Entry
from gpuadmin.common.mail.letter import Letter
from gpuadmin.config.inventory import Host
from gpuadmin.config.login import list_login_nodes
from gpuadmin.config.queue import any_granted, find_self_service, takes_jobs
from gpuadmin.config.schema import Registry, Settings, User
from gpuadmin.semester.term import standings


def welcome(
    user: User,
    settings: Settings,
    hosts: Sequence[Host],
    *,
    person: str | None = None,
) -> Letter:
    """Given somebody with a new account and all of the inventory, return the mail that tells them all they need.

    `person`: how they are addressed, if not by the note, which for an applicant is their name. Raises ConfigError if
    there is no node to log in to.
    """
    assert user.email is not None  # the caller has checked
    term = settings.term
    stays = term is None or standings(Registry(users=[user]), settings)[0].stays
    nodes = [host for host in hosts if "gpu" in host.groups]
    login = list_login_nodes(settings, nodes)
    queued = [host.name for host in hosts if takes_jobs(settings, hosts, host)]
    beside = [host.name for host in nodes if host.name not in queued]
    return Letter(
        template="welcome",
        address=user.email,
        keys=(f"welcome {user.name} {user.email.casefold()} {term.name if term is not None else ''}".strip(),),
        names=(user.name,),
        summary=f"the account {user.name}, how to log in, Docker and conda",
        values={
            "account": user.name,
            "person": person or user.note or user.name,
            "expires": user.expires,
            "term_ends": term.deadline if term and not stays and term.deadline >= date.today() else None,
            "docker": user.docker and settings.docker.enabled,
            "login": [node.address for node in login],
            "nodes": settings.mail.login if settings.mail and settings.mail.login else [one.name for one in login],
            "port": login[0].port,
            "queue": settings.slurm is not None,
            "queue_nodes": queued if beside else [],  # named only where others are not in it
            "granted": any_granted(settings, hosts),
            "self_service": find_self_service(settings, hosts),
            "dashboard": settings.metrics.dashboard.enabled
            and settings.metrics.dashboard.listen == "all"
            and any("monitor" in host.groups for host in hosts),
        },
    )


def asking(entry: Entry, settings: Settings) -> Letter | None:
    """Given an incomplete application, return the mail that says what is missing; None if there is no address.

    The same is asked once in a term; something else that is missing is another mail.
    """
    if entry.email is None:
        return None
    rules, term = settings.applications, settings.term
    asked = ",".join(sorted(entry.missing))
    return Letter(
        template="incomplete",
        address=entry.email,
        keys=(f"incomplete {entry.email.casefold()} {asked} {term.name if term is not None else ''}".strip(),),
        names=(entry.email,),
        summary=entry.lacks,
        values={
            "person": entry.person,
            "missing": list(entry.missing),
            "domains": list(rules.domains),
            "form": rules.form,
        },
    )
