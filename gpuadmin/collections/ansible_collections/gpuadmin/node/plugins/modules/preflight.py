#!/usr/bin/python
"""gpuadmin.node.preflight: what keeps roles from working on a host. Its action plugin does all of it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: preflight
short_description: What keeps roles from working on a host, all of it, before any of them changes it
version_added: "0.4.0"
description:
  - Reads C(meta/preflight.yml) of the role that it is a task of, or of all roles that its playbook runs on the host.
  - There, C(look) names files of the role's tasks whose modules are asked in check mode; C(variables) a file in
    C(vars); C(obstacles) what must hold, each with C(that), C(say), and C(when), C(loop) or C(stops) where needed.
  - The roles' variables are checked by their argument_specs.
  - Fails with all obstacles at once. What modules say of single people (C(look_when_held)) is added to them, and holds
    no host by itself.
  - Nothing is changed. An action plugin does all of it.
options:
  playbook:
    description: Whether all roles of the playbook are meant that are run whole on this host.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look for whatever is in the way, of all roles
  gpuadmin.node.preflight:
    playbook: true
"""

RETURN = r"""
obstacles:
  description: What is in the way, a sentence each.
  returned: failure
  type: list
  elements: str
  sample: ["minji: in the group docker, which is as good as root on this host."]
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {"playbook": {"type": "bool", "default": False}}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    module.fail_json(msg="gpuadmin.node.preflight is an action of the controller: run it as a task")


if __name__ == "__main__":
    main()
