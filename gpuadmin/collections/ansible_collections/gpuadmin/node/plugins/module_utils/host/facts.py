"""What the roles have to know of a host before they touch it, in one call."""

from __future__ import annotations

import grp
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from gpuadmin.common.slurm_releases import find_release

from .. import cgroups
from ..errors import NodeError
from ..gpus import device_files, gate, grants, kernels, mig, pci
from ..mounts import Mount, nearest, parse_mountinfo, read_mountinfo
from ..paths import STATE
from ..privileges.accounts import table
from ..privileges.place import Place
from ..root import guard
from ..slurm import divided
from ..slurm import queue as slurm
from ..system import installed_packages, is_debian, os_release, units
from ..textdb import number

MOST_ENTRIES = 10


def docker_members() -> list[str]:
    """Who is in the group docker; such people are as good as root where root's daemon runs."""
    try:
        group = grp.getgrnam("docker")
    except KeyError:
        return []
    # the group does not name whose first one it is (useradd -g docker)
    passwd = table(Place(), "passwd").entries()
    first = [name for name, _, _, gid, *_rest in passwd if number(gid) == group.gr_gid]
    return sorted({*group.gr_mem, *first})


def groups() -> dict[str, int]:
    """The host's own groups, by name; of a name or a gid that is there twice the first one, as the C library has it."""
    found: dict[str, int] = {}
    for name, _password, gid, _members in table(Place(), "group").entries():
        found.setdefault(name, number(gid) or 0)
    return found


def apparmor_profile_needed() -> bool:
    try:
        with open("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", encoding="ascii") as stream:
            restricts = stream.read().strip() != "0"
    except OSError:
        return False
    return restricts and not os.path.exists("/etc/apparmor.d/rootlesskit")


def serves_promoted(state: str = STATE, exports: str = "/etc/exports.d/gpuadmin.exports") -> bool:
    """Whether people have their homes from here since `gpuadmin promote`."""
    return os.path.lexists(os.path.join(state, "promoted.json")) and os.path.lexists(exports)


def look_at(path: str, mounts: list[Mount]) -> dict[str, object]:
    """One path, without looking into anything that is mounted on it."""
    on_it = [mount for mount in mounts if mount.point == path]
    under = nearest(path, mounts)
    entries: list[str] = []
    if not on_it and os.path.isdir(path):
        entries = sorted(os.listdir(path))[:MOST_ENTRIES]
    return {
        "mounts": [{"source": mount.source, "fstype": mount.fstype} for mount in on_it],
        "fstype": under.fstype if under else None,
        "entries": entries,
    }


def hardware() -> dict[str, object]:
    """What jobs can have of a host: processors, MiB of memory, GPUs that answer, and what all of them are (None: not
    known). ``parts``: where a GPU is divided, all that a job can have of GPUs.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    try:
        there = device_files.gpus(gate.read())
    except NodeError:  # a damaged file, which the role gpu_stack is about to write again
        gpus, parts = None, []
    else:
        parts = divided.list_gpu_parts(there, mig.read())
        gpus = len([one for one in there if not one.startswith("MIG-")])
    return {"processors": os.cpu_count() or 1, "memory": memory, "gpus": gpus, "model": device_files.model(),
            "parts": [asdict(one) for one in parts]}  # fmt: skip


def queue(state: str = STATE, codename: str = "") -> dict[str, object]:
    """Whether gpuadmin has set Slurm up here, whose jobs run here (``people``), and which version its daemons are of;
    ``releases``: where one is not installed, what the distribution would bring.
    On the host of the controller also whose jobs run and wait (``jobs``; None: it does not say). ``controllers``: of
    cgroup v2. ``granted``: who has GPUs of an admin's grant."""
    found, _problems = grants.read(state)
    holding = [one for one in found if one.holds(time.time())]
    here = os.path.exists(os.path.join(state, "slurm/slurm.key"))
    people = {one.user for one in holding if one.source == grants.SOURCE}
    if here:  # guard: a node does not leave the queue while a job without GPUs runs there
        people |= grants.running()  # those of another Slurm are in nobody's way
    granted = sorted({one.user for one in holding if one.source != grants.SOURCE})
    daemons = {name: slurm.version(name) for name in ("slurmctld", "slurmd")}
    has = here and daemons["slurmctld"] is not None
    waiting = slurm.owners() if has else []
    return {"here": here, "people": sorted(people), "granted": granted, "jobs": waiting,
            "controllers": sorted(cgroups.controllers()), **daemons,
            "releases": {name: find_release(one, codename) for name, one in daemons.items()}}  # fmt: skip


def facts(paths: Sequence[str]) -> dict[str, object]:
    release = os_release()
    debian = is_debian(release)
    systemd = os.path.isdir("/run/systemd/system")
    listing = ("systemctl", "--no-legend", "--plain", "--no-pager", "--full")
    files = (*listing, "list-unit-files", "--type=service,socket,automount,target")
    mounts = parse_mountinfo(read_mountinfo())
    return {
        "distribution": release.get("ID", "unknown"),
        "name": release.get("PRETTY_NAME", "an unknown system"),
        "codename": release.get("VERSION_CODENAME", ""),
        "debian": debian,
        "hostname": os.uname().nodename,
        "python": list(sys.version_info[:2]),
        "systemd": systemd,
        "packages": installed_packages() if debian else [],
        "active_units": units((*listing, "list-units", "--state=active")) if systemd else [],
        "enabled_units": units((*files, "--state=enabled")) if systemd else [],
        "masked_units": units((*files, "--state=masked")) if systemd else [],
        "docker_members": docker_members(),
        "groups": groups(),
        "hardware": hardware(),
        "queue": queue(codename=release.get("VERSION_CODENAME", "")),
        "kernels": kernels.kernels(),
        "nvswitches": pci.switches(),
        "read_only_root": guard.inspect("/").managed,
        "serves_nfs": os.path.exists("/usr/sbin/exportfs"),
        "serves_promoted": serves_promoted(),
        "apparmor_profile_needed": apparmor_profile_needed(),
        "paths": {path: look_at(path, mounts) for path in paths},
    }
