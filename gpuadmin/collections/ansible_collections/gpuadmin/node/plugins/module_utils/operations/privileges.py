"""gpuadmin.node.privileges: who is root on a host, or could be, and what differs from what its packages brought."""

from __future__ import annotations

from gpuadmin.common.records.audits import PrivilegesOrder as Document

from ..answer import Answer
from ..privileges.collect import collect
from ..privileges.place import build_place

#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    return Answer(report={"privileges": collect(build_place(document))})
