"""The jobs on images and roots: one table of steps, each done in the unit gpuadmin-image.service.

The module image_job makes a request of a step; the unit finds its function in the table, mounts and calls it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuadmin.common.records.images import ImageOrder, ImageSettings
from gpuadmin.common.text import size_words

from .. import btrfs
from ..background import Job, progress_writer
from ..errors import NodeError
from ..files import flocked
from ..paths import RUN
from . import build, chain_key, prune, publish, trial
from .mounting import mounted
from .observe import rollback_target
from .places import Places, boot_id, check_name, load_settings
from .records import journal, load_manifest
from .switch import Switch, run_switch

#: The unit is gpuadmin-image.service.
UNIT = "image"


@dataclass(frozen=True)
class Call:
    """What a step is called with. ``progress`` is called with how far it is."""

    places: Places
    settings: ImageSettings
    order: ImageOrder
    progress: Callable[[str], None]


@dataclass(frozen=True)
class Step:
    """``function`` returns {"operations": […], "report": {…}}. ``store``: how the image store is mounted for it.

    ``shared_mounts``: a build's mounts are seen by the admin's own commands, and ended where they were made; those of
    other steps are their own, and end with them, whatever ends them.
    """

    function: Callable[[Call], dict[str, object]]
    store: str | None = None
    shared_mounts: bool = False


def job(order: ImageOrder, base: str = RUN) -> Job:
    """The job that is ordered. One of the same action and name is the same job."""
    private = "no" if STEPS[order.action].shared_mounts else "yes"
    same = {"action": order.action, "name": order.name}
    title = f"{order.action} {order.name}".strip()
    return Job(UNIT, step, order, title, same, (f"PrivateMounts={private}",), base)


def step(order: ImageOrder) -> dict[str, object]:
    """What the unit calls."""
    progress = progress_writer(UNIT)
    progress("beginning")
    return carry_out(order, Places(), progress)


def carry_out(order: ImageOrder, places: Places, progress: Callable[[str], None]) -> dict[str, object]:
    """Do what is ordered, with the disk and the store mounted."""
    settings = load_settings(places)
    if order.options.deadline:
        settings = replace(settings, deadline=order.options.deadline)
    wanted = STEPS[order.action]
    try:
        with mounted(places, settings, store=wanted.store):
            return wanted.function(Call(places, settings, order, progress))
    finally:
        if order.action == "push":
            chain_key.remove(places)  # guard: the key goes when the push is over


def _push(call: Call) -> dict[str, object]:
    order, manifest = call.order, load_manifest(call.places, check_name(call.order.name), call.settings)
    link = order.link if order.link.port else None
    switch = Switch(call.places, call.settings, manifest, full=order.options.full, link=link, progress=call.progress)
    return _switched(run_switch(switch))


def _switched(done: Switch) -> dict[str, object]:
    report = {"armed": done.next_root, "booted": done.booted, "seconds": done.seconds}
    return {"operations": done.done, "report": {"switch": report}}


def _rollback(call: Call) -> dict[str, object]:
    places = call.places
    last = journal(places)
    if last.get("stage") == "pending" and last.get("boot_id") == boot_id(places):
        with flocked(os.path.join(places.run, "image.lock"), 5.0):
            return {"operations": [trial.call_off(places)]}
    target = rollback_target(places)
    if target is None:
        raise NodeError("there is no confirmed root before the one that runs; nothing to go back to")
    return _switched(run_switch(Switch(places, call.settings, target=target, kind="rollback", progress=call.progress)))


def _prune(call: Call) -> dict[str, object]:
    return {"operations": prune.prune_node(call.places, call.order.options.keep or 2)}


def _build(call: Call) -> dict[str, object]:
    places, options = call.places, call.order.options
    with flocked(os.path.join(places.run, "image.lock"), 5.0):
        done = build.prepare(places, call.settings, call.order.name)
        try:
            done += build.change(places, options.packages, options.upgrade, call.progress)
        except BaseException:
            build.leave(places)
            raise
    return {"operations": done}


def _finish(call: Call) -> dict[str, object]:
    places, name = call.places, call.order.name
    # one that was cut off after it was named goes on here
    named = btrfs.inspect(places.in_top("roots", name)) is not None
    done = [] if named else build.finish(places, call.settings, name)
    if not call.order.options.trial:
        return {"operations": done}
    switched = run_switch(Switch(places, call.settings, target=name, kind="build", progress=call.progress))
    return {"operations": done + switched.done, "report": _switched(switched)["report"]}


def _seal(call: Call) -> dict[str, object]:
    places, options, name = call.places, call.order.options, call.order.name
    uuid = publish.seal(places, call.settings, name, tried=options.trial)
    text = publish.send(
        places, call.settings, name, options.parents, full=options.full, who=options.who, progress=call.progress,
        protocol=options.protocol or 1,
    )  # fmt: skip
    streams = json.loads(text)["streams"]
    sent = [f"sent {one['file']}, {size_words(int(one['bytes']))}" for one in streams]
    return {"operations": [f"sealed image {name} (uuid {uuid})", *sent], "report": {"manifest": text}}


def _publish(call: Call) -> dict[str, object]:
    order, options = call.order, call.order.options
    publish.publish(call.places, call.settings, order.name, options.manifest, options.signature)
    return {"operations": [f"image {order.name} is complete in the store"]}


STEPS: Mapping[str, Step] = {
    "push": Step(_push, store="ro"),
    "rollback": Step(_rollback),
    "prune": Step(_prune),
    "build": Step(_build, shared_mounts=True),
    "finish": Step(_finish, shared_mounts=True),
    "seal": Step(_seal, store="rw"),
    "publish": Step(_publish, store="rw"),
}
