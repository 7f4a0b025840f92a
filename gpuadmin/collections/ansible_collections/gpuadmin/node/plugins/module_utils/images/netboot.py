"""Booting the site's stick from the network: what that needs beside a stick's file, and who serves it, for some hours.

GRUB comes by TFTP, all else by HTTP; dnsmasq answers beside the network's own DHCP server (proxy DHCP,
as PXE has it). All of it is below a name that nobody can guess, and only machines that were named are told that: the
stick's file holds its host key.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping

from gpuadmin.common.records.installs import NetbootOrder

from ..errors import NodeError
from ..files import write_atomic
from ..run import run
from ..unit import journal, start, stop, unit_name, working
from . import bootdisk, dhcp
from .places import read_json
from .root_facts import kernel_version

PORT = 4069  # of HTTP
SETTLE = 1.0  # seconds: what finds its port taken ends at once
UNITS = ("netboot", "netboot-files")
RECORD = "netboot.json"
_NEEDED = ("loop", "zram")
#: Sourced by initramfs-tools (boot=gpuadmin-net). What was written to zram takes memory for its contents alone. btrfs
#: and the image's own digest tell what came over the network damaged.
_SCRIPT = f"""\
mountroot()
{{
	for word in $(cat /proc/cmdline); do
		case $word in gpuadmin.stick=*) url=${{word#*=}} ;; gpuadmin.bytes=*) bytes=${{word#*=}} ;; esac
	done
	modprobe loop
	modprobe zram num_devices=1
	configure_networking
	echo "$bytes" >/sys/block/zram0/disksize || panic "no memory for the stick"
	for second in 1 5 20; do wget -q -O /dev/zram0 "$url" && url= && break; sleep $second; done
	[ -z "$url" ] || panic "the stick did not come from $url"
	losetup -o {bootdisk.TOP * bootdisk.MIB} /dev/loop0 /dev/zram0
	losetup -o {bootdisk.BOOT * bootdisk.MIB} /dev/loop1 /dev/zram0
	local_mount_root
}}
"""
_GRUB_CFG = """\
set root=http,{address}:{port}
linux /{token}/vmlinuz root=/dev/loop0 rootfstype=btrfs rootflags=subvol=/roots/{image} rw panic=5 {arguments} \
boot=gpuadmin-net ip=dhcp BOOTIF=01-$net_default_mac gpuadmin.stick=http://{address}:{port}/{token}/stick.img \
gpuadmin.bytes={bytes}
initrd /{token}/initrd.img /{token}/drivers.img
boot
"""
_DNSMASQ = """\
port=0
user=root
bind-interfaces
interface={interface}
dhcp-range={network},proxy,{mask}
dhcp-ignore=tag:!named
enable-tftp
tftp-root={root}
leasefile-ro
"""
#: `python3 -m http.server`, which by itself would wait for ever.
_FILES = "; ".join((
    "import runpy, socketserver",
    "socketserver.StreamRequestHandler.timeout = 60",  # guard: who connects and does no more holds no thread
    "runpy.run_module('http.server', run_name='__main__')",
))  # fmt: skip
#: systemd.exec(5). dnsmasq also sets its group, as root does without being asked.
_SANDBOX = (
    "TasksMax=200",  # guard: whoever connects takes few threads; each machine that may be named has two
    "ProtectSystem=strict", "ProtectHome=read-only", "PrivateTmp=yes", "NoNewPrivileges=yes",
    "CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_NET_BIND_SERVICE CAP_SETGID",
)  # fmt: skip


def prepare(root: str, directory: str) -> None:
    """Bring beside a stick's file what its root is booted with from the network: its kernel, its initramfs, and one
    more for that, with drivers of network cards, whatever the image's own has.
    """
    for name in ("vmlinuz", "initrd.img"):
        source = os.path.join(root, name)
        source = os.path.join(root, os.readlink(source).lstrip("/")) if os.path.islink(source) else source
        shutil.copyfile(source, os.path.join(directory, name))
    modules, tree = os.path.join("usr/lib/modules", kernel_version(root)), os.path.join(directory, "drivers")
    with open(os.path.join(root, modules, "modules.dep"), encoding="ascii") as stream:
        needs = {name: rest.split() for name, _, rest in (line.partition(":") for line in stream)}
    files = {one for name in needs if _is_needed(name) for one in (name, *needs[name])}
    files |= {name for name in os.listdir(os.path.join(root, modules)) if name.startswith("modules.")}
    for name in sorted(files):
        target = os.path.join(tree, modules, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(root, modules, name), target)
    os.makedirs(os.path.join(tree, "scripts"))
    write_atomic(os.path.join(tree, "scripts/gpuadmin-net"), _SCRIPT.encode(), mode=0o644)
    names = "\n".join(os.path.relpath(os.path.join(at, one), tree)
                      for at, below, there in os.walk(tree) for one in (*below, *there))  # fmt: skip
    file = os.path.join(directory, "drivers.img")
    pack = ("cpio", "--quiet", "--create", "--format=newc", "--owner=0:0", f"--directory={tree}", f"--file={file}")
    run(pack, stdin=names.encode(), what="the initramfs")
    shutil.rmtree(tree)


def _is_needed(module: str) -> bool:
    cards = module.startswith("kernel/drivers/net/") and "/wireless/" not in module
    return cards or os.path.basename(module).partition(".")[0] in _NEEDED


def serve(order: NetbootOrder, *, check: bool) -> list[str]:
    """Serve the stick to named machines until so many hours are over. Raises NodeError where nobody could boot it."""
    directory = f"{order.store}-stick"
    made = read_json(os.path.join(directory, RECORD))
    if made is None:  # guard: only a stick that is whole is served
        raise NodeError("this storage host has no stick that boots from the network: gpuadmin install --stick FILE")
    interface, network, mask = dhcp.find_interface(order.address)
    words = []
    for mac in order.macs:
        found = dhcp.ask(interface, mac)
        if not any(one.address for one in found):
            raise NodeError(
                f"no DHCP server on {interface} offers {mac} an address: this is for a network that has one"
            )
        words += [f"{mac} gets {one.address} from DHCP of {one.server}" for one in found if one.address]
        words += [f"beware: {one.server} also answers machines that boot from the network, and may be first"
                  for one in found if one.boots and one.server != order.address]  # fmt: skip
    words.append(
        f"serve the stick of {made['image']} to it from {order.address} for {order.hours} h: dnsmasq, HTTP {PORT}"
    )
    if not check:
        end()
        net = os.path.join(directory, "net")
        settings = _DNSMASQ.format(interface=interface, network=network, mask=mask, root=net)
        _start(order, made, directory, net, settings)
    return words


def end() -> None:
    """Have no stick served any more."""
    for name in UNITS:
        stop(unit_name(name))


def _start(order: NetbootOrder, made: Mapping[str, object], directory: str, net: str, settings: str) -> None:
    shutil.rmtree(net, ignore_errors=True)
    token = secrets.token_hex(16)
    place = os.path.join(net, token)
    os.makedirs(place)
    for name in ("vmlinuz", "initrd.img", "drivers.img", "stick.img"):
        os.symlink(f"../../{name}", os.path.join(place, name))
    # guard: nobody is shown the name that cannot be guessed
    write_atomic(os.path.join(net, "index.html"), b"", mode=0o600)
    text = _GRUB_CFG.format(**{**made, "token": token, "address": order.address, "port": PORT})
    # inside of GRUB: with a BIOS it would ask the DHCP server for it first, for minutes, whatever its prefix is
    cfg = os.path.join(directory, "grub.cfg")
    write_atomic(cfg, text.encode(), mode=0o600)
    for kind, name, own in bootdisk.NETWORK_LOADERS:
        bootdisk.make_core(kind, os.path.join(place, name), ("-p", "/", "-c", cfg), own)
        os.chmod(os.path.join(place, name), 0o644)  # dnsmasq as root gives away what everybody may read
    lines = [settings]
    lines += [f"dhcp-host={mac},set:named\n" for mac in order.macs]  # guard: only machines that were named are answered
    lines += [f"pxe-service=tag:named,{csa},gpuadmin,{token}/{name}\n"
              for csa, name in (("x86PC", "bios.0"), ("X86-64_EFI", "uefi.efi"), ("BC_EFI", "uefi.efi"))]  # fmt: skip
    conf = os.path.join(directory, "dnsmasq.conf")
    write_atomic(conf, "".join(lines).encode(), mode=0o600)
    files = ("/usr/bin/python3", "-I", "-c", _FILES, str(PORT), "--bind", order.address, "--directory", net)
    commands = (("/usr/sbin/dnsmasq", "--keep-in-foreground", f"--conf-file={conf}", "--pid-file="), files)
    for name, command in zip(UNITS, commands):
        # guard: what serves the stick ends by itself -> _SANDBOX
        limits = (f"RuntimeMaxSec={order.hours * 3600}", *_SANDBOX)
        start(unit_name(name), command, "gpuadmin: boots named machines from the network", limits)
    time.sleep(SETTLE)  # until what finds its port taken has ended
    for name in UNITS:
        if not working(unit_name(name)):
            end()  # guard: no machine is told to boot what nobody serves -> None
            raise NodeError(f"{unit_name(name)} does not stay: {journal(unit_name(name), 3)}")
