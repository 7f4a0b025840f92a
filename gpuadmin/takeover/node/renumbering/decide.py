"""Who gets which ids on a host, by its account databases, and what is in the way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.subids import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import FIRST_HUMAN_UID, valid_name
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import Table, members, number

from . import obstacles
from .journal import Renumbering
from .obstacles import FILES

LISTS = {"group": (3,), "gshadow": (2, 3)}  # where these have names of people
PEOPLE = range(FIRST_HUMAN_UID, 65534)  # 65534 is nobody


@dataclass(frozen=True)
class Wanted:
    """``assumed``: the uid that their files have on this host where they have no account; 0: not known. ``was``: the
    name that they have here so far, if another. ``home_moves``: whether their home on the network gets the new one."""

    name: str
    uid: int
    assumed: int = 0
    was: str = ""
    home_moves: bool = False


@dataclass(frozen=True)
class Home:
    """What becomes of a home whose person gets another name: ``field``: what passwd says then, if another;
    ``directories``: before and after; ``left``: what keeps its name, in words."""

    field: str = ""
    directories: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Numbers:
    """How subordinate ids are counted from a uid: ``base + (uid - first) * size``."""

    first: int = 20000
    last: int = 49999
    base: int = 2147483648
    size: int = 65536

    def start(self, uid: int) -> int | None:
        """The first subordinate id of a uid; None outside of the range of people's."""
        return self.base + (uid - self.first) * self.size if self.first <= uid <= self.last else None


@dataclass(frozen=True)
class Decided:
    """``people``: who is renumbered. ``problems``: name → what is in the way. ``has``: name → the uid here, of all
    who are no system accounts."""

    people: tuple[Renumbering, ...]
    problems: Mapping[str, str]
    has: Mapping[str, int]


def decide(
    wanted: Sequence[Wanted],
    texts: Mapping[str, str | None],
    numbers: Numbers,
    homes: Mapping[str, Home] | None = None,
) -> Decided:
    """Given who is to have which uid and name, the databases, and what becomes of homes, return who gets which ids."""
    now, homes = Databases(texts), homes or {}
    problems: dict[str, str] = {}
    renames: dict[str, tuple[str, str]] = {}
    for one in wanted:
        home = homes.get(one.name, Home())
        words = home.problem or obstacles.name_problem(one.name, one.was, one.uid, now, texts) if one.was else None
        if words:
            problems[one.name] = words
        elif one.was and now.passwd.get(one.was) is not None:
            renames[one.was] = (one.name, home.field)
    texts = {**texts, **renamed(texts, renames)}  # all that follows goes by the new names
    data = Databases(texts)
    has = {name: uid for uid, names in data.names_by_uid.items() for name in names if uid in PEOPLE}
    people: dict[str, Renumbering] = {}
    for one in wanted:
        found = data.passwd.get(one.name)
        uid = one.assumed or None if found is None else number(found[2])
        if uid is None or not valid_name(one.name) or one.name in problems:
            continue
        has[one.name] = uid
        home = homes.get(one.name, Home())
        was = one.was if one.was in renames or home.directories else ""
        if not was and uid == one.uid and (not data.has_group(one.name) or data.gid(one.name) == one.uid):
            continue
        problem = obstacles.problem(one.was if one.was in renames else one.name, uid, one.uid, now)
        if problem is not None:
            problems[one.name] = problem
            continue
        group = data.gid(one.name) if data.has_group(one.name) else (one.assumed or None if found is None else None)
        people[one.name] = Renumbering(
            one.name, uid, one.uid, group, _subids(one.name, uid, one.uid, texts, numbers), found is not None,
            was, home.field if was else "", home.directories,
        )  # fmt: skip
    # guard: nobody is renumbered whose subordinate ids are also another's
    problems.update(obstacles.shared(people, data, texts))
    people = {name: one for name, one in people.items() if name not in problems}
    while True:  # whoever is refused keeps their ids, and so may be in another's way
        more = {name: words for name, words in obstacles.taken(people, data, texts).items() if name in people}
        if not more:
            return Decided(tuple(people.values()), problems, has)
        problems.update(more)
        for name in more:
            del people[name]


def _subids(
    name: str, old: int, new: int, texts: Mapping[str, str | None], numbers: Numbers
) -> tuple[tuple[str, int, int, int], ...]:
    """The ranges that are counted from the old uid; others stay, because files belong to them (decision 2)."""
    before, after = numbers.start(old), numbers.start(new)
    if before is None or after is None or before == after:
        return ()
    return tuple(
        (file, before, after, numbers.size)
        for file in FILES
        if any(
            one.owner in (name, str(old)) and not one.problem and (one.start, one.count) == (before, numbers.size)
            for one in parse(texts.get(file) or "")
        )
    )


def unmoved(expected: Mapping[str, Sequence[int]], has: Mapping[str, int]) -> tuple[Renumbering, ...]:
    """Those who keep their ids on this host, and are kept out all the same: elsewhere their files change hands."""
    return tuple(
        Renumbering(name, pair[0], pair[1], pair[1])
        for name, pair in sorted(expected.items())
        if pair[0] == pair[1] == has.get(name)
    )


def edited(texts: Mapping[str, str | None], people: Sequence[Renumbering]) -> dict[str, str]:
    """The databases with the new names and ids; again gives the same. Lines are found by names."""
    texts = {**texts, **renamed(texts, {one.was: (one.name, one.home) for one in people if one.was})}
    data = Databases(texts)
    for one in people:
        found = data.passwd.get(one.name)
        if found is None:
            continue
        before = number(found[3])
        if not data.has_group(one.name):
            data.add_group(one.name, one.new)
        elif (group := data.group.get(one.name)) is not None:
            data.group.set(one.name, [*group[:2], str(one.new), group[3]])
        if before not in (one.group, one.new) and before is not None:
            for shared in data.groups_by_gid.get(before, [])[:1]:  # what they may read as its member they still may
                if shared != one.name and one.name not in data.find_groups(one.name):
                    data.join(one.name, shared)
        data.passwd.set(one.name, [*found[:2], str(one.new), str(one.new), *found[4:]])
    result = data.texts()
    for file in FILES:
        text = texts.get(file)
        if text is not None:
            result[file] = _moved(file, text, people)
    return result


def renamed(texts: Mapping[str, str | None], names: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The databases with other names: name → the new one, and their home if that is another. Again gives the same.

    A line that has the new name already stays: some files were written before a cut, and others were not.
    """
    result: dict[str, str] = {}
    for kind, text in texts.items() if names else ():
        if text is None:
            continue
        if kind in FILES:
            lines = text.split("\n")
            for found in parse(text):
                if found.owner in names and not found.problem:
                    lines[found.line - 1] = f"{names[found.owner][0]}:{found.start}:{found.count}"
            result[kind] = "\n".join(lines)
            continue
        table = Table.parse(kind, text)
        for line in table.lines:
            if line.fields is None:
                continue
            fields = list(line.fields)
            fields[0], home = names.get(fields[0], (fields[0], ""))
            if kind == "passwd":
                fields[5] = home or fields[5]
            for place in LISTS.get(kind, ()):
                listed = members(fields[place])
                if any(one in names for one in listed):
                    fields[place] = ",".join(dict.fromkeys(names.get(one, (one, ""))[0] for one in listed))
            line.body = ":".join(fields)
        result[kind] = table.text()
    return result


def _moved(file: str, text: str, people: Sequence[Renumbering]) -> str:
    """/etc/subuid or /etc/subgid. A line of a uid becomes one of the name: it is the same line after a swap."""
    lines = text.split("\n")
    by_owner = {key: one for one in people for key in (str(one.old), one.name) if one.account}
    for found in parse(text):
        person = by_owner.get(found.owner)
        if person is None or found.problem:
            continue
        counted = {(name, before, count): after for name, before, after, count in person.subids}
        start = counted.get((file, found.start, found.count), found.start)
        lines[found.line - 1] = f"{person.name}:{start}:{found.count}"
    return "\n".join(lines)
