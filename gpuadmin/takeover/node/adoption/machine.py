"""What a host is and serves: its system, file systems, NFS, Docker, GPUs, units, sudo's rules, sshd and its root.

Nothing is started by asking: Docker's socket would start its daemon, so what it has is seen by its directories.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import re
from collections.abc import Callable

from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import read_small
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import device_files, pci
from ansible_collections.gpuadmin.node.plugins.module_utils.images import layout
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import looking
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import NETWORK, parse_mountinfo, read_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import sshd as effective_sshd
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import sudo as sudo_rules
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from ansible_collections.gpuadmin.node.plugins.module_utils.sshd_settings import MAIN, reads_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.system import is_debian, os_release, units

from gpuadmin.common.records.adoption import (
    Docker,
    Export,
    Gpus,
    Mounted,
    OnBus,
    Root,
    Rule,
    Services,
    Sshd,
    System,
)

from . import bounds

#: Units that say what a host is for.
SERVICES = frozenset(
    """
    prometheus.service alertmanager.service grafana-server.service netdata.service zabbix-server.service
    slurmctld.service slurmd.service slurmdbd.service nfs-server.service nfs-kernel-server.service docker.service
    docker.socket containerd.service sssd.service nslcd.service ypbind.service autofs.service winbind.service
    k3s.service kubelet.service jupyterhub.service
    """.split()  # noqa: SIM905  a list of twenty quoted words hides what is in it
)
REAL = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs"))
DOCKER_DATA = "/var/lib/docker"
_REPOSITORIES = {"docker": "download.docker.com", "nvidia": "developer.download.nvidia.com"}


def system(place: Place) -> System:
    release = os_release()
    kernel = os.uname()
    words = (("PRETTY_NAME", "an unknown system"), ("ID", "unknown"), ("VERSION_CODENAME", ""))
    name, ident, codename = (bounds.name(release.get(key, other)) for key, other in words)
    return System(
        name, ident, codename, "debian" if is_debian(release) else None, bounds.name(kernel.nodename),
        bounds.name(kernel.release),
        platform.python_version(), os.path.isdir("/run/systemd/system"), os.geteuid() == 0,
    )  # fmt: skip


def file_systems(place: Place, text: str | None = None) -> list[Mounted]:
    """Disks and network file systems that are mounted, each mount once. Their size is not asked: it can hang."""
    found = {}
    for mount in parse_mountinfo(read_mountinfo() if text is None else text):
        network = NETWORK.match(mount.fstype) is not None
        if mount.fstype in REAL or network:
            point, source, subvolume = (bounds.line(one) for one in (mount.point, mount.source, mount.root))
            found[mount.point] = Mounted(point, bounds.name(mount.fstype), source, subvolume, network)
    return list(found.values())[:200]


def exports(place: Place) -> list[Export]:
    """What /etc/exports and exports.d offer: exports(5), the path and the words after it."""
    found = []
    extra = sorted(glob.glob(f"{place.path('/etc/exports.d')}/*.exports"))
    for path in [place.path("/etc/exports"), *extra[: bounds.MOST_OF_ONE]]:
        try:
            text = read_small(path, most=bounds.FILE).decode("utf-8", "replace")
        except (FileNotFoundError, NodeError):
            continue
        for raw in re.sub(r"\\\n", " ", text).splitlines():
            line = raw.partition("#")[0].strip()
            match = re.match(r'("[^"]*"|\S+)\s*(.*)', line)
            if match:
                exported = re.sub(r"\\([0-7]{3})", lambda one: chr(int(one.group(1), 8)), match.group(1).strip('"'))
                found.append(Export(bounds.line(exported), bounds.line(match.group(2))))
    return found[:200]


def docker(place: Place) -> Docker:
    """Root's Docker: containers and named volumes by the directories that it keeps, none of which is entered."""
    data = find_docker_data(place.path)
    containers = _names(place.path(os.path.join(data, "containers")))
    volumes = _names(place.path(os.path.join(data, "volumes")))
    # Docker names a volume by 64 hex digits where nobody has named it
    named = None if volumes is None else [one for one in volumes if not re.fullmatch(r"[0-9a-f]{64}", one)]
    return Docker(
        bounds.line(data),
        None if containers is None else len(containers),
        None if named is None else [bounds.name(one) for one in named[: bounds.MOST_OF_ONE]],
        None if volumes is None else len(volumes),
        os.path.exists(place.path("/usr/bin/dockerd")),
        [bounds.name(one) for one in (_names(place.path("/var/lib/systemd/linger")) or [])][: bounds.MOST],
    )


def find_docker_data(path: Callable[[str], str]) -> str:
    """Where root's Docker has its data. ``path``: where a host has what it calls so."""
    try:
        value = json.loads(read_small(path("/etc/docker/daemon.json")))
    except (OSError, ValueError, NodeError):
        return DOCKER_DATA
    named = value.get("data-root") if isinstance(value, dict) else None
    return named if isinstance(named, str) and named.startswith("/") else DOCKER_DATA


def _names(path: str) -> list[str] | None:
    """The directories in a directory, and entries of linger; an empty list where it is missing, None if not told."""
    try:
        return sorted(one for one in os.listdir(path) if one not in ("metadata.db", "backingFsBlockDev"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None


def gpus(place: Place) -> Gpus:
    """GPUs by the bus and by their device files; and the driver's version, where it is loaded."""
    try:
        version = read_small("/proc/driver/nvidia/version").decode("ascii", "replace")
    except (OSError, NodeError):
        version = ""
    match = re.search(r"\s([0-9]{3}\.[0-9.]+)\s", version)
    devices = [one for one in _names("/dev") or [] if re.fullmatch(r"nvidia[0-9]+", one)]
    bus = [OnBus(one.address, bounds.name(one.name or one.device)) for one in pci.devices()][:64]
    model = device_files.model()
    return Gpus(bus, len(devices), match.group(1) if match else None, None if model is None else bounds.name(model))


def services(place: Place) -> Services:
    """Which of the units that say what a host is for are active, and which package repositories it has."""
    listing = ("systemctl", "--no-legend", "--plain", "--no-pager", "--full", "list-units", "--state=active")
    active = units(listing) if os.path.isdir("/run/systemd/system") else []
    return Services(sorted(SERVICES & set(active)), repositories(place))


def repositories(place: Place) -> list[str]:
    """Which of the repositories that matter here a host installs from."""
    more = sorted(glob.glob(place.path("/etc/apt/sources.list.d/*")))
    paths = [place.path("/etc/apt/sources.list"), *more[: bounds.MOST_OF_ONE]]
    found = set()
    for path in paths:
        try:
            text = read_small(path).decode("utf-8", "replace")
        except (OSError, NodeError):
            continue
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        found |= {name for name, host in _REPOSITORIES.items() if any(host in line for line in lines)}
    return sorted(found)


def sudo(place: Place) -> list[Rule]:
    """sudo's rules beside those that distributions bring."""
    found = sudo_rules.sudo(place)
    return [Rule(bounds.line(one.key), bounds.line(one.words)) for one in found[: bounds.MOST_OF_ONE]]


def sshd(place: Place) -> Sshd:
    """Whether sshd reads the directory that gpuadmin writes to, and its settings in effect (root alone can ask)."""
    settings: dict[str, list[str]] = {}
    problem = None
    try:
        settings = effective_sshd.effective(place)
    except (OSError, NodeError) as error:
        problem = bounds.line(error)
    few = {name: values[: bounds.MOST_OF_ONE] for name, values in settings.items()}
    return Sshd(reads_directory(place.path(MAIN)), few, problem)


def root(place: Place) -> Root:
    """What of this host's disk does not fit images, in words; nothing of it is mounted or changed."""
    found = layout.examine(looking())
    return Root([bounds.line(one) for one in found.problems[: bounds.MOST_OF_ONE]])
