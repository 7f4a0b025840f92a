"""Records of images: the settings of a site, an image's manifest, and the images of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

from .bounds import Count, Seconds, Size, When, Within, Words


@dataclass(frozen=True)
class ImageSettings:
    """The site's settings, as images.json on a node has them."""

    #: SERVER:/PATH of the store.
    store: str = ""
    #: The keys that may sign, in the format of allowed signers of ssh-keygen.
    signers: str = ""
    #: Seconds that a trial may take, and that required checks are tried again before it has failed.
    deadline: int = 600
    settle: int = 60
    #: Further paths that belong to the node.
    identity: Sequence[str] = ()
    uid_first: int = 20000
    uid_last: int = 49999
    #: The GPUs that the inventory expects; and whether less than that refuses a trial.
    gpus: Optional[int] = None
    gpu_model: str = ""
    gpus_worse: Literal["report", "refuse"] = "report"


@dataclass(frozen=True)
class ChainLink:
    """A node's place in a chain of relays. `previous`: the sender (None: the store). `next`: the receiver."""

    port: int = 0  # of no chain
    previous: Optional[str] = None
    next: Optional[str] = None


@dataclass(frozen=True)
class ImageOptions:
    full: bool = False
    deadline: Optional[int] = None
    keep: int = 2
    packages: Sequence[str] = ()
    upgrade: bool = False
    trial: bool = True
    parents: Sequence[str] = ()
    who: str = ""
    protocol: int = 1
    manifest: str = ""
    signature: str = ""


@dataclass(frozen=True)
class ImageOrder:
    """Run a job on a node's images and roots.

    Has the unit ``gpuadmin-image.service`` on the node do one job, and waits for it.
    The unit outlives the controller; the same request, made again while it runs, waits for it.
    """

    #: What to do.
    action: Literal["push", "rollback", "prune", "build", "finish", "seal", "publish"]
    #: An id of this run of gpuadmin, the same in every call. It tells this run's job from an earlier one's.
    run_id: str
    #: The image.
    name: str = ""
    #: The node's place in the chain, for ``action=push``; without it there is none.
    link: ChainLink = ChainLink()
    #: What else the action needs.
    options: ImageOptions = ImageOptions()
    #: Seconds after which this returns, ``finished`` or not. It is called again until it is.
    wait: int = 5


@dataclass(frozen=True)
class Parent:
    name: str


@dataclass(frozen=True)
class Stream:
    parent: Optional[Parent]
    bytes: Count


@dataclass(frozen=True)
class Changes:
    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    name: str
    uuid: str
    created: When
    by: str
    parent: Optional[Parent]
    distribution: str
    version: str
    machine: str
    kernel: str
    size: Count
    packages: dict[str, str]
    changes: Changes
    streams: Annotated[list[Stream], Size(10_000, 1)]


@dataclass(frozen=True)
class Stored:
    """An image in the store; `manifest` is None if it is not complete."""

    manifest: Optional[Manifest]
    problem: Optional[str]


@dataclass(frozen=True)
class Receives:
    bytes: Count
    parent: Optional[str]
    held: bool


@dataclass(frozen=True)
class Switch:
    """The journal of the last switch of a node's root."""

    stage: str = ""
    root: str = ""
    image: str = ""
    reason: str = ""
    time: When = 0.0
    ended: When = 0.0
    uptime: Seconds = 0.0


@dataclass(frozen=True)
class Prunable:
    roots: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Roots:
    """The image that a node runs, and the roots that it boots next."""

    running: str
    current: str
    trial: str
    image: Optional[str]


@dataclass(frozen=True)
class NodeImages(Roots):
    """The images that a node holds, runs and boots next. `receives`: the one that was asked for."""

    held: dict[str, str]
    confirmed: list[str]
    receives: Optional[Receives] = None
    problem: Optional[str] = None
    people: Optional[list[str]] = None
    gpu_work: Optional[list[str]] = None
    refused: Words = field(default_factory=dict)
    last: Optional[Switch] = None
    drift: Optional[list[str]] = None
    send_version: Annotated[int, Within(1, 1000)] = 1
    prunable: Prunable = field(default_factory=Prunable)
    rollback: Optional[str] = None


@dataclass(frozen=True)
class Spent:
    seconds: Optional[dict[str, Seconds]] = None
