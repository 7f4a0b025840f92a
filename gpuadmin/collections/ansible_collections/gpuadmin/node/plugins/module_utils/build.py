"""Building an image on the golden node: a root beside the running one, changed, tried, sealed, sent."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

from . import identity, subvolumes
from .errors import NodeError
from .files import sync_directory, write_atomic
from .image_places import FORMAT, ImageSettings, Places, check_name, read_json, write_json
from .manifest import package_changes, parse, render, verify
from .stream import Say, clean
from .switch import STEPS as SWITCH_STEPS
from .switch import Switch, check_boots, image_of, journal, kernel_version, os_release, records
from .trial import FACTORY

#: Where package managers look for their database → where it lies in the root, which it describes.
DATABASES = (
    ("var/lib/dpkg", "usr/lib/sysimage/dpkg"),
    ("var/lib/pacman", "usr/lib/sysimage/pacman"),
    ("var/lib/rpm", "usr/lib/sysimage/rpm"),
)
#: Of what packages put into /var, this is no part of an image.
NOT_FROM_VAR = (
    "cache",
    "log",
    "tmp",
    "lib/dpkg",
    "lib/apt/lists",
    "lib/pacman",
    "lib/rpm",
    "lib/gpuadmin",
    "home",
    "roothome",
)


def point(places: Places) -> str:
    """Where the root that is being built is mounted."""
    return os.path.join(places.run, "build")


def prepare(places: Places, settings: ImageSettings, name: str) -> list[str]:
    """Make the root that will be changed, and mount what a package manager needs in it."""
    check_name(name)
    work = Switch(places, settings)
    for step in SWITCH_STEPS[:1]:
        assert step.action is not None
        step.action(work)
    for kind in ("images", "roots"):
        if os.path.lexists(places.in_top(kind, name)):
            raise NodeError(f"there is an image or a root {name} on this node already; choose another name")
    leave(places)
    clean(places)
    identity.capture(places.root, places.state, settings.identity)
    running = subvolumes.running_root(places)
    subvolumes.snapshot(places.in_top(running.path.lstrip("/")), places.in_top("roots", f"{name}.new"))
    _mount(places, name)
    return [f"made a writable root {name} from {running.name}"]


def _mount(places: Places, name: str) -> None:
    """The root with /proc, /sys and /dev; and /var as an overlay, so that this node's own is not touched."""
    target, over = point(places), places.in_top("incoming", f"{name}.var")
    for directory in (target, over, os.path.join(over, "upper"), os.path.join(over, "work")):
        os.makedirs(directory, mode=0o755, exist_ok=True)
    run = subvolumes.run
    run(("mount", "--bind", places.in_top("roots", f"{name}.new"), target))
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
    if os.path.ismount(point(places)):
        subvolumes.run(("umount", "-R", "-l", point(places)), what="the root that was built stays mounted")


def enter(places: Places, command: Sequence[str]) -> tuple[str, ...]:
    """The command that runs a command in the root that is being built."""
    return (
        "chroot", point(places), "/usr/bin/env", "-u", "NOTIFY_SOCKET", "DEBIAN_FRONTEND=noninteractive",
        "SYSTEMD_OFFLINE=1", "GPUADMIN_BUILD=1", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        *command,
    )  # fmt: skip


def package_commands(root: str, packages: Sequence[str], upgrade: bool, *, refresh: bool) -> list[tuple[str, ...]]:
    """The commands that upgrade and install in a root, by its package manager."""
    commands: list[tuple[str, ...]] = []
    wanted = tuple(packages)
    if os.path.exists(os.path.join(root, "usr/bin/apt-get")):
        keep = ("apt-get", "-y", "-o", "Dpkg::Options::=--force-confold")
        commands += [("apt-get", "-q", "update")] if refresh else []
        commands += [(*keep, "-o", "APT::Get::Always-Include-Phased-Updates=true", "dist-upgrade")] if upgrade else []
        commands += [(*keep, "install", *wanted)] if wanted else []
    elif os.path.exists(os.path.join(root, "usr/bin/pacman")):
        commands += (
            [("pacman", "-Syu" if upgrade else "-S", "--noconfirm", "--needed", *wanted)] if upgrade or wanted else []
        )
    elif os.path.exists(os.path.join(root, "usr/bin/dnf")):
        commands += [("dnf", "-y", "upgrade", "--refresh")] if upgrade else []
        commands += [("dnf", "-y", "install", *wanted)] if wanted else []
    else:
        raise NodeError("this root has none of apt, pacman and dnf: use --run or --shell")
    return commands


def change(places: Places, packages: Sequence[str], upgrade: bool, say: Say) -> list[str]:
    """Upgrade and install in the root that is being built."""
    if not packages and not upgrade:
        return []
    for command in package_commands(point(places), packages, upgrade, refresh=upgrade):
        say(" ".join(command))
        subvolumes.run(enter(places, command), what=f"{command[0]} failed in the new root")
    done = ["upgraded packages"] if upgrade else []
    return [*done, f"installed {', '.join(packages)}"] if packages else done


def finish(places: Places, name: str) -> list[str]:
    """Close the changed root: out of the mounts, what was put into /var noted, read-only, and named."""
    leave(places)
    new = places.in_top("roots", f"{name}.new")
    if subvolumes.inspect(new) is None:
        raise NodeError(f"there is no root {name} being built on this node")
    kept = collect_var(places.in_top("incoming", f"{name}.var", "upper"), os.path.join(new, FACTORY))
    check_boots(new, name)
    subvolumes.sync(places.top)
    subvolumes.set_read_only(new, True)
    subvolumes.sync(places.top)
    os.rename(new, places.in_top("roots", name))
    subvolumes.sync(places.top)
    known = records(places)
    images = {**known["images"], name: name}  # type: ignore[dict-item]
    write_json(places.in_state("roots.json"), {**known, "images": images})
    return [f"kept {kept} paths that packages put into /var for every node"] if kept else []


def collect_var(upper: str, factory: str) -> int:
    """Copy what was added to /var into the image; return how many paths. Deletions and caches are left out."""
    count = 0
    if not os.path.isdir(upper):
        return 0
    for directory, names, files in os.walk(upper):
        relative = os.path.relpath(directory, upper)
        for name in list(names):
            if os.path.normpath(os.path.join(relative, name)) in NOT_FROM_VAR:
                names.remove(name)
        for name in sorted([*names, *files]):
            source, target = os.path.join(directory, name), os.path.join(factory, relative, name)
            facts = os.lstat(source)
            if stat.S_ISCHR(facts.st_mode) or os.path.lexists(target):
                continue
            os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
            if stat.S_ISDIR(facts.st_mode):
                os.mkdir(target)
            subvolumes.run(("cp", "-dp", "--no-target-directory", source, target)) if not stat.S_ISDIR(
                facts.st_mode
            ) else None
            os.chown(target, facts.st_uid, facts.st_gid, follow_symlinks=False)
            if not stat.S_ISLNK(facts.st_mode):
                os.chmod(target, stat.S_IMODE(facts.st_mode))
            count += 1
    return count


def seal(places: Places, settings: ImageSettings, name: str, *, tried: bool = True) -> str:
    """Make the image from the root of its name: nothing of this node in it, read-only, durable. Returns its uuid."""
    final, work = places.in_top("images", name), places.in_top("incoming", name)
    there = subvolumes.inspect(final)
    if there is not None and there.read_only:
        return there.received_uuid or there.uuid
    root = places.in_top("roots", name)
    found, last = subvolumes.inspect(root), journal(places)
    if found is None:
        raise NodeError(f"there is no root {name} on this node to make an image from")
    if tried and (found.id != subvolumes.running_root(places).id or last.get("stage") != "confirmed"):
        raise NodeError(
            f"this node does not run {name}, confirmed; an image that its golden node has not booted is not built"
        )
    clean(places)
    subvolumes.snapshot(root, work)
    identity.strip(work, settings.uid_first, settings.uid_last, settings.identity)
    left = identity.leftovers(work, settings.uid_first, settings.uid_last, settings.identity)
    if left:
        raise NodeError(f"{name} is not sealed: {'; '.join(left[:6])}")
    check_boots(work, name)
    subvolumes.sync(places.top)
    # a read-only subvolume cannot move to another directory, but a snapshot can be made there, in one transaction
    subvolumes.snapshot(work, final, read_only=True)
    subvolumes.sync(places.top)
    subvolumes.delete(work, places)
    sealed = subvolumes.inspect(final)
    assert sealed is not None
    return sealed.uuid


def packages(root: str) -> dict[str, str]:
    """The packages of a root: name → version."""
    dpkg = os.path.join(root, "usr/lib/sysimage/dpkg")
    if os.path.isdir(dpkg):
        command: tuple[str, ...] = ("dpkg-query", f"--admindir={dpkg}", "-W", "-f", "${Package} ${Version}\n")
    elif os.path.isdir(os.path.join(root, "usr/lib/sysimage/pacman")):
        command = ("pacman", "-Q", "-b", os.path.join(root, "usr/lib/sysimage/pacman"))
    elif os.path.isdir(os.path.join(root, "usr/lib/sysimage/rpm")):
        command = ("rpm", "--root", root, "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\n")
    else:
        return {}
    lines = (line.split() for line in subvolumes.run(command).splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def send(
    places: Places, settings: ImageSettings, name: str, parents: Sequence[str], *, full: bool, who: str, say: Say
) -> str:
    """Send an image to the store, against each parent and in full if wanted; return the manifest's text, to be signed.

    A stream is written as .part, fsynced and renamed. Nothing of it counts before a signed manifest names it.
    """
    image = places.in_top("images", name)
    found = subvolumes.inspect(image)
    if found is None or not found.read_only:
        raise NodeError(f"there is no image {name} on this node")
    directory = os.path.join(places.store, name)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    old = read_json(os.path.join(directory, "manifest.json"))
    if old is not None and old.get("uuid") != (found.received_uuid or found.uuid):
        raise NodeError(f"the store has another image {name}; choose another name")
    streams: dict[str, Mapping[str, object]] = {}
    for item in (old or {}).get("streams") or []:  # type: ignore[attr-defined]
        streams[str(item["file"])] = item
    wanted: list[str | None] = [*parents, *([None] if full else [])]
    for parent in wanted:
        file = "full.btrfs.zst" if parent is None else f"from-{check_name(parent)}.btrfs.zst"
        if file not in streams:
            streams[file] = _send(places, image, parent, os.path.join(directory, file), say)
    if not streams:
        raise NodeError(f"{name} has neither a parent nor is a full stream wanted")
    parent = parents[0] if parents else None
    before, list_now = _packages_of(places, parent), packages(image)
    release = os_release(image)
    return render(
        (old and {**old, "streams": [streams[file] for file in sorted(streams)]})
        or {
            "format": FORMAT, "name": name, "uuid": found.received_uuid or found.uuid,
            "parent": _identity_of(places, parent), "created": round(time.time()), "by": who,
            "distribution": release.get("ID", ""), "version": release.get("VERSION_ID", ""),
            "machine": platform.machine(), "kernel": kernel_version(image), "size": _size(image), "packages": list_now,
            "changes": package_changes(before, list_now) if parent else {"added": {}, "removed": {}, "changed": {}},
            "streams": [streams[file] for file in sorted(streams)],
        }
    ).decode()  # fmt: skip


def _packages_of(places: Places, parent: str | None) -> dict[str, str]:
    return packages(places.in_top("images", parent)) if parent else {}


def _identity_of(places: Places, parent: str | None) -> dict[str, str] | None:
    if parent is None:
        return None
    found = subvolumes.inspect(places.in_top("images", parent))
    if found is None:
        raise NodeError(f"there is no image {parent} on this node to send the difference to")
    return {"name": parent, "uuid": found.received_uuid or found.uuid}


def _size(image: str) -> int:
    words = subvolumes.run(("du", "--summarize", "--one-file-system", "--block-size=1", image)).split()
    return int(words[0])


def _send(places: Places, image: str, parent: str | None, target: str, say: Say) -> dict[str, object]:
    """btrfs send | zstd, counted and hashed on its way. Both must end with 0: zstd alone proves nothing."""
    command: tuple[str, ...] = ("btrfs", "-q", "send")
    identity_of_parent = _identity_of(places, parent)
    if parent is not None:
        command += ("-p", places.in_top("images", parent))
    say(f"sending {os.path.basename(image)} {'in full' if parent is None else f'as its difference to {parent}'}")
    part = f"{target}.part"
    counted: list[int] = [0]
    total, size = hashlib.sha256(), 0
    sender = subprocess.Popen((*command, image), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    packer = subprocess.Popen(("zstd", "-q", "-3", "-T0", "-c"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sender.stdout is not None
    assert sender.stderr is not None
    assert packer.stdin is not None
    assert packer.stdout is not None
    pump = threading.Thread(target=_pump, args=(sender.stdout, packer.stdin, counted), daemon=True)
    pump.start()
    try:
        with open(part, "wb") as stream:
            while True:
                block = packer.stdout.read(1 << 20)
                if not block:
                    break
                total.update(block)
                stream.write(block)
                size += len(block)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        sender.kill()
        packer.kill()
        raise NodeError(f"the image store does not take {os.path.basename(image)}: {error}") from error
    noise = sender.stderr.read().decode("utf-8", "replace").strip()
    pump.join()
    if sender.wait() != 0 or packer.wait() != 0:
        os.unlink(part)
        raise NodeError(f"sending {os.path.basename(image)} failed: {noise or 'zstd failed'}")
    os.rename(part, target)
    sync_directory(os.path.dirname(target))
    return {
        "file": os.path.basename(target), "parent": identity_of_parent, "bytes": size, "stream_bytes": counted[0],
        "sha256": total.hexdigest(),
    }  # fmt: skip


def _pump(source: IO[bytes], sink: IO[bytes], counted: list[int]) -> None:
    try:
        while True:
            block = source.read(1 << 18)
            if not block:
                break
            counted[0] += len(block)
            sink.write(block)
        sink.close()
    except OSError:
        source.close()


def parent_of(places: Places) -> str | None:
    """The image that the running root was made from, if it is here."""
    name = image_of(places, subvolumes.running_root(places).name)
    return name if subvolumes.inspect(places.in_top("images", name)) is not None else None


def publish(places: Places, settings: ImageSettings, name: str, text: str, signature: str) -> None:
    """Put the signed manifest into the store: the signature first, the manifest last, both durable."""
    manifest = parse(text.encode())
    verify(text.encode(), signature.encode(), settings.signers)
    if manifest.name != name:
        raise NodeError(f"this is the manifest of {manifest.name}, not of {name}")
    directory = os.path.join(places.store, name)
    for stream in manifest.streams:
        size = os.path.getsize(os.path.join(directory, stream.file))
        if size != stream.bytes:
            raise NodeError(f"{stream.file} has {size} bytes in the store, not {stream.bytes}")
    write_atomic(os.path.join(directory, "manifest.json.sig"), signature.encode(), mode=0o600)
    write_atomic(os.path.join(directory, "manifest.json"), text.encode(), mode=0o600)
    kept = places.in_state("manifests")
    os.makedirs(kept, mode=0o755, exist_ok=True)
    write_atomic(os.path.join(kept, f"{name}.json"), text.encode(), mode=0o644)
