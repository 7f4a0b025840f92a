"""A full stream along a chain of nodes, so that the store sends it once: each writes what it gets and passes it on.

mbuffer does the copying. In a broken chain it has been seen to end with 0 on every node and half the data, so nothing
is concluded from it: what it leaves is a part like any other, which `stream.fetch` proves and completes from the store.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import IO

from .errors import NodeError
from .image_mounts import mounted
from .image_places import ImageSettings, Places, check_name, read_json, write_json
from .image_records import load_manifest
from .manifest import Manifest, Stream
from .stream import Say, stream_path
from .units import start_unit

UNIT = "gpuadmin-relay.service"
REQUEST = "image-relay.json"
STALLED = 60  # seconds without a byte after which a link is given up
# IPv4: otherwise newer versions (seen with 20241007) listen on IPv6 for both, and then refuse the peer that they are
# told to accept, as ::ffff:10.0.0.2 is not 10.0.0.2. The option has to come before the addresses.
MBUFFER = ("mbuffer", "-q", "-4", "-m", "64M")


@dataclass(frozen=True)
class Link:
    """A node's place in the chain: whom it gets the stream from (None: the store), and whom it passes it to."""

    port: int
    previous: str | None
    next: str | None


def link_from(raw: object) -> Link | None:
    """Given what the controller says, return the link; None where there is none."""
    if not isinstance(raw, Mapping) or not raw.get("port"):
        return None
    ends = [str(raw[name]) if raw.get(name) else None for name in ("previous", "next")]
    return Link(int(str(raw["port"])), *ends)


def full_stream(manifest: Manifest) -> Stream:
    """The stream that goes along a chain."""
    for stream in manifest.streams:
        if stream.parent is None:
            return stream
    raise NodeError(f"{manifest.name} has no full stream")


def listen_command(link: Link, target: str) -> tuple[str, ...]:
    """The command that takes the stream from the node before, writes it, and passes it on."""
    passing = ("-O", f"{link.next}:{link.port}") if link.next else ()
    return (*MBUFFER, "-I", f"{link.previous}:{link.port}", "-f", "-o", target, *passing)


def serve(places: Places, settings: ImageSettings) -> None:
    """What the unit runs on every node of a chain but the first. Ends when the stream has, or when it stalls."""
    request = read_json(os.path.join(places.run, REQUEST)) or {}
    link = link_from(request)
    if link is None or link.previous is None:
        raise NodeError("nobody has asked this node to pass an image on")
    with mounted(places, settings, store="ro"):
        take(places, load_manifest(places, check_name(request.get("name")), settings), link)


def take(places: Places, manifest: Manifest, link: Link) -> None:
    """Take the stream from the node before, and pass it on."""
    path = stream_path(places, full_stream(manifest))
    # a node that has it already still passes it on
    target = "/dev/null" if os.path.exists(path) else f"{path}.part"
    process = subprocess.Popen(listen_command(link, target), stdin=subprocess.DEVNULL)
    try:
        watch(process, target)
    finally:
        process.kill()
        process.wait()


def watch(process: subprocess.Popen[bytes], target: str, stalled: float = STALLED) -> None:
    """Wait for a process that writes a file; return, with it running or not, when nothing comes any more."""
    size, since = -1, time.monotonic()
    while process.poll() is None and time.monotonic() - since < stalled:
        now = os.path.getsize(target) if os.path.isfile(target) else 0
        if now != size:
            size, since = now, time.monotonic()
        time.sleep(0.2)


def listening(port: int, text: str | None = None) -> bool:
    """Whether something listens on a TCP port of IPv4 (proc(5): state 0A)."""
    if text is None:
        with open("/proc/net/tcp", encoding="ascii") as stream:
            text = stream.read()
    rows = (line.split() for line in text.splitlines()[1:])
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def start(name: str, link: Link, places: Places, code: str, python: str, seconds: float = 30.0) -> None:
    """Start the unit, and wait until it listens."""
    os.makedirs(places.run, mode=0o755, exist_ok=True)
    write_json(os.path.join(places.run, REQUEST), {"name": name, **asdict(link)})
    subprocess.run(("systemctl", "stop", UNIT), check=False, capture_output=True)
    start_unit(UNIT, "yes", "gpuadmin passes an image on", (python, "-I", f"{code}/cli.py", "image-relay"))
    end = time.monotonic() + seconds
    while not listening(link.port):
        if time.monotonic() > end:
            raise NodeError(f"the relay does not listen on port {link.port} (journalctl -u {UNIT} tells more)")
        time.sleep(0.2)


def await_end(say: Say, path: str, size: int) -> None:
    """Wait until this node's relay has ended, whatever it brought."""
    while subprocess.run(("systemctl", "--quiet", "is-active", UNIT), check=False).returncode == 0:
        there = os.path.getsize(path) if os.path.exists(path) else 0
        say(f"getting {there / 1e6:.1f} of {size / 1e6:.1f} MB along the chain")
        time.sleep(1)


class Follower:
    """The next node, as a file that takes what this node reads. One that fails or stands still is forgotten."""

    def __init__(self, link: Link) -> None:
        command = (*MBUFFER, "-W", str(STALLED), "-O", f"{link.next}:{link.port}")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._sink: IO[bytes] | None = self._process.stdin

    def write(self, block: bytes) -> None:
        """Pass a block on."""
        if self._sink is not None:
            try:
                self._sink.write(block)
            except OSError:
                self._sink = None

    def close(self) -> None:
        """Let it have the rest, within limits. It proves by itself what it got."""
        try:
            if self._sink is not None:
                self._sink.close()
            self._process.wait(STALLED)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
