"""What several people share: groups that are Unix groups, directories of theirs, and mounts of other servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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
#: Directories of a system that nothing may hide, and those in which nothing of a site's belongs at all.
_THEMSELVES = ("/", "/home", "/opt", "/srv", "/mnt", "/media", "/local")
_ALL_OF = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp",
    "/usr", "/var", PLACE,
)  # fmt: skip


def is_within(path: str, above: str) -> bool:
    """Whether `path` is `above`, or below it: `/data/x` is within `/data`, and `/database` is not."""
    return f"{path}/".startswith(f"{above.rstrip('/')}/")


def one_of(pattern: str, what: str) -> Callable[[str], str]:
    """A check that a text is what `pattern` says: it goes into units, commands and paths."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):  # guard: what goes into a unit or a path is a plain word
            raise ValueError(f"{value!r} is not {what}")
        return value

    return check


def _no_password(value: str) -> str:
    if re.search(r"(^|,)pass(word2?)?=", value):
        raise ValueError("holds a password, which everybody on the node could read: use credentials=/etc/FILE")
    return value


def _free_place(value: str) -> str:
    # guard: nothing is mounted over what a system needs
    if value in _THEMSELVES or any(is_within(value, one) for one in _ALL_OF):
        raise ValueError(f"{value} is the system's, or of `shared`; choose another place, such as /data")
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
            "that exists keeps its own. Hosts keep a group that is taken out here, so its gid becomes no other's.",
        ),
    ]


class Shared(Model):
    """A directory on the storage host that several people write to; on nodes below /shared."""

    name: Annotated[
        str, AfterValidator(one_of("[a-z0-9][a-z0-9_-]{0,23}", "a name for a directory: 1 to 24 of a-z, 0-9, _, -")),
        Field(description="Its name: nodes have it as /shared/NAME."),
    ]  # fmt: skip
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
        AfterValidator(one_of(r"[A-Za-z0-9/\[][]A-Za-z0-9@._:/=,~+[-]*", "HOST:/PATH, //HOST/SHARE, UUID=… or /dev/…")),
        Field(alias="from", description="What is mounted: `nas2:/data`, or what else mount(8) takes with `type`."),
    ]
    at: Annotated[
        Path, AfterValidator(one_of("(/[A-Za-z0-9_][A-Za-z0-9._-]*)+", "a plain path")), AfterValidator(_free_place),
        Field(description="Where, a directory of its own."),
    ]  # fmt: skip
    type: Annotated[
        Annotated[str, AfterValidator(one_of("[a-z0-9][a-z0-9._-]*", "a file system such as nfs4, cifs or ext4"))]
        | None,
        Field(description="Type of the file system (`cifs`, `ext4`, …). Without it: NFS 4."),
    ] = None
    options: Annotated[
        Annotated[
            str, AfterValidator(one_of("[A-Za-z0-9_.:/@+=,-]+", "options of mount, such as ro,noatime")),
            AfterValidator(_no_password),
        ] | None,
        Field(description="Options of mount(8), such as `ro`, after `nosuid,nodev` (and `hard,noatime` of NFS)."),
    ] = None  # fmt: skip
    hosts: Annotated[list[Text], Field(description="Hosts or groups of the inventory that mount it.")] = ["gpu"]

    @model_validator(mode="after")
    def _typed(self) -> Mount:
        if self.type is None and not re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):/.*", self.source):
            raise ValueError(f"from: {self.source} is not HOST:/PATH of NFS; say its type, such as `type: cifs`")
        return self


def find_contradictions(
    groups: Iterable[UnixGroup], shared: Iterable[Shared], mounts: Iterable[Mount], *, taken: Iterable[str],
    people: range, everybody: tuple[str, int], directory: bool,
) -> str | None:  # fmt: skip
    """Return what does not fit together, with the way out; None: it all does. `taken`: paths that hosts use already.
    `people`: their uids. `everybody`: the group of all. `directory`: groups come from a directory."""
    names, groups = dict([everybody]), list(groups)
    known = {everybody[1], *people, *(one.gid for one in groups)}
    free = next((gid for gid in range(HIGHEST_HUMAN_UID, LOWEST_HUMAN_UID, -1) if gid not in known), None)
    for group in groups:
        if group.name in names:  # guard: a group has one gid
            return f"groups: {group.name} is there twice, or is the group of all (accounts.group)"
        if group.gid in people or group.gid in names.values():  # guard: a gid is one group's and nobody's uid
            return f"groups: {group.name}: gid {group.gid} is taken, or among people's uids; {free} is free"
        names[group.name] = group.gid
    directories: set[str] = set()
    for one in shared:
        if one.name in directories:
            return f"shared: {one.name} is there twice"
        directories.add(one.name)
        if not directory and one.group not in (None, *names):
            way = f"groups: [{{name: {one.group}, gid: {free}}}]"
            return f"shared: {one.name}: the group {one.group} has no gid; add to gpuadmin.yml: {way}"
    places = list(taken)
    for mount in mounts:
        for other in places:
            if is_within(mount.at, other) or is_within(other, mount.at):  # guard: no mount hides another
                return f"mounts: at: {mount.at} and {other} are one inside of the other; choose another place"
        places.append(mount.at)
    return None
