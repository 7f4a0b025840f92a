"""Building an image on the golden node: a root beside the running one, and what is changed in it."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import replace

from gpuadmin.common.records.images import ImageSettings

from .. import btrfs
from ..errors import NodeError
from ..root import guard
from ..run import run
from . import identity, subvolumes
from .places import Places, check_name
from .preflight import preflight
from .records import records
from .root_facts import check_boots, check_driver
from .stream import Progress, clean
from .trial import FACTORY

#: Where package managers look for their database → where it is in the root, which it describes.
DATABASES = (("var/lib/dpkg", "usr/lib/sysimage/dpkg"),)
#: What packages put into /var that is not part of an image.
NOT_FROM_VAR = (
    "cache",
    "log",
    "tmp",
    "lib/dpkg",
    "lib/apt/lists",
    "lib/gpuadmin",
    # guard: the key that signs a node's modules is in no image
    "lib/dkms/mok.key",  # signs modules for this node's firmware: nobody else's
    "lib/shim-signed/mok",  # the same on Ubuntu
    "home",
    "roothome",
)


def point(places: Places) -> str:
    """Where the root that is being built is mounted."""
    return os.path.join(places.run, "build")


def prepare(places: Places, settings: ImageSettings, name: str) -> list[str]:
    """Make the root that will be changed, and mount what a package manager needs in it."""
    check_name(name)
    preflight(places, settings)
    for kind in ("images", "roots"):
        if os.path.lexists(places.in_top(kind, name)):  # guard: a build takes no name that is taken
            raise NodeError(f"there is an image or a root {name} on this node already; choose another name")
    leave(places)
    clean(places)
    identity.capture(places.root, places.state, settings.identity)
    running = subvolumes.running_root(places)
    btrfs.snapshot(places.in_top(running.path.lstrip("/")), places.in_top("roots", f"{name}.new"), read_only=False)
    _mount(places, name)
    return [f"made a writable root {name} from {running.name}"]


def _mount(places: Places, name: str) -> None:
    """The root with /proc, /sys and /dev; and /var as an overlay, so that this node's own is not touched."""
    target, over = point(places), places.in_top("incoming", f"{name}.var")
    for directory in (target, over, os.path.join(over, "upper"), os.path.join(over, "work")):
        os.makedirs(directory, mode=0o755, exist_ok=True)
    run(("mount", "--bind", places.in_top("roots", f"{name}.new"), target))
    # Before anything is mounted in it: as a peer of the top level it would give that copies of /dev and /sys, and to
    # unmount the top level would then unmount what is mounted below the node's own.
    run(("mount", "--make-private", target))
    for one in ("proc", "sys", "dev"):
        run(("mount", "--rbind", f"/{one}", os.path.join(target, one)))
        run(("mount", "--make-rslave", os.path.join(target, one)))
    # an empty /run: packages then know that no system runs here, and start nothing
    for one in ("tmp", "run"):
        run(("mount", "-t", "tmpfs", "tmpfs", os.path.join(target, one)))
    if os.path.isdir("/run/systemd/resolve"):  # where /etc/resolv.conf may point
        os.makedirs(os.path.join(target, "run/systemd/resolve"))
        run(("mount", "--bind", "/run/systemd/resolve", os.path.join(target, "run/systemd/resolve")))
    options = f"lowerdir={places.var},upperdir={over}/upper,workdir={over}/work"
    run(("mount", "-t", "overlay", "-o", options, "overlay", os.path.join(target, "var")))
    for there, here in DATABASES:
        if os.path.isdir(os.path.join(target, here)):
            run(("mount", "--bind", os.path.join(target, here), os.path.join(target, there)))
    if os.path.isdir(os.path.join(places.var, "home")):  # where the admin's Ansible puts its files
        run(("mount", "--bind", os.path.join(places.var, "home"), os.path.join(target, "var/home")))


def leave(places: Places) -> None:
    """Unmount what `prepare` mounted, also after a cut."""
    while os.path.ismount(point(places)):
        # lazily: what is mounted below goes with it
        run(("umount", "-l", point(places)), what="the root that was built stays mounted")


def enter(places: Places, command: Sequence[str]) -> tuple[str, ...]:
    """The command that runs a command in the root that is being built."""
    return (
        "chroot", point(places), "/usr/bin/env", "-u", "NOTIFY_SOCKET", "DEBIAN_FRONTEND=noninteractive",
        "SYSTEMD_OFFLINE=1", "GPUADMIN_BUILD=1", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        *command,
    )  # fmt: skip


def package_commands(root: str, packages: Sequence[str], upgrade: bool) -> list[tuple[str, ...]]:
    """The commands that upgrade and install in a root. Raises NodeError."""
    if not os.path.exists(os.path.join(root, "usr/bin/apt-get")):
        raise NodeError("this root has no apt-get: use --run or --shell")
    commands: list[tuple[str, ...]] = []
    keep = ("apt-get", "-y", "-o", "Dpkg::Options::=--force-confold")
    # otherwise apt-get takes a mirror that does not answer for one that has nothing new, and ends with 0
    commands += [("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update")] if upgrade else []
    commands += [(*keep, "-o", "APT::Get::Always-Include-Phased-Updates=true", "dist-upgrade")] if upgrade else []
    commands += [(*keep, "install", *packages)] if packages else []
    return commands


def change(places: Places, packages: Sequence[str], upgrade: bool, progress: Progress) -> list[str]:
    """Upgrade and install in the root that is being built."""
    if not packages and not upgrade:
        return []
    for command in package_commands(point(places), packages, upgrade):
        progress(" ".join(command))
        run(enter(places, command), what=f"{command[0]} failed in the new root", complaints="E: ")
    done = ["upgraded packages"] if upgrade else []
    return [*done, f"installed {', '.join(packages)}"] if packages else done


def finish(places: Places, settings: ImageSettings, name: str) -> list[str]:
    """Close the changed root: out of the mounts, what was put into /var noted, read-only, and named."""
    leave(places)
    new = places.in_top("roots", f"{name}.new")
    if btrfs.inspect(new) is None:
        raise NodeError(f"there is no root {name} being built on this node")
    kept = collect_var(places.in_top("incoming", f"{name}.var", "upper"), os.path.join(new, FACTORY))
    kept += collect_directories(new, places.var)
    check_boots(new, name)
    check_driver(new, name, settings.gpus)  # guard: an image on which GPUs would not work is not tried
    guard.sync(places.top)
    guard.set_read_only(new, True)
    guard.sync(places.top)
    os.rename(new, places.in_top("roots", name))
    guard.sync(places.top)
    known = records(places)
    replace(known, images={**known.images, name: name}).write(places)
    return [f"kept {kept} paths that packages put into /var for every node"] if kept else []


def collect_var(upper: str, factory: str) -> int:
    """Copy what was added to /var into the image; return how many paths.

    Deletions and caches are left out, as are sockets, pipes and devices, which services make.
    """
    count = 0
    if not os.path.isdir(upper):
        return 0
    for directory, names, files in os.walk(upper):
        relative = os.path.relpath(directory, upper)
        names[:] = [name for name in names if os.path.normpath(os.path.join(relative, name)) not in NOT_FROM_VAR]
        for name in sorted([*names, *files]):
            if os.path.normpath(os.path.join(relative, name)) in NOT_FROM_VAR:
                continue
            source, target = os.path.join(directory, name), os.path.join(factory, relative, name)
            facts = os.lstat(source)
            kind = stat.S_IFMT(facts.st_mode)
            # guard: what blocks whoever reads it is in no image
            if kind not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK) or os.path.lexists(target):
                continue
            os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
            if kind == stat.S_IFDIR:
                os.mkdir(target)
            else:
                run(("cp", "-dp", "--no-target-directory", source, target))
            os.chown(target, facts.st_uid, facts.st_gid, follow_symlinks=False)
            if kind != stat.S_IFLNK:
                os.chmod(target, stat.S_IMODE(facts.st_mode))
            count += 1
    return count


def collect_directories(root: str, var: str) -> int:
    """Keep the directories below /var of a root's packages, as they are here, for new disks; return how many."""
    listed: set[str] = set()
    for path in glob.glob(os.path.join(glob.escape(root), "usr/lib/sysimage/dpkg/info/*.list")):
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            listed.update(line[len("/var/") :].rstrip("\n") for line in stream if line.startswith("/var/"))
    count = 0
    for name in sorted(listed):  # what is above comes first
        source, target = os.path.join(var, name), os.path.join(root, FACTORY, name)
        # guard: of a node's /var only directories of packages come into an image -> os.path.lexists(target)
        if os.path.islink(source) or not os.path.isdir(source) or os.path.lexists(target):
            continue
        facts = os.lstat(source)
        os.makedirs(target)
        os.chown(target, facts.st_uid, facts.st_gid)
        os.chmod(target, stat.S_IMODE(facts.st_mode))
        count += 1
    return count
