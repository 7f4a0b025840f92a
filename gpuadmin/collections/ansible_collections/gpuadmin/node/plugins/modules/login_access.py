#!/usr/bin/python
"""gpuadmin.node.login_access: those who leave cannot log in, and their jobs do not run."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: login_access
short_description: Keep people's jobs and lingering managers from running, and prove that they cannot log in
version_added: "0.1.0"
description:
  - Ends lingering, moves cron and at jobs to the state directory and cancels what waits in Slurm's queue.
  - Then fails for whoever could still come in. With V(open) the jobs come back.
options:
  state:
    description: Whether people are to be kept out.
    type: str
    choices: [closed, open]
    default: closed
  login:
    description: Whether people log in to this host at all.
    type: bool
    default: true
  group:
    description: Where accounts come from a directory, the group whose members may log in.
    type: str
attributes:
  check_mode:
    description: The plan of check mode is made by the code that does the work; the proof needs the work.
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.state
  - gpuadmin.node.people
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Keep those who leave out
  gpuadmin.node.login_access:
    people:
      - name: minji
        uid: 20001
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["minji: end linger"]
report:
  description: Each person's login access, and their jobs.
  returned: always
  type: dict
  sample: {login_access: {minji: {status: closed, operations: [end linger], problem: null}}, problems: []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import people
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import PEOPLE, STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access

ARGUMENTS = {
    **PEOPLE,
    "state": {"type": "str", "choices": ["closed", "open"], "default": "closed"},
    "login": {"type": "bool", "default": True},
    "group": {"type": "str"},
    **STATE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params

    def answer() -> Answer:
        host = access.Host(state=given["state_directory"], group=given["group"])
        plan = access.converge(
            people.parse(given["people"]),
            given["state"] == "closed",
            host,
            check=module.check_mode,  # guard: check mode closes no login access -> False
            login=given["login"],
        )
        return Answer.of(plan)

    give(module, answer, key="login_access")


if __name__ == "__main__":
    main()
