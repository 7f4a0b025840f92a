"""A site's inventory: its hosts, their groups, and how they are reached.

Ansible reads it (resolve.py), so that whatever Ansible accepts is accepted here.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuadmin.config.host_variables import NAMES, problems
from gpuadmin.config.schema import Settings
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.reading import expanded, ours

# what ssh and Ansible take for a host: a name, an address of IPv4 or IPv6 (with a zone), no option and no path
_HOST = re.compile(r"[A-Za-z0-9_:]([A-Za-z0-9._:%-]{0,252}[A-Za-z0-9_:])?")
_FOUR_NUMBERS = re.compile(r"\d+(\.\d+){3}")


_MORE_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
KEY = "ansible_ssh_private_key_file"
_LOGIN = (
    "ansible_connection", "ansible_host", "ansible_port", "ansible_user", KEY,
    *_MORE_ARGUMENTS,
)  # fmt: skip
#: What roles' variables follow from, beside the site's settings (gpuadmin.desired).
ROLE_INPUTS = ("ansible_host", "gpuadmin_address", *NAMES)
_OF_A_HOST = ("ansible_host", "ansible_port", "ansible_connection", "gpuadmin_address", KEY, *NAMES)


@dataclass(frozen=True)
class Host:
    """A host: its inventory name, its groups, and how it is reached."""

    name: str
    groups: tuple[str, ...]
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """What ssh connects to."""
        return str(self.variables.get("ansible_host", self.name))

    @property
    def cluster_address(self) -> str:
        """What other hosts of the site connect to; inventory/groups.yml has the default, which is a template."""
        value = str(self.variables.get("gpuadmin_address", ""))
        return value if value and "{{" not in value else self.address

    @property
    def place(self) -> str:
        """Where it stands, as the inventory has it; or empty."""
        return str(self.variables.get("place") or "")

    @property
    def port(self) -> int:
        """The port that sshd listens on; 22 where a template gives it, which nobody renders here."""
        value = str(self.variables.get("ansible_port", 22))
        return int(value) if value.isdecimal() else 22

    @property
    def local(self) -> bool:
        """Whether it is this machine: Ansible needs no ssh for it."""
        return self.variables.get("ansible_connection") == "local"

    @property
    def key(self) -> str | None:
        """The private key that the inventory names for it; None: as gpuadmin.yml says, or a template gives it."""
        value = str(self.variables.get(KEY) or "")
        return value.replace("%%", "%") if value and "{{" not in value else None

    @property
    def gpus(self) -> int | None:
        """How many GPUs it should have; None: the inventory does not say."""
        value = self.variables.get("gpus")
        return value if isinstance(value, int) else None

    @property
    def serves(self) -> bool:
        """Whether other hosts mount from it, or may come to."""
        return bool({"storage", "backup"} & set(self.groups))


def find_storage(hosts: Sequence[Host], name: str | None) -> Host | None:
    """The storage host that a setting (`homes.server`, `images.server`) names; if it names none, the first. None: the
    site has none."""
    return next((one for one in hosts if (one.name == name if name else "storage" in one.groups)), None)


@dataclass(frozen=True)
class Login:
    """How Ansible logs in to a host. `key`: a private key's file; None: ssh's own. `arguments`: more for ssh."""

    address: str
    port: int
    user: str
    key: str | None
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Inventory:
    """All hosts of a site, in the order of its files."""

    directory: Path
    hosts: tuple[Host, ...]

    @property
    def sources(self) -> tuple[Path, ...]:
        """What Ansible is given: gpuadmin's own groups, the site's hosts above them, and what follows from both."""
        return (content_path("inventory", "groups.yml"), self.directory, content_path("inventory", "site.yml"))

    def group(self, *names: str) -> tuple[Host, ...]:
        """The hosts that are in any of the groups."""
        return tuple(host for host in self.hosts if set(names) & set(host.groups))

    def named(self, names: Sequence[str]) -> tuple[Host, ...]:
        """The hosts with those names, each once, in their order. Raises ConfigError for an unknown name."""
        known = {host.name: host for host in self.hosts}
        unknown = [name for name in names if name not in known]
        if unknown:
            words = ", ".join(unknown) or "its name is empty"
            hint = f"hosts: {', '.join(known) or 'none'}; a new one goes into inventory/hosts.yml first"
            raise ConfigError(f"no such host: {words}", hint=hint)
        return tuple(known[name] for name in dict.fromkeys(names))

    def login(self, host: Host, settings: Settings) -> Login:
        """Ask Ansible how it would log in to a host. Raises ConfigError if it would not use ssh."""
        known = _ansible().login(self.directory, host.name, settings.model_dump(mode="json"), _LOGIN)
        kind = known["ansible_connection"]
        if kind not in ("", "ssh", "smart"):
            raise ConfigError(
                f"{host.name} is not reached over ssh: its ansible_connection is {kind}", hint="the inventory says so"
            )
        more = [word for name in _MORE_ARGUMENTS for word in shlex.split(known[name])]
        key = known[KEY]
        address, port = known["ansible_host"] or host.name, known["ansible_port"] or "22"
        # guard: an address that ssh takes for an option is refused
        if not _HOST.fullmatch(address) or not port.isdecimal():
            raise ConfigError(f"inventory: {host.name}: {address[:60]!r}, port {port[:60]!r} is not a host's address")
        return Login(address, int(port), known["ansible_user"], str(expanded(key)) if key else None, tuple(more))

    def limited(self, pattern: str | None, named: str = "--limit") -> tuple[Host, ...]:
        """The hosts that an Ansible pattern names. Raises ConfigError if it names none.

        `named`: what the pattern was given as, for the error: an option or an argument.
        """
        if pattern is None:
            return self.hosts
        names = _ansible().named(self.directory, pattern, named)
        if not names:
            known = ", ".join(host.name for host in self.hosts) or "none"
            raise ConfigError(f"{named} {pattern}: names no host of this site", hint=f"its hosts are: {known}")
        return tuple(host for host in self.hosts if host.name in names)


def _ansible() -> Any:
    """Import `resolve`, and Ansible with it: `gpuadmin --help` does without."""
    with _apart():
        from gpuadmin.config import resolve

    return resolve


@contextmanager
def _apart() -> Iterator[None]:
    """For the import of Ansible, which reads its settings then, and makes a directory: not in a home, which may be full
    or read-only.
    """
    here, name, safe = Path.cwd(), "ANSIBLE_LOCAL_TEMP", False
    with suppress(PermissionError):  # who may not look at where they stand
        # guard: nobody else's ansible.cfg has programs of theirs run as us -> True
        safe = ours(here) and not (os.path.lexists(here / "ansible.cfg") and not ours(here / "ansible.cfg"))
    before = os.environ.get(name)
    os.environ[name] = before or tempfile.gettempdir()
    try:
        if not safe:
            os.chdir("/")
        yield
    finally:
        with suppress(PermissionError):  # nothing can be named from where one may not be
            if not safe:
                os.chdir(here)
        del os.environ[name]
        os.environ |= {} if before is None else {name: before}


def load_inventory(directory: Path) -> Inventory:
    """Given a site's directory, return its inventory. Raises ConfigError."""
    folder = directory / "inventory"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such directory", hint="gpuadmin init DIR shows what a site looks like")
    found = _ansible().hosts(folder, _OF_A_HOST)
    hosts = tuple(Host(one["name"], tuple(one["groups"]), one["variables"]) for one in found)
    _refuse_odd_hosts(hosts)
    return Inventory(folder, hosts)


def _is_host(value: str) -> bool:
    """Whether ssh could reach something of that name or address; 10.1.0.300 looks like an address and is none."""
    numbers = value.split(".") if _FOUR_NUMBERS.fullmatch(value) else ()
    return bool(_HOST.fullmatch(value)) and all(int(number) < 256 for number in numbers)


def _refuse_odd_hosts(hosts: Sequence[Host]) -> None:
    """Raise ConfigError for a name that ssh would take for an option or a path, an invalid port, and the like."""
    wrong = []
    for host in hosts:
        # guard: what the inventory says of GPUs is checked
        wrong += [f"inventory: {host.name}: {problem}" for problem in problems(host.variables)]
        for what, value in (("name", host.name), ("ansible_host", host.address)):
            if "{{" not in value and not _is_host(value):
                wrong.append(f"inventory: {host.name}: {what} {value[:60]!r} is not the name or address of a host")
        port = str(host.variables.get("ansible_port", 22))
        if "{{" not in port and not (port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
            wrong.append(f"inventory: {host.name}: ansible_port {port[:60]!r} is not a port from 1 to 65535")
    if wrong:
        raise ConfigError("\n  ".join(wrong), hint="correct it in inventory/: hosts.yml, host_vars/ or group_vars/")
