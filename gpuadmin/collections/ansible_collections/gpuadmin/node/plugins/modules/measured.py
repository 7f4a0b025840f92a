#!/usr/bin/python
"""gpuadmin.node.measured: what the collector of a node has written just now."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: measured
short_description: What the collector of a node has written just now
version_added: "0.2.0"
description:
  - Reads what the collector has for the node exporter, and the host's load and memory.
  - It changes nothing.
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at what is measured
  gpuadmin.node.measured:
"""

RETURN = r"""
report:
  description: Under the key C(measured), the C(text), in Prometheus' format.
  returned: always
  type: dict
  sample: {measured: {text: "gpuadmin_gpus_on_bus 8"}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.measured import report


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    try:
        module.exit_json(changed=False, report=report())
    except (NodeError, OSError, ValueError) as error:
        module.fail_json(msg=in_words(error))


if __name__ == "__main__":
    main()
