"""Whether a host can be switched off now: who is on it, who mounts what it serves, which jobs of ours run on it.

And letting the homes go, so that the storage host can be switched off below a node that stays up for a moment.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence

from gpuadmin.common.records.hosts import Power

from ..errors import NodeError, in_words
from ..gpus import grants
from ..logins import occupants
from ..lookup import find_name
from ..mounts import below, parse_mountinfo, read_mountinfo
from ..run import Runner, failure, look, run_command

NFSD = "/proc/fs/nfsd"
PROC = "/proc"
#: NFS's port, as the kernel writes that somebody listens on it.
_LISTENS = re.compile(r"(?m)^ *\d+: [0-9A-F]+:0801 [0-9A-F]+:0000 0A ")
#: What the kernel calls clients that hold nothing any more: their lease has run out, or they never came this far.
GONE = ("courtesy", "expirable", "unconfirmed")
_SECONDS = 150  # a user manager is given 90 s by systemd to end


def collect(
    *, node: bool, uid_first: int, uid_last: int, nfsd: str = NFSD, run: Runner = look
) -> Power:  # fmt: skip
    """Look at what keeps a host from being switched off. ``node``: whether people log in here."""
    unknown: dict[str, str] = {}

    def part(name: str, look: Callable[[], list[str]]) -> list[str] | None:
        try:
            return look()
        except (NodeError, OSError, ValueError) as error:
            unknown[name] = in_words(error)
            return None

    def people() -> list[str]:
        return (
            sorted(
                {
                    *occupants.people(uid_first, uid_last),
                    *occupants.gpu_users(uid_first),  # guard: who holds a GPU without a session is on the node
                }
            )
            if node
            else []
        )

    def claims() -> list[str]:
        found, problems = grants.read()
        if problems:
            raise NodeError(problems[0])
        granted = [find_name(uid) or f"uid {uid}" for uid in grants.by_uid(found, time.time())]
        containers = occupants.container_users(uid_first, uid_last)
        return sorted({*(f"{name} (a grant)" for name in granted), *(f"{name} (a container)" for name in containers)})

    mounting, working = part("clients", lambda: clients(nfsd)), part("jobs", lambda: jobs(run))
    return Power(part("people", people), mounting, working, unknown, part("claims", claims) if node else [])


def clients(nfsd: str = NFSD, proc: str = PROC) -> list[str]:
    """Addresses of the NFS clients that the kernel's server knows. Raises NodeError if it does not say."""
    # the directory proves nothing: a kernel that could load an NFS server has it, empty
    # guard: an NFS server that does not say who mounts is not a server without clients -> True
    if "nfsd" not in _read(proc, "filesystems").split():
        names = [name for name in ("tcp", "tcp6") if os.path.exists(os.path.join(proc, "net", name))]  # IPv6 may be off
        # guard: an NFS server that is not the kernel's is not taken for none
        if any(_LISTENS.search(_read(proc, "net", name)) for name in names):
            raise NodeError("it is not known who mounts from this host: its NFS server is not the kernel's")
        return []  # there is no NFS server
    try:
        with open(os.path.join(nfsd, "threads"), encoding="ascii") as stream:
            if int(stream.read(40)) == 0:
                return []
    except OSError as error:
        raise NodeError(
            f"it is not known who mounts from this host: {nfsd}/threads: {error.strerror} "
            "(systemctl start proc-fs-nfsd.mount)"
        ) from None
    directory = os.path.join(nfsd, "clients")
    if not os.path.isdir(directory):
        raise NodeError(f"it is not known who mounts from this host: the kernel has no {directory}")
    found = set()
    for name in os.listdir(directory):
        try:
            with open(os.path.join(directory, name, "info"), encoding="utf-8", errors="replace") as stream:
                text = stream.read(65536)
        except FileNotFoundError:
            continue  # it has just gone
        status = re.search(r"(?m)^status: (\w+)", text)
        if status is None or status.group(1) not in GONE:
            address = re.search(r'(?m)^address: "(.*):\d+"', text)
            # guard: an NFS client of an unknown address is one -> found.update(address.groups() if address else ())
            found.add(address.group(1) if address else f"client {name}")
    return sorted(found)


def _read(*path: str) -> str:
    """A file of the kernel's."""
    with open(os.path.join(*path), encoding="ascii", errors="replace") as stream:
        return stream.read(1 << 22)


#: What timers start, a boot or the next time as well, and what may be cut at any point. Some of them wait for a driver
#: that hangs, or read disks all night.
_TIMED = "cluster disk-room disk-usage gpu-check gpu-devices gpu-gate logs metrics-queue queue"
# guard: what starts again by itself keeps no host from being switched off -> ()
BY_THEMSELVES = tuple(f"gpuadmin-{name}.service" for name in _TIMED.split())


def jobs(run: Runner = look) -> list[str]:
    """Jobs of gpuadmin's that run on this host: backups, images, wipes. Not counted: what systemd starts again whenever
    it ends, such as the collector, or whenever a person asks at its socket (they could hold a host up by asking again
    and again), or by a timer (BY_THEMSELVES). It loses nothing when the host goes off.
    """
    command = ("systemctl", "list-units", "--plain", "--no-legend", "--full", "--state=active,activating,deactivating",
               "--type=service", "gpuadmin-*")  # fmt: skip
    done = run(command)
    if done.returncode != 0:
        raise failure(command, done, "it is not known which jobs run")
    found = []
    for line in done.stdout.splitlines():
        columns = line.split()
        if (
            len(columns) > 3
            # guard: a job that is just ending is one -> columns[3] in ('running', 'start')
            and columns[3] in ("running", "start", "stop", "stop-sigterm")
        ):
            found.append(columns[0])
    again = {*_again(found, run), *BY_THEMSELVES} if found else set()
    return sorted(unit.replace(".service", "") for unit in found if unit not in again)


def _again(units: Sequence[str], run: Runner) -> set[str]:
    """Those of these units that systemd starts again whenever they end, or somebody asks at their socket."""
    properties = ("--property=Id", "--property=Restart", "--property=TriggeredBy")
    command = ("systemctl", "show", *properties, "--", *units)
    done = run(command)
    if done.returncode != 0:
        raise failure(command, done, "it is not known which jobs run")
    blocks = (
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in done.stdout.split("\n\n")
    )
    return {
        block["Id"]
        for block in blocks
        if "Id" in block
        and (
            # guard: a job is not taken for what always runs -> block.get('Restart') != 'never'
            block.get("Restart") == "always"
            or _asked(block)  # guard: who asks at a socket again and again keeps no host from being switched off
        )
    }


def _asked(block: Mapping[str, str]) -> bool:
    """Whether a unit runs because somebody has connected to its socket."""
    return any(one.endswith(".socket") for one in block.get("TriggeredBy", "").split())


def release(
    path: str,
    *,
    uid_first: int,
    uid_last: int,
    check: bool,
    run: Runner = run_command,
    mountinfo: Callable[[], str] = read_mountinfo,
) -> list[str]:
    """End what people still run here, and unmount the homes at ``path``. Returns what is done, or would be.

    Raises NodeError if they are still mounted afterwards: then nobody may take their server away.
    """
    slices = _slices(uid_first, uid_last, run)
    mounted = below(path, parse_mountinfo(mountinfo()))
    operations = [f"end what runs in {name}" for name in slices] + ([f"unmount {path}"] if mounted else [])
    if check or not operations:
        return operations
    # a site that mounts the homes by itself may have no automount, and systemd ends none that it does not know
    kinds = [
        *(["automount"] if any(one.fstype == "autofs" for one in mounted) else []),
        *(["mount"] if mounted else []),
    ]
    units = tuple(_unit(path, kind, run) for kind in kinds)
    for names in (slices, units):
        if names:
            command = ("systemctl", "stop", *names)
            done = run(("timeout", str(_SECONDS), *command))
            if done.returncode != 0:
                raise failure(command, done, f"{path} is still in use")
    left = below(path, parse_mountinfo(mountinfo()))
    if left:  # guard: homes that are still mounted were not let go
        raise NodeError(f"{path} is still mounted (from {left[-1].source}); nothing else was done")
    return operations


def _slices(uid_first: int, uid_last: int, run: Runner) -> tuple[str, ...]:
    """The slices of people: their sessions, their user managers, and containers that go on after a logout."""
    command = ("systemctl", "list-units", "--plain", "--no-legend", "--full", "--type=slice", "user-*.slice")
    done = run(command)
    if done.returncode != 0:
        # guard: homes stay mounted where nobody knows what people run
        raise failure(command, done, "it is not known what people run")
    numbers = [int(one) for one in re.findall(r"(?m)^user-(\d+)\.slice\s", done.stdout)]
    return tuple(
        f"user-{number}.slice"
        for number in sorted(numbers)
        if uid_first <= number <= uid_last  # guard: only people's slices are ended
    )


def _unit(path: str, suffix: str, run: Runner) -> str:
    command = ("systemd-escape", "--path", f"--suffix={suffix}", path)
    done = run(command)
    if done.returncode != 0:
        raise failure(command, done)
    return done.stdout.strip()


def problems(found: Power, *, force: bool, serves: bool) -> list[str]:
    """Given what a host says, return why it must not be switched off; with ``force`` people do not count.

    What is unknown counts. ``serves``: whether others may mount from it. Jobs and clients always are.
    """
    reasons = []
    if not force and found.people is None:
        reasons.append(f"nobody knows who is on it: {found.unknown['people']}")
    elif not force and found.people:
        reasons.append(f"in use by {', '.join(found.people)}")
    if serves and found.clients is None:
        reasons.append(found.unknown["clients"])
    elif serves and found.clients:  # guard: a storage host that is mounted refuses to go
        reasons.append(f"mounted by {', '.join(found.clients)}")
    if found.jobs is None:
        reasons.append(found.unknown["jobs"])
    elif found.jobs:  # guard: a host with a job on it refuses to go
        reasons.append(f"busy with {', '.join(found.jobs)}")
    return reasons
