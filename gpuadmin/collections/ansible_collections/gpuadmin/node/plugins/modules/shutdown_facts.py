#!/usr/bin/python
"""gpuadmin.node.shutdown_facts: whether a host can be switched off now."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: shutdown_facts
short_description: Report what keeps a host from being switched off
version_added: "0.3.0"
description:
  - Reports who is on the host, which hosts mount from it over NFS, and which jobs of gpuadmin's run on it.
  - With O(require) it fails where one of these keeps the host from being switched off.
options:
  node:
    description: Whether people log in here.
    type: bool
    default: false
  serves:
    description: Whether other hosts may mount from it.
    type: bool
    default: false
  force:
    description: Whether people are no reason.
    type: bool
    default: false
  require:
    description: Whether to fail where there is a reason, or something is not known.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.uids
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look whether anybody mounts from the storage host
  gpuadmin.node.shutdown_facts:
    serves: true
    require: true
    uid_first: 20000
    uid_last: 49999
"""

RETURN = r"""
report:
  description: Under the key C(power), what was found, and C(problems), the reasons.
  returned: always
  type: dict
  sample: {power: {people: [minji], clients: [], jobs: [], unknown: {}, problems: ["in use by minji"]}}
progress:
  description: What is waited for, for a task that waits.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import power
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import UIDS

ARGUMENTS = {
    "node": {"type": "bool", "default": False},
    "serves": {"type": "bool", "default": False},
    "force": {"type": "bool", "default": False},
    "require": {"type": "bool", "default": False},
    **UIDS,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    found = power.collect(node=given["node"], uid_first=given["uid_first"], uid_last=given["uid_last"])
    reasons = power.problems(
        found,
        force=given["force"],
        serves=given["serves"],  # guard: a storage host that is mounted refuses when it is asked, too -> False
    )
    report = {"power": {**found, "problems": reasons}}
    if given["require"] and reasons:
        module.fail_json(msg=f"{'; '.join(reasons)}; it was left as it is", report=report)
        return
    module.exit_json(changed=False, progress=f"waits: {'; '.join(reasons)}" if reasons else "", report=report)


if __name__ == "__main__":
    main()
