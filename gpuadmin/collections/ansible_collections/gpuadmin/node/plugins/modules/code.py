#!/usr/bin/python
"""gpuadmin.node.code: the node code on a host, as this controller has it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: code
short_description: The node code on a host, as this controller has it
version_added: "0.3.0"
description:
  - All code of this collection, and what it needs of Ansible's, is in a directory that bears the code's digest.
    It has its name when all of it is on disk, and no source is written again.
  - What units run is compiled, and nobody waits for that.
  - Modules are run from it (gpuadmin.node.run_kept), and so is what units start, through a link.
  - An action plugin gives O(digest), and sends the code where it is missing.
  - To have the directory is no change of the host: the call of any module may have brought it. To run it at boot is.
options:
  digest:
    description: sha256 of the code, in hex.
    type: str
  link:
    description: Whether units run this code from now on.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.state
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Have the node code, for modules and for units
  gpuadmin.node.code:
    link: true
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: [install the node code e3b0c44298fc]
missing:
  description: Whether the host has not got that code.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import compiled, kept
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words

ARGUMENTS = {
    "digest": {"type": "str"},
    "link": {"type": "bool", "default": False},
    **STATE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    digest, state = str(given["digest"]), given["state_directory"]
    operations = []
    try:
        missing = not kept.has(digest, state)
        if given["link"] and not kept.linked(digest, state):
            operations.append(f"install the node code {digest[:12]}")
        if (
            given["link"]
            and not missing  # guard: units are not led to code that is not there
            and not module.check_mode  # guard: a look lets units run what they ran
        ):
            kept.link(digest, state)
            place = kept.place(digest, state)
            compiled.later(place, lambda: compiled.every(place))
    except (NodeError, OSError, ValueError) as error:
        module.fail_json(msg=in_words(error), operations=[], invocation={})
        return
    module.exit_json(changed=bool(operations), operations=operations, missing=missing, invocation={})


if __name__ == "__main__":
    main()
