#!/usr/bin/python
"""gpuadmin.node.run_kept: run a module from the code that a host keeps.

This file goes to the host in each call, alone: it imports nothing of gpuadmin's or Ansible's before it has found code
that nobody but root can have written.
"""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: run_kept
short_description: Run a module from the code that a host keeps
version_added: "0.3.0"
description:
  - The action plugin gpuadmin.node.kept calls it in place of each other module.
  - It runs code of one digest only, from a directory that nobody but root can write.
  - Where there is none it does nothing, and says so in RV(kept). The action plugin sends it then, and calls again.
  - What it has run is compiled afterwards, and nobody waits for that.
options:
  digest:
    description: sha256 of the code, in hex.
    type: str
    required: true
  library:
    description: The directory that has a directory for each digest.
    type: path
    required: true
  name:
    description: The module's full name.
    type: str
    required: true
  arguments:
    description: The module's arguments, as base64 of deflated JSON.
    type: str
    required: true
extends_documentation_fragment:
  - gpuadmin.node.attributes
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at a host with the code that it keeps
  gpuadmin.node.run_kept:
    digest: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    library: /var/lib/gpuadmin/lib
    name: ansible_collections.gpuadmin.node.plugins.modules.host_status
    arguments: eNqrrgUAAXUA+Q==
"""

RETURN = r"""
kept:
  description:
    - Why nothing was done. V(new) where gpuadmin has nothing on the host yet, V(absent) where the code is not there.
    - Otherwise why its code is not run.
  returned: when the module was not run; otherwise the result is the module's
  type: str
  sample: absent
python:
  description: The Python that runs modules here.
  returned: with RV(kept)
  type: str
  sample: /usr/bin/python3
"""

import sys

if __name__ == "__main__":
    # where it is started is somebody's directory; Ansible's own wrapper leaves it out as well
    sys.path[:] = sys.path[1:]  # guard: root imports nothing from where somebody starts it

import base64
import fcntl
import importlib
import importlib.machinery
import json
import os
import stat
import zlib

ARGUMENTS = {
    "digest": {"type": "str", "required": True},
    "library": {"type": "path", "required": True},
    "name": {"type": "str", "required": True},
    "arguments": {"type": "str", "required": True},
}
#: Ansible puts the arguments here, as bytes of JSON, because this has the word <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>.
GIVEN = "<<INCLUDE_ANSIBLE_MODULE_COMPLEX_ARGS>>"
#: What whoever runs the code locks, shared, and whoever prunes it alone. Root's, so that nobody else can lock it.
LOCK = "ansible_collections/gpuadmin/node/plugins/module_utils/lock"
#: In the code that is kept: it compiles what has run.
COMPILED = "ansible_collections.gpuadmin.node.plugins.module_utils.compiled"


def unsafe(path: str) -> str | None:
    """Why somebody else than root could have written below ``path``; None where nobody could.

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
    """Why the code in ``path`` is not run; None where it is, and then it is locked until this process ends."""
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
    reason = refusal(path)
    if reason is not None:
        print(json.dumps({"changed": False, "kept": reason, "python": sys.executable}))
        return
    arguments = json.loads(zlib.decompress(base64.b64decode(given["arguments"])))
    arguments.update((key, value) for key, value in given.items() if key.startswith("_ansible_"))
    arguments["_ansible_module_name"] = given["name"]
    compiled: dict[str, bytes] = {}
    checks = bool(given.get("_ansible_check_mode"))  # guard: a look compiles nothing -> False

    def collect(_loader: object, cache: str, data: bytes, **_more: object) -> None:
        if cache.startswith(f"{path}/"):
            compiled[cache] = bytes(data)

    # Python's own way of writing it is not safe from a power cut
    # guard: Python writes no compiled code by itself where root's code is
    importlib.machinery.SourceFileLoader.set_data = collect  # type: ignore[assignment]
    sys.dont_write_bytecode = checks
    sys.path.insert(0, path)
    try:
        importlib.import_module("ansible.module_utils._internal._ansiballz._loader").run_module(
            json_params=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode(),
            profile="legacy",
            module_fqn=given["name"],
            modlib_path=path,
            extensions={},
        )
    finally:
        if not checks:
            importlib.import_module(COMPILED).after(path, compiled)


if __name__ == "__main__":
    main()
