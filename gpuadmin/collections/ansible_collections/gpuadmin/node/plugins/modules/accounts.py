#!/usr/bin/python
"""gpuadmin.node.accounts: all human accounts of a host in one pass."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: accounts
short_description: Converge all human accounts of a host in one pass
version_added: "0.1.0"
description:
  - Takes all users in one call, decides what differs, and rewrites passwd, shadow, group, gshadow, subuid and subgid
    once each, under the lock that the shadow tools use.
  - Also writes ssh keys and Docker data directories, and records everything in C(accounts.json) before the root is
    touched, so that the next boot finishes what a power cut interrupted.
  - A read-only btrfs root is opened only if a database differs, and is read-only again afterwards.
  - Accounts below O(uid_first) are never touched. Accounts that are not mentioned are kept.
  - Users in conflict are left alone and reported; the module fails at the end, after the others are done.
options:
  users:
    description:
      - The accounts to have, a list of mappings or the same as JSON.
      - C(name), needed, of C(a-z), C(0-9), C(_) and C(-), at most 32 characters.
      - C(uid), needed. With O(source=directory) what the directory says replaces it.
      - C(gid) of the group of the same name; without it the number of C(uid).
      - C(gecos), what passwd has in its fifth field; C(shell), without it C(/bin/bash).
      - C(home); without it the one in C(/home).
      - C(expires), days from 1970-01-01 to the day on which the account ends.
      - C(locked), whether nobody can log in to it; without it false.
      - C(keys), public ssh keys, each with type, base64 text and comment, without options.
      - C(docker), whether the person has rootless Docker, where the host has it; without it true.
    type: json
    default: "[]"
  absent:
    description: The accounts to remove, if they have that uid; homes and Docker data stay.
  refused:
    description:
      - Whom the storage host made no home for. They get no new account, and are reported.
      - An account that is there is converged as anybody's, so that a lock or an end holds.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Login name.
        type: str
        required: true
      reason:
        description: Why, in words.
        type: str
        required: true
  source:
    description: V(registry) makes accounts; V(directory) takes them from NSS and adds subids and Docker only.
    type: str
    choices: [registry, directory]
    default: registry
  uid_first:
    description: First uid that this module may touch.
    type: int
    default: 20000
  uid_last:
    description: Last uid that this module may touch.
    type: int
    default: 49999
  group:
    description: Group that all users are in.
    type: str
    default: gpuusers
  gid:
    description: Id of O(group).
    type: int
    default: 19999
  login:
    description: False on hosts where nobody logs in. Accounts then have no shell, no keys and no Docker.
    type: bool
    default: true
  subid_base:
    description: First subordinate id of the user with the uid O(uid_first).
    type: int
    default: 2147483648
  subid_size:
    description: Number of subordinate ids for each user.
    type: int
    default: 65536
  docker_data:
    description: Directory of the users' Docker data, on a local disk. Without it nobody gets Docker or subids here.
    type: path
attributes:
  diff_mode:
    description: Lines of the databases before and after, without password hashes.
    support: full
extends_documentation_fragment:
  - gpuadmin.node.attributes
  - gpuadmin.node.each
  - gpuadmin.node.each.absent
  - gpuadmin.node.state
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Apply the human accounts
  gpuadmin.node.accounts:
    users:
      - name: minji
        uid: 20001
        gid: 20001
        gecos: minji@example.org
        shell: /bin/bash
        home: /home/minji
        expires: 20879
        locked: false
        docker: true
        keys:
          - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEwH0f5bI8ZzvWgIbc5uK1h6H8l2fFrj1v6J2p7mWb2T minji
    absent:
      - name: junho
        uid: 20002
    docker_data: /local/.docker
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["user minji: create uid 20001"]
report:
  description: Problems of the host's files.
  returned: always
  type: dict
  sample: {problems: []}
each:
  description: C(users) as JSON, each user's status as it was found, operations and problem.
  returned: always
  type: dict
  sample: {users: '{"minji": {"status": "missing", "operations": ["create uid 20001"], "problem": null}}'}
"""

from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import settings_from
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import EACH, STATE, each

ARGUMENTS = {
    "users": EACH,
    "absent": EACH,
    "refused": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "reason": {"type": "str", "required": True}},
    },
    "source": {"type": "str", "choices": ["registry", "directory"], "default": "registry"},
    "uid_first": {"type": "int", "default": 20000},
    "uid_last": {"type": "int", "default": 49999},
    "group": {"type": "str", "default": "gpuusers"},
    "gid": {"type": "int", "default": 19999},
    "login": {"type": "bool", "default": True},
    "subid_base": {"type": "int", "default": 2147483648},
    "subid_size": {"type": "int", "default": 65536},
    "docker_data": {"type": "path"},
    **STATE,
}


def main(root: str = "/") -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = dict(module.params)

    def apply() -> Answer:
        refused = {one["name"]: one["reason"] for one in given["refused"]}
        users, absent = each("users", given["users"]), each("absent", given["absent"])
        request = Request(settings_from(given), users, absent, refused=refused)
        done = converge(request, Host(root=root, state=given["state_directory"]), check=module.check_mode)
        return replace(Answer.of(done.plan), changed=done.changed, diff=done.diff)

    give(module, apply, key="users")


if __name__ == "__main__":
    main()
