"""A full image to N nodes behind rate-limited links: each from the store (star), or along a chain.

`benchmarks/relay.py [--nodes 1,2,4,6] [--megabytes 100] [--mbit 200]`. Every node and the store is a network namespace
on one bridge, and what each sends is limited. The store is an HTTP server; the nodes run the engine's own code
(`stream`, `relay`). Needs root, iproute2 and mbuffer. Ratios count. Leaves with 1 if a chain takes longer than 1.3
times one node.
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

REPOSITORY = Path(__file__).resolve().parents[1]
COLLECTIONS = REPOSITORY / "gpuadmin" / "collections"
PORT, HTTP = 7370, 8080
BRIDGE, PREFIX = "gabench", "gabench"
GOAL = 1.3

# What one node does: the first reads from the store and passes on, the others take what they are sent.
NODE = """
import hashlib, subprocess, sys, time, urllib.request
from ansible_collections.gpuadmin.node.plugins.module_utils import relay, stream
url, target, size, previous, following, port = sys.argv[1:]
link = relay.Link(int(port), previous or None, following or None)
if link.previous:
    process = subprocess.Popen(relay.listen_command(link, target))
    while not relay.listening(link.port):
        assert process.poll() is None
        time.sleep(0.02)  # mbuffer does not tell when it listens
    print("listening", flush=True)
    relay.watch(process, target)
else:
    follower = relay.Follower(link) if link.next else None
    with urllib.request.urlopen(url) as remote, open(target, "wb") as local:
        remote.name = url
        stream._pour(remote, local, hashlib.sha256(), 0, int(size), lambda text: None, follower)
    if follower:
        follower.close()
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


def node(number: int, work: Path, size: int, previous: str, following: str) -> subprocess.Popen[str]:
    """Start what a node does."""
    return subprocess.Popen(
        ["ip", "netns", "exec", f"{PREFIX}{number}", sys.executable, "-c", NODE,
         f"http://{address(0)}:{HTTP}/stream", str(work / f"node{number}"), str(size), previous, following, str(PORT)],
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def seconds(work: Path, count: int, size: int, *, chain: bool) -> float:
    """Bring the stream to so many nodes; return how long that takes until the last has it, and check that it has."""
    followers = []
    if chain:
        for number in range(2, count + 1):
            following = address(number + 1) if number < count else ""
            followers.append(node(number, work, size, address(number - 1), following))
        for one in followers:
            assert one.stdout is not None
            assert one.stdout.readline() == "listening\n"
    begin = time.monotonic()
    if chain:
        followers.append(node(1, work, size, "", address(2) if count > 1 else ""))
    else:
        followers = [node(number, work, size, "", "") for number in range(1, count + 1)]
    for one in followers:
        assert one.wait(600) == 0
    took = time.monotonic() - begin
    for number in range(1, count + 1):
        run("cmp", work / "stream", work / f"node{number}")
        (work / f"node{number}").unlink()
    return took


def measure(work: Path, counts: Sequence[int], megabytes: int, mbit: int) -> bool:
    """Print the table; return whether the goal is met."""
    size = megabytes * 1_000_000
    (work / "stream").write_bytes(os.urandom(size))
    with network(max(counts) + 1, mbit):
        command = ["ip", "netns", "exec", f"{PREFIX}0", sys.executable, "-m", "http.server", str(HTTP), "-d", str(work)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                time.sleep(1)
                one = seconds(work, 1, size, chain=False)
                print(f"{megabytes} MB at {mbit} Mbit/s: one node {one:.2f} s")
                last = 1.0
                for count in [count for count in counts if count > 1]:
                    star, chain = (seconds(work, count, size, chain=way) for way in (False, True))
                    last = chain / one
                    print(
                        f"{count} nodes: star {star:6.2f} s ({star / one:.2f} ×), chain {chain:6.2f} s ({last:.2f} ×)"
                    )
            finally:
                server.terminate()
    print(f"chain at {max(counts)} nodes: {last:.2f} × of one (goal: at most {GOAL})")
    return last <= GOAL


def main() -> int:
    parser = argparse.ArgumentParser(description="a full image to many nodes: star against chain")
    parser.add_argument("--nodes", default="1,2,4,6")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--mbit", type=int, default=200)
    options = parser.parse_args()
    missing = [tool for tool in ("ip", "tc", "mbuffer") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        print(f"needs root{' and ' + ', '.join(missing) if missing else ''}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="gpuadmin-relay-") as work:
        counts = [int(count) for count in options.nodes.split(",")]
        return 0 if measure(Path(work), counts, options.megabytes, options.mbit) else 1


if __name__ == "__main__":
    sys.exit(main())
