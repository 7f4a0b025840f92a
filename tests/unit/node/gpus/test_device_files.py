"""Which device files a GPU is opened through, as the driver's own files say."""

import shutil
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import mig
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.device_files import all_files, gpus, model
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gate import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.mig import MigDevice

UUIDS = [f"GPU-{n}{n}{n}{n}{n}{n}{n}{n}-0000-0000-0000-000000000000" for n in range(3)]


def add(root: Path, address: str, text: str, *rendering: str) -> None:
    own = root / "proc/driver/nvidia/gpus" / address
    own.mkdir(parents=True)
    (own / "information").write_text(text)
    for name in rendering:
        (root / "sys/bus/pci/devices" / address / "drm" / name).mkdir(parents=True)


def information(uuid: str, minor: int) -> str:
    return (
        f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 120\nGPU UUID: \t {uuid}\nVideo BIOS: \t 96.00.61\n"
        f"Device Minor: \t {minor}\nGPU Excluded:\t No\n"
    )


def test_each_gpu_has_its_device_and_its_rendering(tmp_path: Path) -> None:
    add(tmp_path, "0000:b1:00.0", information(UUIDS[0], 0), "card2", "renderD129", "controlD64")
    add(tmp_path, "0000:17:00.0", information(UUIDS[1], 1))
    add(tmp_path, "0000:c1:00.0", "GPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 2\n")
    found = gpus(Settings("granted"), str(tmp_path))
    assert found == {UUIDS[1]: ["/dev/nvidia1"], UUIDS[0]: ["/dev/nvidia0", "/dev/dri/card2", "/dev/dri/renderD129"]}
    assert list(found) == [UUIDS[1], UUIDS[0]], "in the order of the bus, as NVML counts them"


def part(root: Path, files: list[str], name: str) -> Path:
    """A MIG device as the driver has it: a file for its GPU instance, and one for its compute instance."""
    own = root / "proc/driver/nvidia/capabilities/gpu0/mig" / name
    for path, file in ((own, files[1]), (own / "ci0", files[2])):
        path.mkdir(parents=True)
        (path / "access").write_text(f"DeviceFileMinor: {file.rpartition('cap')[2]}\nDeviceFileMode: 438\n")
    return own


@pytest.mark.holds("a MIG device that is gone opens nothing, for its files open the whole GPU")
def test_a_mig_device_that_is_gone_opens_nothing(tmp_path: Path) -> None:
    """Somebody has switched MIG off by hand: `/dev/nvidia0` would be all of the GPU."""
    add(tmp_path, "0000:b1:00.0", information(UUIDS[0], 0))
    run = tmp_path / "run/gpuadmin"
    run.mkdir(parents=True)
    files = ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"]
    mig.write([MigDevice("MIG-a", UUIDS[0], "3g.40gb", files)], str(run))
    own = part(tmp_path, files, "gi1")
    assert gpus(Settings("granted"), str(tmp_path)) == {UUIDS[0]: files, "MIG-a": files}
    (tmp_path / "proc/driver/nvidia/gpus/0000:b1:00.0/information").write_text(information(UUIDS[0], 1))
    assert gpus(Settings("granted"), str(tmp_path)) == {UUIDS[0]: ["/dev/nvidia1"]}, "another has its number"
    (tmp_path / "proc/driver/nvidia/gpus/0000:b1:00.0/information").write_text(information(UUIDS[0], 0))
    shutil.rmtree(own)
    assert gpus(Settings("granted"), str(tmp_path)) == {UUIDS[0]: ["/dev/nvidia0"]}


@pytest.mark.holds("a record of MIG devices opens files of GPUs alone")
def test_mig_devices_come_behind_the_gpus_and_belong_to_theirs(tmp_path: Path) -> None:
    add(tmp_path, "0000:b1:00.0", information(UUIDS[0], 0))
    run = tmp_path / "run/gpuadmin"
    run.mkdir(parents=True)
    first, second = (["/dev/nvidia0", f"/dev/nvidia-caps/nvidia-cap{gi}", f"/dev/nvidia-caps/nvidia-cap{gi + 1}"]
                     for gi in (12, 21))  # fmt: skip
    mig.write(
        [
            MigDevice("MIG-a", UUIDS[0], "3g.40gb", first),
            MigDevice("MIG-b", UUIDS[0], "4g.40gb", second),
            MigDevice("MIG-other", UUIDS[1], "4g.40gb", second),
            MigDevice("MIG-bad", UUIDS[0], "4g.40gb", ["/dev/sda"]),
        ],
        str(run),
    )
    assert "MIG-bad" not in {one.uuid for one in mig.read(str(run))}
    part(tmp_path, first, "gi1")
    part(tmp_path, second, "gi2")
    found = gpus(Settings("granted"), str(tmp_path))
    assert found == {UUIDS[0]: [*first, *second[1:]], "MIG-a": first, "MIG-b": second}
    assert next(iter(found)) == UUIDS[0]
    for damaged in ("[1]", "{", '[{"uuid": "MIG-a"}]'):
        (run / mig.FILE).write_text(damaged)
        assert list(gpus(Settings("granted"), str(tmp_path))) == [UUIDS[0]]


def test_without_a_driver_there_is_none(tmp_path: Path) -> None:
    assert gpus(Settings("granted"), str(tmp_path)) == {}


def test_what_a_test_says(tmp_path: Path) -> None:
    assert gpus(Settings("granted", gpus={"0": ["/dev/cpu0"]}), str(tmp_path)) == {"0": ["/dev/cpu0"]}


def test_what_opens_a_gpu_that_does_not_answer_is_tried_too(tmp_path: Path) -> None:
    """A GPU's name is question marks until it is used first, and nobody was granted one without a name."""
    add(tmp_path, "0000:b1:00.0", information("GPU-????????-????-????-????-????????????", 0))
    files = ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap9", "/dev/dri/card1", "/dev/dri/renderD129"]
    for name in ("nvidiactl", "nvidia-uvm", "null", *(file[len("/dev/") :] for file in files)):
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    settings = Settings("granted")
    assert gpus(settings, str(tmp_path)) == {}
    assert all_files(settings, {}, str(tmp_path)) == files
    assert all_files(settings, {"GPU-a": ["/dev/nvidia1", files[0]]}, str(tmp_path)) == ["/dev/nvidia1", *files]
    assert all_files(Settings("granted", gpus={}), {"0": ["/dev/cpu0"]}, str(tmp_path)) == ["/dev/cpu0"]


def test_what_all_gpus_are_called(tmp_path: Path) -> None:
    assert model(str(tmp_path)) is None
    for number, address in enumerate(("0000:01:00.0", "0000:02:00.0")):
        add(tmp_path, address, information(UUIDS[number], number))
    assert model(str(tmp_path)) == "NVIDIA H100 80GB HBM3"
    for number, other in enumerate((("H100", "A100"), ("Model:", "Nothing:"))):
        place = tmp_path / str(number)
        add(place, "0000:01:00.0", information(UUIDS[0], 0))
        add(place, "0000:02:00.0", information(UUIDS[1], 1).replace(*other))
        assert model(str(place)) is None, "they differ, or of one nobody knows it"
