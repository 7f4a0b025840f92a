"""The account that gpuadmin logs in as: made where it is missing, and its key added. What is there otherwise stays."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath

from gpuadmin.common.causes.keys import judge_settings

from ..btrfs import open_directory
from ..errors import NodeError
from ..fields import KEY, quoted, valid_name
from ..files import read_bytes, write_atomic
from ..lookup import find_name, group_names, owner, system_lookup
from ..root.guard import open_root
from ..run import Runner, look, run
from ..sshd_settings import ask_sshd, expand_pattern, key_patterns
from ..textdb import Table, decode, number

PASSWD = "/etc/passwd"
COMMENT = "gpuadmin"  # of an account that was made here
SSH, KEYS = ".ssh", "authorized_keys"  # below the home, as sshd has it by default
SYSTEM_UIDS = range(1, 1000)  # login.defs(5): what distributions and their packages give to services


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
    setting: str = "admin.user"  # what to change where the name does not do


@dataclass(frozen=True)
class Place:
    """Something at a path: its owner and its mode (st_mode)."""

    path: str
    uid: int = 0
    gid: int = 0
    mode: int = stat.S_IFDIR | 0o755

    def others(self, uid: int, gid: int | None) -> str | None:
        """Who else than root and an account can put something into this directory, in words; None for nobody."""
        if self.uid not in (0, uid):
            return f"belongs to {owner(self.uid)}"
        group = self.mode & stat.S_IWGRP and self.gid not in (0, gid)
        return f"can be written by others (mode {stat.S_IMODE(self.mode):04o})" if group or self.mode & 0o002 else None


@dataclass(frozen=True)
class Observed:
    """What a host has. ``uid``, ``gid``, ``home`` and ``comment``: of the account that is there. ``elsewhere``: another
    source than /etc/passwd has one of its name. ``holder``: whose the wanted uid is. ``keys``: the text of
    authorized_keys. ``above``: the directories that the home is in; ``there``: what is at its path.
    """

    uid: int | None = None
    home: str = ""
    elsewhere: bool = False
    holder: str | None = None
    keys: bytes | None = None
    gid: int | None = None
    comment: str = ""
    above: tuple[Place, ...] = ()
    there: Place | None = None


@dataclass(frozen=True)
class Plan:
    """What is missing. ``home``: that of the account, new or old."""

    home: str
    account: bool
    key: bool

    def operations(self, wanted: Wanted) -> list[str]:
        """The steps in words."""
        made = f"make the account {wanted.name} (uid {wanted.uid}, home {wanted.home})"
        added = f"let {wanted.name} log in with the key {key_words(wanted.key)}"
        return ([made] if self.account else []) + ([added] if self.key else [])


def key_words(key: str) -> str:
    """A key as people tell keys apart: its type, the end of it, its comment."""
    kind, blob, *comment = key.split(" ", 2)
    return " ".join((kind, f"…{blob[-12:]}", *comment))


def has_key(text: bytes | None, key: str) -> bool:
    """Whether a line of authorized_keys lets the key in without conditions: a line with options does not count."""
    wanted = key.split(" ")[:2]
    return any(line.split()[:2] == wanted for line in decode(text or b"").splitlines())


def below(path: str, top: str) -> bool:
    """Whether a path is a directory or is in it."""
    return os.path.commonpath([os.path.normpath(path), os.path.normpath(top)]) == os.path.normpath(top)


def plan(wanted: Wanted, observed: Observed) -> Plan:
    """Given what is wanted and what is there, return what is missing. Raises NodeError if it may not be made."""
    if not valid_name(wanted.name) or wanted.name == "root":
        raise NodeError(f"{wanted.setting} is {quoted(wanted.name)}, which cannot be the name of its account")
    if not KEY.match(wanted.key):
        raise NodeError("sshd cannot read the admin's public key")
    if observed.elsewhere:  # guard: a name that a directory gives is not an admin account
        raise NodeError(f"{wanted.name} comes from a directory (LDAP, SSSD); choose another {wanted.setting}")
    home = wanted.home if observed.uid is None else observed.home
    uid = wanted.uid if observed.uid is None else observed.uid
    if (
        uid == 0 or not home.startswith("/")  # guard: an account that is root is not an admin account
    ):
        raise NodeError(f"{wanted.name} has uid {uid} and home {quoted(home)} here; choose another {wanted.setting}")
    if wanted.first <= uid <= wanted.last:  # guard: the admin's uid is not a person's
        raise NodeError(f"{wanted.name} has uid {uid}, which is a person's; choose another {wanted.setting}")
    if below(home, wanted.homes):  # guard: the admin's home is not where people's homes are mounted
        raise NodeError(
            f"the home of {wanted.name} is {home}, where people's homes are mounted over it; choose another "
            f"{wanted.setting}, or move it: mkdir -p /var/home && usermod -m -d /var/home/{wanted.name} {wanted.name}"
        )
    if observed.uid is None and observed.holder is not None:  # guard: the admin's account does not share a uid
        raise NodeError(f"uid {wanted.uid} is {observed.holder}'s here; give --uid with one that all hosts have free")
    found = Plan(home, observed.uid is None, not has_key(observed.keys, wanted.key))
    if not found.account and found.key:
        _refuse_service(wanted, observed)  # guard: a service's account becomes no admin account
    _refuse_others_home(wanted, observed, home)  # guard: the admin account has no home that is somebody else's
    return found


def _refuse_service(wanted: Wanted, observed: Observed) -> None:
    """A system account that nobody has prepared for gpuadmin may be a web server's, which would get sudo."""
    uid = observed.uid
    if uid is not None and uid in SYSTEM_UIDS and uid != wanted.uid and observed.comment != COMMENT:
        way_out = f"; if it is meant, say so: --uid {uid}" if uid >= 100 else ""
        raise NodeError(
            f"{wanted.name} is a system account here (uid {uid}): what runs as it would get sudo; "
            f"choose another {wanted.setting}{way_out}"
        )


def _refuse_others_home(wanted: Wanted, observed: Observed, home: str) -> None:
    """Whoever can write into the home, or exchange it, could put a key of theirs into it, and with it gets sudo."""
    uid, gid = (wanted.uid, None) if observed.uid is None else (observed.uid, observed.gid)
    way_out = "give --home with another" if observed.uid is None else f"choose another {wanted.setting}"
    for place in observed.above:
        if below(os.path.realpath(place.path), wanted.homes):
            raise NodeError(f"the home of {wanted.name}, {home}, is in {wanted.homes} by a link; {way_out}")
        if not stat.S_ISDIR(place.mode):
            raise NodeError(f"{place.path} is not a directory, so {home} cannot be a home; {way_out}")
        if reason := place.others(uid, gid):
            raise NodeError(f"{place.path}, where the home of {wanted.name} would be, {reason}; {way_out}")
    there = observed.there
    if observed.uid is None:
        # the account's earlier home: the account was removed, or another root did not know it
        if there is not None and (there.uid != uid or not stat.S_ISDIR(there.mode) or there.others(uid, gid)):
            raise NodeError(f"{home} is there already, and belongs to {owner(there.uid)}; move it away, or {way_out}")
    elif (
        there is None
        # guard: a file as home of the admin account is not a home
        or not stat.S_ISDIR(there.mode)
    ):
        raise NodeError(
            f"the home of {wanted.name}, {home}, is not a directory; make it, or choose another {wanted.setting}"
        )
    elif reason := there.others(uid, gid):
        raise NodeError(f"{home}, the home of {wanted.name}, {reason}; correct that, or {way_out}")


def observe(wanted: Wanted) -> Observed:
    """Look at this host."""
    passwd = Table.parse("passwd", decode(read_bytes(PASSWD) or b""))
    fields = passwd.get(wanted.name)
    home = wanted.home if fields is None else fields[5]
    # never ask a file server that is away: a home in there is refused for that alone
    local = home.startswith("/") and not below(home, wanted.homes)
    above, there = (
        (
            _above(home),
            _place(
                home,
                os.lstat,  # guard: a link as home of the admin account is not a home -> os.stat
            ),
        )
        if local
        else ((), None)
    )
    if fields is None:
        elsewhere = system_lookup(wanted.name) is not None
        return Observed(elsewhere=elsewhere, holder=find_name(wanted.uid), above=above, there=there)
    keys = read_authorized_keys(home) if local else None
    uid, gid = number(fields[2]), number(fields[3])
    return Observed(uid, home, keys=keys, gid=gid, comment=fields[4], above=above, there=there)


def _above(home: str) -> tuple[Place, ...]:
    """The directories that exist above a path, as it is written and where links lead."""
    paths = [str(one) for path in (os.path.normpath(home), os.path.realpath(home)) for one in PurePath(path).parents]
    found = (_place(path, os.stat) for path in dict.fromkeys(paths))
    return tuple(place for place in found if place is not None)


def _place(path: str, look: Callable[[str], os.stat_result]) -> Place | None:
    try:
        facts = look(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Place(path, facts.st_uid, facts.st_gid, facts.st_mode)


def read_authorized_keys(home: str) -> bytes | None:
    """The text of authorized_keys; None if there is none, or no home that could have it."""
    try:
        handle = open_directory(home)
    except OSError:
        return None  # anything else in place of a home is refused in its own words
    try:
        with _ssh(handle, home) as place:
            return None if place is None else _read(place, home)
    finally:
        os.close(handle)


@contextmanager
def _ssh(handle: int, home: str) -> Iterator[str | None]:
    """The directory .ssh of an open home, as a path that nobody can redirect; None if there is none.

    It is the admin account's, and what runs as that account may put a link there, or exchange it at any moment.
    """
    try:
        inner = open_directory(SSH, handle)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise NodeError(f"{home}/{SSH} is not a directory") from None
    try:
        # guard: the admin's key goes to no directory that a link leads to -> (yield f'{home}/{SSH}')
        yield f"/proc/self/fd/{inner}"
    finally:
        os.close(inner)


def _read(place: str, home: str) -> bytes | None:
    try:
        return read_bytes(f"{place}/{KEYS}")
    except NodeError as error:
        raise NodeError(str(error).replace(place, f"{home}/{SSH}")) from None


def refuse_by_sshd(wanted: Wanted, home: str, run: Runner = look) -> None:
    """Raises NodeError where this host's sshd would not let the account in, with what its settings say of that."""
    name = wanted.name
    account = system_lookup(name)
    try:
        settings = ask_sshd("-C", f"user={name},host=localhost,addr=127.0.0.1", run=run)
    except (NodeError, OSError):
        return  # it cannot be asked; that a login works is proven afterwards
    groups = [name] if account is None else group_names(name, account[1])
    plain = {keyword: " ".join(values) for keyword, values in settings.items()}
    why = [one.cause for one in judge_settings(name, plain, groups)]
    own = os.path.join(home, SSH, KEYS)
    paths = [expand_pattern(one, name, wanted.uid, home) for one in key_patterns(settings)]
    # root's own files, outside of the home, may have the key
    if own not in paths and not any(has_key(read_bytes(one), wanted.key) for one in paths if not below(one, home)):
        why.append(f"sshd reads keys from {', '.join(paths) or 'no file'} (AuthorizedKeysFile), not from {own}")
    if why:  # guard: an account that sshd refuses is not made ready
        way_out = f"correct it there: sshd -T -C user={name},host=x,addr=127.0.0.1"
        raise NodeError(f"{name} could not log in: {'; '.join(why)}; {way_out}")


def execute(plan: Plan, wanted: Wanted) -> None:
    """Do what is missing. No password: the key is the way in."""
    if plan.account:
        os.makedirs(os.path.dirname(wanted.home), exist_ok=True)
        with open_root():
            # `*` is not a password, and unlike `!` not a lock: a locked account gets no login by key where PAM is off
            options = (
                "--system",
                "--user-group",
                "--create-home",
                "--shell",
                "/bin/bash",
                "--password",
                "*",  # guard: the admin's new account is not locked -> '!'
            )
            words = ("--uid", str(wanted.uid), "--home-dir", wanted.home, "--comment", COMMENT, wanted.name)
            run(("useradd", *options, *words), what=f"the account {wanted.name} could not be made")
    if plan.key:
        account = system_lookup(wanted.name)
        if account is None:
            raise NodeError(f"{wanted.name} is not there, although it was made")
        add_key(plan.home, wanted.key, *account)


def add_key(home: str, key: str, uid: int, gid: int) -> None:
    """Add a line to a home's authorized_keys; the other lines stay, byte for byte."""
    handle = open_directory(home)
    try:
        _make_ssh(handle, uid, gid)
        with _ssh(handle, home) as place:
            if (
                place is None
                or os.stat(place).st_uid != uid  # guard: a directory of another's is not a place for the admin's keys
            ):
                raise NodeError(f"{home}/{SSH} is not a directory of uid {uid}'s own")
            before = _read(place, home)
            text = (
                before or b""  # guard: the other keys of the admin's account stay
            )
            if text and not text.endswith(b"\n"):  # guard: a last line without an end is not joined with the key
                text += b"\n"
            write_atomic(f"{place}/{KEYS}", text + f"{key}\n".encode(), mode=0o600, owner=(uid, gid))
    finally:
        os.close(handle)


def holds_key(line: str, key: str) -> bool:
    """Whether a line of authorized_keys lets a key in, with options or without."""
    return not line.lstrip().startswith("#") and key.split(" ")[1] in line.split()


def remove_keys(home: str, keys: Sequence[str], uid: int) -> None:
    """Take the lines of keys out of a home's authorized_keys; the other lines stay, byte for byte."""
    handle = open_directory(home)
    try:
        with _ssh(handle, home) as place:
            if (
                place is None
                or os.stat(place).st_uid not in (0, uid)  # guard: keys are taken out of no directory of another's
            ):
                return
            lines = (_read(place, home) or b"").splitlines(keepends=True)
            left = [line for line in lines if not any(holds_key(decode(line), key) for key in keys)]
            if left != lines:
                write_atomic(f"{place}/{KEYS}", b"".join(left), mode=0o600)
    finally:
        os.close(handle)


def _make_ssh(handle: int, uid: int, gid: int) -> None:
    """Make .ssh below an open home, durably, with its owner. One that is there is left alone."""
    try:
        os.mkdir(SSH, 0o700, dir_fd=handle)
    except FileExistsError:
        return
    inner = open_directory(SSH, handle)
    try:
        if os.fstat(inner).st_uid == os.geteuid() and not os.listdir(inner):  # the one that was made, not exchanged
            try:
                os.fchown(inner, uid, gid)
            except OSError:
                os.rmdir(SSH, dir_fd=handle)  # guard: a directory of keys without its owner is not left behind
                raise
        os.fsync(inner)
    finally:
        os.close(inner)
    os.fsync(handle)
