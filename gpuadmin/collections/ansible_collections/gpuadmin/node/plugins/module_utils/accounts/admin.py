"""The account that gpuadmin logs in as: made where it is missing, and its key added. What is there otherwise stays."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from ..errors import NodeError
from ..fields import KEY, quoted, valid_name
from ..files import make_directory, read_bytes, write_atomic
from ..lookup import name_of, system_lookup
from ..root.guard import open_root
from ..run import run
from ..textdb import Table, decode, number

PASSWD = "/etc/passwd"


@dataclass(frozen=True)
class Wanted:
    """``homes``: where people's homes are mounted. ``first`` and ``last``: people's uids, which are not the admin's."""

    name: str
    uid: int
    home: str
    key: str
    homes: str
    first: int
    last: int


@dataclass(frozen=True)
class Observed:
    """What a host has. ``uid`` and ``home``: of the account that is there. ``elsewhere``: another source than
    /etc/passwd has one of its name. ``holder``: whose the wanted uid is. ``keys``: the text of authorized_keys.
    """

    uid: int | None = None
    home: str = ""
    elsewhere: bool = False
    holder: str | None = None
    keys: bytes | None = None


@dataclass(frozen=True)
class Plan:
    """What is missing. ``home``: that of the account, new or old."""

    home: str
    account: bool
    key: bool

    def operations(self, wanted: Wanted) -> list[str]:
        """The steps in words."""
        made = f"make the account {wanted.name} (uid {wanted.uid}, home {wanted.home})"
        added = f"let {wanted.name} log in with the key {_words(wanted.key)}"
        return ([made] if self.account else []) + ([added] if self.key else [])


def _words(key: str) -> str:
    """A key as people tell keys apart: its type, the end of it, its comment."""
    kind, blob, *comment = key.split(" ", 2)
    return " ".join((kind, f"…{blob[-12:]}", *comment))


def has_key(text: bytes | None, key: str) -> bool:
    """Whether a line of authorized_keys lets the key in without conditions: one with options is another's promise."""
    wanted = key.split(" ")[:2]
    return any(line.split()[:2] == wanted for line in decode(text or b"").splitlines())


def below(path: str, top: str) -> bool:
    """Whether a path is a directory or is in it."""
    return os.path.commonpath([os.path.normpath(path), os.path.normpath(top)]) == os.path.normpath(top)


def plan(wanted: Wanted, observed: Observed) -> Plan:
    """Given what is wanted and what is there, return what is missing. Raises NodeError where it may not be made."""
    if not valid_name(wanted.name) or wanted.name == "root":
        raise NodeError(f"admin.user is {quoted(wanted.name)}, which is no name for an account of its own")
    if not KEY.match(wanted.key):
        raise NodeError("the admin's public key is none that sshd reads")
    if observed.elsewhere:
        raise NodeError(f"{wanted.name} comes from a directory (LDAP, SSSD); choose another admin.user")
    home = wanted.home if observed.uid is None else observed.home
    uid = wanted.uid if observed.uid is None else observed.uid
    if uid == 0 or not home.startswith("/"):
        raise NodeError(f"{wanted.name} has uid {uid} and home {quoted(home)} here; choose another admin.user")
    if wanted.first <= uid <= wanted.last:
        raise NodeError(f"{wanted.name} has uid {uid}, which is a person's; choose another admin.user")
    if below(home, wanted.homes):
        raise NodeError(
            f"the home of {wanted.name} is {home}, where people's homes are mounted over it; choose another "
            f"admin.user, or move it: usermod -m -d /var/home/{wanted.name} {wanted.name}"
        )
    if observed.uid is None and observed.holder is not None:
        raise NodeError(f"uid {wanted.uid} is {observed.holder}'s here; give --uid with one that all hosts have free")
    return Plan(home, observed.uid is None, not has_key(observed.keys, wanted.key))


def observe(wanted: Wanted) -> Observed:
    """Look at this host."""
    passwd = Table.parse("passwd", decode(read_bytes(PASSWD) or b""))
    fields = passwd.get(wanted.name)
    if fields is None:
        return Observed(elsewhere=system_lookup(wanted.name) is not None, holder=name_of(wanted.uid))
    return Observed(number(fields[2]), fields[5], keys=_keys(fields[5]))


def _keys(home: str) -> bytes | None:
    try:
        return read_bytes(os.path.join(home, ".ssh", "authorized_keys"))
    except NotADirectoryError:
        raise NodeError(f"{home}/.ssh is not a directory") from None


def execute(plan: Plan, wanted: Wanted) -> None:
    """Do what is missing. No password: the key is the way in."""
    if plan.account:
        os.makedirs(os.path.dirname(wanted.home), exist_ok=True)
        with open_root():
            # `*` is no password, and unlike `!` no lock: a locked account gets no login by key where PAM is off
            options = ("--system", "--user-group", "--create-home", "--shell", "/bin/bash", "--password", "*")
            words = ("--uid", str(wanted.uid), "--home-dir", wanted.home, "--comment", "gpuadmin", wanted.name)
            run(("useradd", *options, *words), what=f"the account {wanted.name} could not be made")
    if plan.key:
        account = system_lookup(wanted.name)
        if account is None:
            raise NodeError(f"{wanted.name} is not there, although it was made")
        add_key(plan.home, wanted.key, *account)


def add_key(home: str, key: str, uid: int, gid: int) -> None:
    """Add a line to a home's authorized_keys; the other lines stay, byte for byte."""
    directory = os.path.join(home, ".ssh")
    make_directory(directory, 0o700, uid, gid)
    facts = os.lstat(directory)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != uid:
        raise NodeError(f"{directory} is not a directory of uid {uid}'s own")
    path = os.path.join(directory, "authorized_keys")
    before = read_bytes(path)
    text = before or b""
    if text and not text.endswith(b"\n"):
        text += b"\n"
    write_atomic(path, text + f"{key}\n".encode(), mode=0o600)
    if before is None:
        os.chown(path, uid, gid, follow_symlinks=False)
