"""Booting the stick from the network: what is brought for it, who is answered, for how long; and who answers DHCP."""

import errno
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import bootdisk, dhcp, netboot
from ansible_collections.gpuadmin.node.plugins.module_utils.images.dhcp import Offer
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import write_json

from gpuadmin.common.records.installs import NetbootOrder

MAC, XID = "3c:ec:ef:12:34:56", b"\1\2\3\4"


def reply(*options: tuple[int, bytes], address: str = "10.1.0.201", file: bytes = b"", xid: bytes = XID) -> bytes:
    head = struct.pack("!4B4s8x4s4x4x16x64x128s", 2, 1, 6, 0, xid, socket.inet_aton(address), file)
    return head + b"\x63\x82\x53\x63" + b"".join(bytes((code, len(text))) + text for code, text in options) + b"\xff"


SERVER = (54, bytes((10, 1, 0, 1)))
#: A packet → what it offers. None: it is no answer to this question.
PACKETS = {
    "an address": (reply(SERVER), Offer("10.1.0.1", "10.1.0.201", False)),
    "padding": (reply((0, b""), SERVER), Offer("10.1.0.1", "10.1.0.201", False)),
    "a proxy": (reply(SERVER, (60, b"PXEClient"), address="0.0.0.0"), Offer("10.1.0.1", "", True)),
    "both": (reply(SERVER, (67, b"pxelinux.0")), Offer("10.1.0.1", "10.1.0.201", True)),
    "a file as BOOTP has it": (reply(SERVER, file=b"pxelinux.0"), Offer("10.1.0.1", "10.1.0.201", True)),
    "no server": (reply((54, b"x")), None),
    "another question": (reply(SERVER, xid=b"\4\3\2\1"), None),
    "a question": (dhcp.make_discover(MAC, XID), None),
    "half": (reply(SERVER)[:200], None),
    "a server as BOOTP has it": (
        reply()[:20] + bytes((10, 1, 0, 7)) + reply()[24:],
        Offer("10.1.0.7", "10.1.0.201", False),
    ),
    "more behind its end": (reply(SERVER) + bytes((0, 54, 4, 9, 9, 9, 9)), Offer("10.1.0.1", "10.1.0.201", False)),
    "another cookie": (reply(SERVER).replace(b"\x63\x82\x53\x63", b"\x63\x82\x53\x64"), None),
    "an option that is cut off": (reply()[:240] + b"\x36\x04\x0a", None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize("case", PACKETS)
def test_what_is_offered(case: str) -> None:
    packet, found = PACKETS[case]
    assert dhcp.parse_offer(packet, XID) == found


def test_the_question_of_a_machine() -> None:
    """As RFC 2131 lays it out: nobody can answer what is at another place."""
    packet = dhcp.make_discover(MAC, XID)
    assert packet[:8] == b"\1\1\6\0" + XID
    assert packet[10:12] == b"\x80\0", "an answer comes to everybody, or this host would not hear it"
    assert packet[28:44] == bytes.fromhex("3cecef123456") + bytes(10)
    assert packet[236:243] == b"\x63\x82\x53\x63\x35\1\1"
    assert b"PXEClient:Arch:00000" in packet


def test_the_card_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [{"ifname": "lo"}, {"ifname": "eno1", "addr_info": [{"local": "10.1.0.10", "prefixlen": 22}]}]
    monkeypatch.setattr(dhcp, "run", lambda command, **_more: json.dumps(cards))
    assert dhcp.find_interface("10.1.0.10") == ("eno1", "10.1.0.0", "255.255.252.0")
    with pytest.raises(NodeError, match=r"no network card of this host has 10\.1\.0\.11"):
        dhcp.find_interface("10.1.0.11")


class Host:
    """A storage host with a stick: who answers DHCP there, and which units are started and stopped."""

    def __init__(self, base: Path) -> None:
        self.store = base / "images"
        self.stick = base / "images-stick"
        self.stick.mkdir()
        about = {"image": "one", "arguments": "quiet", "bytes": 7}
        write_json(str(self.stick / netboot.RECORD), about)
        for name in ("stick.img", "vmlinuz", "initrd.img", "drivers.img"):
            (self.stick / name).write_text(name)
        self.offers = [Offer("10.1.0.1", "10.1.0.201", False)]
        self.started: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self.stopped: list[str] = []
        self.works = True

    def serve(self, *, check: bool = False) -> list[str]:
        return netboot.serve(NetbootOrder([MAC], 2, "10.1.0.10", str(self.store)), check=check)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr(dhcp, "find_interface", lambda address: ("eno1", "10.1.0.0", "255.255.255.0"))
    monkeypatch.setattr(dhcp, "ask", lambda interface, mac: found.offers)
    monkeypatch.setattr(
        bootdisk, "make_core", lambda kind, target, find, own: Path(target).write_text(Path(find[-1]).read_text())
    )
    monkeypatch.setattr(netboot, "stop", found.stopped.append)
    monkeypatch.setattr(
        netboot, "start", lambda unit, command, words, limits: found.started.update({unit: (command, limits)})
    )
    monkeypatch.setattr(netboot, "working", lambda unit: found.works)
    monkeypatch.setattr(netboot, "journal", lambda unit, lines: "Address in use")
    monkeypatch.setattr(
        "ansible_collections.gpuadmin.node.plugins.module_utils.images.netboot.time.sleep", lambda _: None
    )
    return found


@pytest.mark.holds("whoever connects takes few threads; each machine that may be named has two")
def test_a_stick_is_served(host: Host) -> None:
    said = host.serve(check=True)
    assert said[0] == f"{MAC} gets 10.1.0.201 from DHCP of 10.1.0.1"
    assert (host.started, host.stopped, (host.stick / "net").exists()) == ({}, [], False)
    assert host.serve() == said
    assert host.stopped == [f"gpuadmin-{name}.service" for name in netboot.UNITS]
    for _command, limits in host.started.values():
        assert limits[0] == "RuntimeMaxSec=7200"
        assert {"ProtectSystem=strict", "NoNewPrivileges=yes", "TasksMax=200"} <= {*limits}
    files = host.started["gpuadmin-netboot-files.service"][0]
    assert files[files.index("--bind") + 1] == "10.1.0.10", "and no other network"
    (token,) = [one.name for one in (host.stick / "net").iterdir() if one.is_dir()]
    assert len(token) == 32
    place = host.stick / "net" / token
    assert (place / "stick.img").read_text() == "stick.img"
    config = (place / "bios.0").read_text()
    assert (place / "uefi.efi").read_text() == config, "which GRUB has in itself: it would look for it elsewhere"
    # dnsmasq gives away by TFTP, to whoever asks, what everybody may read
    secret = [place.parent / "index.html", *(host.stick / name for name in ("dnsmasq.conf", "grub.cfg"))]
    assert [one.stat().st_mode & 0o777 for one in secret] == [0o600] * 3
    assert f"gpuadmin.stick=http://10.1.0.10:{netboot.PORT}/{token}/stick.img gpuadmin.bytes=7\n" in config
    assert "root=/dev/loop0 rootfstype=btrfs rootflags=subvol=/roots/one rw panic=5 quiet boot=gpuadmin-net" in config
    settings = (host.stick / "dnsmasq.conf").read_text()
    assert (
        f"dhcp-ignore=tag:!named\nenable-tftp\ntftp-root={host.stick}/net\nleasefile-ro\ndhcp-host={MAC},set:named\n"
        in settings
    )
    assert settings.count("pxe-service=tag:named,") == 3


def test_a_host_with_a_strict_umask_serves_it(host: Host) -> None:
    """dnsmasq as root refuses a file by TFTP that not everybody may read; the directory above lets nobody in."""
    before = os.umask(0o077)
    try:
        host.serve()
    finally:
        os.umask(before)
    loaders = [*host.stick.glob("net/*/bios.0"), *host.stick.glob("net/*/uefi.efi")]
    assert [one.stat().st_mode & 0o777 for one in loaders] == [0o644, 0o644]


def test_nobody_is_shown_the_name(host: Host) -> None:
    """What serves files would list a directory that has no index."""
    host.serve()
    assert (host.stick / "net/index.html").read_bytes() == b""


@pytest.mark.holds("who connects and does no more holds no thread")
def test_who_asks_for_nothing_is_let_go(tmp_path: Path) -> None:
    """As the unit runs it, with less patience; and it serves."""
    (tmp_path / "stick.img").write_text("the stick")
    code = netboot._FILES.replace("60", "0.2")
    command = (sys.executable, "-I", "-u", "-c", code, "0", "--bind", "127.0.0.1", "--directory", tmp_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = ("127.0.0.1", int(server.stdout.readline().split("port ")[1].split()[0]))
            for asked, said in ((b"GET /stick.img HTTP/1.0\r\n\r\n", b"the stick"), (b"GET /st", b"")):
                with socket.create_connection(address, timeout=20) as line, line.makefile("rb") as answer:
                    line.sendall(asked)
                    assert answer.read()[-9:] == said
        finally:
            server.terminate()


def test_a_second_order_has_another_name(host: Host) -> None:
    names: set[str] = set()
    for _ in range(2):
        host.serve()
        names.update(one.name for one in (host.stick / "net").iterdir() if one.is_dir())
    assert len(names) == 2
    assert len([one for one in (host.stick / "net").iterdir() if one.is_dir()]) == 1


def test_who_else_boots_machines(host: Host) -> None:
    host.offers += [Offer("10.1.0.5", "", True), Offer("10.1.0.10", "", True)]
    said = host.serve(check=True)
    assert [one for one in said if " gets " in one] == [f"{MAC} gets 10.1.0.201 from DHCP of 10.1.0.1"]
    assert [one for one in said if "beware" in one] == [
        "beware: 10.1.0.5 also answers machines that boot from the network, and may be first"
    ], "an earlier order of its own is no stranger"


def test_what_could_not_boot_is_refused(host: Host) -> None:
    host.works = False
    with pytest.raises(NodeError, match=r"gpuadmin-netboot\.service does not stay: Address in use"):
        host.serve()
    host.works = True
    host.started.clear()
    host.offers = [Offer("10.1.0.5", "", True)]
    with pytest.raises(NodeError, match=f"no DHCP server on eno1 offers {MAC} an address"):
        host.serve()
    (host.stick / netboot.RECORD).unlink()
    with pytest.raises(NodeError, match="has no stick that boots from the network"):
        host.serve()
    assert host.started == {}


@pytest.mark.holds("no machine is told to boot what nobody serves")
def test_half_of_it_is_not_served(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where HTTP's port is taken, dnsmasq would go on telling machines to boot from there, for hours."""
    monkeypatch.setattr(netboot, "working", lambda unit: "files" not in unit)
    with pytest.raises(NodeError, match=r"gpuadmin-netboot-files\.service does not stay"):
        host.serve()
    assert host.stopped[2:] == [f"gpuadmin-{name}.service" for name in netboot.UNITS]


class Line:
    """A network in which somebody answers as so many servers, and then nobody does, or it fails."""

    def __init__(self, servers: int, end: OSError) -> None:
        self.servers, self.end, self.xid = iter(range(servers)), end, b""

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None: ...
    def setsockopt(self, *_: object) -> None: ...
    def bind(self, *_: object) -> None: ...
    def settimeout(self, _: float) -> None: ...
    def sendto(self, packet: bytes, _: object) -> None:
        self.xid = packet[4:8]

    def recv(self, _: int) -> bytes:
        for number in self.servers:
            return reply((54, struct.pack("!I", number)), xid=self.xid)
        raise self.end


@pytest.mark.holds("somebody who floods the network fills neither a plan nor memory")
@pytest.mark.parametrize(("servers", "found"), [(0, 0), (2, 2), (1000, dhcp.MOST)])
def test_who_answers(monkeypatch: pytest.MonkeyPatch, servers: int, found: int) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_: Line(servers, TimeoutError()))
    assert len(dhcp.ask("eno1", MAC)) == found


def test_a_network_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_: Line(1, OSError(errno.ENETDOWN, "Network is down")))
    with pytest.raises(NodeError, match=r"DHCP cannot be asked on eno1: .*Network is down"):
        dhcp.ask("eno1", MAC)


@pytest.mark.needs("cpio")
def test_what_a_root_is_booted_with(tmp_path: Path) -> None:
    """Drivers of network cards, with what these need, whatever the image's own initramfs has."""
    root, modules = tmp_path / "root", tmp_path / "root/usr/lib/modules/6.1"
    have = {
        "kernel/drivers/net/ethernet/odd.ko.xz": "kernel/net/ptp.ko.xz", "kernel/net/ptp.ko.xz": "",
        "kernel/drivers/net/wireless/radio.ko.xz": "", "kernel/drivers/block/loop.ko": "", "kernel/fs/odd.ko": "",
        "kernel/drivers/block/zram/zram.ko.zst": "",
    }  # fmt: skip
    for name in have:
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text(name)
    (modules / "modules.dep").write_text("".join(f"{name}: {needed}\n" for name, needed in have.items()))
    (root / "boot").mkdir()
    for name, target in (("vmlinuz", "boot/vmlinuz-6.1"), ("initrd.img", "/boot/initrd.img-6.1")):
        (root / target.lstrip("/")).write_text(name)
        (root / name).symlink_to(target)
    netboot.prepare(str(root), str(tmp_path))
    assert (tmp_path / "initrd.img").read_text() == "initrd.img", "of the root, not of this host"
    assert (tmp_path / "vmlinuz").read_text() == "vmlinuz"
    packed = subprocess.run(
        ["cpio", "--quiet", "-t", "-F", tmp_path / "drivers.img"], check=True, text=True, capture_output=True
    ).stdout.split()
    base = "usr/lib/modules/6.1"
    assert {"scripts/gpuadmin-net", f"{base}/modules.dep"} <= set(packed)
    assert {"scripts", base, f"{base}/kernel/net"} <= set(packed), "the kernel makes no directory that is not named"
    assert {one for one in packed if ".ko" in one} == {
        f"{base}/{name}" for name in have if "radio" not in name and "fs/odd" not in name
    }
    assert not (tmp_path / "drivers").exists()


def test_the_script_is_one() -> None:
    subprocess.run(["sh", "-n"], input=netboot._SCRIPT, text=True, check=True)
    assert f"losetup -o {bootdisk.TOP * bootdisk.MIB} /dev/loop0 /dev/zram0" in netboot._SCRIPT
