"""What can be asked of a node about images: each piece of work by its name, with the disk and the store mounted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..errors import NodeError
from ..files import flocked
from ..words import size_words
from . import build, chain_key, prune, publish, subvolumes, trial
from .mounting import mounted
from .observe import rollback_target
from .places import ImageSettings, Places, boot_id, check_name, load_settings
from .records import journal, load_manifest
from .relay import link_from
from .switch import Switch, run_switch


def work(request: Mapping[str, object], places: Places, say: Callable[[str], None]) -> dict[str, object]:
    """Do what a request says: {"action", "name", …}. Returns {"operations": […], "report": {…}}."""
    settings = load_settings(places)
    if request.get("deadline"):
        settings = replace(settings, deadline=int(str(request["deadline"])))
    action, name = str(request["action"]), str(request.get("name") or "")
    handlers: dict[str, Callable[[], dict[str, object]]] = {
        "push": lambda: _push(places, settings, request, name, say),
        "rollback": lambda: _rollback(places, settings, say),
        "prune": lambda: {"operations": prune.prune_node(places, int(str(request.get("keep") or 2)))},
        "build": lambda: _build(places, settings, request, name, say),
        "finish": lambda: _finish(places, settings, request, name, say),
        "seal": lambda: _seal(places, settings, request, name, say),
        "publish": lambda: _publish(places, settings, request, name),
    }
    store = {"push": "ro", "seal": "rw", "publish": "rw"}.get(action)
    try:
        with mounted(places, settings, store=store):
            return handlers[action]()
    finally:
        if action == "push":
            chain_key.remove(places)


def _push(
    places: Places, settings: ImageSettings, request: Mapping[str, object], name: str, say: Callable[[str], None]
) -> dict[str, object]:
    manifest = load_manifest(places, check_name(name), settings)
    done = run_switch(
        Switch(places, settings, manifest, full=bool(request.get("full")), link=link_from(request.get("link")), say=say)
    )
    return _switched(done)


def _switched(done: Switch) -> dict[str, object]:
    report = {"armed": done.armed, "booted": done.booted, "seconds": done.seconds}
    return {"operations": done.done, "report": {"switch": report}}


def _rollback(places: Places, settings: ImageSettings, say: Callable[[str], None]) -> dict[str, object]:
    last = journal(places)
    if last.get("stage") == "pending" and last.get("boot_id") == boot_id(places):
        with flocked(os.path.join(places.run, "image.lock"), 5.0):
            return {"operations": [trial.call_off(places)]}
    target = rollback_target(places)
    if target is None:
        raise NodeError("there is no confirmed root before the one that runs; nothing to go back to")
    return _switched(run_switch(Switch(places, settings, target=target, kind="rollback", say=say)))


def _build(
    places: Places, settings: ImageSettings, request: Mapping[str, object], name: str, say: Callable[[str], None]
) -> dict[str, object]:
    with flocked(os.path.join(places.run, "image.lock"), 5.0):
        done = build.prepare(places, settings, name)
        packages = [str(one) for one in request.get("packages") or []]  # type: ignore[attr-defined]
        try:
            done += build.change(places, packages, bool(request.get("upgrade")), say)
        except BaseException:
            build.leave(places)
            raise
    return {"operations": done}


def _finish(
    places: Places, settings: ImageSettings, request: Mapping[str, object], name: str, say: Callable[[str], None]
) -> dict[str, object]:
    # one that was cut off after it was named goes on here
    named = subvolumes.inspect(places.in_top("roots", name)) is not None
    done = [] if named else build.finish(places, name)
    if not request.get("trial", True):
        return {"operations": done}
    switched = run_switch(Switch(places, settings, target=name, kind="build", say=say))
    return {"operations": done + switched.done, "report": _switched(switched)["report"]}


def _seal(
    places: Places, settings: ImageSettings, request: Mapping[str, object], name: str, say: Callable[[str], None]
) -> dict[str, object]:
    uuid = publish.seal(places, settings, name, tried=bool(request.get("trial", True)))
    parents = [str(one) for one in request.get("parents") or []]  # type: ignore[attr-defined]
    full = bool(request.get("full"))
    protocol = int(str(request.get("protocol") or 1))
    text = publish.send(
        places, settings, name, parents, full=full, who=str(request.get("who")), say=say, protocol=protocol
    )
    streams = json.loads(text)["streams"]
    words = [f"sent {one['file']}, {size_words(int(one['bytes']))}" for one in streams]
    return {"operations": [f"sealed image {name} (uuid {uuid})", *words], "report": {"manifest": text}}


def _publish(places: Places, settings: ImageSettings, request: Mapping[str, object], name: str) -> dict[str, object]:
    publish.publish(places, settings, name, str(request["manifest"]), str(request["signature"]))
    return {"operations": [f"image {name} is complete in the store"]}
