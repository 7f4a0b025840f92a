"""Whether a plan is the one that was rehearsed on the site's twin (`gpuadmin rehearse`)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuadmin.errors import RefusedError
from gpuadmin.plan import Plan
from gpuadmin.reading import read_text

#: Names the file that has the plan, for the command that `rehearse` starts on the real hosts.
VARIABLE = "GPUADMIN_REHEARSED"
_MOST = 10
#: What a twin cannot have as the site has it: addresses, moments, amounts.
_OWN = (
    (re.compile(r"\S+@\S+"), "ADDRESS"),
    (re.compile(r"\d{8}T\d{6}|\d{4}-\d\d-\d\dT[\d:+]+"), "TIME"),
    (re.compile(r"\d[\d.,]* ?(bytes|[kMGT]i?B|files?)\b"), "AMOUNT"),
)


def refuse_another(plan: Plan, left_behind: str, *, part: bool = False) -> None:
    """Raise RefusedError where something was rehearsed, and this plan has other steps.

    `left_behind`: what then is done already, in words. `part`: the plan is a part of the rehearsed one.
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    other = differences(json.loads(read_text(Path(path))), plan.document(), part=part)
    if other:  # guard: nothing is done on real hosts that was not rehearsed
        more = [f"and {len(other) - _MOST} more"] if len(other) > _MOST else []
        raise RefusedError(
            "\n  ".join([f"this is not what was rehearsed; {left_behind}:", *other[:_MOST], *more]),
            hint="find out why the hosts differ (gpuadmin drift), or run the verb itself",
        )


def differences(rehearsed: Mapping[str, Any], real: Mapping[str, Any], *, part: bool = False) -> list[str]:
    """Given two plans as their runs' records have them, return the steps that only one of them has, a line each."""
    there, here = _steps(rehearsed), _steps(real)
    left = [] if part else [f"rehearsed alone: {step}" for step in there if step not in here]
    return left + [f"new: {step}" for step in here if step not in there]


def _steps(plan: Mapping[str, Any]) -> list[str]:
    return [f"{step['host']}: {_without_own(str(step['action']))}" for step in plan.get("steps", [])]


def _without_own(action: str) -> str:
    for what, word in _OWN:
        action = what.sub(word, action)
    return action
