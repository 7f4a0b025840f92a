"""What people may open of GPUs, brought to what was granted: at boot, by a timer, and whenever a grant begins or ends.

Wanted is the union of all grants of a person, told to systemd as one whole list. It is remembered until the next boot,
as systemd's runtime drop-ins are, so that a second run changes nothing. Then it is tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..cgroups import slices
from ..errors import NodeError, in_words
from ..files import flocked, read_bytes, write_atomic
from ..unit_status import Outcome, print_outcome
from . import gate, grants
from .device_files import all_files, gpus
from .gate import Places, Settings, apply, forget, has_drop_in, keep_out
from .grants import Grant
from .trials import elsewhere_open, prove

APPLIED = "gpu-gate.json"
TRIALS = 60.0  # seconds for all trials: the unit has 120
UNSURE = ("?",)  # what a unit was told that has not come to pass: it is told again


@dataclass
class Reconciled(Outcome):
    """``problems``: why somebody may open what nobody granted, or cannot what somebody did. ``grants``: that hold."""

    grants: list[Grant] = field(default_factory=list)


def close(places: Places | None = None) -> int:
    """At a boot, before anything acts for people: have the gate closed to all. Grants open it afterwards. Exit 0."""
    where = places or Places()
    return print_outcome(keep_out(where, gate.read(where.settings)), [])


def lock_path(places: Places) -> str:
    """Whoever changes grants holds this lock; so does whoever applies them."""
    return os.path.join(places.run, "locks", "gpu-gate")


def adding_path(places: Places) -> str:
    """Whoever adds a grant holds this lock before that one; so does whoever divides GPUs, which can take for ever where
    the driver hangs: grants end meanwhile.
    """
    return os.path.join(places.run, "locks", "gpu-grants")


def reconcile(places: Places, now: float | None = None) -> Reconciled:
    """Bring the host to its grants, and try it. Raises NodeError where the settings cannot be read."""
    with flocked(lock_path(places)):  # guard: GPUs are brought to grants while nobody changes them
        return under_lock(places, time.time() if now is None else now)


def under_lock(places: Places, now: float, *, whole: bool = True) -> Reconciled:
    """The same, for whoever holds the lock. Not the ``whole`` host: only units that are told something are tried, for
    somebody waits; the timer tries all of them within a minute.
    """
    settings = gate.read(places.settings)
    found, problems = grants.read(places.state, places.run)
    uids = {one.user: known[0] if (known := places.lookup(one.user)) else None for one in found}
    over = [
        one
        for one in found
        if now >= one.until
        or uids[one.user] not in (one.uid, None)  # guard: a uid that became another's takes over no grant
    ]
    over += grants.ended_runs((one for one in found if one not in over), places.proc)
    if whole:  # what a job's prolog or epilog did not do; neither waits for it
        over += grants.ended_jobs((one for one in found if one not in over), places.command, now)
    problems += grants.delete((one.id for one in over), places.state, places.run)
    left = [one for one in found if one not in over]
    if whole:
        left, late = grants.with_more_time(left, places.command, now, places.run)
        problems += late
    there = gpus(settings, places.root)
    outcome = Reconciled(problems=problems, grants=left)
    outcome.done += [f"the grant {one.id} of {one.user} has ended" for one in over]
    every = all_files(settings, there, places.root)
    seen = _devices(settings, every, places.root)
    applied, before = _applied(places)
    units = _units(places, applied)
    try:
        # guard: who comes next is kept out, whatever root was booted -> []
        outcome.done += [f"{path}: was not as it should be" for path in keep_out(places, settings)]
    except (NodeError, OSError) as error:  # guard: a gate that is not there is told
        outcome.problems.append(f"who comes next is not kept out: {in_words(error)}")
    for unit in [one for one in applied if gate.family(one) != one and one not in units]:
        del applied[unit]  # an instance that has ended does not come back under its name
        forget(places, unit)
    # guard: an account that is gone leaves no grant to whoever comes -> left
    holding = [one for one in left if uids[one.user] is not None]
    # guard: whoever looks after the node opens its GPUs -> [0]
    exempt = [0, *(known[0] for name in settings.exempt if (known := places.lookup(name)) is not None)]
    wanted = _wanted(settings, holding, there, now, units, exempt)
    # guard: systemd is told again when a driver was loaded -> False
    stale = before != seen
    told = {
        unit: allow
        for unit, allow in wanted.items()
        if applied.get(unit) != allow or (allow is not None and (stale or not has_drop_in(places, unit)))
    }
    if told:
        # guard: what a run that was killed has told systemd is told again
        _unsure(places, {**applied, **dict.fromkeys(told, UNSURE)}, before)
    for unit, allow in told.items():
        applied[unit] = allow if apply(places, unit, allow, outcome) else [*UNSURE]
    if settings.access == "granted":
        tried_now = wanted if whole else {unit: allow for unit, allow in wanted.items() if unit in told}
        end = time.monotonic() + TRIALS
        for unit in prove(places, every, tried_now, told, outcome, end):
            applied[unit] = [*UNSURE]
        if whole:

            def of_job(cgroup: str, uid: int) -> set[str]:
                return {path for gpu in grants.granted(cgroup, uid, holding, now) for path in there.get(gpu, ())}

            outcome.problems += elsewhere_open(places, every, tried_now, exempt, end, of_job)
            # guard: what was tried of some units is not said of the host
            gate.write_trial(outcome.problems, places.run)
    _remember(places, {unit: allow for unit, allow in applied.items() if allow is not None}, seen)
    return outcome


def _devices(settings: Settings, every: Iterable[str], root: str) -> str:
    """What systemd made numbers of when it was told a list: the groups of devices, and the files of GPUs."""
    lines = (read_bytes(os.path.join(root, "proc/devices")) or b"").decode("ascii", "replace").splitlines()
    for path in sorted({*settings.control, *every}):
        try:
            # guard: systemd is told again when a file became another device
            lines.append(f"{path} {os.stat(path).st_rdev:x}")
        except OSError:
            pass  # it is not there, or not yet
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _units(places: Places, applied: Iterable[str]) -> list[str]:
    """The slices of people that are there, and the services; those that were told before, too, but for instances."""
    command = (
        "systemctl", "list-units", "--plain", "--no-legend", "--full", "--all", "user-*.slice",
        *(re.sub(r"([@-])\.", r"\1*.", one) for one in gate.SERVICES),
    )  # fmt: skip
    done = places.command(command)
    if done.returncode != 0:  # guard: units that systemd does not list are not taken for none
        raise NodeError(f"systemd does not say which slices there are: {done.stderr.strip()}")
    lines = [line.split()[:3] for line in done.stdout.splitlines() if len(line.split()) > 2]
    # an instance has its drop-in when it starts; of one that failed processes may be left
    there = [
        unit
        for unit, load, active in lines
        if active not in ("inactive", "failed")
        or (load == "loaded" and (active == "failed" or gate.family(unit) == unit))
    ]
    # guard: a slice that systemd does not know and somebody is in is closed
    there += [os.path.basename(path) for path in slices(places.cgroups)]
    return sorted({*there, *(one for one in applied if gate.family(one) == one)})


def _wanted(
    settings: Settings,
    left: Sequence[Grant],
    there: Mapping[str, Sequence[str]],
    now: float,
    units: Sequence[str],
    exempt: Sequence[int],
) -> dict[str, list[str] | None]:
    """Unit → its whole list; an empty one: not kept out; None: there is no gate."""
    if settings.access == "open":
        return dict.fromkeys(units)
    held = grants.by_uid(left, now)
    slices = {f"user-{uid}.slice": gpus for uid, gpus in held.items()}
    open_to = {f"user-{uid}.slice" for uid in exempt}
    # told before they are there: the drop-in for all slices closes theirs as well
    devices = {
        unit: [path for gpu in slices.get(unit, ()) for path in there.get(gpu, ())]
        for unit in sorted({*units, *slices})
    }
    # what closes comes first: whatever happens in between, nobody keeps what has ended because of others
    wanted: dict[str, list[str] | None] = {
        unit: gate.allowed(settings, devices[unit]) for unit in sorted(devices, key=lambda unit: len(devices[unit]))
    }
    wanted.update({unit: [] for unit in sorted(open_to)})
    return wanted


def _applied(places: Places) -> tuple[dict[str, list[str] | None], str]:
    """What each unit was told last, and with which devices there."""
    try:
        found = json.loads(read_bytes(os.path.join(places.run, APPLIED)) or b"{}")
        units = {str(unit): [str(one) for one in allow] for unit, allow in found["units"].items()}
        return {**units}, str(found["devices"])
    except (ValueError, AttributeError, TypeError, LookupError):
        return {}, ""  # a damaged record: everything is told again


def _unsure(places: Places, applied: Mapping[str, Sequence[str] | None], seen: str) -> None:
    """Remember what systemd is about to be told: of a slice that nobody is in a trial does not find it out."""
    try:
        _remember(places, applied, seen)
    except OSError:
        pass  # what ends does not wait for room in /run


def _remember(places: Places, applied: Mapping[str, Sequence[str] | None], seen: str) -> None:
    data = json.dumps({"devices": seen, "units": applied}, indent=1).encode()
    path = os.path.join(places.run, APPLIED)
    if read_bytes(path) != data:
        write_atomic(path, data, mode=0o600, sync=False)


def find_grants(names: Collection[str], places: gate.Places) -> list[Grant]:
    """The grants of these people that have not ended. One that cannot be read opens nothing."""
    return [one for one in grants.read(places.state, places.run)[0] if one.user in names]


def end_grants(names: Collection[str], places: gate.Places) -> list[str]:
    """End all of them, and close their GPUs at once. Returns what is wrong then. Raises NodeError."""
    with flocked(lock_path(places)):  # guard: grants of who leaves end while nobody else changes any
        problems = grants.delete([one.id for one in find_grants(names, places)], places.state, places.run)
        outcome = under_lock(places, time.time(), whole=False)
    # under_lock tries the deletion again, and says itself what is still there
    return outcome.problems or problems
