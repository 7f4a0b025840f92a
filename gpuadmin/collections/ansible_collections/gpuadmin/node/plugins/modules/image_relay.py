#!/usr/bin/python
"""gpuadmin.node.image_relay: a node listens for an image, to pass it on."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_relay
short_description: Listen for the stream of an image
version_added: "0.2.0"
description:
  - Starts the unit C(gpuadmin-relay.service), which takes a full stream from the node before and passes it to the next.
  - Where that does not work it says so and does not fail, because every node gets what it lacks from the store.
options:
  name:
    description: The image.
    type: str
    required: true
  link:
    description: The node's place in the chain, with C(port), C(previous) and C(next) (addresses, or empty).
    type: dict
    required: true
  code:
    description: Where the node-side code lies.
    type: path
    default: /var/lib/gpuadmin/lib/gpuadmin_node
  python:
    description: What runs it.
    type: path
    default: /usr/bin/python3
attributes:
  check_mode:
    description: Starts nothing.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Listen
  gpuadmin.node.image_relay:
    name: 2026-11-21
    link: {port: 7370, previous: 10.0.0.11, next: 10.0.0.13}
"""

RETURN = r"""
remarks:
  description: Why the node does not listen.
  returned: when it does not
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import relay
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.image_places import Places

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "link": {"type": "dict", "required": True},
    "code": {"type": "path", "default": "/var/lib/gpuadmin/lib/gpuadmin_node"},
    "python": {"type": "path", "default": "/usr/bin/python3"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    link = relay.link_from(module.params["link"])
    remarks = []
    if not module.check_mode and link is not None:
        try:
            relay.start(module.params["name"], link, Places(), module.params["code"], module.params["python"])
        except (NodeError, OSError) as error:
            remarks.append(f"the image comes from the store and not along the chain: {error}")
    module.exit_json(changed=False, remarks=remarks)


if __name__ == "__main__":
    main()
