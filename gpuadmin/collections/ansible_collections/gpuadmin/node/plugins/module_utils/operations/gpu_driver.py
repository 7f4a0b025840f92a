"""gpuadmin.node.gpu_driver: NVIDIA's module for each of a host's kernels, of the libraries' version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .. import background, unit
from ..answer import Answer
from ..errors import NodeError
from ..gpus import checked, kernels, pci
from ..root.session import close_session, open_session
from ..run import program


@dataclass(frozen=True)
class Document:
    """Have NVIDIA's module for each kernel.

    Finds out which of the host's kernels have NVIDIA's module, and whether it is of the version of the driver's
    libraries. No GPU is needed for it, and no driver is asked. With ``build`` it has DKMS build what is missing. A root
    that is read-only by its btrfs property is opened for it. It reports what it cannot fix. With ``build`` that is a
    failure.
    """

    #: Whether to build modules that are missing or of another version.
    build: bool = False
    #: How many GPUs the host should have. If it should have some, it needs a driver.
    expected: Optional[int] = None
    #: The driver's branch or version that is wanted.
    version: str = ""
    #: Seconds that the build for one kernel may take.
    timeout: int = 3600


UNIT = "gpu-driver"


def build(names: list[str], timeout: int) -> None:
    """Have DKMS build its modules for kernels. Raises NodeError with what it said last."""
    open_session(2 * timeout * len(names) + 60)
    try:
        for kernel in names:
            dkms(("autoinstall", "-k", kernel), timeout)
        for kernel in kernels.to_build(kernels.look()):
            # it trusts its own records: a module that somebody deleted counts as installed
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


def wrong(document: Document) -> list[str]:
    """What is wrong with the driver that is installed."""
    seen = kernels.look()
    expected = bool(document.expected) and bool(pci.devices(names=()))
    return [*kernels.problems(seen, expected=expected), *kernels.other_version(seen, document.version)]


def operate(document: Document, check: bool) -> Answer:
    names = kernels.to_build(kernels.look()) if document.build else []
    done = [f"build the GPU driver's module for kernel {one}" for one in names]
    if check:
        left = [] if names else wrong(document)
        return Answer([*done, *(f"wrong with the GPU driver: {one}" for one in left)], {"problems": left})
    if names:
        build(names, document.timeout)
    left = wrong(document)
    checked.check()  # the next caller gets the new state
    return Answer(done, {"problems": left}, left if document.build else ())
