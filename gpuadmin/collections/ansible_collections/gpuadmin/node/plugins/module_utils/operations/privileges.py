"""gpuadmin.node.privileges: who is root on a host, or could be, and what differs from what its packages brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..accounts.admins import Admin
from ..answer import Answer
from ..paths import STATE
from ..privileges.collect import collect
from ..privileges.place import parse

#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


@dataclass(frozen=True)
class Document:
    """Who is root on a host, or could be.

    Looks at accounts, groups of privilege, sudo's rules, root's keys, setuid files, well-known modes, packaged
    files and sshd's settings.
    Each part is looked at by itself and has a deadline. One that does not answer is reported as unknown.
    It changes nothing and reads nobody's home.
    """

    #: The account that gpuadmin logs in as.
    admin: str
    #: Further accounts that may be root by the site.
    declared: Sequence[str] = ()
    #: The site's admins: the keys of those with sudo who are declared are compared with what is there.
    admins: Sequence[Admin] = ()
    #: Directories of people's files, which are not walked.
    aside: Sequence[str] = ()
    #: Directory of this node's own state.
    state_directory: str = STATE


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    return Answer(report={"privileges": collect(parse(asdict(document)))})
