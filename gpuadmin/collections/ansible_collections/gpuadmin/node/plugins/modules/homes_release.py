#!/usr/bin/python
"""gpuadmin.node.homes_release: a node lets the homes go, before their server is switched off."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: homes_release
short_description: End what people run, and unmount the homes until the next boot
version_added: "0.3.0"
description:
  - Ends what people still run on the host, containers included, and unmounts the homes and their automount.
  - Fails where they are still mounted afterwards. The next boot mounts them again.
options:
  path:
    description: Where the homes are mounted.
    type: path
    required: true
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.uids
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Let the homes go
  gpuadmin.node.homes_release:
    path: /home
    uid_first: 20000
    uid_last: 49999
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: [unmount /home]
report:
  description: C(problems), where there are any.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import power
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import UIDS

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    **UIDS,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    give(module, lambda: Answer(power.release(**module.params, check=module.check_mode), {"problems": []}))


if __name__ == "__main__":
    main()
