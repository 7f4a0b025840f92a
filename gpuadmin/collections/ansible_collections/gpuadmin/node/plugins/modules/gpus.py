#!/usr/bin/python
"""gpuadmin.node.gpus: the GPUs of a node, and whether they are as they should be."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpus
short_description: The GPUs of a node, and whether they are as they should be
version_added: "0.2.0"
description:
  - Looks at the PCI bus, at the files of NVIDIA's driver, at what its management library (NVML) says of every GPU,
    and at the kernel's log.
  - NVML is asked in a process apart, which is given up after C(seconds). A driver that hangs is reported.
  - It changes nothing.
options:
  expected:
    description: How many GPUs the node should have; without it their number is not judged.
    type: int
  model:
    description: What the names of all of them should have in them.
    type: str
    default: ""
  seconds:
    description: How long the driver may take to answer.
    type: int
    default: 20
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at the GPUs
  gpuadmin.node.gpus:
    expected: 8
    model: H100
"""

RETURN = r"""
report:
  description: >-
    Under the key C(gpus), what was seen (C(pci), C(driver), C(missing), C(nvml), C(problem), C(xids), C(unknown),
    C(kernels)), how many GPUs are C(answering), and in sentences what is C(broken) and what is C(worse) than expected.
  returned: always
  type: dict
  sample: {gpus: {answering: 7, broken: [], worse: ["7 of 8 expected GPUs answer"]}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.judge import Expected, judge
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import look

ARGUMENTS = {
    "expected": {"type": "int"},
    "model": {"type": "str", "default": ""},
    "seconds": {"type": "int", "default": 20},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        seen = look(seconds=module.params["seconds"])
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error))
        return
    verdict = judge(seen, Expected(module.params["expected"], module.params["model"]))
    report = {**seen.as_dict(), "answering": verdict.answering, "broken": verdict.broken, "worse": verdict.worse}
    module.exit_json(changed=False, report={"gpus": report})


if __name__ == "__main__":
    main()
