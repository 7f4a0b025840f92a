"""What several people share, on light hosts: its group writes, others are refused, mounts wait to be looked at."""

import subprocess

import pytest

from tests.support.lab_cluster import REPOSITORY, Cluster

pytestmark = pytest.mark.lab
NODE, OTHER, STORAGE = "node1", "node2", "storage1"
SHARED = """groups: [{name: vision, gid: 50123}]
shared:
  - {name: imagenet, group: vision, size: 100M, backup: no}
  - {name: papers, group: vision}
  - {name: everybody}
"""
MOUNTS = f"mounts: [{{from: '{STORAGE}:/srv/storage/data', at: /data, options: ro, hosts: [{NODE}]}}]\n"
#: As the storage host's NFS server would, for somebody with the group (light hosts have none); what it prints is read.
AS_MINJI = 'cd {} && setpriv --reuid=minji --regid=minji --init-groups bash -c "umask 022; {}" 2>&1 || true'


@pytest.mark.slow
def test_a_group_shares_a_directory_and_a_server_is_mounted(cluster: Cluster) -> None:
    for name, options in (("minji", ("--group", "vision")), ("jiho", ("--group", "vision")), ("sua", ())):
        cluster.add(name, *options)
    cluster.admin(STORAGE, "install -d -m 755 /srv/storage/data && echo rows > /srv/storage/data/table.csv")
    with cluster.settings(lambda text: text + SHARED + MOUNTS):
        # a group that somebody has made by hand is in the way before anything is changed
        cluster.admin(OTHER, "btrfs property set -ts / ro false; groupadd -g 1777 vision")
        said = str(cluster.gpuadmin("provision", "--yes", "--limit", OTHER, code=3))
        assert "vision has gid 1777" in said
        assert not cluster.ssh("admin", OTHER, "systemctl cat shared-imagenet.mount").stdout
        cluster.admin(OTHER, "groupdel vision; btrfs property set -ts / ro true")

        planned = str(cluster.gpuadmin("provision", "--check"))
        assert "group vision: create gid 50123" in planned
        assert "/srv/storage/shared/imagenet: made for the group vision" in planned
        cluster.gpuadmin("provision", "--yes")
        assert {host["status"] for host in cluster.gpuadmin("provision", "--yes")["hosts"].values()} == {"ok"}

        # two members write on two nodes, a stranger is refused
        cluster.person("minji", NODE, "echo 1 > /shared/imagenet/a; mkdir /shared/imagenet/train")
        assert cluster.person("jiho", OTHER, "cat /shared/imagenet/a; echo 2 > /shared/imagenet/train/b") == "1\n"
        assert "Permission denied" in cluster.ssh("sua", NODE, "ls /shared/imagenet").stderr
        cluster.person("sua", NODE, "echo hello > /shared/everybody/note")
        assert cluster.person("minji", OTHER, "cat /shared/everybody/note") == "hello\n"
        # what one makes is the group's to write, whatever the umask
        cluster.admin(STORAGE, AS_MINJI.format("/srv/storage/shared/imagenet", "echo x >c; mkdir d; echo y >d/e"))
        modes = cluster.admin(STORAGE, "cd /srv/storage/shared/imagenet && stat -c '%A %G' c d d/e")
        assert modes.splitlines() == ["-rw-rw---- vision", "drwxrws--- vision", "-rw-rw---- vision"]
        # the kernel refuses more than its size
        full = AS_MINJI.format("/srv/storage/shared/imagenet", "dd if=/dev/urandom of=big bs=1M count=150 conv=fsync")
        assert "Disk quota exceeded" in cluster.admin(STORAGE, full)
        cluster.admin(STORAGE, "rm -f /srv/storage/shared/imagenet/big")

        # backups have what is to be in them, as they have homes
        cluster.person("minji", NODE, "echo thesis > /shared/papers/draft")
        cluster.gpuadmin("backup", "--yes")
        kept = cluster.admin(STORAGE, "find /srv/storage/backups -name draft -o -name a -path '*imagenet*'").split()
        assert [path.rpartition("/_shared-")[2] for path in kept] == ["papers/draft"]

        # the mount of another server
        assert cluster.person("sua", NODE, "cat /data/table.csv") == "rows\n"
        assert cluster.ssh("sua", OTHER, "ls /data").returncode != 0

        # who leaves the group is out of it at the next login
        assert "vision" in cluster.person("jiho", NODE, "id -Gn").split()
        cluster.gpuadmin("change-user", "jiho", "--group", "", "--yes")
        assert "vision" not in cluster.person("jiho", NODE, "id -Gn").split()

    # taken out of the settings: unmounted when nobody uses it, and nothing is deleted
    with cluster.session("minji", NODE) as shell, cluster.settings(lambda text: text + SHARED.partition("shared:")[0]):
        assert shell.poll() is None
        cluster.admin(NODE, "systemd-run --quiet --unit=reads.service sh -c 'exec 3</data/table.csv; sleep 1000'")
        said = str(cluster.gpuadmin("provision", "--yes"))
        assert "/data is still mounted" in said
        assert "/srv/storage/shared/imagenet is in nobody's settings any more" in said
        assert not cluster.ssh("admin", NODE, "systemctl cat shared-imagenet.mount").stdout
        cluster.admin(NODE, "systemctl stop reads.service")
        cluster.gpuadmin("provision", "--yes")
        assert not cluster.ssh("admin", NODE, "systemctl cat data.mount").stdout
        kept = "cd /srv/storage && cat shared/imagenet/a homes/_shared-everybody/note homes/_shared-papers/draft"
        assert cluster.admin(STORAGE, kept) == "1\nhello\nthesis\n"


UPSTREAM = """version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: /root/upstream}}
http: {addr: "127.0.0.1:5555"}
"""
#: Of the registry that stands for Docker Hub: bytes of parts of images that it has sent.
SENT = (
    "journalctl -u upstream -o cat | grep method=GET | grep /blobs/ | grep -o 'response.written=[0-9]*' | cut -d= -f2"
)
PEOPLE = ("minji", "jiho", "sua")


def sent(cluster: Cluster) -> int:
    return sum(map(int, cluster.admin(STORAGE, f"{SENT} || true").split()))


def push(cluster: Cluster, image: str, megabytes: int) -> int:
    """Have an image upstream; return its size in bytes."""
    program = (REPOSITORY / "tests/support/upstream_registry.py").read_text()
    done = subprocess.run(
        [*cluster.ssh_command("admin", STORAGE), f"python3 - 127.0.0.1:5555 {image} 1 {megabytes}"],
        input=program, text=True, check=True, capture_output=True,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.slow
def test_an_image_is_fetched_once_for_all(cluster: Cluster) -> None:
    for name in PEOPLE:
        cluster.add(name)
    own = "docker:\n  mirror: true\n  upstream: http://127.0.0.1:5555\n  images: [{name: Ours, from: lab/ours:1}]\n"
    with cluster.settings(lambda text: text.replace("docker:\n", own, 1)):
        cluster.gpuadmin("provision", "--yes")
        cluster.admin(STORAGE, f"cat >/root/upstream.yml <<'EOF'\n{UPSTREAM}EOF")
        serve = "docker-registry serve /root/upstream.yml"
        cluster.admin(STORAGE, f"systemd-run --quiet --unit=upstream --setenv=HOME=/root {serve}")
        cluster.wait(lambda: cluster.ssh("admin", STORAGE, "ss -Hltn sport = :5555 | grep LISTEN"))
        ours, size = push(cluster, "lab/ours", 5), push(cluster, "library/tiny", 30)

        cluster.wait(lambda: cluster.ssh("minji", NODE, "docker pull -q lab/ours:1"))  # the registry waits for upstream
        cluster.person("sua", OTHER, "docker pull -q lab/ours:1")
        assert ours <= sent(cluster) <= 1.1 * ours

        # everybody at once, on both nodes
        assert ":5000/" in cluster.person("jiho", NODE, "docker info --format '{{.RegistryConfig.Mirrors}}'")
        pull = "bash -lc 'docker pull -q tiny:1'"
        pulls = [
            subprocess.Popen([*cluster.ssh_command(name, node), pull], stderr=subprocess.PIPE)
            for name in PEOPLE
            for node in (NODE, OTHER)
        ]
        assert [(one.wait(), one.communicate()[1]) for one in pulls] == [(0, b"")] * 6
        assert size <= sent(cluster) - ours <= 1.1 * size

        assert {host["status"] for host in cluster.gpuadmin("provision", "--yes")["hosts"].values()} == {"ok"}
    # and when the site does not want it any more
    cluster.gpuadmin("provision", "--yes", "--limit", STORAGE)
    assert cluster.ssh("admin", STORAGE, "systemctl is-active gpuadmin-registry.service").stdout.strip() == "inactive"
