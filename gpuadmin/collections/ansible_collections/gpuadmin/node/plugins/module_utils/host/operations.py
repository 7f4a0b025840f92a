"""Operations that look at a host as such, before a role or an admin touches it.

They import what they alone need: every verb asks for facts, and waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, Optional

from ..answer import Answer
from ..operation import operation
from . import facts, shutdown


@dataclass(frozen=True)
class AuditOrder:
    """Which machine a host is and what is in it; and private keys that others can read.

    Files are looked at by name, mode and owner, and never opened. What others cannot enter is not walked, and no link
    is followed. It changes nothing.
    """

    #: Directories with one of each person's in them, besides homes of the host's own accounts. A home on a file server
    #: is looked at there.
    people: Sequence[str] = ()


@operation("audit", AuditOrder, role="node_state", looks=True)
def audit_host(document: AuditOrder, check: bool) -> Answer:
    from . import exposed, hardware

    found = exposed.collect(document.people, exposed.local_homes(document.people))
    return Answer(report={"hardware": hardware.collect(), "exposed": found})


@dataclass(frozen=True)
class FactsOrder:
    """What the roles of gpuadmin have to know of a host.

    Looks once, so that the preflight of every role is decided on the controller.
    Sets the fact ``gpuadmin``. It changes nothing, and waits for no file server that is away.
    """

    #: Paths to look at.
    paths: Sequence[str] = ()


@operation("host_facts", FactsOrder, looks=True)
def report_facts(document: FactsOrder, check: bool) -> Answer:
    return Answer(more={"ansible_facts": {"gpuadmin": facts.facts(document.paths)}})


@dataclass(frozen=True)
class Disk:
    name: str
    path: str


@dataclass(frozen=True)
class StatusOrder:
    """What an admin wants to know of a host every day.

    Looks at who is on the host, its GPUs, disks, newest backup and image, as far as the arguments name them.
    A part that cannot be looked at is reported as unknown, with the reason; the others are answered.
    It changes nothing, and waits for no file server that is away.
    """

    #: First uid of people.
    uid_first: int
    #: Last uid of people.
    uid_last: int
    #: Disks to look at.
    disks: Sequence[Disk] = ()
    #: Directory of backups, where this host has one.
    backups: Optional[str] = None
    #: Whether people log in here; then there are people, GPUs and images to look at.
    node: bool = False
    #: Whether Slurm's controller is here; then there are nodes that take no jobs.
    queue: bool = False


@operation("host_status", StatusOrder, role="node_state", looks=True)
def report_status(document: StatusOrder, check: bool) -> Answer:
    from . import status

    disks = {one.name: one.path for one in document.disks}
    return Answer(report={"status": status.collect(**{**asdict(document), "disks": disks})})


@dataclass(frozen=True)
class UpgradeOrder:
    """Look what waits to be upgraded, upgrade what was shown of it, or look whether the host is well then.

    Settings that somebody has changed stay, nothing is removed, and the GPU's driver is held. It runs in the unit
    ``gpuadmin-packages.service``, as installations do. A look fetches apt's lists, as apt's own timer does.
    """

    #: ``well`` fails where units have failed since the last upgrade.
    step: Literal["look", "upgrade", "well"]
    #: Whether only security updates count.
    security: bool = False
    #: Name of each package → the version that was shown.
    shown: Mapping[str, str] = field(default_factory=dict)


@operation("upgrade", UpgradeOrder)
def upgrade_host(document: UpgradeOrder, check: bool) -> Answer:
    from ..root import packages
    from . import upgrades

    packages.wait_for_another(upgrades.SECONDS)
    going = document.step == "upgrade" and not check  # guard: a check upgrades nothing -> document.step == "upgrade"
    done = upgrades.upgrade(document.security, document.shown) if going else ()
    found = upgrades.look(document.security, document.step == "look")
    well = document.step != "well" or not found.problems  # guard: a host that is not well is not passed over -> True
    return Answer(done, {"updates": found}, problem=None if well else "; ".join(found.problems))


@dataclass(frozen=True)
class ShutdownFacts:
    """Report what keeps a host from being switched off.

    Reports who is on the host, which hosts mount from it over NFS, and which jobs of gpuadmin's run on it.
    With ``require`` it fails where one of these keeps the host from being switched off.
    """

    #: First uid of people.
    uid_first: int
    #: Last uid of people.
    uid_last: int
    #: Whether people log in here.
    node: bool = False
    #: Whether other hosts may mount from it.
    serves: bool = False
    #: Whether people do not count.
    force: bool = False
    #: Whether to fail where there is a reason, or something is not known.
    require: bool = False


@operation("shutdown_facts", ShutdownFacts, role="power", looks=True)
def report_shutdown(document: ShutdownFacts, check: bool) -> Answer:
    found = shutdown.collect(node=document.node, uid_first=document.uid_first, uid_last=document.uid_last)
    reasons = shutdown.problems(
        found,
        force=document.force,
        # guard: a storage host that is mounted refuses when it is asked, too -> False
        serves=document.serves,
    )
    report = {"power": {**vars(found), "problems": reasons}}
    if document.require and reasons:
        return Answer(report=report, problem=f"{'; '.join(reasons)}; it was left as it is")
    return Answer(report=report, more={"progress": f"waits: {'; '.join(reasons)}" if reasons else ""})


@dataclass(frozen=True)
class HomesRelease:
    """End what people run, and unmount the homes until the next boot.

    Ends what people still run on the host, containers included, and unmounts the homes and their automount.
    Fails where they are still mounted afterwards. The next boot mounts them again.
    """

    #: Where the homes are mounted.
    path: str
    #: First uid of people.
    uid_first: int
    #: Last uid of people.
    uid_last: int


@operation("homes_release", HomesRelease)
def release_homes(document: HomesRelease, check: bool) -> Answer:
    return Answer(shutdown.release(**asdict(document), check=check), {"problems": []})


@dataclass(frozen=True)
class MountsRelease:
    """Unmount what the site does not name any more, where nobody uses it.

    What is in use stays mounted, with its units, and is reported.
    """

    #: What the host is to mount: each with ``unit``, systemd's name without its suffix, and ``what``.
    wanted: Sequence[Mapping[str, str]]


@operation("unused_mounts", MountsRelease, role="mounts")
def release_mounts(document: MountsRelease, check: bool) -> Answer:
    from . import unused_mounts

    found = unused_mounts.release({one["unit"]: one["what"] for one in document.wanted}, check=check)
    return Answer(found.done, {"problems": found.notes}, more={"units": found.units})
