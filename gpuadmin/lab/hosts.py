"""Which hosts a lab has, and what each needs on the controller before its first boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gpuadmin.common.text import listed
from gpuadmin.errors import ConfigError
from gpuadmin.lab import machines, network, qemu, seed, ssh
from gpuadmin.lab.commands import run
from gpuadmin.lab.light import disk as light_disk
from gpuadmin.lab.paths import guest_directory
from gpuadmin.lab.releases import RELEASES
from gpuadmin.lab.state import Host, Lab, Wanted


def wanted_hosts(nodes: int, ordinary: int) -> list[Wanted]:
    """Given how many nodes and ordinary nodes, return every host."""
    if not 0 <= nodes <= 40 or not 0 <= ordinary <= 40:
        raise ConfigError("a lab has between 0 and 40 nodes of each kind")
    hosts = [Wanted("storage1", "storage", network.storage_address())]
    hosts += [
        Wanted(f"node{number}", "node", network.node_address(number), golden=number == 1)
        for number in range(1, nodes + 1)
    ]
    hosts += [
        Wanted(f"plain{number}", "plain", network.plain_address(number), writable=True)
        for number in range(1, ordinary + 1)
    ]
    return hosts


def with_releases(lab: Lab, wanted: Sequence[Wanted], releases: Mapping[str, str]) -> list[Wanted]:
    """Return the wanted hosts with their releases. `releases`: host → release, that of all under the empty name.

    A host that the lab has keeps its own; raises ConfigError where another one is asked for, and for a host that is
    not wanted.
    """
    names = {one.name for one in wanted}
    if strangers := sorted(set(releases) - names - {""}):
        raise ConfigError(f"--release names {listed(strangers)}, and the lab has {listed(sorted(names))}")
    known = {host.name: host.release for host in lab.hosts}
    found = []
    for one in wanted:
        asked = releases.get(one.name, releases.get(""))
        number = known.get(one.name, asked or one.release)
        if asked not in (None, number):
            raise ConfigError(
                f"{one.name} of lab {lab.name} has {RELEASES[number].title}, not {RELEASES[asked].title}",
                hint=f"--name chooses another lab; gpuadmin lab down --purge --name {lab.name} deletes this one",
            )
        found.append(replace(one, release=number))
    return found


def with_hosts(lab: Lab, wanted: Sequence[Wanted], bases: Mapping[tuple[str, str], Path], taken: set[int]) -> Lab:
    """Given a lab, return it with the wanted hosts added; those it has are kept, also if they are more.

    `bases`: layout and release → base image. `taken`: ports of other labs.
    """
    known = {host.name for host in lab.hosts}
    ports = taken | {host.ssh_port for host in lab.hosts}
    added = []
    for one in wanted:
        if one.name in known:
            continue
        port = network.free_port(ports)
        ports.add(port)
        added.append(
            Host(
                **asdict(one),
                ssh_port=port,
                uplink_mac=network.mac(lab.name, one.name, "uplink"),
                cluster_mac=network.mac(lab.name, one.name, "cluster"),
                base=str(bases[lab.layout(one.kind).name, one.release]),
            )
        )
    return replace(lab, hosts=lab.hosts + tuple(added))


def with_free_ports(lab: Lab, taken: set[int]) -> Lab:
    """Return the lab with new ports for stopped hosts whose port somebody else has taken meanwhile."""
    ports = taken | {host.ssh_port for host in lab.hosts}
    hosts = []
    for host in lab.hosts:
        if machines.running_pid(lab, host) is None and not network.port_is_free(host.ssh_port):
            moved = replace(host, ssh_port=network.free_port(ports))
            ports.add(moved.ssh_port)
            hosts.append(moved)
        else:
            hosts.append(host)
    return replace(lab, hosts=tuple(hosts))


def prepare(lab: Lab, host: Host) -> None:
    """Make a host's keys, seed and disks, as far as they are missing."""
    directory = lab.host_directory(host)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    ssh.make_key(directory / "ssh_host_ed25519_key", host.name)
    (directory / "seed.tar").write_bytes(_make_seed(lab, host))
    if lab.light:
        seed_tar = (directory / "seed.tar").read_bytes()
        light_disk.make(directory / "disk.img", Path(host.base), seed_tar, host, lab.data)
        if host.kind == "storage":
            light_disk.make_data(directory / "data.img")
        return
    _make_disk(directory / "root.qcow2", "-b", host.base, "-F", "qcow2")
    if host.kind == "storage":
        _make_disk(directory / "data.qcow2", size=qemu.DATA_DISK_SIZE)


def _make_seed(lab: Lab, host: Host) -> bytes:
    directory = lab.host_directory(host)
    return seed.seed_tar(
        lab,
        host,
        base_fstab=(guest_directory() / lab.layout(host.kind).name / "fstab").read_text(),
        host_key=(directory / "ssh_host_ed25519_key").read_bytes(),
        host_key_public=(directory / "ssh_host_ed25519_key.pub").read_bytes(),
        admin_key=lab.ssh_key.with_suffix(".pub").read_text(),
    )


def _make_disk(path: Path, *arguments: str, size: str | None = None) -> None:
    if path.exists():
        return
    part = path.with_name(path.name + ".part")
    run(("qemu-img", "create", "-q", "-f", "qcow2", *arguments, str(part), *((size,) if size else ())))
    part.rename(path)
