"""The account verbs as an admin runs them, on real machines: what people can do afterwards, and what they cannot."""

import re
from datetime import date, timedelta

import pytest

from tests.support.lab_cluster import EMPTY_REGISTRY, MAKE_IMAGE, Cluster
from tests.support.monitored import monitor_host
from tests.support.where import BOOT

pytestmark = pytest.mark.lab

NODES = ("node1", "node2")


@pytest.mark.story("provision", "add-user", "sync-users")
def test_a_person_logs_in_and_runs_a_container(cluster: Cluster) -> None:
    # a check does nothing, and says what the run then does
    predicted = cluster.add("minji", "--email", "minji@example.org", "--check")
    assert (cluster.site / "users.yml").read_text() == EMPTY_REGISTRY
    assert "minji" not in cluster.admin("node1", "cat /etc/passwd; ls /var/lib/gpuadmin/keys || true")
    document = cluster.add("minji", "--email", "minji@example.org")
    assert document["result"]["users"]["minji"]["node1"]["status"] == "missing"
    assert {name: host["changed"] for name, host in predicted["hosts"].items()} == {
        name: host["changed"] for name, host in document["hosts"].items()
    }
    cluster.add("jiho")

    # one home on all nodes, over NFS, closed to others
    mounted = cluster.person("minji", "node1", "echo hello > ~/f; findmnt -no FSTYPE -T ~ | tail -n 1")
    assert mounted.strip() == cluster.nfs
    assert cluster.person("minji", "node2", "cat ~/f; id -u").split() == ["hello", "20000"]
    assert "Permission denied" in cluster.ssh("jiho", "node1", "cat /home/minji/f").stderr
    assert cluster.admin("storage1", "stat -c '%a %u %g' /srv/storage/homes/minji").split() == ["700", "20000", "20000"]

    # a container whose ids lie in her range; the daemon began when it was first used, and only hers
    assert cluster.admin("node1", "pgrep -xc dockerd || true").strip() == "0"
    cluster.person("minji", "node1", MAKE_IMAGE)
    assert cluster.person("minji", "node1", "docker run --rm tiny /bin/id -u").strip() == "0"
    cluster.person("minji", "node1", "docker run -d --name kept --user 1000 tiny /bin/sleep 1000")
    uid = cluster.admin("node1", "stat -c %u /proc/$(pgrep -f '^/bin/sleep 1000')").strip()
    assert int(uid) == 2**31 + 999
    assert cluster.admin("node1", "pgrep -xc dockerd").strip() == "1"
    # it survived the end of that session, and it lies on the node's own disk
    assert "kept" in cluster.person("minji", "node1", "docker ps --format '{{.Names}}'")
    assert cluster.admin("node1", "stat -c %u /local/.docker/minji").strip() == "20000"
    assert "No such file" in cluster.ssh("jiho", "node1", "ls /run/user/20000/docker.sock").stderr + (
        "No such file" if "Permission denied" in cluster.ssh("jiho", "node1", "ls /run/user/20000").stderr else ""
    )
    assert all(cluster.root_is_read_only(node) for node in NODES)

    # nothing is left to do, and nothing was done twice
    again = cluster.gpuadmin("sync-users", "--yes")
    assert {name: host["changed"] for name, host in again["hosts"].items()} == {
        "node1": [],
        "node2": [],
        "storage1": [],
    }


@pytest.mark.virtual(BOOT)
@pytest.mark.slow
def test_containers_come_back_after_a_reboot_and_devices_can_be_given(cluster: Cluster) -> None:
    cluster.add("minji")
    cluster.admin(
        "node1",
        "btrfs property set -ts / ro false; mkdir -p /etc/cdi; "
        'printf \'{"cdiVersion":"0.5.0","kind":"example.com/gpu","devices":[{"name":"0",'
        '"containerEdits":{"env":["GIVEN=gpu0"]}}]}\' > /etc/cdi/example.json; '
        "sync; btrfs property set -ts / ro true",
    )
    cluster.person("minji", "node1", MAKE_IMAGE)
    given = "docker run --rm --device example.com/gpu=0 tiny /bin/sh -c 'echo $GIVEN'"
    assert cluster.person("minji", "node1", given).strip() == "gpu0"
    cluster.person("minji", "node1", "docker run -d --restart always --name always tiny /bin/sleep 100000")
    cluster.reboot("node1")
    cluster.wait(lambda: cluster.ssh("admin", "node1", "pgrep -f '^/bin/sleep 100000'"))
    assert cluster.root_is_read_only("node1")


@pytest.mark.story("change-user")
def test_a_key_that_was_changed_opens_and_the_old_one_does_not(minji: Cluster) -> None:
    hers, other = minji.key("minji"), minji.key("other")
    minji.person("minji", "node1", "true")
    minji.gpuadmin("change-user", "minji", "--add-key", other, "--remove-key", hers, "--note", "lab 3", "--yes")
    assert minji.ssh("minji", "node1", "true").returncode == 255
    minji.gpuadmin("change-user", "minji", "--add-key", hers, "--check")
    assert minji.ssh("minji", "node1", "true").returncode == 255
    done = minji.gpuadmin("change-user", "minji", "--add-key", hers, "--yes")
    assert done["hosts"]["node1"]["changed"]
    assert minji.person("minji", "node1", "id -u").strip() == "20000"
    minji.gpuadmin("change-user", "minji", "--key", other, "--yes")
    assert minji.ssh("minji", "node2", "true").returncode == 255
    # an address is the site's alone: no host is asked
    assert minji.gpuadmin("change-user", "minji", "--email", "minji@example.org", "--yes")["hosts"] == {}
    assert "email: minji@example.org" in (minji.site / "users.yml").read_text()


@pytest.mark.story("lock-user", "unlock-user", "extend-user", "remove-user")
def test_who_may_not_log_in_cannot(minji: Cluster) -> None:
    assert minji.person("minji", "node1", "echo in").strip() == "in"
    minji.gpuadmin("lock-user", "minji", "--yes")
    assert minji.ssh("minji", "node1", "true").returncode == 255
    minji.gpuadmin("unlock-user", "minji", "--yes")
    minji.person("minji", "node1", "true")
    yesterday = (date.today() - timedelta(days=1)).isoformat()
    minji.gpuadmin("extend-user", "minji", "--expires", yesterday, "--yes")
    assert minji.ssh("minji", "node1", "true").returncode == 255
    minji.gpuadmin("extend-user", "minji", "--expires", date.today().isoformat(), "--yes")
    minji.person("minji", "node1", "touch ~/kept")

    minji.gpuadmin("remove-user", "minji", "--yes")
    assert minji.ssh("minji", "node1", "true").returncode == 255
    assert "minji" not in minji.admin("node1", "cat /etc/passwd /etc/shadow /etc/group")
    assert minji.admin("storage1", "ls /srv/storage/homes/minji").strip() == "kept"
    # whoever comes next gets another uid; whoever comes back gets their own
    minji.add("jiho")
    assert minji.admin("node1", "id -u jiho").strip() == "20001"
    minji.add("minji")
    assert minji.person("minji", "node2", "ls ~; id -u").split() == ["kept", "20000"]

    minji.gpuadmin("remove-user", "minji", "--archive-home", "--yes")
    assert "minji" not in minji.admin("storage1", "ls -A /srv/storage/homes")
    assert minji.admin("storage1", "ls /srv/storage/homes/.gpuadmin-attic/minji-20000-*").split() == ["kept"]
    assert minji.ssh("jiho", "node1", "ls /home/.gpuadmin-attic").returncode != 0


def measure_disks(cluster: Cluster) -> None:
    """As the role node_metrics has it done every night where there is a monitor."""
    settings = '{"homes": null, "docker": "/local/.docker", "scratch": ["/local"], "logins": true}'
    cluster.admin("node1", "install -d -o minji /local/minji && head -c 5M /dev/zero > /local/minji/data")
    cluster.admin("node1", "chown minji /local/minji/data; mkdir -p /run/gpuadmin-metrics")
    cluster.admin("node1", f"echo '{settings}' > /var/lib/gpuadmin/disk-places.json")
    cluster.admin("node1", "python3 -I /var/lib/gpuadmin/lib/gpuadmin_node/cli.py disk-usage")


@pytest.mark.story("list-users", "disk", "drift")
@pytest.mark.slow
def test_list_users_and_drift_show_what_differs(cluster: Cluster) -> None:
    cluster.add("minji")
    gpus = cluster.gpuadmin("list-gpus")["result"]["nodes"]["node1"]
    assert (gpus["answering"], gpus["broken"]) == (0, [])
    measure_disks(cluster)
    with monitor_host(cluster):
        found = cluster.gpuadmin("disk", "minji", "--limit", "node1")["result"]["hosts"]["node1"]["people"]["minji"]
    assert found["docker"]["inodes"] >= 1
    assert found["scratch"]["bytes"] >= 5_000_000
    assert [one["path"] for one in found["scratch"]["largest"]] == ["/local/minji"]
    own = cluster.person("minji", "node1", "gpuadmin-me disk")
    assert "/local/minji" in own
    cluster.gpuadmin("drift")
    cluster.admin("node1", "rm /var/lib/gpuadmin/keys/minji")
    (row,) = cluster.gpuadmin("list-users")["result"]["users"]
    assert {host: entry["status"] for host, entry in row["hosts"].items()} == {
        "node1": "differs",
        "node2": "ok",
        "storage1": "ok",
    }
    assert cluster.gpuadmin("drift", code=6)["result"]["differing"] == ["node1"]
    cluster.gpuadmin("sync-users", "--yes")
    cluster.person("minji", "node1", "true")
    cluster.gpuadmin("drift")


@pytest.mark.virtual(BOOT)
@pytest.mark.slow
def test_whatever_root_boots_has_the_accounts(cluster: Cluster) -> None:
    """A root that knows nothing of the people, as an older image would: the boot unit gives them back."""
    cluster.add("minji")
    cluster.admin(
        "node2",
        "btrfs property set -ts / ro false; sed -i /minji/d /etc/passwd /etc/shadow /etc/group /etc/gshadow "
        "/etc/subuid /etc/subgid; sync; btrfs property set -ts / ro true; ! id minji",
    )
    cluster.reboot("node2")
    assert cluster.person("minji", "node2", "id -u; grep -c minji /etc/subuid").split() == ["20000", "1"]
    assert cluster.root_is_read_only("node2")


@pytest.mark.slow
def test_docker_by_self_service(cluster: Cluster) -> None:
    cluster.add("sora", "--no-docker")
    assert "sora" not in cluster.admin("node1", "cat /etc/subuid")
    refused = cluster.ssh("sora", "node1", "add-me-to-docker-user minji")
    assert refused.returncode == 2
    assert "acts for you alone" in refused.stderr
    # root's own directory of locks is closed to people, and nothing of sudo's is left
    assert cluster.ssh("sora", "node1", "ls /run/gpuadmin").returncode != 0
    assert "gpuadmin-docker-self" not in cluster.admin("node1", "ls /etc/sudoers.d /usr/local/sbin")
    cluster.person("sora", "node1", "add-me-to-docker-user")
    assert re.search(r"^sora:2147483648:65536$", cluster.admin("node1", "cat /etc/subuid"), re.MULTILINE)
    cluster.person("sora", "node1", MAKE_IMAGE)
    # the admin's next sync takes nothing away
    cluster.gpuadmin("sync-users", "--yes")
    assert cluster.person("sora", "node1", "docker run --rm tiny /bin/id -u").strip() == "0"
    assert cluster.root_is_read_only("node1")


@pytest.mark.slow
def test_accounts_from_a_directory(cluster: Cluster) -> None:
    """Whoever NSS knows on a node gets home, Docker and subids there; who is not known yet is reported, not failed."""
    (cluster.site / "users.yml").write_text("users:\n  - name: minji\n  - name: later\n")
    for host in ("node1", "storage1"):
        cluster.admin(
            host,
            "btrfs property set -ts / ro false; "
            # a directory gives no subids (Debian 11 knows no SUB_UID_COUNT=0)
            "useradd -u 20000 -U -M -d /home/minji -s /bin/bash minji && sed -i /^minji:/d /etc/subuid /etc/subgid; "
            "sync; btrfs property set -ts / ro true",
        )
    with cluster.settings(lambda text: text.replace("source: registry", "source: directory")):
        document = cluster.gpuadmin("sync-users", "--yes")
    users = document["result"]["users"]
    assert users["later"]["node1"]["status"] == "unknown"
    assert users["minji"]["node2"]["status"] == "unknown"
    assert "minji:2147483648:65536" in cluster.admin("node1", "cat /etc/subuid")
    assert cluster.admin("storage1", "ls /srv/storage/homes").split() == ["minji"]
    assert cluster.admin("node1", "stat -c %u /home/minji /local/.docker/minji").split() == ["20000", "20000"]
    assert "later" not in cluster.admin("node1", "cat /etc/passwd")
