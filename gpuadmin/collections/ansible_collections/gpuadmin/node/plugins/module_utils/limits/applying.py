"""Limits brought into force: written where systemd reads them until the next boot, told to what runs, and looked at.

What a node is told is kept in its state; a unit applies it at each boot, whatever root was booted. systemd changes what
runs neither when a drop-in changes nor at a daemon-reload (it only says so): set-property does, and the kernel is read.
"""

from __future__ import annotations

import glob
import os
import re
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.records.limits import NodeLimits as Wanted
from gpuadmin.common.text import size_words

from .. import followed
from ..cgroups import JOB_SERVICES, SSH_SERVICES, controllers, find_cgroup, slices
from ..errors import NodeError, in_words
from ..files import flocked, write_atomic
from ..lookup import Lookup, owner, system_lookup
from ..paths import RUN, STATE
from ..run import Runner, run_command
from ..unit_status import SETTLE, Outcome, print_outcome
from . import records, worded
from .bounds import ALL, IN_FORCE, NPROC, OWN, TOGETHER, UNITS, Bounds, Machine, as_kernel, drop_ins

RECORD = "limits.json"
_ABOVE = (TOGETHER, "system.slice")  # where services are not to be: without limits, and with them
_UNREAD = "limits"
_SLICE = re.compile(r"user-([0-9]{1,10})\.slice")


@dataclass(frozen=True)
class Places:
    """Where everything is. Tests put it elsewhere."""

    state: str = STATE
    run: str = RUN
    units: str = UNITS
    control: str = "/run/systemd/system.control"  # where set-property --runtime writes
    cgroups: str = "/sys/fs/cgroup"
    proc: str = "/proc"
    command: Runner = run_command
    lookup: Lookup = system_lookup


def main(places: Places | None = None) -> int:
    """Apply what limits.json says. 1 where something is not in force."""
    outcome = apply(places or Places())
    return print_outcome(outcome.done or ["the limits are as they should be"], outcome.problems)


def load(places: Places) -> Wanted | None:
    """What this node was told; None: nothing. Raises NodeError for a damaged record."""
    return records.load(Wanted, os.path.join(places.state, RECORD))


def record(wanted: Wanted | None, places: Places, check: bool) -> bool:
    """Have what is wanted in the node's state. Returns whether it differed."""
    path = os.path.join(places.state, RECORD)
    differed = records.differs(path, wanted)
    if not check:  # guard: a check records no limits -> True
        records.record(path, wanted)
    return differed


def apply(places: Places, wanted: Wanted | None = None, *, check: bool = False, given: bool = False) -> Outcome:
    """Bring the node to its limits. ``given``: to ``wanted``, and not to what is recorded."""
    if check:
        return _apply(places, wanted if given else load(places), check=True)
    with flocked(os.path.join(places.run, "locks", "limits")):  # guard: limits are applied by one at a time
        return _apply(places, wanted if given else load(places), check=False)


def machine(places: Places) -> Machine:
    """What this node has."""
    sizes = dict(re.findall(r"(?m)^(\w+): +([0-9]+) kB$", _read(f"{places.proc}/meminfo")))
    threads, pids = (_read(f"{places.proc}/sys/kernel/{name}").strip() for name in ("threads-max", "pid_max"))
    try:
        tasks = min(int(threads), int(pids))
        return Machine(int(sizes["MemTotal"]) << 10, int(sizes["SwapTotal"]) << 10, tasks, os.cpu_count() or 1)
    except (KeyError, ValueError):
        raise NodeError(f"{places.proc} does not say how much memory and how many tasks this node can have") from None


def of_person(uid: int, places: Places) -> dict[str, str]:
    """What systemd is told of a person's slice: property → value; nothing where this node was told no limits."""
    texts = _texts(load(places), places)
    text = texts.get(f"user-{uid}.slice.d/{OWN}") or texts.get(f"user-.slice.d/{ALL}", "")
    return dict(re.findall(r"(?m)^(\w+)=(.*)$", text))


def _texts(wanted: Wanted | None, places: Places) -> dict[str, str]:
    if wanted is None:
        return {}
    own: dict[int, Bounds] = {}
    for entry in wanted.people:
        for name in entry.names:
            found = places.lookup(name)
            if found is not None:  # accounts come later than limits of theirs: applied again with them
                own[found[0]] = Bounds.of(entry).over(own.get(found[0], Bounds()))
    admin = None if wanted.admin is None else places.lookup(wanted.admin)
    # guard: the admin is not limited with the others -> [0]
    exempt = [0] if admin is None else [0, admin[0]]
    return drop_ins(Bounds.of(wanted), own, exempt, machine(places))


def _apply(places: Places, wanted: Wanted | None, *, check: bool) -> Outcome:
    texts, outcome = _texts(wanted, places), Outcome()
    ours = [path for name in (ALL, OWN) for path in glob.glob(f"{places.units}/*.d/{name}")]
    there = {os.path.relpath(path, places.units): path for path in ours}
    changed = sorted(path for path, text in texts.items() if _read(os.path.join(places.units, path)) != text)
    gone = sorted(set(there) - set(texts))
    before = {path: _read(real) for path, real in there.items()}
    outcome.done += worded.changes(before, texts, owner)
    # guard: limits that a killed run has written are read by the next one -> False
    unread = bool(followed.left(_UNREAD, places.run))
    told = bool(changed or gone or unread)
    if unread and not (changed or gone):
        outcome.done.append("systemd reads the limits that an interrupted run has written")
    running, elsewhere = _running(places), _elsewhere(texts, places)
    outcome.done += [f"{unit}: is restarted, so that its jobs count in another slice" for unit in elsewhere]
    if changed:
        outcome.done += _over(texts, running)
    if check:
        if not told and wanted is not None:
            outcome.done += [f"{unit}: {worded.listed(values)}" for unit, values in _differing(running, places).items()]
        return outcome
    if changed or gone:
        followed.remember(_UNREAD, [*changed, *gone], places.run)
    for path in changed:
        os.makedirs(os.path.dirname(os.path.join(places.units, path)), exist_ok=True)
        write_atomic(os.path.join(places.units, path), texts[path].encode(), mode=0o644, sync=False)
    for path in gone:
        os.unlink(there[path])
    if told:
        _systemctl(places, "daemon-reload")  # guard: systemd reads the limits that were written
    for unit in elsewhere:
        _systemctl(places, "try-restart", unit)
    # systemd keeps a cgroup in which something from before still runs
    outcome.done += [
        f"{unit}: a job of it is running, so this takes effect at its next start" for unit in _elsewhere(texts, places)
    ]
    if told or wanted is not None:
        # of a job that runs on, the slice is another from the next start on
        running = _running(places)
        _in_force(places, running, outcome, told=told or bool(elsewhere))
        outcome.problems += _handed_on(places, [unit for unit in (*SSH_SERVICES, *JOB_SERVICES) if unit in running])
    followed.forget(_UNREAD, places.run)  # brought into force as well: where nobody has limits, nothing looks again
    return outcome


def _handed_on(places: Places, units: Sequence[str]) -> list[str]:
    """Have what runs hand on what systemd says of it. systemd gives that to a process only when it starts."""
    problems = []
    for unit in units:
        shown = _systemctl(places, "show", f"--property=MainPID,{NPROC}", unit)
        values = dict(line.partition("=")[::2] for line in shown.splitlines())
        most = resource.RLIM_INFINITY if values[NPROC] == "infinity" else int(values[NPROC])
        pid = int(values["MainPID"])
        if pid == 0:  # nothing runs, and of prlimit this is ourselves
            continue
        try:
            resource.prlimit(pid, resource.RLIMIT_NPROC, (most, most))
        except ProcessLookupError:
            continue  # it starts again, with them
        except PermissionError:
            continue  # more than it has: in a container not even root gives that. It has it from its next start on
        except OSError as error:
            problems.append(f"{unit}: {NPROC}={values[NPROC]} is not in force: {in_words(error)}")
    return problems


def _running(places: Places) -> dict[str, str]:
    """What limits concern and runs: unit → its cgroup."""
    bases = (places.cgroups,)
    found = {TOGETHER: os.path.join(places.cgroups, TOGETHER)}
    found.update(
        {os.path.basename(one): one for one in sorted(slices(bases)) if _SLICE.fullmatch(os.path.basename(one))}
    )
    for above in _ABOVE:
        found.update(
            {one: os.path.join(places.cgroups, above, one) for one in JOB_SERVICES if _is_in(places, one, above)}
        )
    # of an instance nothing is looked at: it has its drop-in from its start on
    found.update({one: path for one in SSH_SERVICES if "@" not in one and (path := find_cgroup(one, bases))})
    return {unit: path for unit, path in found.items() if os.path.isdir(path)}


def _is_in(places: Places, unit: str, above: str) -> bool:
    return os.path.isdir(os.path.join(places.cgroups, above, unit))


def _elsewhere(texts: Mapping[str, str], places: Places) -> list[str]:
    """The services that run, and have to be started again to be in the slice that they are to be in."""
    return [unit for unit in JOB_SERVICES if _is_in(places, unit, _ABOVE[f"{unit}.d/{ALL}" in texts])]


def _over(texts: Mapping[str, str], running: Mapping[str, str]) -> list[str]:
    """Who takes more than they may from now on: the kernel ends processes of theirs."""
    found = []
    for unit, path in running.items():
        match = _SLICE.fullmatch(unit)
        text = texts.get(f"{unit}.d/{OWN}") or texts.get(f"user-.slice.d/{ALL}", "") if match else ""
        most = re.search(r"(?m)^MemoryMax=([0-9]+)$", text)
        used = _read(os.path.join(path, "memory.current")).strip()
        if match and most and used.isdecimal() and int(used) > int(most[1]):
            who = owner(int(match[1]))
            found.append(
                f"{who} uses {size_words(int(used))} of memory and may use {size_words(int(most[1]))}: "
                "what is not cache is taken from them, and processes of theirs end"
            )
    return found


def _differing(running: Mapping[str, str], places: Places) -> dict[str, dict[str, str]]:
    """Unit → property as systemd has it, where the kernel has something else. Raises NodeError."""
    if not running:
        return {}
    names = ",".join(name for name, _file, _free in IN_FORCE)
    shown = _systemctl(places, "show", f"--property=Id,{names}", *running)
    there, found = controllers([places.cgroups]), {}
    for block in shown.strip().split("\n\n"):
        values = dict(line.partition("=")[::2] for line in block.splitlines())
        unit = values.get("Id", "")
        if unit not in running:
            continue
        odd = {}
        for name, file, free in IN_FORCE:
            wanted = as_kernel(name, values.get(name, ""))
            if name == "MemorySwapMax" and not os.path.exists(os.path.join(running[unit], file)):
                continue  # a kernel without swap has no such file
            # no file: systemd has not handed the controller on to here, which it does for whoever has a value
            none = "" if values.get(name) not in ("", "infinity", "[not set]", None) else free
            words = (_read(os.path.join(running[unit], file)).split() or [none])[0]
            # guard: what the kernel has counts, not what systemd says
            if file.partition(".")[0] in there and wanted != words and os.path.isdir(running[unit]):
                odd[name] = values.get(name, "")
        if odd:
            found[unit] = odd
    return found


def _in_force(places: Places, running: Mapping[str, str], outcome: Outcome, *, told: bool) -> None:
    differing = _differing(running, places)
    made: list[str] = []
    refused: dict[str, str] = {}
    for unit, values in differing.items():
        settings = [_setting(name, value) for name, value in values.items()]
        kept = [os.path.join(places.control, f"{unit}.d", f"50-{one.partition('=')[0]}.conf") for one in settings]
        new = [path for path in kept if not os.path.exists(path)]
        try:
            _systemctl(places, "set-property", "--runtime", unit, *settings)
        except (NodeError, OSError) as error:  # guard: a limit that is refused keeps nobody else from theirs
            refused[unit] = f": {in_words(error)}"
            continue
        finally:
            # they would hide what a site says later, and after a run that was killed, too
            # guard: a run that is killed leaves no limit that hides a later one -> []
            there = [path for path in new if os.path.exists(path)]
            for path in there:
                os.unlink(path)
            made += there
        if not told:
            outcome.done.append(f"{unit}: {worded.listed(values)}, as it was not in force")
    end = time.monotonic() + SETTLE
    left = _differing(running, places) if differing else {}
    while left and time.monotonic() < end:
        time.sleep(0.05)  # systemd tells nobody that it has done it
        left = _differing(running, places)
    if made:
        _systemctl(places, "daemon-reload")  # guard: what was told for this once hides nothing that is said later
    # guard: a limit that is not in force is told
    outcome.problems += [
        f"{unit}: {worded.listed(values)} is not in force{refused.get(unit, '')}" for unit, values in left.items()
    ]


def missing(places: Places) -> list[str]:
    """What this kernel cannot limit for people: controllers that cgroup v2 does not have."""
    return sorted({"cpu", "memory", "pids"} - controllers([places.cgroups]))


def _setting(name: str, shown: str) -> str:
    """What systemd shows of a property, as set-property takes it."""
    if name == "CPUQuotaPerSecUSec":
        quota = as_kernel(name, shown)
        return "CPUQuota=" if quota == "max" else f"CPUQuota={int(quota) // 1000}%"
    return f"{name}={'' if shown == '[not set]' else shown}"


def _systemctl(places: Places, *arguments: str) -> str:
    done = places.command(("systemctl", *arguments))
    if done.returncode != 0:
        raise NodeError(f"systemctl {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read(1 << 20)
    except OSError:
        return ""
