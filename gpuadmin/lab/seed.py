"""A host's identity, which it takes at its first boot: names, addresses, keys, as a tar of files."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping

from gpuadmin.lab.network import NETWORK, UPLINK_DNS
from gpuadmin.lab.rootfs import add_file
from gpuadmin.lab.state import Host, Lab

ADMIN = "gpuadmin"
ADMIN_UID = 900
#: The storage host's second disk, by the serial number that QEMU gives it.
DATA_DISK = "/dev/disk/by-id/virtio-gpuadmin-data"


def seed_tar(
    lab: Lab, host: Host, *, base_fstab: str, host_key: bytes, host_key_public: bytes, admin_key: str
) -> bytes:
    """Given a host and its keys, return the tar that its first boot unpacks over the root.

    `base_fstab` is the fstab of its disk layout; `admin_key` the admin's public key, one line.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in identity_files(lab, host, base_fstab).items():
            add_file(tar, name, text.encode(), mode=0o644)
        add_file(tar, "etc/ssh/ssh_host_ed25519_key", host_key, mode=0o600)
        add_file(tar, "etc/ssh/ssh_host_ed25519_key.pub", host_key_public, mode=0o644)
        directory = tarfile.TarInfo(f"var/home/{ADMIN}/.ssh")
        directory.type, directory.mode, directory.uid, directory.gid = tarfile.DIRTYPE, 0o700, ADMIN_UID, ADMIN_UID
        tar.addfile(directory)
        add_file(tar, f"{directory.name}/authorized_keys", admin_key.encode(), mode=0o600, uid=ADMIN_UID)
    return archive.getvalue()


def identity_files(lab: Lab, host: Host, base_fstab: str) -> Mapping[str, str]:
    """Given a host, return path → text of the world-readable files that make it that host."""
    files = {
        "etc/hostname": f"{host.name}\n",
        "etc/hosts": hosts_file(lab),
        "etc/machine-id": machine_id(lab, host) + "\n",
        # a light host has no uplink, and names no server that it does not reach
        "etc/resolv.conf": "" if lab.light else f"nameserver {UPLINK_DNS}\n",
        "etc/systemd/network/10-uplink.network": (
            f"[Match]\nMACAddress={host.uplink_mac}\n\n"
            # Static, and what QEMU's user network would answer anyway: DHCP costs seconds under emulation.
            f"[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
        ),
        "etc/systemd/network/20-cluster.network": (
            f"[Match]\nMACAddress={host.cluster_mac}\n\n"
            f"[Network]\nAddress={host.address}/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
        ),
    }
    if host.kind == "storage":
        files["etc/fstab"] = base_fstab + f"{DATA_DISK} /srv/storage btrfs noatime,x-systemd.makefs 0 0\n"
    return files


def hosts_file(lab: Lab) -> str:
    """Return a hosts file that knows the lab's hosts by their addresses on the cluster's network.

    The whole range is written, not only the hosts of today: a host that joins later is known to the others.
    """
    lines = ["127.0.0.1 localhost", f"{NETWORK}.10 storage1"]
    lines += [f"{NETWORK}.{10 + number} node{number}" for number in range(1, 41)]
    lines += [f"{NETWORK}.{50 + number} plain{number}" for number in range(1, 41)]
    if lab.like:
        lines = [lines[0], *(f"{one.address} {one.name}" for one in lab.hosts)]
    return "\n".join(lines) + "\n"


def machine_id(lab: Lab, host: Host) -> str:
    """Return the host's machine id: 32 hexadecimal digits, shaped as a version 4 UUID as systemd's are."""
    digest = bytearray(hashlib.sha256(f"gpuadmin lab {lab.directory} {host.name}".encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40
    digest[8] = digest[8] & 0x3F | 0x80
    return digest.hex()
