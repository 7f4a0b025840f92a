"""Records of installing: what a stick is to be made of, what a machine is, and what its disk becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Optional

from .bounds import Count, Line, Pattern, Size, Within

MAC = "[0-9a-f]{2}(:[0-9a-f]{2}){5}"
Mac = Annotated[str, Pattern(MAC, "a MAC address")]
#: A name in /dev/disk/by-id: it becomes a path.
DISK_NAME = r"[A-Za-z0-9][A-Za-z0-9._:+=@-]{0,200}"
DiskName = Annotated[str, Pattern(f"{DISK_NAME}|", "a name in /dev/disk/by-id")]
#: Names of a disk, and things on it, that are told.
MOST_NAMES, MOST_PARTS = 50, 300
NetworkFile = Annotated[str, Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}\.network", "the name of a .network file")]


@dataclass(frozen=True)
class Admin:
    """The admin account, which the image has, and the key that comes into its home. `signers`: of images."""

    user: str
    key: str
    signers: str


@dataclass(frozen=True)
class StickOrder:
    """Make a stick: the image of a disk that boots a system from which machines are installed.

    `name`: of the image. `arguments`: of the kernels of the stick, and of the nodes that are made from it.
    """

    name: str
    store: str
    admin: Admin
    arguments: Annotated[str, Pattern(r"[A-Za-z0-9 ._,:=+@/-]{0,500}", "a kernel's arguments")]
    run_id: str


@dataclass(frozen=True)
class NetbootOrder:
    """Serve the site's stick to machines that boot from the network, for some hours; an earlier such order ends.

    `address`: of the storage host, in the network of those machines.
    """

    macs: Annotated[list[Mac], Size(100)]
    hours: Annotated[int, Within(1, 25)]
    address: Annotated[str, Pattern(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", "an IPv4 address")]
    store: str


@dataclass(frozen=True)
class InstallOrder:
    """Install a node on one disk of a machine that runs from a stick. All that is on that disk goes.

    A check says which disks there are. `mac`: of the machine; another one refuses. `disk`: empty only in a check.
    `shown`: what people saw on it; None in a check.
    `network`: name → text of systemd.network(5); without any the node asks DHCP.
    """

    host: Annotated[str, Pattern("[A-Za-z0-9][A-Za-z0-9.-]{0,62}", "a host name")]
    mac: Mac
    disk: DiskName
    admin: Admin
    run_id: str
    network: dict[NetworkFile, str] = field(default_factory=dict)
    shown: Optional[list[str]] = None


@dataclass(frozen=True)
class Disk:
    """A disk: its names in /dev/disk/by-id, what is on it in words, and why it cannot be taken (empty if it can)."""

    names: Annotated[list[DiskName], Size(MOST_NAMES)]
    size: Count
    model: Line
    parts: Annotated[list[Line], Size(MOST_PARTS)]
    busy: Line


@dataclass(frozen=True)
class Machine:
    """A machine that runs from a stick of an image."""

    image: str
    disks: Annotated[list[Disk], Size(1000)]


@dataclass(frozen=True)
class Made:
    """A disk that was made. `host_key`: of the system on it. `path`, `bytes`, `sha256`: of a stick's file."""

    host_key: Annotated[str, Pattern("ssh-ed25519 [A-Za-z0-9+/=]{60,100}", "a public key")]
    path: str = ""
    bytes: Count = 0
    sha256: str = ""
