"""A comparison in lines: by section, the hosts that are not like the others first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.text import counted, listed
from gpuadmin.comparison.odd import GROUPS, ODD, UNDECIDED, Comparison, Difference, by_value, find_kind

#: So many settings of a section are shown of a host one by one; more are counted.
MOST = 8
MOST_NAMED = 5
_MOST_PARTS = 6
_MOST_LINES = 15  # of a section, before only numbers are shown
_LONGEST = 72  # characters of a value that is shown whole
_MOST_HOSTS = 3

#: What one setting of a section is called, where it is more than a setting.
_NOUNS = {
    "packages": "package", "mounts": "mount", "units": "unit", "timers": "timer", "cron": "crontab", "pam": "file",
    "sudo": "file", "firewall": "chain", "repositories": "file",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """`hosts`: what is marked. `text`: what is so of them. `how`: as that of a Difference. `below`: further lines."""

    hosts: str
    text: str
    how: str
    below: tuple[str, ...] = ()


def lines(
    comparison: Comparison, groups: Mapping[str, Collection[str]], whole: Collection[str] = ()
) -> dict[str, list[Line]]:
    """Section → its lines. `whole`: sections of which everything is shown, also what differs between groups alone."""
    found: dict[str, list[Line]] = {}
    for section in dict.fromkeys(one.section for one in comparison.found):
        of_section = [one for one in comparison.found if one.section == section]
        made = [*_of_hosts(section, of_section, whole), *_of_groups(section, of_section, groups, whole)]
        if made:
            found[section] = made
    return found


def between_groups(comparison: Comparison, whole: Collection[str] = ()) -> dict[str, int]:
    """Section → how many of its settings differ between groups alone, and are not shown."""
    return dict(Counter(one.section for one in comparison.found if one.how == GROUPS and one.section not in whole))


def _of_hosts(section: str, found: Sequence[Difference], whole: Collection[str]) -> Iterator[Line]:
    together: dict[tuple[str, tuple[str, ...], int], list[Difference]] = {}
    for one in found:
        if one.how == ODD:
            together.setdefault((ODD, one.odd, len(one.values)), []).append(one)
        elif one.how == UNDECIDED:
            together.setdefault((UNDECIDED, tuple(host for host, _ in one.values), 0), []).append(one)
    if section not in whole and sum(1 if len(one) > MOST else len(one) for one in together.values()) > _MOST_LINES:
        yield from _by_host(section, found)
        return
    for (how, hosts, _), several in sorted(together.items(), key=lambda one: (one[0][0] != ODD, one[0][1])):
        if len(several) > MOST and section not in whole:
            yield _collapsed(section, how, hosts, several)
        else:
            for one in several:
                yield from _one(one)


def _by_host(section: str, found: Sequence[Difference]) -> Iterator[Line]:
    """Where hardly two hosts are alike: of each how much differs, those that differ most first."""
    of_host: dict[str, list[Difference]] = {}
    for one in found:
        for host in one.odd if one.how == ODD else ():
            of_host.setdefault(host, []).append(one)
    ranked = sorted(of_host.items(), key=lambda one: (-len(one[1]), one[0]))
    for host, several in ranked[:MOST]:
        yield _collapsed(section, ODD, [host], several)
    if len(ranked) > MOST:
        rest = [host for host, _ in ranked[MOST:]]
        yield Line(listed(rest), f"differ, too, each in {len(ranked[MOST][1])} or fewer", ODD)
    undecided = [one for one in found if one.how == UNDECIDED]
    if undecided:
        yield _collapsed(section, UNDECIDED, ["no majority"], undecided)


def _collapsed(section: str, how: str, hosts: Sequence[str], several: Sequence[Difference]) -> Line:
    """`214 packages differ, first linux-image-amd64, …`: a section is in an order, packages by size."""
    noun = _NOUNS.get(section, "setting")
    first = sorted(several, key=lambda one: one.rank)[:MOST_NAMED]
    order = "the largest" if section == "packages" else "first"
    names = ", ".join(one.key for one in first)
    between = "" if how == ODD else ", and none of these hosts is in the minority"
    what = f"{counted(len(several), f'{noun} differs', f'{noun}s differ')}{between}, {order}: {names}"
    return Line(listed(list(hosts), MOST), f"{what}; --section {section} shows all", how)


def _one(one: Difference) -> Iterator[Line]:
    if one.how == UNDECIDED:
        parts = [f"{_value(value)} on {_names(hosts)}" for value, hosts in by_value(one.values, None)]
        many = any(value is not None and "\n" in value for _, value in one.values)
        several = by_value(one.values, None)
        below = _parts(several[1][0], several[0][0]) if many and len(several) == 2 else ()
        pair = f"{one.key}, {_names(several[1][1])} compared with {_names(several[0][1])}:" if below else ""
        text = pair or f"{one.key}: {'; '.join(parts)}"
        yield Line("no majority", text, UNDECIDED, below)
        return
    for value, hosts in by_value([(host, value) for host, value in one.values if host in one.odd], None):
        rest = _rest(one)
        below = _parts(value, one.usual)
        if below:
            yield Line(_names(hosts), f"{one.key}, compared with {rest}:", ODD, below)
        else:
            yield Line(_names(hosts), f"{one.key} {_value(value)}; {rest}: {_value(one.usual)}", ODD)


def _rest(one: Difference) -> str:
    """The hosts that have what is usual: by name if they are few."""
    usual = [host for host, value in one.values if value == one.usual]
    return ", ".join(usual) if len(usual) < _MOST_HOSTS else f"the {len(usual)} others"


def _of_groups(
    section: str, found: Sequence[Difference], groups: Mapping[str, Collection[str]], whole: Collection[str]
) -> Iterator[Line]:
    if section not in whole:
        return
    for one in found:
        if one.how == GROUPS:
            parts = [
                f"{_value(value)} on {', '.join(dict.fromkeys(_kind(groups.get(host, ()), host) for host in hosts))}"
                for value, hosts in by_value(one.values, None)
            ]
            yield Line("by group", f"{one.key}: {'; '.join(parts)}", GROUPS)


def _kind(groups: Collection[str], host: str) -> str:
    return "+".join(sorted(find_kind(groups))) or host


def _names(hosts: Sequence[str]) -> str:
    return listed(list(hosts), MOST)


def _value(value: str | None) -> str:
    if value is None:
        return "not there"
    if "\n" in value:
        return counted(value.count("\n") + 1, "line")
    if not value:
        return "empty"
    return _cut(value, _LONGEST)


def _parts(value: str | None, usual: str | None) -> tuple[str, ...]:
    """What a text has more (`+`) and less (`-`) than the usual one; nothing where the values say it themselves."""
    if value is None or usual is None:
        return ()
    by_line = "\n" in value or "\n" in usual
    if not by_line and max(len(value), len(usual)) <= _LONGEST:
        return ()
    separator = r"\n" if by_line else r"[,\s]+"
    have, lack = Counter(re.split(separator, value)), Counter(re.split(separator, usual))
    parts = [f"{sign} {part}" for sign, more in (("+", have - lack), ("-", lack - have)) for part in more.elements()]
    if not parts:
        return ("the same in another order",)
    rest = [f"and {len(parts) - _MOST_PARTS} more"] if len(parts) > _MOST_PARTS else []
    return (*(_cut(part, 2 * _LONGEST) for part in parts[:_MOST_PARTS]), *rest)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def unknown_lines(unknown: Mapping[str, Mapping[str, str]], silent: Mapping[str, str]) -> Iterable[str]:
    """What nobody knows, and why."""
    for host, why in silent.items():
        yield f"{host}: unknown: {why}"
    for host, sections in unknown.items():
        for section, why in sections.items():
            yield f"{host}: {section} is unknown: {why}"
