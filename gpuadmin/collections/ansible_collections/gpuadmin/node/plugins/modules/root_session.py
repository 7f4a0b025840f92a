#!/usr/bin/python
"""gpuadmin.node.root_session: a read-only root, writable for a block of tasks."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: root_session
short_description: Hold a read-only btrfs root open for a block of tasks
version_added: "0.1.0"
description:
  - Opens a root that is read-only by its btrfs property, and closes it again (sync, read-only, sync).
  - A transient unit C(gpuadmin-root-session.service) holds the root open, so that it is closed when the lease ends,
    whatever happened to the controller. Opening again while it is active renews the lease.
  - Does nothing on hosts with an ordinary root.
  - RV(ignore:changed) is always false, since an open root is a passing condition and no configuration.
options:
  state:
    description: Whether the root is to be open or closed.
    type: str
    choices: [open, closed]
    required: true
  lease:
    description: Seconds after which the root closes by itself.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Opens and closes nothing.
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Write into the root
  block:
    - name: Open the root
      gpuadmin.node.root_session:
        state: open
        lease: 900
    - name: Install a file
      ansible.builtin.copy:
        content: "hello\n"
        dest: /etc/motd
        mode: "0644"
  always:
    - name: Close the root
      gpuadmin.node.root_session:
        state: closed
"""

RETURN = r"""
session:
  description: Whether the root needed a session, the unit that holds it, and whether it is writable now.
  returned: success
  type: dict
  sample: {needed: true, unit: gpuadmin-root-session.service, writable: true}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import RootError
from ansible_collections.gpuadmin.node.plugins.module_utils.root.session import UNIT, close_session, open_session

ARGUMENTS = {
    "state": {"type": "str", "choices": ["open", "closed"], "required": True},
    "lease": {"type": "int", "default": 1800},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False, session={"needed": False, "unit": UNIT, "writable": False})
        return
    if not 10 <= module.params["lease"] <= 86400:
        module.fail_json(msg="lease must be between 10 and 86400 seconds")
    try:
        wanted_open = module.params["state"] == "open"
        session = open_session(module.params["lease"]) if wanted_open else close_session()
    except (NodeError, RootError, OSError) as error:
        module.fail_json(msg=in_words(error))
        return
    module.exit_json(changed=False, session=session)


if __name__ == "__main__":
    main()
