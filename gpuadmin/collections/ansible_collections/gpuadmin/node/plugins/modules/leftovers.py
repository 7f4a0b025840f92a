#!/usr/bin/python
"""gpuadmin.node.leftovers: what a wipe left because no backup had it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: leftovers
short_description: Pack what a wipe left, and delete it
version_added: "0.1.0"
description:
  - What was changed after the backup is not deleted by a wipe; it stays, out of sight, in the home root.
  - This packs it into archives that root alone can read, reads them back, compares them, and only then deletes it.
  - The work runs in the unit C(gpuadmin-clear-leftovers.service), which goes on when the controller is interrupted.
options:
  archive:
    description: Directory of archives.
    type: path
    required: true
  only:
    description: What is packed, as BACKUP/USER; without it all.
    type: list
    elements: str
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.homes
  - gpuadmin.node.homes.mountpoint
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Pack what wipes left
  gpuadmin.node.leftovers:
    root: /srv/storage/homes
    archive: /srv/storage/archive
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["pack what is left of minji (20261221T010203Z-reset-2026-2/minji: 2 entries, 9 bytes), and delete it"]
report:
  description: Where the archives are, and what could not be deleted.
  returned: always
  type: dict
  sample: {cleared: {20261221T010203Z-reset-2026-2/minji: {archive: /srv/storage/archive/x.tar.gz}}, problems: []}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import HOMES
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import leftovers
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe.jobs import clear_leftovers

ARGUMENTS = {
    **HOMES,
    "archive": {"type": "path", "required": True},
    "only": {"type": "list", "elements": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)

    def clear() -> Answer:
        found = leftovers.observe(leftovers.Request(**module.params))
        cleared: dict[str, Any] = {}
        if (
            found
            # guard: check mode clears no leftovers
            and not module.check_mode
        ):
            arguments = {**module.params, "only": [one.name for one in found]}
            done: Any = background.perform("clear-leftovers", clear_leftovers, arguments)
            cleared = dict(done)
        problems = [f"{name}: {word}" for name, one in cleared.items() for word in one["words"]]
        kept = [f"{name}: {', '.join(one['words'])}" for name, one in cleared.items() if one["archive"] is None]
        operations = [one.operation for one in found if cleared.get(one.name, {}).get("archive", "") is not None]
        return Answer(operations, {"cleared": cleared, "problems": problems}, kept)

    give(module, clear, key="cleared")


if __name__ == "__main__":
    main()
