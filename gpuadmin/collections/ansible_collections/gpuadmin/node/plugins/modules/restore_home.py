#!/usr/bin/python
"""gpuadmin.node.restore_home: restoring from a backup."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: restore_home
short_description: Restore a home, or a part of it, from a backup
version_added: "0.1.0"
description:
  - Restores beside what is there, never over it, and compares the copy with the backup's manifest before it gets
    its name.
  - The work runs in the unit C(gpuadmin-restore-USER.service), which goes on when the controller is interrupted.
options:
  user:
    description: Whose home.
    type: str
    required: true
  backup:
    description:
      - Name of the backup; without it the newest in which the home was verified.
      - From one that is not here the home comes from the host of the second copies. So it does from the newest
        verified one, where none that is here has the home verified.
    type: str
    default: ""
  mode:
    description: Where it goes. With V(in-place) what is there now is moved aside.
    type: str
    choices: [beside, in-place, directory, archive]
    default: beside
  path:
    description: A part of the home.
    type: str
    default: ""
  target:
    description: The directory for O(mode=directory), or for the file of O(mode=archive).
    type: path
  uid:
    description: The person's uid now, where it is another than in the backup.
    type: int
  subids:
    description: Base, size and first uid of the site's subordinate ids; they move with the uid.
    type: list
    elements: int
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.backups
  - gpuadmin.node.homes
  - gpuadmin.node.homes.mountpoint
  - gpuadmin.node.remote
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Restore a home beside what is there
  gpuadmin.node.restore_home:
    root: /srv/storage/homes
    directory: /srv/storage/backups
    user: minji
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["restore minji's home from 20261221T010203Z-manual to /srv/storage/homes/minji.restored-20261221T010203Z"]
report:
  description: Where it is and what it holds.
  returned: always
  type: dict
  sample: {restored: {target: /srv/storage/homes/minji.restored-20261221T010203Z, files: 1, bytes: 9}, problems: []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import background, mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import BACKUPS, HOMES, REMOTE
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import restore_plan
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.jobs import remote_of, restore_home

ARGUMENTS = {
    **HOMES,
    **BACKUPS,
    "user": {"type": "str", "required": True},
    "backup": {"type": "str", "default": ""},
    "mode": {"type": "str", "choices": ["beside", "in-place", "directory", "archive"], "default": "beside"},
    "path": {"type": "str", "default": ""},
    "target": {"type": "path"},
    "uid": {"type": "int"},
    "subids": {"type": "list", "elements": "int"},
    **REMOTE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = dict(module.params)

    def restore() -> Answer:
        subids = tuple(given["subids"]) if given["subids"] else None
        remote = None if given["remote"] is None else remote_of(given["remote"])
        request = restore_plan.Request(**{**given, "subids": subids, "remote": remote})
        restore_plan.refuse_nonsense(request)
        backup, away = restore_plan.locate(request)
        plan, backup = restore_plan.compute(request, mounts.read_mountinfo(), backup)
        operations = list(plan.operations)
        if away:
            operations.insert(0, f"take it from the second copy {backup.name} on {given['remote']['host']}")
        restored: object = {"target": plan.target, "backup": backup.name}
        if not module.check_mode:  # guard: check mode restores nothing -> True
            arguments = {**given, "backup": backup.name}
            restored = background.perform(f"restore-{given['user']}", restore_home, arguments)
        return Answer(operations, {"restored": restored, "problems": []})

    give(module, restore)


if __name__ == "__main__":
    main()
