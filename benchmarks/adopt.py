"""What it costs to read a cluster that exists: `gpuadmin adopt` over many hosts with many people, at most 30 s
and 400 MiB.

    sudo .venv/bin/python benchmarks/adopt.py [--hosts 40] [--users 200] [--json FILE]

Method. Cheap ssh hosts (tests/support/scale_hosts.py) on this machine, each with the same people in passwd and shadow,
their homes, two public keys each, and ranges of subordinate ids. The verb is timed as a whole, from the start of Python
to its last line, twice: the first run writes a site, the second compares with it. Memory is the sum of what the
controller's processes have in memory (PSS), looked at twice a second. The hosts share the controller's processors. It
fails above 30 seconds or 400 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import _checkout

from tests.support.scale_hosts import Cluster, SshHost, cluster, root_file_system
from tests.support.sites import public_key

ROOT = _checkout.ROOT
SECONDS, MEBIBYTES = 30.0, 400.0


def populate(host: SshHost, count: int) -> None:
    """Give a host people, as useradd would have."""
    who = [(f"user{number:03}", 1001 + number) for number in range(count)]
    lines = {
        "passwd": (f"{name}:x:{uid}:{uid}:Name {uid},,,,{name}@example.org:/home/{name}:/bin/sh" for name, uid in who),
        "shadow": (f"{name}:$6$x$y:19000:0:99999:7:::" for name, _ in who),
        "group": (f"{name}:x:{uid}:" for name, uid in who),
        "subuid": (f"{name}:{100000 + 65536 * place}:65536" for place, (name, _) in enumerate(who)),
    }  # fmt: skip
    for file, more in lines.items():
        with (host.root / "etc" / file).open("a") as stream:
            stream.writelines(f"{line}\n" for line in more)
    for name, uid in who:
        keys = host.root / "home" / name / ".ssh" / "authorized_keys"
        keys.parent.mkdir(parents=True)
        keys.write_text(f"{public_key(name)}\n{public_key(name, 'ssh-rsa')}\n")
        for path in (keys, keys.parent, keys.parent.parent):
            os.chown(path, uid, uid)


def tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))
    except OSError:
        return  # it has ended


def memory(pid: int) -> float:
    """MiB that a process and all below it have in memory; what they share counts once."""
    total = 0
    for one in tree(pid):
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024


def adopt(running: Cluster, site: Path) -> tuple[float, float]:
    """Run the verb; return its seconds and its most MiB."""
    hosts = [f"{host.name}={host.address}:{host.port}" for host in running.hosts]
    line = [sys.executable, "-m", "gpuadmin", "adopt", *hosts, "--admin", "gpuadmin", "--identity", str(running.key)]
    begin, most = time.perf_counter(), 0.0
    process = subprocess.Popen([*line, "--site", str(site), "--yes", "--json"], cwd=ROOT, stdout=subprocess.DEVNULL)
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.5):
            most = max(most, memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - begin
    done.set()
    watcher.join()
    if code != 0:
        raise SystemExit(f"gpuadmin adopt ended with {code}")
    return seconds, most


def main() -> int:
    parser = argparse.ArgumentParser(description="gpuadmin adopt over many hosts.")
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "adopt.json", help="where the figures go")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a benchmark that is ended leaves no hosts behind
    root_file_system()
    names = [f"host{number}" for number in range(options.hosts)]
    with tempfile.TemporaryDirectory(prefix="gpuadmin-bench-") as base, cluster(names) as running:
        for host in running.hosts:
            populate(host, options.users)
        site = Path(base) / "site"
        figures = {name: adopt(running, site) for name in ("first", "again")}
        people = (site / "users.yml").read_text().count("\n  - name: ")
    print(f"{options.hosts} hosts, {people} people\n")
    print("| adopt | clock | memory |\n| --- | ---: | ---: |")
    for name, (seconds, most) in figures.items():
        print(f"| {name} | {seconds:.1f} s | {most:.0f} MiB |")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    found = {"method": __doc__, "hosts": options.hosts, "users": people, "figures": figures}
    options.json.write_text(json.dumps(found, indent=2) + "\n")
    return int(people != options.users or any(one > SECONDS or most > MEBIBYTES for one, most in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
