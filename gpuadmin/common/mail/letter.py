"""A letter: a mail that was decided, before it is rendered and sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Letter:
    """One mail to one address.

    `keys` are the ledger's names for what it says: what was sent under a key is never sent again. `names` are the
    accounts (or applicants) that it is about; `values` is what the template is given.
    """

    template: str
    address: str
    keys: tuple[str, ...]
    names: tuple[str, ...]
    summary: str
    values: Mapping[str, Any] = field(default_factory=dict)
    languages: Sequence[str] = ()  # those of `mail.languages` that it is written in; none: all of them
