"""What the shell offers for a word. It is asked at every Tab: quickly, and whatever is wrong, quietly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pathlib import Path

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MOST_SOURCES = 20  # files of an inventory


def people(*, locked: bool | None = None, removed: bool = False) -> Completion:
    """Complete the names of registered people; with `locked` only of those who are, or are not.

    `removed`: those too who were removed, whose homes may be in a backup.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = _registered(ctx.params.get("site"), "users")
        names = [name for name, entry in found if locked in (None, bool(entry.get("locked")))]
        names += [name for name, _ in _registered(ctx.params.get("site"), "retired")] if removed else []
        return _offered(ctx, param, incomplete, names)

    return complete


def hosts() -> Completion:
    """Complete the names of hosts."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _offered(ctx, param, incomplete, _inventory(ctx.params.get("site"))[0])

    return complete


def pattern() -> Completion:
    """Complete the last name of an Ansible pattern, `node1,!gpu`: a host or a group."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before = incomplete[: max(incomplete.rfind(sign) for sign in ",!&") + 1]
        names, groups = _inventory(ctx.params.get("site"))
        return [
            CompletionItem(before + name)
            for name in [*names, *groups]
            if name.startswith(incomplete[len(before) :]) and name not in before.split(",")
        ]

    return complete


def run_ids() -> Completion:
    """Complete the ids of past runs."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            from gpuadmin.config.find import find_runs_directory, find_site

            names = [path.name for path in find_runs_directory(find_site(ctx.params.get("site"))).iterdir()]
            # an id begins with its time; journals of terms and the memory of uids are not runs
            ids = sorted((name for name in names if re.match(r"\d{8}T\d{6}-", name)), reverse=True)
        except Exception:  # a site that cannot be read completes nothing, and a shell shows no error
            return []
        return _offered(ctx, param, incomplete, ids)

    return complete


def paths(kind: str) -> Completion:
    """Let the shell complete a path; `kind` is `file` or `dir`."""
    return lambda ctx, param, incomplete: [CompletionItem(incomplete, type=kind)]


def _offered(ctx: click.Context, param: click.Parameter, incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Those names that begin so and were not given yet."""
    given = ctx.params.get(param.name or "") or ()
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and name not in given]


def _registered(site: str | None, key: str) -> list[tuple[str, dict[str, Any]]]:
    """The names and entries of users.yml below a key."""
    try:
        from gpuadmin.config.find import USERS_FILE, find_site

        data = _yaml(find_site(site) / USERS_FILE)
        return [(entry["name"], entry) for entry in data[key] if isinstance(entry["name"], str)]
    except Exception:  # no site, no file, no YAML: nothing to offer, and nothing to print on somebody's command line
        return []


def _inventory(site: str | None) -> tuple[list[str], list[str]]:
    """The hosts and groups that the YAML files of an inventory name; Ansible knows all, and takes a second."""
    names: dict[str, None] = {}
    groups: dict[str, None] = {}
    try:
        from gpuadmin.config.find import find_site

        sources = sorted((find_site(site) / "inventory").glob("*.y*ml"))[:_MOST_SOURCES]
    except Exception:  # without a site there is nothing to complete
        return [], []
    for source in sources:
        try:
            for group, found in _groups(_yaml(source)):
                groups[group] = None
                names.update(dict.fromkeys(found))
        except Exception:  # the other files may be right
            continue
    return [name for name in names if "[" not in name], list(groups)


def _groups(data: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Every group of an inventory's document, with its own hosts."""
    for name, group in data.items():
        yield str(name), [str(host) for host in (group or {}).get("hosts") or {}]
        yield from _groups((group or {}).get("children") or {})


def _yaml(path: Path) -> Any:
    # PyYAML's parser in C and no validation: ruamel.yaml and pydantic alone would take longer than a Tab may
    import yaml

    from gpuadmin.reading import read_limited

    return yaml.load(read_limited(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
