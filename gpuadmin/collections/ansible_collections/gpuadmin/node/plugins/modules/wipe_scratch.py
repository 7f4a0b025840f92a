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
  people:
    description: The people, each with name, uid, subid_start and subid_count.
    type: list
    elements: dict
    required: true
  items:
    description: What goes, each with directory, name, uid, inode and user, as
      RV(gpuadmin.node.term_facts#module:report) has them.
    type: list
    elements: dict
    required: true
  directories:
    description: The directories in which anything may go at all.
    type: list
    elements: path
    required: true
attributes:
  check_mode:
    description: The plan of check mode is made by the code that does the work.
    support: full
  diff_mode:
    description: There is nothing to show beyond the operations.
    support: none
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

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import people, unit
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import scratch
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe.jobs import wipe_scratch

ARGUMENTS = {
    "people": {"type": "list", "elements": "dict", "required": True},
    "items": {"type": "list", "elements": "dict", "required": True},
    "directories": {"type": "list", "elements": "path", "required": True},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params

    def wipe_it() -> Answer:
        if module.check_mode:
            request = scratch.Request(given["items"], given["directories"], people.parse(given["people"]))
            return Answer.of(scratch.observe_and_compute(request), deleted={})
        done = dict(unit.perform("wipe-scratch", wipe_scratch, given))
        return Answer(done["operations"], {**done["report"], "deleted": done["done"]}, done["conflicts"])

    give(module, wipe_it, key="scratch")


if __name__ == "__main__":
    main()
