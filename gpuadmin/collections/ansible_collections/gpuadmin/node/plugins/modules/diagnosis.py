#!/usr/bin/python
"""gpuadmin.node.diagnosis: why something does not work for a person or on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: diagnosis
short_description: Why something does not work for a person or on a host
version_added: "0.2.0"
description:
  - Looks at a person's account, keys, home, sessions and Docker, and at the host itself.
  - Each part is looked at by itself and has a deadline. One that does not answer is reported as unknown.
  - What that means is in the answer as well (causes), each with what to do about it.
  - It changes nothing, follows no link in a home, and starts no daemon.
  - With O(trial) it begins a session of the person's, which ends within seconds and is killed with all that it left.
    It starts no user manager of theirs.
options:
  person:
    description: Whose account is looked at, as users.yml has them. Without it only the host is.
    type: dict
    suboptions:
      name:
        description: Login name.
        type: str
      uid:
        description: The uid that the person has by the site.
        type: int
      registered:
        description: Whether users.yml has them. Of somebody whom it does not have, no account is missing.
        type: bool
        default: true
      locked:
        description: Whether they are locked.
        type: bool
        default: false
      expires:
        description: Their last day, YYYY-MM-DD.
        type: str
      keys:
        description: Whether users.yml has a key of theirs.
        type: bool
        default: false
      docker:
        description: Whether they were given Docker.
        type: bool
        default: true
  node:
    description: Whether people log in here.
    type: bool
    default: true
  homes:
    description: The directory of all homes on this host.
    type: path
    default: /home
  docker:
    description: The directory of everybody's Docker data, where there is Docker.
    type: path
  servers:
    description: Names or addresses that this host must be able to find.
    type: list
    elements: str
    default: []
  gpus:
    description: How many GPUs this host should have. Without it their number is not judged.
    type: int
  gpu_model:
    description: What the names of its GPUs should have in them.
    type: str
    default: ""
  trial:
    description: Whether a session of the person's is tried where people log in. It is begun by sshd's rules of PAM.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.state
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look for what keeps minji from working
  gpuadmin.node.diagnosis:
    person:
      name: minji
      uid: 20000
"""

RETURN = r"""
report:
  description:
    - Under the key C(diagnosis), the facts by part, and what they mean (C(causes)).
    - C(unknown) says by part why it is not known.
  returned: always
  type: dict
  sample: {diagnosis: {account: {passwd: null}, unknown: {home: did not answer}, late: [home], causes: []}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.judge import judge
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.collect import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import parse, person
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words

ARGUMENTS = {
    "person": {
        "type": "dict",
        "options": {
            "name": {"type": "str"},
            "uid": {"type": "int"},
            "registered": {"type": "bool", "default": True},
            "locked": {"type": "bool", "default": False},
            "expires": {"type": "str"},
            "keys": {"type": "bool", "default": False},
            "docker": {"type": "bool", "default": True},
        },
    },
    "node": {"type": "bool", "default": True},
    "homes": {"type": "path", "default": "/home"},
    "docker": {"type": "path"},
    "servers": {"type": "list", "elements": "str", "default": []},
    "gpus": {"type": "int"},
    "gpu_model": {"type": "str", "default": ""},
    "trial": {"type": "bool", "default": False},
    **STATE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        raw = module.params["person"] or {}
        facts = collect(parse({**module.params, "name": raw.get("name"), "uid": raw.get("uid")}))
        causes = judge(facts, person(raw))
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error), report={"problems": [in_words(error)]})
        return
    module.exit_json(changed=False, report={"diagnosis": {**facts, "causes": [one.document() for one in causes]}})


if __name__ == "__main__":
    main()
