"""A full stream along a chain of nodes, so that the store sends it once: each writes what it gets and passes it on.

Nothing relies on what a relay says: what it leaves is a part like any other, which `stream.fetch` checks and completes
from the store. `chain_key` says who may send and get a stream, docs/decisions/0021 why.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from socket import socket
from ssl import SSLSocket

from gpuadmin.common.records.images import ChainLink, ImageSettings

from .. import unit
from ..documents import parse_settings
from ..errors import NodeError, in_words
from . import chain_key, records
from .chain_key import Credentials
from .follower import BLOCK, DONE, STALLED, Follower
from .manifest import Manifest, Stream
from .mounting import mounted
from .places import Places, check_name, read_json, write_json
from .stream import Progress, stream_path
from .tls_listener import HANDSHAKE, Door, listen

UNIT = "gpuadmin-relay.service"
REQUEST, STATE = "image-relay.json", "image-relay-state.json"


def full_stream(manifest: Manifest) -> Stream:
    """The stream that goes along a chain."""
    for stream in manifest.streams:
        if stream.parent is None:
            return stream
    raise NodeError(f"{manifest.name} has no full stream")


def relay_path(places: Places, stream: Stream) -> str:
    """Where the relay writes. It never touches the part that `stream.fetch` works on; `adopt` makes it that."""
    return f"{stream_path(places, stream)}.relay"


def serve(places: Places, settings: ImageSettings) -> None:
    """What the unit runs on every node of a chain but the first: listen, take the stream, pass it on.

    Raises NodeError when this node did not get all of it. What the report says of it is written down (``tell``).
    """
    try:
        request = read_json(os.path.join(places.run, REQUEST)) or {}
        if not request.get("previous"):
            raise NodeError("nobody has asked this node to pass an image on")
        name, link = check_name(request.get("name")), parse_settings(ChainLink, request, "link")
        credentials = chain_key.load(places)
        with mounted(places, settings, store="ro"):
            stream = full_stream(records.load_manifest(places, name, settings))
            take(places, stream, link, credentials, listen(link.port))
    except (NodeError, OSError) as error:
        tell(places, problem=in_words(error))
        raise NodeError(in_words(error)) from error


def take(
    places: Places,
    stream: Stream,
    link: ChainLink,
    credentials: Credentials,
    listener: socket,
    seconds: float = STALLED,
) -> None:
    """Take the stream from the node before, and pass it on. A node that has it already still passes it on.

    ``seconds``: for the node before to come, and then without a byte of it.
    Raises NodeError unless exactly the manifest's number of bytes came.
    """
    here, path = stream_path(places, stream), relay_path(places, stream)
    if os.path.lexists(path):
        os.unlink(path)  # an earlier attempt's; nobody may take it for this one's
    door = Door(listener, credentials)
    tell(places, listening=True)
    # called before anything comes, so that all links of a chain are made at once
    follower = Follower(link.next, link.port, stream.bytes, credentials) if link.next else None
    try:
        try:
            connection = door.admit(seconds)
        finally:
            tell(places, strangers=door.strangers)
        with connection:
            connection.settimeout(seconds)
            if os.path.exists(here):
                if follower is not None:
                    follower.reached(here, stream.bytes)
                receive(connection, os.devnull, stream.bytes, None)
            else:
                receive(connection, path, stream.bytes, follower)
    finally:
        if follower is not None:
            follower.close()
            if follower.problem:
                print(follower.problem, flush=True)
    tell(places, strangers=door.strangers, problem=follower.problem if follower else None)


def receive(connection: SSLSocket, path: str, size: int, follower: Follower | None) -> None:
    """Write exactly ``size`` bytes of a proven connection to a file, and tell the follower how far it is.

    Raises NodeError when fewer come, or more; more are not written. Raises OSError when nothing comes any more.
    """
    view = memoryview(bytearray(BLOCK))
    new = os.O_CREAT | os.O_EXCL if path != os.devnull else 0
    handle = os.open(
        path,
        os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | new,
        0o600,  # guard: what a relay writes is root's alone -> 0o644
    )
    done, more = 0, True
    with os.fdopen(handle, "wb", buffering=0) as sink:
        while done < size and more:
            block = view[: min(BLOCK, size - done)]  # guard: what is written ends at the manifest's size -> view
            filled = 0
            while filled < len(block) and more:
                count = connection.recv_into(block[filled:])
                filled, more = filled + count, count > 0
            written = 0
            while written < filled:
                written += sink.write(block[written:filled])
            done += filled
            if follower is not None:
                follower.reached(path, done)
    if done < size:  # guard: less than the manifest's size is an error
        raise NodeError(f"the node before ended after {done} of {size} bytes")
    connection.sendall(DONE)
    connection.settimeout(HANDSHAKE)
    if connection.recv(1):  # guard: more than the manifest's size is an error
        raise NodeError(f"the node before sends more than the {size} bytes of the manifest")


def tell(places: Places, **news: object) -> None:
    """Write down how it stands, beside what is written already: ``listening``, ``strangers``, ``problem``."""
    os.makedirs(places.run, mode=0o755, exist_ok=True)
    path = os.path.join(places.run, STATE)
    write_json(path, {**(read_json(path) or {}), **news})


def remarks(places: Places) -> list[str]:
    """What is worth a line in the report: who was refused, and what went wrong."""
    state = read_json(os.path.join(places.run, STATE)) or {}
    found = state.get("strangers") or []
    assert isinstance(found, list)
    words = [f"refused on the chain's port, without its key: {', '.join(str(one) for one in found)}"] if found else []
    return words + ([f"along the chain: {state['problem']}"] if state.get("problem") else [])


def start(name: str, link: ChainLink, places: Places, code: str, python: str, seconds: float = 30.0) -> None:
    """Start the unit, and wait until it says that it listens. Raises NodeError with why it does not."""
    os.makedirs(places.run, mode=0o755, exist_ok=True)
    unit.stop(UNIT)
    write_json(os.path.join(places.run, REQUEST), {"name": name, **asdict(link)})
    tell(places, listening=False, strangers=[], problem=None)
    command = (python, "-I", f"{code}/cli.py", "image-relay")
    unit.start(UNIT, command, "gpuadmin passes an image on", ("PrivateMounts=yes",))
    await_listening(places, seconds)


def await_listening(places: Places, seconds: float) -> None:
    """Wait until the unit has written down that it listens. A port says nothing: anybody could have it."""
    end = time.monotonic() + seconds
    while True:
        state = read_json(os.path.join(places.run, STATE)) or {}
        if state.get("problem"):
            raise NodeError(str(state["problem"]))
        if state.get("listening"):  # guard: that the relay listens is not taken from its port -> True
            return
        if time.monotonic() > end:
            raise NodeError(f"the relay does not listen (journalctl -u {UNIT} tells more)")
        time.sleep(0.1)  # it says so in a file, and nothing tells when a file has changed


def active() -> bool:
    """Whether this node's relay runs."""
    return unit.working(UNIT)


def await_end(progress: Progress, path: str, size: int) -> None:
    """Wait until this node's relay has ended, whatever it brought, or has brought all; it may pass it on still."""
    while True:
        running = active()  # asked first: what it wrote before it ended is seen
        there = os.path.getsize(path) if os.path.exists(path) else 0
        if there >= size or not running:
            return
        progress(f"getting {there / 1e6:.1f} of {size / 1e6:.1f} MB along the chain")
        time.sleep(1)  # between two lines of progress


def adopt(places: Places, stream: Stream) -> bool:
    """Let `stream.fetch` go on from what the relay brought. Returns whether all of it is here, still to be proven."""
    if os.path.exists(stream_path(places, stream)):
        return True
    path, part = relay_path(places, stream), f"{stream_path(places, stream)}.part"
    came = os.path.getsize(path) if os.path.exists(path) else 0
    if came > (os.path.getsize(part) if os.path.exists(part) else 0):
        os.rename(path, part)
    return came >= stream.bytes
