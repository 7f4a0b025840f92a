"""Which machine this is, and what is in it: serial numbers of chassis, GPUs, network cards and disks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuadmin.common.records.audits import Hardware, Part

from ..bounded import short
from ..errors import NodeError, in_words
from ..gpus.look import look as look_at_gpus
from ..run import Finished, LateError, run_command

SECONDS = 15.0
MOST = 300  # parts of a kind
#: What makers leave where a serial number should be.
_NONE = re.compile(
    r"|(.)\1*|\W*(none|null|nil|empty|invalid|n/?a|unknown|not (specified|applicable|available|provided)|default"
    r"|to be filled by o\.?e\.?m\.?)( string)?\W*|(system|chassis|(base|mother) ?board|product)( serial( number)?)?"
    r"|(\w{1,8}[-_ ])?0?123456789(0|abc.*)?",
    re.IGNORECASE,
)


def collect(
    root: str = "/", command: Callable[[Sequence[str]], Finished] | None = None, gpus: Callable[[], Any] | None = None
) -> Hardware:
    ask = command or _ask
    found: dict[Any, list[Part]] = {}
    unknown: dict[str, str] = {}
    contained = _contained(root)
    kinds: Mapping[str, Callable[[], list[Part]]] = {
        "chassis": lambda: _chassis(root),
        "network": lambda: _network(root, contained),
        "disk": lambda: of_lsblk(_output(ask)),
    }
    for kind, look in kinds.items():
        if contained and kind != "network":
            unknown[kind] = "this host is a container, and sees what is in the machine below"
            continue
        try:
            found[kind] = look()[:MOST]
        except NodeError as error:
            unknown[kind] = str(error)
        except OSError as error:
            unknown[kind] = in_words(error)
    found["gpu"], why = of_gpus((gpus or (lambda: look_at_gpus(seconds=SECONDS, kernels=False).to_report()))())
    if why:
        unknown["gpu"] = why
    return Hardware(found, {kind: short(why) for kind, why in unknown.items()})


def of_gpus(seen: Mapping[str, Any]) -> tuple[list[Part], str]:
    """Given what a look at the GPUs saw, return them by UUID, and why some of them are not known."""
    nvml = seen["nvml"]
    if nvml is None:
        return [], seen["problem"] or "no driver answers" if seen["pci"] else ""
    parts = []
    silent = 0
    for gpu in nvml["gpus"]:
        if not gpu.get("uuid"):
            silent += 1  # guard: a GPU that does not answer has not vanished
            continue
        serial = gpu.get("serial")
        words = [gpu.get("name") or "GPU", *([f"serial {serial}"] if serial else [])]
        parts.append(_part(gpu["uuid"], ", ".join(words)))
    if len(seen["pci"]) > len(nvml["gpus"]):
        silent += len(seen["pci"]) - len(nvml["gpus"])
    return parts[:MOST], f"{silent} of its GPUs do not answer" if silent else ""


def of_lsblk(text: str) -> list[Part]:
    """`lsblk --json`: disks with a serial number, or a WWN."""
    try:
        devices = json.loads(text)["blockdevices"]
        disks = [one for one in devices if one["type"] == "disk"]
    except (ValueError, KeyError, TypeError):
        raise NodeError("what lsblk prints is not understood") from None
    parts = []
    for one in disks:
        name = _real(one.get("serial")) or _real(one.get("wwn"))
        if name:
            model = (one.get("model") or "disk").strip()
            parts.append(_part(name, f"{model}, {round(int(one.get('size') or 0) / 1e9)} GB"))
    return parts


def _output(ask: Callable[[Sequence[str]], Finished]) -> str:
    columns = "NAME,TYPE,SERIAL,WWN,MODEL,SIZE"
    try:
        done = ask(("lsblk", "--json", "--nodeps", "--bytes", "--output", columns))
    except LateError as error:
        raise NodeError(f"lsblk: {error}") from None
    if done.returncode != 0:
        raise NodeError(f"lsblk: {done.stderr.strip()[-200:]}")
    return done.stdout


def _ask(command: Sequence[str]) -> Finished:
    return run_command(command, seconds=SECONDS)


def _chassis(root: str) -> list[Part]:
    serial = _real(_word(root, "sys/class/dmi/id/product_serial")) or _real(
        _word(root, "sys/class/dmi/id/chassis_serial")
    )
    product = [_word(root, f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    return [_part(serial, " ".join(one for one in product if one))] if serial else []


def _network(root: str, contained: bool) -> list[Part]:
    """Addresses that makers gave network cards; without what software makes up, such as bridges and VLANs, but for a
    container, which has nothing else. A machine's virtual functions get others at each boot, and its BMC's link may
    have that of all boards: such addresses say that they are locally administered. So are those of virtual machines.
    """
    top = os.path.join(root, "sys/class/net")
    parts: dict[str, Part] = {}
    machine = not contained and not re.search(r"(?m)^flags\s*:.* hypervisor( |$)", _word(root, "proc/cpuinfo", 8192))
    for name in sorted(os.listdir(top)):
        if not contained and not os.path.exists(os.path.join(top, name, "device")):
            continue
        address = _word(top, f"{name}/bonding_slave/perm_hwaddr") or _word(top, f"{name}/address")
        if not re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", address) or set(address) <= set("0:"):
            continue
        if not (machine and int(address[:2], 16) & 2):
            parts.setdefault(address, _part(address, f"network card {name}"))
    return list(parts.values())


def _contained(root: str) -> bool:
    """Whether this is a container: systemd says so (systemd-detect-virt(1), run/systemd/container)."""
    return os.path.exists(os.path.join(root, "run/systemd/container"))


def _real(serial: object) -> str:
    text = str(serial or "").strip()
    return "" if _NONE.fullmatch(text) else text


def _word(top: str, name: str, most: int = 256) -> str:
    try:
        with open(os.path.join(top, name), "rb") as stream:
            return stream.read(most).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _part(name: str, words: str) -> Part:
    return Part(short(name, 100), short(words, 200))
