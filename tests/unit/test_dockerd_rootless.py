"""What a person's daemon keeps its layers by (roles/rootless_docker/templates/dockerd-rootless.j2)."""

import subprocess
from pathlib import Path

import pytest

from tests.support.role_variables import given, rendered


@pytest.mark.parametrize(
    ("linux", "docker", "installed", "there", "driver"),
    [
        ("5.10.0-32-amd64", "", True, "", "fuse-overlayfs"),
        ("5.10.0-32-amd64", "", True, "fuse-overlayfs", "fuse-overlayfs"),
        # layers that are there stay in use: Docker itself passes over vfs, and does not start where it finds two others
        ("5.10.0-32-amd64", "", True, "btrfs", "btrfs"),
        ("5.10.0-32-amd64", "", True, "vfs", "vfs"),
        ("5.10.0-32-amd64", "", False, "vfs", "vfs"),
        ("5.4.0-216-generic", "", True, "overlay2", "overlay2"),
        ("5.10.0-32-amd64", "", True, "btrfs fuse-overlayfs", "fuse-overlayfs"),
        ("5.10.0-32-amd64", "", False, "", ""),
        ("5.11.0", "", True, "", "overlay2"),
        ("6.1.0-9-amd64", "", True, "btrfs", "btrfs"),
        ("6.1.0-9-amd64", "", True, "btrfs overlay2", "overlay2"),
        ("6.1.0-9-amd64", "", True, "fuse-overlayfs", "fuse-overlayfs"),
        # a root that was installed anew has no fuse-overlayfs, without which Docker would not start
        ("6.1.0-9-amd64", "", False, "fuse-overlayfs", "overlay2"),
        ("6.1.0-9-amd64", "", False, "fuse-overlayfs vfs", "vfs"),
        ("5.10.0-32-amd64", "--cdi-spec-dir", True, "", ""),  # the settings say it
    ],
)
def test_the_storage_driver(linux: str, docker: str, installed: bool, there: str, driver: str, tmp_path: Path) -> None:
    data, programs = tmp_path / "data", tmp_path / "bin"
    for name in there.split() or [""]:
        (data / name).mkdir(parents=True)
    programs.mkdir()
    words = {
        "dockerd": f'if [ "$1" = --help ]; then echo {docker}; else echo "$@"; fi',
        "uname": f"echo {linux}",
        "rm": "exit 0",  # of this machine's /run
        "readlink": "exit 1",
        **({"fuse-overlayfs": "exit 1", "nvidia-container-runtime": "exit 1"} if installed else {}),
    }
    for name, text in words.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    for name in ("sh", "grep", "sort", "head"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    script = tmp_path / "script"
    script.write_text(rendered("rootless_docker", "dockerd-rootless.j2", given("rootless_docker")))
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec /bin/sh {script} "$@" 9</dev/null', "sh", f"--data-root={data}"],
        env={"PATH": str(programs), "HOME": str(tmp_path), "GPUADMIN_DOCKER_CHILD": "1"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    chosen = [word for word in done.stdout.split() if word.startswith("--storage-driver=")]
    assert chosen == ([f"--storage-driver={driver}"] if driver else [])
    assert f"--data-root={data}" in done.stdout.split()
    runtime = f"--add-runtime=nvidia={programs}/nvidia-container-runtime"
    assert (runtime in done.stdout.split()) is (installed and not docker), "before Docker 25, where the toolkit is"
