"""What people may open of GPUs, brought to what was granted: at boot, by a timer, and whenever a grant begins or ends.

Wanted is the union of all grants of a person, told to systemd as one whole list. It is remembered until the next boot,
as systemd's runtime drop-ins are, so that a second run changes nothing. Then it is tried.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import NodeError, in_words
from ..files import flocked, read_bytes, write_atomic
from ..lookup import Lookup, owner, system_lookup
from ..paths import RUN, STATE
from ..run import Finished, Runner, run_command
from ..unit_status import said
from . import gate, grants, jobs, outside, proof, tried
from .device_files import all_files, gpus
from .gate import Settings
from .grants import Grant

APPLIED = "gpu-gate.json"
SETTLE = 3.0  # seconds until what systemd was told is in force
TOLD = 30.0  # seconds for systemd's answer
TRIALS = 60.0  # seconds for all trials: the unit has 120
CONTROL = "/run/systemd/system.control"  # where set-property --runtime writes
UNSURE = ("?",)  # what a unit was told that has not come to pass: it is told again


def _command(command: Sequence[str]) -> Finished:
    return run_command(command, seconds=TOLD)


@dataclass(frozen=True)
class Places:
    """Where everything is. Tests put it elsewhere."""

    state: str = STATE
    run: str = RUN
    settings: str = gate.SETTINGS
    control: str = CONTROL
    kept: str = "/etc/systemd/system.control"  # where set-property without it does
    units: str = gate.UNITS
    root: str = "/"
    proc: str = "/proc"
    command: Runner = _command
    cgroups: Sequence[str] = proof.CGROUPS
    lookup: Lookup = system_lookup


@dataclass
class Outcome:
    """``done``: in words. ``problems``: why somebody may open what nobody granted, or cannot what somebody did."""

    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)


def close(places: Places | None = None) -> int:
    """At a boot, before anything acts for people: have the gate closed to all. Grants open it afterwards. Exit 0."""
    where = places or Places()
    return said(keep_out(where, settings_of(where)), [])


def lock_path(places: Places) -> str:
    """Whoever changes grants holds this lock; so does whoever applies them."""
    return os.path.join(places.run, "locks", "gpu-gate")


def adding_path(places: Places) -> str:
    """Whoever adds a grant holds this lock before that one; so does whoever divides GPUs, which can take for ever where
    the driver hangs: grants end meanwhile.
    """
    return os.path.join(places.run, "locks", "gpu-grants")


def reconcile(places: Places, now: float | None = None) -> Outcome:
    """Bring the host to its grants, and try it. Raises NodeError where the settings cannot be read."""
    with flocked(lock_path(places)):
        return under_lock(places, time.time() if now is None else now)


def settings_of(places: Places) -> Settings:
    data = read_bytes(places.settings)
    return Settings("open") if data is None else gate.load(data, places.settings)


def under_lock(places: Places, now: float, *, whole: bool = True) -> Outcome:
    """The same, for whoever holds the lock. Not the ``whole`` host: only units that are told something are tried, for
    somebody waits; the timer tries all of them within a minute.
    """
    settings = settings_of(places)
    found, problems = grants.read(places.state, places.run)
    uids = {one.user: known[0] if (known := places.lookup(one.user)) else None for one in found}
    over = [
        one
        for one in found
        if now >= one.until
        or uids[one.user] not in (one.uid, None)  # guard: a uid that became another's takes over no grant
    ]
    if whole:  # what a job's prolog or epilog did not do; neither waits for it
        over += jobs.ended((one for one in found if one not in over), places.command, now)
        for later in jobs.prolonged(found, places.command, now):
            grants.write(later, places.state)
            found = [later if one.id == later.id else one for one in found]
    problems += grants.delete((one.id for one in over), places.state, places.run)
    left = [one for one in found if one not in over]
    there = gpus(settings, places.root)
    outcome = Outcome(problems=problems, grants=left)
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
        _forget(places, unit)
    # guard: an account that is gone leaves no grant to whoever comes -> left
    holding = [one for one in left if uids[one.user] is not None]
    wanted = _wanted(settings, holding, there, now, units, places.lookup)
    told = set()
    for unit, allow in wanted.items():
        # guard: systemd is told again when a driver was loaded -> False
        stale = before != seen
        if applied.get(unit) != allow or (allow is not None and (stale or not _drop_in_there(places, unit))):
            applied[unit] = allow if _apply(places, unit, allow, outcome) else [*UNSURE]
            told.add(unit)
    if settings.access == "granted":
        tried_now = wanted if whole else {unit: allow for unit, allow in wanted.items() if unit in told}
        end = time.monotonic() + TRIALS
        for unit in _prove(places, every, tried_now, told, outcome, end):
            applied[unit] = [*UNSURE]
        if whole:

            def of_job(cgroup: str, uid: int) -> set[str]:
                return {path for gpu in jobs.granted(cgroup, uid, holding, now) for path in there.get(gpu, ())}

            outcome.problems += _elsewhere_open(places, every, tried_now, end, of_job)
            # guard: what was tried of some units is not said of the host
            tried.write(outcome.problems, places.run)
    _remember(places, {unit: allow for unit, allow in applied.items() if allow is not None}, seen)
    return outcome


def _devices(settings: Settings, every: Iterable[str], root: str) -> str:
    """What systemd made numbers of when it was told a list: the groups of devices, and the files of GPUs."""
    lines = (read_bytes(os.path.join(root, "proc/devices")) or b"").decode("ascii", "replace").splitlines()
    for path in sorted({*settings.control, *every}):
        try:
            lines.append(f"{path} {os.stat(path).st_rdev:x}")
        except OSError:
            pass  # it is not there, or not yet
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _units(places: Places, applied: Iterable[str]) -> list[str]:
    """The slices of people that are there, and the services; those that were told before, too, but for instances."""
    command = (
        "systemctl",
        "list-units",
        "--plain",
        "--no-legend",
        "--full",
        "--all",
        "user-*.slice",
        *(re.sub(r"([@-])\.", r"\1*.", one) for one in gate.SERVICES),
    )
    done = places.command(command)
    if done.returncode != 0:
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
    there += [os.path.basename(path) for path in proof.slices(places.cgroups)]
    return sorted({*there, *(one for one in applied if gate.family(one) == one)})


def keep_out(places: Places, settings: Settings) -> list[str]:
    """Have systemd close the gate to whoever comes, and return the drop-ins that were not as they should be.

    Raises NodeError, OSError.
    """
    wanted = {} if settings.access == "open" else gate.drop_ins(settings)
    wrong = {}
    for name, text in wanted.items():
        path = os.path.join(places.units, name)
        if read_bytes(path) != text.encode():
            wrong[path] = text
    for path, text in wrong.items():
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_atomic(path, text.encode(), mode=0o644, sync=False)
    if wrong:
        done = places.command(("systemctl", "daemon-reload"))
        if done.returncode != 0:
            raise NodeError(f"systemd does not read its drop-ins: {done.stderr.strip()}")
    return list(wrong)


def _wanted(
    settings: Settings,
    left: Sequence[Grant],
    there: Mapping[str, Sequence[str]],
    now: float,
    units: Sequence[str],
    lookup: Lookup,
) -> dict[str, list[str] | None]:
    """Unit → its whole list; an empty one: not kept out; None: there is no gate."""
    if settings.access == "open":
        return dict.fromkeys(units)
    held = grants.by_uid(left, now)
    slices = {f"user-{uid}.slice": gpus for uid, gpus in held.items()}
    admins = [found[0] for name in settings.exempt if (found := lookup(name)) is not None]
    exempt = {f"user-{uid}.slice" for uid in (0, *admins)}
    # told before they are there: the drop-in for all slices closes theirs as well
    devices = {
        unit: [path for gpu in slices.get(unit, ()) for path in there.get(gpu, ())]
        for unit in sorted({*units, *slices} - exempt)
    }
    # what closes comes first: whatever happens in between, nobody keeps what has ended because of others
    wanted: dict[str, list[str] | None] = {
        unit: gate.allowed(settings, devices[unit]) for unit in sorted(devices, key=lambda unit: len(devices[unit]))
    }
    wanted.update({unit: [] for unit in sorted(exempt)})
    return wanted


def _drop_in_there(places: Places, unit: str) -> bool:
    """Whether systemd has what it was told; a `systemctl revert` has taken it away."""
    return os.path.exists(os.path.join(places.control, f"{unit}.d", "50-DeviceAllow.conf"))


def _apply(places: Places, unit: str, allow: Sequence[str] | None, outcome: Outcome) -> bool:
    """Tell systemd, and return whether it took it. Opened again, nothing stays behind that hides what comes later."""
    command = ("systemctl", "set-property", "--runtime", unit, *gate.properties(allow))
    try:
        done = places.command(command)
        why = done.stderr.strip() if done.returncode != 0 else None
    except (NodeError, OSError) as error:  # guard: a unit that cannot be told keeps no other from being told
        why = in_words(error)
    if why is not None:  # guard: what systemd refuses is told
        outcome.problems.append(f"{unit}: its list of devices could not be set: {why}")
        return False
    if allow is None:
        _forget(places, unit)
    outcome.done.append(f"{unit}: {_words(allow)}")
    return True


def _forget(places: Places, unit: str) -> None:
    for path in set_by_property(places.control, unit, "Device*"):
        os.unlink(path)


def set_by_property(directory: str, unit: str, name: str) -> list[str]:
    """The files that `systemctl set-property` has left for a property, or for those that a pattern names."""
    return glob.glob(os.path.join(glob.escape(directory), f"{glob.escape(unit)}.d", f"50-{name}.conf"))


def _words(allow: Sequence[str] | None) -> str:
    if not allow:
        return "open"
    return f"closed but for {', '.join(one.partition(' ')[0] for one in allow if one.startswith('/dev/')) or 'nothing'}"


def _prove(
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
            _apply(places, unit, allow, outcome)
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
        path = proof.cgroup_of(unit, places.cgroups) or _elsewhere(places, unit)
        if path is None or not proof.populated(path):
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
    return wrong if wrong and proof.populated(path) else []


def _elsewhere_open(
    places: Places,
    every: Sequence[str],
    wanted: Iterable[str],
    end: float,
    granted: Callable[[str, int], set[str]],
) -> list[str]:
    """GPUs that can be opened where people run outside of all these units: something else starts programs for them.
    ``granted``: the files that a person may open in a cgroup which is no unit of theirs."""
    exempt = [0, *(found[0] for name in settings_of(places).exempt if (found := places.lookup(name)) is not None)]
    problems = []
    for cgroup, uid in sorted(outside.of_people(wanted, exempt, places.proc).items()):
        path = next((one for base in places.cgroups if os.path.isdir(one := base + cgroup)), None)
        try:
            can = [] if path is None else proof.opens(path, every, min(proof.PATIENCE, end - time.monotonic()))
        except FileNotFoundError:
            continue  # it has just ended
        except (NodeError, OSError) as error:
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


def _applied(places: Places) -> tuple[dict[str, list[str] | None], str]:
    """What each unit was told last, and with which devices there."""
    try:
        found = json.loads(read_bytes(os.path.join(places.run, APPLIED)) or b"{}")
        units = {str(unit): [str(one) for one in allow] for unit, allow in found["units"].items()}
        return {**units}, str(found["devices"])
    except (ValueError, AttributeError, TypeError, LookupError):
        return {}, ""  # a damaged record: everything is told again


def _remember(places: Places, applied: Mapping[str, Sequence[str] | None], seen: str) -> None:
    data = json.dumps({"devices": seen, "units": applied}, indent=1).encode()
    path = os.path.join(places.run, APPLIED)
    if read_bytes(path) != data:
        write_atomic(path, data, mode=0o600, sync=False)
