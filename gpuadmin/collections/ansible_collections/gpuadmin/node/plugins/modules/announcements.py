#!/usr/bin/python
"""gpuadmin.node.announcements: what people on a host read when they log in."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: announcements
short_description: Have announcements that people read when they log in
version_added: "0.3.0"
description:
  - Records the announcements of a host, and shows those that hold now in C(/run/motd.d).
  - The node shows and removes them by itself when their time comes, by C(gpuadmin-announcements.timer).
options:
  entries:
    description: All announcements that this host is to have; others are taken back.
    type: list
    elements: dict
    required: true
    suboptions:
      id:
        description: Which one it is.
        type: str
        required: true
      begin:
        description: From when on it holds, in seconds since the epoch.
        type: int
        required: true
      end:
        description: Until when.
        type: int
        required: true
      text:
        description: What people read.
        type: str
        required: true
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.state
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Tell people that the power will be off
  gpuadmin.node.announcements:
    entries:
      - id: 1f2e3d4c
        begin: 1795219200
        end: 1795824000
        text: No power on Saturday, 28 November, from 9 to 18.
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: [announce 1f2e3d4c]
report:
  description: C(problems), where there are any.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import announcements

ARGUMENTS = {
    "entries": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "id": {"type": "str", "required": True},
            "begin": {"type": "int", "required": True},
            "end": {"type": "int", "required": True},
            "text": {"type": "str", "required": True},
        },
    },
    **STATE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)

    def answer() -> Answer:
        wanted = announcements.parse(module.params["entries"])
        done = announcements.converge(wanted, check=module.check_mode, directory=module.params["state_directory"])
        return Answer(done, {"problems": []})

    give(module, answer)


if __name__ == "__main__":
    main()
