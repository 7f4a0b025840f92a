#!/usr/bin/python
"""gpuadmin.node.host_facts: what the roles have to know of a host before they touch it, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_facts
short_description: What the roles of gpuadmin have to know of a host
version_added: "0.1.0"
description:
  - Looks once, so that the preflight of every role is decided on the controller.
  - Sets the fact C(gpuadmin). It changes nothing, and waits for no file server that is away.
options:
  paths:
    description: Paths to look at.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at the host
  gpuadmin.node.host_facts:
    paths: [/home, /local/.docker]
"""

RETURN = r"""
ansible_facts:
  description: The facts.
  returned: always
  type: dict
  contains:
    gpuadmin:
      description: What the module found.
      type: dict
      contains:
        distribution: {description: ID of the system., type: str}
        name: {description: Name of the system for people., type: str}
        codename: {description: Codename of the release., type: str}
        family: {description: "debian, redhat, archlinux or null.", type: str}
        python: {description: Major and minor version of the Python that runs modules., type: list, elements: int}
        systemd: {description: Whether it runs., type: bool}
        packages: {description: Names of what is installed., type: list, elements: str}
        active_units: {description: Names of units that are active., type: list, elements: str}
        enabled_units: {description: Names of units that start at boot., type: list, elements: str}
        masked_units: {description: Names of units that can never run., type: list, elements: str}
        docker_members: {description: Who is in the group docker., type: list, elements: str}
        kernels: {description: Versions of the kernels that are installed., type: list, elements: str}
        nvswitches: {description: How many NVSwitches are on the PCI bus., type: int}
        read_only_root: {description: Whether the root is read-only by its btrfs property., type: bool}
        serves_nfs: {description: Whether it has an NFS server., type: bool}
        sshd_directory: {description: Whether sshd reads sshd_config.d., type: bool}
        apparmor_profile_needed:
          description: Whether AppArmor keeps rootlesskit from making user namespaces.
          type: bool
        paths:
          description:
            - For each path the C(mounts) on it (C(source) and C(fstype), the last is on top), the C(fstype) of the file
              system that it is or would be on, and up to ten C(entries) where nothing is mounted.
          type: dict
"""

import grp
import os
import re
import sys

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import kernels, pci
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import (
    Mount,
    nearest,
    parse_mountinfo,
    read_mountinfo,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard
from ansible_collections.gpuadmin.node.plugins.module_utils.system import family, installed_packages, os_release, units

ARGUMENTS = {"paths": {"type": "list", "elements": "path", "default": []}}
MOST_ENTRIES = 10


def docker_members() -> list[str]:
    """Who is in the group docker; such people are as good as root where root's daemon runs."""
    try:
        return sorted(grp.getgrnam("docker").gr_mem)
    except KeyError:
        return []


def sshd_reads_directory(path: str = "/etc/ssh/sshd_config") -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return bool(re.search(r"(?im)^\s*include\s+.*/etc/ssh/sshd_config\.d/", stream.read()))
    except OSError:
        return False


def apparmor_profile_needed() -> bool:
    try:
        with open("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", encoding="ascii") as stream:
            restricts = stream.read().strip() != "0"
    except OSError:
        return False
    return restricts and not os.path.exists("/etc/apparmor.d/rootlesskit")


def look_at(path: str, mounts: list[Mount]) -> dict[str, object]:
    """One path, without looking into anything that is mounted on it."""
    on_it = [mount for mount in mounts if mount.point == path]
    under = nearest(path, mounts)
    entries: list[str] = []
    if not on_it and os.path.isdir(path):
        entries = sorted(os.listdir(path))[:MOST_ENTRIES]
    return {
        "mounts": [{"source": mount.source, "fstype": mount.fstype} for mount in on_it],
        "fstype": under.fstype if under else None,
        "entries": entries,
    }


def facts(paths: list[str]) -> dict[str, object]:
    release = os_release()
    kin = family(release)
    systemd = os.path.isdir("/run/systemd/system")
    listing = ("systemctl", "--no-legend", "--plain", "--no-pager", "--full")
    files = (*listing, "list-unit-files", "--type=service,socket,automount,target")
    mounts = parse_mountinfo(read_mountinfo())
    return {
        "distribution": release.get("ID", "unknown"),
        "name": release.get("PRETTY_NAME", "an unknown system"),
        "codename": release.get("VERSION_CODENAME", ""),
        "family": kin,
        "python": list(sys.version_info[:2]),
        "systemd": systemd,
        "packages": installed_packages(kin) if kin else [],
        "active_units": units((*listing, "list-units", "--state=active")) if systemd else [],
        "enabled_units": units((*files, "--state=enabled")) if systemd else [],
        "masked_units": units((*files, "--state=masked")) if systemd else [],
        "docker_members": docker_members(),
        "kernels": kernels.kernels(),
        "nvswitches": pci.switches(),
        "read_only_root": guard.inspect("/").managed,
        "serves_nfs": os.path.exists("/usr/sbin/exportfs"),
        "sshd_directory": sshd_reads_directory(),
        "apparmor_profile_needed": apparmor_profile_needed(),
        "paths": {path: look_at(path, mounts) for path in paths},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        found = facts(module.params["paths"])
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error))
        return
    module.exit_json(changed=False, ansible_facts={"gpuadmin": found})


if __name__ == "__main__":
    main()
