"""A person's containers get GPUs by name: a driver that is none (tests/fake_nvml), Docker and systemd as they are.

Where this machine has NVIDIA's container toolkit, it is NVIDIA's that writes the specification, and its hooks run.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests import fake_nvml
from tests.e2e.cluster import Cluster
from tests.e2e.test_accounts import MAKE_IMAGE

pytestmark = [pytest.mark.lab, pytest.mark.needs("cc")]
HERE = fake_nvml.HERE
LIBRARIES = "usr/lib/x86_64-linux-gnu"
MIG = "MIG-aaaaaaaa-1111-2222-3333-444444444444"
#: /sys and /proc that are covered are not given to containers: only the unit sees a driver there.
FAKES = (
    "[Service]\nBindReadOnlyPaths="
    "/var/lib/fake-driver/driver:/proc/driver /var/lib/fake-driver/pci:/sys/bus/pci/devices\n"
)
MAKE = f"""
set -eu
btrfs property set -ts / ro false
tar -xzf /var/tmp/driver -C / --no-overwrite-dir --no-same-owner
ldconfig
btrfs property set -ts / ro true
for name in nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools; do mknod -m 666 /dev/$name c 1 3; done
mkdir /dev/nvidia-caps
for number in 66 67; do mknod -m 444 /dev/nvidia-caps/nvidia-cap$number c 1 3; done
driver=/var/lib/fake-driver/driver
mig=$driver/nvidia/capabilities/gpu1/mig/gi7
mkdir -p $mig/ci0 $driver/nvidia-caps $driver/nvidia/gpus/0000:01:00.0
mkdir -p /run/systemd/system/gpuadmin-gpu-devices.service.d
echo "DeviceFileMinor: 66" > $mig/access
echo "DeviceFileMinor: 67" > $mig/ci0/access
printf "gpu1/gi7/access 66\\ngpu1/gi7/ci0/access 67\\n" > $driver/nvidia-caps/mig-minors
echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Sun Jul 20 00:00:00 UTC 2025" > $driver/nvidia/version
for gpu in 0000:01:00.0 0000:41:00.0; do
    mkdir -p /var/lib/fake-driver/pci/$gpu
    echo 0x10de > /var/lib/fake-driver/pci/$gpu/vendor
    echo 0x2330 > /var/lib/fake-driver/pci/$gpu/device
    echo 0x030200 > /var/lib/fake-driver/pci/$gpu/class
done
printf "{FAKES}" > /run/systemd/system/gpuadmin-gpu-devices.service.d/fake.conf
systemctl stop gpuadmin-gpu-devices.timer
systemctl daemon-reload
"""


def archive() -> bytes:
    """The library by its names, what it answers, and the toolkit, as `tar -xz` takes them."""
    files = {f"{LIBRARIES}/lib{name}.so.550.163.01": fake_nvml.library() for name in ("nvidia-ml", "cuda")}
    files |= {"etc/gpuadmin-fake-nvml": fake_nvml.TWO, "var/lib/fake-driver/nvidia-ctk.json": fake_nvml.SPEC}
    for name in ("nvidia-ctk", "nvidia-cdi-hook"):
        real = shutil.which(name)
        if real is not None:
            files[f"usr/bin/{name}"] = Path(real)
    files.setdefault("usr/bin/nvidia-ctk", HERE / "nvidia-ctk")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, path in files.items():
            member = tar.gettarinfo(path, name)
            member.mode = 0o755
            with path.open("rb") as stream:
                tar.addfile(member, stream)
            if name.startswith(LIBRARIES):
                link = tarfile.TarInfo(name.partition(".so.")[0] + ".so.1")
                link.type, link.linkname = tarfile.SYMTYPE, Path(name).name
                tar.addfile(link)
    return out.getvalue()


def refreshed(cluster: Cluster) -> list[str]:
    """The names that there are once the unit has run; nothing where there is no specification."""
    spec = cluster.admin(
        "node1", "systemctl start gpuadmin-gpu-devices.service; cat /run/cdi/nvidia.yaml 2>/dev/null || echo none"
    )
    return [] if spec == "none\n" else [str(one["name"]) for one in json.loads(spec)["devices"]]


def asked(cluster: Cluster, device: str) -> list[str]:
    """The device files of GPUs in a container that minji starts with this device; nothing where it does not start."""
    run = f"docker run --rm --device nvidia.com/gpu={device} tiny /bin/sh -c"
    done = cluster.ssh("minji", "node1", f'{run} "echo /dev/nvidia*; echo x > /dev/nvidiactl" 2>&1')
    if done.returncode == 0:
        return done.stdout.split()
    assert f"unresolvable CDI devices nvidia.com/gpu={device}" in done.stdout
    return []


def test_a_container_gets_gpus_by_name(cluster: Cluster) -> None:
    cluster.add("minji")
    assert refreshed(cluster) == []
    there = [*cluster.ssh_command("admin", "node1"), "sudo tee /var/tmp/driver > /dev/null"]
    subprocess.run(there, input=archive(), check=True, timeout=120)
    cluster.admin("node1", MAKE)
    common = ["/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    cluster.person("minji", "node1", MAKE_IMAGE)
    # her daemon runs already when the GPUs get their names
    assert asked(cluster, "0") == []
    first = "GPU-11111111-2222-3333-4444-555555555555"
    assert refreshed(cluster) == ["0", "1:0", first, MIG, "all"]
    assert asked(cluster, "0") == [*common, "/dev/nvidia0", "/dev/nvidiactl"]
    assert asked(cluster, first) == [*common, "/dev/nvidia0", "/dev/nvidiactl"]
    divided = ["/dev/nvidia-caps", *common, "/dev/nvidia1", "/dev/nvidiactl"]
    assert asked(cluster, "1:0") == divided
    assert asked(cluster, MIG) == divided
    assert asked(cluster, "all") == ["/dev/nvidia-caps", *common, "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]
    # she is nobody's member for it
    assert set(cluster.person("minji", "node1", "id -nG").split()) & {"docker", "video", "render"} == set()
    # the MIG device is taken away: its names go, the others stay, and nobody starts a daemon again
    cluster.admin(
        "node1",
        "rm -r /var/lib/fake-driver/driver/nvidia/capabilities/gpu1/mig/gi7; btrfs property set -ts / ro false; "
        f"sed -i '/^.mig.$/,$d' /etc/gpuadmin-fake-nvml; echo 1:0 {MIG} > /var/lib/fake-driver/gone; "
        "btrfs property set -ts / ro true",
    )
    assert refreshed(cluster) == ["0", first, "all"]
    assert asked(cluster, "1:0") == []
    assert asked(cluster, "0") == [*common, "/dev/nvidia0", "/dev/nvidiactl"]
    # the driver is gone: nothing is left that names a GPU
    cluster.admin("node1", "rm /var/lib/fake-driver/driver/nvidia/version")
    assert refreshed(cluster) == []
    assert asked(cluster, "all") == []
