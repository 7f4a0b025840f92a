"""What several people share: groups that are Unix groups, directories of theirs, and mounts of other servers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from gpuadmin.common.amounts import UNLIMITED
from gpuadmin.config.fields import GroupName, Path, Text
from gpuadmin.config.schema.base import HIGHEST_HUMAN_UID, LOWEST_HUMAN_UID, Model
from gpuadmin.config.schema.limits import Disk

#: Where nodes show what people share, a directory for each.
PLACE = "/shared"
#: Among the homes: what of it backups have. A backup has it as it has a home.
AMONG_HOMES = "_shared-"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,23}")
_SOURCE = re.compile(r"[A-Za-z0-9/\[][A-Za-z0-9@._:/=,~+\[\]-]*")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):/.*")
_OPTIONS = re.compile(r"[A-Za-z0-9_.:/@+-]+(=[A-Za-z0-9_.:/@+-]*)?(,[A-Za-z0-9_.:/@+-]+(=[A-Za-z0-9_.:/@+-]*)?)*")
_POINT = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+")
_WORD = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
#: Directories of a system that nothing may hide, and those in which nothing of a site's belongs at all.
_THEMSELVES = ("/", "/home", "/opt", "/srv", "/mnt", "/media", "/local")
_ALL_OF = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp",
    "/usr", "/var", PLACE,
)  # fmt: skip


def is_within(path: str, above: str) -> bool:
    """Whether `path` is `above`, or below it: `/data/x` is within `/data`, and `/database` is not."""
    return f"{path}/".startswith(f"{above.rstrip('/')}/")


def _share_name(value: str) -> str:
    if not _NAME.fullmatch(value):  # guard: the name of what is shared is a plain one
        raise ValueError(f"{value!r} is not a name for a directory: 1 to 24 of a-z, 0-9, '_' and '-'")
    return value


def _mount_point(value: str) -> str:
    if not _POINT.fullmatch(value):  # guard: a mount point is a plain path
        raise ValueError(f"{value!r} is not a plain path: each part of letters, digits and . _ -")
    # guard: nothing is mounted over what a system needs
    if value in _THEMSELVES or any(is_within(value, one) for one in _ALL_OF):
        raise ValueError(f"{value} is the system's, or of `shared`; choose another place, such as /data")
    return value


def _mount_source(value: str) -> str:
    if not _SOURCE.fullmatch(value):  # guard: what is mounted is a plain word
        raise ValueError(f"{value!r} is nothing to mount: write HOST:/PATH, //HOST/SHARE, UUID=… or /dev/…")
    return value


def _mount_options(value: str) -> str:
    if not _OPTIONS.fullmatch(value):  # guard: options of a mount are plain words
        raise ValueError(f"{value!r} are no options of mount: words with commas between, such as ro,noatime")
    if any(one.startswith(("password=", "pass=", "password2=")) for one in value.split(",")):
        raise ValueError("holds a password, which everybody on the node could read: use credentials=/etc/FILE")
    return value


def _file_system(value: str) -> str:
    if not _WORD.fullmatch(value):
        raise ValueError(f"{value!r} is not a type of file system, such as nfs4, cifs or ext4")
    return value


class UnixGroup(Model):
    """A group of people (`group` in users.yml) that is a Unix group on all hosts, too."""

    name: Annotated[GroupName, Field(description="As in users.yml. Its members are who has this group there.")]
    gid: Annotated[
        int,
        Field(
            ge=LOWEST_HUMAN_UID,
            le=HIGHEST_HUMAN_UID,
            description="The same on all hosts, and nobody's uid: outside of accounts.uid_first to uid_last. A group "
            "that exists already can keep its own. Hosts keep a group that is taken out here, so its files and its "
            "gid become nobody else's.",
        ),
    ]


class Shared(Model):
    """A directory on the storage host that several people write to; on nodes below /shared."""

    name: Annotated[str, AfterValidator(_share_name), Field(description="Its name: nodes have it as /shared/NAME.")]
    group: Annotated[
        GroupName | None,
        Field(description="Whose it is: a group of `groups`; nobody else looks inside. Without it: everybody's."),
    ] = None
    size: Annotated[
        Disk,
        Field(
            description="How much it may have, such as `2T`. The kernel refuses more on btrfs with quotas "
            "(`limits.disk_reserve`; not for what backups have), and on ext4 and xfs with project quotas. Elsewhere "
            "nothing does, and `provision` says so."
        ),
    ] = UNLIMITED
    backup: Annotated[
        bool, Field(description="Whether backups of the homes have it. `no` for what can be fetched again.")
    ] = True


class Mount(Model):
    """What nodes mount from elsewhere, when somebody first looks at it."""

    model_config = ConfigDict(populate_by_name=True)

    source: Annotated[
        Text,
        AfterValidator(_mount_source),
        Field(alias="from", description="What is mounted: `nas2:/data`, or what else mount(8) takes with `type`."),
    ]
    at: Annotated[Path, AfterValidator(_mount_point), Field(description="Where, a directory of its own.")]
    type: Annotated[
        str | None, AfterValidator(lambda one: one and _file_system(one)),
        Field(description="Type of the file system (`cifs`, `ext4`, …). Without it: NFS 4."),
    ] = None  # fmt: skip
    options: Annotated[
        str | None, AfterValidator(lambda one: one and _mount_options(one)),
        Field(description="Options of mount(8), such as `ro`, after `nosuid,nodev` (and `hard,noatime` of NFS)."),
    ] = None  # fmt: skip
    hosts: Annotated[list[Text], Field(description="Hosts or groups of the inventory that mount it.")] = ["gpu"]

    @model_validator(mode="after")
    def _typed(self) -> Mount:
        if self.type is None and not _SERVER.fullmatch(self.source):
            raise ValueError(f"from: {self.source} is not HOST:/PATH of NFS; say its type, such as `type: cifs`")
        return self


def find_contradictions(
    groups: Iterable[UnixGroup],
    shared: Iterable[Shared],
    mounts: Iterable[Mount],
    *,
    taken: tuple[str, ...],
    ids: tuple[range, int],
    everybody: str,
    directory: bool,
) -> str | None:
    """Return what does not fit together, with the way out; None: it all does. `taken`: paths that nodes use already.
    `ids`: people's uids, and the gid of the group of all. `directory`: groups come from a directory."""
    names = {everybody: ids[1]}
    groups = list(groups)
    known = {ids[1], *(one.gid for one in groups)}
    free = next((gid for gid in range(HIGHEST_HUMAN_UID, LOWEST_HUMAN_UID, -1) if gid not in known | {*ids[0]}), None)
    for group in groups:
        if group.name in names:  # guard: a group has one gid
            return f"groups: {group.name} is there twice, or is the group of all (accounts.group)"
        if group.gid in ids[0] or group.gid in names.values():  # guard: a gid is one group's and nobody's uid
            return f"groups: {group.name}: gid {group.gid} is taken, or among people's uids; {free} is free"
        names[group.name] = group.gid
    seen: set[str] = set()
    for one in shared:
        if one.name in seen:
            return f"shared: {one.name} is there twice"
        seen.add(one.name)
        if one.group is not None and one.group not in names and not directory:
            return (
                f"shared: {one.name}: the group {one.group} has no gid; add to gpuadmin.yml: "
                f"groups: [{{name: {one.group}, gid: {free}}}]"
            )
    places = list(taken)
    for mount in mounts:
        for other in places:
            if is_within(mount.at, other) or is_within(other, mount.at):  # guard: no mount hides another
                return f"mounts: at: {mount.at} and {other} are one inside of the other; choose another place"
        places.append(mount.at)
    return None
