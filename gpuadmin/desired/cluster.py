"""What is known when a host's variables are computed: the site, all hosts, and what the verb asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings


@dataclass(frozen=True)
class Cluster:
    """`request`: what a verb hands to its playbook, by names such as `gpuadmin_users` (`gpuadmin.session`)."""

    site: Settings
    hosts: tuple[Host, ...]
    request: Mapping[str, Any] = field(default_factory=dict)

    def asked(self, name: str, default: Any = None) -> Any:
        """What the verb says under `gpuadmin_NAME`; `default` if it says nothing."""
        found = self.request.get(f"gpuadmin_{name}")
        return default if found is None else found

    def only(self, **names: str) -> dict[str, Any]:
        """Variables that only a verb can set. One that it does not set is absent, so whatever needs it fails."""
        return {name: self.asked(of) for name, of in names.items() if self.asked(of) is not None}

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The site's settings as JSON has them."""
        return self.site.model_dump(mode="json")

    def members(self, group: str) -> list[Host]:
        """The hosts of a group, in the inventory's order."""
        return [host for host in self.hosts if group in host.groups]

    def addresses(self, group: str) -> list[str]:
        """The addresses at which other hosts reach the hosts of a group."""
        return [host.cluster_address for host in self.members(group)]

    @cached_property
    def names(self) -> list[str]:
        """By which names and addresses the site's hosts are known."""
        return sorted({word for host in self.hosts for word in (host.name, host.address, host.cluster_address)})

    @property
    def people(self) -> dict[str, str]:
        """The variable `users`. Absent if the verb names nobody, which does not mean that there is nobody."""
        return {} if self.asked("users") is None else {"users": self.users}

    @cached_property
    def users(self) -> str:
        """Everybody, as one text for all hosts. Ansible would walk a structure once for each (docs/decisions/0075)."""
        return as_text(self.asked("users", []))

    @cached_property
    def languages(self) -> list[str]:
        """What the site's programs speak on nodes; the first to whoever has a locale of none of these."""
        return list(self.site.mail.languages) if self.site.mail is not None else ["en", "ko"]

    @cached_property
    def absent(self) -> str:
        """The people to remove, as one text."""
        return as_text(self.asked("absent", []))

    @cached_property
    def remembered(self) -> str:
        """The people whose uids the storage host gives to nobody else: all but those to be forgotten."""
        forget = set(self.asked("forget", []))
        known = [*json.loads(self.users), *json.loads(self.absent)]
        return json.dumps([one for one in known if one["name"] not in forget], ensure_ascii=False)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Certificates, targets and the rest of what the monitor host needs; empty if the verb is not about it."""
        given = self.asked("metrics", {})
        found: dict[str, Any] = json.loads(given) if isinstance(given, str) else dict(given)
        return found

    def node(self, host: Host, value: Any, otherwise: Any = None) -> Any:
        """`value` on nodes that people log in to, `otherwise` on other hosts."""
        return value if "gpu" in host.groups else otherwise

    def storage(self, host: Host, value: Any, otherwise: Any = None) -> Any:
        """`value` on storage hosts, `otherwise` on other hosts."""
        return value if "storage" in host.groups else otherwise

    def docker_data(self, host: Host) -> str | None:
        """Where people's Docker keeps its data on a node; None if nobody has Docker."""
        docker = self.site.docker
        return str(docker.data) if docker.enabled and "gpu" in host.groups else None

    def own_scratch(self, host: Host) -> list[str]:
        """Where each person has a directory of their own on a node."""
        return self.site.reset.own_scratch if "gpu" in host.groups else []

    @cached_property
    def beside_homes(self) -> PurePosixPath:
        """The directory that the homes' directory is in, on the storage host."""
        return PurePosixPath(str(self.site.homes.export)).parent

    def backups(self, host: Host) -> str:
        """On a storage host the directory of backups, elsewhere that of the second copies; a host may have its own."""
        if own := host.variables.get("backups_directory"):
            return str(own)
        if "storage" in host.groups:
            return str(self.site.backups.directory or self.beside_homes / "backups")
        return str(self.site.backups.copies)

    def kept_backups(self, host: Host) -> str | None:
        """The same; None on hosts that keep none."""
        return self.backups(host) if host.serves else None

    @cached_property
    def archive(self) -> str:
        """Where archives of homes are that an earlier gpuadmin made, on the storage host."""
        return str(self.beside_homes / "archive")

    @cached_property
    def uids(self) -> dict[str, int]:
        """The range of uids that people have."""
        return {"uid_first": self.site.accounts.uid_first, "uid_last": self.site.accounts.uid_last}


def as_text(given: Any) -> str:
    """People as JSON. A text is JSON already."""
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
