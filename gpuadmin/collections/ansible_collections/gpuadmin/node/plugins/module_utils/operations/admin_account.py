"""gpuadmin.node.admin_account: the account that gpuadmin logs in as."""

from __future__ import annotations

from dataclasses import dataclass

from ..accounts.admin import Wanted, execute, observe, plan, refuse_by_sshd
from ..answer import Answer

#: A task of this role need not name a field that the role has a variable for.
ROLE = "bootstrap"


@dataclass(frozen=True)
class Document:
    """The account that gpuadmin logs in as.

    Makes the account where it is missing, without a password, and adds its key. An account that is there keeps
    its uid, home, shell, password and other keys.
    Refuses an account of a directory, one with a person's uid, one of a service, and one whose home people's
    homes would hide, or somebody else could write into.
    """

    #: Name of the account.
    name: str
    #: The uid of a new account.
    uid: int
    #: The home of a new account.
    home: str
    #: The public key, a line.
    key: str
    #: Where people's homes are mounted.
    homes: str
    #: The first of people's uids.
    uid_first: int
    #: The last of people's uids.
    uid_last: int


def operate(document: Document, check: bool) -> Answer:
    wanted = Wanted(
        document.name, document.uid, document.home, document.key, document.homes, document.uid_first, document.uid_last
    )
    missing = plan(wanted, observe(wanted))
    refuse_by_sshd(wanted, missing.home)
    if not check:  # guard: a check makes no admin account -> True
        execute(missing, wanted)
    return Answer(missing.operations(wanted))
