"""A site's twin: light hosts of the same names and groups, with a site that says the same of them.

What is secret or leads outside stays behind: keys of people and of the admin, addresses, remarks, passwords,
repositories, certificates. Mails become files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE
from gpuadmin.config.host_variables import NAMES
from gpuadmin.config.hosts_file import HOSTS_FILE
from gpuadmin.config.inventory import Host as Real
from gpuadmin.config.load import KNOWN_HOSTS, Site, load_settings
from gpuadmin.config.schema import Settings, User
from gpuadmin.config.skeleton import write_site
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import ConfigError
from gpuadmin.lab import network, site, ssh
from gpuadmin.lab.releases import DEFAULT
from gpuadmin.lab.state import Host, Lab, Wanted
from gpuadmin.reading import expanded

MAILS = "mails"
DOMAIN = "twin.invalid"  # no name server knows it (RFC 2606)
_FIRST, _LAST = 10, 250  # of the addresses in the lab's network
_HEAD = "# Made by `gpuadmin lab up --like` from another site, and written again each time: edit that one.\n"
#: Of a host's variables, what light hosts cannot have: their GPUs are the lab's, and a BMC is that of the real host.
_NOT_OF_A_TWIN = ("bmc", "gpus", "gpu_model", "gpus_mig", "gpus_driver", "gpus_version", "gpus_hold")


def wanted_hosts(
    real: Site, without_images: Collection[str] = (), releases: Mapping[str, str] | None = None
) -> list[Wanted]:
    """Return the twin of each host, that with the homes first. Raises ConfigError where a lab has no room.

    `without_images`: nodes whose root is known to be an ordinary one. `releases`: host → its release, where known.
    """
    server = real.settings.homes.server
    hosts = sorted(real.inventory.hosts, key=lambda one: (one.name != server, "storage" not in one.groups))
    if not hosts or "storage" not in hosts[0].groups:
        raise ConfigError(f"{real.directory}: no host is in the group storage", hint="gpuadmin check says more")
    if len(hosts) > _LAST - _FIRST:
        raise ConfigError(
            f"{real.directory}: a lab has no room for {len(hosts)} hosts", hint=f"at most {_LAST - _FIRST}"
        )
    images = any("golden" in one.groups for one in hosts)
    return [
        replace(
            _plan_host(one, f"{network.NETWORK}.{_FIRST + number}", images and one.name not in without_images),
            release=(releases or {}).get(one.name, DEFAULT),
        )
        for number, one in enumerate(hosts)
    ]


def _plan_host(real: Real, address: str, images: bool) -> Wanted:
    if "storage" in real.groups:
        return Wanted(real.name, "storage", address, writable=True)
    node = "gpu" in real.groups and images
    return Wanted(
        real.name,
        "node" if node else "plain",
        address,
        golden="golden" in real.groups,
        has_gpus="gpu" in real.groups,
        writable=not node,
    )


def place_of_data(real: Site) -> str:
    """Where the storage host has the disk of homes, images and backups: above the homes' directory."""
    return str(
        PurePosixPath(str(real.settings.homes.mountpoint or PurePosixPath(str(real.settings.homes.export)).parent))
    )


def count_gpus(real: Site) -> int:
    """How many GPUs each node has: as many as the largest, of those that this machine can show."""
    counts = [one.variables.get("gpus") for one in real.inventory.hosts if "gpu" in one.groups]
    return min(max((one for one in counts if isinstance(one, int)), default=0), os.cpu_count() or 1)


def settings(lab: Lab, real: Settings, directory: Path) -> dict[str, Any]:
    """What the twin's gpuadmin.yml says: what the site's says, without what is secret or leads outside."""
    found: dict[str, Any] = real.model_dump(mode="json", exclude_unset=True)
    found |= site.settings(lab)
    if real.mail is not None:
        kept = {name: found["mail"][name] for name in ("languages", "welcome", "login") if name in found["mail"]}
        found["mail"] = {**kept, "host": DOMAIN, "sender": f"gpuadmin@{DOMAIN}", "directory": str(directory / MAILS)}
    _drop_section(found, "metrics", "mail_to", "webhook", "heartbeat")
    _drop_section(found, "slurm", "webhook")
    _drop_section(found.get("metrics", {}), "dashboard", "certificate", "key", "proxy", "names", "listen")
    _drop_section(found, "gpus", "driver", "version", "hold", "repository", "toolkit", "mig", "modules")
    _drop_section(found, "docker", "repository")
    _drop_section(found, "applications", "form")
    _drop_section(found, "images", "signing_key", "signers")
    found.pop("admins", None)  # people with keys of theirs, and sudo
    return found


def _drop_section(sections: dict[str, Any], name: str, *settings: str) -> None:
    for one in settings:
        sections.get(name, {}).pop(one, None)


def users(lab: Lab, real: Site) -> dict[str, Any]:
    """What the twin's users.yml says: everybody with their uid and dates, and a key that is made here."""
    registry = real.registry.registry
    return {
        "users": [_describe_person(lab, one) for one in registry.users],
        "retired": [one.model_dump(mode="json", include={"name", "uid", "removed"}) for one in registry.retired],
    }


def _describe_person(lab: Lab, user: User) -> dict[str, Any]:
    found = user.model_dump(mode="json", exclude_defaults=True, exclude={"keys", "email", "note"})
    return {
        **found,
        **({"email": f"{user.name}@{DOMAIN}"} if user.email is not None else {}),
        **({"keys": [key(lab, user.name)]} if user.keys else {}),
    }


def key(lab: Lab, name: str) -> str:
    """The public key of somebody's twin."""
    private = ssh.find_key(lab, name)
    ssh.make_key(private, f"{name}@{DOMAIN}")
    return private.with_suffix(".pub").read_text(encoding="utf-8").strip()


def inventory(lab: Lab, real: Site) -> dict[str, Any]:
    """The twin's inventory: the site's groups, and of each host what gpuadmin knows of it."""
    groups: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for one in real.inventory.hosts:
        for group in one.groups:
            known = {} if one.name in seen else _variables(lab, lab.host(one.name), one.variables)
            groups.setdefault(group, {"hosts": {}})["hosts"][one.name] = known
            seen.add(one.name)
    # what Ansible has read is text of a type of its own
    plain: dict[str, Any] = json.loads(json.dumps({"all": {"children": groups}}))
    return plain


def _variables(lab: Lab, host: Host, real: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: real[name] for name in NAMES if name in real and name not in _NOT_OF_A_TWIN}
    return {**kept, **site.variables(lab, host)}


def write(lab: Lab, real: Site, directory: Path) -> list[str]:
    """Write the twin's site, whole. Returns no host: there are no others. Raises ConfigError in another's directory."""
    if (directory / SETTINGS_FILE).exists():
        there = load_settings(directory).admin.ssh_key
        # guard: a twin is written over no site of people's
        if there is None or expanded(there) != lab.ssh_key:
            raise ConfigError(
                f"{directory}: is the site of another cluster, not that of lab {lab.name}",
                hint="nothing was written; --site names another directory for the twin's",
            )
    chosen = settings(lab, real.settings, directory)
    (directory / "inventory").mkdir(parents=True, exist_ok=True)
    for name, content in (
        (SETTINGS_FILE, chosen),
        (USERS_FILE, users(lab, real)),
        (HOSTS_FILE, inventory(lab, real)),
    ):
        write_atomically(directory / name, _HEAD + yaml.safe_dump(content, allow_unicode=True, sort_keys=False))
    write_atomically(directory / KNOWN_HOSTS, ssh.known_hosts(lab))
    write_site(directory, name=real.settings.name, settings=site.settings(lab), hosts=[])
    return []
