"""From a site's limits and a machine to what systemd is told: drop-ins as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from gpuadmin.common.amounts import LEAST_MEMORY, LEAST_TASKS, compute_amount

from ..cgroups import JOB_SERVICES, JOB_UNITS, SSH_SERVICES
from ..errors import NodeError

UNITS = "/run/systemd/system"
#: Of drop-ins the last name wins, whatever directory it is in: ours give way to what an admin sets by hand (50-…).
ALL, OWN = "30-gpuadmin-limits.conf", "31-gpuadmin-limits.conf"
#: Where all that people run counts together.
TOGETHER = "user.slice"
#: Tasks of one uid, wherever they are: what a process hands on to all that it starts.
NPROC = "LimitNPROC"
_HEAD = "# Managed by gpuadmin: gpuadmin.yml, limits.\n"
_PAGE = 65536  # the kernel rounds down to a page, the largest of which is this
#: Root and the admin, who look after a full node, come first where processors do not suffice.
FIRST = 1000
LARGEST_RESERVE, SMALLEST_RESERVE = 8 << 30, 256 << 20


@dataclass(frozen=True)
class Machine:
    """What a node has: bytes of memory and swap, tasks that its kernel can have, processors."""

    memory: int
    swap: int
    tasks: int
    processors: int

    @property
    def for_people(self) -> int:
        """Bytes of memory that all people together get: root, sshd and the node's services keep the rest."""
        reserve = min(max(self.memory // 20, SMALLEST_RESERVE), LARGEST_RESERVE)
        return (self.memory - reserve) // _PAGE * _PAGE


@dataclass(frozen=True)
class Bounds:
    """As a site has them. None: as for everybody."""

    memory: str | None = None
    swap: str | None = None
    tasks: str | None = None
    processors: str | None = None
    processor_weight: int | None = None

    @classmethod
    def of(cls, said: object) -> Bounds:
        """What an entry of a site says of them."""
        return cls(**{one.name: getattr(said, one.name) for one in fields(cls)})

    def over(self, other: Bounds) -> Bounds:
        """These, and the other's where nothing is said here."""
        return Bounds(**{
            one.name: getattr(other, one.name) if getattr(self, one.name) is None else getattr(self, one.name)
            for one in fields(self)
        })  # fmt: skip


def properties(bounds: Bounds, machine: Machine) -> dict[str, str]:
    """What systemd is told of a slice: property → value. Raises NodeError for what is not an amount."""
    try:
        memory = _bytes(bounds.memory, machine.memory, LEAST_MEMORY)
        swap = _bytes(bounds.swap, machine.swap, 0)
        tasks = None if bounds.tasks is None else compute_amount(bounds.tasks, machine.tasks)
        some = None if bounds.processors is None else compute_amount(bounds.processors, 100 * machine.processors)
    except ValueError as error:
        raise NodeError(f"limits: {error}") from None
    if some is not None and bounds.processors is not None and not bounds.processors.endswith("%"):
        some *= 100
    return {
        "MemoryMax": "infinity" if memory is None else str(memory),
        "MemorySwapMax": "infinity" if swap is None else str(swap),
        "TasksMax": "infinity" if tasks is None else str(max(tasks, LEAST_TASKS)),
        "CPUQuota": "" if some is None else f"{max(some, 1)}%",
        "CPUWeight": str(bounds.processor_weight or 100),
    }


def _bytes(text: str | None, whole: int, least: int) -> int | None:
    amount = None if text is None else compute_amount(text, whole)
    return None if amount is None else max(amount, least) // _PAGE * _PAGE


def drop_ins(everybody: Bounds, own: Mapping[int, Bounds], exempt: Iterable[int], machine: Machine) -> dict[str, str]:
    """Path below UNITS → text. ``own``: by uid. ``exempt``: uids that nothing limits: root's and the admin's."""
    common = properties(everybody, machine)
    for_all = str(machine.for_people)
    found = {
        f"user.slice.d/{ALL}": _text("Slice", {"MemoryMax": for_all}),
        f"user-.slice.d/{ALL}": _text("Slice", common),
    }
    of_person = {uid: properties(bounds.over(everybody), machine) for uid, bounds in own.items()}
    counted = _of_each([one["TasksMax"] for one in (common, *of_person.values())], machine)
    # a process that is killed because memory ran out would end the whole service, everybody's jobs with it
    jobs = {**{name: common[name] for name in ("MemoryMax", "MemorySwapMax", "TasksMax")}, "OOMPolicy": "continue"}
    jobs["Slice"] = TOGETHER  # guard: jobs of cron and at take nothing of what all people leave -> "system.slice"
    jobs |= counted  # guard: nobody's jobs keep cron from starting others' -> {}
    found.update({f"{unit}.d/{ALL}": _text("Service", jobs) for unit in (*JOB_SERVICES, JOB_UNITS)})
    # guard: sessions that stay in sshd's service, without logind, do not take all memory -> {}
    of_sshd = _memory_of_sshd(common, machine)
    # guard: a fork bomb in sshd's service leaves the admin a way in -> {}
    of_sshd |= counted
    found.update({f"{unit}.d/{ALL}": _text("Service", of_sshd) for unit in SSH_SERVICES})
    for uid, values in of_person.items():
        found[f"user-{uid}.slice.d/{OWN}"] = _text("Slice", values)
    free = {**properties(Bounds(), machine), "CPUWeight": str(FIRST)}
    for uid in exempt:
        # guard: who looks after the node is not limited with the others
        found[f"user-{uid}.slice.d/{OWN}"] = _text("Slice", free)
    return found


def _memory_of_sshd(common: Mapping[str, str], machine: Machine) -> dict[str, str]:
    """One person's memory and swap for all of its sessions. Killing one must not end sshd."""
    memory = common["MemoryMax"]
    most = machine.for_people if memory == "infinity" else min(int(memory), machine.for_people)
    return {"MemoryMax": str(most), "MemorySwapMax": common["MemorySwapMax"], "OOMPolicy": "continue"}


def _of_each(tasks: Sequence[str], machine: Machine) -> dict[str, str]:
    """In a service that starts programs for people: for each of them as many tasks as anybody may have.

    The kernel counts the tasks of each person there (RLIMIT_NPROC, which they inherit and root is free of): were they
    counted for all of the service, whoever reached that would lock the admin out of sshd, and everybody out of cron.
    """
    if "infinity" in tasks:
        return {}
    # systemd's own bound, 15 %, is reached by two people's
    return {NPROC: str(max(map(int, tasks))), "TasksMax": str(machine.tasks * 4 // 5)}


def _text(kind: str, values: Mapping[str, str]) -> str:
    return _HEAD + f"[{kind}]\n" + "".join(f"{name}={value}\n" for name, value in values.items())


#: Property as systemd shows it → the kernel's file, and what is in it where nothing is limited.
IN_FORCE: Sequence[tuple[str, str, str]] = (
    ("MemoryMax", "memory.max", "max"),
    ("MemorySwapMax", "memory.swap.max", "max"),
    ("TasksMax", "pids.max", "max"),
    ("CPUWeight", "cpu.weight", "100"),
    ("CPUQuotaPerSecUSec", "cpu.max", "max"),
)


def as_kernel(name: str, shown: str) -> str:
    """What systemd shows of a property, as the kernel's file has it (the quota: without its period)."""
    if shown in ("infinity", ""):
        return "max"
    if name == "CPUWeight":
        return "100" if shown == "[not set]" else shown
    if name == "CPUQuotaPerSecUSec":
        return str(_microseconds(shown) // 10)  # of a period of 100 ms
    return shown


def _microseconds(text: str) -> int:
    """systemd's `1min 4s`, `500ms`."""
    units = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6}
    total = 0.0
    for part in text.split():
        unit = part.lstrip("0123456789.")
        total += float(part[: len(part) - len(unit)]) * units[unit]
    return round(total)
