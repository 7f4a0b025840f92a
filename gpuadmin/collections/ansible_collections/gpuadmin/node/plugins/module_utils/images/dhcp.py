"""Who answers DHCP in a network: asked as a machine would that boots from it (RFC 2131, RFC 4578)."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import time
from dataclasses import dataclass
from ipaddress import ip_interface

from ..errors import NodeError, in_words
from ..run import LOOKING, run

SECONDS = 6.0  # a server first tries whether the address is free
MOST = 16  # servers that are told apart; whoever has more in one network is somebody who floods it
_COOKIE = b"\x63\x82\x53\x63"
_DISCOVER, _CLASS, _ARCHITECTURE, _UNDI, _WANTED = 53, 60, 93, 94, 55


@dataclass(frozen=True)
class Offer:
    """What a server offers: an address (empty if none), and whether it is one that boots machines from the network."""

    server: str
    address: str
    boots: bool


def find_interface(address: str) -> tuple[str, str, str]:
    """Given this host's address, return the interface that has it, its network and its netmask. Raises NodeError."""
    for link in json.loads(run(("ip", "-json", "-4", "address"), seconds=LOOKING)):
        for one in link.get("addr_info", ()):
            if one.get("local") == address:
                found = ip_interface(f"{address}/{one['prefixlen']}").network
                return str(link["ifname"]), str(found.network_address), str(found.netmask)
    raise NodeError(f"no network card of this host has {address}, its address in the cluster")


def make_discover(mac: str, xid: bytes) -> bytes:
    """The question of a machine with a BIOS that has this MAC address and wants to boot from the network."""
    options = {_DISCOVER: b"\1", _CLASS: b"PXEClient:Arch:00000:UNDI:002001", _ARCHITECTURE: b"\0\0", _UNDI: b"\1\2\1",
               _WANTED: bytes((1, 3, 43, 54, 60, 66, 67))}  # fmt: skip
    head = struct.pack("!4B4sHH16x16s192x", 1, 1, 6, 0, xid, 0, 0x8000, bytes.fromhex(mac.replace(":", "")))
    return head + _COOKIE + b"".join(bytes((code, len(text))) + text for code, text in options.items()) + b"\xff"


def parse_offer(packet: bytes, xid: bytes) -> Offer | None:
    """What a server offers, or None if this answers another question. A packet of a stranger's is no error."""
    if len(packet) < 240 or packet[0] != 2 or packet[4:8] != xid or packet[236:240] != _COOKIE:
        return None
    options, at = {}, 240
    while at + 1 < len(packet) and packet[at] != 255:
        if packet[at] == 0:
            at += 1
            continue
        options[packet[at]] = packet[at + 2 : at + 2 + packet[at + 1]]
        at += 2 + packet[at + 1]
    server = options.get(54, packet[20:24])
    if len(server) != 4:
        return None
    boots = options.get(_CLASS) == b"PXEClient" or bool(options.get(67)) or packet[108] != 0
    address = "" if packet[16:20] == bytes(4) else socket.inet_ntoa(packet[16:20])
    return Offer(socket.inet_ntoa(server), address, boots)


def ask(interface: str, mac: str, seconds: float = SECONDS) -> list[Offer]:
    """Ask who would answer a machine. Nothing is taken: an offer lapses. Raises NodeError if nobody can be asked."""
    found: dict[Offer, None] = {}
    xid, end = secrets.token_bytes(4), time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            for option in (socket.SO_REUSEADDR, socket.SO_BROADCAST):
                line.setsockopt(socket.SOL_SOCKET, option, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            line.bind(("", 68))
            line.sendto(make_discover(mac, xid), ("255.255.255.255", 67))
            # guard: somebody who floods the network fills neither a plan nor memory -> True
            while (left := end - time.monotonic()) > 0 and len(found) < MOST:
                line.settimeout(left)
                offer = parse_offer(line.recv(2048), xid)
                if offer is not None:
                    found[offer] = None
    except socket.timeout:
        pass
    except OSError as error:
        raise NodeError(f"DHCP cannot be asked on {interface}: {in_words(error)}") from error
    return list(found)
