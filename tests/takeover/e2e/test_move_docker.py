"""A node on which root's Docker ran: images and volumes become a person's, who finds in them what they had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import by_hand, independent
from tests.support.lab_cluster import MAKE_IMAGE, Cluster

pytestmark = pytest.mark.lab
HOST, UID = "plain1", 20001
ROOTS = "/var/lib/docker/volumes/data/_data"
HERS = "/local/.docker/minji"
DOCKER = "docker -H unix:///run/docker.sock"
UNIT = "gpuadmin-move-docker.service"


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with by_hand.grown("docker", grow, ordinary=1, kept=False) as found:
        yield found


def grow(cluster: Cluster) -> None:
    """A container of root's Docker with a named volume and a directory of the host, and an image by hand."""
    (cluster.site / "users.yml").write_text(
        f"users:\n  - {{name: minji, uid: {UID}, keys: ['{cluster.key('minji')}'], docker: true}}\nretired: []\n"
    )
    cluster.gpuadmin("provision", "--yes")
    start(cluster)
    cluster.admin(HOST, f"export DOCKER_HOST=unix:///run/docker.sock; {MAKE_IMAGE}")
    cluster.admin(
        HOST,
        f"{DOCKER} volume create data && {DOCKER} volume create other && "
        f"{DOCKER} run -d --name train-minji -v data:/data -v /srv:/srv -p 80:80 -e TOKEN=secret tiny /bin/sleep 10000",
    )
    cluster.admin(
        HOST,
        f"cd {ROOTS}; mkdir -p deep/er; echo root > deep/er/of-root; echo hers > of-1000; chown 1000:1000 of-1000; "
        "chmod 640 of-1000; ln of-1000 linked; ln -s /etc/shadow out; truncate -s 1G sparse; echo end >> sparse; "
        r'touch "$(printf "a\nb\377 c")"; mkfifo pipe; head -c 300000000 /dev/urandom > big; '
        "chown 1000:1000 deep; chmod 1777 deep; chmod 4755 of-1000; echo odd > '--help'; chown 65536 deep/er",
    )
    by_hand.bring_independent(cluster, HOST)


def start(cluster: Cluster) -> None:
    cluster.admin(HOST, "systemd-run --quiet --unit=root-docker dockerd --group root")
    cluster.wait(lambda: cluster.ssh("admin", HOST, f"sudo {DOCKER} info >/dev/null && echo up"), seconds=60)


def facts(cluster: Cluster, path: str, first: int | None = None) -> dict[str, Any]:
    """What is in a tree; ids as in a container whose first one is `first`."""
    found = by_hand.facts(cluster, HOST, path)
    for one in found.values() if first is not None else ():
        for kind in ("uid", "gid"):
            one[kind] = 0 if one[kind] == UID else one[kind] - first + 1
    return found


def roots(cluster: Cluster) -> str:
    """All that root's Docker says of itself that could change."""
    return cluster.admin(
        HOST, f"{DOCKER} ps -a --no-trunc --format '{{{{.ID}}}} {{{{.Names}}}} {{{{.State}}}}'; "
        f"{DOCKER} images --no-trunc --format '{{{{.ID}}}} {{{{.Repository}}}}:{{{{.Tag}}}}'; {DOCKER} volume ls"
    )  # fmt: skip


def test_what_roots_docker_has_becomes_a_persons(node: Cluster) -> None:
    cluster = node
    want = facts(cluster, ROOTS)
    seen = roots(cluster)

    # it says what there is, and takes nothing that is being written
    listed = cluster.gpuadmin("move-docker")["result"]["docker"][HOST]
    assert [one["name"] for one in listed["containers"]] == ["train-minji"]
    assert {one["name"] for one in listed["volumes"]} == {"data", "other"}
    assert "secret" not in json.dumps(listed)
    running = cluster.gpuadmin("move-docker", "minji", "--container", "train-minji", "--yes", code=5)["result"]
    assert "in use by train-minji" in running["error"]
    cluster.admin(HOST, f"{DOCKER} stop -t 1 train-minji")
    seen = roots(cluster)
    cluster.gpuadmin("move-docker", "minji", "--container", "train-minji", "--check")
    assert "No such" in cluster.admin(HOST, f"ls {HERS}/gpuadmin-move 2>&1 || true")

    # the controller and what works on the node are killed, then the power goes
    staged = f"test -s {HERS}/gpuadmin-move/data/big && echo copying"
    process = cluster.start("move-docker", "minji", "--container", "train-minji", "--yes")
    cluster.wait(lambda: cluster.ssh("admin", HOST, f"sudo {staged}"), seconds=120)
    process.kill()
    cluster.admin(HOST, f"systemctl kill -s KILL {UNIT} || true")
    process.communicate()
    cluster.wait(lambda: cluster.ssh("admin", HOST, f"! systemctl -q is-active {UNIT} && echo done"), seconds=60)
    cluster.admin(HOST, f"rm -rf {HERS}/gpuadmin-move/data/big")
    process = cluster.start("move-docker", "minji", "--container", "train-minji", "--yes")
    cluster.wait(lambda: cluster.ssh("admin", HOST, f"sudo {staged}"), seconds=120)
    cluster.lab("power-cut", HOST)
    process.communicate()
    cluster.lab("start", HOST)
    cluster.wait(lambda: cluster.ssh("admin", HOST, "true && echo up"))
    cluster.settle(HOST)
    refused = cluster.gpuadmin("move-docker", "minji", "--container", "train-minji", "--yes", code=5)["result"]
    assert "root's Docker cannot be asked" in refused["error"]
    start(cluster)
    done = cluster.gpuadmin("move-docker", "minji", "--container", "train-minji", "--yes")["result"]
    assert {one["kind"] for one in done["parts"]} == {"image", "volume"}, done
    again = cluster.gpuadmin("move-docker", "minji", "--container", "train-minji", "--yes")
    assert [one["words"] for one in again["result"]["parts"]] == ["", ""], "a second run finds it done"

    # she has what there was, and root's Docker has it still
    first = int(cluster.admin(HOST, "grep ^minji: /etc/subuid").split(":")[1])
    assert independent.differences(want, facts(cluster, f"{HERS}/volumes/data/_data", first)) == []
    assert independent.differences(want, facts(cluster, ROOTS)) == []
    assert roots(cluster) == seen
    assert int(cluster.admin(HOST, f"stat -c %b {HERS}/volumes/data/_data/sparse")) < 1000, "holes are holes"
    command = done["commands"]["train-minji"]
    assert "-e TOKEN" in command
    assert "secret" not in command
    cluster.person("minji", HOST, command.replace("-p 80:80/tcp", "").replace("-v /srv:/srv", ""))
    cluster.person("minji", HOST, "docker start train-minji")
    assert cluster.person("minji", HOST, "docker exec train-minji /bin/cat /data/deep/er/of-root").strip() == "root"
    hers = "docker exec --user 1000 train-minji /bin/cat /data/of-1000"
    assert cluster.person("minji", HOST, hers).strip() == "hers"

    # a volume of hers is not overwritten
    cluster.person("minji", HOST, "docker volume create other")
    left = cluster.gpuadmin("move-docker", "minji", "--volume", "other", "--yes", code=3)["result"]
    assert "has a volume of that name" in left["left"]["volume other"]

    # what was carried is removed of root's Docker when an admin says so, unless it has changed since
    cluster.admin(HOST, f"echo more >> {ROOTS}/of-1000")
    kept = cluster.gpuadmin("move-docker", "minji", "--discard", "--yes", code=3)["result"]
    assert "has changed since" in kept["left"]["volume data"]
    assert {one["kind"] for one in kept["parts"]} == {"container", "image"}
    assert cluster.admin(HOST, f"{DOCKER} volume ls -q").split() == ["data", "other"]
    assert cluster.admin(HOST, f"{DOCKER} ps -aq; {DOCKER} images -q").split() == []
    cluster.person("minji", HOST, "docker exec train-minji /bin/cat /data/deep/er/of-root")
    cluster.admin(HOST, "systemctl stop root-docker")
