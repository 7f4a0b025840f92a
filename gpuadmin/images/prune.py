"""Which images of the store nobody needs."""

from __future__ import annotations

from gpuadmin.images.facts import Facts


def prune_store(facts: Facts, keep: int) -> list[str]:
    """The images to delete from the store: not the `keep` newest, not what a node runs, has confirmed or is to try, and
    not the parent of a difference that is kept. With a node that did not answer, nothing is deleted."""
    if facts.silent:  # guard: with a node that is silent the store loses nothing
        return []
    manifests = facts.complete
    kept = set(list(manifests)[: max(keep, 1)])
    for node in facts.nodes.values():
        kept.add(str(node["image"]))  # guard: the store keeps what a node runs
        kept |= {
            str(name).partition("+")[0]
            for name in (
                node["current"],  # guard: the store keeps what a node boots
                node["trial"],  # guard: the store keeps what a node is to try
                *node["confirmed"][:2],  # guard: the store keeps what a node can go back to
            )
        }
    todo = [name for name in kept if name in manifests]
    while todo:
        manifest = manifests[todo.pop()]
        # whoever needs it as a difference needs the parent; one that is there in full needs none
        if any(stream["parent"] is None for stream in manifest["streams"]):
            continue
        for stream in manifest["streams"]:
            parent = stream["parent"]["name"]
            if parent in manifests and parent not in kept:  # guard: the store keeps the parents of differences
                kept.add(parent)
                todo.append(parent)
    return sorted(set(manifests) - kept)
