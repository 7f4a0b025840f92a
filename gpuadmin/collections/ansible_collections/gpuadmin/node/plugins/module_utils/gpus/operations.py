"""Operations on the GPUs of a host: their driver, who may open them, and whether they are as they should be."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Literal, Optional

from gpuadmin.common.records.files import File, FilesOrder
from gpuadmin.common.text import clock, counted
from gpuadmin.common.waiting import BURN_IN

from .. import background, health, unit
from ..answer import Answer
from ..errors import NodeError, nothing_begun
from ..fields import FIRST_HUMAN_UID
from ..files import flocked
from ..logins import announcements
from ..logins.occupants import gpu_users, holders
from ..operation import operation
from ..root.operations import ensure_files
from ..root.session import opened
from ..run import program
from ..slurm import draining, queue
from . import burning, device_files, gate, grants, kernels, mig, pci, reconcile
from .gate import Settings
from .grants import Grant
from .look import Expected, judge, look
from .mig import MigDevice


@dataclass(frozen=True)
class DriverOrder:
    """Have NVIDIA's module for each kernel.

    Finds out which of the host's kernels have NVIDIA's module, and whether it is of the version of the driver's
    libraries. No GPU is needed for it, and no driver is asked. With ``build`` it has DKMS build what is missing. A root
    that is read-only by its btrfs property is opened for it. It reports what it cannot fix. With ``build`` that is a
    failure.
    """

    #: Whether to build modules that are missing or of another version.
    build: bool = False
    #: How many GPUs the host should have. If it should have some, it needs a driver.
    expected: Optional[int] = None
    #: The driver's branch or version that is wanted.
    version: str = ""
    #: Seconds that the build for one kernel may take.
    timeout: int = 3600


UNIT = "gpu-driver"


def build(names: list[str], timeout: int) -> None:
    """Have DKMS build its modules for kernels. Raises NodeError with what it said last."""
    with opened(2 * timeout * len(names) + 60):
        for kernel in names:
            dkms(("autoinstall", "-k", kernel), timeout)
        for kernel in kernels.to_build(kernels.look()):
            # it trusts its own records: a module that somebody deleted counts as installed
            for module in kernels.recorded(dkms(("status", "-k", kernel), timeout)):
                dkms(("install", module, "-k", kernel, "--force"), timeout)


def dkms(arguments: tuple[str, ...], timeout: int) -> str:
    """Run DKMS in a unit, and return what it prints. Raises NodeError."""
    properties = (f"RuntimeMaxSec={timeout}", *unit.BACKGROUND)
    done = background.perform(UNIT, program, {"command": ("dkms", *arguments)}, properties=properties)
    output = str(done["output"])
    if done["status"] != 0:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        raise NodeError(f"`dkms {' '.join(arguments)}` failed: {' '.join(lines[-3:])}")
    return output


def wrong(document: DriverOrder) -> list[str]:
    """What is wrong with the driver that is installed."""
    seen = kernels.look()
    expected = bool(document.expected) and bool(pci.devices(names=()))
    return [*kernels.problems(seen, expected=expected), *kernels.other_version(seen, document.version)]


@operation("gpu_driver", DriverOrder)
def build_driver(document: DriverOrder, check: bool) -> Answer:
    names = kernels.to_build(kernels.look()) if document.build else []
    done = [f"build the GPU driver's module for kernel {one}" for one in names]
    if check:
        left = [] if names else wrong(document)
        return Answer([*done, *(f"wrong with the GPU driver: {one}" for one in left)], {"problems": left})
    if names:
        build(names, document.timeout)
    left = wrong(document)
    kernels.check()  # the next caller gets the new state
    return Answer(done, {"problems": left}, left if document.build else ())


#: Where earlier versions wrote the drop-ins, which win over those in /run.
EARLIER = "/etc/systemd/system"
#: The timer has the settings for its condition: without them it stands still.
_AFTER = (("systemctl", "daemon-reload"), ("systemctl", "restart", "gpuadmin-gpu-gate.timer"))


@dataclass(frozen=True)
class GateOrder:
    """Keep people out of GPUs that they were not granted, or let everybody in again.

    Writes the drop-ins of people's slices and of services that run what people gave them, and brings what runs
    already to the same. Fails where a GPU can be opened afterwards that nobody was granted.
    """

    #: ``open`` for everybody, or ``granted``.
    access: Literal["open", "granted"]
    #: Whose slices stay open beside root's.
    exempt: Sequence[str] = ()
    #: GPU → its device files, on a host without NVIDIA's driver.
    devices: Optional[Mapping[str, Sequence[str]]] = None
    #: How the names of GPUs' devices begin in /proc/devices, on such a host.
    groups: Optional[Sequence[str]] = None


@operation("gpu_gate", GateOrder, role="gpu_stack")
def set_gate(document: GateOrder, check: bool, places: gate.Places | None = None) -> Answer:
    where = places or gate.Places()
    wrong = (gate.problems(where.root) or ()) if document.access == "granted" else ()
    there, earlier = ([f"{above}/{path}" for path in gate.PATHS.values()] for above in (where.units, EARLIER))
    if document.access == "open":
        known = f"{where.units}/{gate.KNOWN}"
        answer = ensure_files(FilesOrder(absent=[where.settings, *there, *earlier, known], after=_AFTER), check)
    else:
        settings = Settings(
            document.access, document.groups or Settings.groups, gpus=document.devices, exempt=document.exempt
        )
        text = json.dumps(asdict(settings), indent=1) + "\n"
        wanted = [File(where.settings, text)]
        wanted += [File(f"{where.units}/{name}", one) for name, one in gate.drop_ins(settings).items()]
        answer = ensure_files(FilesOrder(files=wanted, absent=earlier, after=_AFTER), check)
    if answer.operations:  # its files are in many directories, and nobody chooses among them
        word = "remove" if document.access == "open" else "write"
        done = f"{word} {counted(len(answer.operations), 'file')} of the gate (gpus.access: {document.access})"
        answer = replace(answer, operations=[done])
    if wrong:
        closing = [f"close the gate: {one}" for one in wrong]
        answer = replace(answer, operations=[*answer.operations, *closing], changed=True)
    if check:
        return answer
    outcome = reconcile.reconcile(where)
    if outcome.problems:  # guard: a gate that is open is not called granted
        raise NodeError("; ".join(outcome.problems))
    return answer


@dataclass(frozen=True)
class WantedGrant:
    """A grant as an admin asks for it. ``number``: so many GPUs that nobody has; or ``gpus``, by name or place; or a
    MIG device of the profile ``mig`` that nobody has."""

    id: str
    user: str
    uid: int
    until: int
    who: str
    number: int = 0
    gpus: Sequence[str] = ()
    reason: str = ""
    mig: str = ""


@dataclass(frozen=True)
class GrantsOrder:
    """Grant GPUs to somebody, or end grants, and open or close them at once.

    Without either it only says what is granted.
    """

    #: The grant to add. One of this id that is there is left as it is.
    grant: Optional[WantedGrant] = None
    #: Ids of the grants to end. One that is not there has ended.
    end: Sequence[str] = ()


@operation("gpu_grants", GrantsOrder)
def change_grants(document: GrantsOrder, check: bool, places: gate.Places | None = None) -> Answer:
    where = places or gate.Places()
    with ExitStack() as stack:
        if document.grant is not None:
            stack.enter_context(flocked(reconcile.adding_path(where)))
        # guard: grants are changed by one at a time
        stack.enter_context(flocked(reconcile.lock_path(where)))
        now = time.time()  # somebody else may have had the lock for a while
        found, problems = grants.read(where.state, where.run)
        settings = gate.read(where.settings)
        there = device_files.gpus(settings, where.root)
        parts = {one.uuid: one for one in mig.read(where.run) if one.uuid in there}
        ending = [one for one in found if one.id in document.end]
        done = [f"end the grant {one.id} of {one.user}" for one in ending]
        new = None
        if document.grant is not None and all(one.id != document.grant.id for one in found):
            with nothing_begun():  # a refusal says that nothing was changed
                others = [one for one in found if one not in ending]
                end = announcements.find_window(where.state, int(now), document.grant.until)
                if end < document.grant.until:  # guard: an admin grants nothing into a window unseen
                    moment = time.strftime("%Y-%m-%dT%H:%M", time.localtime(end))
                    raise NodeError(f"this node is maintained from {moment} on: grant --until then")
                new = _new(document.grant, settings, problems, there, parts, others, now, where)
            until = clock(new.until)
            done.append(f"grant {grants.words(new.gpus)} to {new.user} until {until}")
        if done and not check:
            grants.delete([one.id for one in ending], where.state, where.run)
            if new is not None:
                grants.write(new, where.state)
            outcome = reconcile.under_lock(where, now, whole=False)  # it says what could not be deleted
            found, problems = outcome.grants, outcome.problems
        else:
            found = [*(one for one in found if one not in ending), *([] if new is None else [new])]
    held = {} if new is None or not check else _held(new, there, parts, where)
    report = {
        "access": settings.access,
        "held": held,
        "gpus": [one for one in there if one not in parts],
        "grants": [one for one in found if now < one.until],
    }
    return Answer(done, {"grants": report, "problems": problems}, problems if not check else ())


def _held(grant: Grant, there: Mapping[str, Sequence[str]], parts: Collection[str], where: gate.Places) -> object:
    """GPU → who has it open now, besides the person of the grant: what is open stays open."""
    # of a MIG device what is its own alone: everybody on a part has the GPU's file open
    files = {gpu: set(there[gpu][1:] if gpu in parts else there[gpu]) for gpu in grant.gpus}
    wanted = re.compile("|".join(re.escape(path) for paths in files.values() for path in paths))
    found = holders(wanted, FIRST_HUMAN_UID, where.proc)
    return {
        gpu: sorted(user for user, opened in found.items() if opened & paths and user != grant.user)
        for gpu, paths in files.items()
    }


def _new(
    wanted: WantedGrant,
    settings: gate.Settings,
    problems: Sequence[str],
    there: Collection[str],
    parts: Mapping[str, MigDevice],
    others: list[Grant],
    now: float,
    where: gate.Places,
) -> Grant:
    """The grant that is asked for. Raises NodeError where it cannot be given."""
    # guard: a grant where the gate is open would promise what nobody keeps
    if settings.access != "granted":
        raise NodeError(
            "GPUs of this host are open to everybody, so there is nothing to grant: set `gpus.access: granted`,"
            " or `gpus_access` of this host, and run `gpuadmin provision`"
        )
    if problems:  # guard: where a grant cannot be read no GPU is known to be free
        raise NodeError(problems[0])
    owner = where.lookup(wanted.user)
    # guard: a grant is of whoever has the uid on this host
    if owner is None or owner[0] != wanted.uid:
        raise NodeError(f"{wanted.user[:40]} does not have the uid {wanted.uid} on this host: gpuadmin sync-users")
    seen = health.look_at_node(where, health.BURST)
    working = seen.working(there, settings)
    # guard: a GPU that is sick is granted to nobody -> [*there]
    able = [one for one in there if {one, parts[one].gpu if one in parts else one} <= working]
    named = list(there) if wanted.gpus else able
    known = {one: parts[one] for one in named if one in parts}
    try:
        new = _grant(wanted, named, known, others, now, mig.waiting(where.run).gpus)
        if not set(new.gpus) <= set(able):
            raise NodeError(f"{grants.words(new.gpus)} cannot be given")
    except NodeError as error:
        raise NodeError("; ".join([str(error), *(one.words for one in seen.lasting)])) from None
    return new


def _grant(
    wanted: WantedGrant,
    there: list[str],
    parts: Mapping[str, MigDevice],
    others: list[Grant],
    now: float,
    waiting: Sequence[str],
) -> Grant:
    whole = [one for one in there if one not in parts]
    # a place (0, 1, …) is what people see in nvidia-smi
    named = [
        whole[int(one)] if one.isdecimal() and int(one) < len(whole) and one not in there else one
        for one in wanted.gpus
    ]
    # guard: a GPU that waits to be divided is granted to nobody
    if any(one in waiting or (one in parts and parts[one].gpu in waiting) for one in named):
        raise NodeError(
            "the GPU waits to be divided (gpuadmin mig --when-idle): nobody is granted it until that is done"
        )
    parts = {name: one for name, one in parts.items() if one.gpu not in waiting}
    taken = [_related(one, parts) for one in others]
    if wanted.mig:
        gpus = [_part(wanted.mig, parts, taken, now)]
    elif named:
        gpus = grants.choose(named, there, taken, now)
    else:  # one that is divided is not among those that anybody means who says how many
        divided = {one.gpu for one in parts.values()}
        gpus = grants.choose(wanted.number, [one for one in whole if one not in {*divided, *waiting}], taken, now)
    return grants.checked(
        Grant(wanted.id, wanted.user, wanted.uid, gpus, int(now), wanted.until, wanted.who, wanted.reason)
    )


def _related(grant: Grant, parts: Mapping[str, MigDevice]) -> Grant:
    """A grant with what nobody else can have meanwhile: the GPU of a MIG device, the MIG devices of a GPU."""
    above = [parts[one].gpu for one in grant.gpus if one in parts]
    below = [one.uuid for one in parts.values() if one.gpu in grant.gpus]
    # guard: a GPU and a MIG device of it are not granted to two -> grant
    return replace(grant, gpus=[*grant.gpus, *above, *below])


def _part(profile: str, parts: Mapping[str, MigDevice], taken: Iterable[Grant], now: float) -> str:
    """A MIG device of this profile that nobody was granted. Raises NodeError."""
    of_it = [one.uuid for one in parts.values() if one.profile == profile]
    gone = {gpu for one in taken if now < one.until for gpu in one.gpus}
    free = [one for one in of_it if one not in gone]
    if not free:
        kinds = ", ".join(sorted({one.profile for one in parts.values()})) or "none"
        raise NodeError(
            f"all {len(of_it)} MIG devices of the profile {profile[:40]} are granted"
            if of_it
            else f"there is no MIG device of the profile {profile[:40]}; there are: {kinds}"
        )
    return free[0]


@dataclass(frozen=True)
class GpusOrder:
    """The GPUs of a node, and whether they are as they should be.

    Looks at the PCI bus, at the files of NVIDIA's driver, at what its management library (NVML) says of every
    GPU, and at the kernel's log.
    NVML is asked in a process apart, which is given up after ``seconds``. A driver that hangs is reported.
    It changes nothing.
    """

    #: How many GPUs the node should have; without it their number is not judged.
    expected: Optional[int] = None
    #: What the names of all of them should have in them.
    model: str = ""
    #: How many watts each may draw; without it that is not judged.
    watts: Optional[int] = None
    #: How long the driver may take to answer.
    seconds: int = 20


@operation("gpus", GpusOrder, looks=True)
def judge_gpus(document: GpusOrder, check: bool) -> Answer:
    seen = look(seconds=document.seconds)
    verdict = judge(seen, Expected(document.expected, document.model, document.watts))
    # what else keeps work away, as the node's own check of each minute has it
    closed = health.look_at_node(gate.Places(), own=True, seen=seen).words
    found = {**seen.to_report(), "answering": verdict.answering, "broken": verdict.broken, "worse": verdict.worse}
    return Answer(report={"gpus": {**found, "closed": closed}})


@dataclass(frozen=True)
class BurnInOrder:
    """Load a node's GPUs with a program. It takes no work meanwhile, nor afterwards unless it passes.

    Refused where somebody holds a GPU there, was granted one, or has a job. A node that others have drained stays so.
    """

    #: The site's program; without one what DCGM brings.
    command: Sequence[str]
    #: Who asks.
    by: str
    #: What Slurm calls the node; empty: it is in no queue.
    node: str = ""


@operation("burn_in", BurnInOrder)
def burn_in(document: BurnInOrder, check: bool, places: gate.Places | None = None) -> Answer:
    where, now = places or gate.Places(), int(time.time())
    node = document.node if shutil.which("squeue") else ""  # one that joins has no queue yet
    command = burning.choose_program(document.command)
    granted = [one.user for one in grants.read(where.state, where.run)[0] if now < one.until]
    held = {*gpu_users(FIRST_HUMAN_UID, where.proc), *(queue.on(queue.ask_jobs(), node) if node else granted)}
    done = [f"burn in: {' '.join(command)}"]
    if held:  # guard: nobody's work is burnt in
        waits = "wait until they have gone (gpuadmin drain, in a queue)"
        return Answer(problem=f"in use by {', '.join(sorted(held))}: {waits}")
    if check:
        return Answer(done)
    record = burning.Burning(command, document.by, now)
    burning.keep(where.state, record)  # from here on no job's prolog and no grant lets anybody in
    if node:
        draining.bring(draining.Wanted([node], f"by {document.by}", mark=BURN_IN), check=False)
    problem = burning.burn(command)
    burning.keep(where.state, replace(record, ended=int(time.time()), problem=problem))
    # Xids that the burn-in itself has brought are later than its beginning
    found = health.look_at_node(where, own=True)
    if node:  # one that others have drained stays as it is
        draining.bring(draining.Wanted([node], resume=True, mark=BURN_IN), check=False)
        draining.close(node, found)
    return Answer(done, problem="; ".join(found.words) or None)
