"""What the shell offers for NAME. It is asked at every Tab: quickly, and whatever is wrong, quietly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def people(*, locked: bool | None = None) -> Completion:
    """Complete the names of registered people; with `locked` only of those who are, or are not."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        given = ctx.params.get(param.name or "") or ()
        return [
            name
            for name, entry in _registered(ctx.params.get("site"))
            if name.startswith(incomplete) and name not in given and locked in (None, bool(entry.get("locked")))
        ]

    return complete


def _registered(site: str | None) -> list[tuple[str, dict[str, Any]]]:
    # PyYAML's parser in C and no validation: ruamel.yaml and pydantic alone would take longer than a Tab may
    try:
        import yaml

        from gpuadmin.config.find import USERS_FILE, find_site
        from gpuadmin.reading import read_limited

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        data = yaml.load(read_limited(find_site(site) / USERS_FILE), Loader=loader)
        return [(entry["name"], entry) for entry in data["users"] if isinstance(entry["name"], str)]
    except Exception:  # no site, no file, no YAML: nothing to offer, and nothing to say on somebody's command line
        return []
