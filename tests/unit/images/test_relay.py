"""A chain of nodes: what arrives is used, and what does not is fetched from the store."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import image_records, relay, stream
from ansible_collections.gpuadmin.node.plugins.module_utils.manifest import Manifest, Stream

from .conftest import Node

pytestmark = [
    pytest.mark.btrfs,
    pytest.mark.needs("mbuffer"),
]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def parts(node: Node) -> tuple[Manifest, Stream, Path]:
    manifest = image_records.load_manifest(node.places, "one", node.settings)
    wanted = relay.full_stream(manifest)
    return manifest, wanted, Path(f"{stream.stream_path(node.places, wanted)}.part")


def test_a_follower_gets_what_the_first_node_reads(node: Node) -> None:
    manifest, wanted, part = parts(node)
    link = relay.Link(free_port(), "127.0.0.1", None)
    taker = threading.Thread(target=relay.take, args=(node.places, manifest, link))
    taker.start()
    end = time.monotonic() + 10
    while not relay.listening(link.port):
        assert time.monotonic() < end
        time.sleep(0.05)
    follower = relay.Follower(relay.Link(link.port, None, "127.0.0.1"))
    whole = (Path(node.places.store) / "one" / wanted.file).read_bytes()
    for begin in range(0, len(whole), 1 << 20):
        follower.write(whole[begin : begin + (1 << 20)])
    follower.close()
    taker.join(20)
    assert part.read_bytes() == whole
    # and the store is not asked for it again
    (Path(node.places.store) / "one" / wanted.file).write_bytes(b"\0" * len(whole))
    stream.fetch(node.places, manifest, wanted, lambda text: None)
    assert Path(stream.stream_path(node.places, wanted)).read_bytes() == whole


def test_half_a_stream_is_completed_from_the_store(node: Node) -> None:
    manifest, wanted, part = parts(node)
    whole = (Path(node.places.store) / "one" / wanted.file).read_bytes()
    part.write_bytes(whole[: len(whole) // 3])
    stream.fetch(node.places, manifest, wanted, lambda text: None)
    assert Path(stream.stream_path(node.places, wanted)).read_bytes() == whole


def test_nobody_listens_and_the_first_node_does_not_mind() -> None:
    follower = relay.Follower(relay.Link(free_port(), None, "127.0.0.1"))
    for _ in range(64):
        follower.write(os.urandom(1 << 20))
        time.sleep(0.01)
    follower.close()


def test_a_link_that_stands_still_is_given_up(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        begin = time.monotonic()
        relay.watch(process, str(tmp_path / "nothing"), stalled=0.5)
        assert time.monotonic() - begin < 5
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_who_listens() -> None:
    table = "  sl  local_address rem_address   st\n   0: 00000000:1CCA 00000000:0000 0A\n   1: 0100007F:1CCB 0:0 01\n"
    assert relay.listening(7370, table)
    assert not relay.listening(7371, table)
    assert relay.link_from({}) is None
    assert relay.link_from({"port": 7370, "previous": "", "next": "10.0.0.2"}) == relay.Link(7370, None, "10.0.0.2")
    command = relay.listen_command(relay.Link(7370, "a", "b"), "x.part")
    assert command[-2:] == ("-O", "b:7370")
    assert command.index("-4") < command.index("-I"), "newer ones would listen on IPv6, and refuse a"
