"""Images with a GPU driver: sealed where each kernel has the module of the libraries' version, refused where not.

The driver's packages are small ones of ours (tests/support/gpu_packages.py); building, sealing and refusing are real.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import gpu_packages
from tests.support.lab_cluster import Cluster
from tests.support.where import IMAGE

pytestmark = [pytest.mark.lab, pytest.mark.virtual(IMAGE), pytest.mark.slow, pytest.mark.needs("cc", "dpkg-deb", "gpg")]
GOLDEN = "node1"
OLD, NEW = gpu_packages.VERSIONS
OTHER = "6.99.0-other-amd64"
PLACE = "/usr/share/gpu-packages"


def build(
    cluster: Cluster, directory: Path, name: str, packages: list[str], *commands: str, code: int = 0
) -> dict[str, Any]:
    """Build an image with packages installed and commands run in it, without a trial; return what it says."""
    debs = " ".join(f"{PLACE}/{one}.deb" for one in packages)
    tasks: list[dict[str, Any]] = [
        {"name": "Bring packages", "ansible.builtin.copy": {"src": f"{directory}/", "dest": f"{PLACE}/"}},
        {"name": "Install them", "ansible.builtin.command": f"dpkg --install {debs}"},
        *({"name": "Change something", "ansible.builtin.shell": command} for command in commands),
        {"name": "Take packages away", "ansible.builtin.command": f"rm -r {PLACE}"},
    ]
    playbook = directory.parent / f"{name}.yml"
    playbook.write_text(json.dumps([{"hosts": "golden", "gather_facts": False, "tasks": tasks}]))
    return cluster.gpuadmin("build-image", name, "--run", str(playbook), "--no-trial", "--yes", code=code)


def test_an_image_with_a_driver_is_sealed_only_where_it_fits_its_kernels(cluster: Cluster, tmp_path: Path) -> None:
    (kernel,) = cluster.admin(GOLDEN, "ls /usr/lib/modules").split()
    directory = tmp_path / "packages"
    gpu_packages.make(directory, {"cloud-amd64": kernel})
    shared = ["dkms_3.2.2", "linux-headers-cloud-amd64_1", f"nvidia-kernel-dkms_{OLD}-1"]
    libraries = {version: [f"libcuda1_{version}-1", f"nvidia-smi_{version}-1"] for version in (OLD, NEW)}

    # a second kernel that came without headers, and libraries that an upgrade brought
    second = f"mkdir -p /usr/lib/modules/{OTHER}/kernel && depmod {OTHER}"
    refused = build(cluster, directory, "unfit", [*shared, *libraries[NEW]], second, code=3)
    message = str(refused["hosts"][GOLDEN]["message"])
    assert "image unfit is not used, since GPUs would not work with it" in message
    assert f"kernel {OTHER} has no module nvidia, and the libraries are {NEW}" in message
    assert f"kernel {kernel}: its module nvidia is {OLD}, the libraries are {NEW}" in message
    assert "unfit" not in cluster.gpuadmin("list-images")["result"]["store"]
    # the golden node is as it was
    assert cluster.admin(GOLDEN, "findmnt -no FSROOT /").strip() == "/roots/base"
    assert cluster.admin(GOLDEN, "find /usr/lib/modules -name 'nvidia*.ko'") == ""

    build(cluster, directory, "fits", [*shared, *libraries[OLD]])
    assert "fits" in cluster.gpuadmin("list-images")["result"]["store"]
    changes = cluster.gpuadmin("list-images", "fits")["result"]["changes"]["added"]
    assert {"nvidia-kernel-dkms", "libcuda1"} <= set(changes)
