"""Which roots and images of a node may go: decided here, purely, and done by subvolume id."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .. import btrfs
from . import grubenv, subvolumes
from .places import Places
from .records import journal, known_manifests, records

KEEP = 2


def decide(
    roots: Collection[str],
    images: Mapping[str, str | None],
    *,
    running: str,
    current: str,
    trial: str,
    confirmed: Sequence[str],
    image_of: Mapping[str, str],
    newest: Sequence[str],
    keep: int = KEEP,
) -> tuple[list[str], list[str]]:
    """Given what is there, return the roots and the images to delete.

    ``images``: name → name of its parent, or None; ``newest``: image names, newest first; ``confirmed``: roots,
    newest first. Kept: what runs, what boots, what is tried, the last confirmed root before the one that runs; of the
    images the ``keep`` newest, those of the roots that stay, and the parents of the newest.
    """
    wanted_roots = {
        running,  # guard: pruning keeps what runs
        current,  # guard: pruning keeps what boots
        trial,  # guard: pruning keeps what is to be tried
    }
    wanted_roots |= set(
        # guard: pruning keeps the confirmed root before -> [name for name in confirmed if name != running][:0]
        [name for name in confirmed if name != running][:1]
    )
    delete_roots = sorted(set(roots) - wanted_roots)
    wanted_images = (
        set(list(newest)[: max(keep, 1)])
        | {image_of.get(name, name) for name in wanted_roots}  # guard: pruning keeps the images of the roots that stay
    )
    if newest:
        parent = images.get(newest[0])  # guard: pruning keeps the newest image's parent -> None
        while parent is not None and parent not in wanted_images:
            wanted_images.add(parent)
            parent = None  # its own parent is not needed to receive the next difference
    return delete_roots, sorted(set(images) - wanted_images)


def plan_node(places: Places, keep: int = KEEP) -> tuple[list[str], list[str]]:
    """What `decide` says of this node, whose top level is mounted. Nothing while a switch is going on."""
    if journal(places).get("stage") == "pending":  # guard: nothing is pruned while a switch is going on
        return [], []
    manifests = known_manifests(places)
    held = btrfs.listing(places.in_top("images"))
    known = records(places)
    env = grubenv.read(places.boot)
    newest = sorted(held, key=lambda name: manifests[name].created if name in manifests else 0.0, reverse=True)
    parents = {name: manifests[name].parent for name in held if name in manifests}
    return decide(
        [name for name in btrfs.listing(places.in_top("roots")) if not name.endswith(".new")],
        {name: (parents.get(name) or (None,))[0] for name in held},
        running=subvolumes.running_root(places).name,
        current=env.get("current", ""),
        trial=env.get("trial", ""),
        confirmed=known.confirmed,
        image_of=known.images,
        newest=newest,
        keep=keep,
    )


def prune_node(places: Places, keep: int = KEEP) -> list[str]:
    """Delete what may go; return it in words."""
    roots, images = plan_node(places, keep)
    done = []
    for kind, names in (("roots", roots), ("images", images)):
        for name in names:
            subvolumes.delete(places.in_top(kind, name), places)
            done.append(f"deleted {kind}/{name}")
    return done
