"""How long a node takes for an image, against the plain pipe, on loop devices.

`benchmarks/push_image.py [DIRECTORY]`; DIRECTORY (default /usr/lib/x86_64-linux-gnu) is what the image holds, and every
50th file changes. Needs root, some 8 GB below --place, btrfs-progs and zstd. The plain pipe
`btrfs send | zstd -3 | zstd -d | btrfs receive` and the engine's push (fetch from the store, size, sha256, signature,
receive, uuid, root with identity) are run in turn in one go; ratios count, not seconds. Leaves with 1 above the goals.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import _checkout  # noqa: F401  the way to what is not installed

from tests.unit.node.images.conftest import Node, World, confirm, make_node, run


def shell(command: str) -> None:
    subprocess.run(["bash", "-euo", "pipefail", "-c", command], check=True, capture_output=True)


def timed(action: Callable[[], object]) -> float:
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def plain(golden: Node, target: Path, name: str, parent: str | None) -> None:
    """The pipe that the engine is measured against; ends when the data is on the disk."""
    images = golden.top / "images"
    options = f"-p {images / parent}" if parent else ""
    shell(
        f"btrfs -q send {options} {images / name} | zstd -q -3 -T0 | zstd -dq | btrfs -q receive {target}; "
        f"btrfs filesystem sync {target}"
    )


def forget() -> None:
    """What was read before must not be in memory: each run begins alike."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def measure(place: Path, content: Path, rounds: int) -> dict[str, list[float]]:
    """Return what was measured: name → seconds of every round."""
    store, key = place / "store", place / "key"
    store.mkdir()
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    signers = f'gpuadmin namespaces="gpuadmin-image" {key.with_suffix(".pub").read_text()}'
    golden = make_node(place, "node1", signers, store, mib=16384)
    nodes: list[Node] = []
    try:
        world = World(place, golden, key, store)

        def fill(root: Path) -> None:
            shell(f"cp -a --reflink=never {content}/. {root / 'usr/lib'}/")

        world.make("one", fill, [], full=True)
        files = [
            path for path in (golden.top / "images/one/usr/lib").rglob("*") if path.is_file() and not path.is_symlink()
        ]
        changed = [path.relative_to(golden.top / "images/one") for path in files[::50]]
        print(
            f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB; {len(changed)} will change"
        )

        # made from the image itself, as builds are, so that they share what did not change
        run("btrfs", "subvolume", "snapshot", golden.top / "images/one", golden.top / "roots/two")
        for path in changed:
            (golden.top / "roots/two" / path).write_bytes((golden.top / "roots/two" / path).read_bytes()[::-1])
        from ansible_collections.gpuadmin.node.plugins.module_utils.images import publish

        (golden.top / "roots/two/etc/machine-id").write_text("")
        run("btrfs", "property", "set", "-ts", golden.top / "roots/two", "ro", "true")
        publish.seal(golden.places, golden.settings, "two", tried=False)
        world.publish("two", ["one"], full=False)
        seconds: dict[str, list[float]] = {key: [] for key in ("plain full", "push full", "plain 2 %", "push 2 %")}
        for number in range(rounds):
            base = place / f"round{number}"
            base.mkdir()
            node = make_node(base, "node2", signers, store, mib=16384)
            nodes.append(node)
            piped = node.top / "piped"
            piped.mkdir()
            forget()
            seconds["plain full"].append(timed(partial(plain, golden, piped, "one", None)))
            forget()
            seconds["push full"].append(timed(partial(node.push, "one")))
            after = node.boot()
            confirm(after)
            forget()
            seconds["plain 2 %"].append(timed(partial(plain, golden, piped, "two", "one")))
            run("btrfs", "subvolume", "delete", piped / "two", piped / "one")
            forget()
            seconds["push 2 %"].append(timed(partial(after.push, "two")))
            subprocess.run(["umount", str(node.top)], check=True)
            (base / "node2.disk").unlink()
        return seconds
    finally:
        for one in [golden, *nodes]:
            subprocess.run(["umount", "-l", str(one.top)], check=False, capture_output=True)


def measure_protocols(place: Path, content: Path) -> None:
    """Print what stream versions cost where the disk holds its files compressed: bytes sent, and seconds to receive."""
    tops = [place / "from", place / "to"]
    try:
        for top in tops:
            with top.with_suffix(".disk").open("wb") as disk:
                disk.truncate(8 << 30)
            top.mkdir()
            run("mkfs.btrfs", "-q", "-m", "single", top.with_suffix(".disk"))
            run("mount", "-o", "loop,compress=zstd", top.with_suffix(".disk"), top)
        run("btrfs", "subvolume", "create", tops[0] / "root")
        shell(f"cp -a --reflink=never {content}/. {tops[0]}/root/")
        run("btrfs", "subvolume", "snapshot", "-r", tops[0] / "root", tops[0] / "image")
        for title, options in (("1", ""), ("2, compressed data", "--proto 2 --compressed-data")):
            stream = place / "stream"
            forget()
            send = f"btrfs -q send {options} {tops[0]}/image | zstd -q -3 -T0 -f -o {stream}"
            sending = timed(partial(shell, send))
            forget()
            receive = f"zstd -dcq {stream} | btrfs -q receive {tops[1]}; btrfs filesystem sync {tops[1]}"
            receiving = timed(partial(shell, receive))
            size = stream.stat().st_size / 1e6
            print(f"stream {title}: {size:.0f} MB, sent in {sending:.2f} s, received in {receiving:.2f} s")
            run("btrfs", "subvolume", "delete", tops[1] / "image")
    finally:
        for top in tops:
            subprocess.run(["umount", "-l", str(top)], check=False, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="an image onto a node, against the plain pipe")
    parser.add_argument("directory", nargs="?", default="/usr/lib/x86_64-linux-gnu", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", default=None)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root: it mounts file systems", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="gpuadmin-bench-", dir=options.place) as place:
        (Path(place) / "protocols").mkdir()
        measure_protocols(Path(place) / "protocols", options.directory)
        seconds = measure(Path(place), options.directory, options.rounds)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        print(f"{name:10}  median {median[name]:6.2f} s   ({' '.join(f'{value:.2f}' for value in values)})")
    full = median["push full"] / median["plain full"]
    small = median["push 2 %"] / median["plain full"]
    print(f"push full / plain full: {full:.2f} (goal: at most 1.15)")
    print(f"push 2 % / plain full:  1/{1 / small:.0f} (goal: at most 1/20)")
    for kind in ("push", "plain"):
        print(f"{kind} 2 % / {kind} full: 1/{median[f'{kind} full'] / median[f'{kind} 2 %']:.0f}")
    return 0 if full <= 1.15 and small <= 1 / 20 else 1


if __name__ == "__main__":
    sys.exit(main())
