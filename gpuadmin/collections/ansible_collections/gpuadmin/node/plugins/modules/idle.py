#!/usr/bin/python
"""gpuadmin.node.idle: what holds a GPU and has not used it is ended, or who holds it reads so on their terminals."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: idle
short_description: End what holds a GPU without using it, or tell who holds it
version_added: "0.2.0"
description:
  - Writes messages to the terminals of the people that are named.
  - Ends the processes and containers of the people that are named that hold the GPUs that are named. What was decided
    is looked at again, process by process; where it is not so any more, or not known, it is left alone, and the answer
    says why.
options:
  tell:
    description: Who reads what on their own terminals.
    type: list
    elements: dict
    default: []
    suboptions:
      uid:
        description: Whose terminals.
        type: int
        required: true
      message:
        description: What they read.
        type: str
        required: true
  stop:
    description: Whose hold on which GPU is to end.
    type: list
    elements: dict
    default: []
    suboptions:
      user:
        description: Login name.
        type: str
        required: true
      uid:
        description: The uid that the site gives them.
        type: int
        required: true
      uuid:
        description: The GPU, or MIG device.
        type: str
        required: true
      since:
        description: Since when it has not been used, in seconds since the epoch, as they were told.
        type: int
        required: true
      notified:
        description: When they were told. What they have begun on it since then is not ended.
        type: int
        required: true
attributes:
  check_mode:
    description: Tells nobody, ends nothing, and says what would be ended.
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: End what holds a GPU without using it
  gpuadmin.node.idle:
    stop:
      - {user: minji, uid: 20001, uuid: GPU-11111111-2222, since: 1800000000, notified: 1800007200}
"""

RETURN = r"""
report:
  description: >-
    Under the key C(idle), for each that is to end, its C(status) (stopped, would stop, gone, kept) and C(why); and how
    many C(terminals) took a message.
  returned: always
  type: dict
  sample: {idle: {terminals: 1, stopped: [{user: minji, uuid: GPU-1, status: kept, why: "it was used since then"}]}}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import terminals
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import stopping

TELL = {"uid": {"type": "int", "required": True}, "message": {"type": "str", "required": True}}
STOP = {
    "user": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "uuid": {"type": "str", "required": True},
    "since": {"type": "int", "required": True},
    "notified": {"type": "int", "required": True},
}
ARGUMENTS = {
    "tell": {"type": "list", "elements": "dict", "default": [], "options": TELL},
    "stop": {"type": "list", "elements": "dict", "default": [], "options": STOP},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    notified = 0
    for one in (
        []
        if module.check_mode  # guard: in check mode nobody is told that something is ended
        else module.params["tell"]
    ):
        notified += terminals.tell(one["message"], uid=one["uid"])
    found: dict[str, Any] = {"stopped": []}
    if module.params["stop"]:
        try:
            found = stopping.report(
                module.params["stop"],
                check=module.check_mode,  # guard: in check mode nothing idle is ended -> False
            )
        except (NodeError, OSError, ValueError) as error:
            module.fail_json(msg=in_words(error))
            return
    done = [one for one in found["stopped"] if one["status"] in ("stopped", "would stop")]
    module.exit_json(changed=bool(done), report={"idle": {**found, "terminals": notified}})


if __name__ == "__main__":
    main()
