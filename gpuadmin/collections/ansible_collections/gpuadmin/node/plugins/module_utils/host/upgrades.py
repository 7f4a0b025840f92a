"""What waits to be upgraded on a host of Debian's kin, the upgrade of just that, and whether the host is well then."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence

from gpuadmin.common.records.hosts import Update, Updates, Waiting

from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..gpus import kernels
from ..images.health import of_people
from ..images.root_facts import failed_units
from ..paths import RUN, STATE
from ..root import guard, packages
from ..run import program, run
from ..system import installed_packages, is_debian, os_release

BEFORE, COUNTED, PINS = f"{STATE}/upgrade.json", f"{STATE}/updates.json", f"{RUN}/upgrade-preferences"
#: A line of `apt-get --simulate`: name, installed version, new one, where that is from (Label:version/archive).
_PLANNED = re.compile(r"(?m)^Inst (\S+)(?: \[([^\]]*)\])? \((\S+)(.*?) \[[^\]]+\]\)")
_SECURITY = re.compile(r"(?i)-security\b")
#: NVIDIA's driver: its libraries and modules are of one version until the host boots. Its container toolkit is not.
_DRIVER = re.compile(r"(?!.*container).*nvidia|libcuda1$|libcudadebugger1$|cuda-drivers")
SECONDS = 5400  # that an upgrade may take


def look(security: bool, fetch: bool) -> Updates:
    """What would be upgraded, and how the host is. ``fetch``: apt's lists first. Raises NodeError."""
    if guard.inspect("/").managed:  # guard: a node with images is not upgraded in place
        raise NodeError("its root is read-only. Nodes with images: gpuadmin build-image --upgrade, then push-image")
    if not is_debian(os_release()):
        raise NodeError("gpuadmin upgrades Debian and Ubuntu alone")
    if fetch:
        _do((*packages.APT, "-o", "APT::Update::Error-Mode=any", "update"))
    return Updates(plan(security)[0], held(installed_packages()), reboot_reasons(), interrupted(), problems())


def upgrade(security: bool, shown: Mapping[str, str]) -> list[str]:
    """Upgrade what was shown, name → version. Returns what was done. Raises NodeError."""
    if not problems():  # guard: what an upgrade broke is not taken for how the host was before the next one
        write_atomic(BEFORE, json.dumps(_failed()).encode(), mode=0o600)
    if interrupted():
        _do(("dpkg", "--force-confdef", "--force-confold", "--configure", "-a"))
    found, command = plan(security)
    other = [name for name, one in found.items() if shown.get(name) != one.new]
    if other:  # guard: what is upgraded is what was shown
        raise NodeError(f"more waits than was shown ({', '.join(other)}): run it again, which shows it")
    if found:
        needed = run(("apt-mark", "showauto", *found)).split()
        _do(command)
        if needed:  # by other packages; apt takes what it was given by name for wanted by itself
            run(("apt-mark", "auto", *needed))
    return [f"{name} {one.old or '(new)'} → {one.new}" for name, one in found.items()]


def plan(security: bool, hold: bool = True) -> tuple[dict[str, Update], tuple[str, ...]]:
    """What would be upgraded, by name, and the command that does it. It removes nothing."""
    options: tuple[str, ...] = packages.APT
    if hold and (names := held(installed_packages())):
        pins = f"Package: {' '.join(names)}\nPin: release a=now\nPin-Priority: 1001\n\n".encode()
        write_atomic(PINS, pins + (read_bytes("/etc/apt/preferences") or b""), mode=0o644, sync=False)
        options = (*options, "-o", f"Dir::Etc::Preferences={PINS}")
    command = (*options, "--with-new-pkgs", "upgrade")
    found = _simulate(command)
    if security:
        names = [f"{name}={one.new}" for name, one in found.items() if one.security and one.old]
        command = (*options, "--only-upgrade", "--no-remove", "install", *names)
        found = _simulate(command) if names else {}
    return found, command


def held(names: Sequence[str]) -> list[str]:
    """Of installed packages those that stay."""
    # guard: libraries of the driver are not upgraded below a running module -> []
    return [one for one in names if _DRIVER.match(one)]


def _simulate(command: Sequence[str]) -> dict[str, Update]:
    done = packages.Done(**program({"command": (*command, "--simulate"), "environment": packages.ENVIRONMENT}))
    if done.status != 0:
        raise NodeError(f"apt cannot upgrade: {packages.last_words(done.output)}")
    return parse_simulation(done.output)


def parse_simulation(text: str) -> dict[str, Update]:
    """Given what `apt-get --simulate` prints, return what it would install, by name."""
    return {name: Update(old, new, bool(_SECURITY.search(of))) for name, old, new, of in _PLANNED.findall(text)}


def _do(command: Sequence[str]) -> None:
    done = packages.in_unit(command, SECONDS, {**packages.ENVIRONMENT, "NEEDRESTART_MODE": "a"})
    if done.status != 0:
        raise NodeError(f"{command[0]} {command[-1]}: {packages.last_words(done.output)}")


def interrupted(directory: str = "/var/lib/dpkg/updates") -> bool:
    """Whether dpkg was cut off, or packages wait for their configuration."""
    return bool(os.listdir(directory)) or bool(run(("dpkg", "--audit")).strip())


def reboot_reasons(root: str = "/") -> list[str]:
    """Why the host should be rebooted as it is now: packages ask for it, or it would boot another kernel."""
    links = [one for path in ("vmlinuz", "boot/vmlinuz") if os.path.islink(one := os.path.join(root, path))]
    boots = os.path.basename(os.readlink(links[0])).partition("-")[2] if links else ""
    running = os.uname().release
    if boots not in ("", running) and running in kernels.kernels(root):  # a container runs another's
        return [f"kernel {boots}"]
    return ["a package asks for it"] if os.path.exists(os.path.join(root, "run/reboot-required")) else []


def problems() -> list[str]:
    """Units that have failed since the last upgrade, and kernels without the driver's module."""
    before, now = read_bytes(BEFORE), _failed()
    failed = [one for one in now if one not in json.loads(before)] if before else []
    # guard: a kernel without the driver's module is not booted
    return [*(f"{one} has failed since the upgrade" for one in failed), *kernels.boot_problems()]


def _failed() -> list[str]:
    return [one for one in failed_units() if not of_people(one)]


def main() -> int:
    """Count the security updates that wait, held ones too, and since when. apt starts it: role node_state."""
    earlier, now = json.loads(read_bytes(COUNTED) or b"{}"), int(time.time())
    names = [name for name, one in plan(False, hold=False)[0].items() if one.security and one.old]
    write_atomic(COUNTED, json.dumps({one: earlier.get(one, now) for one in names}).encode(), mode=0o600)
    return 0


def waiting() -> Waiting | None:
    """What was counted last. None: nothing was, or images bring what waits."""
    since = None if guard.inspect("/").managed else json.loads(read_bytes(COUNTED) or b"null")
    return None if since is None else Waiting(len(since), min(since.values(), default=None), reboot_reasons())
