"""Decisions about a term: who stays beyond its end, and who leaves. Pure; what a reset and the notices agree on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from gpuadmin.config.schema import Registry, Settings, Term, User
from gpuadmin.errors import ConfigError


@dataclass(frozen=True)
class Standing:
    """Whether somebody stays beyond the term's end, and why: `reason` is a phrase for a plan."""

    user: User
    stays: bool
    reason: str


def current_term(settings: Settings) -> Term:
    """The running term. Raises ConfigError if the site names none."""
    if settings.term is None:
        raise ConfigError(
            "gpuadmin.yml: term: is missing", hint="name the semester: term: {name: 2026-2, deadline: 2026-12-31}"
        )
    return settings.term


def standings(registry: Registry, settings: Settings, keep: Collection[str] = ()) -> list[Standing]:
    """Given the registry, say of everybody whether they stay beyond the running term's end.

    Those stay who are protected, named in `keep`, extended for this term (`stays`), or whose account was promised for
    longer than the term (`expires`). Everybody else leaves, also those who have no end date of their own. Raises
    ConfigError if the site has no term.
    """
    term = current_term(settings)
    return [_standing(user, settings, term, keep) for user in registry.users]


def _standing(user: User, settings: Settings, term: Term, keep: Collection[str]) -> Standing:
    if settings.is_protected(user.name):
        return Standing(user, True, "protected")
    if user.name in keep:
        return Standing(user, True, "kept by --keep")
    if user.stays == term.name:
        return Standing(user, True, f"extended beyond {term.name}")
    if user.expires is not None and user.expires > term.deadline:
        return Standing(user, True, f"valid until {user.expires}")
    return Standing(user, False, f"leaves at the end of {term.name}")


def extended(user: User, term: Term, until: date | None) -> User:
    """Given somebody and until when (None: to the end of the next term), return them as staying beyond this term.

    Without `until` nobody's account is shortened. Raises ConfigError if a date is needed and not known.
    """
    if until is None:
        until = _default_end(user, term)
    elif until <= term.deadline:
        raise ConfigError(
            f"--until {until} is not after the end of {term.name} ({term.deadline})",
            hint="extend-user sets an earlier end",
        )
    return user.model_copy(update={"stays": term.name, "expires": until})


def _default_end(user: User, term: Term) -> date | None:
    if user.expires is None:
        return None
    if term.next is not None:
        return max(user.expires, term.next.deadline)
    if user.expires > term.deadline:
        return user.expires
    raise ConfigError(
        f"'{user.name}' is valid until {user.expires}, and the site does not say when the next term ends",
        hint="give --until DATE, or set term.next in gpuadmin.yml",
    )
