#!/usr/bin/python
"""gpuadmin.node.command: an admin's own command, and what it answers."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: command
short_description: Run an admin's own command
version_added: "0.1.0"
description:
  - Runs a line of shell as root, from C(/) and with nothing on its input, and reports its exit status and its output.
  - Of long output the beginning and the end are reported.
options:
  line:
    description: The line, as C(/bin/sh -c) takes it.
    type: str
    required: true
attributes:
  check_mode:
    description: Nothing is run. What the command would do is not known.
    support: full
  diff_mode:
    description: Nobody knows what it changes.
    support: none
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Ask how full the disks are
  gpuadmin.node.command:
    line: df -h | tail -n +2
"""

RETURN = r"""
report:
  description: C(command) with C(status), C(output) and C(errors); nothing in check mode.
  returned: always
  type: dict
operations:
  description: What was run, or in check mode would be.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.answering import answer
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import in_words

ARGUMENTS = {"line": {"type": "str", "required": True}}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    line = module.params["line"]
    operations = [f"run: {line}"]
    if module.check_mode:  # guard: a check runs no command
        module.exit_json(changed=True, operations=operations, report={})
        return
    try:
        answered = answer(line)
    except OSError as error:
        module.fail_json(msg=in_words(error), operations=[], report={})
        return
    report = {"command": answered}
    if answered["status"] != 0:  # guard: a command that failed has failed
        module.fail_json(msg=f"ended with {answered['status']}", operations=operations, report=report)
        return
    module.exit_json(changed=True, operations=operations, report=report)


if __name__ == "__main__":
    main()
