#!/usr/bin/python
"""gpuadmin.node.privileges: who is root on a host, or could be, and what differs from what its packages brought."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: privileges
short_description: Who is root on a host, or could be
version_added: "0.3.0"
description:
  - Looks at accounts, groups of privilege, sudo's rules, root's keys, setuid files, well-known modes, packaged files
    and sshd's settings.
  - Each part is looked at by itself and has a deadline. One that does not answer is reported as unknown.
  - It changes nothing and reads nobody's home.
options:
  admin:
    description: The account that gpuadmin logs in as.
    type: str
    required: true
  declared:
    description: Further accounts that may be root by the site.
    type: list
    elements: str
    default: []
  aside:
    description: Directories of people's files, which are not walked.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
  - gpuadmin.node.state
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look who is root, or could be
  gpuadmin.node.privileges:
    admin: gpuadmin
    aside: [/home, /local/.docker]
"""

RETURN = r"""
report:
  description:
    - Under the key C(privileges), what was found, each with what it is about and whether somebody is root by it.
    - C(sshd) and C(keys) are for comparison with other hosts. C(aside) and C(unknown) say what was not looked at.
  returned: always
  type: dict
  sample:
    privileges:
      found: [{key: minji in group sudo, words: may become root by sudo, rank: root}]
      sshd: {usedns: ["no"]}
      keys: {gpuadmin: []}
      aside: []
      unknown: {}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.collect import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import parse

ARGUMENTS = {
    "admin": {"type": "str", "required": True},
    "declared": {"type": "list", "elements": "str", "default": []},
    "aside": {"type": "list", "elements": "path", "default": []},
    **STATE,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        report = collect(parse(module.params))
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error), report={"problems": [in_words(error)]})
        return
    module.exit_json(changed=False, report={"privileges": report})


if __name__ == "__main__":
    main()
