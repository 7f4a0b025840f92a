#!/usr/bin/python
"""gpuadmin.node.node_code: the node-side code, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_code
short_description: Install the node-side code
version_added: "0.1.0"
description:
  - Writes a directory of Python files, each atomically, and removes those that are no longer part of it.
  - One call for all files; a directory copied file by file costs two round trips each.
options:
  directory:
    description: Where the files go. It belongs to them alone.
    type: path
    default: /var/lib/gpuadmin/lib/gpuadmin_node
  files:
    description: File names and their text.
    type: dict
    required: true
attributes:
  check_mode:
    description: The plan of check mode is made by the code that does the work.
    support: full
  diff_mode:
    description: The names of the files that differ.
    support: full
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Install the node-side code
  gpuadmin.node.node_code:
    files:
      __init__.py: ""
      cli.py: "print('hello')\n"
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["node-side code: write cli.py"]
"""

import os
import re
import shutil

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import (
    make_directory,
    read_bytes,
    sync_filesystem,
    write_atomic,
)

ARGUMENTS = {
    "directory": {"type": "path", "default": "/var/lib/gpuadmin/lib/gpuadmin_node"},
    "files": {"type": "dict", "required": True},
}
NAME = re.compile(r"[a-z_][a-z0-9_]*\.py")


def plan(directory: str, files: dict[str, str]) -> tuple[list[str], list[str]]:
    """Given the files to have, return the names to write and the names to remove."""
    for name in files:
        if not NAME.fullmatch(name):
            raise NodeError(f"{name!r} is no name of a Python file")
    write = [name for name in sorted(files) if read_bytes(os.path.join(directory, name)) != files[name].encode()]
    there = os.listdir(directory) if os.path.isdir(directory) else []
    return write, [name for name in sorted(there) if name not in files]


def install(directory: str, files: dict[str, str], write: list[str], remove: list[str]) -> None:
    """Do what `plan` said. New files come before old ones go, and all are on disk at the end."""
    parts = [directory]
    while not os.path.isdir(parts[-1]):
        parts.append(os.path.dirname(parts[-1]))
    for part in reversed(parts):
        make_directory(part, 0o755)
    for name in write:
        write_atomic(os.path.join(directory, name), files[name].encode(), mode=0o644, sync=False)
    for name in remove:
        path = os.path.join(directory, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    sync_filesystem(directory)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    directory, files = module.params["directory"], module.params["files"]
    try:
        write, remove = plan(directory, files)
        if (write or remove) and not module.check_mode:
            install(directory, files, write, remove)
    except (NodeError, OSError) as error:
        module.fail_json(msg=str(error), operations=[])
        return
    operations = [f"node-side code: write {name}" for name in write]
    operations += [f"node-side code: remove {name}" for name in remove]
    module.exit_json(
        changed=bool(operations),
        operations=operations,
        diff={"before": "", "after": "".join(f"{operation}\n" for operation in operations)},
    )


if __name__ == "__main__":
    main()
