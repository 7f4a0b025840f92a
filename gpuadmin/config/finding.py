"""What `gpuadmin check` finds, and the words for what several sections can get wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gpuadmin.config.load import Site
from gpuadmin.similar import did_you_mean


@dataclass(frozen=True)
class Finding:
    """Something that is wrong (error) or will bite later (warning), and the way out."""

    level: Literal["error", "warning"]
    where: str
    message: str
    hint: str


def nobody_in(site: Site, where: str, groups: Iterable[str]) -> Iterator[Finding]:
    """Groups of people that nobody is in."""
    there = {user.group for user in site.registry.registry.users if user.group is not None}
    for group in dict.fromkeys(groups):
        if group not in there:
            hint = did_you_mean(group, there) or "gpuadmin change-user NAME --group GROUP"
            yield Finding("warning", where, f"nobody in users.yml has `group: {group}`", hint)
