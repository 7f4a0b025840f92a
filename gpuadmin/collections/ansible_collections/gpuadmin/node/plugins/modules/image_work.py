#!/usr/bin/python
"""gpuadmin.node.image_work: one piece of work on a node's images and roots."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_work
short_description: Work on a node's images and roots
version_added: "0.2.0"
description:
  - Has the unit C(gpuadmin-image.service) on the node do one piece of work, and waits for it.
  - The unit outlives the controller; the same request, made again while it works, waits for it.
options:
  action:
    description: What to do.
    type: str
    required: true
    choices: [push, rollback, prune, build, finish, seal, publish]
  name:
    description: The image.
    type: str
  options:
    description: What else the action needs; see the role image_switch.
    type: dict
    default: {}
  run_id:
    description: One word for this run of gpuadmin, the same in every call. It tells our work from an earlier run's.
    type: str
    required: true
  wait:
    description: Seconds after which this returns, C(finished) or not. It is called again until it is.
    type: int
    default: 5
attributes:
  check_mode:
    description: Says that it would work, not what it would find; M(gpuadmin.node.image_facts) does.
    support: partial
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Get an image and set it for the next boot
  gpuadmin.node.image_work:
    action: push
    name: 2026-11-21
    run_id: 5b1f
  register: work
  until: work is failed or work.finished
  retries: 86400
  delay: 0
"""

RETURN = r"""
finished:
  description: Whether it has ended. If not, C(progress) says how far it is.
  returned: success
  type: bool
progress:
  description: How far it is, in words.
  returned: when it has not ended
  type: str
  sample: fetching 12.0 of 516.3 MB, 93.1 MB/s
operations:
  description: What was done, in words.
  returned: always
  type: list
  elements: str
  sample: ["received image 2026-11-21"]
report:
  description: What the action has to report.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import unit
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import work

ARGUMENTS = {
    "action": {
        "type": "str",
        "required": True,
        "choices": ["push", "rollback", "prune", "build", "finish", "seal", "publish"],
    },
    "name": {"type": "str"},
    "options": {"type": "dict", "default": {}},
    "run_id": {"type": "str", "required": True},
    "wait": {"type": "int", "default": 5},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    job = work.job({"action": given["action"], "name": given["name"], **given["options"]})
    if module.check_mode:
        module.exit_json(changed=True, finished=True, operations=[job.title], report={})
        return
    try:
        result = unit.attend(job, f"{given['run_id']} {given['action']}", given["wait"])
        progress = "" if result else unit.progress(job)
    except (NodeError, OSError) as error:
        module.fail_json(msg=str(error), operations=[])
        return
    if result is None:
        module.exit_json(changed=False, finished=False, progress=progress)
    elif result.problem is not None:
        module.fail_json(msg=result.problem, operations=[])
    else:
        operations = result.value["operations"]
        report = result.value.get("report", {})
        module.exit_json(changed=bool(operations), finished=True, operations=operations, report=report)


if __name__ == "__main__":
    main()
