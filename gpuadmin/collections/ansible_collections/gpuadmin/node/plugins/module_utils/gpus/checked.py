"""Whether GPUs would work after the next boot, as it was last checked: at boot, after packages changed, by provision.

kernels.py says what is wrong. It unpacks some 60 MB for each kernel, so what it found is kept, with what it was found
in; whoever asks is given that for as long as modules and libraries are the same files, and a new look where not.
"""

from __future__ import annotations

import json
import os

from ..errors import NodeError
from ..files import flocked, read_bytes, write_atomic
from . import kernels
from .driver import LIBRARIES, find_library, module_files, resolved

RECORD = "run/gpuadmin/gpu-check.json"
UNIT = "gpuadmin-gpu-check.service"
_LOOKS = 3  # while packages are being installed, files change under the look; their end starts another one


def main(root: str = "/", version: kernels.Reader | None = None) -> int:
    """Check, keep the result, and print it. 0 in any case: a wrong driver is not a failed unit."""
    wrong = check(root, version)
    for one in wrong:
        print(f"Warning: {one}")
    if not wrong:
        print("each kernel has the GPU driver's module, of the libraries' version, or there is no GPU driver")
    return 0


def check(root: str = "/", version: kernels.Reader | None = None) -> list[str]:
    """Look at modules and libraries, and keep what is wrong with them. Returns that."""
    path = os.path.join(root, RECORD)
    with flocked(os.path.join(os.path.dirname(path), "gpu-check.lock")):
        for _ in range(_LOOKS):
            before = files(root)
            wrong = kernels.problems(kernels.look(root, version))
            if files(root) == before:  # guard: the check is of the files that are there at its end -> True
                break
        write_atomic(path, json.dumps({"files": before, "problems": wrong}).encode(), mode=0o600, sync=False)
    return wrong


def problems(root: str = "/", version: kernels.Reader | None = None) -> list[str]:
    """What is wrong with them now: from the record, or, if files have changed since, from a new look. Changes
    nothing."""
    kept = _kept(root)
    if (
        kept is not None
        # guard: what was checked before an upgrade is not told after it
        and kept[0] == files(root)
    ):
        return kept[1]
    return kernels.problems(kernels.look(root, version))


def files(root: str = "/") -> list[str]:
    """What the check goes by, as lines that differ when it has to be made again. No file's content is read for it."""
    found = []
    for kernel in kernels.kernels(root):
        found.append(f"kernel {kernel}")
        found += [_line(path) for path in module_files(root, kernel)]
    for name in LIBRARIES:
        path = find_library(root, name)
        if path is not None:
            found.append(f"{path} {_line(resolved(path, root))}")
    return found


def _line(path: str) -> str:
    try:
        facts = os.stat(path)
    except OSError:
        return f"{path} is gone"
    return " ".join(
        map(
            str,
            (
                path,
                facts.st_ino,  # guard: a module that was replaced is checked again
                facts.st_size,  # guard: a module that was cut is checked again
                facts.st_mtime_ns,  # guard: a module that was written to is checked again
            ),
        )
    )


def _kept(root: str) -> tuple[list[str], list[str]] | None:
    """Files and problems of the last check; None if there is no readable record."""
    try:
        kept = json.loads(read_bytes(os.path.join(root, RECORD)) or b"{}")
        return [str(one) for one in kept["files"]], [str(one) for one in kept["problems"]]
    except (NodeError, OSError, ValueError, LookupError, TypeError):
        return None
