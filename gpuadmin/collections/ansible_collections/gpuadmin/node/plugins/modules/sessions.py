#!/usr/bin/python
"""gpuadmin.node.sessions: ending what people still run."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: sessions
short_description: End people's sessions, containers and leftovers, and make sure that nothing is left
version_added: "0.1.0"
description:
  - Tells everybody on their terminals, waits, and ends linger, sessions, user managers with their containers, and
    leftovers.
  - Fails for whoever still runs something afterwards. Nobody else is touched.
options:
  message:
    description: What terminals show before the grace time.
    type: str
    default: ""
  grace:
    description: Seconds between the message and the end; shorter when nobody is left.
    type: int
    default: 0
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.people
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: End what those who leave still run
  gpuadmin.node.sessions:
    people:
      - name: minji
        uid: 20001
        subid_start: 2147549184
        subid_count: 65536
    message: The semester is over. Save your work now.
    grace: 300
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["minji: end 2 processes (bash, python3)"]
report:
  description: What each person ran.
  returned: always
  type: dict
  sample: {sessions: {minji: {status: ended, operations: ["end 1 process (bash)"], problem: null}}, problems: []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import people
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import PEOPLE
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import sessions

ARGUMENTS = {
    **PEOPLE,
    "message": {"type": "str", "default": ""},
    "grace": {"type": "int", "default": 0},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params

    def answer() -> Answer:
        found = people.parse(given["people"])
        plan = sessions.converge(
            found,
            message=given["message"],
            grace=given["grace"],
            check=module.check_mode,  # guard: check mode ends no sessions -> False
        )
        return Answer.of(plan)

    give(module, answer, key="sessions")


if __name__ == "__main__":
    main()
