"""Variables of an inventory that look like gpuadmin's and are not: nothing would read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from gpuadmin.config.finding import Finding
from gpuadmin.config.host_variables import NAMES, OF_THE_BOX
from gpuadmin.config.hosts_file import FOLDERS, find_groups, inventory_files, parse_members
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.config.yamlread import Fields
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.similar import NEARLY, did_you_mean

# An inventory also holds what is Ansible's (`ansible_*`) and what an admin's own playbooks read, which gpuadmin cannot
# know. So this is a warning, and only about a name that begins as gpuadmin's alone do, or that is one of gpuadmin's but
# for a letter or two. Other prefixes of roles (`power_`, `backups_`) are everyday words, and others may use them.
_OWN = ("gpuadmin_", "gpus_", "limits_")
#: Those that each site has.
_ANSIBLES = ("ansible_host", "ansible_port", "ansible_user")


def variable_slips(inventory: Path, given: Collection[str]) -> list[Finding]:
    """Given an inventory's directory and the variables that roles are given, return a warning for each such name.

    Only YAML is looked at; what is encrypted is left out. A folder of variables beside the inventory is named, too.
    """
    beside = [
        Finding("warning", f"{name}/", "gpuadmin reads nothing in it", f"move its files into inventory/{name}/")
        for name in FOLDERS
        if (inventory.parent / name).is_dir() and (inventory.parent / name).resolve() != (inventory / name).resolve()
    ]
    read = {*NAMES, *_shipped()}
    near = read - {*OF_THE_BOX}  # everyday words: `owners` may be anything
    return beside + [
        Finding("warning", where, f"gpuadmin reads no variable {name}", _hint(name, near))
        for where, name in _variables(inventory)
        if name not in read and name not in given and _meant(name, near)
    ]


def _meant(name: str, near: Collection[str]) -> bool:
    if name.startswith("ansible_"):
        return name not in _ANSIBLES and bool(did_you_mean(name, _ANSIBLES, NEARLY))
    return name.startswith(_OWN) or bool(did_you_mean(name, near, NEARLY))


def _hint(name: str, near: Collection[str]) -> str:
    if guess := did_you_mean(name, (*near, *_ANSIBLES), NEARLY):
        return guess
    known = sorted(one for one in near if one.split("_")[0] == name.split("_", maxsplit=1)[0])
    return f"it reads {', '.join(known)}"


def _shipped() -> Iterator[str]:
    """The variables that have a value in gpuadmin's own inventory, or in a role: a site may set them."""
    yield from YamlFile.load(content_path("inventory", "groups.yml")).data["all"]["vars"]
    for path in content_path("roles").glob("*/defaults/main.yml"):
        yield from YamlFile.load(path).data


def _variables(inventory: Path) -> Iterator[tuple[str, str]]:
    """Each variable of the inventory's files, with its place, such as `inventory/hosts.yml:7: host node1`."""
    for path in inventory_files(inventory):
        data = _data(path)
        folder, *below = path.relative_to(inventory).parts
        if below:
            yield from _named(path, inventory, f"{FOLDERS[folder]} {below[0].removesuffix(path.suffix)}", data)
            continue
        for group, content in () if "plugin" in data else find_groups(data):  # that one is the settings of a plugin
            yield from _named(path, inventory, f"group {group}", content.get("vars"))
            for host, variables in parse_members(content.get("hosts")).items():
                yield from _named(path, inventory, f"host {host}", variables)


def _named(path: Path, inventory: Path, whose: str, variables: Any) -> Iterator[tuple[str, str]]:
    if isinstance(variables, Fields):
        for name, line in variables.lines.items():
            yield f"{inventory.name}/{path.relative_to(inventory)}:{line + 1}: {whose}", str(name)


def _data(path: Path) -> Fields:
    """What a file holds. Ansible has read it already: what cannot be read here is a vault, or no fields."""
    try:
        data = YamlFile.load(path).data
    except ConfigError:
        return Fields()
    return data if isinstance(data, Fields) else Fields()
