"""gpuadmin.node.host_settings: what a host is set to, by section, so that hosts can be compared."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..answer import Answer
from ..bounded import short
from ..host_settings.collect import collect
from ..host_settings.place import Place

_MOST_ADDRESSES = 200
#: The part of the report that Ansible does not walk: thousands of packages.
EACH = "settings"
#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


@dataclass(frozen=True)
class Document:
    """What a host is set to, by section, so that hosts can be compared.

    A section has a text for each setting. Each is looked at by itself and has a deadline. One that does not answer is
    reported as unknown. It changes nothing, and reads nothing that belongs to a person.
    """

    #: Sections to look at; none: all.
    sections: Sequence[str] = ()


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
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
