#!/usr/bin/python
"""gpuadmin.node.docker_restart: restart somebody's own Docker daemon."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: docker_restart
short_description: Restart somebody's own Docker daemon
version_added: "0.2.0"
description:
  - Stops the daemon and makes its socket again, through the person's own user manager.
  - Running containers end. The daemon starts with the next command that asks it.
  - Where the person has no user manager, nothing of theirs runs, and nothing is done.
options:
  name:
    description: Whose daemon.
    type: str
    required: true
  uid:
    description: The uid that the person has by the site. Somebody with another one is refused.
    type: int
extends_documentation_fragment:
  - gpuadmin.node.attributes
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Restart minji's Docker
  gpuadmin.node.docker_restart:
    name: minji
    uid: 20000
"""

RETURN = r"""
report:
  description: Under the key C(docker_restart), what was done, in words.
  returned: always
  type: dict
  sample: {docker_restart: the socket is made again}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.docker_restart import restart
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        done = restart(
            module.params["name"],
            module.params["uid"],
            check=module.check_mode,  # guard: the module restarts no daemon in a check -> False
        )
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error), report={"problems": [in_words(error)]})
        return
    module.exit_json(changed=done["changed"], report={"docker_restart": done["words"]})


if __name__ == "__main__":
    main()
