#!/usr/bin/python
"""gpuadmin.node.wipe_scratch: wiping what people leave on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wipe_scratch
short_description: Wipe people's Docker data and scratch on a node
version_added: "0.1.0"
description:
  - Takes the entries that were decided; each goes only if it is still the same thing of the same owner.
  - What belongs to somebody else stays, also inside of an entry that goes. Nothing of this is in a backup.
  - The work runs in the unit C(gpuadmin-wipe-scratch.service), which goes on when the controller is interrupted.
options:
  items:
    description:
      - What goes, as RV(gpuadmin.node.term_facts#module:report) has them.
      - An entry that is not the same any more, or that nobody of O(people) owns, is reported and stays; the others go.
    type: list
    elements: dict
    required: true
    suboptions:
      directory:
        description: The directory that it is in, one of O(directories).
        type: path
        required: true
      name:
        description: Its name there, with bytes that are no plain ASCII as C(%) and two hexadecimal digits.
        type: str
        required: true
      uid:
        description: Owner that it must have.
        type: int
        required: true
      inode:
        description: Inode that it must have.
        type: int
        required: true
      user:
        description: Whose it is, one of O(people).
        type: str
        required: true
      kind:
        description: What it was when it was reported. Nothing is decided from it.
        type: str
      bytes:
        description: How large a file was when it was reported. Nothing is decided from it.
        type: int
  directories:
    description: The directories in which anything may go at all.
    type: list
    elements: path
    required: true
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.people
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Wipe what those who left have on this node
  gpuadmin.node.wipe_scratch:
    directories: [/local/.docker]
    people:
      - name: minji
        uid: 20001
        subid_start: 2147549184
        subid_count: 65536
    items:
      - directory: /local/.docker
        name: minji
        uid: 20001
        inode: 257
        user: minji
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["/local/.docker/minji: wipe directory of minji (not backed up)"]
report:
  description: What became of each entry.
  returned: always
  type: dict
  sample: {scratch: {/local/.docker/minji: {status: wiped, operations: [], problem: null, user: minji}}, problems: []}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import background, people
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import PEOPLE
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import scratch
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe.jobs import wipe_scratch

ARGUMENTS = {
    **PEOPLE,
    "items": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "uid": {"type": "int", "required": True},
            "inode": {"type": "int", "required": True},
            "user": {"type": "str", "required": True},
            "kind": {"type": "str"},
            "bytes": {"type": "int"},
        },
    },
    "directories": {"type": "list", "elements": "path", "required": True},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params

    def wipe_it() -> Answer:
        if module.check_mode:  # guard: check mode wipes no scratch
            request = scratch.Request(given["items"], given["directories"], people.parse(given["people"]))
            return Answer.of(scratch.observe_and_compute(request), deleted={})
        done: Any = background.perform("wipe-scratch", wipe_scratch, given)
        return Answer(done["operations"], {**done["report"], "deleted": done["done"]}, done["conflicts"])

    give(module, wipe_it, key="scratch")


if __name__ == "__main__":
    main()
