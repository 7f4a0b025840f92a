"""Which hosts are not like the others: what most of them have, and who has something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.comparison.own import Own

#: What a host says, as gpuadmin/ansible/reports.py parsed it.
Answer = Mapping[str, Any]
#: A setting's values: host → value; None where the host has no such setting.
Values = Mapping[str, str | None]

#: A host, or a few, are not like most: `odd`. Nobody knows who is right: `undecided`. Alike in a group: `groups`.
ODD, UNDECIDED, GROUPS = "odd", "undecided", "groups"
_FEWEST = 3  # hosts of which two can be the majority


@dataclass(frozen=True)
class Difference:
    """A setting that hosts have otherwise. `values`: of the hosts that were compared. `usual`: what most of them have.
    `odd`: the hosts that do not, if `how` is ODD; `rank`: its place among the settings of its section.
    """

    section: str
    key: str
    how: str
    values: tuple[tuple[str, str | None], ...]
    usual: str | None = None
    odd: tuple[str, ...] = ()
    rank: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "section": self.section, "key": self.key, "how": self.how, "odd": list(self.odd),
            "values": [{"value": value, "hosts": hosts} for value, hosts in by_value(self.values, self.usual)],
        }  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """`found`: what differs. `hidden`: how much of it the site ignores. `unknown`: host → section → why it could not be
    compared.
    """

    found: tuple[Difference, ...]
    hidden: int
    unknown: Mapping[str, Mapping[str, str]]

    @property
    def differing(self) -> list[str]:
        """The hosts that are not like the others; where nobody knows which one is right, all of them."""
        return sorted(
            {host for one in self.found if one.how == ODD for host in one.odd}
            | {host for one in self.found if one.how == UNDECIDED for host, _ in one.values}
        )


def compare(
    answers: Mapping[str, Answer],
    groups: Mapping[str, Collection[str]],
    sections: Iterable[str],
    ignore: Collection[str] = (),
) -> Comparison:
    """Given what hosts say and the groups of each, return what differs, section by section, in the order of `sections`.

    `ignore`: a site's `compare.ignore`, of which sections are left out by whoever asks.
    """
    own = {host: Own([host, *answer["names"]], answer["addresses"]) for host, answer in answers.items()}
    unknown: dict[str, dict[str, str]] = {}
    found: list[Difference] = []
    for section in sections:
        known: dict[str, Mapping[str, str]] = {}
        for host, answer in answers.items():
            # guard: a section that a host could not read is unknown there, and not empty
            if section in answer["sections"]:
                known[host] = answer["sections"][section]
            else:
                unknown.setdefault(host, {})[section] = answer["unknown"].get(section, "did not say")
        found += _of_section(section, known, own, groups)
    left = [one for one in found if f"{one.section} {one.key}" not in ignore]
    return Comparison(tuple(left), len(found) - len(left), unknown)


def by_value(values: Iterable[tuple[str, str | None]], usual: str | None) -> list[tuple[str | None, list[str]]]:
    """Each value with its hosts, the usual one first, then by how many have it."""
    hosts: dict[str | None, list[str]] = {}
    for host, value in values:
        hosts.setdefault(value, []).append(host)
    return sorted(hosts.items(), key=lambda one: (one[0] != usual, -len(one[1]), one[1]))


def _of_section(
    section: str, known: Mapping[str, Mapping[str, str]], own: Mapping[str, Own], groups: Mapping[str, Collection[str]]
) -> Iterator[Difference]:
    if len(known) < 2:
        return
    for rank, (key, having) in enumerate(_table(known, own).items()):
        raw: dict[str, str | None] = {host: having.get(host) for host in known}
        if len(set(raw.values())) == 1:
            continue
        values = {host: None if value is None else own[host].plain(value) for host, value in raw.items()}
        if len(set(values.values())) > 1:
            yield from _decided(section, key, rank, values, raw, groups)


def _table(known: Mapping[str, Mapping[str, str]], own: Mapping[str, Own]) -> dict[str, dict[str, str]]:
    """Setting → host → value. A name that some host does not have is taken as another host would have it."""
    count = Counter(key for settings in known.values() for key in settings)
    table: dict[str, dict[str, str]] = {}
    for host, settings in known.items():
        for key, value in settings.items():
            name = key if count[key] == len(known) else own[host].plain(key)
            row = table.setdefault(name, {})
            row[host] = f"{row[host]}\n{value}" if host in row else value
    return table


def _decided(
    section: str, key: str, rank: int, values: Values, raw: Values, groups: Mapping[str, Collection[str]]
) -> Iterator[Difference]:
    """Hosts are like all others, or at least like those that are what they are (node, storage host, …)."""
    kinds: dict[frozenset[str], list[str]] = {}
    for host in values:
        kinds.setdefault(find_kind(groups.get(host, ())), []).append(host)
    split = [hosts for hosts in kinds.values() if len({values[host] for host in hosts}) > 1]
    if not split:
        yield Difference(section, key, GROUPS, tuple(values.items()), rank=rank)
    for hosts in split:
        for among in (hosts, list(values)):
            usual = _usual([values[host] for host in among])
            if usual is not None and usual[0] in [values[host] for host in hosts]:
                break  # else hosts of another kind would say what is usual for these
        else:
            yield Difference(section, key, UNDECIDED, tuple((host, values[host]) for host in hosts), rank=rank)
            continue
        as_usual = {raw[host] for host in among if values[host] == usual[0]}
        # a host whose own name is an ordinary word has the same text as the others, and no other
        odd = tuple(host for host in hosts if values[host] != usual[0] and raw[host] not in as_usual)
        if odd:
            compared = tuple((host, values[host]) for host in among)
            yield Difference(section, key, ODD, compared, usual[0], odd, rank)


def _usual(values: Sequence[str | None]) -> tuple[str | None] | None:
    """What more than half have; None where nobody can say, as with two hosts."""
    value, number = Counter(values).most_common(1)[0]
    # guard: of two hosts, or without a majority, none is called the odd one -> (value,)
    return (value,) if len(values) >= _FEWEST and 2 * number > len(values) else None


def find_kind(groups: Collection[str]) -> frozenset[str]:
    """What a host is: its groups. The golden node is a node like the others."""
    return frozenset(groups) - {"golden"}
