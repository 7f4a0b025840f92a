"""Records of a diagnosis: the order, and the facts and causes of a host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Optional

from .bounds import Count, Day, When, Within, Words


@dataclass(frozen=True)
class RegisteredPerson:
    """Somebody as users.yml has them."""

    name: str
    #: None: a directory gives it.
    uid: Optional[Annotated[int, Within(1, 2**32)]] = None
    #: Whether users.yml has them, whether they are locked, and their last day.
    registered: bool = True
    locked: bool = False
    expires: Optional[Day] = None
    #: Whether users.yml has a key of theirs.
    keys: bool = False
    docker: bool = True


@dataclass(frozen=True)
class DiagnosisOrder:
    """Find out why something does not work for a person or on a host.

    Looks at a person's account, keys, home, sessions and Docker, and at the host itself.
    Each part is looked at by itself and has a deadline. One that does not answer is reported as unknown.
    The answer has the causes as well, each with its remedy.
    It changes nothing, follows no link in a home, and starts no daemon.
    With ``trial`` it begins a session of the person's, which ends within seconds and is killed with all that it
    left. It starts no user manager of theirs.
    """

    #: The person to look at, as users.yml has them. Without it only the host is looked at.
    person: Optional[RegisteredPerson] = None
    #: Whether people log in here.
    node: bool = True
    #: The directory of all homes on this host.
    homes: str = "/home"
    #: The directory of everybody's Docker data, where there is Docker.
    docker: Optional[str] = None
    #: Names or addresses that this host must be able to find.
    servers: Sequence[str] = ()
    #: How many GPUs this host should have. Without it their number is not judged.
    gpus: Optional[int] = None
    #: A part that the names of its GPUs should have.
    gpu_model: str = ""
    #: Whether a session of the person's is tried where people log in. It is begun by sshd's rules of PAM.
    trial: bool = False
    #: Directory of this node's own state.
    state_directory: str = "/var/lib/gpuadmin"


@dataclass(frozen=True)
class Clock:
    seconds: When
    service: Optional[str] = None


@dataclass(frozen=True)
class Cause:
    """`code`: a row of gpuadmin/common/causes/, which says how bad it is.

    `cause`: a sentence. `remedy`: what an admin does; HOSTS, STORAGE and EXPORT in it are the controller's to fill in.
    `evidence`: the lines that show it.
    """

    code: str
    cause: str
    remedy: str
    evidence: Sequence[str] = ()


@dataclass(frozen=True)
class Docker:
    data: Optional[dict[str, Any]]


@dataclass(frozen=True)
class Manager:
    manager: Optional[str]


@dataclass(frozen=True)
class Containers:
    asked: bool
    running: Count = 0


@dataclass(frozen=True)
class Key:
    kind: Optional[str]
    problem: Optional[str]


@dataclass(frozen=True)
class Keys:
    keys: list[Key]


@dataclass(frozen=True)
class SiteKeys:
    site: Optional[Keys] = None


@dataclass(frozen=True)
class Step:
    code: str


@dataclass(frozen=True)
class Trial:
    """A session of the person's that was tried."""

    steps: dict[str, Step]
    done: bool


@dataclass(frozen=True)
class Diagnosis:
    node: bool
    causes: list[Cause]
    unknown: Words
    trial: Optional[Trial] = None
    clock: Optional[Clock] = None
    docker: Optional[Docker] = None
    sessions: Optional[Manager] = None
    containers: Optional[Containers] = None
    keys: Optional[SiteKeys] = None
