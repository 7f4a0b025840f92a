"""A lab as a site: what `gpuadmin` needs to know to work on it."""

from __future__ import annotations

from pathlib import Path

from gpuadmin.config.find import SETTINGS_FILE
from gpuadmin.config.hosts_file import HOSTS_FILE, SiteHost, host_names, with_hosts
from gpuadmin.config.known_hosts import read_known_hosts, with_lines
from gpuadmin.config.load import KNOWN_HOSTS, load_settings
from gpuadmin.config.skeleton import write_site
from gpuadmin.config.yamlfile import YamlFile, write_atomically
from gpuadmin.errors import ConfigError
from gpuadmin.lab import ssh
from gpuadmin.lab.light import gpus
from gpuadmin.lab.seed import ADMIN
from gpuadmin.lab.state import Host, Kind, Lab
from gpuadmin.reading import expanded

_GROUPS: dict[Kind, tuple[str, ...]] = {"storage": ("storage",), "node": ("gpu",), "plain": ("gpu",)}


def groups(host: Host) -> tuple[str, ...]:
    """Given a host, return its inventory groups."""
    return (*_GROUPS[host.kind], *(("golden",) if host.golden else ()))


def variables(lab: Lab, host: Host) -> dict[str, object]:
    """Given a host of a lab, return its inventory variables."""
    reached = {"ansible_host": "127.0.0.1", "ansible_port": host.ssh_port, "gpuadmin_address": host.address}
    return {**reached, **gpus.variables(lab.count_gpus(host))}


def settings(lab: Lab) -> dict[str, object]:
    """Return what the lab's gpuadmin.yml says besides the defaults."""
    return {"admin": {"user": ADMIN, "ssh_key": str(lab.ssh_key)}}


def write(lab: Lab, directory: Path) -> list[str]:
    """Write the lab's site. Into an existing one it writes only what is new: hosts, their ports and host keys.

    Returns the hosts in its inventory file that the lab does not have; they stay. Raises ConfigError, before anything
    is written, where the directory is another cluster's site, or its inventory has another shape than ours.
    """
    hosts = [SiteHost(host.name, groups(host), variables(lab, host)) for host in lab.hosts]
    if not (directory / SETTINGS_FILE).exists() and not (directory / HOSTS_FILE).exists():
        write_site(
            directory, name=lab.name, settings=settings(lab), hosts=hosts, known_hosts=ssh.known_hosts(lab)
        )  # fmt: skip
        return []
    key = load_settings(directory).admin.ssh_key
    if key is None or expanded(key) != lab.ssh_key:  # guard: a lab writes into no other cluster's site
        raise ConfigError(
            f"{directory}: is the site of another cluster: its admin.ssh_key is not that of lab {lab.name}",
            hint="nothing was written; --site names another directory for the lab's",
        )
    file = YamlFile.load(directory / HOSTS_FILE, name=HOSTS_FILE)
    wanted = with_hosts(file, hosts)
    known_hosts = directory / KNOWN_HOSTS
    pinned = read_known_hosts(known_hosts)
    for path, before, text in (
        (file.path, file.text, wanted.text),
        (known_hosts, pinned, with_lines(pinned, ssh.known_hosts(lab).splitlines())),
    ):
        if text != before:
            write_atomically(path, text)
    return [name for name in host_names(wanted) if name not in {host.name for host in hosts}]
