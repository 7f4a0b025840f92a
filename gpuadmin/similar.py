"""What somebody meant who mistyped a name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: How like a word is that is meant, and how like where it may as well be one of its own: `gpu_access` is 0.95 of
#: `gpus_access`, `ansible_prot` 0.92 of `ansible_port`; `ansible_ssh_host`, which is Ansible's, 0.86 of `ansible_host`.
LIKE, NEARLY = 0.6, 0.9


def did_you_mean(word: str, known: Iterable[str], least: float = LIKE) -> str:
    """Given a word and the known ones, return `did you mean 'minji'?`, or nothing where none is like it.

    `least`: how like it one has to be, of 1.
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=least)
    return f"did you mean '{close[0]}'?" if close else ""
