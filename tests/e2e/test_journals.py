"""What was logged when it broke: journals on the monitor host, of hosts that are dead, that forge, and that flood.

systemd-journal-upload, nginx and systemd-journal-remote are the distribution's.
"""

import json
from typing import Any

import pytest

from tests.support.lab_cluster import Cluster
from tests.support.monitored import watched, within

__all__ = ["watched"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]
KEPT = "/var/log/gpuadmin-journals"
#: A line in the journal's own protocol, which says that another host wrote it.
FORGE = "printf 'MESSAGE=%s\\n_HOSTNAME=node1\\nSYSLOG_IDENTIFIER=forger\\n' forged-by-root | logger --journald"


def lines(cluster: Cluster, *arguments: str) -> list[str]:
    """What the verb shows, without what sudo says of the commands of this test."""
    return [one for one in cluster.gpuadmin("logs", *arguments)["result"]["output"] if "COMMAND=/" not in one]


def lines_with(cluster: Cluster, word: str, *arguments: str) -> Any:
    """Lines with a word, once they have arrived."""
    return within(120, lambda: lines(cluster, *arguments, "--grep", word, "--since", "-1h"))


def export(number: int, name: str) -> str:
    """An entry as systemd-journal-upload sends it."""
    fields = {"__REALTIME_TIMESTAMP": 1795900000000000 + number, "__MONOTONIC_TIMESTAMP": 1000 + number,
              "_BOOT_ID": "0" * 31 + "1", "_HOSTNAME": name, "MESSAGE": f"sent-by-hand {number}"}  # fmt: skip
    return "".join(f"{key}={value}\n" for key, value in fields.items()) + "\n"


@pytest.mark.long
@pytest.mark.story("logs")
def test_what_a_host_logged_is_read_when_it_is_dead(watched: Cluster) -> None:
    watched.admin("node2", "logger -p kern.err 'NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus'")
    (line,) = lines_with(watched, "Xid.*fallen off", "node2")
    assert line.startswith("node2 ")
    # what somebody's program logs is theirs; that they tried to become root is the admins' to know
    watched.person("minji", "node2", "logger dear-diary; echo wrong | sudo -S id || true")
    assert any("minji" in one for one in lines_with(watched, "authentication failure", "node2"))
    assert lines(watched, "--grep", "dear-diary") == []
    assert lines_with(watched, "Accepted publickey for minji", "node2")

    # a host's lines are under the name of its certificate, whatever they say, and nobody else is let in
    watched.admin("node2", FORGE)
    assert all(one.startswith("node2 ") for one in lines_with(watched, "forged-by-root"))
    body = json.dumps(export(1, "node1"))
    send = (
        f"printf '%b' {body} | curl -sS -o /dev/null -w '%{{http_code}}' "
        "--cacert /etc/gpuadmin/metrics/authority.pem -H 'Content-Type: application/vnd.fdo.journal' "
        "--data-binary @- https://10.77.0.10:19532/upload "
    )
    own = "/var/lib/gpuadmin/metrics_tls"
    assert watched.admin("node2", send) == "400", "no certificate"
    exporter = f"--cert {own}/exporter.pem --key {own}/exporter.key"
    assert watched.admin("node2", send + exporter) == "400", "one for another use"
    assert watched.admin("node2", send + f"--cert {own}/sender.pem --key {own}/sender.key") == "202"
    assert all(one.startswith("node2 ") for one in lines(watched, "--grep", "sent-by-hand"))

    # a monitor host that is away costs nothing but time
    watched.admin("storage1", "systemctl stop gpuadmin-dashboard-nginx")
    watched.admin("node1", "logger -t quiet while-it-was-away")
    watched.admin("storage1", "systemctl start gpuadmin-dashboard-nginx")
    assert [one for one in lines_with(watched, "while-it-was-away", "node1") if " quiet" in one]

    # one that floods loses its own oldest lines alone
    before = lines(watched, "node1", "--grep", "session opened", "--lines", "2000")
    full = "head -c 200M /dev/zero >remote@$n.journal; touch -d -1hour remote@$n.journal"  # the next lines come after
    flood = f"cd {KEPT}/node2 && for n in 1 2 3; do {full}; done"
    watched.admin("storage1", flood)
    watched.admin("storage1", "systemctl start gpuadmin-logs.service")
    held = int(watched.admin("storage1", f"du -sm {KEPT}/node2").split()[0])
    assert held <= 512
    assert before
    assert set(before) - set(lines(watched, "node1", "--grep", "session opened", "--lines", "2000")) == set()
    watched.admin("storage1", f"rm -f {KEPT}/node2/remote@[123].journal")

    watched.lab("power-cut", "node2")
    (line,) = lines(watched, "node2", "--grep", "Xid.*fallen off")
    assert "GPU has fallen off the bus" in line
