"""Whether a plan is the one that was rehearsed on the site's twin (`gpuadmin rehearse`)."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gpuadmin.errors import RefusedError
from gpuadmin.plan import Plan
from gpuadmin.reading import read_text

#: Names the file that has the plan, for the command that `rehearse` starts on the real hosts.
VARIABLE = "GPUADMIN_REHEARSED"
_MOST = 10
#: A moment of a run: of two that are rehearsed and then done it may differ by a day.
_MOMENT = r"\b\d{8}T\d{6}\b|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[+-]\d\d:?\d\d)?"
_LATE = timedelta(days=1)
#: What a twin cannot have as the site has it: addresses, moments of runs, amounts of data. Days, sizes that are
#: limits, and numbers of anything but files are compared as they are.
_OWN = (
    (re.compile(r"(?<![\w@:/.+-])[\w.+-]+@([\w-]+\.)+[\w-]+(?!\.?[\w/-]|:\S)"), "ADDRESS"),
    (re.compile(_MOMENT), "TIME"),
    (re.compile(r"(?<![\w.-])\d[\d.,]* (bytes|[kMGT]i?B)(?= *(,|;|\)|$| of data| in \d| free\b))"), "SIZE"),
    (re.compile(r"(?<![\w.-])\d[\d.,]* files?\b"), "FILES"),
)
#: Words after which a size is what somebody may have, and no amount of data.
_LIMIT = re.compile(r"\b(limits?|quota|memory|at most|up to)\b")


def refuse_another(plan: Plan, left_behind: str, *, part: bool = False) -> None:
    """Raise RefusedError where something was rehearsed, and this plan has other steps.

    `left_behind`: what then is done already, in words. `part`: the plan is a part of the rehearsed one.
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    try:
        rehearsed = json.loads(read_text(Path(path)))
    except ValueError:  # half written, on a full disk, or not there any more
        raise RefusedError(f"{path} does not say what was rehearsed; {left_behind}", hint="rehearse it again") from None
    other = differences(rehearsed, plan.document(), part=part)
    if other:  # guard: nothing is done on real hosts that was not rehearsed
        more = [f"and {len(other) - _MOST} more"] if len(other) > _MOST else []
        raise RefusedError(
            "\n  ".join([f"this is not what was rehearsed; {left_behind}:", *other[:_MOST], *more]),
            hint="find out why the hosts differ (gpuadmin drift), or run the verb itself",
        )


def differences(rehearsed: Mapping[str, Any], real: Mapping[str, Any], *, part: bool = False) -> list[str]:
    """Given two plans as their runs' records have them, return what only one of them has, a line each.

    A step as often and in the order as it was rehearsed on its host. A warning that the real plan lacks is no
    difference: it is what a twin has and the hosts do not.
    """
    left = []
    there, here = _steps(rehearsed), _steps(real)
    more, fewer = Counter(here) - Counter(there), Counter(there) - Counter(here)
    if not part:
        left += [f"rehearsed alone: {host}: {action}" for host, action in fewer.elements()]
    left += [f"new: {host}: {action}" for host, action in more.elements()]
    # guard: what was rehearsed in another order was not rehearsed
    if not left and not part and not _same_order(there, here):
        left += ["in another order than was rehearsed"]
    elif not left and not part:
        left += [f"new: {host}: {action}" for host, action in _at_another_time(rehearsed, real)]
    # guard: what destroys something is not a rehearsal of what does not
    if real.get("destroys") and not rehearsed.get("destroys"):
        left += ["new: it destroys something"]
    warned = Counter(map(_without_own, map(str, rehearsed.get("warnings", []))))
    # guard: a warning that nobody has seen at the rehearsal is a difference
    left += [f"new warning: {one}" for one in _texts(real) if one not in warned]
    return left


def _texts(plan: Mapping[str, Any]) -> list[str]:
    return [_without_own(str(one)) for one in plan.get("warnings", [])]


def _steps(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(step["host"]), _without_own(str(step["action"]))) for step in plan.get("steps", [])]


def _same_order(there: Sequence[tuple[str, str]], here: Sequence[tuple[str, str]]) -> bool:
    """Whether the steps of each host follow each other as they did."""
    return all(
        [one for one in there if one[0] == host] == [one for one in here if one[0] == host]
        for host in {one[0] for one in here}
    )


def _at_another_time(rehearsed: Mapping[str, Any], real: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The steps of the real plan with a moment that is more than a day from the rehearsed one."""
    for host in {str(step["host"]) for step in real.get("steps", [])}:
        there, here = (
            [str(step["action"]) for step in one.get("steps", []) if step["host"] == host] for one in (rehearsed, real)
        )
        for before, action in zip(there, here, strict=True):
            pairs = zip(_moments(before), _moments(action), strict=True)
            if any(abs(one - other) > _LATE for one, other in pairs):
                yield host, action


def _moments(action: str) -> list[datetime]:
    found = []
    for one in re.findall(_MOMENT, _OWN[0][0].sub("", action)):  # an address may have the form of a time in it
        try:
            found.append(datetime.fromisoformat(one.replace(" ", "T")).replace(tzinfo=None))
        except ValueError:  # digits in the form of a time
            found.append(datetime.min)
    return found


def _without_own(action: str) -> str:
    for what, word in _OWN:
        if word != "SIZE" or not _LIMIT.search(action):
            action = what.sub(word, action)
    return action
