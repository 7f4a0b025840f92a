"""What has a person's name in its own name, where they get another: their home, and files of cron, mail and lingering.

Names are exact, and only what is theirs is renamed, to a name that is free. Each step may be done again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from ansible_collections.gpuadmin.node.plugins.module_utils import mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import desired
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import quoted
from ansible_collections.gpuadmin.node.plugins.module_utils.files import sync_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import number

from . import accounts
from .decide import Home, Wanted
from .journal import Renumbering

PLACES = ("var/spool/cron/crontabs", "var/spool/cron", "var/mail", "var/spool/mail", "var/lib/systemd/linger")


def find(wanted: Sequence[Wanted], host: Host, homes: str = "") -> dict[str, Home]:
    """Name → what becomes of the home of each who gets another name. ``homes``: the directory that has everybody's, on
    the host that serves them."""
    if not any(one.was for one in wanted):
        return {}
    data = Databases(accounts.texts(host))
    known = desired.load(host.path(host.state)).records
    return {one.name: _home(one, data, host, homes, one.was in known) for one in wanted if one.was}


def _home(one: Wanted, data: Databases, host: Host, homes: str, ours: bool) -> Home:
    if ours:  # guard: an account that gpuadmin keeps has its name in places that stay as they are
        return Home(problem=f"{one.was} is an account of gpuadmin's own, whose Docker data and backups have that name")
    fields = data.passwd.get(one.was)
    uid = data.uid(one.name) or one.assumed if fields is None else number(fields[2])
    own = "" if fields is None or os.path.basename(fields[5]) != one.was else fields[5]
    field, directories, left = "", [], []
    seen: set[str] = set()
    for path in (own, os.path.join(homes, one.was) if homes else ""):
        source = _real(host, path)
        if not uid or not path.startswith("/") or source in seen:
            continue
        seen.add(source)
        after = os.path.join(os.path.dirname(path), one.name)
        target = _real(host, after)
        if mounts.network_filesystem(os.path.dirname(source)) is not None:
            moves = one.home_moves
        elif os.path.lexists(source) and os.path.lexists(target):
            return Home(problem=f"{after} is there already, and {path} as well: keep one, move the other away")
        elif os.path.lexists(source):
            why = _kept(source, uid)
            moves = not why
            if why:
                left.append(f"home {quoted(path)} keeps its name: it {why}")
            else:
                directories.append((path, after))
        else:
            moves = not os.path.lexists(target) or os.lstat(target).st_uid == uid
        if moves and path == own:
            field = after
    return Home(field, tuple(directories), "", tuple(left))


def _real(host: Host, path: str) -> str:
    """Where an entry is: its directory without symbolic links."""
    full = host.path(path)
    return os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))


def _kept(source: str, uid: int | None) -> str:
    """Why a home keeps its name, in words; empty: it can get another."""
    place, facts = os.stat(os.path.dirname(source)), os.lstat(source)
    if mounts.below(source, mounts.parse_mountinfo(mounts.read_mountinfo())):
        return "is a mount of its own, or has one in it: correct /etc/fstab by hand"
    if place.st_uid != os.geteuid() or place.st_mode & 0o022:  # guard: a home is renamed where only root gives names
        return "is in a directory in which others can give names"
    if facts.st_uid != uid and not (stat.S_ISLNK(facts.st_mode) and facts.st_uid == os.geteuid()):
        return f"belongs to uid {facts.st_uid}"  # guard: nobody's home gets another's name
    return ""


def files(host: Host, one: Renumbering, uid: int) -> Iterator[tuple[str, str, str]]:
    """What cron, mail and logind have by the name that somebody had: where it is, what it is called afterwards, and why
    it keeps its name, if it does. ``uid``: theirs at that time."""
    for place in dict.fromkeys(os.path.realpath(host.path(each)) for each in PLACES):
        source, target = os.path.join(place, one.was), os.path.join(place, one.name)
        if not os.path.lexists(source):
            continue
        facts, why = os.lstat(source), ""
        kept_by_root = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid()
        theirs = facts.st_uid == uid and (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode))
        if not (theirs or kept_by_root):  # guard: only what is theirs goes with them
            why = f"it belongs to uid {facts.st_uid}, or is a link"
        elif os.path.lexists(target):  # guard: nobody's mail or crontab is replaced
            why = f"{target} is there already"
        yield source, target, why


def carry_out(host: Host, people: Sequence[Renumbering]) -> dict[str, str]:
    """Give these homes and files the new names. Returns whose cannot be, and why: a home that is not as it was when it
    was decided, say. It is done at boot, before anybody can make one of these names.
    """
    problems = {}
    for one in people:
        try:
            _rename_all(host, one)
        except (OSError, NodeError) as error:  # guard: what cannot be renamed keeps nobody else out
            problems[one.name] = in_words(error)
    return problems


def _rename_all(host: Host, one: Renumbering) -> None:
    for before, after in one.homes:
        source, target = _real(host, before), _real(host, after)
        if not os.path.lexists(source):  # it was done before a cut
            continue
        why = "cannot be renamed: the new name is taken" if os.path.lexists(target) else _kept(source, one.new)
        if why:  # guard: a home is renamed onto nothing
            raise NodeError(f"{before} {why}")
        _rename(source, target)
    for source, target, why in files(host, one, one.new):
        if not why:
            _rename(source, target)


def _rename(source: str, target: str) -> None:
    os.rename(source, target)
    sync_directory(os.path.dirname(target))
