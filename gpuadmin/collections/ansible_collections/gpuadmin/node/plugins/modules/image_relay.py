#!/usr/bin/python
"""gpuadmin.node.image_relay: a node is ready to pass an image on."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_relay
short_description: Be ready to pass an image on along a chain of nodes
version_added: "0.2.0"
description:
  - Keeps the key of this push for root, in C(/run/gpuadmin), until the push is over.
  - Where there is a node before, starts the unit C(gpuadmin-relay.service), which takes a full stream from it and
    passes it to the next. Only who holds the key gets a byte or brings one.
  - Where that does not work it says so and does not fail, because every node gets what it lacks from the store.
options:
  name:
    description: The image.
    type: str
    required: true
  link:
    required: true
  key:
    description: The private key and the certificate of this push, in PEM.
    type: str
    required: true
attributes:
  check_mode:
    description: Starts nothing, and writes no key.
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.link
  - gpuadmin.node.unit
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Be ready to pass the image on
  gpuadmin.node.image_relay:
    name: 2026-11-21
    link: {port: 7370, previous: 10.0.0.11, next: 10.0.0.13}
    key: "{{ key_of_this_push }}"
"""

RETURN = r"""
remarks:
  description: Why the node is not ready, and who has its port.
  returned: when it does not
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import LINK, UNIT
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.images import chain_key, relay
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "link": {**LINK["link"], "required": True},
    "key": {
        "type": "str",
        "required": True,
        "no_log": True,  # guard: the module does not show the key -> False
    },
    **UNIT,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    link = relay.link_from(module.params["link"])
    places, remarks = Places(), []
    if (
        not module.check_mode and link is not None  # guard: check mode writes no key
    ):
        try:
            chain_key.store(places, module.params["key"])
            if link.previous is not None:
                relay.start(module.params["name"], link, places, module.params["code"], module.params["python"])
        except (NodeError, OSError) as error:
            remarks.append(f"the image comes from the store and not along the chain: {in_words(error)}")
    module.exit_json(changed=False, remarks=remarks)


if __name__ == "__main__":
    main()
