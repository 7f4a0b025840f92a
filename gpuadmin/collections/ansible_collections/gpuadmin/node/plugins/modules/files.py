#!/usr/bin/python
"""gpuadmin.node.files: what a role wants in the file system, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: files
short_description: Directories, files and links in one call
version_added: "0.1.0"
description:
  - Makes everything that a role wants in the file system of a host, in one round trip.
  - Files are replaced atomically. New files are validated before any of them is in place.
  - A root that is read-only by its btrfs property is opened only if something in it differs, and closed again.
  - Everything belongs to root.
options:
  directories:
    description: Directories to have.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      mode:
        description: Mode in octal.
        type: str
        default: "0755"
      exclusive:
        description: Whether everything in it that is not in this request is removed.
        type: bool
        default: false
  files:
    description: Files to have. Directories above them are made, with mode 0755.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      content:
        description: The whole text.
        type: str
        required: true
      show_diff:
        description: Whether a diff shows the text, or only that it differs.
        type: bool
        default: true
      mode:
        description: Mode in octal.
        type: str
        default: "0644"
      validate:
        description: A command that must accept the new text; C(%s) in it stands for a file that holds it.
        type: list
        elements: str
        default: []
  links:
    description: Symbolic links to have.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      target:
        description: What it points to.
        type: str
        required: true
  enable:
    description: Unit files among O(files) that are to start by themselves, as their C([Install]) sections say.
      Nothing is started now.
    type: list
    elements: path
    default: []
  mask:
    description: Names of units that must never run.
    type: list
    elements: str
    default: []
  source:
    description:
      - Directories on the controller whose files are to be on the host.
      - An action plugin reads them there and adds them to O(files), before those that are named, and to O(directories).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path of the directory on the controller. It must be there.
        type: path
        required: true
      target:
        description: The directory on the host. One that none of the files is for is not made.
        type: path
        required: true
      patterns:
        description: Which files, relative to O(source[].path). Hidden ones are left out.
        type: list
        elements: str
        default: ["**/*"]
      mode:
        description: Mode of the files in octal.
        type: str
        default: "0644"
      template:
        description: Whether the files are templates; each loses its ending C(.j2).
        type: bool
        default: false
      exclusive:
        description: Whether everything that is in the directories of these files besides is removed.
        type: bool
        default: false
      show_diff:
        description: Whether a diff shows the texts, or only that they differ.
        type: bool
        default: true
  absent:
    description: Paths that must not exist.
    type: list
    elements: path
    default: []
  after:
    description: Commands to run, in this order, once something was changed and the root is closed again.
    type: list
    elements: list
    default: []
attributes:
  diff_mode:
    description: Texts before and after.
    support: full
extends_documentation_fragment:
  - gpuadmin.node.attributes
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Install a unit, enabled
  gpuadmin.node.files:
    files:
      - path: /etc/systemd/system/hello.service
        content: "{{ lookup('ansible.builtin.template', 'hello.service.j2') }}"
    enable: [/etc/systemd/system/hello.service]
    after:
      - [systemctl, daemon-reload]
      - [systemctl, start, hello.service]

- name: Install the scripts that are in a directory of the role, and nothing else there
  gpuadmin.node.files:
    source:
      - path: "{{ role_path }}/files/scripts"
        target: /usr/local/lib/hello
        patterns: ["*.sh"]
        mode: "0755"
        exclusive: true
"""

RETURN = r"""
operations:
  description: What was done, or in check mode would be, in words.
  returned: always
  type: list
  elements: str
  sample: [write /etc/systemd/system/hello.service]
paths:
  description: The paths concerned.
  returned: success
  type: list
  elements: str
  sample: [/etc/systemd/system/hello.service]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.arguments import SOURCE
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import RootError
from ansible_collections.gpuadmin.node.plugins.module_utils.root.tree import (
    Directory,
    File,
    Link,
    Request,
    enabled,
    execute,
    masked,
    plan,
    run_after,
    validate,
)

ARGUMENTS = {
    "directories": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "path", "required": True},
            "mode": {"type": "str", "default": "0755"},
            "exclusive": {"type": "bool", "default": False},
        },
    },
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "required": True},
            "show_diff": {"type": "bool", "default": True},
            "mode": {"type": "str", "default": "0644"},
            "validate": {"type": "list", "elements": "str", "default": []},
        },
    },
    "links": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"path": {"type": "path", "required": True}, "target": {"type": "str", "required": True}},
    },
    "enable": {"type": "list", "elements": "path", "default": []},
    "mask": {"type": "list", "elements": "str", "default": []},
    **SOURCE,
    "absent": {"type": "list", "elements": "path", "default": []},
    "after": {"type": "list", "elements": "list", "default": []},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    directories = [Directory(one["path"], int(one["mode"], 8), one["exclusive"]) for one in given["directories"]]
    files = [
        File(one["path"], one["content"], int(one["mode"], 8), tuple(one["validate"]), one["show_diff"])
        for one in given["files"]
    ]
    links = [Link(one["path"], one["target"]) for one in given["links"]]
    try:
        if given["source"]:
            raise NodeError("source is expanded on the controller, by the action plugin gpuadmin.node.files")
        links += enabled(given["enable"], files) + masked(given["mask"])
        steps = plan(Request(directories, files, links, given["absent"]))
        validate(steps.operations, check=module.check_mode)
        if steps.operations and not module.check_mode:
            execute(steps)
            run_after(given["after"])
    except (NodeError, RootError, OSError) as error:
        module.fail_json(msg=in_words(error), operations=[])
        return
    module.exit_json(
        changed=bool(steps.operations),
        operations=steps.summaries,
        paths=[one.path for one in steps.operations],
        diff=steps.diff(),
    )


if __name__ == "__main__":
    main()
