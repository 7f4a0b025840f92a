"""The specification for containers is made, stays, shrinks and goes with the GPUs.

The toolkit is a script that writes what NVIDIA's wrote.
"""

import json
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import cdi, devices
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Expected, judge, look

from tests.support import fake_nvml
from tests.support.gpu_node import Node

pytestmark = [pytest.mark.needs("cc"), pytest.mark.root]
TOOL = """#!/bin/sh
echo "$*" >> {log}
case "$1" in cdi) ;; *) exit 0 ;; esac
[ ! -e {fail} ] || {{ cat {fail} >&2; exit 1; }}
while [ "$1" != --output ]; do shift; done
cp {written} "$2"
"""
REASON = "failed: error getting device handle for index '0': GPU_IS_LOST"
LOST = f'level=warning msg="x"\ntime="t" level=error msg="{REASON}"\n'


class Host(Node):
    """With the unit, the device files, and a toolkit that counts its calls."""

    def with_toolkit(self) -> Path:
        self.file(cdi.UNIT, "")
        self.written, self.fail, self.log_of_tool = self.root / "written", self.root / "fail", self.root / "calls"
        self.written.write_bytes(fake_nvml.SPEC.read_bytes())
        tool = self.root / "nvidia-ctk"
        tool.write_text(TOOL.format(log=self.log_of_tool, fail=self.fail, written=self.written))
        tool.chmod(0o755)
        (self.root / "dev/nvidiactl").unlink(missing_ok=True)
        for path in cdi.device_nodes(cdi.parse(fake_nvml.SPEC.read_bytes())):
            at = self.root / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(at, stat.S_IFCHR, os.makedev(1, 3))
            at.chmod(0o666)
        return tool

    def run(self) -> int:
        return devices.main(self.places, str(self.root / "nvidia-ctk"))

    def names(self) -> set[str]:
        return set(cdi.names(json.loads((self.root / cdi.SPEC).read_bytes())))

    def calls(self) -> int:
        return len(self.log_of_tool.read_text().splitlines()) if self.log_of_tool.exists() else 0

    def wrong(self) -> list[str]:
        return [one for one in judge(look(self.places), Expected(2)).worse if "PCIe" not in one]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    one = Host(tmp_path, monkeypatch)
    one.whole()
    one.with_toolkit()
    return one


def test_it_is_made_once(host: Host) -> None:
    assert host.run() == 0
    assert host.names() == {"0", "1:0", "all", "GPU-11111111-2222-3333-4444-555555555555",
                            "MIG-aaaaaaaa-1111-2222-3333-444444444444"}  # fmt: skip
    assert stat.S_IMODE((host.root / cdi.SPEC).stat().st_mode) == 0o644
    assert [path.name for path in (host.root / "run/cdi").iterdir()] == ["nvidia.yaml"]
    assert host.wrong() == []
    before = host.calls()
    assert host.run() == 0
    assert host.calls() == before, "nothing has changed, and nobody is asked"
    assert "--device-name-strategy index --device-name-strategy uuid" in host.log_of_tool.read_text()


@pytest.mark.parametrize(
    "change",
    ["dev/nvidia-caps/nvidia-cap75", "proc/driver/nvidia/capabilities/gpu1/mig/gi9/access",
     "proc/driver/nvidia/capabilities/gpu1/mig/gi7/ci1/access",
     "proc/driver/nvidia/gpus/0000:81:00.0/information"],
)  # fmt: skip
def test_it_is_made_again_when_something_changed(host: Host, change: str) -> None:
    host.run()
    before = host.calls()
    host.file(change, "")
    assert host.run() == 0
    assert host.calls() > before


def test_it_is_made_again_when_somebody_took_or_changed_it(host: Host) -> None:
    host.run()
    (host.root / cdi.SPEC).unlink()
    host.run()
    assert "all" in host.names()
    (host.root / cdi.SPEC).unlink()
    (host.root / cdi.SPEC).symlink_to("/dev/null")
    host.run()
    assert "all" in host.names()
    assert not (host.root / cdi.SPEC).is_symlink()


def test_without_a_gpu_there_is_none_and_nothing_is_wrong(host: Host) -> None:
    host.run()
    for path in host.bus.iterdir():
        for name in path.iterdir():
            name.unlink()
        path.rmdir()
    assert host.run() == 0
    assert not (host.root / cdi.SPEC).exists()


def test_a_driver_that_is_gone_leaves_no_names(host: Host) -> None:
    host.run()
    for name in ("proc/driver/nvidia/version", "sys/module/nvidia/version"):
        (host.root / name).unlink()
    assert host.run() == 0
    assert not (host.root / cdi.SPEC).exists()


@pytest.mark.parametrize("error", ["DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH"])
def test_a_driver_that_refuses_leaves_no_names(host: Host, error: str) -> None:
    host.run()
    host.describe(("fault.nvmlInit", error))
    host.file("dev/nvidia9", "")
    assert host.run() == 0
    assert not (host.root / cdi.SPEC).exists()


def test_a_driver_that_hangs_changes_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run()
    monkeypatch.setattr(devices, "SECONDS", 0.5)
    host.describe(("fault.nvmlInit", "hang"))
    host.file("dev/nvidia9", "")
    before = host.calls()
    assert host.run() == 0
    assert "all" in host.names(), "it is not known that they are gone"
    assert host.calls() == before, "who hangs is not asked by another way"


def test_without_the_toolkit_it_says_so(host: Host) -> None:
    (host.root / "nvidia-ctk").unlink()
    assert host.run() == 0
    assert host.wrong() == [
        f"containers get no GPU: {host.root}/nvidia-ctk is missing: install NVIDIA's container toolkit "
        "(nvidia-container-toolkit-base)"
    ]
    assert not (host.root / cdi.SPEC).exists()


def test_with_one_lost_the_others_stay(host: Host) -> None:
    host.run()
    host.fail.write_text(LOST)
    host.describe(("lost", "yes"), gpu=0)
    host.file("dev/nvidia9", "")
    assert host.run() == 1
    assert host.names() == {"1:0", "MIG-aaaaaaaa-1111-2222-3333-444444444444"}
    assert "containers cannot ask for all GPUs (nvidia.com/gpu=all) while one does not answer" in host.wrong()


def test_with_one_lost_from_the_start_it_says_why(host: Host) -> None:
    host.fail.write_text(LOST)
    assert host.run() == 1
    assert not (host.root / cdi.SPEC).exists()
    assert host.wrong() == [f"containers get no GPU: {host.root}/nvidia-ctk: {REASON}"]
    host.fail.unlink()
    assert host.run() == 0, "what went wrong is tried again, though nothing looks different"
    assert host.wrong() == []


def test_what_the_toolkit_leaves_out_is_reported(host: Host) -> None:
    spec = json.loads(host.written.read_bytes())
    spec["devices"] = [one for one in spec["devices"] if one["name"] != "0"]
    host.written.write_text(json.dumps(spec))
    assert host.run() == 1
    assert host.wrong() == [f"containers cannot ask for nvidia.com/gpu=0: {cdi.REFRESH}"]


def test_what_the_toolkit_wrote_is_checked(host: Host) -> None:
    host.written.write_text("kind: nvidia.com/gpu\n")
    assert host.run() == 1
    assert not (host.root / cdi.SPEC).exists()


def test_a_toolkit_that_does_not_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run()
    monkeypatch.setattr(devices, "TOOL_SECONDS", 0.3)
    (host.root / "nvidia-ctk").write_text("#!/bin/sh\nexec sleep 100\n")
    assert host.run() == 1
    assert "all" in host.names()


def test_a_device_file_that_people_cannot_open(host: Host) -> None:
    (host.root / "dev/nvidia0").chmod(0o660)
    assert host.run() == 1
    assert "all" in host.names()
    assert host.wrong() == ["containers: /dev/nvidia0 has mode 0660, and people cannot open it"]
