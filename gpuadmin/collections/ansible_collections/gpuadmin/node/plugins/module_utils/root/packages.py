"""Installs packages of the distribution by apt-get."""

from __future__ import annotations

import glob
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import background, unit
from ..errors import NodeError
from ..run import program

NAME = "packages"
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "NEEDRESTART_MODE": "l"}
# Nobody is there to ask: new configuration files where nothing was changed by hand, old ones elsewhere.
APT = (
    "apt-get", "--yes", "--quiet", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
    "-o", "DPkg::Lock::Timeout=600",
)  # fmt: skip
REFRESH = (*APT, "update")
INSTALL = (
    *APT,
    "install",
    "--no-remove",  # guard: an installation removes no package
)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    output: str


def in_unit(command: Sequence[str], timeout: int, environment: Mapping[str, str] = ENVIRONMENT) -> Done:
    """Run a command in the unit gpuadmin-packages.service, ``timeout`` seconds at most, and wait for it."""
    limit = (f"RuntimeMaxSec={timeout}",)
    try:
        done = background.perform(NAME, program, {"command": command, "environment": environment}, properties=limit)
    except NodeError as error:
        return Done(-1, str(error))
    return Done(**done)


def wait_for_another(timeout: int) -> None:
    """Wait for an installation that an interrupted run has left running."""
    deadline = time.monotonic() + timeout
    name = unit.unit_name(NAME)
    while unit.working(name):
        if time.monotonic() > deadline:
            raise NodeError(f"{name} of an earlier run has not ended in {timeout} seconds; look at it with systemctl")
        time.sleep(1)  # between two questions to systemd


def last_words(text: str) -> str:
    """The lines of a package manager's output that say what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    return " ".join(errors or lines[-3:])


def without_index() -> bool:
    """Whether the index of packages was never fetched, as in an image for virtual machines."""
    return not glob.glob("/var/lib/apt/lists/*Packages*")


def install(names: Sequence[str], *, refresh: bool, timeout: int, bare: bool = False) -> None:
    """Install packages; fetch the index first if asked to, and once if the old one does not work. `bare`: nothing that
    is only recommended."""
    if refresh or without_index():
        result = in_unit(REFRESH, timeout)
        if result.status != 0:
            raise NodeError(f"the index of packages cannot be fetched: {last_words(result.output)}")
    command = (*INSTALL, *(("--no-install-recommends",) if bare else ()), *names)
    result = in_unit(command, timeout)
    if result.status != 0 and in_unit(REFRESH, timeout).status == 0:
        result = in_unit(command, timeout)
    if result.status != 0:
        raise NodeError(f"{' '.join(names)} cannot be installed: {last_words(result.output)}")


def simulate(names: Sequence[str]) -> None:
    """Try an installation, where that can be done without the index. Raises NodeError with what keeps it."""
    if not without_index():
        result = Done(**program({"command": (*INSTALL, "--simulate", *names)}))
        if result.status != 0:
            raise NodeError(f"{' '.join(names)} could not be installed: {last_words(result.output)}")


def disabled(units: Sequence[str]) -> list[str]:
    """Those of the units that do not start at boot."""
    return [one for one in units if program({"command": ("systemctl", "is-enabled", "--quiet", one)})["status"] != 0]


def enable(units: Sequence[str]) -> None:
    """Have units start at boot. Raises NodeError."""
    result = in_unit(("systemctl", "enable", *units), 60)
    if result.status != 0:
        raise NodeError(f"{' '.join(units)} cannot be enabled: {last_words(result.output)}")
