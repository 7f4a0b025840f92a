"""What a look for privileges is given, and what it finds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ..errors import NodeError
from ..fields import CONTROL, FIRST_HUMAN_UID, quoted
from ..paths import STATE
from ..system import family, os_release

MOST = 60  # findings of one part; what is more is counted
LONGEST = 240  # characters of a finding's words
ROOT, DIFFERS = "root", "differs"


@dataclass(frozen=True)
class Place:
    """``admin``: the account that gpuadmin logs in as. ``declared``: others who may be root by the site. ``keys``:
    those of the site's admins who have sudo, by name, as ``type base64``. ``aside``: directories of people's files,
    which are not walked. ``family``: debian, redhat, archlinux. ``root``: where the host's files are; tests have
    another one.
    """

    admin: str = "gpuadmin"
    declared: frozenset[str] = frozenset()
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    family: str | None = None
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
class Found:
    """``key``: what it is about, as a site's ``drift.ignore`` names it. ``rank``: ROOT where somebody is root by it, or
    could be; else DIFFERS.
    """

    key: str
    words: str
    rank: str = ROOT

    def document(self) -> dict[str, str]:
        return asdict(self)


def parse(raw: Mapping[str, object]) -> Place:
    """Given the module's arguments, return what is looked at. Raises NodeError for what nobody should ask."""
    declared, aside, admins = raw.get("declared") or [], raw.get("aside") or [], raw.get("admins")
    admins = admins if isinstance(admins, list) else []
    names = [raw.get("admin"), *(declared if isinstance(declared, list) else [declared])]
    wrong = [one for one in names if not isinstance(one, str) or not one or CONTROL.search(one)]
    if wrong:
        raise NodeError(f"the name {quoted(wrong[0])} is refused")
    paths = [os.path.normpath(str(one)) for one in aside] if isinstance(aside, list) else []
    named = [one for one in paths if one.startswith("/") and one.strip("/")]
    return Place(
        admin=str(names[0]),
        declared=frozenset(str(one) for one in names[1:]),
        keys={
            str(one["name"]): frozenset(" ".join(str(key).split()[:2]) for key in one["keys"])
            for one in admins
            if isinstance(one, Mapping) and one.get("sudo") and one.get("name") in names[1:]
        },
        aside=tuple(one for one in named if not one.startswith(tuple(f"{other}/" for other in named))),
        family=family(os_release()),
        state=str(raw.get("state_directory") or STATE),
    )


def system_account(uid: int | None) -> bool:
    """Whether a distribution gave that uid to a service."""
    return uid is not None and 0 < uid < FIRST_HUMAN_UID
