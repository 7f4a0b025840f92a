"""A root's kernels and NVIDIA's module for each: what is wrong, and what was last checked."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import kernels
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.driver import find_library, library_version, resolved
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.kernels import Installed, look, problems
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Expected, Places, judge
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import look as look_at_gpus

from gpuadmin.lab.programs import search_path
from tests.support.gpu_kernels import NEW, OLD, VERSION, Root, read, whole
from tests.support.gpu_node import DIRECTORY


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path / "root")
    made.kernel(OLD)
    made.kernel(NEW)
    return made


def found(root: Root, *, expected: bool = False) -> list[str]:
    return problems(look(str(root.path), read), expected=expected)


def test_a_root_in_which_all_agree(root: Root) -> None:
    whole(root)
    seen = look(str(root.path), read)
    assert seen == Installed(
        {one: {f"/usr/lib/modules/{one}/updates/dkms/nvidia-current.ko": VERSION} for one in (OLD, NEW)},
        {f"/{DIRECTORY}/{one}": VERSION for one in ("libnvidia-ml.so.1", "libcuda.so.1")},
    )
    assert problems(seen, expected=True) == []


def test_a_kernel_without_the_module(root: Root) -> None:
    root.module(OLD, VERSION)
    root.library(VERSION)
    (one,) = found(root)
    assert one.startswith(f"kernel {NEW} has no module nvidia, and the libraries are {VERSION}: ")
    assert f"`dkms autoinstall -k {NEW}`" in one


def test_a_module_that_is_listed_and_gone(root: Root) -> None:
    whole(root)
    (root.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").unlink()
    (one,) = found(root)
    assert one.startswith(f"kernel {NEW} has no module nvidia")


def test_a_module_of_another_version(root: Root) -> None:
    root.module(OLD, "535.261.03")
    root.module(NEW, VERSION)
    root.library(VERSION)
    (one,) = found(root)
    assert one.startswith(f"kernel {OLD}: its module nvidia is 535.261.03, the libraries are {VERSION}: ")


def test_libraries_of_different_versions(root: Root) -> None:
    whole(root)
    root.library("535.261.03", "libcuda.so.1")
    (one,) = found(root)
    assert "different versions" in one
    assert "libcuda.so.1 is 535.261.03" in one


def test_what_is_not_known_is_not_taken_for_agreement(root: Root) -> None:
    whole(root)
    (root.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").write_text("")
    (root.path / DIRECTORY / "nvidia/current/libcuda.so.1").unlink()
    (root.path / DIRECTORY / "nvidia/current/libcuda.so.1").write_text("no link, so no version")
    library, module = found(root)
    assert f"the version of /{DIRECTORY}/libcuda.so.1 is not known" in library
    assert module.startswith(f"kernel {NEW}: modinfo finds no version")


def test_without_libraries(root: Root) -> None:
    for kernel in (OLD, NEW):
        root.module(kernel, VERSION)
    (one,) = found(root)
    assert one.startswith("libnvidia-ml.so.1 is missing")


def test_a_root_without_a_driver(root: Root) -> None:
    assert found(root) == []
    (one,) = found(root, expected=True)
    assert one.startswith("GPUs are expected, and there is no driver for them")


def test_what_dkms_has_to_build(root: Root) -> None:
    root.module(OLD, "535.261.03")
    assert kernels.to_build(look(str(root.path), read)) == [], "without libraries nobody knows of which version"
    root.library(VERSION)
    assert kernels.to_build(look(str(root.path), read)) == [OLD, NEW]
    root.module(NEW, VERSION)
    assert kernels.to_build(look(str(root.path), read)) == [OLD]


def test_what_dkms_has_recorded() -> None:
    """As DKMS 3.2.2 prints it."""
    status = f"""\
nvidia-current/{VERSION}, {OLD}, x86_64: installed (Differences between built and installed modules)
nvidia-current/{VERSION}, {NEW}, x86_64: built
nvidia/535.1.2: added
zfs/2.3.1, {OLD}, x86_64: installed
"""
    assert kernels.recorded(status) == [f"nvidia-current/{VERSION}"]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("", True),
        ("550", True),
        ("550.163", True),
        (VERSION, True),
        ("55", False),
        ("570", False),
        ("550.163.02", False),
    ],
)
def test_the_version_that_the_site_wants(root: Root, wanted: str, fits: bool) -> None:
    root.library(VERSION)
    found = kernels.other_version(look(str(root.path), read), wanted)
    assert (found == []) == fits
    assert all(f"the driver is {VERSION}, the site wants {wanted}" in one for one in found)


def test_which_kernels_are_installed(root: Root) -> None:
    base = root.path / "usr/lib/modules"
    (base / "5.10.0-removed/updates/dkms").mkdir(parents=True)  # what DKMS leaves behind
    (base / "6.18.1-arch1-1").mkdir()
    (base / "6.18.1-arch1-1/vmlinuz").write_text("")
    (base / "6.1.0-boot").mkdir()
    (root.path / "boot").mkdir()
    (root.path / "boot/vmlinuz-6.1.0-boot").write_text("")
    assert kernels.kernels(str(root.path)) == sorted([OLD, NEW, "6.18.1-arch1-1", "6.1.0-boot"])


@pytest.mark.parametrize(
    "file",
    [
        "kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko.xz",
        "updates/dkms/nvidia-current-drm.ko",
        "updates/dkms/nvidia-uvm.ko",
        "kernel/drivers/video/fbdev/nvidia/nvidiafb.ko",
    ],
)
def test_modules_that_are_others(root: Root, file: str) -> None:
    root.module(OLD, VERSION, file)
    assert not look(str(root.path), read).driver


@pytest.mark.parametrize("name", ["nvidia", "nvidia-current-open", "nvidia-tesla-470", "nvidia-legacy-390xx"])
def test_names_of_the_module(root: Root, name: str) -> None:
    root.module(OLD, VERSION, f"updates/dkms/{name}.ko.zst")
    assert look(str(root.path), read).driver


@pytest.mark.holds("libraries are read in the image, not in the root that runs")
def test_a_link_of_another_root_is_not_followed_into_this_one(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    (tmp_path / "outside.so.1.2").write_text("")
    (root / "lib/one").symlink_to("../../../../../outside.so.1.2")
    (root / "lib/circle").symlink_to("circle")
    (root / "lib/weak").symlink_to("/lib/there")
    assert resolved(str(root / "lib/one"), str(root)) == str(root / "outside.so.1.2")
    assert resolved(str(root / "lib/circle"), str(root)) == str(root / "lib/circle")
    assert resolved(str(root / "lib/weak"), str(root)) == str(root / "lib/there")


def test_a_library_that_only_this_machine_has_is_none_of_the_roots(root: Root) -> None:
    """Read without regard to the root, an absolute link would tell of the machine that builds the image."""
    root.library(VERSION)
    path = find_library(str(root.path))
    assert path is not None
    assert library_version(path, str(root.path)) == VERSION
    (root.path / "etc/alternatives/nvidia--libnvidia-ml.so.1").unlink()
    assert find_library(str(root.path)) == str(root.path / DIRECTORY / "nvidia/current/libnvidia-ml.so.1")


@pytest.mark.needs("cc", "modinfo", "xz", "zstd")
@pytest.mark.parametrize("ending", ["", ".xz", ".zst"])
def test_modinfo_reads_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setenv("PATH", search_path())
    source, module = tmp_path / "m.c", tmp_path / "nvidia.ko"
    text = f'__attribute__((section(".modinfo"), used)) static const char version[] = "version={VERSION}";\n'
    source.write_text(text)
    subprocess.run(["cc", "-c", "-o", str(module), str(source)], check=True)
    if ending:
        program = {".xz": ["xz", "--check=crc32"], ".zst": ["zstd", "-q", "--rm"]}[ending]
        subprocess.run([*program, str(module)], check=True)
    assert kernels.module_version(f"{module}{ending}") == VERSION


@pytest.mark.needs("modinfo")
def test_modinfo_of_what_is_no_module(tmp_path: Path) -> None:
    path = tmp_path / "nvidia.ko"
    path.write_bytes(os.urandom(4096))
    assert kernels.module_version(str(path)) is None


def test_without_modinfo_the_version_is_not_known() -> None:
    def missing(*given: object, **more: object) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError("modinfo")

    assert kernels.module_version("/x/nvidia.ko", missing) is None


@pytest.fixture
def installed(tmp_path: Path) -> Root:
    made = Root(tmp_path / "root")
    made.kernel(OLD)
    made.kernel(NEW)
    whole(made)
    return made


class Counted:
    """Reads a module's version, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, path: str) -> str | None:
        self.times += 1
        return read(path)


def upgraded(installed: Root, version: str = "560.35.03") -> None:
    """Libraries of another version, as an upgrade brings them whose module could not be built."""
    installed.library(version)
    installed.library(version, "libcuda.so.1")


def test_what_was_found_is_kept_while_the_files_are_the_same(installed: Root) -> None:
    place, reader = str(installed.path), Counted()
    assert kernels.check(place, reader) == []
    assert reader.times == 2
    assert kernels.boot_problems(place, reader) == []
    assert reader.times == 2, "nobody unpacks the modules again"
    record = installed.path / kernels.RECORD
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "change",
    [
        upgraded,
        lambda installed: (installed.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").unlink(),
        lambda installed: (installed.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").write_text(
            "550.1"
        ),
        lambda installed: installed.kernel("6.12.99+deb13-cloud-amd64"),
    ],
    ids=["libraries", "deleted", "built again", "kernel"],
)
def test_what_was_kept_is_not_told_when_something_is_another_file(installed: Root, change: object) -> None:
    place = str(installed.path)
    assert kernels.check(place, read) == []
    assert callable(change)
    change(installed)
    wrong = kernels.problems(kernels.look(place, read))
    assert wrong
    assert kernels.boot_problems(place, read) == wrong
    # and when it is as it should be again, nothing of it is left
    assert kernels.check(place, read) == wrong
    assert kernels.boot_problems(place, lambda _: pytest.fail("it was checked")) == wrong


def _replaced(path: Path, facts: os.stat_result) -> None:
    """By another file, as long and as old."""
    other = path.with_name("new")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.rename(path)


def _shortened(path: Path, facts: os.stat_result) -> None:
    """In place, and as old: a copy that was cut off, and given its time."""
    os.truncate(path, facts.st_size - 1)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _written(path: Path, facts: os.stat_result) -> None:
    """In place, and as long."""
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [_replaced, _shortened, _written])
def test_each_way_to_be_another_file_is_seen(installed: Root, change: Callable[[Path, os.stat_result], None]) -> None:
    module = installed.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko"
    before = kernels.files(str(installed.path))
    change(module, module.stat())
    assert kernels.files(str(installed.path)) != before


def test_repaired_by_hand_it_is_not_wrong_any_more(installed: Root) -> None:
    place = str(installed.path)
    module = installed.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko"
    module.unlink()
    assert len(kernels.check(place, read)) == 1
    module.write_text(VERSION)
    assert kernels.boot_problems(place, read) == []


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"files": 1, "problems": []}', '{"files": []}'])
def test_without_a_record_that_can_be_read_it_looks(installed: Root, text: str | None) -> None:
    upgraded(installed)
    if text is not None:
        (installed.path / "run/gpuadmin").mkdir(parents=True)
        (installed.path / kernels.RECORD).write_text(text)
    assert len(kernels.boot_problems(str(installed.path), read)) == 2


def test_what_changes_while_it_looks_is_looked_at_again(installed: Root) -> None:
    """A package manager works on: what is kept must be of the files that are there at the end."""
    once = iter([lambda: upgraded(installed)])

    def reading(path: str) -> str | None:
        next(once, lambda: None)()
        return read(path)

    wrong = kernels.check(str(installed.path), reading)
    assert [one for one in wrong if "560.35.03" in one]
    assert json.loads((installed.path / kernels.RECORD).read_text())["files"] == kernels.files(str(installed.path))


def test_the_command_says_it_and_does_not_fail(installed: Root, capsys: pytest.CaptureFixture[str]) -> None:
    upgraded(installed)
    assert kernels.main(str(installed.path), read) == 0
    assert capsys.readouterr().out.startswith(f"Warning: kernel {OLD}: its module nvidia is {VERSION}")


def test_list_gpus_says_it(installed: Root) -> None:
    (installed.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").unlink()
    (installed.path / DIRECTORY / "nvidia/current/libnvidia-ml.so.550.163.01").write_text("")
    kernels.check(str(installed.path), read)
    bus = installed.path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    seen = look_at_gpus(
        Places(str(installed.path), str(bus), (), str(installed.path / "kmsg"), str(installed.path / "run/lock"))
    )
    (words,) = seen.kernels
    assert words.startswith(f"kernel {NEW} has no module nvidia")
    assert words in judge(seen, Expected()).worse
