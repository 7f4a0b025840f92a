"""Sticks, on the storage host; and on a machine that runs from one: a node is installed on a disk that was named."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpuadmin.common.records.images import ImageSettings
from gpuadmin.common.records.installs import Admin, InstallOrder, Machine, Made, StickOrder
from gpuadmin.common.text import size_words

from ..background import Job, progress_writer
from ..errors import NodeError
from ..files import read_bytes
from ..paths import RUN
from . import bootdisk, disks, netboot
from .bootdisk import Wanted
from .manifest import Manifest, Stream, choose_stream, digest, load
from .mounting import mounted
from .places import Places, check_name, read_json, write_json

UNIT = "install"
NAME = "gpuadmin-stick"
#: What a stick's kernel is told beside: it resumes from no disk, no RAID writes before something is written to it; and
#: systemd's own program asks DHCP, whatever else the image has for that (kernel-command-line(7)).
_QUIET = (
    "noresume md_mod.start_ro=1 systemd.wants=systemd-networkd.service systemd.mask=NetworkManager.service "
    "systemd.mask=systemd-networkd-wait-online.service"
)
_BY_DHCP = "[Match]\n{match}\n\n[Network]\nDHCP=yes\n\n[DHCPv4]\nClientIdentifier=mac\n"


def job(order: StickOrder | InstallOrder) -> Job:
    """The job that is ordered. What is the same but for the run that asks is the same job."""
    function = make_stick if isinstance(order, StickOrder) else install
    same = {name: value for name, value in vars(order).items() if name not in ("run_id", "shown")}
    return Job(UNIT, function, order, function.__name__, same, ("PrivateMounts=yes",))


def make_stick(order: StickOrder) -> dict[str, Any]:
    """Make a stick's file in a directory beside the store; that of an earlier stick goes."""
    progress = progress_writer(UNIT)
    manifest, stream = _load(order.store, order.name, order.admin)
    directory = f"{order.store}-stick"
    netboot.end()  # guard: no machine is told to boot a stick that goes -> None
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory, mode=0o700)  # guard: a stick's file, which has its host key, is root's alone -> 0o755
    path, loader = os.path.join(directory, "stick.img"), os.path.join(directory, "loader")
    size = (bootdisk.needed(stream) + stream.bytes) // bootdisk.MIB * bootdisk.MIB
    if shutil.disk_usage(directory).free < size:  # guard: a stick does not fill the disk that homes are on
        raise NodeError(f"no room for a stick beside {order.store}: {size_words(size)} are needed")
    bootdisk.make_loader(loader, directory)
    with open(path, "wb") as file:
        file.truncate(size)

    def fill(places: Places) -> None:
        shutil.copytree(
            os.path.join(order.store, manifest.name), places.in_top("store", manifest.name),
            ignore=lambda _at, names: [name for name in names if name.startswith("from-")],
        )  # fmt: skip
        shutil.copyfile(loader, places.in_top("store/loader"))
        netboot.prepare(places.in_top("roots", manifest.name), directory)
        write_json(places.in_state("stick.json"), {"image": manifest.name, "arguments": order.arguments})

    arguments = f"{order.arguments} {_QUIET}"
    network = {"etc/systemd/network/10-gpuadmin.network": _BY_DHCP.format(match="Type=ether")}
    wanted = Wanted(NAME, NAME, manifest, stream, order.store, loader, arguments, order.admin, network, RUN)
    key = bootdisk.lay_out(path, wanted, progress, fill)
    made = Made(key, path, os.path.getsize(path), digest(path))
    about = {"image": manifest.name, "arguments": arguments, "bytes": made.bytes}
    write_json(os.path.join(directory, netboot.RECORD), about)
    signed = "signed for Secure Boot" if bootdisk.has_signed() else "for machines without Secure Boot"
    return {"operations": [f"made a stick of {manifest.name}, {signed}"], "report": {"made": asdict(made)}}


def _load(store: str, name: str, admin: Admin) -> tuple[Manifest, Stream]:
    """An image that somebody has signed who may, and its full stream. Raises NodeError."""
    # guard: no stick and no disk is made of what is not signed -> load(os.path.join(store, check_name(name)), None)
    found = load(os.path.join(store, check_name(name)), admin.signers)
    return found, choose_stream(found, {}, full=True)


def read_stick(places: Places) -> Mapping[str, Any]:
    """What the stick says of itself that this system runs from. Raises NodeError where it runs from none."""
    found = read_json(places.in_state("stick.json"))
    if found is None:  # guard: a system that does not run from a stick installs nothing
        raise NodeError("this host does not run from a stick: nothing is installed from here")
    return found


def find_macs(net: str = "/sys/class/net") -> list[str]:
    """The MAC addresses of a machine's network cards."""
    found = [read_bytes(f"{card}/address") for card in glob.glob(f"{net}/*") if os.path.exists(f"{card}/device")]
    return sorted((address or b"").decode().strip() for address in found)


def look_at_machine() -> Machine:
    return Machine(str(read_stick(Places())["image"]), list(disks.look().values()))


def install(order: InstallOrder, places: Places | None = None, *, check: bool = False) -> dict[str, Any]:
    """Install a node. All that can be refused is refused before the disk is touched, and in a check, which reads the
    image's manifest alone.
    """
    places, progress = places or Places(top=f"{RUN}/stick"), progress_writer(UNIT)
    stick, macs = read_stick(places), find_macs()
    if order.mac not in macs:  # guard: another machine than the one that was meant is not installed
        raise NodeError(f"this is another machine: it has the MAC addresses {', '.join(macs)}, not {order.mac}")
    with mounted(places, ImageSettings(), store=None):
        store, loader = places.in_top("store"), places.in_top("store/loader")
        manifest, stream = _load(store, str(stick["image"]), order.admin)
        device = disks.choose(order.disk, bootdisk.needed(stream), shown=order.shown)
        network = describe_network(order)
        if check:  # guard: a check writes no disk
            return {"operations": [f"write {manifest.name} to it, as {order.host}"]}
        progress("checking the image")
        # guard: a disk is not touched for an image that is damaged
        if digest(os.path.join(store, manifest.name, stream.file)) != stream.sha256:
            raise NodeError("the image on this stick is damaged: write the stick again. The disk is as it was")
        wanted = Wanted("gpuadmin", order.host, manifest, stream, store, loader, str(stick["arguments"]), order.admin,
                        network, places.run)  # fmt: skip
        made = Made(bootdisk.lay_out(device, wanted, progress))
    return {"operations": [f"wrote {manifest.name}, as {order.host}"], "report": {"made": asdict(made)}}


def describe_network(order: InstallOrder, root: str = "") -> dict[str, str]:
    """The files of a node's network, for systemd's own program: those that the admin gives, or DHCP by one card. Name
    servers are those that the stick was told. Raises NodeError where the image, which runs, has another program.
    """
    units = f"{root}/etc/systemd/system/*/systemd-"
    if not glob.glob(f"{units}networkd.service"):  # guard: no node is made that would have no network
        raise NodeError("the image's network is not systemd-networkd's: enable that in an image; the disk is as it was")
    text = (read_bytes(f"{root}/run/systemd/netif/state") or b"").decode("utf-8", "replace")
    servers = [word for line in text.splitlines() if line.startswith("DNS=") for word in line[4:].split()]
    servers = ["127.0.0.53"] if glob.glob(f"{units}resolved.service") else servers
    files = order.network or {"10-gpuadmin.network": _BY_DHCP.format(match=f"MACAddress={order.mac}")}
    found = {f"etc/systemd/network/{name}": text for name, text in files.items()}
    return {**found, "etc/resolv.conf": "".join(f"nameserver {one}\n" for one in servers)}
