#!/usr/bin/python
"""gpuadmin.node.backup: backups of the homes."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: backup
short_description: Make, verify, copy and prune backups of the homes
version_added: "0.1.0"
description:
  - A backup is a read-only snapshot with a manifest of every home, and is one only when it is complete.
  - All work runs in units C(gpuadmin-backup-*.service), which go on when the controller is interrupted and are
    waited for by the next run.
options:
  action:
    description: What to do.
    type: str
    required: true
    choices: [make, verify, copy, prune]
  name:
    description: Name of the backup. Without it O(action=verify) and O(action=copy) take the newest.
    type: str
  root:
    description: Directory of homes, for O(action=make).
    type: path
  users:
    description: Whose homes are verified; without it everybody's.
    type: list
    elements: str
  workers:
    description: How many homes are read at once.
    type: int
    default: 2
  home_seconds:
    description: How long one home may take to be read; a home that takes longer is a problem, and the others go on.
    type: int
    default: 21600
  home_entries:
    description: How many entries one home may hold; a path counts once more for each KiB of it.
    type: int
    default: 20000000
  remote:
    description: The host for O(action=copy).
  days:
    description: How long a backup stays, for O(action=prune).
    type: int
    default: 183
  ordinary:
    description: How many of the timer's backups stay, for O(action=prune).
    type: int
    default: 14
  only:
    description: The backups that were decided to go, for O(action=prune).
    type: list
    elements: str
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.backups
  - gpuadmin.node.remote
  - gpuadmin.node.homes.mountpoint
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Make a backup and verify everybody's home in it
  gpuadmin.node.backup:
    action: make
    name: 20261221T010203Z-manual
    root: /srv/storage/homes
    directory: /srv/storage/backups
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["backup 20261221T010203Z-manual: snapshot of /srv/storage/homes with 2 homes"]
report:
  description: The backup as it is afterwards, or what was pruned.
  returned: always
  type: dict
  sample: {backup: {name: 20261221T010203Z-manual}, pruned: [], problems: []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import BACKUPS, REMOTE
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import actions

ARGUMENTS = {
    "action": {"type": "str", "choices": ["make", "verify", "copy", "prune"], "required": True},
    **BACKUPS,
    "name": {"type": "str"},
    "root": {"type": "path"},
    "mountpoint": {"type": "path"},
    "users": {"type": "list", "elements": "str"},
    "workers": {"type": "int", "default": 2},
    "home_seconds": {"type": "int", "default": 21600},
    "home_entries": {"type": "int", "default": 20000000},
    **REMOTE,
    "days": {"type": "int", "default": 183},
    "ordinary": {"type": "int", "default": 14},
    "only": {"type": "list", "elements": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)

    def act() -> Answer:
        done = actions.act(
            module.params,
            check=module.check_mode,  # guard: check mode makes no backup -> False
        )
        return Answer(done.operations, done.report)

    give(module, act)


if __name__ == "__main__":
    main()
