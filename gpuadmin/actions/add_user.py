"""Give people accounts: new ones, or those that a run before this one did not bring everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.accounts import requests as accounts
from gpuadmin.accounts.importing import read_keys, read_people
from gpuadmin.actions.shared.accounts import converge, perform, uids_elsewhere
from gpuadmin.options import Options
from gpuadmin.session import opened
from gpuadmin.text import counted


def add_user(
    options: Options, names: Sequence[str], *, source: str | None, keys: Sequence[str], fields: Mapping[str, Any]
) -> int:
    """Add the people named, with these keys and fields, or those of a file. Returns the exit code."""
    given = {**fields, **({"keys": list(read_keys(keys))} if keys else {})}
    with opened("add-user", options) as session:
        requests = read_people(source) if source else [accounts.request({"name": name, **given}) for name in names]
        site = session.site
        registry = accounts.add(site.registry, site.settings, requests)
        if any(site.registry.find(request.name) is None for request in requests):
            registry = accounts.add(site.registry, site.settings, requests, uids_elsewhere(session))
        people = accounts.known(registry, [request.name for request in requests])
        title = f"Add {counted(len(people), 'account')} to {site.settings.name}"
        return perform(session, converge(session, registry, people, title=title))
