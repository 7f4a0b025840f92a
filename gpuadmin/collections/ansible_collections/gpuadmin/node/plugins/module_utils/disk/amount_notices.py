"""Telling people how much of their amounts they have: on the storage host what was measured, on a node at log-in."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from gpuadmin.common.text import listed, size_words

from ..fields import valid_name
from ..files import make_directory
from ..homes.directories import check_root
from ..limits.amounts import (
    DOCKER,
    HOME,
    LANGUAGES,
    NEARLY,
    OF_DOCKER,
    OF_HOMES,
    SCRATCH,
    Amounts,
    Used,
    of_node,
    warning,
)
from ..mounts import read_mountinfo
from ..paths import STATE
from . import home_quotas
from .owned import give
from .people import People


def homes(amounts: Amounts, found: People, state: str = STATE) -> dict[str, Used]:
    """What people who have an amount have in their homes: as the kernel counts it, else as it was measured."""
    result = {}
    for (name, place), held in found.items():
        most = amounts.most(HOME, name) if place == "homes" and valid_name(name) else None
        if most is not None and amounts.homes is not None:
            result[name] = Used(held.bytes, most, when=held.when, partial=held.partial)
    return {**result, **home_quotas.used(state)}


def tell_homes(amounts: Amounts, found: People, state: str = STATE, mountinfo: str | None = None) -> None:
    """Write beside the homes what nodes show each person of theirs. Raises NodeError, OSError (a full disk)."""
    if amounts.homes is None:
        return
    table = read_mountinfo() if mountinfo is None else mountinfo
    # guard: nothing is written where the disk of the homes is not mounted
    if not check_root(amounts.homes, amounts.mountpoint, table):
        return
    used = homes(amounts, found, state)
    numbers = {f"{name}.json": (name, json.dumps(vars(one))) for name, one in used.items()}
    _converge(os.path.join(amounts.homes, OF_HOMES), {**numbers, **_warnings(HOME, used)})


def tell_node(amounts: Amounts | None, directory: str = OF_DOCKER, state: str = STATE) -> None:
    """Write on a node what people read at log-in who have nearly all of what they may have of its disk."""
    texts: dict[str, tuple[str, str]] = {}
    for place in (DOCKER, SCRATCH) if amounts is not None else ():
        assert amounts is not None
        there = [one for one in amounts.directories(place) if amounts.bounds(place) and os.path.isdir(one)]
        names = {name for one in there for name in os.listdir(one) if valid_name(name)}
        found = {name: of_node(amounts, place, name, state) for name in names}
        warnings = _warnings(place, {name: one for name, one in found.items() if one is not None})
        for file, (name, text) in warnings.items():
            texts[file] = (name, texts.get(file, ("", ""))[1] + text)
    _converge(directory, texts)


def over(used: Mapping[str, Used]) -> list[str]:
    """Who has more than they may have, in one sentence; nothing if nobody has."""
    names = [
        f"{name} ({size_words(one.bytes)} of {size_words(one.most)})"
        for name, one in sorted(used.items())
        if one.bytes > one.most
    ]
    return [f"above it from the start, and told so: {listed(names)}"] if names else []


def _warnings(place: str, used: Mapping[str, Used]) -> dict[str, tuple[str, str]]:
    """File → whose it is, and its text."""
    return {
        f"{name}.{language}": (name, warning(place, one, language))
        for name, one in used.items()
        if one.percent >= NEARLY
        for language in LANGUAGES
    }


def _converge(directory: str, wanted: Mapping[str, tuple[str, str]]) -> None:
    """Have these files in a directory, each its person's alone, and no others; without any, no directory."""
    if wanted:
        make_directory(directory, 0o711, sync=False)
    elif not os.path.isdir(directory):
        return
    for name in os.listdir(directory):
        if name not in wanted:
            os.unlink(os.path.join(directory, name))
    for file, (name, text) in wanted.items():
        give(os.path.join(directory, file), name, text.encode())
    if not wanted:
        os.rmdir(directory)
