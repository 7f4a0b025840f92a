"""Docker comes from a repository that the site names: one in the lab, signed with a key of its own.

Its packages stand in for Docker's (docker-ce and the like): their names and conflicts, and what storage1's distribution
has in its own, but for runc, which is the node's: a newer one needs a newer C library.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import fake_driver
from tests.support.lab_cluster import MAKE_IMAGE, OPEN, REPOSITORY, Cluster

# slow until it has passed
pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.needs("cc"), pytest.mark.needs("gpg")]

NODE, PLACE = "node1", "/var/tmp/repository"
BUILD = REPOSITORY / "tests/support/docker_repository.sh"


def sign(directory: Path, text: str) -> tuple[Path, str]:
    """Sign a text with a new key. Returns the key's public half, and the text with its signature."""
    directory.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(directory), "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-gen-key", "lab", "ed25519", "sign", "never"], check=True, capture_output=True)
    public = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True, text=True).stdout
    signed = subprocess.run([*gpg, "--clearsign"], input=text, check=True, capture_output=True, text=True).stdout
    subprocess.run(["gpgconf", "--homedir", str(directory), "--kill", "all"], check=True)
    (directory / "public.asc").write_text(public)
    return directory / "public.asc", signed


@pytest.fixture
def served(cluster: Cluster, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Public keys: that of the repository which storage1 serves, and another one."""
    read = [*cluster.ssh_command("admin", NODE), "sudo cat $(sudo sh -c 'command -v runc')"]
    runc = subprocess.run(read, check=True, capture_output=True).stdout
    cluster.admin("storage1", f"mkdir -p {PLACE}")
    fake_driver.put(cluster, "storage1", f"{PLACE}/runc", runc)
    fake_driver.put(cluster, "storage1", f"{PLACE}/build", BUILD.read_bytes())
    cluster.admin("storage1", f"bash {PLACE}/build")
    release = cluster.admin("storage1", f"cat {PLACE}/www/dists/stable/Release")
    own, signed = sign(tmp_path / "own", release)
    fake_driver.put(cluster, "storage1", f"{PLACE}/www/dists/stable/InRelease", signed.encode())
    yield {"own": own, "other": sign(tmp_path / "other", release)[0]}
    cluster.admin("storage1", f"systemctl stop repository; rm -r {PLACE}")


def docker(key: Path) -> str:
    where = f"url: 'http://10.77.0.10:8091', key: {key}, suite: stable, components: [test]"
    return f"\ndocker: {{repository: {{{where}}}}}\n"


def provision(cluster: Cluster, code: int) -> str:
    return str(cluster.gpuadmin("provision", "--limit", NODE, "--yes", code=code)["hosts"][NODE])


def test_docker_comes_from_the_site_s_repository(cluster: Cluster, served: dict[str, Path]) -> None:
    cluster.add("minji")
    cluster.person("minji", NODE, MAKE_IMAGE)
    with cluster.settings(lambda text: text + docker(served["other"])):
        # the distribution's is there: it is removed by nobody but an admin
        assert "docker.io is installed, and the site wants docker-ce in its place" in provision(cluster, 3)
        cluster.admin(
            NODE,
            f"{OPEN}; DEBIAN_FRONTEND=noninteractive apt-get -qq -y remove docker.io containerd runc docker-cli "
            "rootlesskit 2>&1; btrfs property set -ts / ro true",
        )
        said = provision(cluster, 3)
        assert "the index of packages cannot be fetched" in said, "somebody else has signed it"
        assert cluster.ssh("admin", NODE, "dpkg -s docker-ce").returncode != 0
    with cluster.settings(lambda text: text + docker(served["own"])):
        provision(cluster, 0)
        assert cluster.admin(NODE, "dpkg-query -W -f '${Version}' docker-ce") == "5:99.0"
        assert "'status': 'ok'" in provision(cluster, 0)
        assert cluster.root_is_read_only(NODE)
        assert cluster.ssh("admin", NODE, "pgrep -u root -x dockerd").returncode == 1, "root has none"
        # people have what they had, and a daemon of their own that is the new one
        cluster.person("minji", NODE, "systemctl --user restart docker")
        assert cluster.person("minji", NODE, "docker run --rm tiny /bin/id -u").strip() == "0"
        if int(cluster.person("minji", NODE, "docker version -f '{{.Server.Version}}'").partition(".")[0]) >= 25:
            fake_driver.install(cluster, NODE)
            fake_driver.refreshed(cluster, NODE)
            run = "docker run --rm --device nvidia.com/gpu=0 tiny /bin/sh -c 'echo /dev/nvidia0'"
            assert cluster.person("minji", NODE, run).strip() == "/dev/nvidia0"
    assert "docker-ce is installed, and the site wants docker.io in its place" in provision(cluster, 3)
