"""The operation that reports what a host is set to."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..answer import Answer
from ..bounded import short
from ..operation import operation
from .collect import collect
from .place import Place

_MOST_ADDRESSES = 200


@dataclass(frozen=True)
class SettingsOrder:
    """What a host is set to, by section, so that hosts can be compared.

    A section has a text for each setting. Each is looked at by itself and has a deadline. One that does not answer is
    reported as unknown. It changes nothing, and reads nothing that belongs to a person.
    """

    #: Sections to look at; none: all.
    sections: Sequence[str] = ()


@operation("host_settings", SettingsOrder, role="node_state", each="settings", looks=True)
def report_settings(document: SettingsOrder, check: bool) -> Answer:
    found = collect(Place(), only=frozenset(document.sections))
    return Answer(report={"settings": {**found, "names": _names(), "addresses": _addresses()}})


def _names() -> list[str]:
    """What the host calls itself: where its name stands in a value, another host has another name."""
    name = os.uname().nodename
    return [short(one) for one in dict.fromkeys((name, name.partition(".")[0])) if one]


def _addresses() -> list[str]:
    """Its own addresses, as the kernel has them, without loopback."""
    found: list[str] = []
    try:
        with open("/proc/net/fib_trie", encoding="ascii") as stream:
            text = stream.read(1 << 20)
        found += re.findall(r"\|-- (\d+\.\d+\.\d+\.\d+)\n +/32 host LOCAL", text)
        with open("/proc/net/if_inet6", encoding="ascii") as stream:
            for line in stream.read(1 << 18).splitlines():
                whole = ":".join(re.findall("....", line.split()[0]))
                found.append(":".join(part.lstrip("0") or "0" for part in whole.split(":")))
    except OSError:
        pass
    return [one for one in dict.fromkeys(found) if not one.startswith("127.") and one != "0:0:0:0:0:0:0:1"][
        :_MOST_ADDRESSES
    ]
