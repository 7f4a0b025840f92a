"""gpuadmin.node.homes: homes on the storage host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..accounts.renumbered import find_old_ids
from ..accounts.uids import keep, of_others
from ..answer import Answer
from ..documents import entries
from ..fields import valid_name, whole_number
from ..homes.directories import Request, converge
from ..paths import STATE

#: A task of this role need not name a field that the role has a variable for.
ROLE = "homes_server"


@dataclass(frozen=True)
class Document:
    """Make homes from a skeleton, and archive homes that are to go.

    Makes all missing homes in one call. A home is built beside its name, given to its owner, synced and
    renamed.
    Refuses to write where the disk is not mounted.
    A home of another owner, and a uid that owns another home or is remembered as somebody else's, are reported
    and left alone.
    A home to be archived is packed by tar, compared with the archive, and only then deleted, by a unit
    ``gpuadmin-archive-NAME.service`` that goes on when the controller is interrupted.
    """

    #: Directory of homes.
    root: str
    #: Mount point that must be mounted. Without it the mount of ``root`` must not be the root file system.
    mountpoint: str | None = None
    #: The homes to have, a list of mappings or the same as JSON. ``name``, the login name, needed. ``uid``,
    #: the owner of the home; without it the one that this host's directory says. ``gid``, the group of the
    #: home; without it the number of ``uid``. People who are ``locked`` get none. After a reset a new, empty home
    #: would be where the old one was wiped.
    users: Any = "[]"
    #: Directory whose content a new home starts with.
    skeleton: str = "/etc/skel"
    #: Make each home a btrfs subvolume.
    subvolume: bool = False
    #: Homes to archive and delete, if they are that uid's.
    archive: Any = "[]"
    #: Where archives go. Needed when ``archive`` is not empty.
    archive_directory: str | None = None
    #: Seconds to wait for one archive; it goes on when the waiting ends.
    archive_timeout: int = 7200
    #: Whose uids these are; the host remembers it, whatever happens to the site. An entry that has no name
    #: and number is not remembered.
    remember: Any = "[]"
    #: Names whose uids are free again; one that a home or an archive carries is not forgotten.
    forget: Sequence[str] = ()


EACH = "homes"


def operate(document: Document, check: bool, state: str = STATE) -> Answer:
    given = asdict(document)
    given.update({option: entries(option, given[option]) for option in ("users", "archive", "remember")})
    given["users"] = [
        one
        for one in given["users"]
        if not one.get("locked")  # guard: who is locked gets no home
    ]
    remember, forget = given.pop("remember"), given.pop("forget")
    # Before a home is made: two admins who asked at the same time both got the answer that a uid is free.
    known = keep(given["root"], given["archive_directory"], remember, (), check=check, state=state)
    # guard: a uid is remembered before a home is made -> {}
    refused = of_others(known.memory, given["users"], forget)
    # guard: no newcomer gets a home whose id a file of somebody in a renumbering may still have
    old = find_old_ids(state)
    refused |= {
        str(one["name"]): old[uid]
        for one in given["users"]
        if (uid := whole_number(one.get("uid"))) in old
        and valid_name(one.get("name"))
        and not os.path.lexists(os.path.join(given["root"], str(one["name"])))
    }
    plan = converge(Request(**given, refused=refused), check=check)
    known = keep(given["root"], given["archive_directory"], remember, forget, check=check, state=state)
    # no home is asked for anybody locked, but they, too, can have another's uid
    theirs = {name: str(plan.homes[name].problem) for name in plan.refused}
    # guard: who is locked is refused as well -> theirs
    refused = {**of_others(known.memory, remember, forget), **theirs}
    return replace(Answer.of(plan, uids=known.as_dict(), refused=refused), diff=plan.diff())
