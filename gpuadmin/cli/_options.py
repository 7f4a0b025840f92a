"""Options that verbs share, and the object that carries them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True)
class Options:
    """What the shared options said."""

    site: str | None = None
    limit: str | None = None
    check: bool = False
    yes: bool = False
    json: bool = False
    verbose: int = 0
    ask_pass: bool = False
    ask_become_pass: bool = False


def site_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--site, for verbs that only read the site."""
    return click.option(
        "--site",
        metavar="DIR",
        help="The site's directory. [default: $GPUADMIN_SITE, or the nearest gpuadmin.yml upwards]",
    )(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--json"""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document; all else goes to stderr.")(
        function
    )


def run_options(*, changes: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of every verb that runs a playbook; they arrive as one `options` argument.

    `changes`: whether the verb can change something; the others take --check and --yes too, so that a script can
    give every verb the same options, but do not show them.
    """
    decorators: list[Callable[..., Any]] = [
        site_option,
        click.option("--limit", metavar="PATTERN", help="Only these hosts: names, groups, or an Ansible pattern."),
        json_option,
        click.option("-v", "--verbose", count=True, help="Say more; twice or more for Ansible's own details."),
        click.option("--ask-pass", is_flag=True, help="Ask for the ssh password of the admin account."),
        click.option("--ask-become-pass", is_flag=True, help="Ask for the sudo password of the admin account."),
    ]
    decorators += [
        click.option(
            "--check", is_flag=True, hidden=not changes, help="Show the plan and the differences; change nothing."
        ),
        click.option("-y", "--yes", is_flag=True, hidden=not changes, help="Do not ask for confirmation."),
    ]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        import functools

        @functools.wraps(function)
        def wrapper(
            site: str | None,
            limit: str | None,
            as_json: bool,
            verbose: int,
            ask_pass: bool,
            ask_become_pass: bool,
            check: bool = False,
            yes: bool = False,
            **arguments: Any,
        ) -> Any:
            options = Options(site, limit, check, yes, as_json, verbose, ask_pass, ask_become_pass)
            return function(options=options, **arguments)

        decorated: Callable[..., Any] = wrapper
        for decorator in reversed(decorators):
            decorated = decorator(decorated)
        return decorated

    return decorate
