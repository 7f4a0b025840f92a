"""Command lines, and finding a process again."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuadmin.errors import GpuadminError
from gpuadmin.lab import accel, builder, cluster, commands, firmware, programs, qemu, ssh, state
from gpuadmin.lab.disk import NODE, NODE_UEFI
from gpuadmin.lab.progress import Progress


def has(command: tuple[str, ...], *words: str) -> bool:
    """Whether the words stand next to each other in a command."""
    return any(command[start : start + len(words)] == words for start in range(len(command)))


def test_a_node(lab: state.Lab) -> None:
    host = lab.host("node1")
    command = qemu.qemu_command(lab, host, "tcg")
    directory = lab.host_directory(host)
    assert has(command, "-accel", "tcg", "-cpu", "max,-cx16,-erms,-la57,-smap,-smep", "-smp", "1")
    assert has(command, "-m", "1024")
    assert has(command, "-netdev", f"user,id=uplink,ipv6=off,hostfwd=tcp:127.0.0.1:{host.ssh_port}-:22")
    assert has(command, "-netdev", "socket,id=cluster,mcast=230.0.0.1:5555,localaddr=127.0.0.1")
    assert has(command, "-fw_cfg", f"name=opt/gpuadmin/seed,file={directory / 'seed.tar'}")
    assert has(command, "-qmp", "unix:qmp.sock,server=on,wait=off")
    assert has(command, "-pidfile", str(directory / "qemu.pid"), "-daemonize")
    assert not any("data.qcow2" in word for word in command)
    assert not any(word in ("-kernel", "-loadvm", "-S", "-bios") for word in command)
    assert not any(str(lab.directory) in word for word in command if ".sock" in word), "paths of sockets are short"
    assert has(qemu.qemu_command(lab, host, "tcg", load="fresh", paused=True), "-loadvm", "fresh", "-S")


def test_firmware(uefi_lab: state.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "OVMF.fd"
    mine.touch()
    monkeypatch.setenv("GPUADMIN_LAB_OVMF", str(mine))
    for name in ("storage1", "node1"):
        assert has(qemu.qemu_command(uefi_lab, uefi_lab.host(name), "tcg"), "-bios", str(mine))
    assert "-bios" not in qemu.qemu_command(uefi_lab, uefi_lab.host("plain1"), "tcg")
    mine.unlink()
    with pytest.raises(GpuadminError, match="no such file"):
        qemu.qemu_command(uefi_lab, uefi_lab.host("node1"), "tcg")


def test_ovmf_that_is_missing_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firmware, "PLACES", ("/nonexistent/OVMF.fd",))
    assert firmware.finds_firmware() is False
    with pytest.raises(GpuadminError) as caught:
        firmware.ovmf()
    assert "apt install ovmf" in str(caught.value.hint)


def test_disks_honour_flushes(lab: state.Lab) -> None:
    command = qemu.qemu_command(lab, lab.host("storage1"), "kvm")
    drives = [word for word in command if word.startswith("if=none")]
    assert len(drives) == 2
    assert all("cache=writeback" in drive for drive in drives)
    assert has(command, "-device", "virtio-blk-pci,drive=data,serial=gpuadmin-data")
    assert has(command, "-accel", "kvm", "-cpu", "host")


def test_running_pid_is_not_fooled_by_another_process(lab: state.Lab) -> None:
    host = lab.host("node1")
    lab.host_directory(host).mkdir(parents=True)
    pid_file = lab.host_directory(host) / "qemu.pid"
    assert qemu.running_pid(lab, host) is None
    for text in ("", "nonsense", "999999999", str(os.getpid())):
        pid_file.write_text(text)
        assert qemu.running_pid(lab, host) is None
    assert qemu.kill(lab, host) is False


def test_kill_ends_the_process_that_is_ours(lab: state.Lab) -> None:
    host = lab.host("node1")
    pid_file = lab.host_directory(host) / "qemu.pid"
    pid_file.parent.mkdir(parents=True)
    program = "import time; print('here', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(pid_file)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        pid_file.write_text(str(process.pid))
        assert qemu.running_pid(lab, host) == process.pid
        assert qemu.kill(lab, host) is True
    assert qemu.running_pid(lab, host) is None


@pytest.mark.parametrize("value", ["kvm", "tcg"])
def test_environment_chooses(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GPUADMIN_LAB_ACCEL", value)
    assert accel.choose(Path("/nonexistent")) == value
    assert "GPUADMIN_LAB_ACCEL" in accel.explain_choice("kvm")
    monkeypatch.setenv("GPUADMIN_LAB_ACCEL", "magic")
    with pytest.raises(GpuadminError):
        accel.choose(Path("/nonexistent"))


def test_trial_is_remembered_for_this_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[Path] = []

    def runs(kernel: Path) -> bool:
        trials.append(kernel)
        return True

    monkeypatch.setattr(accel, "kvm_runs", runs)
    monkeypatch.setattr(accel.os, "access", lambda *_: True)
    assert [accel.choose(Path("/k")), accel.choose(Path("/k"))] == ["kvm", "kvm"]
    assert trials == [Path("/k")]


def test_a_guest_that_never_gets_on_is_not_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = tmp_path / "qemu-system-x86_64"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    stuck.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert accel.kvm_runs(Path("/k"), limit=0.3) is False


def test_builder_boots_a_kernel_with_our_init() -> None:
    command = builder.builder_command("tcg", Path("/r"), Path("/w/initrd"), Path("/w/disk.raw"), Path("/w/log"))
    assert has(command, "-kernel", "/r/vmlinuz", "-initrd", "/w/initrd")
    assert "rdinit=/gpuadmin/build" in command[command.index("-append") + 1]
    assert has(command, "-drive", "if=virtio,format=raw,readonly=on,file=/r/root.tar")
    assert NODE.name == "node"


def test_builder_of_a_uefi_disk_is_given_the_partitions_and_grub(tmp_path: Path) -> None:
    (tmp_path / "initrd").write_bytes(b"INITRD")
    (tmp_path / "bootx64.efi").write_bytes(b"MZ-grub")
    there, without = builder.builder_initrd(tmp_path, NODE_UEFI), builder.builder_initrd(tmp_path, NODE)
    assert b"label: gpt" in there
    assert b"MZ-grub" in there
    assert b"PARTLABEL=gpuadmin-boot /boot/grub vfat ro" in there
    assert b"save_env trial" in there, "the same static entry as with a BIOS"
    assert b"save_env trial" in without
    assert b"MZ-grub" not in without
    assert b"label: gpt" not in without


def test_ssh_command(lab: state.Lab) -> None:
    host = lab.host("node2")
    command = ssh.ssh_command(lab, host, ("uptime",))
    assert command[-3:] == ("gpuadmin@127.0.0.1", "--", "uptime")
    assert has(command, "-p", str(host.ssh_port))
    assert "StrictHostKeyChecking=yes" in command
    assert ssh.ssh_command(lab, host)[-1] == "gpuadmin@127.0.0.1"
    other = ssh.ssh_command(lab, host, login="minji", identity=Path("/keys/minji"))
    assert has(other, "-o", "IdentityFile=/keys/minji")
    assert other[-1] == "minji@127.0.0.1"
    assert has(other, "-o", "PreferredAuthentications=publickey"), "a terminal would be asked for a password"


def test_missing_tools_name_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "search_path", lambda: "/nonexistent")
    with pytest.raises(GpuadminError) as caught:
        commands.require("mmdebstrap", "qemu-img")
    assert "apt install mmdebstrap qemu-utils" in str(caught.value.hint)


def test_another_system_is_told_at_the_start(lab: state.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr(programs, "search_path", lambda: "/nonexistent")
    with pytest.raises(GpuadminError, match="the lab needs Linux"):
        cluster.up(
            lab.name, wanted=(), memory_mib=512, firmware=None, site_directory=lab.directory, progress=Progress()
        )


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    pages = "for n in 1 2 3; do echo \"cp: error writing 'file$n': No space left on device\"; done; exit 1"
    for log in (None, tmp_path / "log"):
        with pytest.raises(GpuadminError) as caught:
            commands.run(("sh", "-c", pages), log=log)
        full = "a disk of this machine is full: cp: error writing 'file3': No space left on device"
        assert caught.value.message == full
        assert caught.value.hint == "make room; the same again goes on from there"


@pytest.mark.parametrize("free", [0, 1 << 30])
def test_a_full_disk_is_named_where_a_command_has_other_words(
    free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apt, on a disk image whose file could not grow."""
    monkeypatch.setattr(commands.shutil, "disk_usage", lambda _place: SimpleNamespace(free=free))
    monkeypatch.setattr(commands, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(commands, "state_directory", lambda: tmp_path / "none")
    monkeypatch.setattr(commands.tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.raises(GpuadminError) as caught:
        commands.run(("sh", "-c", "echo E: The package cache file is corrupted; exit 100"))
    full = f"a disk of this machine is full: {tmp_path} has no room"
    assert (caught.value.message == full) == (free == 0)


def test_of_a_command_with_a_log_the_error_has_the_end_and_the_log_has_it_all(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ("sh", "-c", f": {'pages ' * 500}; echo begun; echo no room >&2; exit 25")
    with pytest.raises(GpuadminError) as raised:
        commands.run(command, log=log)
    assert raised.value.message == f"sh failed with status 25:\nbegun\nno room\n(all of it: {log})"
    assert "  sh -c ': pages " in log.read_text()


def test_without_a_log_the_error_has_the_command() -> None:
    with pytest.raises(GpuadminError, match=r"with status 3:\n  sh -c 'echo no; exit 3'\nno$"):
        commands.run(("sh", "-c", "echo no; exit 3"))
