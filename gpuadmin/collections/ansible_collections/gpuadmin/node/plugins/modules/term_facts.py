#!/usr/bin/python
"""gpuadmin.node.term_facts: what a semester's end has to know of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: term_facts
short_description: What a semester's end has to know of a host
version_added: "0.1.0"
description:
  - Looks at homes, backups, scratch directories and processes, as far as the arguments name them.
  - It changes nothing, and counts no files one by one.
options:
  people:
    required: false
    default: []
  home_root:
    description: Directory of homes, on the storage host.
    type: path
  backup_directory:
    description: Directory of backups.
    type: path
  directories:
    description: Scratch directories to look into.
    type: list
    elements: path
    default: []
  docker_data:
    description: Directory of everybody's Docker data.
    type: path
  names:
    description: Names whose uid is asked for on this host.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.people
  - gpuadmin.node.homes.mountpoint
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at the storage host
  gpuadmin.node.term_facts:
    home_root: /srv/storage/homes
    backup_directory: /srv/storage/backups
"""

RETURN = r"""
report:
  description: C(facts), with the time they were taken at, the boot they hold for, and what was asked for.
  returned: always
  type: dict
  sample: {facts: {homes: {minji: {kind: directory, uid: 20001, problem: null}}}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import people
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import PEOPLE
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import term_facts

ARGUMENTS = {
    "people": {**PEOPLE["people"], "required": False, "default": []},
    "home_root": {"type": "path"},
    "mountpoint": {"type": "path"},
    "backup_directory": {"type": "path"},
    "directories": {"type": "list", "elements": "path", "default": []},
    "docker_data": {"type": "path"},
    "names": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        given = module.params
        facts = term_facts.collect(
            people.parse(given["people"]),
            home_root=given["home_root"],
            mountpoint=given["mountpoint"],
            backup_directory=given["backup_directory"],
            directories=given["directories"],
            docker=given["docker_data"],
            names=given["names"],
        )
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error), report={"problems": [in_words(error)]})
        return
    module.exit_json(changed=False, report={"facts": facts, "problems": []})


if __name__ == "__main__":
    main()
