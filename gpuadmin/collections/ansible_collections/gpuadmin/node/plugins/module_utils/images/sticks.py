"""Sticks, on the storage host; and on a machine that runs from one: a node is installed on a disk that was named."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpuadmin.common.records.installs import Admin, InstallOrder, Machine, Made, StickOrder

from ..background import Job, progress_writer
from ..errors import NodeError
from ..files import read_bytes
from ..paths import RUN
from . import bootdisk, disks
from .bootdisk import Wanted
from .identity import remove
from .manifest import Manifest, Stream, choose_stream, digest, load
from .mounting import mounted
from .places import ImageSettings, Places, check_name, read_json, write_json

#: The unit is gpuadmin-install.service.
UNIT = "install"
NAME = "gpuadmin-stick"
#: What a stick's kernel is told beside: it resumes from no disk, and no RAID writes before something is written to it.
_QUIET = "noresume md_mod.start_ro=1"
_BY_DHCP = "[Match]\n{match}\n\n[Network]\nDHCP=yes\n\n[DHCPv4]\nClientIdentifier=mac\n"
#: Below etc/systemd/system of a stick: systemd's own program asks DHCP on any card, and no other does.
_LINKS = {
    "multi-user.target.wants/systemd-networkd.service": "/usr/lib/systemd/system/systemd-networkd.service",
    "NetworkManager.service": "/dev/null",
}


def stick_job(order: StickOrder) -> Job:
    same = {"name": order.name, "arguments": order.arguments}
    return Job(UNIT, make_stick, order, f"make a stick of {order.name}", same, ("PrivateMounts=yes",))


def install_job(order: InstallOrder) -> Job:
    same = {"host": order.host, "disk": order.disk}
    return Job(UNIT, install, order, f"install {order.host} on {order.disk}", same, ("PrivateMounts=yes",))


def make_stick(order: StickOrder) -> dict[str, Any]:
    """Make a stick's file in a directory beside the store; that of an earlier stick goes."""
    progress = progress_writer(UNIT)
    manifest, stream = _load(order.store, order.name, order.admin)
    directory = f"{order.store}-stick"
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory, mode=0o700)  # guard: a stick's file, which has its host key, is root's alone -> 0o755
    path, loader = os.path.join(directory, "stick.img"), os.path.join(directory, "loader")
    progress("making the boot loader")
    bootdisk.make_loader(loader, directory)
    with open(path, "wb") as file:
        file.truncate(bootdisk.needed(stream) + stream.bytes)

    def fill(places: Places, root: str) -> None:
        shutil.copytree(
            os.path.join(order.store, manifest.name), places.in_top("store", manifest.name),
            ignore=lambda _at, names: [name for name in names if name.startswith("from-")],
        )  # fmt: skip
        shutil.copyfile(loader, places.in_top("store/loader"))
        write_json(places.in_state("stick.json"), {"image": manifest.name, "arguments": order.arguments})
        for name, target in _LINKS.items():
            link = os.path.join(root, "etc/systemd/system", name)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            remove(link)
            os.symlink(target, link)

    arguments = f"{order.arguments} {_QUIET}"
    own = {**_describe_names(NAME), "etc/systemd/network/10-gpuadmin.network": _BY_DHCP.format(match="Type=ether")}
    wanted = Wanted(NAME, manifest, stream, order.store, loader, arguments, order.admin, own, RUN)
    key = bootdisk.lay_out(path, wanted, progress, fill)
    made = Made(key, path, os.path.getsize(path), digest(path))
    return {"operations": [f"made a stick of {manifest.name}"], "report": {"made": asdict(made)}}


def _load(store: str, name: str, admin: Admin) -> tuple[Manifest, Stream]:
    """An image that somebody has signed who may, and its full stream. Raises NodeError."""
    # guard: no stick and no disk is made of what is not signed -> load(os.path.join(store, check_name(name)), None)
    manifest = load(os.path.join(store, check_name(name)), admin.signers)
    return manifest, choose_stream(manifest, {}, full=True)


def _describe_names(host: str) -> dict[str, str]:
    return {"etc/hostname": f"{host}\n", "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {host}\n"}


def read_stick(places: Places) -> Mapping[str, Any]:
    """What the stick says of itself that this system runs from. Raises NodeError where it runs from none."""
    found = read_json(places.in_state("stick.json"))
    if found is None:  # guard: a system that does not run from a stick installs nothing
        raise NodeError("this host does not run from a stick: nothing is installed from here")
    return found


def find_cards(net: str = "/sys/class/net") -> dict[str, str]:
    """A machine's network cards: MAC address → name."""
    cards = [path for path in sorted(glob.glob(f"{net}/*")) if os.path.exists(f"{path}/device")]
    return {(read_bytes(f"{path}/address") or b"").decode().strip(): os.path.basename(path) for path in cards}


def look_at_machine() -> Machine:
    return Machine(str(read_stick(Places())["image"]), list(find_cards()), list(disks.look().values()))


def install(order: InstallOrder, places: Places | None = None) -> dict[str, Any]:
    """Install a node. All that can be refused is refused before the disk is touched."""
    places, progress = places or Places(top=f"{RUN}/stick"), progress_writer(UNIT)
    stick, cards = read_stick(places), find_cards()
    if order.mac not in cards:  # guard: another machine than the one that was meant is not installed
        raise NodeError(f"this is another machine: it has the MAC addresses {', '.join(cards)}, not {order.mac}")
    with mounted(places, ImageSettings(), store=None):
        store = places.in_top("store")
        manifest, stream = _load(store, str(stick["image"]), order.admin)
        device = disks.choose(order.disk, bootdisk.needed(stream))
        progress("checking the image")
        # guard: a disk is not touched for an image that is damaged
        if digest(os.path.join(store, manifest.name, stream.file)) != stream.sha256:
            raise NodeError("the image on this stick is damaged: write the stick again. The disk is as it was")
        own = {**_describe_names(order.host), **describe_network(order, cards[order.mac])}
        loader, arguments = places.in_top("store/loader"), str(stick["arguments"])
        wanted = Wanted("gpuadmin", manifest, stream, store, loader, arguments, order.admin, own, places.run)
        made = Made(bootdisk.lay_out(device, wanted, progress))
    done = [f"installed {order.host} on {order.disk}, from {manifest.name}"]
    return {"operations": done, "report": {"made": asdict(made)}}


def describe_network(order: InstallOrder, card: str, root: str = "/") -> dict[str, str]:
    """The files of a node's network: those that the admin gives; or DHCP by one card, for whichever program does it in
    this system, which is that of the node. The name servers are those that the stick was told.
    """

    def has(path: str) -> bool:
        return bool(glob.glob(os.path.join(root, path)))

    state = (read_bytes(os.path.join(root, "run/systemd/netif/state")) or b"").decode("utf-8", "replace")
    servers = [word for line in state.splitlines() if line.startswith("DNS=") for word in line[4:].split()]
    servers = ["127.0.0.53"] if has("etc/systemd/system/*/systemd-resolved.service") else servers
    found = {"etc/resolv.conf": "".join(f"nameserver {one}\n" for one in servers)}
    if order.network:
        return {**found, **{f"etc/systemd/network/{name}": text for name, text in order.network.items()}}
    if has("usr/sbin/netplan"):
        it = f"{{match: {{macaddress: '{order.mac}'}}, dhcp4: true, dhcp-identifier: mac}}"
        return {**found, "etc/netplan/10-gpuadmin.yaml": f"network: {{version: 2, ethernets: {{main: {it}}}}}\n"}
    if has("usr/sbin/ifup"):
        found["etc/network/interfaces"] = f"auto lo {card}\niface lo inet loopback\niface {card} inet dhcp\n"
    return {**found, "etc/systemd/network/10-gpuadmin.network": _BY_DHCP.format(match=f"MACAddress={order.mac}")}
