#!/usr/bin/python
"""gpuadmin.node.operation: run an operation from the code that a host keeps, or from the code that came with the call.

This file goes to the host in each call, alone: it imports nothing of gpuadmin's before it has found code that nobody
but root can have written, and nothing of Ansible's at all. JSON comes in, and JSON goes out.
"""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: operation
short_description: Run an operation of gpuadmin's on a host
version_added: "0.4.0"
description:
  - All operations of this collection have names of their own, as C(gpuadmin.node.accounts), and lead here. What each
    takes is a dataclass in C(operations.py) of its room in C(plugins/module_utils).
  - An action plugin calls it with the digest of the code that is to run, and with the operation's document.
  - It runs code of one digest only, from a directory that nobody but root can write.
  - Where there is none it does nothing, and says so in RV(kept). The action plugin sends it then, and calls again.
  - What it has run is compiled afterwards, and nobody waits for that.
options:
  operation:
    description: The operation's name.
    type: str
    required: true
  document:
    description: The operation's document, as base64 of deflated JSON.
    type: str
    required: true
  digest:
    description: sha256 of the code, in hex.
    type: str
    required: true
  library:
    description: The directory that has a directory for each digest.
    type: path
    required: true
  code:
    description: The code, as base64 of deflated JSON, for a host that is not to keep it.
    type: str
attributes:
  check_mode:
    description: Says what would be done, and changes nothing.
    support: full
  diff_mode:
    description: Returns what differs, where an operation has something to show.
    support: full
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Tell everybody on a host something
  gpuadmin.node.tell:
    message: The room is too hot. This host is switched off in ten minutes.
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: when the operation was run
  type: list
  elements: str
  sample: ["user minji: create uid 20001"]
report:
  description: What the operation found; C(gpuadmin/ansible/reports.py) parses it.
  returned: when the operation was run
  type: dict
  sample: {problems: []}
kept:
  description:
    - Why nothing was done. V(new) where gpuadmin has nothing on the host yet, V(absent) where the code is not there.
    - Otherwise why its code is not run.
  returned: when the operation was not run
  type: str
  sample: absent
python:
  description: The Python that runs operations here.
  returned: with RV(kept)
  type: str
  sample: /usr/bin/python3
"""

import sys

if __name__ == "__main__":
    # it may start in somebody's directory; Ansible's own wrapper leaves it out as well
    sys.path[:] = sys.path[1:]  # guard: root imports nothing from where somebody starts it

import base64
import fcntl
import importlib
import importlib.machinery
import json
import os
import stat
import zlib

#: Ansible puts the arguments here, as bytes of JSON, because this has the word <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>.
GIVEN = "<<INCLUDE_ANSIBLE_MODULE_COMPLEX_ARGS>>"
#: What runners of the code lock, shared, and its pruner alone. Root's, so that nobody else can lock it.
LOCK = "ansible_collections/gpuadmin/node/plugins/module_utils/lock"
#: The code, as Python imports it.
CODE = "ansible_collections.gpuadmin.node.plugins.module_utils"


def unsafe(path: str) -> str | None:
    """Why somebody else than root could have written below ``path``; None if nobody could.

    Each directory above it counts: whoever can write there can exchange what is in it.
    """
    at = ""
    for part in path.split("/"):
        at = f"{at.rstrip('/')}/{part}"
        facts = os.lstat(at)  # guard: code behind a link is not run -> os.stat(at)
        if not stat.S_ISDIR(facts.st_mode):
            return f"{at} is not a directory"
        if facts.st_uid != 0:  # guard: code that is not root's is not run
            return f"{at} is not root's"
        # guard: code that others can write is not run
        if facts.st_mode & 0o022 and not (
            facts.st_mode & stat.S_ISVTX
            # guard: code to which anybody can add is not run
            and at != path
        ):
            return f"{at} can be written by others than root"
    return None


def refusal(path: str) -> str | None:
    """Why the code in ``path`` is not run; None if it is, and then it is locked until this process ends."""
    if os.geteuid() != 0 or not os.path.isdir(os.path.dirname(os.path.dirname(path))):
        return "new"
    try:
        reason = unsafe(path)
        if reason is None:
            # closed by nobody: what is locked is not pruned
            handle = os.open(os.path.join(path, LOCK), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # guard: what is run is locked
            # guard: code that was pruned before it was locked is not run
            os.lstat(path)  # it may have been pruned right before
    except (FileNotFoundError, BlockingIOError):
        return "absent"
    return reason


def main() -> None:
    given = json.loads(GIVEN)
    path = os.path.join(given["library"], f"{given['digest']}.{sys.implementation.cache_tag}")
    checks = bool(given.get("_ansible_check_mode"))  # guard: a look compiles nothing -> False
    compiled: dict[str, bytes] = {}
    if given.get("code"):
        arrive(unpacked(given["code"]))
    else:
        reason = refusal(path)
        if reason is not None:
            print(json.dumps({"changed": False, "kept": reason, "python": sys.executable}))
            return

        def collect(_loader: object, cache: str, data: bytes, **_more: object) -> None:
            if cache.startswith(f"{path}/"):
                compiled[cache] = bytes(data)

        # Python's own way of writing it is not safe from a power cut
        # guard: Python writes no compiled code by itself where root's code is
        importlib.machinery.SourceFileLoader.set_data = collect  # type: ignore[assignment]
        sys.path.insert(0, path)
    sys.dont_write_bytecode = checks
    run = importlib.import_module(f"{CODE}.operation").run
    try:
        print(json.dumps(run(given["operation"], json.loads(unpacked(given["document"])), check=checks)))
    finally:
        if compiled:
            importlib.import_module(f"{CODE}.compiled").after(path, compiled)


def unpacked(text: str) -> str:
    return zlib.decompress(base64.b64decode(text)).decode()


def arrive(text: str) -> None:
    """Have imports find the code in ``text``, a JSON mapping of path to source."""
    files = json.loads(text)
    names: dict[str, object] = {"__name__": "arriving"}
    exec(files[f"{CODE.replace('.', '/')}/arriving.py"], names)
    sys.meta_path.insert(0, names["Arrived"](files))  # type: ignore[operator]  # the class there


if __name__ == "__main__":
    main()
