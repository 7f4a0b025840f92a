"""The GPUs of a node for a diagnosis: what is missing, who holds them, and whether containers can get one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..cgroups import find_owner
from ..gpus import cdi, driver
from ..gpus.kernels import boot_problems
from ..gpus.look import Expected, Places, look
from ..gpus.look import judge as judge_gpus
from ..lookup import find_name
from .granted import granted
from .subject import Subject

SECONDS = 2.0  # less than a part has, so that a driver that hangs is an answer
MOST_PROCESSES = 200  # of one GPU, whose owners are looked for
FULL = 0.9  # of a GPU's memory: nothing that computes fits beside it
PEOPLE = 1000  # the first uid that may be a person's; a display's server holds GPUs, too
OTHERS = "others"


def gpus(subject: Subject) -> dict[str, Any] | None:
    """GPUs of a node; None if none shows and none is expected. ``holders`` of each GPU that answers are names.

    Whoever asks for themselves gets their own name and, for everybody else, the word ``others``.
    """
    if not subject.node:
        return None
    seen = look(_places(subject), seconds=SECONDS, kernels=False)
    if not (seen.devices or seen.gpus or subject.gpus):
        return None
    wanted = [one for one in seen.devices if one.driver != "vfio-pci"] if subject.gpus != 0 else []
    missing = driver.missing(seen.driver, wanted)
    verdict = judge_gpus(seen, Expected(subject.gpus, subject.gpu_model))
    # names are judged where it is known which GPUs answer
    containers = list(cdi.wrong(seen.containers, seen.gpus)) if seen.problem is None else []
    worse = [words for words in verdict.worse if words not in containers]
    lost = [words for words in worse if "does not answer" in words or "does not have it" in words]
    # guard: a GPU that is closed to somebody is not broken to them -> False
    closed = subject.own and granted(subject) is not None
    return {
        "number": len(seen.devices),
        "expected": subject.gpus,
        "missing": missing,
        "differ": [seen.driver.module, seen.driver.libraries] if seen.driver.differ else None,
        "problem": seen.problem if seen.driver.module is not None and wanted and not closed else None,
        "broken": [] if missing or closed else list(verdict.broken),
        "lost": [] if missing or closed else lost,
        "worse": [] if missing or closed else [words for words in worse if words not in lost],
        "gpus": [_held(gpu, subject) for gpu in seen.gpus if gpu["problem"] is None],
        "containers": [] if closed else containers,
    }


def kernels(subject: Subject) -> list[str] | None:
    """Reasons why GPUs would not work after the next boot: as last checked, and by a look where files changed since."""
    return boot_problems(subject.root) if subject.node else None


def _places(subject: Subject) -> Places:
    """The places to look at. Root's lock is root's alone: a person who asks for themselves has one of their own."""
    lock = f"run/user/{os.geteuid()}/gpuadmin/gpus.lock" if subject.own else "run/gpuadmin/gpus.lock"
    bus, log = subject.path("sys/bus/pci/devices"), subject.path("dev/kmsg")
    return Places(subject.root, bus, (), log, subject.path(lock))


def _held(gpu: Mapping[str, Any], subject: Subject) -> dict[str, Any]:
    used, most = gpu.get("memory_used"), gpu.get("memory")
    holders = set()
    for process in gpu["processes"][:MOST_PROCESSES]:
        uid = find_owner(int(process["pid"]), subject.path("proc"))
        if uid is not None and uid >= PEOPLE:
            name = find_name(uid) or f"uid {uid}"
            holders.add(
                name
                if not subject.own or name == subject.name
                else OTHERS  # guard: who asks for themselves hears no names of others
            )
    return {
        "index": gpu["index"],
        "name": gpu.get("name"),
        "full": bool(used and most and used > most * FULL),
        "holders": sorted(holders),
    }
