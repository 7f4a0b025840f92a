#!/usr/bin/python
"""gpuadmin.node.homes: homes on the storage host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: homes
short_description: Make homes from a skeleton, and archive homes that are to go
version_added: "0.1.0"
description:
  - Makes all missing homes in one call. A home is built beside its name, given to its owner, synced and renamed.
  - Refuses to write where the disk is not mounted.
  - A home of another owner, and a uid that owns another home or is remembered as somebody else's, are reported and
    left alone.
  - A home to be archived is packed by tar, compared with the archive, and only then deleted, by a unit
    C(gpuadmin-archive-NAME.service) that goes on when the controller is interrupted.
options:
  mountpoint:
    description: Mount point that must be mounted. Without it the mount of O(root) must not be the root file system.
  users:
    description:
      - The homes to have, a list of mappings or the same as JSON.
      - C(name), the login name, needed.
      - C(uid), the owner of the home; without it the one that this host's directory says.
      - C(gid), the group of the home; without it the number of C(uid).
      - Who is C(locked) gets none. After a reset a new, empty home would be where the old one was wiped.
    type: json
    default: "[]"
  skeleton:
    description: Directory whose content a new home starts with.
    type: path
    default: /etc/skel
  subvolume:
    description: Make each home a btrfs subvolume.
    type: bool
    default: false
  archive:
    description: Homes to archive and delete, if they are that uid's.
  archive_directory:
    description: Where archives go. Needed when O(archive) is not empty.
    type: path
  remember:
    description:
      - Whose uids these are; the host remembers it, whatever becomes of the site.
      - An entry that has no name and number is not remembered.
  forget:
    description: Names whose uids are free again; one that a home or an archive carries is not forgotten.
    type: list
    elements: str
    default: []
  archive_timeout:
    description: Seconds to wait for one archive; it goes on when the waiting ends.
    type: int
    default: 7200
attributes:
  diff_mode:
    description: Homes before and after.
    support: full
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.each
  - gpuadmin.node.each.archive
  - gpuadmin.node.each.remember
  - gpuadmin.node.homes
  - gpuadmin.node.homes.mountpoint
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Make the homes
  gpuadmin.node.homes:
    root: /srv/storage/homes
    mountpoint: /srv/storage
    users:
      - name: minji
        uid: 20001
        gid: 20001

- name: Archive the home of somebody who left
  gpuadmin.node.homes:
    root: /srv/storage/homes
    archive:
      - name: junho
        uid: 20002
    archive_directory: /srv/storage/archive
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["home minji: create for uid 20001"]
report:
  description:
    - C(refused) says for whom nothing is to be made on any host, and why.
    - C(uids), which the host remembers and sees.
  returned: always
  type: dict
  sample:
    problems: []
    refused: {}
    uids: {memory: {"20001": minji}, seen: {"20001": /srv/storage/homes/minji}, problem: null}
each:
  description: C(homes) as JSON, each home's status, operations and problem.
  returned: always
  type: dict
  sample: {homes: '{"minji": {"status": "created", "operations": ["create for uid 20001"], "problem": null}}'}
"""

from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.uids import keep, of_others
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import EACH, HOMES, each
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.directories import Request, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE

ARGUMENTS = {
    **HOMES,
    "users": EACH,
    "skeleton": {"type": "path", "default": "/etc/skel"},
    "subvolume": {"type": "bool", "default": False},
    "archive": EACH,
    "archive_directory": {"type": "path"},
    "archive_timeout": {"type": "int", "default": 7200},
    "remember": EACH,
    "forget": {"type": "list", "elements": "str", "default": []},
}


def main(state: str = STATE) -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)

    def make() -> Answer:
        given = dict(module.params)
        given.update({option: each(option, given[option]) for option in ("users", "archive", "remember")})
        given["users"] = [
            one
            for one in given["users"]
            if not one.get("locked")  # guard: who is locked gets no home
        ]
        remember, forget = given.pop("remember"), given.pop("forget")
        # Before a home is made: two admins who asked at the same time both got the answer that a uid is free.
        known = keep(given["root"], given["archive_directory"], remember, (), check=module.check_mode, state=state)
        # guard: a uid is remembered before a home is made -> {}
        refused = of_others(known.memory, given["users"], forget)
        plan = converge(Request(**given, refused=refused), check=module.check_mode)
        known = keep(given["root"], given["archive_directory"], remember, forget, check=module.check_mode, state=state)
        # whoever is locked is asked no home for, and can be somebody with another's uid all the same
        theirs = {name: str(plan.homes[name].problem) for name in plan.refused}
        # guard: who is locked is refused as well -> theirs
        refused = {**of_others(known.memory, remember, forget), **theirs}
        return replace(Answer.of(plan, uids=known.as_dict(), refused=refused), diff=plan.diff())

    give(module, make, key="homes")


if __name__ == "__main__":
    main()
