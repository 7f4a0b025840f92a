#!/usr/bin/python
"""gpuadmin.node.image_job: one job on a node's images and roots."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_job
short_description: Run a job on a node's images and roots
version_added: "0.2.0"
description:
  - Has the unit C(gpuadmin-image.service) on the node do one job, and waits for it.
  - The unit outlives the controller; the same request, made again while it runs, waits for it.
options:
  action:
    description: What to do.
    type: str
    required: true
    choices: [push, rollback, prune, build, finish, seal, publish]
  name:
    description: The image.
    type: str
  link:
    description: The node's place in the chain, for O(action=push); without it there is none.
  options:
    description: What else the action needs.
    type: dict
    default: {}
    suboptions:
      full:
        description: Whether O(action=push) fetches or O(action=seal) makes the full stream, not a difference.
        type: bool
      deadline:
        description: Seconds that a trial may take, for O(action=push) and O(action=rollback).
        type: int
      keep:
        description: How many images stay, for O(action=prune).
        type: int
      packages:
        description: Packages to install, for O(action=build).
        type: list
        elements: str
      upgrade:
        description: Whether all packages are brought up to date, for O(action=build).
        type: bool
      trial:
        description: Whether the image is booted before it is sealed, for O(action=finish) and O(action=seal).
        type: bool
      parents:
        description: Images from which a difference is made, the newest that is there first, for O(action=seal).
        type: list
        elements: str
      who:
        description: Who makes the image, for O(action=seal).
        type: str
      protocol:
        description: The version of btrfs' send stream, for O(action=seal).
        type: int
      manifest:
        description: The text of the manifest, for O(action=publish).
        type: str
      signature:
        description: The text of its signature, for O(action=publish).
        type: str
  run_id:
    description: An id of this run of gpuadmin, the same in every call. It tells this run's job from an earlier one's.
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
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.link
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Get an image and set it for the next boot
  gpuadmin.node.image_job:
    action: push
    name: 2026-11-21
    run_id: 5b1f
  register: job
  until: job is failed or job.finished
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

from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import LINK
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.images import jobs

ARGUMENTS = {
    "action": {
        "type": "str",
        "required": True,
        "choices": ["push", "rollback", "prune", "build", "finish", "seal", "publish"],
    },
    "name": {"type": "str"},
    **LINK,
    "options": {
        "type": "dict",
        "default": {},
        "options": {
            "full": {"type": "bool"},
            "deadline": {"type": "int"},
            "keep": {"type": "int"},
            "packages": {"type": "list", "elements": "str"},
            "upgrade": {"type": "bool"},
            "trial": {"type": "bool"},
            "parents": {"type": "list", "elements": "str"},
            "who": {"type": "str"},
            "protocol": {"type": "int"},
            "manifest": {"type": "str"},
            "signature": {"type": "str"},
        },
    },
    "run_id": {"type": "str", "required": True},
    "wait": {"type": "int", "default": 5},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    asked = {**given["options"], "link": given["link"]}
    options = {key: value for key, value in asked.items() if value is not None}
    job = jobs.job({"action": given["action"], "name": given["name"], **options})
    if module.check_mode:
        module.exit_json(changed=True, finished=True, operations=[job.title], report={})
        return
    try:
        result = background.attend(job, f"{given['run_id']} {given['action']}", given["wait"])
        progress = "" if result else background.progress(job)
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error), operations=[])
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
