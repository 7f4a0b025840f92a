#!/usr/bin/python
"""gpuadmin.node.image_store: the images on the storage host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_store
short_description: List, verify and delete images in the store
version_added: "0.2.0"
description:
  - Reports the images that the store holds completely, with their manifests.
  - Verifies signatures and digests, and deletes images by name.
options:
  path:
    description: The store.
    type: path
    required: true
  signers:
    description: Who may sign, in the format of allowed signers of ssh-keygen.
    type: str
    default: ""
  verify:
    description: Names of images whose signature, digests and chain are to be verified.
    type: list
    elements: str
    default: []
  delete:
    description: Names of images to delete.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Deletes nothing.
extends_documentation_fragment:
  - gpuadmin.node.attributes.look
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look at the store
  gpuadmin.node.image_store:
    path: /srv/storage/images
"""

RETURN = r"""
operations:
  description: What was deleted, or in check mode would be.
  returned: success
  type: list
  elements: str
report:
  description: Under C(store), images by name with C(manifest) and C(text); under C(verified), name to problems.
  returned: success
  type: dict
"""

import os
import shutil

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import sync_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import digest, load
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import check_name

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "signers": {"type": "str", "default": ""},
    "verify": {"type": "list", "elements": "str", "default": []},
    "delete": {"type": "list", "elements": "str", "default": []},
}


def listing(path: str) -> dict[str, dict[str, object]]:
    """Name → what the store has; `problem` where it is not complete."""
    found: dict[str, dict[str, object]] = {}
    for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
        try:
            manifest = load(os.path.join(path, name), None)
            with open(os.path.join(path, name, "manifest.json"), encoding="utf-8") as stream:
                found[name] = {"manifest": dict(manifest.raw), "text": stream.read(), "problem": None}
        except NodeError as error:
            found[name] = {"manifest": None, "text": None, "problem": str(error)}
    return found


def verify(path: str, name: str, signers: str) -> list[str]:
    """What is wrong with an image in the store; an empty list where nothing is."""
    try:
        manifest = load(os.path.join(path, check_name(name)), signers)
    except NodeError as error:
        return [str(error)]
    problems = []
    for stream in manifest.streams:
        file = os.path.join(path, name, stream.file)
        if not os.path.exists(file):
            problems.append(f"{stream.file} is missing")
        elif os.path.getsize(file) != stream.bytes:
            problems.append(f"{stream.file} has {os.path.getsize(file)} bytes, its manifest says {stream.bytes}")
        elif digest(file) != stream.sha256:
            problems.append(f"{stream.file} has another sha256 than its manifest says")
        if stream.parent is None or any(other.parent is None for other in manifest.streams):
            continue
        if not os.path.exists(os.path.join(path, stream.parent[0], "manifest.json")):
            problems.append(
                f"its parent {stream.parent[0]} is not in the store: only nodes that hold it can receive {name}; "
                f"gpuadmin build-image {name} --full makes it complete"
            )
    return problems


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    path = module.params["path"]
    operations = []
    try:
        for name in module.params["delete"]:
            directory = os.path.join(path, check_name(name))
            if os.path.isdir(directory):
                operations.append(f"delete image {name} from the store")
                if not module.check_mode:
                    # without its manifest it is no image any more, whatever happens to the rest
                    for file in ("manifest.json", "manifest.json.sig"):
                        if os.path.exists(os.path.join(directory, file)):
                            os.unlink(os.path.join(directory, file))
                    sync_directory(directory)
                    shutil.rmtree(directory)
        report = {
            "store": listing(path),
            "verified": {name: verify(path, name, module.params["signers"]) for name in module.params["verify"]},
        }
    except (NodeError, OSError) as error:
        module.fail_json(msg=in_words(error), operations=operations)
        return
    module.exit_json(changed=bool(operations), operations=operations, report=report)


if __name__ == "__main__":
    main()
