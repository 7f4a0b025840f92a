"""What the unit gpuadmin-move-docker.service does: carry what was named, or remove of root's Docker what was carried.

What is odd about one thing stops no other.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import short
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.lookup import Lookup, system_lookup
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.run import run

from . import api, images, looking, record, volumes
from .api import Daemon
from .namespace import Person, person
from .record import DONE, Moved

PATIENCE = 30.0  # seconds for a person's user manager to make the socket


def of(name: str, uid: int, root: str = "/", lookup: Lookup = system_lookup) -> Person:
    """Somebody of this host. Raises NodeError if that is not who was meant."""
    found = lookup(name)
    if found is None:
        raise NodeError(f"this host does not know {name}: gpuadmin provision, or sync-users, first")
    if found[0] != uid or uid < 1000:  # guard: what is carried goes to whom it was named for
        raise NodeError(f"{name} has uid {found[0]} here, not {uid}")
    return person(name, *found, root)


def theirs(who: Person, data: str) -> tuple[Daemon, str]:
    """A person's daemon, which their socket starts, and its data. Raises NodeError where they have no Docker here."""
    place = os.path.join(data, who.name)
    try:
        facts = os.lstat(place)
    except FileNotFoundError:
        raise NodeError(f"{who.name} has no Docker here: gpuadmin change-user {who.name} --docker") from None
    # guard: a directory of another's is not taken for theirs
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != who.uid:
        raise NodeError(f"{place} does not belong to {who.name}")
    path = f"/run/user/{who.uid}/docker.sock"
    if not os.path.lexists(path):
        run(("systemctl", "start", f"user@{who.uid}.service"), what=f"{who.name}'s user manager does not start")
        end = time.monotonic() + PATIENCE
        while not os.path.lexists(path) and time.monotonic() < end:
            time.sleep(0.2)  # between two looks for the socket
    return Daemon(path, (who.uid, who.gid)), place


def _root(path: str) -> Daemon:
    found = looking.daemon(path)
    if found is None:
        raise NodeError("root's Docker does not run")
    return found


def _both(arguments: Mapping[str, Any], state: str) -> tuple[Daemon, Daemon, Person, str, Moved]:
    """Root's daemon, the person's, whose it is, where its data is, and what was carried before."""
    root = _root(arguments.get("socket", api.SOCKET))
    who = of(arguments["name"], arguments["uid"])
    hers, place = theirs(who, arguments["data"])
    return root, hers, who, place, record.load(state, who.name, who.uid)


def _each(
    wanted: Sequence[tuple[str, str]], do: Callable[[str, str], str], problems: dict[str, str]
) -> list[dict[str, str]]:
    done = []
    for kind, name in wanted:
        try:
            done.append({"kind": kind, "name": name, "words": do(kind, name)})
        # guard: what is odd about one volume stops no other
        except (NodeError, OSError) as error:
            problems[f"{kind} {name}"] = short(in_words(error), 1000)
    return done


def carry(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Carry images and volumes of root's daemon into a person's; containers are noted when all of theirs is there."""
    state = arguments.get("state", STATE)
    root, hers, who, place, moved = _both(arguments, state)
    problems: dict[str, str] = {}
    notes: list[str] = []

    def one(kind: str, name: str) -> str:
        if kind == "volume":
            return volumes.carry(root, hers, who, place, moved, state, name)
        tags, other, words = images.carry(root, hers, arguments["data"], name)
        notes.extend(f"{tag} is another image of theirs: kept" for tag in other)
        moved.images[name] = tags
        record.save(state, moved)
        return words

    parts = _each(_wanted(arguments), one, problems)
    if not problems:  # guard: a container is known as carried only with all that it has
        moved.containers.update(arguments["containers"])
        record.save(state, moved)
    return {"parts": parts, "problems": problems, "notes": notes}


def _wanted(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [*(("image", one) for one in arguments["images"]), *(("volume", one) for one in arguments["volumes"])]


def discard(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Remove from root's daemon what was carried, was named, and is as it was; the rest is kept, with the reason."""
    state = arguments.get("state", STATE)
    root, hers, who, place, moved = _both(arguments, state)
    problems: dict[str, str] = {}

    def one(kind: str, name: str) -> str:
        if kind == "container":
            _discard_container(root, moved, name)
        elif kind == "volume":
            _discard_volume(root, hers, who, place, moved, name)
        else:
            _discard_image(root, hers, moved, name)
        record.save(state, moved)
        return "removed"

    wanted = [*(("container", ident) for ident in arguments["containers"]), *reversed(_wanted(arguments))]
    return {"parts": _each(wanted, one, problems), "problems": problems, "notes": []}


def _discard_container(root: Daemon, moved: Moved, ident: str) -> None:
    if ident not in moved.containers:  # guard: a container that was not carried is not removed
        raise NodeError("was not carried")
    container = root.find(f"/containers/{ident}/json")
    if container is not None:
        if (container.get("State") or {}).get("Running"):  # guard: a container that runs is not removed
            raise NodeError(f"runs: docker stop {moved.containers[ident]}")
        root.ask("DELETE", f"/containers/{ident}")
    del moved.containers[ident]


def _discard_volume(root: Daemon, hers: Daemon, who: Person, place: str, moved: Moved, name: str) -> None:
    noted = moved.volumes.get(name)
    if noted is None or noted.step != DONE:  # guard: a volume that was not carried is not removed
        raise NodeError("was not carried")
    if root.find(f"/volumes/{name}") is not None:
        told, where = volumes.source(root, name)
        if not volumes.still(hers, who, place, name, noted):  # guard: a volume that is there once is kept
            raise NodeError(f"{who.name} no longer has it: it is the only one")
        # guard: a volume that a container has is kept
        if users := volumes.in_use(root, name, ended=True):
            raise NodeError(f"the container {users[0]} has it")
        if told.get("CreatedAt") != noted.created or volumes.manifest(where).checksum != noted.checksum:
            # guard: a volume that has changed since is kept
            raise NodeError("has changed since it was carried")
        root.ask("DELETE", f"/volumes/{name}")
    del moved.volumes[name]


def _discard_image(root: Daemon, hers: Daemon, moved: Moved, ident: str) -> None:
    if ident not in moved.images:  # guard: an image that was not carried is not removed
        raise NodeError("was not carried")
    image = root.find(f"/images/{ident}/json")
    if image is not None:
        if not images.there(hers, image):  # guard: an image that is there once is kept
            raise NodeError("the person no longer has it: it is the only one")
        images.discard(root, ident, moved.images[ident])
    del moved.images[ident]
