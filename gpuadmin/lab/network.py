"""Addresses and ports: nothing here opens anything but to see that it is free."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Collection

#: The cluster's own network inside a lab; labs do not see each other.
NETWORK = "10.77.0"
MULTICAST_GROUP = "230.0.0.1"
#: QEMU's user network answers DNS here, and asks the controller's own resolver.
UPLINK_DNS = "10.0.2.3"


def storage_address() -> str:
    """Return the storage host's address."""
    return f"{NETWORK}.10"


def node_address(number: int) -> str:
    """Given a node's number from 1, return its address."""
    if not 1 <= number <= 40:
        raise ValueError(f"node {number} is not between 1 and 40")
    return f"{NETWORK}.{10 + number}"


def plain_address(number: int) -> str:
    """Given an ordinary node's number from 1, return its address."""
    if not 1 <= number <= 40:
        raise ValueError(f"ordinary node {number} is not between 1 and 40")
    return f"{NETWORK}.{50 + number}"


def mac(lab: str, host: str, interface: str) -> str:
    """Given lab, host and interface names, return a MAC address: always the same, locally administered."""
    digest = hashlib.sha256(f"{lab}/{host}/{interface}".encode()).digest()
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in digest[:3])


def free_port(taken: Collection[int] = ()) -> int:
    """Return a TCP port of 127.0.0.1 that is free now and not among `taken` (those that stopped hosts keep)."""
    return _find_free(socket.SOCK_STREAM, "127.0.0.1", taken)


def port_is_free(port: int) -> bool:
    """Tell whether a TCP port of 127.0.0.1 can be bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_multicast_port(taken: Collection[int] = ()) -> int:
    """Return a UDP port for a lab's multicast group that no other lab here uses."""
    return _find_free(socket.SOCK_DGRAM, "", taken)


def _find_free(kind: socket.SocketKind, address: str, taken: Collection[int]) -> int:
    for _ in range(200):
        with socket.socket(socket.AF_INET, kind) as probe:
            probe.bind((address, 0))
            port: int = probe.getsockname()[1]
        if port not in taken:
            return port
    raise OSError(f"no free port on {address or 'any address'}")
