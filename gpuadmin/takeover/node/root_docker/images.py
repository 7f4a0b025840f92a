"""An image of root's Docker becomes one of a person's: by its id, so that no tag of theirs moves."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from .api import Daemon, room

ID = re.compile(r"sha256:[0-9a-f]{64}")


def list_image_tags(told: dict[str, Any]) -> list[str]:
    return [one for one in told.get("RepoTags") or [] if isinstance(one, str) and "<none>" not in one]


def _layers(told: dict[str, Any]) -> Any:
    found = told.get("RootFS")
    return found.get("Layers") if isinstance(found, dict) else None


def _same(one: dict[str, Any], other: dict[str, Any] | None) -> bool:
    return other is not None and _layers(one) == _layers(other)


def there(hers: Daemon, told: dict[str, Any]) -> bool:
    """Whether a person has an image."""
    return _same(told, hers.find(f"/images/{quote(str(told.get('Id')))}/json"))


def carry(root: Daemon, hers: Daemon, place: str, ident: str) -> tuple[list[str], list[str], str]:
    """Carry an image. ``place``: a directory of the disk that it comes to. Returns its tags, those that the person has
    for another image, which stay as they are, and what was done.
    """
    if not ID.fullmatch(ident):  # guard: an id of an image is not a path
        raise NodeError("that is not the id of an image")
    image = root.find(f"/images/{ident}/json")
    if image is None:
        raise NodeError("root's Docker has no such image")
    words = ""
    if not there(hers, image):
        size = int(image.get("Size") or 0)
        room(place, size)
        answer = root.sent_image(ident, hers, size)
        if not there(hers, image):  # guard: an image is there when the daemon has all its layers
            last = (answer.strip().splitlines() or [""])[-1][:300]
            raise NodeError(f"has not arrived (it needs {size} bytes): {last}")
        words = f"{size} bytes"
    other = []
    for tag in list_image_tags(image):
        theirs = hers.find(f"/images/{quote(tag)}/json")
        if theirs is None:
            name, _, version = tag.rpartition(":")
            hers.ask("POST", f"/images/{quote(ident)}/tag", {}, repo=name, tag=version)
            words = words or "its tag"
        elif not _same(image, theirs):  # guard: a tag of theirs stays where it is
            other.append(tag)
    return list_image_tags(image), other, words


def discard(root: Daemon, ident: str, tags: list[str]) -> None:
    """Remove an image from root's daemon. Raises NodeError where something needs it."""
    for one in root.listed("/containers/json", all="1"):
        if one.get("ImageID") == ident:  # guard: an image that a container needs is kept
            raise NodeError(f"the container {str((one.get('Names') or ['?'])[0]).lstrip('/')} is made of it")
    image = root.find(f"/images/{quote(ident)}/json")
    # guard: an image that now has another name is kept
    if image is not None and (new := sorted(set(list_image_tags(image)) - set(tags))):
        raise NodeError(f"now has another name: {new[0]}")
    for tag in [] if image is None else list_image_tags(image):
        root.ask("DELETE", f"/images/{quote(tag)}", noprune="1")
    if root.find(f"/images/{quote(ident)}/json") is not None:
        root.ask("DELETE", f"/images/{quote(ident)}", noprune="1")
