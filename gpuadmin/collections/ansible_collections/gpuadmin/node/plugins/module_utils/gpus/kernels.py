"""The kernels of a root and NVIDIA's module for each: whether it is there, and of the same version as the libraries.

All of it is in files, so it can be known of a root that does not run, and on a machine without a GPU.

kernels.py says what is wrong. It unpacks some 60 MB for each kernel, so what it found is kept, with what it was found
in; whoever asks is given that for as long as modules and libraries are the same files, and a new look where not.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuadmin.common.text import the_page

from ..errors import NodeError
from ..files import flocked, read_bytes, write_atomic
from ..run import Finished, run_command
from .driver import LIBRARIES, find_library, library_version, module_files, resolved

_SECONDS = 30.0  # of modinfo, which unpacks some 60 MB of a compressed module
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){1,3}")
#: modinfo with a version to look for; tests give another one.
Reader = Callable[[str], "str | None"]


@dataclass(frozen=True)
class Installed:
    """``modules``: kernel → file of its module → the module's version. ``libraries``: file → version.

    A version is None if it cannot be known. Files are named as seen from inside of the root.
    """

    modules: Mapping[str, Mapping[str, str | None]]
    libraries: Mapping[str, str | None]

    @property
    def driver(self) -> bool:
        """Whether anything of NVIDIA's driver is in the root."""
        return bool(self.libraries) or any(self.modules.values())


def look(root: str = "/", version: Reader | None = None) -> Installed:
    """What the root below ``root`` has. Changes nothing."""
    read = version or module_version
    modules = {
        kernel: {_inside(root, path): read(path) for path in module_files(root, kernel)} for kernel in kernels(root)
    }
    found = {one: find_library(root, one) for one in LIBRARIES}
    return Installed(
        modules, {_inside(root, path): library_version(path, root) for path in found.values() if path is not None}
    )


def kernels(root: str = "/") -> list[str]:
    """The kernels that are installed in a root; one that was removed may leave a directory of modules behind."""
    found = set()
    for base in ("usr/lib/modules", "lib/modules"):
        directory = os.path.join(root, base)
        for name in os.listdir(directory) if os.path.isdir(directory) else []:
            here = os.path.join(directory, name)
            own = ("kernel", "vmlinuz")  # its own modules; the kernel itself, where a distribution has it there
            if any(os.path.lexists(os.path.join(here, one)) for one in own) or os.path.lexists(
                os.path.join(root, "boot", f"vmlinuz-{name}")
            ):
                found.add(name)
    return sorted(found)


def module_version(path: str, runner: Callable[..., Finished] = run_command) -> str | None:
    """The version that a module's file says it is (modinfo(8) reads .ko, .ko.xz, .ko.zst and .ko.gz), or None."""
    try:
        done = runner(("modinfo", "-F", "version", path), seconds=_SECONDS)
    except (OSError, NodeError):
        return None
    text = done.stdout.strip()
    return text if done.returncode == 0 and _VERSION.fullmatch(text) else None


def problems(installed: Installed, *, expected: bool = False) -> list[str]:
    """Why GPUs would not work after a boot into each of the kernels, each with what to do. Pure.

    Nothing if there is no driver and none is ``expected``.
    """
    if not installed.driver:
        return (
            [f"GPUs are expected, and there is no driver for them: install one ({the_page('gpus')})"]
            if expected
            else []
        )
    wrong = []
    versions = {one for one in installed.libraries.values() if one is not None}
    for path, version in installed.libraries.items():
        if version is None:
            wrong.append(f"the version of {path} is not known: its link should lead to a file whose name has it")
    if not installed.libraries:
        wrong.append(f"{LIBRARIES[0]} is missing: install the driver's libraries, of the module's version")
    elif len(versions) > 1:
        named = ", ".join(f"{path} is {version}" for path, version in installed.libraries.items())
        wrong.append(f"the driver's libraries are of different versions ({named}): install one version of all")
    for kernel, modules in installed.modules.items():
        if not modules:  # guard: each kernel of an image has the driver's module
            wrong.append(
                f"kernel {kernel} has no module nvidia{_libraries(versions, ', and ')}: install its headers and "
                f"`dkms autoinstall -k {kernel}`, or remove this kernel"
            )
        for path, version in modules.items():
            if version is None:  # guard: a version of the driver that is not known is not taken for agreement
                wrong.append(f"kernel {kernel}: modinfo finds no version in {path}: build it again")
            elif versions and version not in versions:  # guard: the module of each kernel is of the libraries' version
                wrong.append(
                    f"kernel {kernel}: its module nvidia is {version}{_libraries(versions, ', ')}: "
                    f"`dkms autoinstall -k {kernel}` with the module's package of the libraries' version"
                )
    return wrong


def to_build(installed: Installed) -> list[str]:
    """The kernels for which DKMS has something to do: no module, or one of another version than the libraries."""
    versions = {one for one in installed.libraries.values() if one is not None}
    if not versions:
        return []
    return [kernel for kernel, modules in installed.modules.items() if not modules or set(modules.values()) - versions]


def recorded(status: str) -> list[str]:
    """NVIDIA's modules in what `dkms status` prints, as NAME/VERSION."""
    found = re.findall(r"(?m)^(nvidia[a-z0-9-]*/[0-9.]+), [^:]*: (?:built|installed)", status)
    return list(dict.fromkeys(found))


def other_version(installed: Installed, wanted: str) -> list[str]:
    """That the driver is not of the branch or version that the site names; nothing where it names none."""
    found = sorted({one for one in installed.libraries.values() if one is not None})
    return [
        f"the driver is {one}, the site wants {wanted}: upgrade it (on nodes with images: build-image --upgrade)"
        for one in found
        if wanted and one != wanted and not one.startswith(f"{wanted}.")
    ]


def _libraries(versions: set[str], before: str) -> str:
    return f"{before}the libraries are {', '.join(sorted(versions))}" if versions else ""


def _inside(root: str, path: str) -> str:
    return "/" + os.path.relpath(path, root)


RECORD = "run/gpuadmin/gpu-check.json"
_LOOKS = 3  # while packages are being installed, files change under the look; their end starts another one


def main(root: str = "/", version: Reader | None = None) -> int:
    """Check, keep the result, and print it. 0 in any case: a wrong driver is not a failed unit."""
    wrong = check(root, version)
    for one in wrong:
        print(f"Warning: {one}")
    if not wrong:
        print("each kernel has the GPU driver's module, of the libraries' version, or there is no GPU driver")
    return 0


def check(root: str = "/", version: Reader | None = None) -> list[str]:
    """Look at modules and libraries, and keep what is wrong with them. Returns that."""
    path = os.path.join(root, RECORD)
    with flocked(os.path.join(os.path.dirname(path), "gpu-check.lock")):
        for _ in range(_LOOKS):
            before = files(root)
            wrong = problems(look(root, version))
            if files(root) == before:  # guard: the check is of the files that are there at its end -> True
                break
        write_atomic(path, json.dumps({"files": before, "problems": wrong}).encode(), mode=0o600, sync=False)
    return wrong


def boot_problems(root: str = "/", version: Reader | None = None) -> list[str]:
    """What is wrong with them now: from the record, or, if files have changed since, from a new look. Changes
    nothing."""
    kept = _kept(root)
    if (
        kept is not None
        # guard: what was checked before an upgrade is not told after it
        and kept[0] == files(root)
    ):
        return kept[1]
    return problems(look(root, version))


def files(root: str = "/") -> list[str]:
    """What the check goes by, as lines that differ when it has to be made again. No file's content is read for it."""
    found = []
    for kernel in kernels(root):
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
