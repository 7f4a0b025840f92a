"""File systems whose files keep the old numbers: those of servers outside the site, and those mounted with an owner.

Pure: from what is mounted, the site's hosts and who is renumbered to lines for the plan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ansible_collections.gpuadmin.node.plugins.module_utils.fields import quoted
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import NETWORK, Mount

from .journal import Renumbering
from .trees import LOCAL, NOBODYS, OWN

MOST = 20  # lines
_SERVER = re.compile(r"(?://([^/]+)|\[([^\]]+)\]|([^:/,]+))")
_ADDRESS = re.compile(r"(?:^|,)addr=([^,]+)")
_OWNER = re.compile(r"(?:^|,)([ug]id)=([0-9]{1,10})(?=,|\Z)")


def describe_foreign(table: Sequence[Mount], site: Collection[str], people: Sequence[Renumbering]) -> list[str]:
    """Given what is mounted, and names and addresses of the site's hosts, return what keeps people's old numbers.

    For example, `/nfs (nas:/homes): nas is not a host of this site: …`.
    """
    uppermost = {mount.point: mount for mount in table}  # one hides what was there
    lines = [line for mount in uppermost.values() for line in _lines(mount, site, people)]
    more = len(lines) - MOST
    return lines if more <= 0 else [*lines[:MOST], f"and {more} more file systems"]


def find_programs(table: Sequence[Mount], site: Collection[str]) -> list[str]:
    """Given the same, return mount points of foreign servers where a setuid bit counts."""
    return [
        mount.point
        for mount in {mount.point: mount for mount in table}.values()
        # guard: nobody's program on another's server runs as the next owner of their id
        if _is_foreign(mount) and "nosuid" not in mount.flags.split(",") and not _servers(mount) & set(site)
    ]


def _is_foreign(mount: Mount) -> bool:
    """Whether a file system comes from a server, and not by a person's own doing."""
    return bool(
        NETWORK.match(mount.fstype)
        and not NOBODYS.match(mount.fstype)
        and not OWN.search(mount.options)  # guard: mounts that a person makes are no lines of the plan
    )


def _lines(mount: Mount, site: Collection[str], people: Sequence[Renumbering]) -> Iterator[str]:
    where = f"{quoted(mount.point)[1:-1]} ({quoted(mount.source)[1:-1]})"
    changes = [
        (f"{kind}={value}", f"{kind}={move.new}", one.name)
        for kind, value in _OWNER.findall(mount.options)
        for one in people
        for move in one.moves(kind)
        if move.old == int(value)
    ]
    # what has owners itself is renumbered: of tmpfs the option is its top directory's
    if changes and not LOCAL.match(mount.fstype):
        old, new, names = (",".join(dict.fromkeys(words)) for words in zip(*changes))
        yield f"{where}: is mounted with {old}, the old number of {names}: mount it with {new}"
        return
    if _is_foreign(mount):
        found = _servers(mount)
        if not found & set(site):
            server = quoted(min(found, default=mount.source))[1:-1]
            yield f"{where}: {server} is not a host of this site: what is there keeps the old numbers; renumber there"


def _servers(mount: Mount) -> set[str]:
    """By which names a file system's server is known here: of its source, and the address that the kernel has."""
    found = _SERVER.match(mount.source)
    named = next((one for one in found.groups() if one), "") if found else ""
    # `user@host` of sshfs, `10.0.0.1@tcp` of Lustre
    return {one for one in (*named.split("@"), *_ADDRESS.findall(mount.options)) if one}
