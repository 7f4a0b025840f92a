"""Light hosts: what is decided about them without making one."""

import io
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from gpuadmin.lab import cluster, hosts, image, machines, probe, programs, seed, site, state
from gpuadmin.lab.light import disk, gpus, host, machine
from gpuadmin.lab.probe import Machine
from gpuadmin.lab.progress import Progress
from tests.support.machine import able


@pytest.fixture
def light(lab: state.Lab) -> state.Lab:
    return replace(lab, light=True)


def up(directory: Path, *, light: bool | None, **options: int) -> state.Lab:
    return cluster.up(
        "default", wanted=hosts.wanted_hosts(1, 0), memory_mib=1024, firmware=None, light=light,
        site_directory=directory, progress=Progress(), **options,
    )  # fmt: skip


@pytest.mark.parametrize("has", [True, False])
def test_a_lab_keeps_what_its_hosts_are(lab: state.Lab, tmp_path: Path, has: bool) -> None:
    state.save(replace(lab, light=has))
    with pytest.raises(ConfigError, match="light ones" if has else "virtual machines"):
        up(tmp_path, light=not has)


@pytest.mark.parametrize(
    ("machine", "why", "hint"),
    [
        (able("root"), "no root here", "sudo, or a lab of virtual machines: leave --light out"),
        (able("cgroup v2"), "no cgroup v2 here", "a lab of virtual machines: leave --light out"),
        (able("loop devices", "user namespaces"), "no loop devices here", "a lab of virtual machines"),
        (able("mounts", unwritable="/root cannot be written"), "no mounts here", None),
        (able(unwritable="/root cannot be written"), "/root cannot be written", None),
    ],
)
def test_a_machine_that_can_have_none_says_why(
    machine: Machine, why: str, hint: str | None, lab: state.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "look", lambda: machine)
    with pytest.raises(RefusedError, match=f"no light hosts here: {why}") as caught:
        up(tmp_path, light=True)
    assert hint in str(caught.value.hint) if hint else caught.value.hint is None


@pytest.mark.parametrize(
    ("lacking", "package"),
    [("unshare", "util-linux"), ("losetup", "mount"), ("mkfs.btrfs", "btrfs-progs"), ("btrfs", "btrfs-progs"),
     ("ip", "iproute2")],
)  # fmt: skip
def test_a_machine_without_a_program_is_told_how_to_get_it(
    lacking: str, package: str, lab: state.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    for name in {"ssh", "ssh-keygen", *programs.LIGHT} - {lacking}:
        (place / name).symlink_to("/bin/true")
    monkeypatch.setattr(probe, "look", able)
    monkeypatch.setattr(programs, "search_path", lambda: str(place))
    with pytest.raises(GpuadminError, match=f"the lab needs {lacking}, ") as caught:
        up(tmp_path, light=True)
    assert f"apt install {package} (" in str(caught.value.hint)


@pytest.mark.holds("no disk of light hosts is made without what Slurm needs there")
def test_without_a_compiler_no_disk_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made without Slurm's part, kept under the same key, and the queue did not answer for ten minutes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(image, "ensure_root", lambda *_, **__: pytest.fail("minutes are spent"))
    monkeypatch.setattr(programs, "search_path", lambda: str(tmp_path))
    with pytest.raises(GpuadminError, match="the lab needs cc, ") as caught:
        image.ensure_light(Progress())
    assert "apt install gcc libc6-dev (" in str(caught.value.hint)
    assert "command -v" not in (disk.HERE / "build.sh").read_text()


def test_a_lab_of_an_earlier_version_has_virtual_machines(lab: state.Lab) -> None:
    state.save(lab)
    path = lab.directory / "lab.json"
    path.write_text(path.read_text().replace(',\n "light": false', ""))
    assert "light" not in path.read_text()
    assert state.load("default") == lab


def test_the_seed_loses_its_fstab_and_nothing_else(light: state.Lab) -> None:
    storage = light.host("storage1")
    whole = seed.seed_tar(
        light, storage, base_fstab="", host_key=b"k", host_key_public=b"p", admin_key="ssh-ed25519 A a\n"
    )
    with tarfile.open(fileobj=io.BytesIO(whole)) as before:
        expected = [(m.name, m.mode, m.uid, m.size) for m in before if m.name != "etc/fstab"]
        assert len(expected) == len(before.getmembers()) - 1
    with tarfile.open(fileobj=io.BytesIO(disk._without_fstab(whole))) as after:
        assert [(m.name, m.mode, m.uid, m.size) for m in after] == expected
        found = after.extractfile("etc/hostname")
        assert found is not None
        assert found.read() == b"storage1\n"


def test_a_pid_file_of_another_process_does_not_count(light: state.Lab) -> None:
    host = light.host("node1")
    directory = light.host_directory(host)
    directory.mkdir(parents=True)
    assert machines.running_pid(light, host) is None
    (directory / "light.pid").write_text(f"{os.getpid()}\n")
    assert machines.running_pid(light, host) is None
    (directory / "light.pid").write_text("")
    assert machines.running_pid(light, host) is None


@pytest.mark.parametrize(("lab_name", "found"), [("default", True), ("other", False)])
def test_a_launcher_is_found_by_lab_and_host(light: state.Lab, lab_name: str, found: bool) -> None:
    host = light.host("node1")
    directory = light.host_directory(host)
    directory.mkdir(parents=True)
    # the same words as the launcher's: python -m gpuadmin.lab.light.host LAB HOST
    words = [sys.executable, "-c", "print(flush=True); input()", "-m", "gpuadmin.lab.light.host", lab_name, "node1"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (directory / "light.pid").write_text(f"{process.pid}\n")
        try:
            assert (machine.running_pid(light, host) == process.pid) is found
        finally:
            process.communicate(b"\n")


def test_the_root_of_an_ordinary_node_is_none_that_gpuadmin_closes() -> None:
    assert {kind: disk.root_subvolume(kind).startswith("roots/") for kind in ("storage", "node", "plain")} == {
        "storage": True, "node": True, "plain": False,
    }  # fmt: skip


def test_labs_of_one_name_are_two(lab: state.Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = host.make_name(lab)
    assert host.make_name(lab) == first
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert host.make_name(lab) != first


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/proc/devices of a machine of two processors, which nothing can be loaded on."""
    path = tmp_path / "devices"
    path.write_text("Character devices:\n203 cpu/cpuid\n\nBlock devices:\n")
    monkeypatch.setattr(gpus, "DEVICES", path)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    return path


def test_gpus_need_processors_and_the_kernels_devices(kernel: Path) -> None:
    gpus.require(2)
    with pytest.raises(ConfigError, match="processors: 2, not 3"):
        gpus.require(3)
    kernel.write_text("Character devices:\n202 cpu/msr\n\nBlock devices:\n")
    with pytest.raises(GpuadminError, match="no cpu/cpuid"):
        gpus.require(1)
    gpus.require(0)


def test_virtual_machines_have_no_gpus_and_a_lab_keeps_its_own(light: state.Lab, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="virtual machines have no GPUs"):
        up(tmp_path, light=None, gpus=1)
    assert state.load("default") is None
    state.save(replace(light, gpus=2))
    with pytest.raises(ConfigError, match="have 2 GPUs each, not 1"):
        up(tmp_path, light=None, gpus=1)


def test_the_site_says_which_files_the_gate_closes(light: state.Lab) -> None:
    lab = replace(light, gpus=2)
    assert "gpu_stack_devices" not in site.variables(lab, lab.host("storage1"))
    assert "gpu_stack_devices" not in site.variables(light, light.host("node1"))
    found = site.variables(lab, lab.host("node1"))
    assert found["gpu_stack_devices"] == {"0": ["/dev/nvidia0"], "1": ["/dev/nvidia1"]}
    assert gpus.GROUP in str(found["gpu_stack_groups"])


@pytest.mark.parametrize(
    ("says", "code", "ends"),
    [
        ("10.77.0.11:/srv: Function not implemented", 1, (0, "")),
        ("Failed to stat /srv: No such file\n10.77.0.11:/srv: Function not implemented", 1, (1, "Failed to stat")),
        ("", 0, (0, "")),
        ("", 3, (3, "")),
    ],
)
def test_exports_need_no_kernel_and_wrong_ones_fail(
    says: str, code: int, ends: tuple[int, str], tmp_path: Path
) -> None:
    real, stand_in = tmp_path / "real", tmp_path / "exportfs"
    real.write_text(f"#!/bin/sh\necho \"exports $*\"\n[ -z '{says}' ] || echo '{says}' >&2\nexit {code}\n")
    stand_in.write_text((disk.HERE / "exportfs").read_text().replace("/usr/sbin/exportfs.distrib", str(real)))
    real.chmod(0o755)
    done = subprocess.run(["sh", stand_in, "-ra"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.partition(" /srv")[0]) == ends
    assert done.stdout == "exports -ra\n"
