"""Which box is which, what moved, who has power, and what others can read: as an admin asks it."""

import json

import pytest

from tests.support.lab_cluster import Cluster

pytestmark = pytest.mark.lab

HOME = "/srv/storage/homes/minji"
#: What is done by hand: on the storage host a private key that others can read, on a node somebody in the group sudo.
DONE = f"cd {HOME} && mkdir -p .ssh && echo x > .ssh/id_rsa && ln -s /etc/shadow x.key && chmod 755 . .ssh"
#: Light hosts are containers, which know nothing of chassis and disks.
UNKNOWN = 3
OPEN, CLOSED = "btrfs property set -ts / ro false", "btrfs property set -ts / ro true"


def test_audit_says_what_moved_and_who_has_power(minji: Cluster) -> None:
    record = minji.site / "hardware.json"
    record.unlink(missing_ok=True)
    clean = minji.gpuadmin("audit", code=UNKNOWN)["result"]
    assert (clean["recorded"], clean["power"], clean["unknown"]) == (False, [], {})
    assert not record.exists(), "it is written when somebody asks for it"
    items = minji.gpuadmin("hand-over", code=6)["result"]["items"]
    login = [one for one in items if one["what"] == "login"]
    assert [one["state"] for one in login] == ["only yours"], "the lab's key is a file of this machine's"
    assert [one["words"] for one in items if one["what"] == "admins"] == [
        "no admin is declared: whoever has a key of gpuadmin is one"
    ], "and nobody else is root"
    try:
        minji.gpuadmin("audit", "--record", "--yes", code=UNKNOWN)
        assert minji.gpuadmin("audit", code=UNKNOWN)["result"]["moved"] == []
        written = json.loads(record.read_text())["hosts"]
        cards = {host: next(iter(written[host]["network"])) for host in ("node1", "node2")}
        assert len(set(cards.values())) == 2, "each host has one of its own"
        # as it was recorded, the cards of both nodes were in the other one
        written["node1"]["network"], written["node2"]["network"] = (
            written["node2"]["network"],
            written["node1"]["network"],
        )
        record.write_text(json.dumps({"format": 1, "hosts": written}))
        minji.admin("storage1", DONE)
        minji.admin("node1", f"{OPEN} && gpasswd -a minji sudo")
        found = minji.gpuadmin("audit", code=6)["result"]
    finally:
        record.unlink(missing_ok=True)
        minji.admin("node1", f"gpasswd -d minji sudo; {CLOSED}")
    assert {one["host"] for one in found["moved"]} == {"node1", "node2"}
    assert any(
        f"{cards['node1']} (" in one["words"] and "was in node2, is in node1" in one["words"] for one in found["moved"]
    )
    assert [(one["key"], one["hosts"]) for one in found["power"]] == [("minji in group sudo", ["node1"])]
    readable = found["exposed"]["storage1"]
    assert readable["found"] == [{"path": f"{HOME}/.ssh/id_rsa", "owner": "minji", "mode": "0644"}] or [
        one["path"] for one in readable["found"]
    ] == [f"{HOME}/.ssh/id_rsa"]
    assert readable["unknown"] == {}
    assert all(found["exposed"][host]["found"] == [] for host in ("node1", "node2")), (
        "homes are looked at where they are"
    )


@pytest.mark.slow
def test_declared_admins_get_power_and_lose_it_by_themselves(cluster: Cluster) -> None:
    """An account with sudo on every host; after its last day sshd refuses it; who is declared no more is out."""

    def declared(until: str, name: str = "jiwon") -> str:
        return f"admins:\n  - {{name: {name}, uid: 901, keys: ['{cluster.key('jiwon')}'], until: {until}}}\n"

    with cluster.settings(lambda text: text + declared("2999-01-01")):
        assert "jiwon" in str(cluster.gpuadmin("provision", "--check")["hosts"]["node1"]["changed"])
        cluster.gpuadmin("provision", "--yes")
        for host in cluster.hosts():
            assert cluster.person("jiwon", host, "sudo -n id -un") == "root\n"
        assert cluster.gpuadmin("provision", "--check")["hosts"]["node1"]["changed"] == []
        assert cluster.gpuadmin("audit", code=UNKNOWN)["result"]["power"] == [], "the site declares them"
    with cluster.settings(lambda text: text + declared("2020-01-01")):
        power = cluster.gpuadmin("audit", code=6)["result"]["power"]
        assert {one["key"] for one in power} == {"sudo for jiwon in /etc/sudoers.d/gpuadmin-admins"}
        cluster.gpuadmin("provision", "--yes")
        assert cluster.ssh("jiwon", "node1", "true").returncode == 255, "the account has expired"
    with cluster.settings(lambda text: text + "admins: []\n"):
        cluster.gpuadmin("provision", "--yes")
        cluster.admin("node1", "! grep -s jiwon /etc/sudoers.d/gpuadmin-admins")
        assert cluster.ssh("jiwon", "node1", "true").returncode == 255
        assert cluster.gpuadmin("audit", code=UNKNOWN)["result"]["power"] == []
        keys = cluster.admin("node1", "cat /var/home/jiwon/.ssh/authorized_keys")
        assert cluster.key("jiwon").split()[1] not in keys, "what provision put there it takes away"
