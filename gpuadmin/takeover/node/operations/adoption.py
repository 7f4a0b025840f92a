"""gpuadmin.node.adoption: what a host is that gpuadmin has no part in yet, and who is on it."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from ..adoption.collect import collect

#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"
#: A host's answer goes as one text: it has an entry for each person and each key.
EACH = "adoption"


@dataclass(frozen=True)
class Document:
    """What a host is that gpuadmin has no part in yet, and who is on it.

    Looks at accounts, homes, public keys, groups, subordinate ids, sudo's rules, sshd, Docker, GPUs, file systems and
    exports, without root as far as that goes. Each part is looked at by itself and has a deadline.
    It changes nothing, starts nothing, and tells no password hash and no private key.
    """

    #: The account that gpuadmin logs in as, or will: it is meant to have sudo.
    admin: str = "gpuadmin"


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    return Answer(report={"adoption": collect(Place(admin=document.admin))})
