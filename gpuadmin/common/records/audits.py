"""Records of audits: a host's privileges, settings and parts, and private files that others can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Optional

from .bounds import Count, Line, Lines, Size

#: `root`: the privilege makes somebody root, or could. `differs`: it only differs from the packages.
Rank = Literal["root", "differs"]
Name = Annotated[str, Size(60)]
Setting = Annotated[str, Size(8200)]
Settings = Annotated[dict[Line, Setting], Size(20_000)]


@dataclass(frozen=True)
class Admin:
    """`keys`: public keys, a line each. `expires`: days since 1970, the first day without the account; or None."""

    name: str
    uid: int
    keys: Sequence[str]
    sudo: bool = True
    expires: Optional[int] = None


@dataclass(frozen=True)
class PrivilegesOrder:
    """Look for who is root on a host, or could be.

    Looks at accounts, groups of privilege, sudo's rules, root's keys, setuid files, well-known modes, packaged
    files and sshd's settings.
    Each part is looked at by itself and has a deadline. One that does not answer is reported as unknown.
    It changes nothing and reads nobody's home.
    """

    #: The account that gpuadmin logs in as.
    admin: str
    #: Further accounts that may be root by the site.
    declared: Sequence[str] = ()
    #: The site's admins: the keys of those with sudo who are declared are compared with what is there.
    admins: Sequence[Admin] = ()
    #: Directories of people's files, which are not walked.
    aside: Sequence[str] = ()
    #: Directory of this node's own state.
    state_directory: str = "/var/lib/gpuadmin"


@dataclass(frozen=True)
class Privilege:
    key: Line
    words: Line
    rank: Rank


@dataclass(frozen=True)
class Privileges:
    """The privileges by which somebody is root on a host, or could be, and differences from its packages."""

    found: Annotated[list[Privilege], Size(1000)]
    sshd: Annotated[dict[Line, Lines], Size(100)]
    keys: Annotated[dict[Line, Lines], Size(10)]
    aside: Lines
    unknown: Annotated[dict[Line, Line], Size(100)]


@dataclass(frozen=True)
class HostSettings:
    """The settings of a host, by section; sections that it could not read; its own names and addresses."""

    sections: Annotated[dict[Name, Settings], Size(40)]
    unknown: Annotated[dict[Name, Line], Size(40)]
    names: Annotated[list[Line], Size(10)]
    addresses: Annotated[list[Line], Size(200)]


@dataclass(frozen=True)
class Part:
    """A piece of hardware. `id` is its alone: a serial number, a UUID, a MAC address."""

    id: Annotated[str, Size(100, 1)]
    words: Line


@dataclass(frozen=True)
class Hardware:
    """Kind → its parts. `unknown`: kinds of which some or all parts are not known, and why."""

    found: Annotated[
        dict[Literal["chassis", "gpu", "network", "disk"], Annotated[list[Part], Size(300)]],
        Size(4),
    ]
    unknown: Annotated[dict[Name, Line], Size(4)]


@dataclass(frozen=True)
class Readable:
    path: Line
    owner: Line
    mode: Annotated[str, Size(5)]


@dataclass(frozen=True)
class Exposed:
    """Private files that others than their owner can read. `more`, `unknown`: places not looked at to the end."""

    found: Annotated[list[Readable], Size(2000)]
    more: Annotated[dict[Line, Count], Size(2001)]
    unknown: Annotated[dict[Line, Line], Size(40)]
