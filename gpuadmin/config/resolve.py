"""What Ansible makes of an inventory: its hosts, the hosts of a pattern, and how it would log in to one.

The only file that imports Ansible, which takes longer than `gpuadmin --help`: inventory.py imports it when a verb reads
a site.
"""

from __future__ import annotations

import contextlib
import io
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.utils.display import Display
from ansible.vars.manager import VariableManager

from gpuadmin.config.hosts_file import inventory_files
from gpuadmin.config.yamlfile import YamlFile, describe_kind
from gpuadmin.config.yamlread import Fields
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError, together
from gpuadmin.reading import decoded, expanded, read_limited, refuse_irregular

_PATTERNS = "names of hosts or groups, as in gpu1,gpu2; all is all of them"


def hosts(folder: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Given an inventory's directory and names of variables, return its hosts: `name`, `groups`, and `variables` as
    they are written, templates and all. Raises ConfigError.
    """
    manager = _load(folder)
    variables = VariableManager(loader=manager._loader, inventory=manager)

    def of(host: Any) -> dict[str, Any]:
        # host_vars/ and group_vars/ count as well, so Ansible is asked rather than the inventory line
        known = variables.get_vars(host=host, include_hostvars=False, use_cache=False)
        found = {name: known[name] for name in names if name in known}
        for name, value in found.items():
            try:
                str(value)
            except Exception:  # a vault's value says what is wrong with it by errors without a common base
                raise ConfigError(
                    f"inventory: {host.name}: {name}: a vault that cannot be read here",
                    hint="how a host is reached has to be plain text; keep passwords in the vault",
                ) from None
        return found

    with _in_words(folder):
        return [
            {
                "name": host.name,
                "groups": sorted(group.name for group in host.get_groups() if group.name != "all"),
                "variables": of(host),
            }
            for host in manager.get_hosts("all")
        ]


def login(folder: Path, host: str, settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Given a host's name, the site's settings and names of variables, return what those are for it, rendered."""
    manager = _load(folder)
    variables = VariableManager(loader=manager._loader, inventory=manager).get_vars(
        host=manager.get_host(host), include_hostvars=False, use_cache=False
    )
    templar = Templar(manager._loader, {**variables, "gpuadmin_site": settings})

    def rendered(name: str) -> str:
        try:
            return str(templar.template(variables.get(name)) or "")
        except AnsibleError as error:
            raise ConfigError(f"{folder}: {host}: {name}: {error}") from None

    return {name: rendered(name) for name in names}


def named(folder: Path, pattern: str, given: str) -> frozenset[str]:
    """The names of the hosts that an Ansible pattern matches. Raises ConfigError if it is not a pattern.

    `given`: what the pattern was given as, for the error: an option or an argument.
    """
    # Ansible takes these for all hosts: an empty variable of a shell must not widen what a verb does
    if (
        # guard: an empty limit is not taken for all hosts
        not pattern.strip(" \t\r\n,:;~&") or pattern.count("[") != pattern.count("]")
    ):
        raise ConfigError(
            f"{given} {pattern!r}: is not a host pattern: it is empty, or a bracket is not closed", hint=_PATTERNS
        )
    _refuse_parts(pattern, given)
    manager = _load(folder)
    try:
        with _silent():
            manager.subset(pattern)
            return frozenset(host.name for host in manager.get_hosts("all"))
    except Exception:  # Ansible's own errors have no common public base for patterns
        raise ConfigError(
            f"{given} {pattern!r}: is not a host pattern that Ansible understands, or a range of it is empty",
            hint=_PATTERNS,
        ) from None


def _refuse_parts(pattern: str, given: str) -> None:
    """Raise ConfigError for a part that is empty after its sign, and for a file of hosts that cannot be read."""
    for part in split_host_pattern(pattern):
        if part in ("!", "&", "~", "!~", "&~", "@"):
            raise ConfigError(f"{given} {pattern!r}: nothing follows {part!r}", hint=_PATTERNS)
        if part.startswith("@"):
            path = expanded(part[1:])
            try:
                decoded(read_limited(path), path)
            except OSError as error:
                reason = error.strerror
                hint = "after @ comes the path of a file with one host per line"
                raise ConfigError(f"{given} {pattern!r}: {path}: {reason}", hint=hint) from None


def _load(folder: Path) -> Any:
    # Ansible only warns about a file that it cannot parse; for us that would be a cluster without hosts. What matters
    # of its warnings is checked below and in check.py.
    with _in_words(folder):
        _refuse_irregular(folder)  # guard: an inventory holds regular files
        mistakes = [error for one in inventory_files(folder) if (error := _mistake(one, folder)) is not None]
        if mistakes:
            raise together(mistakes)
        loader = DataLoader()
        loader.set_basedir(str(folder))  # guard: group_vars where somebody stands are nobody's
        return InventoryManager(loader=loader, sources=[str(content_path("inventory", "groups.yml")), str(folder)])


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
            f"{error.filename or folder}: {error.strerror}", hint="whoever runs gpuadmin must be able to read it"
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
            file = YamlFile.load(source, name=name)
            yaml.load(file.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            if source.parent == folder and "plugin" not in file.data:  # that one is the settings of a plugin
                return _misshapen(file.data, name)
    except ConfigError as error:
        return error
    except yaml.YAMLError:
        return None  # a tag such as !vault, which Ansible knows
    except ValueError:  # this is Ansible's parser, and for it that ends the file
        hint = "write a day that exists, or a text in quotes"
        return ConfigError(f"{name}: holds a day or a time that does not exist", hint=hint)
    return None


def _misshapen(groups: Any, name: str) -> ConfigError | None:
    """What makes Ansible leave out the whole rest of a file of hosts: a list or a text where fields have to be."""

    def mistake(line: int, where: str, value: object, hint: str) -> ConfigError:
        return ConfigError(f"{name}:{line + 1}: {where}: must hold fields, not {describe_kind(value)}", hint=hint)

    for group, content in groups.items():
        if content is None:
            continue
        if not isinstance(content, Fields):  # guard: a group that Ansible would leave out is named
            hint = f"a group's hosts: `{group}: {{hosts: {{NAME: {{}}}}}}`"
            return mistake(groups.lines[group], str(group), content, hint)
        odd = [key for key in content if key not in ("hosts", "children", "vars")]
        if odd:  # guard: a host that Ansible would leave out is named
            line, hint = content.lines[odd[0]] + 1, f"a host goes below {group}.hosts, a group below {group}.children"
            what = "is none of hosts, children, vars: Ansible would leave it out"
            return ConfigError(f"{name}:{line}: {group}.{odd[0]}: {what}", hint=hint)
        for section, below in content.items():
            # guard: hosts that Ansible would leave out with the rest of their file are named
            if not isinstance(below, Fields | NoneType) and (section == "vars" or not isinstance(below, str)):
                shape = "VALUE" if section == "vars" else "{}"
                hint = f"each of its {section} is a field: `NAME: {shape}`, without a dash"
                return mistake(content.lines[section], f"{group}.{section}", below, hint)
            if isinstance(below, Fields):
                for host, variables in below.items() if section == "hosts" else ():
                    if variables is not None and not isinstance(variables, Fields):
                        hint = "a host's variables: `HOST: {ansible_host: ADDRESS}`"
                        return mistake(below.lines[host], f"{group}.hosts.{host}", variables, hint)
                if section == "children" and (found := _misshapen(below, name)) is not None:
                    return found
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
