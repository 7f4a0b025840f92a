"""How a host is switched from afar: Redfish (DMTF DSP0266) by curl, IPMI by ipmitool, and Wake-on-LAN."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from ..errors import NodeError
from ..run import run_command

SECONDS = 30
PATIENCE = ("-N", "2", "-R", "3")  # ipmitool's own values make half a minute of a BMC that does not answer


@dataclass(frozen=True)
class Bmc:
    """A host's BMC. ``host``, ``ssh``: where its own ssh answers; ``also``: another port where it may. ``key``: of its
    certificate, as the site has it."""

    name: str
    kind: Literal["redfish", "ipmi", "wol"]
    host: str
    ssh: int = 22
    address: str = ""
    user: str = ""
    password: str = ""
    key: str = ""
    macs: Sequence[str] = ()
    also: int = 0

    def place(self, port: int) -> tuple[str, int]:
        """Its host and port; ``port`` where its address names none."""
        parts = urlsplit(f"//{self.address}")
        return parts.hostname or "", parts.port or port


def control(bmc: Bmc, wanted: str = "") -> str:
    """Switch a host `on` or `off`, hard, or (empty) leave it. Returns its state; `unknown` on the way to another."""
    return {"redfish": _redfish, "ipmi": _ipmi, "wol": _wake}[bmc.kind](bmc, wanted)


def _wake(bmc: Bmc, wanted: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for mac in bmc.macs if wanted == "on" else ():  # six bytes of ones, and the address sixteen times
            place = bmc.place(9) if bmc.address else ("255.255.255.255", 9)
            sender.sendto(b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16, place)
    return "unknown"


def _ipmi(bmc: Bmc, wanted: str) -> str:
    host, port = bmc.place(623)
    login = ("-I", "lanplus", "-H", host, "-p", str(port), "-U", bmc.user, "-E")
    command = ("ipmitool", *login, *PATIENCE, "chassis", "power", wanted or "status")
    # in the environment, which others cannot read
    last = _run(command, environment={"IPMI_PASSWORD": bmc.password}).split()[-1:]
    return last[0] if last in (["on"], ["off"]) else "unknown"


def _redfish(bmc: Bmc, wanted: str) -> str:
    try:
        members = _ask(bmc, "/redfish/v1/Systems")["Members"]
        if len(members) != 1:  # guard: of a box with several machines none is switched by chance
            raise NodeError(f"it has {len(members)} systems, and gpuadmin knows only BMCs of one")
        system = _ask(bmc, members[0]["@odata.id"])
        if wanted:
            reset = {"ResetType": "On" if wanted == "on" else "ForceOff"}
            _ask(bmc, system["Actions"]["#ComputerSystem.Reset"]["target"], reset)
        return {"On": "on", "Off": "off"}.get(str(system.get("PowerState")), "unknown")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise NodeError("it does not answer as Redfish does") from None


def _ask(bmc: Bmc, path: str, body: Mapping[str, str] | None = None) -> Any:
    if not path.startswith("/redfish/"):  # guard: a BMC names no other place that its password is sent to
        raise NodeError("it names an address that is not its own")
    settings = {"url": f"https://{bmc.address}{path}", "user": f"{bmc.user}:{bmc.password}", "noproxy": "*"}
    if bmc.key:  # guard: a BMC with another key gets no password
        settings["pinnedpubkey"] = f"sha256//{bmc.key}"
    if body is not None:
        settings |= {"header": "Content-Type: application/json", "data": json.dumps(body)}
    # guard: what a BMC sends has an end -> ()
    bounds = ("--max-time", str(SECONDS), "--limit-rate", "256k")  # curl's bound on sizes believes what it is told
    # -k: nobody vouches for most BMCs' certificates; its key is compared all the same
    command = ("curl", "-q", "-sSfg", *bounds, *(("-k",) if bmc.key else ()), "-K", "-")
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    return json.loads(_run(command, stdin=text.encode()) or "{}")


def _run(command: Sequence[str], **more: Any) -> str:
    try:
        done = run_command(command, seconds=3 * SECONDS, **more)
    except FileNotFoundError:
        raise NodeError(f"{command[0]} is missing on the host that asks: gpuadmin provision installs it") from None
    if done.returncode:
        raise NodeError((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[0])
    return done.stdout
