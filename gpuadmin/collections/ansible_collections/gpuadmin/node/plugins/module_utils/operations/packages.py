"""gpuadmin.node.packages: packages of the distribution, on ordinary and on read-only roots."""

from __future__ import annotations

import glob
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .. import background, unit
from ..answer import Answer
from ..errors import NodeError
from ..root.session import close_session, open_session
from ..run import program
from ..system import family, installed_packages, os_release


@dataclass(frozen=True)
class Document:
    """Install packages of the distribution.

    Installs what is missing with the distribution's own program (apt-get, dnf or pacman), never upgrades or
    removes.
    A root that is read-only by its btrfs property is opened for it, and closed again.
    The installation runs in the unit ``gpuadmin-packages.service``, so it is not cut in the middle when the
    controller is interrupted; the next run waits for it.
    """

    #: Names of the packages to have.
    names: Sequence[str]
    #: Whether to fetch the index of packages first. It is always fetched if there is none.
    refresh: bool = False
    #: Units of these packages that start at boot. Nothing is started now.
    enable: Sequence[str] = ()
    #: Seconds that the installation may take.
    timeout: int = 1800


NAME = "packages"
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "NEEDRESTART_MODE": "l"}
# Nobody is there to ask: new configuration files where nothing was changed by hand, old ones elsewhere.
APT = (
    "apt-get", "--yes", "--quiet", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
    "-o", "DPkg::Lock::Timeout=600",
)  # fmt: skip
REFRESH = {
    "debian": (*APT, "update"),
    "redhat": ("dnf", "--assumeyes", "makecache"),
    # A new index with old packages is what Arch Linux calls a partial upgrade, and does not support.
    "archlinux": (),
}
INSTALL = {
    "debian": (
        *APT,
        "install",
        "--no-remove",  # guard: an installation removes no package
    ),
    "redhat": ("dnf", "--assumeyes", "install"),
    "archlinux": ("pacman", "--noconfirm", "--sync", "--needed"),
}
SIMULATE = {"debian": (*INSTALL["debian"], "--simulate")}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    output: str


def in_unit(command: Sequence[str], timeout: int) -> Done:
    """Run a command in the unit gpuadmin-packages.service, ``timeout`` seconds at most, and wait for it."""
    limit = (f"RuntimeMaxSec={timeout}",)
    try:
        done = background.perform(NAME, program, {"command": command, "environment": ENVIRONMENT}, properties=limit)
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
    errors = [line for line in lines if line.startswith(("E:", "Error:", "error:", "No match for"))]
    return " ".join(errors or lines[-3:])


def without_index(kin: str) -> bool:
    """Whether the index of packages was never fetched, as in an image for virtual machines."""
    return kin == "debian" and not glob.glob("/var/lib/apt/lists/*Packages*")


def install(kin: str, names: Sequence[str], *, refresh: bool, timeout: int) -> None:
    """Install packages; fetch the index first if asked to, and once if the old one does not work."""
    if (refresh or without_index(kin)) and REFRESH[kin]:
        result = in_unit(REFRESH[kin], timeout)
        if result.status != 0:
            raise NodeError(f"the index of packages cannot be fetched: {last_words(result.output)}")
    command = (*INSTALL[kin], *names)
    result = in_unit(command, timeout)
    if result.status != 0 and REFRESH[kin] and in_unit(REFRESH[kin], timeout).status == 0:
        result = in_unit(command, timeout)
    if result.status != 0:
        raise NodeError(f"{' '.join(names)} cannot be installed: {last_words(result.output)}")


def disabled(units: Sequence[str]) -> list[str]:
    """Those of the units that do not start at boot."""
    return [one for one in units if program({"command": ("systemctl", "is-enabled", "--quiet", one)})["status"] != 0]


def enable(units: Sequence[str]) -> None:
    """Have units start at boot. Raises NodeError."""
    result = in_unit(("systemctl", "enable", *units), 60)
    if result.status != 0:
        raise NodeError(f"{' '.join(units)} cannot be enabled: {last_words(result.output)}")


def operate(document: Document, check: bool) -> Answer:
    kin = family(os_release())
    if kin is None:
        raise NodeError("gpuadmin does not know this distribution")
    if not check:
        wait_for_another(document.timeout)
    installed = set(installed_packages(kin))
    missing = [name for name in dict.fromkeys(document.names) if name not in installed]
    # an installation includes it, and some distributions enable what they install
    sleeping = [] if missing else disabled(document.enable)
    if (missing or sleeping) and not check:
        open_session(document.timeout + 60)
        try:
            if missing:
                install(kin, missing, refresh=document.refresh, timeout=document.timeout)
            if late := disabled(document.enable):
                enable(late)
        finally:
            close_session()
    elif missing and kin in SIMULATE and not (document.refresh or without_index(kin)):
        result = Done(**program({"command": (*SIMULATE[kin], *missing)}))
        if result.status != 0:
            raise NodeError(f"{' '.join(missing)} could not be installed: {last_words(result.output)}")
    done = [f"install {name}" for name in missing] + [f"enable {name}" for name in sleeping]
    return Answer(done, diff={"before": "", "after": "".join(f"{name}\n" for name in [*missing, *sleeping])})
