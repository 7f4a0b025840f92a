#!/usr/bin/python
"""gpuadmin.node.tell: people on a host read a message on their terminals."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: tell
short_description: Tell people something on their terminals
version_added: "0.2.0"
description:
  - Writes a message to all terminals that somebody uses, those of ssh and tmux included.
options:
  message:
    description: What they read.
    type: str
    required: true
attributes:
  check_mode:
    description: Tells nobody.
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Tell who is logged in
  gpuadmin.node.tell:
    message: This node reboots now.
"""

RETURN = r"""
terminals:
  description: How many took it.
  returned: always
  type: int
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.logins import terminals

ARGUMENTS = {"message": {"type": "str", "required": True}}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    reached = 0 if module.check_mode else terminals.tell(module.params["message"])
    module.exit_json(changed=False, terminals=reached)


if __name__ == "__main__":
    main()
