#!/usr/bin/python
"""gpuadmin.node.wipe_homes: wiping homes that are in a verified backup."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wipe_homes
short_description: Wipe homes that are in a verified backup
version_added: "0.1.0"
description:
  - Moves each home out of sight by one rename, so that it is empty for its owner at once, and then deletes what the
    backup has.
  - A home that is not the very directory that the backup holds is kept and reported. So is a file that was changed
    after the backup.
  - The deleting runs in the unit C(gpuadmin-wipe-homes.service), which goes on when the controller is interrupted.
options:
  backup:
    description: Name of the verified backup.
    type: str
    required: true
  users:
    description: What goes.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the home, or of what a restore made beside it.
        type: str
        required: true
      uid:
        description: Owner that it must have.
        type: int
        required: true
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.backups
  - gpuadmin.node.each
  - gpuadmin.node.homes
  - gpuadmin.node.homes.mountpoint
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Wipe the homes of those who left
  gpuadmin.node.wipe_homes:
    root: /srv/storage/homes
    directory: /srv/storage/backups
    backup: 20261221T010203Z-reset-2026-2
    users:
      - name: minji
        uid: 20001
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["home minji: wipe (uid 20001, 1 files, 9 bytes; in backup 20261221T010203Z-reset-2026-2)"]
report:
  description: What became of each home, and what of them was deleted.
  returned: always
  type: dict
  sample: {homes: {minji: {status: wiped, operations: [], problem: null, files: 1, bytes: 9}}, deleted: {}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import BACKUPS, HOMES
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe.jobs import empty_trash

ARGUMENTS = {
    **HOMES,
    **BACKUPS,
    "backup": {"type": "str", "required": True},
    "users": {"type": "list", "elements": "dict", "required": True},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)

    def wipe_them() -> Answer:
        plan = homes.converge(
            homes.Request(**module.params),
            check=module.check_mode,  # guard: check mode moves no home -> False
        )
        if module.check_mode:  # guard: check mode empties no trash
            return Answer.of(plan)
        return Answer.of(plan, deleted=background.perform("wipe-homes", empty_trash, {**module.params, "users": []}))

    give(module, wipe_them, key="homes")


if __name__ == "__main__":
    main()
