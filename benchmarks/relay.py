"""A full image to N nodes behind rate-limited links: each from the store (star), or along a chain.

`benchmarks/relay.py [--nodes 1,2,4,6] [--megabytes 100] [--mbit 200]`. Every node and the store is a network namespace
on one bridge, and what each sends is limited. The store is an HTTP server; the nodes run the engine's own code
(`stream`, `relay`), with a key as a push makes it. At last one hop without a limit, over loopback and into memory,
tells what the encryption and Python allow. Needs root and iproute2. Ratios count. Leaves with 1 if a chain takes longer
than 1.3 times one node.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuadmin.images.chain_key import make_key

REPOSITORY = Path(__file__).resolve().parents[1]
COLLECTIONS = REPOSITORY / "gpuadmin" / "collections"
PORT, HTTP = 7370, 8080
BRIDGE, PREFIX = "gabench", "gabench"
GOAL = 1.3

# What one node does: the first reads from the store and passes on, the others take what they are sent. Each proves that
# it has all of it, as every node does.
NODE = """
import hashlib, os, sys, urllib.request
from gpuadmin.common.records.images import ChainLink
from ansible_collections.gpuadmin.node.plugins.module_utils.images import chain_key, follower, relay, stream
from ansible_collections.gpuadmin.node.plugins.module_utils.images import tls_listener
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import Stream
url, base, key, size, previous, following, port = sys.argv[1:]
size, port = int(size), int(port)
places = Places(top=base, run=base)
os.makedirs(base + "/incoming")
if previous or following:
    with open(key) as text:
        chain_key.store(places, text.read())
wanted = Stream("x", None, size, size, "0" * 64)
if previous:
    credentials, listener = chain_key.load(places), tls_listener.listen(port)
    print("listening", flush=True)
    relay.take(places, wanted, ChainLink(port, previous, following or None), credentials, listener)
else:
    after = follower.Follower(following, port, size, chain_key.load(places)) if following else None
    with urllib.request.urlopen(url) as remote, open(relay.relay_path(places, wanted), "wb") as local:
        remote.name = url
        stream._pour(remote, local, hashlib.sha256(), (0, size), lambda text: None, after)
    if after:
        after.close()
        assert after.problem is None, after.problem
"""


HOP = """
import os, subprocess, time
from ansible_collections.gpuadmin.node.plugins.module_utils.images import tls_listener, chain_key, follower, relay
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places
key, base, size = sys.argv[1], sys.argv[2] + "/hop", int(sys.argv[3])
places = Places(top=base, run=base)
os.makedirs(base)
with open(key) as text:
    chain_key.store(places, text.read())
credentials, listener = chain_key.load(places), tls_listener.listen(0)
port = listener.getsockname()[1]
if os.fork() == 0:
    listener.close()
    sender = follower.Follower("127.0.0.1", port, size, credentials)
    sender.reached(sys.argv[2] + "/stream", size)
    sender.close()
    os._exit(0 if sender.problem is None else 1)
door = tls_listener.Door(listener, credentials)
with door.admit(20) as connection:
    begin, computing = time.monotonic(), time.process_time()
    relay.receive(connection, os.devnull, size, None)
    spent = time.monotonic() - begin, time.process_time() - computing
assert os.wait()[1] == 0
sending = os.times()
print(*spent, sending.children_user + sending.children_system)
"""


def run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL)


def address(number: int) -> str:
    return f"10.213.7.{number + 1}"


@contextmanager
def network(hosts: int, mbit: int) -> Iterator[None]:
    """So many hosts (0 is the store) on one bridge; each sends at most so many megabits per second."""
    try:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "link", "set", BRIDGE, "up")
        for number in range(hosts):
            name = f"{PREFIX}{number}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", name, "master", BRIDGE, "up")
            inside = ("ip", "netns", "exec", name)
            run(*inside, "ip", "address", "add", f"{address(number)}/24", "dev", "eth0")
            run(*inside, "ip", "link", "set", "eth0", "up")
            run(*inside, "ip", "link", "set", "lo", "up")
            limit = ("rate", f"{mbit}mbit", "burst", "256kb", "latency", "50ms")
            run(*inside, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *limit)
        yield
    finally:
        for number in range(hosts):
            subprocess.run(["ip", "netns", "delete", f"{PREFIX}{number}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)


def node(number: int, place: Path, size: int, previous: str, following: str) -> subprocess.Popen[str]:
    """Start what a node does."""
    return subprocess.Popen(
        ["ip", "netns", "exec", f"{PREFIX}{number}", sys.executable, "-c", NODE,
         f"http://{address(0)}:{HTTP}/stream", str(place / f"node{number}"), str(place / "key"), str(size), previous,
         following, str(PORT)],
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def seconds(place: Path, count: int, size: int, *, chain: bool) -> float:
    """Bring the stream to so many nodes; return how long that takes until the last has it, and check that it has."""
    followers = []
    if chain:
        for number in range(2, count + 1):
            following = address(number + 1) if number < count else ""
            followers.append(node(number, place, size, address(number - 1), following))
        for one in followers:
            assert one.stdout is not None
            assert one.stdout.readline() == "listening\n"
    begin = time.monotonic()
    if chain:
        followers.append(node(1, place, size, "", address(2) if count > 1 else ""))
    else:
        followers = [node(number, place, size, "", "") for number in range(1, count + 1)]
    for one in followers:
        assert one.wait(600) == 0
    took = time.monotonic() - begin
    for number in range(1, count + 1):
        (came,) = (place / f"node{number}" / "incoming").iterdir()
        run("cmp", place / "stream", came)
        shutil.rmtree(place / f"node{number}")
    return took


def one_hop(place: Path, size: int) -> str:
    """How fast one node takes from another over loopback, encrypted, and what it costs; from and to memory.

    What it costs each side in time of a core holds on a busy machine as well.
    """
    key = place / "key"
    code = f"import sys; sys.argv[1:] = [{str(key)!r}, {str(place)!r}, {str(size)!r}]\n{HOP}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(COLLECTIONS)}, check=True,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    took, receiving, sending = (float(word) for word in done.stdout.split())
    return (
        f"{size / took / 1e6:.0f} MB/s; a core alone could receive {size / receiving / 1e6:.0f} "
        f"and send {size / sending / 1e6:.0f} MB/s"
    )


def measure(place: Path, counts: Sequence[int], megabytes: int, mbit: int) -> bool:
    """Print the table; return whether the goal is met."""
    size = megabytes * 1_000_000
    (place / "stream").write_bytes(os.urandom(size))
    (place / "key").touch(mode=0o600)
    (place / "key").write_text(make_key())
    with network(max(counts) + 1, mbit):
        command = ["ip", "netns", "exec", f"{PREFIX}0", sys.executable, "-m", "http.server", str(HTTP)]
        command += ["-d", str(place)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                time.sleep(1)  # the server needs a moment until it listens
                one = seconds(place, 1, size, chain=False)
                print(f"{megabytes} MB at {mbit} Mbit/s: one node {one:.2f} s")
                last = 1.0
                for count in [count for count in counts if count > 1]:
                    star, chain = (seconds(place, count, size, chain=way) for way in (False, True))
                    last = chain / one
                    print(
                        f"{count} nodes: star {star:6.2f} s ({star / one:.2f} ×), chain {chain:6.2f} s ({last:.2f} ×)"
                    )
            finally:
                server.terminate()
    print(f"one hop over loopback, without a limit: {one_hop(place, size)}")
    print(f"chain at {max(counts)} nodes: {last:.2f} × of one (goal: at most {GOAL})")
    return last <= GOAL


def main() -> int:
    parser = argparse.ArgumentParser(description="a full image to many nodes: star against chain")
    parser.add_argument("--nodes", default="1,2,4,6")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--mbit", type=int, default=200)
    options = parser.parse_args()
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        print(f"needs root{' and ' + ', '.join(missing) if missing else ''}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="gpuadmin-relay-") as place:
        counts = [int(count) for count in options.nodes.split(",")]
        return 0 if measure(Path(place), counts, options.megabytes, options.mbit) else 1


if __name__ == "__main__":
    sys.exit(main())
