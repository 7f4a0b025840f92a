"""How much of a host is told, and foreign text as it is told: a host that people have shaped has no end otherwise."""

from __future__ import annotations

from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import short

MOST = 5000  # accounts, homes or lines of a file
MOST_OF_ONE = 50  # keys of one person, names in one list
NAME = 100  # characters
LINE = 400  # characters
KEY = 16384  # characters of a public key
FILE = 8 << 20  # bytes of a file that is root's alone


def name(text: object) -> str:
    """A name, a path, a type: of one line, without what a terminal obeys."""
    return short(text, NAME)


def line(text: object) -> str:
    """The same, as long as a line of a file."""
    return short(text, LINE)
