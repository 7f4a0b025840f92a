#!/usr/bin/python
"""gpuadmin.node.host_status: what an admin wants to know of a host every day."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_status
short_description: What an admin wants to know of a host every day
version_added: "0.2.0"
description:
  - Looks at who is on the host, its GPUs, disks, newest backup and image, as far as the arguments name them.
  - A part that cannot be looked at is reported as unknown, with the reason; the others are answered.
  - It changes nothing, and waits for no file server that is away.
options:
  disks:
    description: Disks to look at.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: What it is called in the report.
        type: str
        required: true
      path:
        description: A path that is on it, or would be.
        type: path
        required: true
  backups:
    description: Directory of backups, where this host has one.
    type: path
  node:
    description: Whether people log in here; then there are people, GPUs and images to look at.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.uids
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at a node
  gpuadmin.node.host_status:
    uid_first: 20000
    uid_last: 49999
    disks: [{name: docker, path: /local/.docker}]
    node: true
"""

RETURN = r"""
report:
  description: Under the key C(status), each part that the host has, and C(unknown), by part why it is not known.
  returned: always
  type: dict
  sample: {status: {people: [minji], gpus: ["0000:01:00.0 nvidia"], disks: {}, unknown: {}}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import status
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import UIDS

ARGUMENTS = {
    **UIDS,
    "disks": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "path": {"type": "path", "required": True}},
    },
    "backups": {"type": "path"},
    "node": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    disks = {one["name"]: one["path"] for one in module.params["disks"]}
    module.exit_json(changed=False, report={"status": status.collect(**{**module.params, "disks": disks})})


if __name__ == "__main__":
    main()
