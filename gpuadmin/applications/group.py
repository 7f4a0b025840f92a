"""The group's list: which row belongs to whom, and which rows are one person's or two people's. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """A row of the group's list; None: the list does not have it."""

    line: int
    name: str | None
    student_id: str | None
    email: str | None


@dataclass(frozen=True)
class Group:
    """The group's list. `doubtful`: line -> why nobody can say whose row it is."""

    members: tuple[Member, ...]
    by_email: Mapping[str, Member]
    by_id: Mapping[str, Member]
    doubtful: Mapping[int, str]

    @classmethod
    def of(cls, members: Sequence[Member]) -> Group:
        emails: dict[str, set[str]] = defaultdict(set)
        ids: dict[str, set[str]] = defaultdict(set)
        for member in members:
            if member.email is not None and member.student_id is not None:
                emails[member.student_id].add(member.email.casefold())
                ids[member.email.casefold()].add(member.student_id)
        doubtful = {}
        for member in members:
            if len(addresses := emails.get(member.student_id or "", set())) > 1:
                doubtful[member.line] = f"student id {member.student_id} has {listed(addresses)} in the group's list"
            elif len(numbers := ids.get((member.email or "").casefold(), set())) > 1:
                doubtful[member.line] = f"{member.email} has the student ids {listed(numbers)} in the group's list"
        # the last of an address or id counts: the one that says more
        full = sorted(members, key=lambda one: one.email is not None and one.student_id is not None)
        return cls(
            tuple(members),
            {one.email.casefold(): one for one in full if one.email is not None},
            {one.student_id: one for one in full if one.student_id is not None},
            doubtful,
        )

    @property
    def decided(self) -> set[str]:
        """The student ids for which the list has their owner's address."""
        return {number for number, one in self.by_id.items() if one.email and one.line not in self.doubtful}


def listed(words: Collection[str]) -> str:
    """Given words, return them as a phrase, in their order: `a and b`."""
    return " and ".join(sorted(words))
