"""A node of the lab that believes to have two NVIDIA GPUs, one of them divided: a driver that is none.

The library (tests/support/fake_nvml) lies where the distribution would put it, device files that the lab does not make
are `/dev/null` by other names, and the units that ask for GPUs see a driver's files in /proc and /sys. What the library
answers can change at any time.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.support import fake_nvml
from tests.support.lab_cluster import Cluster

FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
MIG = "MIG-aaaaaaaa-1111-2222-3333-444444444444"
#: What the library answers; the file that it reads is a link to it, since a node's root is read-only.
DESCRIBED = "/var/lib/fake-driver/described"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
#: /sys and /proc that are covered are not given to containers: only these units see a driver there.
_UNITS = "gpuadmin-gpu-devices gpuadmin-metrics-sampler gpuadmin-metrics-mapper"
_FAKES = (
    "[Service]\\nBindReadOnlyPaths="
    "/var/lib/fake-driver/driver:/proc/driver /var/lib/fake-driver/pci:/sys/bus/pci/devices\\n"
)
_MAKE = f"""
set -eu
btrfs property set -ts / ro false
tar -xzf /var/tmp/driver -C / --no-overwrite-dir --no-same-owner
ln -sf {DESCRIBED} /etc/gpuadmin-fake-nvml
ldconfig
btrfs property set -ts / ro true
for name in nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools; do
    [ -e /dev/$name ] || mknod -m 666 /dev/$name c 1 3
done
mkdir /dev/nvidia-caps
for number in 66 67; do mknod -m 444 /dev/nvidia-caps/nvidia-cap$number c 1 3; done
driver=/var/lib/fake-driver/driver
mig=$driver/nvidia/capabilities/gpu1/mig/gi7
mkdir -p $mig/ci0 $driver/nvidia-caps $driver/nvidia/gpus/0000:01:00.0
echo "DeviceFileMinor: 66" > $mig/access
echo 6 > $mig/placement
echo "DeviceFileMinor: 67" > $mig/ci0/access
printf "gpu1/gi7/access 66\\ngpu1/gi7/ci0/access 67\\n" > $driver/nvidia-caps/mig-minors
echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Sun Jul 20 00:00:00 UTC 2025" > $driver/nvidia/version
for gpu in 0000:01:00.0 0000:41:00.0; do
    mkdir -p /var/lib/fake-driver/pci/$gpu
    echo 0x10de > /var/lib/fake-driver/pci/$gpu/vendor
    echo 0x2330 > /var/lib/fake-driver/pci/$gpu/device
    echo 0x030200 > /var/lib/fake-driver/pci/$gpu/class
done
for unit in {_UNITS}; do
    mkdir -p /run/systemd/system/$unit.service.d
    printf "{_FAKES}" > /run/systemd/system/$unit.service.d/fake.conf
done
systemctl stop gpuadmin-gpu-devices.timer
systemctl daemon-reload
"""

#: What the driver's files say of each GPU, where the whole host reads them.
_SEEN = r"""set -eu
rm -r /dev/nvidia-caps
number=0
for gpu in 0000:01:00.0 0000:41:00.0; do
    mkdir -p /var/lib/fake-driver/driver/nvidia/gpus/$gpu
    printf "Model: \t\t NVIDIA H100 PCIe\nGPU UUID: \t %s\nDevice Minor: \t %s\n" $1 $number \
        > /var/lib/fake-driver/driver/nvidia/gpus/$gpu/information
    number=$((number + 1)); shift
done
rm -rf /var/lib/fake-driver/driver/nvidia/capabilities/gpu*
mount --bind /var/lib/fake-driver/driver /proc/driver
"""
#: What the library answers of two GPUs that are whole, and of which nothing is wrong.
WHOLE = re.sub(r"\[process\]\npid = .*\nmemory = .*\n", "", fake_nvml.TWO.read_text()).partition("[mig]")[0]
WHOLE = re.sub(r"(?m)^(mig|pcie_width) = (1|8)$", lambda found: f"{found[1]} = {'0' if found[2] == '1' else 16}", WHOLE)


@contextmanager
def named_by_driver(cluster: Cluster, host: str) -> Iterator[None]:
    """A node whose GPUs are whole, and named by the driver: its files are where the whole host reads them."""
    install(cluster, host)
    describe(cluster, host, WHOLE)
    put(cluster, host, "/var/tmp/seen", _SEEN.encode())
    cluster.admin(host, f"sh /var/tmp/seen {FIRST} {SECOND}")
    inventory = cluster.site / "inventory/hosts.yml"
    before = inventory.read_text()
    tree = yaml.safe_load(before)
    del tree["all"]["children"]["gpu"]["hosts"][host]["gpu_stack_devices"]
    inventory.write_text(yaml.safe_dump(tree))
    try:
        yield
    finally:
        inventory.write_text(before)


def install(cluster: Cluster, host: str) -> None:
    """Give a node the driver; what runs already takes it up when it is started again."""
    put(cluster, host, "/var/tmp/driver", _archive())
    cluster.admin(host, _MAKE)


def describe(cluster: Cluster, host: str, text: str) -> None:
    """Say what the library answers from now on (tests/support/fake_nvml/README.md)."""
    put(cluster, host, "/var/tmp/described", text.encode())
    cluster.admin(host, f"mv /var/tmp/described {DESCRIBED}")


def put(cluster: Cluster, host: str, path: str, content: bytes) -> None:
    """Write a file on a host, as root."""
    command = [*cluster.ssh_command("admin", host), f"sudo tee {path} > /dev/null"]
    subprocess.run(command, input=content, check=True, timeout=120)


def refreshed(cluster: Cluster, host: str) -> list[str]:
    """The names for containers that there are once the unit has run; nothing where there is no specification."""
    spec = cluster.admin(
        host, "systemctl start gpuadmin-gpu-devices.service; cat /run/cdi/nvidia.yaml 2>/dev/null || echo none"
    )
    return [] if spec == "none\n" else [str(one["name"]) for one in json.loads(spec)["devices"]]


def _archive() -> bytes:
    """The library by its names, what it answers, and the toolkit, as `tar -xz` takes them."""
    files = {f"{_LIBRARIES}/lib{name}.so.550.163.01": fake_nvml.library() for name in ("nvidia-ml", "cuda")}
    files |= {DESCRIBED[1:]: fake_nvml.TWO, "var/lib/fake-driver/nvidia-ctk.json": fake_nvml.SPEC}
    for name in ("nvidia-ctk", "nvidia-cdi-hook"):
        real = shutil.which(name)
        if real is not None:
            files[f"usr/bin/{name}"] = Path(real)
    files["usr/bin/nvidia-smi"] = fake_nvml.HERE / "nvidia-smi"
    files.setdefault("usr/bin/nvidia-ctk", fake_nvml.HERE / "nvidia-ctk")
    files["usr/bin/nvidia-container-runtime"] = fake_nvml.HERE / "nvidia-container-runtime"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, path in files.items():
            member = tar.gettarinfo(path, name)
            member.mode = 0o755
            with path.open("rb") as stream:
                tar.addfile(member, stream)
            if name.startswith(_LIBRARIES):
                link = tarfile.TarInfo(name.partition(".so.")[0] + ".so.1")
                link.type, link.linkname = tarfile.SYMTYPE, Path(name).name
                tar.addfile(link)
    return out.getvalue()
