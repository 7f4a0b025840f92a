"""A BMC by OpenIPMI's simulator (ipmi_sim): it switches nothing but a file, and measures what is asked for."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LAN = """
name "sim"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_admin md5
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{above}/chassis"
  user 2 true "admin" "secret" admin 10 md5
"""
BEGIN = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n"
CHASSIS = """#!/bin/sh
case "$1 $2" in
  "get power") echo "power:$(cat {above}/power)" ;;
  "set power") echo "$3" >{above}/power ;;
  *) exit 1 ;;
esac
"""
#: FreeIPMI's name for what the simulator does in its own way: its answer to Open Session names no privilege.
WORKAROUND = "opensesspriv"


@dataclass(frozen=True)
class Sensor:
    """`kind` and `unit` as IPMI numbers them (IPMI 2.0, tables 42-3 and 43-15); `raw` times `factor` is the value.
    `lower`, `upper`: raw values that are critical. `bits`: of a sensor that has states and no value."""

    name: str
    kind: int
    unit: int = 0
    raw: int = 0
    factor: int = 1
    lower: int = 0
    upper: int = 0
    bits: Sequence[int] = ()

    @property
    def reading(self) -> int:
        """What it reads: its value, or a bit for each of its states."""
        return sum(1 << bit for bit in self.bits) or self.raw

    def commands(self, number: int, above: str) -> list[str]:
        """What the simulator is told: a full sensor record (table 43-1), and where it reads."""
        at, mask = f"0x20 0 {number}", 0x0F if self.bits else 0x10 * bool(self.upper) + 0x02 * bool(self.lower)
        reading = 0x6F if self.bits else 1
        record = bytes([0x20, 0, number, 7, number, 0x7F, 0x68, self.kind, reading])
        record += struct.pack("<HHH", mask, mask, mask if self.bits else mask | mask << 8)
        record += bytes([0xC0 if self.bits else 0, self.unit, 0, 0, self.factor, 0, 0, 0, 0, 0, 7, 0, 255, 0, 255, 0])
        record += bytes([0, self.upper, 0, 0, self.lower, 0, 0, 0, 0, 0, 0, 0xC0 | len(self.name)])
        record += self.name.encode()
        added = " ".join(str(byte) for byte in [0, 0, 0x51, 1, len(record), *record])
        # of 2.0.34 to 2.0.37 a sensor that reads no file has no reading (OpenIPMI's commit 2325cc63)
        polled = f'sensor_add {at} {self.kind} {reading} poll 100 file "{above}/sensor-{number}"'
        lines = [f"main_sdr_add 0x20 {added}", polled]
        if self.bits:
            return lines
        enabled = f"0{int(bool(self.upper))}00{int(bool(self.lower))}0"
        return [*lines, f"sensor_set_threshold {at} settable {enabled} 0 {self.upper} 0 0 {self.lower} 0"]


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def files(above: str, port: int, sensors: Sequence[Sensor] = ()) -> dict[str, str]:
    """The simulator's files in the directory `above`; `chassis` is a program. `power` has 0 or 1."""
    numbered = [*enumerate(sensors, 1)]
    measured = "".join(f"{line}\n" for number, one in numbered for line in one.commands(number, above))
    texts = {"lan.conf": LAN, "chassis": CHASSIS, "power": "0"}
    found = {name: text.replace("{above}", above).replace("{port}", str(port)) for name, text in texts.items()}
    found |= {f"sensor-{number}": str(one.reading) for number, one in numbered}
    return {**found, "commands": f"{BEGIN}{measured}mc_enable 0x20\n"}


@contextmanager
def simulated(above: Path, sensors: Sequence[Sensor] = ()) -> Iterator[str]:
    """The address of a BMC whose user admin has the password secret."""
    port = free_port(socket.SOCK_DGRAM)
    for name, text in files(str(above), port, sensors).items():
        (above / name).write_text(text)
    (above / "chassis").chmod(0o755)
    command = ["ipmi_sim", "-n", "-c", "lan.conf", "-f", "commands", "-s", str(above)]
    with (above / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=above, stdout=log, stderr=log)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
