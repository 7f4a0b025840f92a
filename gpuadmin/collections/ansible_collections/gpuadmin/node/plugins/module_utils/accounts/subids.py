"""Decisions about /etc/subuid and /etc/subgid (subuid(5): ``owner:start:count``, owner a name or a uid).

Pure functions. A range that exists and is valid is kept, since files belong to it; a new one starts at
``base + (uid - uid_first) * size``, so it is the same on every node and at every time. What overlaps or cannot be
read is reported and never changed.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..textdb import number, split_lines

LAST_ID = 2**32 - 2  # 2**32 - 1 is (uid_t) -1, "no user"


@dataclass(frozen=True)
class Range:
    """One line. ``problem`` says why newuidmap would not read it; start and count are then a best guess, or 0."""

    line: int
    owner: str
    start: int
    count: int
    problem: str | None = None

    @property
    def end(self) -> int:
        return self.start + self.count

    def __str__(self) -> str:
        return f"{self.start}-{self.end - 1}"


def parse(text: str) -> list[Range]:
    """Given a file's text, return its ranges and its malformed lines; comments and blank lines are left out."""
    found = []
    for place, (body, ending) in enumerate(split_lines(text), start=1):
        if not body.strip() or body.startswith("#"):
            continue
        parts = body.split(":")
        owner, start, count = [*parts, "", "", ""][:3]
        first, length = number(start.strip()), number(count.strip())
        problem = None
        if (
            len(parts) != 3 or not owner or owner != owner.strip()  # guard: a line of more fields is not a range
        ):
            problem = "is not owner:start:count"
        elif first is None or length is None or start != start.strip() or count != count.strip():
            problem = "has a start or count that is not a number"
        elif "\r" in ending:
            problem = "ends with a carriage return, which newuidmap does not read"
        elif (
            length == 0
            # guard: a range beyond the last id is none
            or first + length - 1 > LAST_ID
        ):
            problem = "is empty or goes beyond the last id"
        found.append(Range(place, owner, first or 0, length or 0, problem))
    return found


class Space:
    """The ids that are taken: ranges and single ids; ``clash`` costs a binary search."""

    def __init__(self, ranges: Iterable[Range], ids: Iterable[int]):
        self._merged: list[tuple[int, int]] = []
        for start, end in sorted((found.start, found.end) for found in ranges if found.count):
            if self._merged and start <= self._merged[-1][1]:
                self._merged[-1] = (self._merged[-1][0], max(end, self._merged[-1][1]))
            else:
                self._merged.append((start, end))
        self._ids = sorted(set(ids))

    def real_id(self, start: int, end: int) -> int | None:
        place = bisect.bisect_left(self._ids, start)
        return self._ids[place] if place < len(self._ids) and self._ids[place] < end else None

    def clash(self, start: int, end: int) -> str | None:
        """Why start..end-1 is not free, in words, or None."""
        if start < 0 or end - 1 > LAST_ID:  # guard: a new range ends with the last id
            return f"{start}-{end - 1} goes beyond the last id"
        taken = self.real_id(start, end)
        if taken is not None:  # guard: a new range holds no real id
            return f"{start}-{end - 1} contains the real id {taken}"
        place = bisect.bisect_left(self._merged, (end, -1))
        if place and self._merged[place - 1][1] > start:  # guard: a new range overlaps none
            return f"{start}-{end - 1} overlaps a range that is there"
        return None

    def add(self, start: int, end: int) -> None:
        bisect.insort(self._merged, (start, end))


@dataclass
class SubidPlan:
    """Lines to append per file, problems of the files, and problems of single users."""

    append: dict[str, list[str]] = field(default_factory=lambda: {"subuid": [], "subgid": []})
    remove: dict[str, set[int]] = field(default_factory=lambda: {"subuid": set(), "subgid": set()})
    operations: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    conflicts: dict[str, str] = field(default_factory=dict)


def _file_problems(kind: str, ranges: list[Range], space: Space, plan: SubidPlan, owners: Mapping[str, str]) -> None:
    for found in ranges:
        if found.problem:
            plan.problems.append(f"/etc/{kind} line {found.line} {found.problem}")
        elif found.count:
            taken = space.real_id(found.start, found.end)
            if taken is not None:
                text = f"/etc/{kind} line {found.line}: {found} contains the real id {taken}"
                plan.problems.append(text)
                # guard: a range that holds a real id is said
                plan.conflicts.setdefault(owners.get(found.owner, ""), text)
    widest: Range | None = None
    for found in sorted((one for one in ranges if one.count), key=lambda one: (one.start, one.line)):
        if widest is not None and found.start < widest.end:
            text = f"/etc/{kind} lines {widest.line} and {found.line} overlap: {widest} and {found}"
            plan.problems.append(text)
            # The same person twice, by name and by uid, shares ids with nobody.
            # guard: ranges of two people that overlap are said
            if owners.get(widest.owner, widest.owner) != owners.get(found.owner, found.owner):
                for one in (widest, found):
                    plan.conflicts.setdefault(owners.get(one.owner, ""), text)
        if widest is None or found.end > widest.end:
            widest = found


def plan_subids(
    subuid: str,
    subgid: str,
    wanted: Iterable[tuple[str, int]],
    *,
    base: int,
    size: int,
    uid_first: int,
    real_ids: Iterable[int],
    drop: Iterable[tuple[str, int]] = (),
) -> SubidPlan:
    """Given both files and the (name, uid) pairs that need a range, return what to append.

    ``drop``: removed accounts without Docker data, whose lines may go. ``real_ids``: every uid and gid in use.
    """
    plan = SubidPlan()
    wanted, drop = list(wanted), list(drop)
    files = {"subuid": parse(subuid), "subgid": parse(subgid)}
    for name, uid in drop:
        for kind, ranges in files.items():
            plan.remove[kind].update(one.line for one in ranges if one.owner in (name, str(uid)) and not one.problem)
            kept = [one for one in ranges if one.line not in plan.remove[kind]]
            if len(kept) != len(ranges):
                files[kind] = kept
                plan.operations.setdefault(name, []).append(f"remove the {kind} range")
    owners = {key: name for name, uid in wanted for key in (name, str(uid))}
    real = list(real_ids)
    spaces = {kind: Space(ranges, real) for kind, ranges in files.items()}
    mine: dict[str, dict[str, list[Range]]] = {"subuid": {}, "subgid": {}}
    for kind, ranges in files.items():
        _file_problems(kind, ranges, spaces[kind], plan, owners)
        for found in ranges:
            if not found.problem and found.owner in owners:
                mine[kind].setdefault(owners[found.owner], []).append(found)
    plan.conflicts.pop("", None)
    for name, uid in wanted:
        if name in plan.conflicts:
            continue
        have = {kind: [one for one in mine[kind].get(name, []) if one.count >= size] for kind in files}
        pairs = {kind: {(one.start, one.count) for one in have[kind]} for kind in files}
        if pairs["subuid"] & pairs["subgid"]:  # guard: a range that is there is kept
            continue
        if have["subuid"] and have["subgid"]:
            plan.problems.append(f"user {name}: the ranges in /etc/subuid and /etc/subgid differ; both are kept")
            continue
        if have["subuid"] or have["subgid"]:
            model = (have["subuid"] or have["subgid"])[0]
            start, count = model.start, model.count
            missing = ["subgid"] if have["subuid"] else ["subuid"]
        else:
            start, count, missing = base + (uid - uid_first) * size, size, ["subuid", "subgid"]
        clash = next(filter(None, (spaces[kind].clash(start, start + count) for kind in missing)), None)
        if clash:  # guard: a range that clashes is not written
            plan.conflicts[name] = f"no range in /etc/{' and /etc/'.join(missing)}: {clash}"
            continue
        for kind in missing:
            spaces[kind].add(start, start + count)  # guard: a new range is known to the next one
            plan.append[kind].append(f"{name}:{start}:{count}")
            plan.operations.setdefault(name, []).append(f"add {kind} {start}-{start + count - 1}")
    return plan


def edited(text: str, append: list[str], remove: set[int]) -> str:
    """The file's text with whole lines removed (by number) and appended; everything else byte for byte."""
    pairs = [pair for place, pair in enumerate(split_lines(text), start=1) if place not in remove]
    if append and pairs and not pairs[-1][1].endswith("\n"):
        pairs[-1] = (pairs[-1][0], pairs[-1][1] + "\n")
    return "".join(body + ending for body, ending in pairs) + "".join(f"{line}\n" for line in append)
