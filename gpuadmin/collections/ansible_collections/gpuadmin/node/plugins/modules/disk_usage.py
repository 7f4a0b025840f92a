#!/usr/bin/python
"""gpuadmin.node.disk_usage: what people's files take on a host's disks, as it was measured last."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: disk_usage
short_description: What people's files take on a host's disks, as it was measured last
version_added: "0.3.0"
description:
  - Reads what C(gpuadmin-disk-usage.service) measured; nothing is walked for it.
  - It changes nothing.
options:
  names:
    description: Only these people; empty for everybody.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.state
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: See what fills the homes
  gpuadmin.node.disk_usage:
    names: [minji]
"""

RETURN = r"""
report:
  description: >-
    Under the key C(disk), C(places) (C(name), C(path), C(by_owner)), and C(people): by name and place, C(bytes),
    C(inodes), C(when) (seconds since 1970), C(partial), and C(largest), the largest directories with C(path), C(bytes)
    and C(inodes).
  returned: always
  type: dict
  sample: {disk: {people: {minji: {homes: {bytes: 5, inodes: 1}}}}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.command import report
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import in_state
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words

ARGUMENTS = {
    "names": {"type": "list", "elements": "str", "default": []},
    **STATE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    state = module.params["state_directory"]
    try:
        found = report(state, in_state(state), module.params["names"])
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error))
        return
    module.exit_json(changed=False, report={"disk": found})


if __name__ == "__main__":
    main()
