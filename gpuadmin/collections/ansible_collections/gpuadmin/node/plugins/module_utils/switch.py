"""The image switch: a list of steps, each of which can be cut off at any moment and done again.

STEPS is the one place that lists them: the engine runs them in this order, tests cut the power at each, the docs and
the picture are held against it. What decides what boots is one word in grubenv; roots never move.
"""

from __future__ import annotations

import glob
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from . import faults, grubenv, identity, subvolumes
from .errors import NodeError
from .files import flocked, write_atomic
from .image_places import ImageSettings, Places, boot_id, read_json, write_json
from .manifest import Manifest, Stream, choose_stream, load, parse
from .stream import Say, clean, fetch, receive

CLOCK_SLACK = 600.0  # seconds that the node's clock may be behind the one that built the image
SPARE = 512 << 20  # bytes that stay free


@dataclass
class Switch:
    """A switch in progress. ``manifest`` None: back to a root that is there (rollback, or the golden node's own)."""

    places: Places
    settings: ImageSettings
    manifest: Manifest | None = None
    full: bool = False
    target: str = ""  # the root to switch to; made by the step `root`
    kind: str = "push"
    stream: Stream | None = None
    say: Say = lambda text: None
    done: list[str] = field(default_factory=list)  # what was done, in words
    seconds: dict[str, float] = field(default_factory=dict)


def journal(places: Places) -> dict[str, object]:
    """What is known of the last switch: image, root, previous, boot_id, stage (pending|confirmed|failed), reason."""
    return read_json(places.in_state("switch.json")) or {}


def records(places: Places) -> dict[str, object]:
    """Confirmed roots (newest first), and which image every root was made from."""
    return read_json(places.in_state("roots.json")) or {"confirmed": [], "images": {}, "refused": {}}


def held_images(places: Places) -> dict[str, str]:
    """Image name → uuid, of the pristine images on this node."""
    found = subvolumes.listing(places.in_top("images"))
    return {name: one.received_uuid or one.uuid for name, one in found.items() if one.read_only}


def _preflight(work: Switch) -> None:
    """Refuse before anything is touched."""
    places = work.places
    running = subvolumes.running_root(places)
    there = subvolumes.inspect(places.in_top(running.path.lstrip("/")))
    if not running.name or there is None or there.id != running.id:
        raise NodeError(
            f"the running root ({running.path}) is not one of roots/ on this disk: run gpuadmin prepare-root"
        )
    last = journal(places)
    if last.get("stage") == "pending":
        if last.get("boot_id") == boot_id(places):
            raise NodeError(
                f"a switch to {last.get('root')} waits for this node's reboot; reboot it, or: gpuadmin rollback-image"
            )
        if running.name == last.get("root"):
            raise NodeError(
                f"the trial of {last.get('root')} is still going on; wait until it is confirmed or has failed"
            )
    current = grubenv.read(places.boot).get("current", "")
    if current != running.name:
        raise NodeError(f"{running.name} runs and {current} is confirmed: reboot this node first")
    errors = subvolumes.run(("btrfs", "device", "stats", places.top))
    bad = [line for line in errors.splitlines() if not line.endswith(" 0")]
    if bad:
        raise NodeError(
            f"this node's disk has errors ({'; '.join(' '.join(line.split()) for line in bad)}); look after it first"
        )
    if work.manifest is not None:
        _preflight_image(work, work.manifest)


def _preflight_image(work: Switch, manifest: Manifest) -> None:
    places = work.places
    if time.time() < manifest.created - CLOCK_SLACK:
        now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        raise NodeError(
            f"this node's clock is wrong: it says {now} UTC, before {manifest.name} was built. Set it, then run again"
        )
    release = os_release(places.root)
    if release.get("ID", "") != manifest.distribution:
        raise NodeError(
            f"{manifest.name} is an image of {manifest.distribution}, this node runs {release.get('ID')}; "
            "it is not used"
        )
    if platform.machine() != manifest.machine:
        raise NodeError(
            f"{manifest.name} is for {manifest.machine} machines, this node is {platform.machine()}; it is not used"
        )
    if held_images(places).get(manifest.name) == manifest.uuid:
        return
    work.stream = choose_stream(manifest, held_images(places), full=work.full)
    need = work.stream.bytes + work.stream.stream_bytes + SPARE
    free = free_bytes(places.top)
    if free["data"] < need:
        raise NodeError(
            f"{manifest.name} needs {need / 1e9:.1f} GB on this node's disk, {free['data'] / 1e9:.1f} GB are free; "
            "make room in /local, or gpuadmin prune-images"
        )
    # metadata of a root is some 4 % of its data; 64 MiB are always kept by the kernel itself
    if free["metadata"] < work.stream.stream_bytes // 20 + (64 << 20):
        raise NodeError(
            f"only {free['metadata'] / 1e6:.0f} MB are left for metadata on this node's disk, {manifest.name} needs "
            "more: btrfs balance start -dusage=20 / gives room back"
        )


def _clean(work: Switch) -> None:
    """Delete what earlier attempts left."""
    removed = clean(work.places, work.stream)
    if removed:
        work.done.append(f"removed what an earlier attempt left: {', '.join(removed)}")


def _fetch(work: Switch) -> None:
    """Copy the stream from the store, and prove it."""
    if work.manifest is None or work.stream is None:
        return
    rate = fetch(work.places, work.manifest, work.stream, work.say)
    kind = "full" if work.stream.parent is None else f"difference to {work.stream.parent[0]}"
    speed = f", {rate / 1e6:.1f} MB/s" if rate else " (was here already)"
    work.done.append(f"fetched {work.stream.bytes / 1e6:.1f} MB, {kind}{speed}")


def _receive(work: Switch) -> None:
    """Receive it into incoming/, prove its uuid, move it to images/."""
    if work.manifest is None:
        return
    if work.stream is not None:
        work.say(f"receiving {work.manifest.name}")
        receive(work.places, work.manifest, work.stream)
        work.done.append(f"received image {work.manifest.name}")
    check_boots(work.places.in_top("images", work.manifest.name), work.manifest.name)


def _root(work: Switch) -> None:
    """A writable snapshot with the node's identity: synced, read back, read-only, and then named."""
    if work.manifest is None:
        if subvolumes.inspect(work.places.in_top("roots", work.target)) is None:
            raise NodeError(f"this node has no root {work.target} any more")
        return
    places, name = work.places, work.manifest.name
    identity.capture(places.root, places.state, work.settings.identity)
    known = records(places)
    running = subvolumes.running_root(places).name
    work.target = free_root(places, name)
    new = places.in_top("roots", f"{work.target}.new")
    subvolumes.snapshot(places.in_top("images", name), new)
    identity.apply(new, places.state, work.settings.identity)
    subvolumes.sync(places.top)
    wrong = identity.differences(new, places.state, work.settings.identity)
    if wrong:
        raise NodeError(f"the new root does not read back with this node's identity: {', '.join(wrong)}")
    faults.at("root:written")
    # both in one transaction: a root of this name is complete and read-only, or not there
    subvolumes.set_read_only(new, True)
    os.rename(new, places.in_top("roots", work.target))
    subvolumes.sync(places.top)
    images = dict(known["images"])  # type: ignore[call-overload]
    images[work.target] = name
    write_json(places.in_state("roots.json"), {**known, "images": images})
    work.done.append(f"made root {work.target} of it, beside {running}")


def _record(work: Switch) -> None:
    """Write down what is about to be tried, and how the node was before."""
    places = work.places
    running = subvolumes.running_root(places).name
    write_json(
        places.in_state("switch.json"),
        {
            "stage": "pending",
            "kind": work.kind,
            "image": work.manifest.name if work.manifest else image_of(places, work.target),
            "root": work.target,
            "previous": running,
            "boot_id": boot_id(places),
            "time": time.time(),
            "before": baseline(),
        },
    )


def _trial(work: Switch) -> None:
    """Set `trial` in grubenv: the next boot, and only that one, takes the new root."""
    grubenv.write(work.places.boot, trial=work.target)
    work.done.append(f"the next boot tries {work.target}")


@dataclass(frozen=True)
class Step:
    """One step: its name, what does it (None: the controller or GRUB), and what a power cut after it leaves."""

    name: str
    action: Callable[[Switch], None] | None
    where: str  # engine | controller | boot
    cut_leaves: str


STEPS: tuple[Step, ...] = (
    Step("preflight", _preflight, "engine", "the old root"),
    Step("clean", _clean, "engine", "the old root"),
    Step("fetch", _fetch, "engine", "the old root, and a stream or a part of one"),
    Step("receive", _receive, "engine", "the old root, and the image or a part of it"),
    Step("root", _root, "engine", "the old root, and the new one beside it"),
    Step("record", _record, "engine", "the old root; the switch counts as failed"),
    Step("trial", _trial, "engine", "the new root, on trial"),
    Step("reboot", None, "controller", "the new root, on trial; the old one if it does not come up"),
    Step("health", None, "boot", "the old root; the switch counts as failed"),
    Step("commit", None, "boot", "the new root"),
    Step("prune", None, "boot", "the new root, and a subvolume too many"),
)
#: Points within a step at which it matters as well.
INNER_POINTS = ("fetch:middle", "receive:moved", "root:written")


def fault_points() -> list[str]:
    """Where tests cut the power: before and after every step that runs on the node, and within some."""
    around = [f"{step.name}:{when}" for step in STEPS if step.where != "controller" for when in ("before", "after")]
    return [*around, *INNER_POINTS]


def run_switch(work: Switch) -> Switch:
    """Take all steps up to the reboot. Raises NodeError; what was done then is harmless, and the next try cleans it."""
    os.makedirs(work.places.run, mode=0o755, exist_ok=True)
    with flocked(os.path.join(work.places.run, "image.lock"), 5.0):
        if already_there(work):
            return work
        for step in STEPS:
            if step.where != "engine" or step.action is None:
                continue
            faults.at(f"{step.name}:before")
            begin = time.monotonic()
            work.say(step.name)
            step.action(work)
            work.seconds[step.name] = round(time.monotonic() - begin, 2)
            faults.at(f"{step.name}:after")
    return work


def already_there(work: Switch) -> bool:
    """Whether the wanted image runs and is confirmed."""
    running = subvolumes.running_root(work.places).name
    if grubenv.read(work.places.boot).get("current") != running:
        return False
    if work.manifest is None:
        return running == work.target
    image = subvolumes.inspect(work.places.in_top("images", work.manifest.name))
    return (
        image_of(work.places, running) == work.manifest.name
        and image is not None
        and image.is_image(work.manifest.uuid)
    )


def image_of(places: Places, root: str) -> str:
    """The image that a root was made from; the root's own name where that is not recorded."""
    return str(records(places)["images"].get(root, root))  # type: ignore[attr-defined]


def free_root(places: Places, image: str) -> str:
    """A name for a root of an image that none has: NAME, NAME+2, NAME+3 …"""
    name, number = image, 1
    while os.path.lexists(places.in_top("roots", name)):
        number += 1
        name = f"{image}+{number}"
    return name


def check_boots(root: str, name: str) -> None:
    """Refuse an image without kernel and initramfs, or without the modules of that kernel."""
    for link in ("vmlinuz", "initrd.img"):
        target = os.path.join(root, link)
        if os.path.islink(target):
            target = os.path.join(root, os.readlink(target).lstrip("/"))
        if not os.path.isfile(target) or os.path.getsize(target) == 0:
            raise NodeError(f"image {name} has no {link} to boot; it is not used")
    if not os.path.lexists(os.path.join(root, "etc/systemd/system/multi-user.target.wants/gpuadmin-trial.service")):
        raise NodeError(f"image {name} has no unit that would judge its trial (gpuadmin-trial.service); it is not used")
    version = kernel_version(root)
    if not os.path.isfile(os.path.join(root, "usr/lib/modules", version, "modules.dep")):
        raise NodeError(f"image {name} has no modules for its kernel {version}; it is not used")


def kernel_version(root: str) -> str:
    """The version of the kernel that a root boots, by the name that /vmlinuz points to."""
    path = os.path.join(root, "vmlinuz")
    name = os.path.basename(os.readlink(path)) if os.path.islink(path) else ""
    return name.partition("-")[2] or (sorted(os.listdir(os.path.join(root, "usr/lib/modules"))) or [""])[-1]


def os_release(root: str) -> dict[str, str]:
    """os-release(5) of a root."""
    for name in ("etc/os-release", "usr/lib/os-release"):
        try:
            with open(os.path.join(root, name), encoding="utf-8") as stream:
                pairs = (line.strip().partition("=") for line in stream)
                return {key: value.strip("\"'") for key, equals, value in pairs if equals}
        except OSError:
            continue
    return {}


def free_bytes(top: str) -> dict[str, int]:
    """Bytes that data and metadata can still take, from `btrfs filesystem usage`."""
    known = {}
    for line in subvolumes.run(("btrfs", "filesystem", "usage", "-b", top)).splitlines():
        key, colon, value = line.strip().partition(":")
        if colon and value.split():
            known[key] = value.split()[0] if not key.startswith(("Data,", "Metadata,")) else value
    facts = os.statvfs(top)
    unallocated = int(known.get("Device unallocated", "0"))
    left = 0
    for key, value in known.items():
        if key.startswith("Metadata,"):
            words = dict(word.strip(" ,").split(":", 1) for word in value.replace(", ", ",").split(",") if ":" in word)
            left = int(words.get("Size", "0").split()[0]) - int(words.get("Used", "0").split()[0])
    return {"data": facts.f_bavail * facts.f_frsize, "metadata": left + unallocated}


def baseline() -> dict[str, object]:
    """How the node is before a switch, for the health checks to compare with."""
    return {"failed_units": failed_units(), "gpus": gpus()}


def failed_units() -> list[str]:
    if not os.path.isdir("/run/systemd/system"):
        return []
    done = subprocess.run(
        ("systemctl", "list-units", "--failed", "--plain", "--no-legend"), capture_output=True, text=True, check=False
    )
    return sorted(line.split()[0] for line in done.stdout.splitlines() if line.split())


def gpus() -> list[str]:
    """The GPUs on the PCI bus (NVIDIA and AMD display controllers), each with the driver that it has."""
    found = []
    for path in sorted(glob.glob("/sys/bus/pci/devices/*/class")):
        with open(path, encoding="ascii") as stream:
            kind = stream.read().strip()
        device = os.path.dirname(path)
        with open(os.path.join(device, "vendor"), encoding="ascii") as stream:
            vendor = stream.read().strip()
        if kind.startswith(("0x0302", "0x0300")) and vendor in ("0x10de", "0x1002"):
            driver = os.path.join(device, "driver")
            name = os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else "none"
            found.append(f"{os.path.basename(device)} {name}")
    return found


def load_manifest(places: Places, name: str, settings: ImageSettings) -> Manifest:
    """The manifest of an image, verified: from the store, or kept on the node where the image already is."""
    manifest = load(os.path.join(places.store, name), settings.signers)
    directory = places.in_state("manifests")
    os.makedirs(directory, mode=0o755, exist_ok=True)
    with open(os.path.join(places.store, name, "manifest.json"), "rb") as stream:
        write_atomic(os.path.join(directory, f"{name}.json"), stream.read(), mode=0o644)
    return manifest


def known_manifests(places: Places) -> Mapping[str, Manifest]:
    """The manifests kept on this node, by image name."""
    found = {}
    for path in sorted(glob.glob(places.in_state("manifests", "*.json"))):
        with open(path, "rb") as stream:
            manifest = parse(stream.read(), path)
        found[manifest.name] = manifest
    return found
