#!/usr/bin/python
"""gpuadmin.node.admin_account: the account that gpuadmin logs in as."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: admin_account
short_description: The account that gpuadmin logs in as
version_added: "0.1.0"
description:
  - Makes the account where it is missing, without a password, and adds its key. An account that is there keeps its
    uid, home, shell, password and other keys.
  - Refuses an account of a directory, one with a person's uid, one of a service, and one whose home people's homes
    would hide, or somebody else could write into.
options:
  name:
    description: Name of the account.
    type: str
    required: true
  uid:
    description: The uid of a new account.
    type: int
    required: true
  home:
    description: The home of a new account.
    type: path
    required: true
  key:
    description: The public key, a line.
    type: str
    required: true
  homes:
    description: Where people's homes are mounted.
    type: path
    required: true
  uid_first:
    description: The first of people's uids.
    type: int
    required: true
  uid_last:
    description: The last of people's uids.
    type: int
    required: true
extends_documentation_fragment:
  - gpuadmin.node.attributes
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Make the account
  gpuadmin.node.admin_account:
    name: gpuadmin
    uid: 900
    home: /var/home/gpuadmin
    key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHZ3 admin@laptop
    homes: /home
    uid_first: 20000
    uid_last: 49999
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.admin import Wanted, execute, observe, plan
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "home": {"type": "path", "required": True},
    "key": {"type": "str", "required": True, "no_log": False},
    "homes": {"type": "path", "required": True},
    "uid_first": {"type": "int", "required": True},
    "uid_last": {"type": "int", "required": True},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    wanted = Wanted(
        given["name"],
        given["uid"],
        given["home"],
        given["key"],
        given["homes"],
        given["uid_first"],
        given["uid_last"],
    )

    def answer() -> Answer:
        missing = plan(wanted, observe(wanted))
        if not module.check_mode:  # guard: a check makes no admin account -> True
            execute(missing, wanted)
        return Answer(missing.operations(wanted), {})

    give(module, answer)


if __name__ == "__main__":
    main()
