"""Whose turn it is, in figures: what people have used lately, and who comes before somebody (`gpu why`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import queue
from .gpu_words import clock, gpus

MOST = 5  # people who are named
_ASK = ("sshare", "--all", "--noheader", "--parsable2", "--format=Account,User,RawShares,RawUsage")


def lines(jobs: Sequence[Mapping[str, Any]], user: str, words: Mapping[str, str]) -> list[str]:
    """Of somebody who waits: who ends next, their own share, and who comes first. ``jobs``: all, as queue.jobs has
    them. Raises NodeError."""
    running = [one for one in jobs if one["gpus"] and not one["waits"] and one["end"] is not None]
    waiting = [one for one in jobs if one["waits"]]
    first = next((one for one in waiting if one["user"] == user), None)
    if first is None:
        return []
    found = []
    if running:
        one = min(running, key=lambda one: one["end"])
        found.append(words["next-end"].format(one["user"], gpus(one["gpus"], words), one["nodes"], clock(one["end"])))
    rows = [line.strip().split("|") for line in queue.ask(_ASK).splitlines()]
    used: dict[str, float] = {}
    groups: dict[str, tuple[int, float]] = {}
    total = 0.0
    for account, person, shares, usage in (row for row in rows if len(row) == 4 and row[3].isdecimal()):
        if person:
            used[person] = used.get(person, 0) + int(usage)
        elif account == "root":
            total = float(usage)
        elif shares.isdecimal():
            groups[account] = int(shares), float(usage)

    def percent(amount: float) -> str:
        return f"{100 * amount / total:.0f}" if total else "0"

    own, group = groups.get(first["group"], (0, 0.0))
    all_shares = sum(one for one, _ in groups.values())
    found.append(words["share"].format(percent(used.get(user, 0)), first["group"], own, all_shares, percent(group)))
    ahead = dict.fromkeys(one["user"] for one in waiting if one["place"] < first["place"])
    named = [f"{name} ({percent(used.get(name, 0))} %)" for name in list(ahead)[:MOST]]
    if named:
        more = [words["more-people"].format(len(ahead) - MOST)] if len(ahead) > MOST else []
        found.append(words["before-you"].format(", ".join([*named, *more])))
    return found
