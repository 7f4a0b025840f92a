"""A golden node and a node to switch: btrfs in files, roots of a few files, a store in a directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    bootdisk,
    grubenv,
    publish,
    records,
    switch,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import (
    ImageSettings,
    Places,
    Running,
    write_json,
)

from tests.support.machine import cannot_mount

PASSWD = "root:x:0:0:root:/root:/bin/bash\ngpuadmin:x:900:900::/var/home/gpuadmin:/bin/bash\n"
PERSON = "minji:x:20000:20000::/home/minji:/bin/bash\n"


def run(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def fill(root: Path, host: str) -> None:
    """Make a root that passes for a bootable one, with a host's identity and somebody's account."""
    for directory in ("etc/ssh", "etc/systemd/system/multi-user.target.wants", "boot", "usr/lib/modules/6.1.0", "var"):
        (root / directory).mkdir(parents=True)
    for directory in ("proc", "sys", "dev", "run", "tmp"):
        (root / directory).mkdir()
    (root / "boot/vmlinuz-6.1.0").write_bytes(os.urandom(4096))
    (root / "boot/initrd.img-6.1.0").write_bytes(os.urandom(4096))
    (root / "vmlinuz").symlink_to("boot/vmlinuz-6.1.0")
    (root / "initrd.img").symlink_to("boot/initrd.img-6.1.0")
    (root / "usr/lib/modules/6.1.0/modules.dep").write_text("")
    shutil.copy("/etc/os-release", root / "etc/os-release")
    for unit in ("gpuadmin-trial.service", "gpuadmin-identity.service"):
        (root / "etc/systemd/system" / unit).write_text("[Unit]\n")
    (root / "etc/systemd/system/multi-user.target.wants/gpuadmin-trial.service").symlink_to("../gpuadmin-trial.service")
    (root / "etc/passwd").write_text(PASSWD + PERSON)
    (root / "etc/shadow").write_text("root:*:1::::::\ngpuadmin:!:1::::::\nminji:$y$hash:1::::::\n")
    (root / "etc/group").write_text("root:x:0:\nvideo:x:44:minji\nminji:x:20000:\n")
    (root / "etc/subuid").write_text("minji:2147483648:65536\n")
    (root / "etc/fstab").write_text("LABEL=gpuadmin / btrfs noatime 0 0\n")
    (root / "etc/hostname").write_text(f"{host}\n")
    (root / "etc/machine-id").write_text(f"{host}-machine-id\n")
    (root / "etc/ssh/ssh_host_ed25519_key").write_text(f"{host} secret\n")
    (root / "etc/ssh/ssh_host_ed25519_key").chmod(0o600)
    # a few MB, so that a difference is smaller than the whole
    for number in range(20):
        (root / f"usr/lib/file{number}").write_bytes(os.urandom(1 << 17))


@dataclass(frozen=True)
class Node:
    """A disk with its node: what runs is what we say."""

    places: Places
    settings: ImageSettings

    @property
    def top(self) -> Path:
        return Path(self.places.top)

    def running(self, name: str, boot: str = "boot-2") -> Node:
        """The node after a reboot into a root."""
        found = btrfs.inspect(self.places.in_top("roots", name))
        assert found is not None
        root = str(self.top / "roots" / name)
        return replace(
            self, places=replace(self.places, running=Running(found.id, f"/roots/{name}"), root=root, boot_id=boot)
        )

    def push(self, name: str, *, full: bool = False) -> switch.Switch:
        manifest = records.load_manifest(self.places, name, self.settings)
        return switch.run_switch(switch.Switch(self.places, self.settings, manifest, full=full))

    @property
    def grub(self) -> dict[str, str]:
        return grubenv.read(self.places.boot)

    def boot(self, boot: str = "boot-2") -> Node:
        """What GRUB does: take `trial` once, else `current`."""
        wanted = self.grub.get("trial") or self.grub["current"]
        grubenv.write(self.places.boot, trial="")
        return self.running(wanted, boot)

    def intact(self) -> None:
        """The running root is as it was and read-only, and what boots next is there and read-only."""
        for name in {self.grub["current"], self.grub.get("trial") or self.grub["current"]}:
            found = btrfs.inspect(self.places.in_top("roots", name))
            assert found is not None
            assert found.read_only
            root = self.top / "roots" / name
            assert (root / "etc/hostname").read_text() == "node2\n"
            assert (root / "etc/machine-id").read_text() == "node2-machine-id\n"
            assert (root / "etc/ssh/ssh_host_ed25519_key").read_text() == "node2 secret\n"


def make_node(base: Path, host: str, signers: str, store: Path, *, mib: int = 2048) -> Node:
    image, top = base / f"{host}.disk", base / f"{host}.top"
    with image.open("wb") as stream:
        stream.truncate(mib << 20)
    run("mkfs.btrfs", "-q", "-m", "single", image)
    top.mkdir()
    run("mount", "-o", "loop", image, top)
    for directory in ("images", "roots", "incoming"):
        (top / directory).mkdir()
    run("btrfs", "subvolume", "create", top / "roots/base")
    fill(top / "roots/base", host)
    run("btrfs", "property", "set", "-ts", top / "roots/base", "ro", "true")
    boot, state = base / f"{host}.boot", base / f"{host}.state"
    boot.mkdir()
    state.mkdir()
    (boot / "grubenv").write_bytes(grubenv.render({"current": "base"}))
    places = Places(
        top=str(top), root=str(top / "roots/base"), state=str(state), boot=str(boot), store=str(store),
        run=str(base / f"{host}.run"), boot_id="boot-1",
    )  # fmt: skip
    settings = ImageSettings(store="x:/y", signers=signers, settle=0)
    write_json(str(state / "images.json"), {"store": "x:/y", "signers": signers, "settle": 0})
    write_json(str(state / "roots.json"), {"confirmed": ["base"], "images": {}, "refused": {}})
    accounts = {"format": 1, "root": None, "settings": None, "removed": [], "users": [{"name": "minji", "uid": 20000}]}
    (state / "accounts.json").write_text(json.dumps(accounts))
    return Node(places, settings).running("base", "boot-1")


def sign(key: Path, text: str) -> str:
    return subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-n", "gpuadmin-image", "-f", str(key)],
        input=text, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


@dataclass(frozen=True)
class World:
    """The golden node with the images `one` (in full) and `two` (a difference to it) in a store, and the key."""

    base: Path
    golden: Node
    key: Path
    store: Path

    def publish(self, name: str, parents: list[str], *, full: bool) -> None:
        golden = self.golden
        text = publish.send(
            golden.places, golden.settings, name, parents, full=full, who="tester", progress=lambda text: None
        )  # fmt: skip
        publish.publish(golden.places, golden.settings, name, text, sign(self.key, text))

    def make(self, name: str, change: Callable[[Path], None], parents: list[str], *, full: bool) -> None:
        """Build an image without a trial."""
        top = self.golden.top
        btrfs.snapshot(str(top / "roots/base"), str(top / "roots" / name), read_only=False)
        change(top / "roots" / name)
        run("btrfs", "property", "set", "-ts", top / "roots" / name, "ro", "true")
        publish.seal(self.golden.places, self.golden.settings, name, tried=False)
        self.publish(name, parents, full=full)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    base = tmp_path_factory.mktemp("images")
    store, key = base / "store", base / "key"
    store.mkdir()
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    signers = f'gpuadmin namespaces="gpuadmin-image" {key.with_suffix(".pub").read_text()}'
    try:
        golden = make_node(base, "node1", signers, store)
    except subprocess.CalledProcessError as error:
        cannot_mount(error)
    try:
        world = World(base, golden, key, store)
        world.make("one", lambda root: None, [], full=True)
        world.make("two", lambda root: (root / "usr/lib/file1").write_text("changed") and None, ["one"], full=False)
        yield world
    finally:
        subprocess.run(["umount", "-l", str(base / "node1.top")], check=False)


@pytest.fixture
def node(world: World, tmp_path: Path) -> Iterator[Node]:
    """node2, fresh; its store is a copy of the world's that a test may damage."""
    store = tmp_path / "store"
    shutil.copytree(world.store, store)
    made = make_node(tmp_path, "node2", world.golden.settings.signers, store)
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", made.places.top], check=False)


@pytest.fixture
def holding_one(node: Node) -> Node:
    """node2 after it went to image one."""
    node.push("one")
    after = node.boot()
    confirm(after)
    return after


def confirm(node: Node) -> None:
    """Pass the gate."""
    from ansible_collections.gpuadmin.node.plugins.module_utils.images import trial

    checks = Path(node.places.state) / "checks/required.d"
    checks.mkdir(parents=True, exist_ok=True)
    script = checks / "10-yes"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    assert "confirmed" in trial.gate(node.places, node.settings)


__all__ = ["Node", "World", "confirm", "run", "sign"]


#: The admin's, which comes to new disks.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGY0mNRDSXyXVOc7Yhx1gHKkQyQ0Zp3mG2oWnJ1pV5bN"


def say_nothing(text: str) -> None: ...


def with_factory(root: Path) -> None:
    """Give a root what a new /var begins with."""
    (root / "usr/share/gpuadmin/factory-var/lib/dpkg").mkdir(parents=True)
    (root / "usr/share/gpuadmin/factory-var/spool/odd").mkdir(parents=True)


@pytest.fixture(scope="session")
def image(world: World) -> World:
    """With the image `fresh`, which a new disk can be made of."""
    if not (world.store / "fresh").exists():  # another file's tests have made it
        world.make("fresh", with_factory, [], full=True)
    return world


@contextmanager
def mounted(disk: Path, start: int, at: Path) -> Iterator[Path]:
    at.mkdir()
    run("mount", "-o", f"loop,offset={start * bootdisk.MIB}", disk, at)
    try:
        yield at
    finally:
        run("umount", at)
