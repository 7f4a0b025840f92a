"""systemd's units: enabled, failed, changed by hand; and timers."""

from __future__ import annotations

import os
import re

from ..errors import NodeError
from .place import Place, Settings, files

#: States of unit files that an admin, a package or a preset has decided; the others follow from the unit itself.
_DECIDED = frozenset(("enabled", "enabled-runtime", "disabled", "masked", "masked-runtime", "linked", "bad"))
_HERE = "/etc/systemd/system"
#: Of a person's session, a mount or a container: they come and go.
_PASSING = re.compile(r"(user@\d+|user-runtime-dir@\d+|session-.*|docker-[0-9a-f]{12,}.*|run-.*)\.\w+\Z")
#: A revision of a snap's, in the name of what mounts it: each refresh brings another, and an old one stays for a while.
_REVISION = re.compile(r"(\bsnap-\S+?)-x?\d+(?=\.mount\b)")


def units(place: Place) -> Settings:
    """Unit → enabled, disabled or masked; which have failed; units and drop-ins of /etc/systemd/system, as text."""
    found = {name: state for name, state in _files(place) if not name.endswith(".timer")}
    failed = _systemctl(place, "list-units", "--failed", "--plain")
    for name in (line.split()[0] for line in failed if line.split()):
        if not _PASSING.match(name):
            found[f"failed {_drop_revisions(name)}"] = "yes"
    found.update(_by_hand(place))
    return found


def timers(place: Place) -> Settings:
    """Timer → enabled or not, and active or not."""
    active = {
        line.split()[0] for line in _systemctl(place, "list-units", "--type=timer", "--state=active", "--plain")
        if line.split()
    }  # fmt: skip
    known = {name: state for name, state in _files(place) if name.endswith(".timer")}
    return {
        name: f"{known.get(name, 'not enabled by itself')}, {'active' if name in active else 'not active'}"
        for name in sorted({*known, *active})
        if not _PASSING.match(name)
    }


def _drop_revisions(text: str) -> str:
    return _REVISION.sub(r"\1", text)


def _files(place: Place) -> list[tuple[str, str]]:
    rows = [line.split() for line in _systemctl(place, "list-unit-files")]
    decided = [row for row in rows if len(row) >= 2 and row[1] in _DECIDED and not _PASSING.match(row[0])]
    return [(_drop_revisions(row[0]), row[1]) for row in decided]


def _systemctl(place: Place, *what: str) -> list[str]:
    text = place.output("systemctl", *what, "--no-legend", "--no-pager")
    if text is None:
        raise NodeError("there is no systemctl")
    return text.splitlines()


def _by_hand(place: Place) -> Settings:
    """Unit files and drop-ins that are files there; links are what `enable` and `mask` make."""
    paths = []
    for name in place.names(_HERE):
        path = f"{_HERE}/{name}"
        if os.path.islink(place.path(path)) or _REVISION.match(name):
            continue
        if name.endswith(".d"):
            paths += [f"{path}/{one}" for one in place.names(path) if one.endswith(".conf")]
        elif not os.path.isdir(place.path(path)):
            paths.append(path)
    return {path: _drop_revisions("\n".join(lines)) for path, lines in files(place, paths)}
