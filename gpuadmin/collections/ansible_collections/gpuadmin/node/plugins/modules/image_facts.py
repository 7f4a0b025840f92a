#!/usr/bin/python
"""gpuadmin.node.image_facts: what a node runs and holds, and what it would receive."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_facts
short_description: Report a node's images and roots
version_added: "0.2.0"
description:
  - Reports which root runs, what boots next, which images are there, and how the last switch ended.
  - With a manifest it also says what the node would receive for that image. Changes nothing.
options:
  manifest:
    description: The text of a manifest, as the store has it.
    type: str
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at the node
  gpuadmin.node.image_facts:
"""

RETURN = r"""
progress:
  description: Who is on the node, for a task that waits until nobody is.
  returned: success
  type: str
report:
  description: Under the key C(node), what was found.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.images.mounting import mounted
from ansible_collections.gpuadmin.node.plugins.module_utils.images.observe import observe
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import load_settings, looking

ARGUMENTS = {"manifest": {"type": "str", "no_log": True}}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    places = looking()
    try:
        settings = load_settings(places)
        text = module.params["manifest"]
        manifest = parse(text.encode()) if text else None
        with mounted(places, settings, store=None):
            report = observe(places, settings, manifest)
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error))
        return
    there = sorted({*report["people"], *report["gpu_work"]})
    module.exit_json(changed=False, progress=f"waits for {', '.join(there)}", report={"node": report})


if __name__ == "__main__":
    main()
