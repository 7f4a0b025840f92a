"""A node's disk layout: what it is, what would have to change, and what is made where it is fit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace

from gpuadmin.common.records.images import ImageSettings
from gpuadmin.common.text import the_page

from ..errors import NodeError
from ..files import read_bytes
from ..mounts import parse_mountinfo, read_mountinfo
from . import grubenv, identity, subvolumes
from .places import Places
from .records import find_image, records

DIRECTORIES = ("images", "roots", "incoming")
#: Where a boot loader tells the system who it is (systemd's Boot Loader Interface).
LOADER = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


@dataclass
class Layout:
    """What was found. ``problems``: what makes this node unfit, each with what would have to change."""

    problems: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)


def boot_problems(config: str, store_type: str, place: str = "/boot/grub") -> list[str]:
    """Given grub.cfg and the type of the file system mounted on its place, say what the switch needs differently.

    ``store_type`` is empty if nothing is mounted there.
    """
    problems = []
    if not store_type:
        problems.append(
            f"nothing is mounted on {place}; it would have to be the small partition (ext4, or the ESP) with grub.cfg "
            f"and grubenv: {the_page('your-cluster')}"
        )
    elif store_type not in ("ext2", "ext3", "ext4", "vfat"):
        problems.append(
            f"grubenv is on {store_type}, where GRUB cannot write: it needs a small "
            "ext4 or FAT boot partition of its own"
        )
    wanted = {
        "load_env": "it never reads grubenv (load_env)",
        "save_env trial": "it does not clear `trial` before the kernel is loaded (save_env trial)",
        "rootflags=subvol=/roots/": "its kernel line takes no root from /roots (rootflags=subvol=/roots/$name)",
        "gpuadmin.trial=": "its kernel line does not tell the initramfs of a trial (gpuadmin.trial=$deadline)",
        "panic=": "its kernel line has no panic=SECONDS, so a broken root would stay down",
    }
    problems += [f"grub.cfg: {problem}" for text, problem in wanted.items() if text not in config]
    return problems


def boot_loader() -> str:
    """What started this boot, in its own words; empty if it does not say (most do not, and none on a BIOS)."""
    data = read_bytes(LOADER)
    return data[4:].decode("utf-16-le", "replace").rstrip("\0") if data else ""  # the first four are its attributes


def examine(places: Places) -> Layout:
    """Look at a node whose top level is mounted. Nothing is changed."""
    layout = Layout()
    mounts = {mount.point: mount for mount in parse_mountinfo(read_mountinfo())}
    try:
        running = subvolumes.running_root(places)
    except NodeError as error:
        layout.problems.append(f"{error}: it would have to be installed again, on btrfs")
        return layout
    layout.facts["root"] = running.path
    if not running.name:
        layout.problems.append(
            f"the root is the subvolume {running.path}, booted by its name; it would have to become /roots/NAME, "
            f"and the boot loader's entry to follow it; {the_page('your-cluster')} has this worked out"
        )
    if boot_loader().startswith("systemd-boot"):
        layout.problems.append("systemd-boot starts this node; it would need GRUB with the static entry")
    for point, volume in (("/var", "/state"), ("/local", "/local")):
        mount = mounts.get(point)
        if mount is None or mount.fstype != "btrfs" or mount.root != volume:
            what = "nothing is mounted" if mount is None else f"{mount.source}{mount.root} is mounted"
            layout.problems.append(f"{what} on {point}; it would have to be the subvolume {volume[1:]}")
    boot = mounts.get(places.boot)
    layout.problems += _boot(places, boot.fstype if boot is not None else "")
    return layout


def _boot(places: Places, store_type: str) -> list[str]:
    config = os.path.join(places.boot, "grub.cfg")
    if not os.path.exists(config):
        return [f"there is no {config}: this node does not boot by GRUB with a static entry"]
    with open(config, encoding="utf-8") as stream:
        found = boot_problems(stream.read(), store_type, places.boot)
    try:
        current = grubenv.read(places.boot).get("current", "")
        # guard: a node whose grubenv names no root is unfit
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", current):
            found.append("grubenv has no word `current`")
    except NodeError as error:
        found.append(str(error))
    return found


def prepare(places: Places, settings: ImageSettings, *, check: bool) -> Layout:
    """Bring a fit node to the layout; one that is unfit is only reported. The top level is mounted."""
    layout = examine(places)
    if layout.problems:  # guard: a node that is unfit is not prepared
        return layout
    for name in DIRECTORIES:
        path = places.in_top(name)
        if not os.path.isdir(path):
            layout.operations.append(f"make {name}/ in the top level")
            if not check:
                os.mkdir(
                    path,
                    0o700,  # guard: images and roots are for root's eyes -> 0o755
                )
    running = subvolumes.running_root(places).name
    if identity.differences(places.root, places.state, settings.identity):
        layout.operations.append("note this node's identity in its state")
        if not check:
            identity.capture(places.root, places.state, settings.identity)
    known = records(places)
    if (
        running not in known.confirmed
        # guard: a root that does not boot by itself is not noted as confirmed
        and grubenv.read(places.boot).get("current") == running
    ):
        layout.operations.append(f"note {running} as a confirmed root")
        if not check:
            replace(known, confirmed=(running, *known.confirmed)).write(places)
    layout.facts["image"] = find_image(places, running)
    return layout
