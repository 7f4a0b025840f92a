"""A host as it was seen, in the words that decisions need; gpuadmin/ansible/reports.py has parsed what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from gpuadmin.config.schema.base import LOWEST_HUMAN_UID

NOBODY = 65534
_NO_LOGIN = ("nologin", "false", "sync", "halt", "shutdown")
#: Accounts that installers and images make for whoever sets a machine up.
INSTALLERS = frozenset(
    (
        "ubuntu", "debian", "fedora", "centos", "rocky", "almalinux", "arch", "alarm", "pi", "vagrant", "ec2-user",
        "cloud-user", "opc", "azureuser",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Host:
    """A host, and its answer. `reached`: its inventory variables. `without_root`: why gpuadmin was not root there."""

    name: str
    answer: Mapping[str, Any] = field(repr=False)
    reached: Mapping[str, object] = field(default_factory=dict)
    without_root: str | None = None

    def part(self, name: str) -> Any:
        """A part of its answer; None where it could not be looked at."""
        return self.answer.get(name)

    def listed(self, name: str) -> list[Any]:
        """The same for a list: empty where it could not be looked at."""
        return list(self.answer.get(name) or ())

    @cached_property
    def people(self) -> dict[str, Mapping[str, Any]]:
        """Who has an account that somebody can log in with, by name: those with a uid that useradd gives people."""
        return {one["name"]: one for one in self._human() if not one["shell"].endswith(_NO_LOGIN)}

    @cached_property
    def services(self) -> list[str]:
        """Accounts with such a uid that nobody logs in with: a service that somebody has made by hand."""
        return [one["name"] for one in self._human() if one["shell"].endswith(_NO_LOGIN)]

    def _human(self) -> Iterator[Mapping[str, Any]]:
        for one in self.listed("accounts"):
            if one["uid"] is not None and LOWEST_HUMAN_UID <= one["uid"] < 2**32 - 1 and one["uid"] != NOBODY:
                yield one

    @cached_property
    def low(self) -> dict[str, Mapping[str, Any]]:
        """Who has a shell, a home where people have theirs, and a uid of a service's: useradd began at 500 once."""
        places = {one["path"] for one in self.listed("homes")}
        return {
            one["name"]: one
            for one in self.listed("accounts")
            if one["uid"] is not None and 0 < one["uid"] < LOWEST_HUMAN_UID and not one["shell"].endswith(_NO_LOGIN)
            if home_root(plain_path(one["home"])) in places
        }

    @cached_property
    def holders(self) -> dict[str, list[str]]:
        """Directory → the accounts that have it as their home, whoever they are."""
        found: dict[str, list[str]] = {}
        for one in self.listed("accounts"):
            found.setdefault(plain_path(one["home"]), []).append(one["name"])
        return found

    def members(self, group: str) -> list[str]:
        """Who is in a group by the host's own files, by its line or as their first one."""
        return list(dict.fromkeys([*self.named_in(group), *self.first_in(group)]))

    def named_in(self, group: str) -> list[str]:
        """The members that a group's line names."""
        return next((list(one["members"]) for one in self.listed("groups") if one["name"] == group), [])

    def first_in(self, group: str) -> list[str]:
        """The people whose first group it is, whom its line does not name."""
        gids = {one["gid"] for one in self.listed("groups") if one["name"] == group and one["gid"] is not None}
        return [name for name, one in {**self.low, **self.people}.items() if one["gid"] in gids]

    @property
    def has_gpus(self) -> int:
        """How many GPUs it has, by its bus or else by its device files."""
        gpus = self.part("gpus")
        return 0 if gpus is None else len(gpus["bus"]) or int(gpus["devices"])

    @property
    def exported(self) -> list[str]:
        """The directories that it exports by NFS, without the root of all exports of NFSv4."""
        return [one["path"] for one in self.listed("exports") if one["path"] != "/"]

    def active(self, *units: str) -> bool:
        """Whether one of the units is active."""
        services = self.part("services")
        return services is not None and bool(set(units) & set(services["active"]))

    def homes(self, path: str) -> Mapping[str, Any] | None:
        """What it has at a directory of homes."""
        return next((one for one in self.listed("homes") if one["path"] == path), None)

    @cached_property
    def entries(self) -> dict[str, Mapping[str, Any]]:
        """What it has in directories of homes, by path."""
        return {
            f"{root['path'].rstrip('/')}/{one['name']}": one for root in self.listed("homes") for one in root["entries"]
        }

    def disk(self, path: str) -> Mapping[str, Any] | None:
        """The file system that a path is on, of those that are disks or network file systems; None: it is not known."""
        under = [one for one in self.listed("file_systems") if f"{path}/".startswith(f"{one['point'].rstrip('/')}/")]
        return max(under, key=lambda one: len(one["point"]), default=None)

    def local_homes(self, path: str) -> list[str]:
        """The directories of people's in `path` that are on its own disk."""
        found = self.homes(path)
        if found is None or found["network"]:
            return []
        return [one["name"] for one in found["entries"] if one["name"] != "lost+found"]


def plain_path(path: str) -> str:
    """A path without doubled slashes and one at its end."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def home_root(home: str) -> str:
    """The directory that somebody's home is in."""
    return str(PurePosixPath(home).parent)
