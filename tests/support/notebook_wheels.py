"""JupyterLab from the package index, for nodes of the lab: wheels for their Python, fetched once, as files."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.lab_cluster import REPOSITORY, Cluster

CACHE = REPOSITORY / ".cache" / "notebook-wheels"
#: Where the nodes have it.
PLACE = "/var/lib/wheels"
INDEX = f"file://{PLACE}"
_PLATFORMS = ("2_28", "2_17", "2_12", "2_5")


def fetch(packages: Sequence[str], python: str) -> Path:
    """Wheels of these packages and of all that they need, for a release of Python such as 3.13."""
    place = CACHE / f"{python}-{hashlib.sha256(repr(packages).encode()).hexdigest()[:12]}"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        wheels = place / "wheels"
        platforms = [word for one in _PLATFORMS for word in ("--platform", f"manylinux_{one}_x86_64")]
        subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", python,
                *platforms, "--platform", "linux_x86_64", "--dest", str(wheels), *packages,
            ],
            check=True, timeout=600,
        )  # fmt: skip
        for wheel in wheels.iterdir():
            name = re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
            own = place / "index" / name
            own.mkdir(parents=True, exist_ok=True)
            wheel.rename(own / wheel.name)
            with (own / "index.html").open("a") as page:
                page.write(f'<a href="{wheel.name}">{wheel.name}</a>\n')
        (place / "complete").touch()
    return place / "index"


def bring(cluster: Cluster, packages: Sequence[str], *nodes: str) -> None:
    """Have the index on nodes."""
    for node in nodes:
        asked = 'python3 -c "import sys; print(*sys.version_info[:2], sep=chr(46))"'
        index = fetch(packages, cluster.admin(node, asked).strip())
        packed = subprocess.Popen(["tar", "-C", str(index), "-cf", "-", "."], stdout=subprocess.PIPE)
        unpack = f"sudo sh -c 'mkdir -p {PLACE} && tar -C {PLACE} -xf -'"
        subprocess.run([*cluster.ssh_command("admin", node), unpack], stdin=packed.stdout, check=True, timeout=300)
        assert packed.wait() == 0
