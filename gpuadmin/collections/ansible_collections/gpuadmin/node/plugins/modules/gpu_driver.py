#!/usr/bin/python
"""gpuadmin.node.gpu_driver: NVIDIA's module for each of a host's kernels, of the libraries' version."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_driver
short_description: Have NVIDIA's module for each kernel
version_added: "0.3.0"
description:
  - Looks which of the host's kernels have NVIDIA's module, and whether it is of the version of the driver's libraries.
    No GPU is needed for it, and no driver is asked.
  - With O(build) it has DKMS build what is missing. A root that is read-only by its btrfs property is opened for it.
  - What it cannot make right it reports. With O(build) that is a failure.
options:
  build:
    description: Whether to build modules that are missing or of another version.
    type: bool
    default: false
  expected:
    description: How many GPUs the host should have. If it should have some, it is to have a driver.
    type: int
  version:
    description: The driver's branch or version that is wanted.
    type: str
    default: ""
  timeout:
    description: Seconds that the build for one kernel may take.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Says which modules would be built, and as a change whatever else is wrong, so that drift shows it.
    support: partial
  diff_mode:
    description: There is nothing to show beyond the operations.
    support: none
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Look whether module and libraries agree
  gpuadmin.node.gpu_driver:
    expected: 8
"""

RETURN = r"""
operations:
  description: What was done, in words. In check mode also what is wrong.
  returned: always
  type: list
  elements: str
  sample: ["build the GPU driver's module for kernel 6.12.57+deb13-amd64"]
report:
  description: C(problems), what is wrong with the driver.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuadmin.node.plugins.module_utils import background, unit
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import checked, kernels, pci
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import RootError
from ansible_collections.gpuadmin.node.plugins.module_utils.root.session import close_session, open_session
from ansible_collections.gpuadmin.node.plugins.module_utils.run import program

ARGUMENTS = {
    "build": {"type": "bool", "default": False},
    "expected": {"type": "int"},
    "version": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 3600},
}
UNIT = "gpu-driver"


def build(names: list[str], timeout: int) -> None:
    """Have DKMS build its modules for kernels. Raises NodeError with what it said last."""
    open_session(2 * timeout * len(names) + 60)
    try:
        for kernel in names:
            dkms(("autoinstall", "-k", kernel), timeout)
        for kernel in kernels.to_build(kernels.look()):
            # it goes by its own records: a module that somebody deleted counts as installed
            for module in kernels.recorded(dkms(("status", "-k", kernel), timeout)):
                dkms(("install", module, "-k", kernel, "--force"), timeout)
    finally:
        close_session()


def dkms(arguments: tuple[str, ...], timeout: int) -> str:
    """Run DKMS in a unit, and return what it prints. Raises NodeError."""
    properties = (f"RuntimeMaxSec={timeout}", *unit.BACKGROUND)
    done = background.perform(UNIT, program, {"command": ("dkms", *arguments)}, properties=properties)
    output = str(done["output"])
    if done["status"] != 0:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        raise NodeError(f"`dkms {' '.join(arguments)}` failed: {' '.join(lines[-3:])}")
    return output


def wrong(given: dict[str, object]) -> list[str]:
    """What is wrong with the driver that is installed."""
    seen = kernels.look()
    expected = bool(given["expected"]) and any(one.nvidia for one in pci.devices(names=()))
    return [*kernels.problems(seen, expected=expected), *kernels.other_version(seen, str(given["version"]))]


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params

    def answer() -> Answer:
        names = kernels.to_build(kernels.look()) if given["build"] else []
        done = [f"build the GPU driver's module for kernel {one}" for one in names]
        if module.check_mode:
            left = [] if names else wrong(given)
            return Answer([*done, *(f"wrong with the GPU driver: {one}" for one in left)], {"problems": left})
        if names:
            try:
                build(names, given["timeout"])
            except RootError as error:
                raise NodeError(str(error)) from error
        left = wrong(given)
        checked.check()  # who asks next is told what is so now
        return Answer(done, {"problems": left}, left if given["build"] else ())

    give(module, answer)


if __name__ == "__main__":
    main()
