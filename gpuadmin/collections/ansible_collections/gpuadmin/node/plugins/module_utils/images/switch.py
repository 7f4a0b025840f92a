"""The image switch: a list of steps, each of which can be cut off at any moment and done again.

STEPS is the one place that lists them: the engine runs them in this order, tests cut the power at each, the docs and
the picture are compared with it. What decides what boots is one word in grubenv; roots never move.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpuadmin.common.records.images import ChainLink, ImageSettings
from gpuadmin.common.text import size_words

from .. import btrfs, faults
from ..errors import NodeError
from ..files import flocked
from ..root import guard
from . import chain_key, grubenv, identity, relay, subvolumes
from .follower import Follower
from .manifest import Manifest, Stream
from .places import Places, boot_id, write_json
from .preflight import preflight, preflight_image
from .records import find_image, journal, records
from .root_facts import baseline, check_boots
from .stream import Progress, clean, fetch, receive, stream_path

EARLY_SLACK = 120  # seconds that the initramfs gives a trial beyond what the node itself gives it


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
    link: ChainLink | None = None  # this node's place in a chain that brings the stream
    follower: Follower | None = None  # the next node there, where it is this process that passes the stream on
    progress: Progress = lambda text: None
    done: list[str] = field(default_factory=list)  # what was done, in words
    seconds: dict[str, float] = field(default_factory=dict)
    next_root: str | None = None  # the root that the next boot takes, or the trial that runs
    booted: bool = False  # that root runs already


def _preflight(switch: Switch) -> None:
    """Refuse before anything is touched."""
    preflight(switch.places, switch.settings)
    if switch.manifest is not None:
        switch.stream = preflight_image(switch.places, switch.manifest, full=switch.full)


def _clean(switch: Switch) -> None:
    """Delete what earlier attempts left."""
    removed = clean(switch.places, switch.stream)
    if removed:
        switch.done.append(f"removed what an earlier attempt left: {', '.join(removed)}")


def _fetch(switch: Switch) -> None:
    """Copy the stream from the store, and prove it."""
    if switch.manifest is None or switch.stream is None:
        return
    path = stream_path(switch.places, switch.stream)
    otherwise = "was here already"
    link = switch.link if switch.stream.parent is None else None
    head = link is not None and not link.previous
    if link is not None and not head:
        if not os.path.exists(path):
            otherwise = "along the chain"
        # also where it is here: the node passes it on
        relay.await_end(switch.progress, relay.relay_path(switch.places, switch.stream), switch.stream.bytes)
        # one whose relay brought not all of it is the first of the nodes that still wait
        head = not relay.adopt(switch.places, switch.stream)
        switch.done += relay.remarks(switch.places)
    if link is not None and head:
        switch.follower = _follower(switch, link, switch.stream.bytes)
    rate = fetch(switch.places, switch.manifest, switch.stream, switch.progress, switch.follower)
    kind = "full" if switch.stream.parent is None else f"difference to {switch.stream.parent[0]}"
    from_store = f"{size_words(rate)}/s" if rate else otherwise
    switch.done.append(f"fetched {size_words(switch.stream.bytes)}, {kind}, {from_store}")


def _follower(switch: Switch, link: ChainLink, size: int) -> Follower | None:
    """The next node of the chain; None if there is none, or no key to prove it with."""
    if not link.next:
        return None
    try:
        return Follower(link.next, link.port, size, chain_key.load(switch.places))
    except NodeError as error:
        switch.done.append(f"the image is not passed on: {error}")
        return None


def _receive(switch: Switch) -> None:
    """Receive it into incoming/, prove its uuid, move it to images/."""
    if switch.manifest is None:
        return
    if switch.stream is not None:
        switch.progress(f"receiving {switch.manifest.name}")
        receive(switch.places, switch.manifest, switch.stream)
        switch.done.append(f"received image {switch.manifest.name}")
    check_boots(switch.places.in_top("images", switch.manifest.name), switch.manifest.name)


def _root(switch: Switch) -> None:
    """A writable snapshot with the node's identity: synced, read back, read-only, and then named."""
    if switch.manifest is None:
        if btrfs.inspect(switch.places.in_top("roots", switch.target)) is None:  # guard: a rollback needs its root
            raise NodeError(f"this node has no root {switch.target} any more")
        return
    places, name = switch.places, switch.manifest.name
    identity.capture(places.root, places.state, switch.settings.identity)
    known = records(places)
    running = subvolumes.running_root(places).name
    switch.target = free_root(places, name)
    new = places.in_top("roots", f"{switch.target}.new")
    btrfs.snapshot(places.in_top("images", name), new, read_only=False)
    identity.apply(new, places.state, switch.settings.identity)
    guard.sync(places.top)
    wrong = identity.differences(new, places.state, switch.settings.identity)
    if wrong:  # guard: a new root reads back with the node's identity
        raise NodeError(f"the new root does not read back with this node's identity: {', '.join(wrong)}")
    faults.at("root:written")
    # both in one transaction: a root of this name is complete and read-only, or not there
    guard.set_read_only(new, True)  # guard: a new root is read-only before it has its name
    os.rename(new, places.in_top("roots", switch.target))
    guard.sync(places.top)
    # guard: a further root of an image is known by its image
    replace(known, images={**known.images, switch.target: name}).write(places)
    switch.done.append(f"made root {switch.target} of it, beside {running}")


def _record(switch: Switch) -> None:
    """Write down what is about to be tried, and how the node was before."""
    places = switch.places
    running = subvolumes.running_root(places).name
    write_json(
        places.in_state("switch.json"),
        {
            "stage": "pending",
            "kind": switch.kind,
            "image": switch.manifest.name if switch.manifest else find_image(places, switch.target),
            "root": switch.target,
            "previous": running,
            "boot_id": boot_id(places),
            "time": time.time(),
            "deadline": switch.settings.deadline,
            "before": baseline(),
        },
    )


def _trial(switch: Switch) -> None:
    """Set `trial` in grubenv: the next boot, and only that one, takes the new root."""
    grubenv.write(switch.places.boot, trial=switch.target, deadline=str(switch.settings.deadline + EARLY_SLACK))
    switch.next_root = switch.target
    switch.done.append(f"the next boot tries {switch.target}")


@dataclass(frozen=True)
class Step:
    """One step: its name, what does it (None: the controller or GRUB), and what a power cut after it leaves.

    ``within``: what happens inside of it that a power cut can fall before or after.
    """

    name: str
    action: Callable[[Switch], None] | None
    where: str  # engine | controller | boot
    cut_leaves: str
    within: tuple[str, ...] = ()

    @property
    def points(self) -> list[str]:
        """Where tests cut the power, in the order in which they are passed."""
        return [f"{self.name}:{when}" for when in ("before", *self.within, "after")]


STEPS: tuple[Step, ...] = (
    Step("preflight", _preflight, "engine", "the old root"),
    Step("clean", _clean, "engine", "the old root"),
    Step("fetch", _fetch, "engine", "the old root, and a stream or a part of one", ("middle",)),
    Step("receive", _receive, "engine", "the old root, and the image or a part of it", ("moved",)),
    Step("root", _root, "engine", "the old root, and the new one beside it", ("written",)),
    Step("record", _record, "engine", "the old root; the switch counts as failed"),
    Step("trial", _trial, "engine", "the new root, on trial"),
    Step("reboot", None, "controller", "the new root, on trial; the old one if it does not come up"),
    Step("health", None, "boot", "the old root; the switch counts as failed"),
    Step("commit", None, "boot", "the new root"),
    Step("prune", None, "boot", "the new root, and a subvolume too many"),
)


def fault_points(*where: str) -> list[str]:
    """The points of all steps that run on the node, in their order; of some, as ``engine`` or ``boot``."""
    return [point for step in STEPS if step.where in (where or ("engine", "boot")) for point in step.points]


def run_switch(switch: Switch) -> Switch:
    """Take all steps up to the reboot. Raises NodeError; what was done then is harmless, and the next try cleans it."""
    os.makedirs(switch.places.run, mode=0o755, exist_ok=True)
    with flocked(os.path.join(switch.places.run, "image.lock"), 5.0):
        if runs_wanted_image(switch) or waiting(switch):
            return switch
        try:
            for step in STEPS:
                if step.where != "engine" or step.action is None:
                    continue
                faults.at(f"{step.name}:before")
                begin = time.monotonic()
                switch.progress(step.name)
                step.action(switch)
                switch.seconds[step.name] = round(time.monotonic() - begin, 2)
                faults.at(f"{step.name}:after")
        finally:
            _take_leave(switch)
    return switch


def _take_leave(switch: Switch) -> None:
    """Let the next node of the chain have the rest; this node is ready, and waits for it within limits."""
    if switch.follower is None:
        return
    switch.progress("passing the rest of the image on")
    switch.follower.close()
    if switch.follower.problem:
        switch.done.append(switch.follower.problem)


def runs_wanted_image(switch: Switch) -> bool:
    """Whether the wanted image runs, is confirmed, and is what the next boot takes."""
    running, environment = subvolumes.running_root(switch.places).name, grubenv.read(switch.places.boot)
    if environment.get("current") != running:
        return False
    if environment.get("trial"):  # guard: who runs an image that the next boot leaves is not told that all is done
        return False
    if switch.manifest is None:
        return running == switch.target
    return find_image(switch.places, running) == switch.manifest.name and _is_here(switch.places, switch.manifest)


def _is_here(places: Places, manifest: Manifest) -> bool:
    """Whether the image of the name that is here is that image."""
    image = btrfs.inspect(places.in_top("images", manifest.name))
    # guard: another image of the name is neither there already nor on its way -> image is not None
    return image is not None and subvolumes.is_image(image, manifest.uuid)


def waiting(switch: Switch) -> bool:
    """Whether an earlier run got as far as the reboot for the same image: only what follows it is done then."""
    last = journal(switch.places)
    if last.get("stage") != "pending":
        return False
    wanted = switch.manifest.name if switch.manifest is not None else switch.target
    if last.get("image" if switch.manifest is not None else "root") != wanted:
        return False
    if switch.manifest is not None and not _is_here(switch.places, switch.manifest):
        return False
    root = str(last.get("root"))
    switch.booted = subvolumes.running_root(switch.places).name == root
    ready = last.get("boot_id") == boot_id(switch.places) and grubenv.read(switch.places.boot).get("trial") == root
    if ready or switch.booted:
        switch.next_root = root
    return ready or switch.booted


def free_root(places: Places, image: str) -> str:
    """A name for a root of an image that none has: NAME, NAME+2, NAME+3 …"""
    name, number = image, 1
    while os.path.lexists(places.in_top("roots", name)):
        number += 1
        name = f"{image}+{number}"
    return name
