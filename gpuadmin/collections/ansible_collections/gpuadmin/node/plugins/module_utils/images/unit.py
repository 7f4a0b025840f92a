"""One piece of work on images, as a named unit that outlives the controller: a request in, a result out, both files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..units import start_unit
from .places import Places, read_json, write_json
from .work import work

UNIT = "gpuadmin-image.service"
REQUEST, RESULT, PROGRESS = "image-request.json", "image-result.json", "image-progress"
#: A build's mounts are seen by the admin's own commands, and ended where they were made; those of other work are its
#: own, and end with it, whatever ends it.
SHARED_MOUNTS = ("build", "finish")


def serve(places: Places) -> int:
    """What the unit runs: the request's work, and its result."""
    request = read_json(os.path.join(places.run, REQUEST)) or {}
    result: dict[str, object]

    def say(text: str) -> None:
        write_atomic(os.path.join(places.run, PROGRESS), f"{text}\n".encode(), mode=0o644, sync=False)

    try:
        say("beginning")
        result = {"request": request["id"], "failed": False, **work(request, places, say)}
    except (NodeError, OSError, subprocess.SubprocessError) as error:
        print(f"Error: {error}", file=sys.stderr)
        result = {"request": request.get("id"), "failed": True, "msg": str(error), "operations": []}
    write_json(os.path.join(places.run, RESULT), result)
    return 1 if result["failed"] else 0


def active() -> bool:
    """Whether the unit works."""
    done = subprocess.run(("systemctl", "is-active", UNIT), capture_output=True, text=True, check=False)
    return done.stdout.strip() in ("active", "activating", "deactivating", "reloading")


def attend(
    request: Mapping[str, object], identity: str, code: str, places: Places, *, wait: float, python: str
) -> dict[str, object]:
    """Have the unit do a request, or look how far it is; return within some ``wait`` seconds.

    ``{"finished": False, "progress": words}`` until it has ended, then its result with ``finished``. The identity is
    the same in every call of one run, so that the unit is started once. One that an earlier run started for the very
    same is waited for; what it did is then found done.
    """
    path, result_path = os.path.join(places.run, REQUEST), os.path.join(places.run, RESULT)
    result = read_json(result_path) or {}
    if result.get("request") == identity:
        return {**result, "finished": True}
    known = read_json(path) or {}
    if active():
        if any(known.get(key) != request.get(key) for key in ("action", "name")):
            raise NodeError(
                f"this node is at other work on images ({known.get('action')} {known.get('name') or ''}); "
                f"wait for it, or stop it: systemctl stop {UNIT}"
            )
    elif known.get("id") == identity:
        raise NodeError(f"the work was ended from outside (journalctl -u {UNIT} tells more); run it again")
    else:
        _start(request, identity, code, places, python)
    end = time.monotonic() + wait
    while active() and time.monotonic() < end:
        time.sleep(0.5)
    result = read_json(result_path) or {}
    if result.get("request") == identity:
        return {**result, "finished": True}
    said = read_bytes(os.path.join(places.run, PROGRESS)) or b""
    return {"finished": False, "progress": said.decode("utf-8", "replace").strip()}


def _start(request: Mapping[str, object], identity: str, code: str, places: Places, python: str) -> None:
    os.makedirs(places.run, mode=0o755, exist_ok=True)
    write_json(os.path.join(places.run, REQUEST), {**request, "id": identity})
    private = "no" if request["action"] in SHARED_MOUNTS else "yes"
    start_unit(UNIT, private, "gpuadmin works on images", (python, "-I", f"{code}/cli.py", "image-work"))
