"""gpuadmin.node.admins: the site's declared admins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.common.records.audits import Admin

from ..accounts.admins import People, converge, look
from ..answer import Answer

#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


@dataclass(frozen=True)
class Document:
    """The site's declared admins: accounts, keys, sudo, and until when.

    An account that is there keeps its uid, home, password and other keys. Whoever was declared and is not any more
    loses sudo, and the account is expired. A key that was declared and is not any more is taken away. Nothing else is
    deleted.
    """

    #: Who is declared. ``expires``: days since 1970, the first day without the account.
    admins: Sequence[Admin]
    #: Where people's homes are mounted.
    people_homes: str
    #: The first of people's uids.
    uid_first: int
    #: The last of people's uids.
    uid_last: int


def operate(document: Document, check: bool) -> Answer:
    found = look(document.admins, People(document.people_homes, document.uid_first, document.uid_last))
    if not check:  # guard: a check makes no admins
        converge(found)
    return Answer(found.operations)
