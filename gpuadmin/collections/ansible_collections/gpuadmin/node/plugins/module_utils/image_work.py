"""One piece of work on images, as a named unit that outlives the controller: a request in, a result out, both files.

A second run finds the unit still active and waits for it instead of starting another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from . import build, image_prune, subvolumes
from .errors import NodeError
from .files import flocked, write_atomic
from .image_places import ImageSettings, Places, check_name, load_settings, write_json
from .manifest import choose_stream
from .switch import Switch, held_images, image_of, journal, load_manifest, records, run_switch

UNIT = "gpuadmin-image.service"
REQUEST, RESULT, PROGRESS = "image-request.json", "image-result.json", "image-progress"


@contextmanager
def mounted(places: Places, settings: ImageSettings, *, store: str | None) -> Iterator[None]:
    """The top level, and the store (``ro``, ``rw`` or None) for the block."""
    done = []
    try:
        if not os.path.ismount(places.top):
            os.makedirs(places.top, mode=0o700, exist_ok=True)
            subvolumes.run(("mount", "-t", "btrfs", "-o", "noatime,subvolid=5", device(), places.top), what="the disk")
            done.append(places.top)
        if store is not None:
            if not settings.store:
                raise NodeError("this node knows no image store: run gpuadmin prepare-root")
            os.makedirs(places.store, mode=0o700, exist_ok=True)
            if not os.path.ismount(places.store):
                # soft: a storage host that goes away ends in an error, not in a process that nothing ends
                options = f"{store},soft,timeo=100,retrans=2,vers=4.2,noatime,nosuid,nodev,noexec"
                subvolumes.run(
                    ("mount", "-t", "nfs4", "-o", options, settings.store, places.store), what="the image store"
                )
                done.append(places.store)
        yield
    finally:
        for path in reversed(done):
            subprocess.run(("umount", "-l", path), check=False, capture_output=True)


def device() -> str:
    """The block device of the running root."""
    with open("/proc/self/mountinfo", encoding="utf-8") as stream:
        found = [line.partition(" - ")[2].split()[1] for line in stream if line.split()[4] == "/"]
    return found[-1]


def work(request: Mapping[str, object], places: Places, say: Callable[[str], None]) -> dict[str, object]:
    """Do what a request says: {"action", "name", …}. Returns {"operations": […], "report": {…}}."""
    settings = load_settings(places)
    action, name = str(request["action"]), str(request.get("name") or "")
    handlers: dict[str, Callable[[], dict[str, object]]] = {
        "push": lambda: _push(places, settings, request, name, say),
        "rollback": lambda: _rollback(places, settings, say),
        "prune": lambda: {"operations": image_prune.prune_node(places, int(str(request.get("keep") or 2)))},
        "build": lambda: _build(places, settings, request, name, say),
        "finish": lambda: _finish(places, settings, request, name, say),
        "seal": lambda: _seal(places, settings, request, name, say),
        "publish": lambda: _publish(places, settings, request, name),
    }
    store = {"push": "ro", "seal": "rw", "publish": "rw"}.get(action)
    with mounted(places, settings, store=store):
        return handlers[action]()


def _push(
    places: Places, settings: ImageSettings, request: Mapping[str, object], name: str, say: Callable[[str], None]
) -> dict[str, object]:
    manifest = load_manifest(places, check_name(name), settings)
    done = run_switch(Switch(places, settings, manifest, full=bool(request.get("full")), say=say))
    return _switched(done)


def _switched(done: Switch) -> dict[str, object]:
    report = {"armed": done.target if done.seconds else None, "seconds": done.seconds}
    return {"operations": done.done, "report": {"switch": report}}


def _rollback(places: Places, settings: ImageSettings, say: Callable[[str], None]) -> dict[str, object]:
    target = rollback_target(places)
    if target is None:
        raise NodeError("there is no confirmed root before the one that runs; nothing to go back to")
    return _switched(run_switch(Switch(places, settings, target=target, kind="rollback", say=say)))


def rollback_target(places: Places) -> str | None:
    """The last confirmed root before the one that runs, if it is still there."""
    running = subvolumes.running_root(places).name
    for name in records(places)["confirmed"]:  # type: ignore[attr-defined]
        if name != running and subvolumes.inspect(places.in_top("roots", name)) is not None:
            return str(name)
    return None


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
    done = build.finish(places, name)
    if not request.get("trial", True):
        return {"operations": done}
    switched = run_switch(Switch(places, settings, target=name, kind="build", say=say))
    return {"operations": done + switched.done, "report": _switched(switched)["report"]}


def _seal(
    places: Places, settings: ImageSettings, request: Mapping[str, object], name: str, say: Callable[[str], None]
) -> dict[str, object]:
    uuid = build.seal(places, settings, name, tried=bool(request.get("trial", True)))
    parents = [str(one) for one in request.get("parents") or []]  # type: ignore[attr-defined]
    full = bool(request.get("full"))
    text = build.send(places, settings, name, parents, full=full, who=str(request.get("who")), say=say)
    streams = json.loads(text)["streams"]
    words = [f"sent {one['file']}, {int(one['bytes']) / 1e6:.1f} MB" for one in streams]
    return {"operations": [f"sealed image {name} (uuid {uuid})", *words], "report": {"manifest": text}}


def _publish(places: Places, settings: ImageSettings, request: Mapping[str, object], name: str) -> dict[str, object]:
    build.publish(places, settings, name, str(request["manifest"]), str(request["signature"]))
    return {"operations": [f"image {name} is complete in the store"]}


def observe(places: Places, settings: ImageSettings, manifest: object = None) -> dict[str, object]:
    """What a node has and runs, and what it would receive for an image. Changes nothing; the top level is mounted."""
    from .manifest import Manifest

    running = subvolumes.running_root(places)
    held = held_images(places)
    from .grubenv import read

    environment = read(places.boot)
    report: dict[str, object] = {
        "running": running.name,
        "current": environment.get("current", ""),
        "trial": environment.get("trial", ""),
        "image": image_of(places, running.name),
        "held": held,
        "roots": sorted(subvolumes.listing(places.in_top("roots"))),
        "confirmed": records(places)["confirmed"],
        "refused": records(places).get("refused", {}),
        "last": {key: value for key, value in journal(places).items() if key != "before"},
        "rollback": rollback_target(places),
        "people": people(settings),
        "drifted": not subvolumes.inspect(places.root).read_only if subvolumes.inspect(places.root) else None,  # type: ignore[union-attr]
    }
    roots, images = image_prune.plan_node(places)
    report["prunable"] = {"roots": roots, "images": images}
    if isinstance(manifest, Manifest):
        try:
            if held.get(manifest.name) == manifest.uuid:
                report["receives"] = {"bytes": 0, "parent": None, "held": True}
            else:
                stream = choose_stream(manifest, held)
                report["receives"] = {"bytes": stream.bytes, "parent": (stream.parent or (None,))[0], "held": False}
        except NodeError as error:
            report["problem"] = str(error)
    return report


def people(settings: ImageSettings) -> list[str]:
    """Names of people who are logged in (loginctl), without system accounts."""
    done = subprocess.run(("loginctl", "list-sessions", "--no-legend"), capture_output=True, text=True, check=False)
    names = set()
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1].isdigit() and settings.uid_first <= int(words[1]) <= settings.uid_last:
            names.add(words[2])
    return sorted(names)


def serve(places: Places) -> int:
    """What the unit runs: the request's work, and its result."""
    directory = places.run
    result: dict[str, object]
    try:
        with open(os.path.join(directory, REQUEST), encoding="utf-8") as stream:
            request = json.load(stream)

        def say(text: str) -> None:
            write_atomic(os.path.join(directory, PROGRESS), f"{text}\n".encode(), mode=0o644, sync=False)

        result = {"request": request["id"], "failed": False, **work(request, places, say)}
    except (NodeError, OSError, subprocess.SubprocessError) as error:
        print(f"Error: {error}", file=sys.stderr)
        result = {"request": request["id"], "failed": True, "msg": str(error), "operations": []}
    write_json(os.path.join(directory, RESULT), result)
    return 1 if result["failed"] else 0


def active() -> bool:
    done = subprocess.run(("systemctl", "is-active", UNIT), capture_output=True, text=True, check=False)
    return done.stdout.strip() in ("active", "activating", "deactivating", "reloading")


def start(
    request: Mapping[str, object], code: str, places: Places, python: str = "/usr/bin/python3"
) -> dict[str, object]:
    """Have the unit do a request and wait for its result. One that is at the same work already is waited for."""
    from .image_places import read_json

    path = os.path.join(places.run, REQUEST)
    os.makedirs(places.run, mode=0o755, exist_ok=True)
    if active():
        other = read_json(path) or {}
        if {key: value for key, value in other.items() if key not in ("id", "format")} != dict(request):
            raise NodeError(
                f"this node is at other work on images ({other.get('action')} {other.get('name')}); "
                f"wait for it, or stop it: systemctl stop {UNIT}"
            )
        identity = other.get("id")
    else:
        identity = f"{time.time():.3f}"
        write_json(path, {**request, "id": identity})
        subprocess.run(("systemctl", "reset-failed", UNIT), check=False, capture_output=True)
        # A build's mounts must be seen by the admin's own commands; those of a switch end with it, whatever ends it.
        private = "yes" if request["action"] in ("push", "rollback", "prune", "seal", "publish") else "no"
        subvolumes.run(
            ("systemd-run", f"--unit={UNIT}", "--collect", "--quiet", f"--property=PrivateMounts={private}",
             "--description=gpuadmin works on images", "--", python, "-I", f"{code}/cli.py", "image-work"),
            what="the work could not be started",
        )  # fmt: skip
    while active():
        time.sleep(0.3)
    result = read_json(os.path.join(places.run, RESULT)) or {}
    if result.get("request") != identity:
        raise NodeError(f"the work was ended from outside (journalctl -u {UNIT} tells more); run it again")
    return result
