"""A site's inventory, read by Ansible itself so that whatever Ansible accepts is accepted here."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.utils.display import Display
from ansible.vars.manager import VariableManager

from gpuadmin.config.host_variables import NAMES, problems
from gpuadmin.config.schema import Settings
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError, together
from gpuadmin.reading import decoded, read_limited, refuse_irregular

# what ssh and Ansible take for a host: a name, an address of IPv4 or IPv6 (with a zone), no option and no path
_HOST = re.compile(r"[A-Za-z0-9_:]([A-Za-z0-9._:%-]{0,252}[A-Za-z0-9_:])?")

_PATTERNS = "names of hosts or groups, as in gpu1,gpu2; for all hosts leave --limit out"
_MORE_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")


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
    def port(self) -> int:
        """The port that sshd listens on; 22 where a template gives it, which nobody renders here."""
        value = str(self.variables.get("ansible_port", 22))
        return int(value) if value.isdecimal() else 22

    @property
    def local(self) -> bool:
        """Whether it is this machine: Ansible needs no ssh for it."""
        return self.variables.get("ansible_connection") == "local"

    @property
    def gpus(self) -> int | None:
        """How many GPUs it should have; None: the inventory does not say."""
        value = self.variables.get("gpus")
        return value if isinstance(value, int) else None


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
        """What Ansible is given: gpuadmin's own groups and variables first, the site's after and above them."""
        return (content_path("inventory"), self.directory)

    def group(self, *names: str) -> tuple[Host, ...]:
        """The hosts that are in any of the groups."""
        return tuple(host for host in self.hosts if set(names) & set(host.groups))

    def named(self, names: Sequence[str]) -> tuple[Host, ...]:
        """The hosts of those names, each once, in their order. Raises ConfigError where there is none of a name."""
        known = {host.name: host for host in self.hosts}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfigError(f"no such host: {', '.join(unknown)}", hint=f"hosts: {', '.join(known) or 'none'}")
        return tuple(known[name] for name in dict.fromkeys(names))

    def login(self, host: Host, settings: Settings) -> Login:
        """Ask Ansible how it would log in to a host. Raises ConfigError where it would not use ssh."""
        manager = _load(self.directory)
        variables = VariableManager(loader=manager._loader, inventory=manager).get_vars(
            host=manager.get_host(host.name), include_hostvars=False, use_cache=False
        )
        templar = Templar(manager._loader, {**variables, "gpuadmin_site": settings.model_dump(mode="json")})

        def value(name: str) -> str:
            try:
                return str(templar.template(variables.get(name)) or "")
            except AnsibleError as error:
                raise ConfigError(f"{self.directory}: {host.name}: {name}: {error}") from None

        if value("ansible_connection") not in ("", "ssh", "smart"):
            raise ConfigError(
                f"{host.name} is not reached over ssh: its ansible_connection is {value('ansible_connection')}",
                hint="the inventory says so",
            )
        more = [word for name in _MORE_ARGUMENTS for word in shlex.split(value(name))]
        key = value("ansible_ssh_private_key_file")
        address, port = value("ansible_host") or host.name, value("ansible_port") or "22"
        if not _HOST.fullmatch(address) or not port.isdecimal():
            raise ConfigError(f"inventory: {host.name}: {address[:60]!r}, port {port[:60]!r} is no address of a host")
        return Login(
            address, int(port), value("ansible_user"), str(Path(key).expanduser()) if key else None, tuple(more)
        )

    def limited(self, pattern: str | None, named: str = "--limit") -> tuple[Host, ...]:
        """The hosts that an Ansible pattern names. Raises ConfigError where it names none.

        `named`: what the pattern was given as, for the error: an option or an argument.
        """
        if pattern is None:
            return self.hosts
        # Ansible takes these for all hosts: an empty variable of a shell must not widen what a verb does
        if not pattern.strip(" \t\r\n,:;~&") or pattern.count("[") != pattern.count("]"):
            raise ConfigError(
                f"{named} {pattern!r}: is no pattern of hosts: it is empty, or a bracket is not closed", hint=_PATTERNS
            )
        _refuse_parts(pattern, named)
        names = _manager(self.directory, pattern)
        if not names:
            known = ", ".join(host.name for host in self.hosts) or "none"
            raise ConfigError(f"{named} {pattern}: names no host of this site", hint=f"its hosts are: {known}")
        return tuple(host for host in self.hosts if host.name in names)


def load_inventory(directory: Path) -> Inventory:
    """Given a site's directory, return its inventory. Raises ConfigError."""
    folder = directory / "inventory"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such directory", hint="gpuadmin init DIR shows what a site looks like")
    manager = _load(folder)
    variables = VariableManager(loader=manager._loader, inventory=manager)

    def connection(host: Any) -> dict[str, Any]:
        # host_vars/ and group_vars/ count as well, so Ansible is asked rather than the inventory line
        known = variables.get_vars(host=host, include_hostvars=False, use_cache=False)
        names = ("ansible_host", "ansible_port", "ansible_connection", "gpuadmin_address", *NAMES)
        return {name: known[name] for name in names if name in known}

    with _in_words(folder):
        hosts = tuple(
            Host(
                name=host.name,
                groups=tuple(sorted(group.name for group in host.get_groups() if group.name != "all")),
                variables=connection(host),
            )
            for host in manager.get_hosts("all")
        )
    _refuse_odd_hosts(hosts)
    return Inventory(folder, hosts)


def _refuse_odd_hosts(hosts: Sequence[Host]) -> None:
    """Raise ConfigError for a name that ssh would take for an option or a path, a port that is none, and the like."""
    wrong = []
    for host in hosts:
        wrong += [f"inventory: {host.name}: {problem}" for problem in problems(host.variables)]
        for what, value in (("name", host.name), ("ansible_host", host.address)):
            if "{{" not in value and not _HOST.fullmatch(value):
                wrong.append(f"inventory: {host.name}: {what} {value[:60]!r} is no name or address of a host")
        port = str(host.variables.get("ansible_port", 22))
        if "{{" not in port and not (port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
            wrong.append(f"inventory: {host.name}: ansible_port {port[:60]!r} is no port from 1 to 65535")
    if wrong:
        raise ConfigError("\n  ".join(wrong), hint="correct it in inventory/hosts.yml, host_vars/ or group_vars/")


def _manager(folder: Path, pattern: str) -> frozenset[str]:
    manager = _load(folder)
    try:
        with _silent():
            manager.subset(pattern)
            return frozenset(host.name for host in manager.get_hosts("all"))
    except Exception:  # Ansible's own errors have no common public base for patterns
        raise ConfigError(
            f"--limit {pattern!r}: is no pattern of hosts that Ansible understands, or a range of it is empty",
            hint=_PATTERNS,
        ) from None


def _refuse_parts(pattern: str, named: str) -> None:
    """Raise ConfigError for a part that is empty after its sign, and for a file of hosts that cannot be read."""
    for part in split_host_pattern(pattern):
        if part in ("!", "&", "~", "!~", "&~", "@"):
            raise ConfigError(f"{named} {pattern!r}: nothing follows {part!r}", hint=_PATTERNS)
        if part.startswith("@"):
            path = Path(part[1:]).expanduser()
            try:
                decoded(read_limited(path), path)
            except OSError as error:
                reason = error.strerror
                hint = "behind @ goes the path of a file with a host in each line"
                raise ConfigError(f"{named} {pattern!r}: {path}: {reason}", hint=hint) from None


def _load(folder: Path) -> Any:
    # Ansible only warns about a file that it cannot parse; for us that would be a cluster without hosts. What matters
    # of its warnings is checked below and in check.py.
    with _in_words(folder):
        _refuse_irregular(folder)
        sources = [one for one in sorted(folder.iterdir()) if one.suffix in (".yml", ".yaml")]
        for name in ("group_vars", "host_vars"):
            below = sorted((folder / name).rglob("*"))
            sources += [one for one in below if one.suffix in ("", ".yml", ".yaml", ".json")]
        mistakes = [error for one in sources if one.is_file() and (error := _mistake(one, folder)) is not None]
        if mistakes:
            raise together(mistakes)
        return InventoryManager(loader=DataLoader(), sources=[str(content_path("inventory")), str(folder)])


@contextlib.contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    """What goes wrong while Ansible reads an inventory is a ConfigError, and its warnings are not shown."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), _silent():
            yield
    except AnsibleError as error:
        text = re.sub(r"\[Errno \d+\] ", "", " ".join(str(error).split()))
        raise ConfigError(
            f"{folder}: Ansible cannot read it: {text}", hint="gpuadmin check, once it is corrected"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{error.filename or folder}: {error.strerror}", hint="it has to be readable for whoever runs gpuadmin"
        ) from None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Ansible writes its warnings past sys.stderr, and each only once in a process."""
    display = Display()
    usual = display.display
    display.display = lambda *_args, **_more: None
    try:
        yield
    finally:
        display.display = usual


def _mistake(source: Path, folder: Path) -> ConfigError | None:
    """What is wrong with a YAML file, in words: Ansible's own error is a parser's. A vault is Ansible's alone."""
    name = str(Path(folder.name) / source.relative_to(folder))
    try:
        if not read_limited(source).startswith(b"$ANSIBLE_VAULT;"):
            yaml.load(YamlFile.load(source, name=name).text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except ConfigError as error:
        return error
    except yaml.YAMLError:
        return None  # a tag such as !vault, which Ansible knows
    except ValueError:  # for Ansible, whose parser this is, it ends the file
        hint = "write a day that exists, or a text in quotes"
        return ConfigError(f"{name}: holds a day or a time that does not exist", hint=hint)
    return None


def _refuse_irregular(folder: Path, above: tuple[tuple[int, int], ...] = ()) -> None:
    """Ansible reads every file of it, and would wait for ever at a named pipe."""
    for path in sorted(folder.iterdir()):
        try:
            facts = path.stat()
        except OSError:  # a link that leads nowhere: Ansible leaves it out
            continue
        if stat.S_ISDIR(facts.st_mode):
            here = facts.st_dev, facts.st_ino
            if here not in above:
                _refuse_irregular(path, (*above, here))
            continue
        try:
            refuse_irregular(facts, path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", hint="take it out of the inventory") from None
