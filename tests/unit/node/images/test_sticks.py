"""Sticks, made of a store's image; and a machine that runs from one: what it refuses before it touches a disk."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import bootdisk, disks, manifest, netboot, sticks
from ansible_collections.gpuadmin.node.plugins.module_utils.images.bootdisk import BOOT, MIB, TOP, Wanted
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places, write_json

from gpuadmin.common.records.installs import Admin, Disk, InstallOrder, StickOrder
from tests.unit.node.images.conftest import KEY, World, mounted, run, say_nothing

pytestmark = pytest.mark.btrfs
MAC, DISK = "52:54:00:00:00:01", "virtio-odd"


@pytest.fixture
def admin(image: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    """The admin of the image `fresh`; nothing is done outside of the test's directory."""
    monkeypatch.setattr(sticks, "RUN", str(tmp_path / "run"))
    monkeypatch.setattr(netboot, "stop", lambda unit: None)
    monkeypatch.setattr(sticks, "progress_writer", lambda unit: say_nothing)
    yield Admin("gpuadmin", KEY, image.golden.settings.signers)
    run("rm", "-rf", f"{image.store}-stick")


def blank_loader(path: str, directory: str) -> None:
    assert Path(directory).stat().st_mode & 0o777 == 0o700
    with Path(path).open("wb") as stream:
        stream.truncate(BOOT * MIB)


def test_a_stick_holds_its_image_and_is_nobody(
    image: World, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootdisk, "make_loader", blank_loader)
    order = StickOrder("fresh", str(image.store), admin, "console=ttyS0", "run")
    earlier = Path(f"{image.store}-stick/stick.img")
    earlier.parent.mkdir(mode=0o755)
    earlier.touch()
    made = sticks.make_stick(order)["report"]["made"]
    path = Path(made["path"])
    assert made["bytes"] == path.stat().st_size
    assert made["sha256"] == manifest.digest(str(path))
    with mounted(path, TOP, tmp_path / "top") as top:
        assert json.loads((top / "state/lib/gpuadmin/stick.json").read_text()) == {
            "format": 1, "image": "fresh", "arguments": "console=ttyS0",
        }  # fmt: skip
        store = {one.name for one in (top / "store/fresh").iterdir()}
        assert store == {"manifest.json", "manifest.json.sig", "full.btrfs.zst"}
        assert (top / "store/loader").stat().st_size == BOOT * MIB
        etc = top / "roots/fresh/etc"
        assert (etc / "hostname").read_text() == "gpuadmin-stick\n"
        assert (etc / "ssh/ssh_host_ed25519_key.pub").read_text().startswith(made["host_key"])
        assert "Type=ether" in (etc / "systemd/network/10-gpuadmin.network").read_text()
    with mounted(path, BOOT, tmp_path / "boot") as boot:
        assert "console=ttyS0 noresume md_mod.start_ro=1 systemd.wants=" in (boot / "grub.cfg").read_text()


def test_a_stick_of_an_image_that_somebody_changed(image: World, admin: Admin) -> None:
    order = StickOrder("fresh", str(image.store), replace(admin, signers='gpuadmin namespaces="x" ' + KEY), "", "run")
    with pytest.raises(NodeError, match="signature is not by one of this site's keys"):
        sticks.make_stick(order)


@pytest.mark.holds("a stick does not fill the disk that homes are on")
def test_a_stick_for_which_there_is_no_room(image: World, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sticks.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    with pytest.raises(NodeError, match=r"no room for a stick beside .*: 1\.\d GB are needed"):
        sticks.make_stick(StickOrder("fresh", str(image.store), admin, "", "run"))
    assert list(Path(f"{image.store}-stick").iterdir()) == []


@pytest.mark.holds("no machine is told to boot a stick that goes")
def test_a_stick_that_goes_is_not_served(image: World, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    stick, stopped = Path(f"{image.store}-stick"), list[str]()
    stick.mkdir()
    monkeypatch.setattr(netboot, "stop", lambda unit: stopped.append(f"{unit} {stick.exists()}"))
    monkeypatch.setattr(sticks.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(NodeError, match="no room"):
        sticks.make_stick(StickOrder("fresh", str(image.store), admin, "", "run"))
    assert stopped == ["gpuadmin-netboot.service True", "gpuadmin-netboot-files.service True"]


def test_the_same_again_is_the_same_job(admin: Admin) -> None:
    """Whoever asks: what has begun is waited for, and not begun once more."""
    stick, order = StickOrder("fresh", "/store", admin, "", "run"), InstallOrder("node9", MAC, DISK, admin, "run")
    for one, function in ((stick, sticks.make_stick), (order, sticks.install)):
        job, again = sticks.job(one), sticks.job(replace(one, run_id="other"))
        assert job.function is function
        assert job.same == again.same
    assert sticks.job(order).same == sticks.job(replace(order, shown=["half made"])).same
    assert sticks.job(order).same != sticks.job(replace(order, disk="other")).same


class Machine:
    """A machine that runs from a stick of `fresh`, with one disk, and what was written to it."""

    def __init__(self, image: World, base: Path, admin: Admin) -> None:
        self.places = Places(top=str(image.golden.places.top), state=str(base / "state"), run=str(base / "run"))
        Path(self.places.state).mkdir()
        write_json(self.places.in_state("stick.json"), {"image": "fresh", "arguments": "quiet"})
        self.order = InstallOrder("node9", MAC, DISK, admin, "run")
        self.disk = Disk([DISK], 10**12, "", [], "")
        self.written: list[tuple[str, Wanted]] = []

    def lay_out(self, device: str, wanted: Wanted, _progress: object) -> str:
        self.written.append((device, wanted))
        return "ssh-ed25519 " + "A" * 68


@pytest.fixture
def machine(image: World, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    found = Machine(image, tmp_path, admin)
    monkeypatch.setattr(sticks, "mounted", lambda *_places, **_store: nullcontext())
    monkeypatch.setattr(sticks, "find_macs", lambda: [MAC])
    real = sticks.describe_network
    monkeypatch.setattr(sticks, "describe_network", lambda order, root="": real(order, root) if root else {})
    monkeypatch.setattr(disks, "look", lambda: {"/dev/null": found.disk})
    monkeypatch.setattr(bootdisk, "lay_out", found.lay_out)
    store = Path(found.places.in_top("store"))
    run("cp", "-r", image.store, store)
    yield found
    run("rm", "-rf", store)


def test_a_disk_becomes_a_node(machine: Machine) -> None:
    sticks.install(machine.order, machine.places, check=True)
    assert machine.written == []
    sticks.install(machine.order, machine.places)
    ((device, wanted),) = machine.written
    assert (device, wanted.label, wanted.arguments, wanted.manifest.name) == ("/dev/null", "gpuadmin", "quiet", "fresh")
    assert wanted.host == "node9"


#: What is wrong → how it comes about, and what is said. Nothing is written then.
REFUSED: dict[str, tuple[Callable[[Machine], object], str]] = {
    "another machine": (lambda m: setattr(m, "order", replace(m.order, mac="52:54:00:00:00:02")), "another machine"),
    "another disk": (lambda m: setattr(m, "order", replace(m.order, disk="other")), "has no disk other"),
    "a disk in use": (lambda m: setattr(m, "disk", replace(m.disk, busy="sda1 is in use (/)")), "is not touched"),
    "a disk that was changed": (
        lambda m: setattr(m, "order", replace(m.order, shown=["sda1: ext4"])), "has something else on it by now",
    ),
    "a small disk": (lambda m: setattr(m, "disk", replace(m.disk, size=10**9)), "are needed"),
    "no stick": (lambda m: Path(m.places.in_state("stick.json")).unlink(), "does not run from a stick"),
    "another signer": (
        lambda m: setattr(m, "order", replace(m.order, admin=replace(m.order.admin, signers="gpuadmin " + KEY))),
        "signature is not by one of this site's keys",
    ),
    "a damaged stream": (
        lambda m: run("sh", "-c", f"printf x >>{m.places.in_top('store/fresh/full.btrfs.zst')}"), "stick is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_before_a_disk_is_touched(case: str, machine: Machine) -> None:
    make, why = REFUSED[case]
    make(machine)
    for check in (True, False):
        if not (check and case == "a damaged stream"):  # it is not read twice
            with pytest.raises(NodeError, match=why):
                sticks.install(machine.order, machine.places, check=check)
    assert machine.written == []


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A system that runs, whose network is systemd-networkd's, and which was told of name servers."""
    (tmp_path / "etc/systemd/system/multi-user.target.wants").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/multi-user.target.wants/systemd-networkd.service").touch()
    (tmp_path / "run/systemd/netif").mkdir(parents=True)
    (tmp_path / "run/systemd/netif/state").write_text("OPER_STATE=routable\nDNS=10.0.0.1 10.0.0.2\n")
    return tmp_path


def test_a_network_by_dhcp(machine: Machine, system: Path) -> None:
    found = sticks.describe_network(machine.order, str(system))
    assert found["etc/resolv.conf"] == "nameserver 10.0.0.1\nnameserver 10.0.0.2\n"
    assert f"MACAddress={MAC}\n\n[Network]\nDHCP=yes" in found["etc/systemd/network/10-gpuadmin.network"]


def test_a_network_as_the_admin_gives_it(machine: Machine, system: Path) -> None:
    (system / "etc/systemd/system/sysinit.target.wants").mkdir()
    (system / "etc/systemd/system/sysinit.target.wants/systemd-resolved.service").touch()
    order = replace(machine.order, network={"20-lan.network": "[Match]\n"})
    assert sticks.describe_network(order, str(system)) == {
        "etc/systemd/network/20-lan.network": "[Match]\n", "etc/resolv.conf": "nameserver 127.0.0.53\n",
    }  # fmt: skip


def test_a_network_of_another_program(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="not systemd-networkd's"):
        sticks.describe_network(machine.order, str(tmp_path))


def test_cards(tmp_path: Path) -> None:
    for name, real in (("enp1s0", True), ("docker0", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text(f"{MAC}\n")
        if real:
            (tmp_path / name / "device").mkdir()
    assert sticks.find_macs(str(tmp_path)) == [MAC]
