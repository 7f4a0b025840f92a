"""What a look for privileges is given, and what it finds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpuadmin.common.records.audits import Privilege, PrivilegesOrder, Rank

from ..errors import NodeError
from ..fields import CONTROL, FIRST_HUMAN_UID, quoted
from ..paths import STATE
from ..system import is_debian, os_release

MOST = 60  # findings of one part; what is more is counted
LONGEST = 240  # characters of a finding's words
ROOT: Final = "root"
DIFFERS: Final = "differs"


@dataclass(frozen=True)
class Place:
    """``admin``: the account that gpuadmin logs in as. ``declared``: others who may be root by the site. ``keys``:
    those of the site's admins who have sudo, by name, as ``type base64``. ``aside``: directories of people's files,
    which are not walked. ``debian``: whether dpkg knows its packages. ``root``: where the host's files are; tests have
    another one.
    """

    admin: str = "gpuadmin"
    declared: frozenset[str] = frozenset()
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    debian: bool = True
    state: str = STATE
    root: str = "/"

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))

    def name(self, path: str) -> str:
        """A path below ``root`` as the host itself calls it."""
        return path if self.root == "/" else path[len(self.root.rstrip("/")) :] or "/"

    @property
    def expected(self) -> frozenset[str]:
        """Who is meant to be root."""
        return self.declared | {"root", self.admin}


@dataclass(frozen=True)
class Found(Privilege):
    """``rank``: ROOT where somebody is root by it, or could be; else DIFFERS."""

    rank: Rank = ROOT


def build_place(order: PrivilegesOrder) -> Place:
    """Given an order, return what is looked at. Raises NodeError for a name that nobody has."""
    for name in (order.admin, *order.declared):
        if not name or CONTROL.search(name):
            raise NodeError(f"the name {quoted(name)} is refused")
    named = [one for one in map(os.path.normpath, order.aside) if one.startswith("/") and one.strip("/")]
    return Place(
        admin=order.admin,
        declared=frozenset(order.declared),
        keys={
            one.name: frozenset(" ".join(key.split()[:2]) for key in one.keys)
            for one in order.admins
            if one.sudo and one.name in order.declared
        },
        aside=tuple(one for one in named if not one.startswith(tuple(f"{other}/" for other in named))),
        debian=is_debian(os_release()),
        state=order.state_directory,
    )


def system_account(uid: int | None) -> bool:
    """Whether a distribution gave that uid to a service."""
    return uid is not None and 0 < uid < FIRST_HUMAN_UID
