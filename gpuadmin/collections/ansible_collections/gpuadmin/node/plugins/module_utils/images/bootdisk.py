"""A disk that boots an image: divided, filled and made bootable. Sticks and nodes' disks are both made here.

Its parts are reached through loop devices with an offset: a file and a disk are the same then. The boot loader comes
last: a disk whose making was cut off does not boot.
"""

from __future__ import annotations

import os
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gpuadmin.common import ssh_key
from gpuadmin.common.records.images import ImageSettings
from gpuadmin.common.records.installs import Admin

from .. import btrfs
from ..accounts.admin import add_key
from ..errors import NodeError
from ..files import sync_filesystem, write_atomic
from ..root import guard
from ..run import run
from . import grubenv, identity
from .layout import DIRECTORIES
from .manifest import Manifest, Stream
from .places import Places, Running
from .records import RootRecords, load_manifest
from .root_facts import check_boots
from .stream import Progress, fetch, receive
from .trial import FACTORY, fill_var

MIB = 1 << 20
#: Where the parts begin, in MiB: GRUB for a BIOS, the ESP, /boot/grub, and btrfs in what is left.
CORE, ESP, BOOT, TOP = 1, 2, 66, 322
_PARTITIONS = f"""\
label: gpt
start={CORE}MiB, size=1MiB, type=21686148-6449-6E6F-744E-656564454649, name=gpuadmin-bios
start={ESP}MiB, size={BOOT - ESP}MiB, type=uefi, name=gpuadmin-esp
start={BOOT}MiB, size={TOP - BOOT}MiB, type=linux, name=gpuadmin-boot
start={TOP}MiB, type=linux, name=gpuadmin
"""
_KERNEL = "root=UUID={top} rootfstype=btrfs rootflags=subvol=/roots/$ROOT rw panic=5 {arguments}"
_GRUB_CFG = f"""\
# Written once. Which root boots is decided by two words in grubenv: `trial`, for the next boot only, else `current`.
load_env
search --no-floppy --fs-uuid {{top}} --set=store
set name="$current"
set word=
if [ -n "$trial" ]; then
  set name="$trial"
  set word="gpuadmin.trial=$deadline"
  set trial=
  save_env trial
fi
# Esc leads to the menu
set timeout_style=hidden
set timeout=3
set default=0
set fallback=1
menuentry "root $name" {{{{
  linux ($store)/roots/$name/vmlinuz {_KERNEL.replace("$ROOT", "$name")} $word
  initrd ($store)/roots/$name/initrd.img
}}}}
menuentry "confirmed root $current" {{{{
  linux ($store)/roots/$current/vmlinuz {_KERNEL.replace("$ROOT", "$current")}
  initrd ($store)/roots/$current/initrd.img
}}}}
"""
_FSTAB = """\
UUID={top} / btrfs noatime 0 0
UUID={top} /var btrfs noatime,subvol=/state 0 0
UUID={top} /local btrfs noatime,subvol=/local 0 0
UUID={boot} /boot/grub ext4 ro,noatime 0 0
/usr/lib/sysimage/dpkg /var/lib/dpkg none bind 0 0
"""
_MODULES = (
    "part_gpt", "ext2", "btrfs", "normal", "configfile", "linux", "loadenv", "search", "search_fs_uuid", "test", "echo",
    "ls", "cat", "serial", "terminal", "boot", "reboot", "halt", "sleep",
)  # fmt: skip
#: What boots from the network: `-O` of grub-mkimage(1), the file's name, and the modules that it alone has.
NETWORK_LOADERS = (
    ("i386-pc-pxe", "bios.0", ("pxe", "tftp", "http")),
    ("x86_64-efi", "uefi.efi", ("efinet", "tftp", "http", "efi_gop", "efi_uga")),
)
#: What the packages shim-signed and grub-efi-amd64-signed bring, and what that GRUB is told: where grub.cfg is.
SIGNED = ("/usr/lib/shim/shimx64.efi.signed", "/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed")
_FIND_CFG = """\
regexp --set=1:disk '^([^,]+),' "$root"
set root="$disk,gpt3"
set prefix="($root)"
configfile "$prefix/grub.cfg"
"""


@dataclass(frozen=True)
class Wanted:
    """What a disk is to be. ``store``: the directory that has the image. ``loader``: a file with its first MiB."""

    label: str
    host: str
    manifest: Manifest
    stream: Stream
    store: str
    loader: str
    arguments: str
    admin: Admin
    network: Mapping[str, str]
    run: str


def needed(stream: Stream) -> int:
    """Bytes of a disk that an image needs."""
    return TOP * MIB + stream.bytes + stream.stream_bytes + (1 << 30)


def lay_out(device: str, wanted: Wanted, progress: Progress, more: Callable[[Places], None] = lambda _: None) -> str:
    """Make a disk, or a file, what is wanted; whatever was on it is gone. Returns its system's public host key.

    ``more``: puts more into it. Whoever calls this has refused what must not be written.
    """
    progress("dividing the disk")
    run(("wipefs", "--all", "--quiet", device), what="the disk cannot be cleared")
    with open(device, "rb") as disk:
        size = disk.seek(0, os.SEEK_END)
    _write(device, (0, bytes(440)), (CORE * MIB, bytes((BOOT - CORE) * MIB)))  # what booted before boots no more
    # guard: no RAID or pool that was there before is found at the end of a partition
    _write(device, (size - 2 * MIB, bytes(2 * MIB)))
    run(("sfdisk", "--quiet", device), stdin=_PARTITIONS.encode(), what="the disk cannot be divided")
    _write(device, (510, bytes(2)))  # guard: a disk that is not whole is none that a BIOS would begin with
    ids = {"top": str(uuid.uuid4()), "boot": str(uuid.uuid4())}
    with ExitStack() as stack:
        # what is left is for the copy of the table
        boot, top = _attach(stack, device, BOOT, TOP), _attach(stack, device, TOP, size // MIB - 1)
        run(("mke2fs", "-q", "-F", "-t", "ext3", "-L", "gpuadmin-boot", "-U", ids["boot"], boot))
        run(("mkfs.btrfs", "-q", "-f", "-L", wanted.label, "-U", ids["top"], top))
        top = _mount(stack, top, f"{wanted.run}/install-top")
        boot = _mount(stack, boot, f"{wanted.run}/install-boot")
        state, none = f"{top}/state/lib/gpuadmin", Running(0, "")
        places = Places(top=top, boot=boot, state=state, store=wanted.store, run=wanted.run, running=none)
        for name in DIRECTORIES:
            os.mkdir(places.in_top(name), 0o700)
        for name in ("state", "local"):
            btrfs.create(places.in_top(name))
        fetch(places, wanted.manifest, wanted.stream, progress)
        progress(f"receiving {wanted.manifest.name}")
        receive(places, wanted.manifest, wanted.stream)
        key = _make_root(places, wanted, ids)
        more(places)
        config = _GRUB_CFG.format(**ids, arguments=wanted.arguments)
        write_atomic(f"{boot}/grub.cfg", config.encode(), mode=0o644)
        write_atomic(f"{boot}/grubenv", grubenv.render({"current": wanted.manifest.name}), mode=0o644)
        guard.sync(top)
        sync_filesystem(boot)
    progress("writing the boot loader")
    with open(wanted.loader, "rb") as stream:
        data = stream.read(BOOT * MIB)
    # the words by which firmware knows a disk that boots come last
    parts = ((ESP * MIB, data[ESP * MIB :]), (CORE * MIB, data[CORE * MIB : ESP * MIB]), (0, data[:440]))
    _write(device, *parts, (510, b"\x55\xaa"))
    return key


def _make_root(places: Places, wanted: Wanted, ids: Mapping[str, str]) -> str:
    """The first root of a disk, of its image and with the identity that is wanted; and the state that it boots with."""
    name, state = wanted.manifest.name, places.in_top("state")
    image, new = places.in_top("images", name), places.in_top("roots", f"{name}.new")
    check_boots(image, name)
    btrfs.snapshot(image, new, read_only=False)
    # guard: an image that has nothing for a new /var makes no disk
    if not os.path.isdir(os.path.join(new, FACTORY, "lib/dpkg")):
        raise NodeError(f"{name} lacks what a new disk needs in /var: build an image, and a stick of it, once more")
    fill_var(os.path.join(new, FACTORY), state)
    os.makedirs(places.state, mode=0o755)
    stored = os.path.join(places.state, "identity")
    os.makedirs(os.path.join(stored, "etc/ssh"), mode=0o755)
    os.chmod(stored, 0o700)
    own = {"hostname": f"{wanted.host}\n", "hosts": f"127.0.0.1 localhost\n127.0.1.1 {wanted.host}\n",
           "machine-id": f"{uuid.uuid4().hex}\n", "fstab": _FSTAB.format(**ids)}  # fmt: skip
    files = {**wanted.network, **{f"etc/{path}": text for path, text in own.items()}}
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(stored, path)), mode=0o755, exist_ok=True)
        write_atomic(os.path.join(stored, path), text.encode(), mode=0o644)
    key = Path(stored, "etc/ssh/ssh_host_ed25519_key")
    ssh_key.make(key, wanted.label, lambda command: run(command, what="a host key"))
    identity.apply(new, places.state)
    _let_admin_in(new, state, wanted.admin)
    guard.sync(places.top)
    guard.set_read_only(new, True)
    os.rename(new, places.in_top("roots", name))
    RootRecords((name,), {name: name}, {}).write(places)
    load_manifest(places, name, ImageSettings(signers=wanted.admin.signers))  # which keeps it, for drift
    return " ".join(key.with_suffix(".pub").read_text(encoding="ascii").split()[:2])


def _let_admin_in(root: str, state: str, admin: Admin) -> None:
    """The home of the admin account, which the image has, with its key."""
    with open(os.path.join(root, "etc/passwd"), encoding="utf-8", errors="surrogateescape") as stream:
        account = next((line.split(":") for line in stream if line.startswith(f"{admin.user}:")), None)
    if account is None:  # guard: no disk is made that nobody could log in to
        raise NodeError(f"the image has no account {admin.user}: gpuadmin could not log in")
    uid, gid, home = int(account[2]), int(account[3]), account[5].strip("/")
    place = os.path.join(state, home[len("var/") :]) if home.startswith("var/") else os.path.join(root, home)
    if not os.path.isdir(place):
        os.makedirs(place, mode=0o755)
        os.chmod(place, 0o700)
        os.chown(place, uid, gid)
    add_key(place, admin.key, uid, gid)


def make_core(kind: str, target: str, find: Sequence[str], own: Sequence[str], modules: str = "/usr/lib/grub") -> None:
    """Make a GRUB that is one file. `kind`: `-O` of grub-mkimage(1). `find`: its `-p`, a prefix below which grub.cfg
    is, or its `-c`, a file with the settings themselves."""
    where = f"{modules}/{kind.replace('i386-pc-pxe', 'i386-pc')}"
    run(("grub-mkimage", "-d", where, "-O", kind, *find, "-o", target, *own, *_MODULES))


def has_signed(signed: Sequence[str] = SIGNED) -> bool:
    """Whether this host has a boot loader that machines with Secure Boot take."""
    return all(os.path.exists(one) for one in signed)


def make_loader(path: str, directory: str, modules: str = "/usr/lib/grub", signed: Sequence[str] = SIGNED) -> None:
    """Make the boot loader of a stick, and of all disks that are made from it: the first MiB of a disk.

    With UEFI it is the one that the distribution has signed, where this host has that. GRUB looks for grub.cfg on the
    third part of the disk that it was loaded from. ``directory``: for what is between.
    """
    core, efi, esp = (os.path.join(directory, name) for name in ("core.img", "bootx64.efi", "esp"))
    for kind, target, own in (("i386-pc", core, ("biosdisk",)), ("x86_64-efi", efi, ("fat", "efi_gop", "efi_uga"))):
        make_core(kind, target, ("-p", "(,gpt3)/"), own, modules)
    with open(esp, "wb") as stream:
        stream.truncate((BOOT - ESP) * MIB)
    run(("mformat", "-i", esp, "-F", "-v", "GPUADMIN", "::"), what="the ESP")
    run(("mmd", "-i", esp, "::/EFI", "::/EFI/BOOT", "::/EFI/debian", "::/EFI/ubuntu"), what="the ESP")
    files = [(efi, "BOOT/BOOTX64.EFI")]
    if has_signed(signed):
        find = os.path.join(directory, "find.cfg")
        write_atomic(find, _FIND_CFG.encode(), mode=0o644)
        files = [(signed[0], "BOOT/BOOTX64.EFI"), (signed[1], "BOOT/grubx64.efi"),
                 (find, "debian/grub.cfg"), (find, "ubuntu/grub.cfg")]  # fmt: skip
    for source, target in files:
        run(("mcopy", "-i", esp, source, f"::/EFI/{target}"), what="the ESP")
    sector, code = bytearray(Path(modules, "i386-pc/boot.img").read_bytes()[:440]), bytearray(Path(core).read_bytes())
    if len(code) > MIB:
        raise NodeError("GRUB's core image is larger than its part of a disk")
    # as grub-bios-setup does it (include/grub/i386/pc/boot.h): the sector where core.img is, the one where the rest of
    # it is; and the drive that a BIOS names is taken as it is
    first = CORE * MIB // 512
    struct.pack_into("<Q", sector, 0x5C, first)
    struct.pack_into("<H", sector, 0x66, 0x9090)
    struct.pack_into("<Q", code, 0x1F4, first + 1)
    with open(path, "wb") as stream:
        stream.truncate(BOOT * MIB)
    _write(path, (0, bytes(sector)), (CORE * MIB, bytes(code)), (ESP * MIB, Path(esp).read_bytes()))


def _write(device: str, *pieces: tuple[int, bytes]) -> None:
    """Write bytes at their places, each on the disk before the next."""
    with open(device, "r+b") as stream:
        for start, data in pieces:
            stream.seek(start)
            stream.write(data)
            stream.flush()
            os.fsync(stream)


def _attach(stack: ExitStack, device: str, start: int, end: int) -> str:
    """A loop device for a part of a disk, from and to so many MiB."""
    places = ("--offset", str(start * MIB), "--sizelimit", str((end - start) * MIB))
    loop = run(("losetup", "--find", "--show", *places, device), what="a part of the disk").strip()
    stack.callback(run, ("losetup", "--detach", loop))
    return loop


def _mount(stack: ExitStack, loop: str, at: str) -> str:
    os.makedirs(at, mode=0o700, exist_ok=True)
    run(("mount", "-o", "noatime", loop, at), what="a part of the disk")
    stack.callback(run, ("umount", at))
    return at
