"""Let people stay for the next term."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from gpuadmin.accounts.requests import known
from gpuadmin.actions.shared.accounts import converge, perform
from gpuadmin.options import Options
from gpuadmin.semester.term import current_term, extended
from gpuadmin.session import opened


def extend_term(options: Options, names: Sequence[str], until: date | None) -> int:
    """Let people stay beyond the running term, until that day or the next term's end. Returns the exit code."""
    with opened("extend-term", options) as session:
        settings = session.site.settings
        term = current_term(settings)
        people = [extended(user, term, until) for user in known(session.site.registry, names)]
        change = converge(
            session,
            session.site.registry.changed(settings, update=people),
            people,
            title=f"Let {', '.join(user.name for user in people)} stay beyond {term.name}",
            describe=lambda user, _: [
                f"{user.name}: stays beyond {term.name}, "
                + (f"valid until {user.expires}" if user.expires else "without an end")
            ],
            homes=False,
        )
        return perform(session, change)
