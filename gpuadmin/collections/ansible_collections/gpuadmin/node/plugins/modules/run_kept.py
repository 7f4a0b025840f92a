#!/usr/bin/python
"""gpuadmin.node.run_kept: run a module from the code that a host keeps.

This file goes to the host in each call, alone: it imports nothing of gpuadmin's or Ansible's before it has found code
that only root can have written. Its arguments are where Ansible puts those of a "JSON args" module.
"""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: run_kept
short_description: Run a module from the code that a host keeps
version_added: "0.3.0"
description:
  - The action plugin gpuadmin.node.kept calls it for every other module, so that their code is sent to a host and compiled
    there once, and not in each call.
  - It runs code of one digest only, from a directory below C(/var/lib/gpuadmin/lib) that nobody but root can write.
  - Where there is none it does nothing, and says so in RV(kept).
options:
  digest:
    description: sha256 of the code, in hex.
    type: str
    required: true
  name:
    description: The full name of the module.
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
    name: ansible_collections.gpuadmin.node.plugins.modules.host_status
    arguments: eJyrrgUAAXUA+Q==
"""

RETURN = r"""
kept:
  description: >-
    Why nothing was done: V(new), the host has no state directory yet; V(absent), it has not got that code; otherwise why
    its code is not run.
  returned: when the module was not run; otherwise the result is the module's
  type: str
  sample: absent
"""

import sys

# the current directory is somebody's; Ansible's own wrapper leaves it out as well
sys.path = [path for path in sys.path if path not in {"", "."}]

import base64
import fcntl
import importlib
import json
import os
import re
import stat
import zlib

ARGUMENTS = {
    "digest": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "arguments": {"type": "str", "required": True},
}
STATE = "/var/lib/gpuadmin"
#: Ansible puts the arguments here, as bytes of JSON. It does so for files that have <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>.
GIVEN = "<<INCLUDE_ANSIBLE_MODULE_COMPLEX_ARGS>>"


def unsafe(path: str, owner: int = 0) -> str | None:
    """Why somebody else than root could have written below ``path``; None where nobody could.

    Looks at each directory above it, too: whoever can write there can exchange it.
    """
    at = "/"
    for part in ("", *path.strip("/").split("/")):
        at = os.path.join(at, part)
        facts = os.lstat(at)
        sticky = facts.st_mode & stat.S_ISVTX and at != path
        if not stat.S_ISDIR(facts.st_mode):
            return f"{at} is not a directory"
        if facts.st_uid not in {0, owner}:
            return f"{at} is not root's"
        if facts.st_mode & 0o022 and not sticky:
            return f"{at} can be written by others than root"
    return None


def refusal(path: str, digest: str, state: str = STATE) -> str | None:
    """Why the code in ``path`` is not run; None where it is. Locks it then, until this process ends."""
    if os.geteuid() != 0:
        return "new"
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        return "the digest is no sha256"
    if not os.path.isdir(state):
        return "new"
    try:
        reason = unsafe(path)
        if reason is None:
            # closed by nobody: what is locked is not pruned
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle), os.lstat(path)):
                return "absent"
    except (FileNotFoundError, BlockingIOError):  # never there, or about to be pruned
        return "absent"
    return reason


def main(state: str = STATE) -> None:
    given = json.loads(GIVEN)
    path = f"{state}/lib/{given['digest']}.{sys.implementation.cache_tag}"
    reason = refusal(path, given["digest"], state)
    if reason is not None:
        print(json.dumps({"changed": False, "kept": reason}))
        return
    arguments = json.loads(zlib.decompress(base64.b64decode(given["arguments"])))
    arguments.update((key, value) for key, value in given.items() if key.startswith("_ansible_"))
    arguments["_ansible_module_name"] = given["name"]
    sys.dont_write_bytecode = True  # what is kept stays as it was written
    sys.path.insert(0, path)
    importlib.import_module("ansible.module_utils._internal._ansiballz._loader").run_module(
        json_params=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode(),
        profile="legacy",
        module_fqn=given["name"],
        modlib_path=path,
        extensions={},
    )


if __name__ == "__main__":
    main()
