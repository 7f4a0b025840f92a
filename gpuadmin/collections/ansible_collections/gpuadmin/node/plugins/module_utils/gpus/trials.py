"""Whether what systemd was told is so: every GPU is tried from each unit that runs, and wherever else people run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..cgroups import cgroup_of, populated
from ..errors import NodeError, in_words
from ..lookup import owner
from ..unit_status import SETTLE, Outcome
from . import outside, proof
from .telling import Places, apply


def prove(
    places: Places,
    every: Sequence[str],
    wanted: Mapping[str, list[str] | None],
    told: Collection[str],
    outcome: Outcome,
    last: float,
) -> list[str]:
    """Try every GPU from each of these units that runs, and return those where it is not as it should be. What may be
    opened and was not granted is a problem. ``last``: until when there is time, by monotonic().

    A list that was told before and is not in force (systemd was started again, somebody changed a unit) is told once
    more. systemd answers before it has put a list in force: what is not right yet is tried again.
    """
    wrong = []
    for unit, allow in wanted.items():
        if allow is None:
            continue
        # an empty list keeps nobody out: whoever looks after the node can open them all
        granted = {one.partition(" ")[0] for one in allow} or set(every)
        found = _tried(places, unit, every, granted, last)
        if found and unit not in told:  # guard: a gate that somebody opened is closed again
            apply(places, unit, allow, outcome)
        end = min(time.monotonic() + SETTLE, last)  # of its own: what is wrong with one is said of no other
        while found and time.monotonic() < end:
            time.sleep(0.02)  # systemd tells nobody that it has done it
            found = _tried(places, unit, every, granted, last)
        if found:
            wrong.append(unit)
        outcome.problems += found
    return wrong


def _tried(places: Places, unit: str, every: Sequence[str], granted: Collection[str], end: float) -> list[str]:
    """What is wrong with a unit; nothing where it does not run. ``end``: until when there is time, by monotonic()."""
    try:
        path = cgroup_of(unit, places.cgroups) or _elsewhere(places, unit)
        if path is None or not populated(path):
            return []
        seconds = min(proof.PATIENCE, end - time.monotonic())
        if seconds <= 0:  # guard: what there was no time to try is not closed
            return [f"{unit}: whether its gate is closed was not tried: the trials of others took too long"]
        can = set(proof.opens(path, every, seconds))
    except FileNotFoundError:
        return []  # it has just ended
    except (NodeError, OSError) as error:
        return [f"{unit}: whether its gate is closed could not be tried: {in_words(error)}"]
    closed = {one for one in every if one in granted and os.path.exists(one)} - can
    wrong = [
        *(f"{unit}: {one} can be opened, and is not granted" for one in sorted(can - set(granted))),
        *(f"{unit}: {one} is granted, and cannot be opened" for one in sorted(closed)),
    ]
    # the last one may have left meanwhile: systemd then takes the list away, and the cgroup stays because of the trial
    # guard: a unit that was left meanwhile is not wrong -> wrong
    return wrong if wrong and populated(path) else []


def elsewhere_open(
    places: Places,
    every: Sequence[str],
    wanted: Iterable[str],
    exempt: Collection[int],
    end: float,
    granted: Callable[[str, int], set[str]],
) -> list[str]:
    """GPUs that can be opened where people run outside of all these units: something else starts programs for them.
    ``exempt``: uids that are not kept out. ``granted``: the files that a person may open in a cgroup that is not a unit
    of theirs."""
    problems = []
    for cgroup, uid in sorted(outside.of_people(wanted, exempt, places.proc).items()):
        path = next((one for base in places.cgroups if os.path.isdir(one := base + cgroup)), None)
        if path is None:
            if not cgroup.isascii():  # guard: a cgroup that is not found by its name is not closed
                problems.append(
                    f"{cgroup}: whether GPUs are closed to {owner(uid)} there is not known: it has an odd name"
                )
            continue  # any other has just ended
        try:
            can = proof.opens(path, every, min(proof.PATIENCE, end - time.monotonic()))
        except FileNotFoundError:
            continue  # it has just ended
        except (NodeError, OSError) as error:  # guard: where it cannot be tried whether people are kept out, it is told
            problems.append(f"{cgroup}: whether GPUs are closed to {owner(uid)} there is not known: {in_words(error)}")
            continue
        wrong = sorted(set(can) - granted(cgroup, uid))
        # guard: where people run and no gate is, it is told
        problems += [f"{cgroup}: {one} can be opened: {owner(uid)} runs there, and it has no gate" for one in wrong]
    return problems


def _elsewhere(places: Places, unit: str) -> str | None:
    """The cgroup of a service that an admin has put into another slice."""
    if not unit.endswith(".service"):
        return None
    done = places.command(("systemctl", "show", "--property=ControlGroup", "--value", unit))
    name = done.stdout.strip().lstrip("/")
    paths = [os.path.join(base, name) for base in places.cgroups if name]
    return next((path for path in paths if os.path.isdir(path)), None)
