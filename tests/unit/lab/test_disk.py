"""The bytes of disks, archives and seeds."""

import io
import struct
import subprocess
import tarfile
import uuid
import zlib
from pathlib import Path

import pytest

from gpuadmin.lab import disk, image, rootfs, seed, state
from gpuadmin.lab.paths import guest_directory
from gpuadmin.lab.programs import search_path
from gpuadmin.lab.releases import RELEASES


def partitions(sector: bytes) -> list[tuple[int, int, int, int]]:
    """(status, type, first sector, sectors) of each entry of an MBR."""
    found = []
    for number in range(4):
        status, _, kind, _, start, size = struct.unpack("<B3sB3sII", sector[446 + 16 * number : 462 + 16 * number])
        if kind:
            found.append((status, kind, start, size))
    return found


def test_node_partitions() -> None:
    sector = disk.boot_sector(disk.NODE, b"\x90" * 512)
    assert len(sector) == 512
    assert sector[510:] == b"\x55\xaa"
    assert sector[:440] == b"\x90" * 440
    mib = 2048
    assert partitions(sector) == [
        (0x80, 0x83, 1 * mib, 64 * mib),
        (0, 0x83, 65 * mib, (10240 - 65) * mib),
    ]


def test_ordinary_has_one_partition_to_the_end() -> None:
    assert partitions(disk.boot_sector(disk.ORDINARY, b"")[:512].rjust(512, b"\0"))[0][1] == 0x83


def test_empty_disk_is_sparse_and_has_grub(tmp_path: Path) -> None:
    target = tmp_path / "disk.raw"
    disk.write_empty_disk(target, disk.NODE, b"B" * 512, b"CORE" * 100)
    with target.open("rb") as file:
        file.seek(512)
        assert file.read(400) == b"CORE" * 100
    assert target.stat().st_size == 10 * 1024**3
    assert target.stat().st_blocks * 512 < 1024**2


def gpt(raw: bytes, sectors: int) -> list[tuple[uuid.UUID, int, int, str]]:
    """(type, first sector, sectors, name) of each entry of a GPT, whose checksums are tested on the way (UEFI, 5.3)."""
    header = raw[512 : 512 + 92]
    checksum = struct.unpack("<I", header[16:20])[0]
    assert header[:8] == b"EFI PART"
    assert zlib.crc32(header[:16] + bytes(4) + header[20:]) == checksum
    backup, first, last = struct.unpack("<QQQ", header[32:56])
    assert (backup, first) == (sectors - 1, disk.FIRST_SECTOR)
    count, size, entries_checksum = struct.unpack("<III", header[80:92])
    table = raw[1024 : 1024 + count * size]
    assert zlib.crc32(table) == entries_checksum
    found = []
    for number in range(count):
        entry = table[number * size : (number + 1) * size]
        kind, begin, end = uuid.UUID(bytes_le=entry[:16]), *struct.unpack("<QQ", entry[32:48])
        if kind.int:
            assert end <= last
            found.append((kind, begin, end - begin + 1, entry[56:].decode("utf-16-le").rstrip("\0")))
    return found


@pytest.mark.needs("sfdisk")
def test_uefi_node_partitions(tmp_path: Path) -> None:
    target = tmp_path / "disk.raw"
    disk.write_blank_disk(target, disk.NODE_UEFI)
    environment = {"PATH": search_path()}
    script = disk.partition_script(disk.NODE_UEFI)
    subprocess.run(["sfdisk", "--quiet", str(target)], input=script, text=True, env=environment, check=True)
    done = subprocess.run(
        ["sfdisk", "--verify", str(target)], env=environment, check=True, capture_output=True, text=True
    )
    assert "No errors detected" in done.stdout
    with target.open("rb") as file:
        raw = file.read(1024**2)
    mib, sectors = 2048, 10 * 1024 * 2048
    ((_, kind, start, size),) = partitions(raw[:512])
    assert (kind, start, size) == (0xEE, 1, sectors - 1), "a protective MBR over all of the disk"
    esp, rest = gpt(raw, sectors)
    assert esp == (uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"), 1 * mib, 64 * mib, "gpuadmin-boot")
    assert rest[0] == uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
    assert rest[1] == 65 * mib
    assert rest[3] == "gpuadmin"
    assert sectors - rest[1] - rest[2] < 2 * mib, "to the end, but for the second table"
    assert target.stat().st_blocks * 512 < 1024**2


def test_core_image_that_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        disk.write_empty_disk(tmp_path / "disk.raw", disk.NODE, b"", b"x" * 2048 * 512)


def test_grub_environment() -> None:
    block = disk.grub_environment(current="base")
    assert len(block) == 1024
    assert block.startswith(b"# GRUB Environment Block\ncurrent=base\n###")


@pytest.mark.needs("cpio")
def test_cpio_is_what_cpio_reads(tmp_path: Path) -> None:
    archive = disk.cpio({"a/b/script": (b"#!/bin/sh\n", 0o755), "a/text": (b"xyz", 0o644)})
    assert len(archive) % 512 == 0
    subprocess.run(["cpio", "-id", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "a/b/script").read_text() == "#!/bin/sh\n"
    assert (tmp_path / "a/b/script").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a/text").read_text() == "xyz"


def members(lab: state.Lab, host: str) -> dict[str, tarfile.TarInfo | bytes]:
    data = seed.seed_tar(
        lab, lab.host(host), base_fstab="BASE\n", host_key=b"K", host_key_public=b"P", admin_key="ssh-ed25519 AAAA x\n"
    )
    found: dict[str, tarfile.TarInfo | bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            found[entry.name] = file.read() if file else entry
            found["mode " + entry.name] = entry
    return found


def test_seed_of_a_node(lab: state.Lab) -> None:
    found = members(lab, "node1")
    assert found["etc/hostname"] == b"node1\n"
    assert found["var/home/gpuadmin/.ssh/authorized_keys"] == b"ssh-ed25519 AAAA x\n"
    assert "etc/fstab" not in found
    key = found["mode etc/ssh/ssh_host_ed25519_key"]
    assert isinstance(key, tarfile.TarInfo)
    assert (key.mode, key.uid) == (0o600, 0)
    mine = found["mode var/home/gpuadmin/.ssh"]
    assert isinstance(mine, tarfile.TarInfo)
    assert (mine.mode, mine.uid, mine.gid) == (0o700, 900, 900)
    network = found["etc/systemd/network/20-cluster.network"]
    assert isinstance(network, bytes)
    assert b"Address=10.77.0.11/24" in network
    assert lab.host("node1").cluster_mac.encode() in network


def test_seed_of_storage_mounts_its_second_disk(lab: state.Lab) -> None:
    fstab = members(lab, "storage1")["etc/fstab"]
    assert isinstance(fstab, bytes)
    assert fstab.startswith(b"BASE\n")
    assert b"/srv/storage btrfs noatime,x-systemd.makefs" in fstab


def test_the_boot_partition_that_each_disk_mounts(uefi_lab: state.Lab) -> None:
    assert (guest_directory() / uefi_lab.layout("storage").name / "fstab").read_text().count("/boot/grub vfat") == 1
    assert (guest_directory() / disk.NODE.name / "fstab").read_text().count("/boot/grub ext4") == 1


def test_machine_ids_differ_and_are_valid(lab: state.Lab) -> None:
    ids = {seed.machine_id(lab, host) for host in lab.hosts}
    assert len(ids) == len(lab.hosts)
    assert all(len(one) == 32 and int(one, 16) for one in ids)


def test_hosts_know_each_other(lab: state.Lab) -> None:
    lines = seed.hosts_file(lab).splitlines()
    assert {"127.0.0.1 localhost", "10.77.0.10 storage1", "10.77.0.12 node2", "10.77.0.51 plain1"} <= set(lines)


def test_files_for_guests_have_their_modes(tmp_path: Path) -> None:
    rootfs.write_files_tar(tmp_path / "files.tar")
    with tarfile.open(tmp_path / "files.tar") as tar:
        modes = {entry.name: (entry.mode, entry.uid) for entry in tar}
    assert modes["etc/sudoers.d/gpuadmin"] == (0o440, 0)
    assert modes["etc/initramfs-tools/hooks/gpuadmin-lab"] == (0o755, 0)
    assert modes["etc/initramfs-tools/scripts/local-bottom/gpuadmin-lab-seed"] == (0o755, 0)
    assert modes["etc/ssh/sshd_config.d/10-gpuadmin-lab.conf"] == (0o644, 0)


def test_mmdebstrap_command() -> None:
    command = rootfs.mmdebstrap_command(Path("/w"), "http://m.example/debian", RELEASES["13"])
    source = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://m.example/debian trixie main"
    assert command[-3:] == ("trixie", "/w/root.tar", source)
    unnamed = rootfs.mmdebstrap_command(Path("/w"), None, RELEASES["13"])  # as on Ubuntu, whose apt lacks Debian's keys
    assert unnamed[-2:] == ("trixie", "/w/root.tar")
    assert ("--keyring=/usr/share/keyrings/debian-archive-keyring.gpg" in unnamed, len(unnamed)) == (True, len(command))
    hook = next(word for word in command if "useradd" in word)
    assert "@PACKAGES@" not in hook
    (includes,) = (word for word in command if word.startswith("--include="))
    assert "docker.io" not in includes
    more = rootfs.mmdebstrap_command(Path("/w"), "http://m.example/debian", RELEASES["12"], machines=True)
    assert any(word.startswith(f"{includes},") and ",docker.io," in word and "docker-cli" not in word for word in more)
    assert "docker.io" in hook


def test_image_key_follows_what_it_is_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    first = image.image_key("http://a.example/debian")
    assert first == image.image_key("http://a.example/debian")
    assert first != image.image_key("http://b.example/debian")
    assert first != image.image_key("http://a.example/debian", machines=True)
    monkeypatch.setattr(rootfs, "downloaded_packages", lambda: ("acl",))
    assert first != image.image_key("http://a.example/debian")


@pytest.mark.parametrize("name", ["guest/build.sh", "guest/customize.sh"])
def test_scripts_parse(name: str) -> None:
    path = Path(rootfs.__file__).parent / name
    subprocess.run(["sh", "-n", str(path)], check=True)
