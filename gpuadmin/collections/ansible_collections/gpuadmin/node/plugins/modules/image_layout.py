#!/usr/bin/python
"""gpuadmin.node.image_layout: a node's disk layout, checked and completed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_layout
short_description: Check and complete the layout that images need
version_added: "0.2.0"
description:
  - Looks at how a node boots and where its root, C(/var) and C(/local) lie.
  - Completes a node that is fit, and notes its identity. A node that is not is reported and not touched.
options:
  settings:
    description: What C(images.json) on the node is to say.
    type: dict
    required: true
    suboptions:
      store:
        description: Where the store is, as SERVER:/PATH.
        type: str
        default: ""
      signers:
        description: Who may sign images, in the format of allowed signers of ssh-keygen.
        type: str
        default: ""
      deadline:
        description: Seconds that a trial may take.
        type: int
        default: 600
      settle:
        description: Seconds for which required checks are tried again before a trial has failed.
        type: int
        default: 60
      identity:
        description: Further paths that belong to the node.
        type: list
        elements: str
        default: []
      uid_first:
        description: First uid of people.
        type: int
        default: 20000
      uid_last:
        description: Last uid of people.
        type: int
        default: 49999
      gpus:
        description: How many GPUs the node should have; without it their number is not judged.
        type: int
      gpu_model:
        description: What the names of its GPUs should have in them.
        type: str
        default: ""
      gpus_worse:
        description: Whether a root on which the GPUs are only less than expected is reported or refused.
        type: str
        choices: [report, refuse]
        default: report
extends_documentation_fragment:
  - gpuadmin.node.attributes
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Check the layout
  gpuadmin.node.image_layout:
    settings: {store: "10.77.0.10:/srv/storage/images", deadline: 600}
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: str
report:
  description: Under the key C(layout), what was found and what would have to change.
  returned: success
  type: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.images import layout
from ansible_collections.gpuadmin.node.plugins.module_utils.images.mounting import mounted
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import (
    FORMAT,
    ImageSettings,
    looking,
    read_json,
    write_json,
)

ARGUMENTS = {
    "settings": {
        "type": "dict",
        "required": True,
        "options": {
            "store": {"type": "str", "default": ""},
            "signers": {"type": "str", "default": ""},
            "deadline": {"type": "int", "default": 600},
            "settle": {"type": "int", "default": 60},
            "identity": {"type": "list", "elements": "str", "default": []},
            "uid_first": {"type": "int", "default": 20000},
            "uid_last": {"type": "int", "default": 49999},
            "gpus": {"type": "int"},
            "gpu_model": {"type": "str", "default": ""},
            "gpus_worse": {"type": "str", "choices": ["report", "refuse"], "default": "report"},
        },
    }
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    wanted = {"format": FORMAT, **module.params["settings"]}
    places = looking()
    known = {key: value for key, value in wanted.items() if key in ImageSettings.__dataclass_fields__}
    settings = ImageSettings(**{**known, "identity": tuple(wanted.get("identity") or ())})
    try:
        first = layout.examine(places, settings)
        if first.problems:
            found = first
        else:
            with mounted(places, settings, store=None):
                found = layout.prepare(places, settings, check=module.check_mode)
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error))
        return
    report = {"layout": {"problems": found.problems, **found.facts}}
    if found.problems:
        problems = "; ".join(found.problems)
        module.fail_json(msg=f"this node is not made for images: {problems}", report=report)
        return
    path = places.in_state("images.json")
    if read_json(path) != wanted:
        found.operations.append("note the site's settings for images")
        if not module.check_mode:
            os.makedirs(places.state, mode=0o755, exist_ok=True)
            write_json(path, wanted)
    module.exit_json(changed=bool(found.operations), operations=found.operations, report=report)


if __name__ == "__main__":
    main()
