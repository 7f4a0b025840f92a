"""A disk that boots, made on files and loop devices: where its parts are, what is in them, and where it was cut off."""

import json
import os
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import bootdisk, grubenv, layout, manifest, stream
from ansible_collections.gpuadmin.node.plugins.module_utils.images.bootdisk import BOOT, CORE, ESP, MIB, TOP, Wanted

from gpuadmin.common.records.installs import Admin
from tests.unit.node.images.conftest import KEY, World, mounted, run, say_nothing

pytestmark = pytest.mark.btrfs
NETWORK = {"etc/systemd/network/10-gpuadmin.network": "[Network]\nDHCP=yes\n"}


@pytest.fixture
def wanted(image: World, tmp_path: Path) -> Wanted:
    found = manifest.load(str(image.store / "fresh"), image.golden.settings.signers)
    loader = tmp_path / "loader"
    with loader.open("wb") as file:
        file.truncate(BOOT * MIB)
    for start, text in ((0, b"sector" * 100), (CORE * MIB, b"core"), (ESP * MIB, b"esp")):
        with loader.open("r+b") as file:
            file.seek(start)
            file.write(text)
    admin = Admin("gpuadmin", KEY, image.golden.settings.signers)
    return Wanted(
        "gpuadmin", "node9", found, manifest.choose_stream(found, {}, full=True), str(image.store), str(loader),
        "console=ttyS0", admin, NETWORK, run=str(tmp_path / "run"),
    )  # fmt: skip


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A disk that is full of something else."""
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.write(os.urandom(4 * MIB))
        file.truncate(2600 * MIB)
    return path


def test_a_disk_has_all_that_a_node_boots_from(disk: Path, wanted: Wanted, tmp_path: Path) -> None:
    key = bootdisk.lay_out(str(disk), wanted, say_nothing)
    parts = json.loads(run("sfdisk", "--json", disk))["partitiontable"]
    assert [(part["start"], part["name"]) for part in parts["partitions"]] == [
        (CORE * 2048, "gpuadmin-bios"), (ESP * 2048, "gpuadmin-esp"), (BOOT * 2048, "gpuadmin-boot"),
        (TOP * 2048, "gpuadmin"),
    ]  # fmt: skip
    data = disk.read_bytes()[: BOOT * MIB]
    assert data.startswith(b"sectorsector")
    assert data[510:512] == b"\x55\xaa", "the table's own sector keeps its end"
    assert data[CORE * MIB :].startswith(b"core\0")
    assert data[ESP * MIB :].startswith(b"esp\0")
    with mounted(disk, BOOT, tmp_path / "boot") as boot:
        config = (boot / "grub.cfg").read_text()
        assert layout.boot_problems(config, "ext4") == []
        assert "panic=5 console=ttyS0 $word" in config
        assert grubenv.read(str(boot)) == {"current": "fresh"}
    with mounted(disk, TOP, tmp_path / "top") as top:
        root = btrfs.inspect(str(top / "roots/fresh"))
        assert root is not None
        assert root.read_only
        received = btrfs.inspect(str(top / "images/fresh"))
        assert received is not None
        assert received.received_uuid == wanted.manifest.uuid, "the next push can be a difference to it"
        etc, state = top / "roots/fresh/etc", top / "state"
        assert (etc / "hostname").read_text() == "node9\n"
        assert (etc / "systemd/network/10-gpuadmin.network").exists()
        assert len((etc / "machine-id").read_text().strip()) == 32
        assert (
            f"UUID={run('blkid', '-p', '-s', 'UUID', '-o', 'value', '-O', TOP * MIB, disk).strip()} /var"
            in (etc / "fstab").read_text()
        )
        assert (etc / "ssh/ssh_host_ed25519_key").stat().st_mode & 0o777 == 0o600
        assert (etc / "ssh/ssh_host_ed25519_key.pub").read_text().startswith(key)
        home = state / "home/gpuadmin/.ssh/authorized_keys"
        assert (home.read_text().split()[:2], home.stat().st_uid) == (KEY.split(), 900)
        assert (state / "spool/odd").is_dir()
        assert (state / "lib/gpuadmin/identity").stat().st_mode & 0o777 == 0o700
        assert json.loads((state / "lib/gpuadmin/roots.json").read_text())["confirmed"] == ["fresh"]
        assert (state / "lib/gpuadmin/manifests/fresh.json").exists(), "drift is known from it"
        assert list((top / "incoming").iterdir()) == []
    assert run("losetup", "-j", disk) == ""


class Cut(BaseException):
    """The power goes."""


@pytest.mark.parametrize("point", ["fetching", "receiving fresh", "writing the boot loader"])
@pytest.mark.holds("a disk that is not whole is none that a BIOS would begin with")
def test_a_disk_that_was_cut_off_does_not_boot_and_is_made_anew(
    disk: Path, wanted: Wanted, point: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def cut(reached: str) -> None:
        if reached == point:
            raise Cut

    def fetch(*given: Any) -> float:
        cut("fetching")
        return stream.fetch(*given)

    monkeypatch.setattr(bootdisk, "fetch", fetch)
    with pytest.raises(Cut):
        bootdisk.lay_out(str(disk), wanted, cut)
    with disk.open("rb") as data:
        first = data.read(512)
        assert (first[:440], first[510:]) == (bytes(440), bytes(2)), "a BIOS finds nothing to begin with"
        data.seek(CORE * MIB)
        assert not any(data.read((BOOT - CORE) * MIB)), "and UEFI no file"
    monkeypatch.undo()
    bootdisk.lay_out(str(disk), wanted, say_nothing)
    with mounted(disk, TOP, tmp_path / "top") as top:
        assert [path.name for path in (top / "roots").iterdir()] == ["fresh"]


@pytest.mark.holds("no RAID or pool that was there before is found at the end of a partition")
def test_a_disk_that_was_part_of_a_raid(wanted: Wanted, tmp_path: Path) -> None:
    """What md wrote at the end of the old partition would be at the end of the new one, and hide its btrfs."""
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(2600 * MIB + 900 * 1024)  # as disks are: no whole MiB
    script = f"label: gpt\nstart={CORE}MiB, type=raid\n"
    subprocess.run(["sfdisk", "--quiet", path], input=script, text=True, check=True)

    def probe() -> str:
        last = json.loads(run("sfdisk", "--json", path))["partitiontable"]["partitions"][-1]
        return run(
            "blkid", "-p", "-s", "TYPE", "-o", "value", "-O", last["start"] * 512, "-S", last["size"] * 512, path
        )

    (part,) = json.loads(run("sfdisk", "--json", path))["partitiontable"]["partitions"]
    end = part["start"] * 512 + (part["size"] * 512 & ~0xFFFF) - 0x10000  # md(4): a superblock of version 0.90
    with path.open("r+b") as file:
        file.seek(end)
        file.write(struct.pack("<8I", 0xA92B4EFC, 0, 90, 0, 0, 1, 0, 1))
    assert probe() == "linux_raid_member\n"
    bootdisk.lay_out(str(path), wanted, say_nothing)
    assert probe() == "btrfs\n"


def test_an_image_that_nobody_could_log_in_to(disk: Path, wanted: Wanted) -> None:
    with pytest.raises(NodeError, match="has no account other"):
        bootdisk.lay_out(str(disk), replace(wanted, admin=replace(wanted.admin, user="other")), say_nothing)


def test_an_image_of_an_earlier_gpuadmin(disk: Path, wanted: Wanted, image: World) -> None:
    found = manifest.load(str(image.store / "one"), image.golden.settings.signers)
    earlier = replace(wanted, manifest=found, stream=manifest.choose_stream(found, {}, full=True))
    with pytest.raises(NodeError, match="lacks what a new disk needs in /var"):
        bootdisk.lay_out(str(disk), earlier, say_nothing)


def test_a_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers that grub-bios-setup would write, with programs that only leave their files."""
    modules = tmp_path / "grub"
    (modules / "i386-pc").mkdir(parents=True)
    (modules / "i386-pc/boot.img").write_bytes(bytes(range(256)) * 2)
    asked: list[tuple[str, ...]] = []

    def fake(command: tuple[str, ...], **_more: object) -> str:
        asked.append(command)
        if command[0] == "grub-mkimage":
            Path(command[command.index("-o") + 1]).write_bytes(b"\xff" * 4096)
        return ""

    monkeypatch.setattr(bootdisk, "run", fake)
    bootdisk.make_loader(str(tmp_path / "loader"), str(tmp_path), str(modules), [str(tmp_path / "none")])
    data = (tmp_path / "loader").read_bytes()
    assert len(data) == BOOT * MIB
    assert int.from_bytes(data[0x5C:0x64], "little") == 2048, "where core.img is"
    assert data[0x66:0x68] == b"\x90\x90"
    assert int.from_bytes(data[MIB + 0x1F4 : MIB + 0x1FC], "little") == 2049, "where the rest of it is"
    assert data[440:512] == bytes(72), "nothing of a table"
    assert {command[command.index("-p") + 1] for command in asked if "-p" in command} == {"(,gpt3)/"}
    copied = [command[-2:] for command in asked if command[0] == "mcopy"]
    assert copied == [(str(tmp_path / "bootx64.efi"), "::/EFI/BOOT/BOOTX64.EFI")]
    signed = [str(tmp_path / "shim.efi"), str(tmp_path / "signed.efi")]
    for one in signed:
        assert not bootdisk.has_signed(signed), "shim alone would find nothing to start"
        Path(one).touch()
    asked.clear()
    bootdisk.make_loader(str(tmp_path / "loader"), str(tmp_path), str(modules), signed)
    copied = [command[-2:] for command in asked if command[0] == "mcopy"]
    assert copied[:2] == [(signed[0], "::/EFI/BOOT/BOOTX64.EFI"), (signed[1], "::/EFI/BOOT/grubx64.efi")]
    assert [target for _, target in copied[2:]] == ["::/EFI/debian/grub.cfg", "::/EFI/ubuntu/grub.cfg"]
    assert 'set root="$disk,gpt3"' in Path(copied[2][0]).read_text()
