"""A machine with an empty disk and a stick, in QEMU; and an image for it, made here, for a storage host's store."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.images import build, publish
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places, Running
from ansible_collections.gpuadmin.node.plugins.module_utils.images.root_facts import EARLY

from gpuadmin.common.records.images import ImageSettings
from gpuadmin.config.load import load_site
from gpuadmin.host_keys import fetch_host_keys
from gpuadmin.lab import accel, firmware, image, network
from gpuadmin.lab.light import host as light
from gpuadmin.lab.mirror import mirror
from gpuadmin.lab.progress import Progress
from gpuadmin.lab.qmp import Qmp
from gpuadmin.lab.releases import DEFAULT, RELEASES
from tests.support.lab_cluster import Cluster

MAC, DISK = "52:54:00:0a:0b:0c", "virtio-EMPTY"
#: Of the card in the lab's own network, from which a machine without a stick boots.
LAN_MAC = "52:54:00:0a:0b:0d"
#: What the lab's own kernels are told: for an emulator, and so that somebody reads what they say.
KERNEL = (
    "norandmaps mitigations=off init_on_alloc=0 randomize_kstack_offset=off hardened_usercopy=off tsc=reliable "
    "console=ttyS0 loglevel=4"
)
#: Of Debian 13, as light hosts are, which do not reach a mirror.
PACKAGES = (
    "dnsmasq-base", "grub-efi-amd64-bin", "grub-efi-amd64-unsigned", "libidn2-0", "libjansson4",
    "libnetfilter-conntrack3", "libnfnetlink0", "libnftables1", "libnftnl11", "libunistring5", "mtools",
)  # fmt: skip
#: Of these only the files are wanted: what Secure Boot takes.
SIGNED = ("grub-efi-amd64-signed", "shim-signed")
#: OVMF that asks Secure Boot of what it boots, and its variables with Microsoft's keys: Debian's and Ubuntu's ovmf.
SECURE = tuple(Path(f"/usr/share/OVMF/OVMF_{one}.fd") for one in ("CODE_4M.secboot", "VARS_4M.ms"))


def run(*command: object, text: str = "") -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, input=text or None, stdout=subprocess.PIPE, text=True).stdout


def _sign(key: Path, text: str) -> str:
    return run("ssh-keygen", "-Y", "sign", "-q", "-n", "gpuadmin-image", "-f", key, text=text)


def make_image(base: Path, key: Path, name: str) -> Path:
    """Make a signed image of the virtual machines' root, as a golden node would; return the store that has it."""
    top, store = base / "top", base / "store"
    disk = base / "golden"
    with disk.open("wb") as stream:
        stream.truncate(6 << 30)
    run("mkfs.btrfs", "-q", "-m", "single", disk)
    for directory in (top, store, base / "state"):
        directory.mkdir()
    run("mount", "-o", "loop,compress=zstd:1", disk, top)
    try:
        for one in ("images", "roots", "incoming"):
            (top / one).mkdir()
        root = top / "roots" / name
        btrfs.create(str(root))
        tar = image.ensure_root(Progress(), machines=True) / "root.tar"
        # by tar: the tarfile of Python before 3.11.4, which Debian 12 has, knows no filters
        run("tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-xpf", tar, "-C", root)
        shutil.rmtree(root / "boot/builder")
        shutil.rmtree(root / "var/cache/apt")
        run("mv", root / "var", top / "var")
        (root / "var").mkdir()
        shutil.copytree(top / "var/lib/dpkg", root / "usr/lib/sysimage/dpkg", symlinks=True)
        assert build.collect_directories(str(root), str(top / "var")) > 20
        # what prepare-root brings, and replaces on a node
        units = root / "etc/systemd/system"
        for path, text in (
            (units / "gpuadmin-trial.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n"),
            (root / EARLY, "#!/bin/sh\n"),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        (units / "multi-user.target.wants/gpuadmin-trial.service").symlink_to("../gpuadmin-trial.service")
        run("btrfs", "property", "set", "-ts", root, "ro", "true")
        signers = f'gpuadmin namespaces="gpuadmin-image" {key.with_suffix(".pub").read_text()}'
        places = Places(
            top=str(top), root=str(root), state=str(base / "state"), store=str(store), run=str(base / "run"),
            running=Running(0, ""),
        )  # fmt: skip
        settings = ImageSettings(signers=signers)
        publish.seal(places, settings, name, tried=False)
        text = publish.send(places, settings, name, [], full=True, who="tester", progress=lambda text: None, protocol=2)
        publish.publish(places, settings, name, text, _sign(key, text))
    finally:
        run("umount", top)
        disk.unlink()
    return store


def fill_store(cluster: Cluster, store: Path) -> None:
    """Bring the store to the lab's storage host, a light one, and what it needs to make sticks."""
    send(cluster, store, "/srv/storage/images")
    # a light host's /dev has no loop devices
    cluster.admin(
        "storage1",
        "[ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237; "
        "for n in $(seq 0 255); do [ -e /dev/loop$n ] || mknod /dev/loop$n b 7 $n; done",
    )
    packages = store.parent / "packages"
    download(packages)
    send(cluster, packages, "/var/tmp/packages")
    cluster.admin("storage1", "btrfs property set -ts / ro false; dpkg -i /var/tmp/packages/*.deb >&2; "
                  "for one in /var/tmp/packages/signed/*.deb; do dpkg-deb -x $one /; done; "
                  "btrfs property set -ts / ro true")  # fmt: skip


def send(cluster: Cluster, source: Path, target: str) -> None:
    """Bring what is in a directory of this machine to the storage host, where only root can read it."""
    cluster.admin("storage1", f"install -d -m 700 {target}")
    with subprocess.Popen(("tar", "-C", source, "-c", "."), stdout=subprocess.PIPE) as tar:
        command = [*cluster.ssh_command("admin", "storage1"), f"sudo tar -C {target} -x --no-same-owner"]
        subprocess.run(command, stdin=tar.stdout, check=True)


def download(target: Path) -> None:
    """Fetch packages of the light hosts' release with this machine's apt."""
    for directory in ("lists/partial", "archives/partial"):
        (target / "apt" / directory).mkdir(parents=True)
    sources = target / "apt/sources.list"
    sources.write_text("\n".join((*RELEASES[DEFAULT].source(mirror()), "")))
    options = [
        word
        for one in (
            f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-", f"Dir::State::lists={target}/apt/lists",
            f"Dir::Cache={target}/apt", "Acquire::Languages=none", "APT::Sandbox::User=root",
        )
        for word in ("-o", one)
    ]  # fmt: skip
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    (target / "signed").mkdir()
    for place, names in ((target, PACKAGES), (target / "signed", SIGNED)):
        subprocess.run(["apt-get", "-qq", *options, "download", *names], check=True, cwd=place)
    shutil.rmtree(target / "apt")


def _open_tap(lan: str) -> int:
    """A card's other end, plugged into the lab's own network, which is a network namespace."""

    def make() -> int:
        inside = os.open(f"/run/netns/{lan}", os.O_RDONLY)
        try:  # of this thread alone, which ends here
            assert ctypes.CDLL(None).setns(inside, 0) == 0
        finally:
            os.close(inside)
        tap = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"tap-bare", 0x1002))  # TUNSETIFF: IFF_TAP, IFF_NO_PI
        return tap

    with ThreadPoolExecutor(1) as pool:
        tap = pool.submit(make).result()
    run("ip", "-n", lan, "link", "set", "tap-bare", "master", light.BRIDGE, "up")
    return tap


@contextmanager
def dhcp_server(lan: str, directory: Path) -> Iterator[None]:
    """DHCP in the lab's own network, as any network has it: it says nothing to machines that boot from the network."""
    run("ip", "-n", lan, "address", "add", f"{network.NETWORK}.1/24", "dev", light.BRIDGE)
    command = ("ip", "netns", "exec", lan, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
               "--bind-interfaces", f"--interface={light.BRIDGE}", "--pid-file=", "--user=root",
               f"--dhcp-leasefile={directory}/leases",
               f"--dhcp-range={network.NETWORK}.200,{network.NETWORK}.220")  # fmt: skip
    with subprocess.Popen(command) as server:
        try:
            yield
        finally:
            server.terminate()
            run("ip", "-n", lan, "address", "flush", "dev", light.BRIDGE)


class Machine:
    """The machine. It boots from the stick when it is switched on, as if that was chosen in the firmware's menu, and
    from its disk at every reboot. `power_cut` loses what is not on the disk. It has one card, in a network where DHCP
    answers; its ssh is at a port of this machine's. `kind`: bios, uefi, or secure: UEFI that boots only what is signed.
    With `network-` before that it has no stick, and one more card, in the network `lan`, from which it boots. `port`:
    if given, it has one more card, in the virtual hosts' network, which is the multicast group at that port.
    """

    def __init__(self, directory: Path, stick: Path, kind: str, lan: str, port: int) -> None:
        self.directory, self.stick, self.kind, self.lan = directory, stick, kind.rpartition("-")[2], lan
        self.by_network = kind.startswith("network-")
        self.wire = f"socket,id=wire,mcast={network.MULTICAST_GROUP}:{port},localaddr=127.0.0.1" if port else ""
        self.disk, self.console = directory / "disk.qcow2", directory / "console.log"
        self.port = network.free_port()
        self._process: subprocess.Popen[bytes] | None = None
        run("qemu-img", "create", "-q", "-f", "qcow2", self.disk, "10G")

    def start(self, first: str = "stick") -> None:
        index, tap = 1 if first == "stick" else 3, _open_tap(self.lan) if self.by_network else None
        boots = [
            "-drive", f"if=none,id=stick,format=raw,snapshot=on,file={self.stick}",
            "-device", f"virtio-blk-pci,drive=stick,serial=STICK,id=plug,bootindex={index}",
        ] if tap is None else [
            "-netdev", f"tap,id=wire,fd={tap}",
            "-device", f"virtio-net-pci,netdev=wire,mac={LAN_MAC},id=plug,bootindex={index}"
            f"{'' if self.kind == 'bios' else ',romfile='}",  # UEFI has a driver of its own
        ]  # fmt: skip
        if self.wire:
            boots += ["-netdev", self.wire, "-device", f"virtio-net-pci,netdev=wire,mac={LAN_MAC},romfile="]
        command = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-m", "1024" if tap is None else "2048",
            *accel.accel_arguments(accel.choose(image.kernel())),
            "-drive", f"if=none,id=disk,format=qcow2,cache=writeback,discard=unmap,file={self.disk}",
            "-device", "virtio-blk-pci,drive=disk,serial=EMPTY,bootindex=2", *boots,
            "-netdev", f"user,id=lan,ipv6=off,hostfwd=tcp:127.0.0.1:{self.port}-:22",
            "-device", f"virtio-net-pci,netdev=lan,mac={MAC},romfile=",
            "-device", "virtio-rng-pci",
            "-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console",
            "-serial", "null",  # what the lab's image wants of a second one
            "-qmp", "unix:qmp.sock,server=on,wait=off",
            *self._firmware(),
        ]  # fmt: skip
        (self.directory / "qmp.sock").unlink(missing_ok=True)
        wires = () if tap is None else (tap,)
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=self.directory, pass_fds=wires)
        for one in wires:
            os.close(one)

    def _firmware(self) -> tuple[str, ...]:
        if self.kind != "secure":
            return ("-machine", "pc", *(() if self.kind == "bios" else ("-bios", str(firmware.ovmf()))))
        code, keys = SECURE
        own = self.directory / keys.name
        if not own.exists():
            shutil.copyfile(keys, own)
        return (
            "-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on",
            "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}",
            "-drive", f"if=pflash,unit=1,format=raw,file={own}",
        )  # fmt: skip

    def boot_from_disk(self) -> None:
        """From the next reboot on."""
        with Qmp(self.directory, limit=30) as monitor:
            monitor.command("qom-set", path="/machine/peripheral/plug", property="bootindex", value=3)

    def power_cut(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def is_empty(self) -> bool:
        """Whether nothing was ever written to its disk."""
        return '"data": true' not in run("qemu-img", "map", "-U", "--output=json", self.disk)


@contextmanager
def machine(directory: Path, stick: Path, kind: str, lan: str = "", port: int = 0) -> Iterator[Machine]:
    """A machine that has been switched on, in a directory of its own."""
    directory.mkdir()
    found = Machine(directory, stick, kind, lan, port)
    try:
        found.start()
        yield found
    finally:
        found.power_cut()
        found.disk.unlink()


def wait_for_stick(site: Path, node: str) -> None:
    """Wait until the machine at a node's address shows the key of the site's stick."""
    hosts, known = load_site(str(site)).inventory.named([node]), (site / "known_hosts").read_text()

    def is_shown() -> bool:
        (key,) = fetch_host_keys(hosts)
        return bool(key.blob) and f"gpuadmin-stick {key.kind} {key.blob}" in known

    wait_until("the stick boots", is_shown)


def wait_until(what: str, reached: object, seconds: float = 900) -> None:
    """Wait until a function says that something is reached."""
    assert callable(reached)
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, f"{what}: not in {seconds} s"
        time.sleep(2)  # of another machine nothing tells
