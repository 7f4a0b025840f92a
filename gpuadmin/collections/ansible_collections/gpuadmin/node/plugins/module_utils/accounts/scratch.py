"""A directory of each person's own in a node's scratch, made with the account: `/local` is root's.

What has its name already is left alone: whose it is, only an admin can know.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from gpuadmin.common.records.people import UserReport

from ..fields import User, valid_name
from ..files import sync_filesystem
from ..limits.amounts import SCRATCH, make_place
from .desired import Settings
from .observed import Observed
from .plan import Plan, Request

Found = dict[str, tuple[str, int]]


def observe_scratch(
    request: Request, place: Callable[[str], str], network: Callable[[str], str | None]
) -> tuple[Found, dict[str, str]]:
    """Given a request, return what has the names of its people in the directories of scratch: path → (kind, owner's
    uid); and directories in which nobody gets one, each with why. `place`: where a path is; `network`: its file system,
    if that is another host's."""
    found, problems = Found(), {}
    settings = request.settings
    names = [*(one.get("name") for one in request.users), *(name for name, _uid in request.docker)]
    for directory in settings.scratch if settings.login else ():
        if (why := _find_problem(place(directory), network)) is not None:
            problems[directory] = why
            continue
        for name in filter(valid_name, names):
            path = f"{directory}/{name}"
            try:
                facts = os.lstat(place(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                problems[directory] = f"cannot be looked at: {error.strerror}"
                break
            kind = "directory" if stat.S_ISDIR(facts.st_mode) else "link" if stat.S_ISLNK(facts.st_mode) else "file"
            found[path] = (kind, facts.st_uid)
    return found, problems


def _find_problem(path: str, network: Callable[[str], str | None]) -> str | None:
    if (kind := network(path)) is not None:
        return f"is on {kind}, and not this node's own"
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    # in one with the sticky bit (as /tmp) only root can rename what is root's
    shared = facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX
    # guard: scratch is made where nobody can move it
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != 0 or shared:
        return "is not a directory of root's that root alone can rename in"
    return None


def stage_scratch(user: User, settings: Settings, observed: Observed, plan: Plan, entry: UserReport) -> None:
    """Stage the directories that somebody lacks. One that is another's is told; it keeps nobody from an account."""
    # guard: whoever is locked out gets no scratch -> settings.scratch
    for directory in () if user.locked or not settings.login else settings.scratch:
        path = f"{directory}/{user.name}"
        found = observed.scratch.get(path)
        if directory in observed.scratch_problems:
            remark = f"{directory} {observed.scratch_problems[directory]}: nobody gets a directory there"
            plan.remarks += [remark] if remark not in plan.remarks else []
        elif found is None:
            plan.scratch.append((directory, user.name, user.uid, user.gid))
            entry.operations.append(f"make {path}")
        elif found != ("directory", user.uid):
            plan.remarks.append(f"user {user.name}: {path} is a {found[0]} of uid {found[1]}, and stays as it is")


def make_scratch(plan: Plan, place: Callable[[str], str], state: str) -> None:
    """Make what was planned; `state`: of this node, which says who has an amount there. What cannot be made keeps
    nobody from an account, or from being locked."""
    for directory, name, uid, gid in plan.scratch:
        try:
            os.makedirs(place(directory), mode=0o755, exist_ok=True)
            make_place(place(f"{directory}/{name}"), name, uid, gid, state, SCRATCH)
        except OSError as error:  # guard: scratch that cannot be made keeps nobody from an account
            plan.problems.append(f"{directory}/{name}: not made: {error.strerror}")
    for directory in {directory for directory, *_ in plan.scratch}:
        if os.path.isdir(place(directory)):
            sync_filesystem(place(directory))
