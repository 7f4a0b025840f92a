#!/usr/bin/python
"""gpuadmin.node.diagnosis: why something does not work for a person or on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: diagnosis
short_description: Why something does not work for a person or on a host
version_added: "0.2.0"
description:
  - Looks at a person's account, keys, home, sessions and Docker, and at the host itself.
  - Each part is looked at by itself and has a deadline. One that does not answer is reported as unknown.
  - It changes nothing, follows no link in a home, and starts no daemon.
options:
  name:
    description: Whose account is looked at. Without it only the host is.
    type: str
  uid:
    description: The uid that the person has by the site.
    type: int
  node:
    description: Whether people log in here.
    type: bool
    default: true
  homes:
    description: The directory of all homes on this host.
    type: path
    default: /home
  docker:
    description: The directory of everybody's Docker data, where there is Docker.
    type: path
  servers:
    description: Names or addresses that this host must be able to find.
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
- name: Look for what keeps minji from working
  gpuadmin.node.diagnosis:
    name: minji
    uid: 20000
"""

RETURN = r"""
report:
  description: Under the key C(diagnosis), the facts by part, and C(unknown), by part why it is not known.
  returned: always
  type: dict
  sample: {diagnosis: {account: {passwd: null}, unknown: {home: did not end within 3 seconds}, late: [home]}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.collect import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

ARGUMENTS = {
    "name": {"type": "str"},
    "uid": {"type": "int"},
    "node": {"type": "bool", "default": True},
    "homes": {"type": "path", "default": "/home"},
    "docker": {"type": "path"},
    "servers": {"type": "list", "elements": "str", "default": []},
    **STATE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        facts = collect(parse(module.params))
    except (NodeError, OSError) as error:
        module.fail_json(msg=str(error), report={"problems": [str(error)]})
        return
    module.exit_json(changed=False, report={"diagnosis": facts})


if __name__ == "__main__":
    main()
