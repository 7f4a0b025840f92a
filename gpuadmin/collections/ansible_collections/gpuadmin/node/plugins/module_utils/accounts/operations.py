"""Operations on accounts of people and admins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from gpuadmin.common.records.audits import Admin
from gpuadmin.common.records.people import AccountSettings, UserReport

from ..answer import Answer
from ..disk import carried_ids
from ..disk.records import in_state
from ..documents import entries
from ..errors import NodeError, in_words
from ..gpus import gate, reconcile
from ..gpus.grants import words
from ..limits import applying, place_amounts, room
from ..operation import operation
from ..paths import STATE
from . import admins
from .admin import Wanted, execute, observe, plan, refuse_by_sshd
from .converge import Host, converge, databases
from .desired import load, settings_from
from .docker_restart import restart
from .plan import Plan, Request


@dataclass(frozen=True)
class Refusal:
    name: str
    reason: str


@dataclass(frozen=True)
class AccountsOrder(AccountSettings):
    """Converge all human accounts of a host in one pass.

    Takes all users in one call, decides what differs, and rewrites passwd, shadow, group, gshadow, subuid and
    subgid once each, under the lock that the shadow tools use.
    Also writes ssh keys and Docker data directories, and records everything in ``accounts.json`` before the
    root is touched, so that the next boot finishes what a power cut interrupted.
    A read-only btrfs root is opened only if a database differs, and is read-only again afterwards.
    Ends the grants of GPUs of whoever is locked or removed.
    Accounts below ``uid_first`` are never touched. Accounts that are not mentioned are kept.
    Users in conflict are left alone and reported; the module fails at the end, after the others are done.
    """

    #: The accounts to have, a list of mappings or the same as JSON. ``name``, needed, of ``a-z``, ``0-9``, ``_``
    #: and ``-``, at most 32 characters. ``uid``, needed. With ``source=directory`` what the directory says
    #: replaces it. ``gid`` of the group of the same name; without it the number of ``uid``. ``gecos``, the fifth
    #: field of passwd; without it what is there stays. ``shell``, without it ``/bin/bash``. ``home``; without it
    #: the one in ``/home``. ``expires``, days from 1970-01-01 to the day on which the account ends. ``locked``,
    #: whether nobody can log in to it; without it false. ``keys``, public ssh keys, each with type, base64 text
    #: and comment, without options. ``docker``, whether the person has rootless Docker, where the host has it;
    #: without it true.
    users: Any = "[]"
    #: The accounts to remove, if they have that uid; homes and Docker data stay.
    absent: Any = "[]"
    #: People for whom the storage host made no home. They get no new account, and are reported. An account that is
    #: there is converged like anybody's, so that a lock or an end holds.
    refused: Sequence[Refusal] = ()
    #: Where to look for ids that something carries; without it nothing is looked for. Whether it is asked for depends
    #: on the verb: a newcomer is about to get a uid.
    carried: Optional[carried_ids.Places] = None
    #: Directory of this node's own state.
    state_directory: str = STATE


@operation("accounts", AccountsOrder, role="accounts", each="users")
def converge_accounts(document: AccountsOrder, check: bool, root: str = "/") -> Answer:
    refused = {one.name: one.reason for one in document.refused}
    users, absent = entries("users", document.users), entries("absent", document.absent)
    request = Request(settings_from(vars(document)), users, absent, refused=refused)
    done = converge(request, Host(root=root, state=document.state_directory), check=check)
    places = gate.Places(state=document.state_directory)
    ending = _ending(request, done.plan, places) if root == "/" else set()
    remarks = {"remarks": done.plan.remarks}
    answer = replace(Answer.of(done.plan), changed=done.changed or bool(ending), diff=done.diff, more=remarks)
    if document.carried is not None:
        state = Host(root=root, state=document.state_directory).path(document.state_directory)
        found = carried_ids.look(document.carried, request.settings, load(state), databases(root), in_state(state))
        answer = replace(answer, report={**answer.report, "carried": found.describe()})
    if check or root != "/":
        return answer
    problems = []
    if done.changed:
        # whoever has just got an account may have limits of their own
        try:
            problems += applying.apply(applying.Places(state=document.state_directory)).problems
        except (NodeError, OSError) as error:  # guard: limits that fail do not deny what was done to accounts
            problems.append(f"the accounts are done, their limits are not: {in_words(error)}")
        # and places of their own that are held to an amount
        try:
            problems += place_amounts.follow(room.Places(state=document.state_directory))
        except (NodeError, OSError) as error:  # guard: amounts that fail do not deny what was done to accounts
            problems.append(f"the accounts are done, amounts of the disks are not: {in_words(error)}")
    if ending:  # guard: who is locked or removed keeps no grant
        try:
            problems += reconcile.end_grants(ending, places)
        except (NodeError, OSError) as error:  # guard: grants that cannot be ended deny nothing else
            problems.append(f"the accounts are done, grants of {', '.join(sorted(ending))} are not: {in_words(error)}")
    return replace(answer, conflicts=[*answer.conflicts, *problems])


def _ending(request: Request, plan: Plan, places: gate.Places) -> set[str]:
    """Who is locked or removed and was granted GPUs of this host; that these grants end joins their reports."""
    wanted = {str(user.get("name")): user for user in request.users}
    gone = {name for name, user in wanted.items() if user.get("locked") is True}
    gone |= {str(one.get("name")) for one in request.absent} - set(wanted)
    ending = reconcile.find_grants(gone, places) if gone else []
    for one in ending:
        entry = plan.users.setdefault(one.user, UserReport("ok"))
        entry.operations.append(f"end the grant {one.id} ({words(one.gpus)})")
        entry.status = "differs" if entry.status == "ok" else entry.status
    return {one.user for one in ending}


@dataclass(frozen=True)
class AdminAccount:
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


@operation("admin_account", AdminAccount, role="bootstrap")
def make_admin_account(document: AdminAccount, check: bool) -> Answer:
    wanted = Wanted(
        document.name, document.uid, document.home, document.key, document.homes, document.uid_first, document.uid_last
    )
    missing = plan(wanted, observe(wanted))
    refuse_by_sshd(wanted, missing.home)
    if not check:  # guard: a check makes no admin account -> True
        execute(missing, wanted)
    return Answer(missing.operations(wanted))


@dataclass(frozen=True)
class AdminsOrder:
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


@operation("admins", AdminsOrder, role="node_state")
def converge_admins(document: AdminsOrder, check: bool) -> Answer:
    found = admins.look(document.admins, admins.People(document.people_homes, document.uid_first, document.uid_last))
    if not check:  # guard: a check makes no admins
        admins.converge(found)
    return Answer(found.operations)


@dataclass(frozen=True)
class DockerRestart:
    """Restart somebody's own Docker daemon.

    Stops the daemon and makes its socket again, through the person's own user manager.
    Running containers end. The daemon starts with the next command that asks it.
    Where the person has no user manager, nothing of theirs runs, and nothing is done.
    """

    #: Whose daemon.
    name: str
    #: The uid that the person has by the site. Somebody with another one is refused.
    uid: Optional[int] = None


@operation("docker_restart", DockerRestart)
def restart_docker(document: DockerRestart, check: bool) -> Answer:
    done = restart(
        document.name,
        document.uid,
        check=check,  # guard: the operation restarts no daemon in a check -> False
    )
    return Answer(report={"docker_restart": done["words"]}, changed=done["changed"])
