"""What a lab remembers: its hosts, ports and snapshots, in one JSON file that is replaced as a whole."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from gpuadmin.config.find import find_site
from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from gpuadmin.lab import disk
from gpuadmin.lab.paths import state_directory
from gpuadmin.lab.releases import DEFAULT as DEFAULT_RELEASE

DEFAULT = "default"
Kind = Literal["storage", "node", "plain"]


@dataclass(frozen=True)
class Wanted:
    """A host that a lab is to have. `golden`: its root becomes the image of the others."""

    name: str
    kind: Kind
    address: str
    golden: bool = False
    has_gpus: bool = True
    #: Whether the root of a light host is writable. One that takes images has none that is, nor has `storage1`.
    writable: bool = False
    #: Which release it has.
    release: str = DEFAULT_RELEASE


@dataclass(frozen=True, kw_only=True)
class Host(Wanted):
    """One host: a virtual machine, or a light host. `ssh_port` is the port on 127.0.0.1 that leads to its sshd."""

    ssh_port: int
    uplink_mac: str
    cluster_mac: str
    #: What its disk is a layer above.
    base: str


@dataclass(frozen=True)
class Lab:
    """A lab: its hosts, and what they have in common."""

    name: str
    memory_mib: int
    #: Port of the multicast group that is the cluster's own network.
    cluster_port: int
    hosts: tuple[Host, ...] = ()
    #: snapshot name → the hosts that it holds
    snapshots: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: The site directory that was written last.
    site: str | None = None
    #: What hosts with a node's disk boot by. Ordinary nodes have a BIOS: they never switch images.
    firmware: disk.Firmware = "bios"
    #: Whether its hosts are light ones: namespaces of this machine instead of virtual machines.
    light: bool = False
    #: How many GPUs each node has: only light hosts have some.
    gpus: int = 0
    #: Where the storage host has the disk of homes. Light hosts of a twin have it where the site has theirs.
    data: str = "/srv/storage"
    #: The site whose twin it is.
    like: str | None = None

    @property
    def directory(self) -> Path:
        """The lab's own directory."""
        return state_directory() / self.name

    @property
    def ssh_key(self) -> Path:
        """The private key of the admin account."""
        return self.directory / "id_ed25519"

    def host_directory(self, host: Host) -> Path:
        """Where a host's disks, console and sockets are."""
        return self.directory / "hosts" / host.name

    def count_gpus(self, host: Host) -> int:
        """How many GPUs a host has."""
        return self.gpus if host.has_gpus and host.kind != "storage" else 0

    def layout(self, kind: Kind) -> disk.Layout:
        """Given a kind of host, return the disk layout that it has in this lab."""
        if kind == "plain":
            return disk.ORDINARY
        return disk.NODE_UEFI if self.firmware == "uefi" else disk.NODE

    def host(self, name: str) -> Host:
        """Given a name, return the host. Raises ConfigError with the names there are."""
        for host in self.hosts:
            if host.name == name:
                return host
        names = ", ".join(host.name for host in self.hosts)
        raise ConfigError(f"lab {self.name} has no host {name!r}", hint=f"its hosts are {names}")

    def with_snapshot(self, snapshot: str) -> Lab:
        """Return the lab with a snapshot of all its hosts noted."""
        names = tuple(host.name for host in self.hosts)
        return replace(self, snapshots={**self.snapshots, snapshot: names})


def check_name(name: str, what: str = "lab") -> str:
    """Given a lab's or snapshot's name, return it if it is a plain word; it becomes a path and an argument."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise ConfigError(
            f"{name!r} is not a {what} name", hint="use lower-case letters, digits and -, 31 characters at most"
        )
    return name


def load(name: str) -> Lab | None:
    """Given a lab's name, return it, or None if there is none."""
    path = state_directory() / check_name(name) / "lab.json"
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise GpuadminError(f"{path} is damaged: {error}", hint=f"gpuadmin lab down --purge --name {name}") from error
    return from_json(data)


def existing(name: str) -> Lab:
    """Given a lab's name, return it. Raises ConfigError if there is none."""
    lab = load(name)
    if lab is None:
        others = ", ".join(sorted(path.parent.name for path in state_directory().glob("*/lab.json")))
        there = f"; there is: {others} (--name)" if others else ""
        raise ConfigError(f"there is no lab {name!r}", hint=f"gpuadmin lab up makes one{there}")
    return lab


def save(lab: Lab) -> None:
    """Write a lab's state: complete or not at all."""
    lab.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = lab.directory / "lab.json.part"
    with part.open("w") as file:
        json.dump(asdict(lab), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(lab.directory / "lab.json")


def from_json(data: dict[str, Any]) -> Lab:
    """Given what `save` wrote, return the lab. What only a newer gpuadmin knows of it is left out."""
    given = _pick_known_fields(Lab, data)
    given["hosts"] = tuple(_parse_host(host) for host in data["hosts"])
    given["snapshots"] = {key: tuple(names) for key, names in data["snapshots"].items()}
    return Lab(**given)


def _parse_host(data: dict[str, Any]) -> Host:
    given = _pick_known_fields(Host, data)
    release = str(given.get("release", DEFAULT_RELEASE))  # older labs have a number
    return Host(**{**given, "release": release})


def _pick_known_fields(kind: type[Lab | Host], data: dict[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def all_labs() -> list[Lab]:
    """Return every lab of this user."""
    found = (load(path.parent.name) for path in sorted(state_directory().glob("*/lab.json")))
    return [lab for lab in found if lab is not None]


def lab_here() -> str:
    """The name of the lab whose site is meant here (GPUADMIN_SITE, or the nearest upwards); `default` where none is."""
    try:
        site = find_site(None).resolve()
        return next(lab.name for lab in all_labs() if lab.site and Path(lab.site).resolve() == site)
    except (StopIteration, GpuadminError, OSError):  # whatever is wrong with another lab is not said of this one
        return DEFAULT


@contextmanager
def locked(name: str, file: str = "lock") -> Iterator[None]:
    """Hold a lab against a second command that would change it. Raises RefusedError if it is held.

    `file`: another one's for what takes longer than a change, such as a rehearsal.
    """
    directory = state_directory() / check_name(name)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / file).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise RefusedError(f"lab {name} is being changed by process {holder}") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
