"""GPUs for those who were granted one: two people on one node, ssh open."""

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.support import gated_cluster
from tests.support.gated_cluster import NODE, PROBE, kept, open_again, opened
from tests.support.granting import grants_in_a_row
from tests.support.lab_cluster import MAKE_IMAGE, Cluster

pytestmark = [pytest.mark.lab, pytest.mark.root]  # light hosts, which have GPUs


@pytest.fixture
def gated(provisioned: Cluster) -> Iterator[Cluster]:
    with gated_cluster.gated(provisioned) as found:
        yield found


class Tries:
    """Somebody logs in again and again, and opens what they can: what each login that got in has opened."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.seen: list[str] = []
        self._over = False
        self._thread = threading.Thread(target=self._try, args=(cluster, name), daemon=True)
        self._thread.start()

    def _try(self, cluster: Cluster, name: str) -> None:
        while not self._over:
            done = cluster.ssh(name, NODE, PROBE)
            if done.returncode == 0:
                self.seen.append(done.stdout.strip())

    def end(self) -> list[str]:
        """Stop once they have got in."""
        end = time.monotonic() + 120
        while not self.seen and time.monotonic() < end:
            time.sleep(0.1)  # between two looks at what the thread has seen
        self._over = True
        self._thread.join()
        return self.seen


def test_a_lock_ends_what_was_granted_an_unknown_service_is_named_and_open_is_open(gated: Cluster) -> None:
    with kept(gated, "minji") as shell:
        gated.gpuadmin("grant", "minji", NODE, "--gpu", "0", "--hours", "1", "--yes")
        assert shell.ask(PROBE) == "0"
        said = gated.gpuadmin("lock-user", "minji", "--yes")
        assert any("end the grant" in one for one in said["result"]["users"]["minji"][NODE]["operations"])
        assert shell.ask(PROBE) == ""
        gated.gpuadmin("unlock-user", "minji", "--yes")
        assert shell.ask(PROBE) == ""
        assert gated.gpuadmin("grants")["result"]["hosts"][NODE]["grants"] == []

        look = "systemctl start gpuadmin-gpu-gate; cat /run/gpuadmin/gpu-gate-tried.json"
        gated.admin(NODE, "systemd-run --quiet --uid=minji --unit=hub sleep 600")
        try:
            assert "hub.service: /dev/nvidia0 can be opened: minji" in gated.admin(NODE, look)
        finally:
            gated.admin(NODE, "systemctl stop hub")
        assert "hub" not in gated.admin(NODE, look)

        open_again(gated)
        assert shell.ask(PROBE) == "01", "open means open, also for what ran before"


def test_a_gpu_is_given_and_taken_back(gated: Cluster) -> None:
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", ""]
    gated.person("minji", NODE, MAKE_IMAGE)
    gated.person("minji", NODE, "docker run -d --name before --device /dev/nvidia0 tiny /bin/sleep 600")
    inside = f'docker exec before /bin/sh -c "{PROBE.replace("$", chr(92) + "$")}"'
    assert gated.person("minji", NODE, inside).strip() == ""
    until = (datetime.now() + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    gated.gpuadmin("grant", "minji", NODE, "--gpu", "0", "--until", until, "--reason", "a deadline", "--yes")
    assert opened(gated, "minji") == "0"
    assert gated.person("minji", NODE, inside).strip() == "0"
    assert opened(gated, "jiho") == ""
    (row,) = gated.gpuadmin("grants")["result"]["hosts"][NODE]["grants"]
    assert (row["user"], row["gpus"], row["reason"]) == ("minji", ["0"], "a deadline")
    refused = gated.gpuadmin("grant", "jiho", NODE, "--gpu", "0", "--hours", "1", "--yes", code=3)
    assert "granted to minji" in str(refused["hosts"][NODE])
    # what ends takes nothing from a neighbour
    gated.gpuadmin("grant", "jiho", NODE, "--gpu", "1", "--hours", "1", "--yes")
    gated.gpuadmin("revoke", "minji", "--yes")
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", "1"]
    # nothing of systemd's takes it away or opens more
    for command in ("daemon-reload", "daemon-reexec", "restart systemd-logind"):
        gated.admin(NODE, f"systemctl {command}")
        assert [opened(gated, name) for name in ("minji", "jiho")] == ["", "1"], command
    # a gate that somebody opened by hand is closed by the next run, and is said to be open where it cannot be
    gated.admin(NODE, "systemctl revert user-20000.slice")
    gated.admin(NODE, "systemctl set-property --runtime ssh.service 'DeviceAllow=char-* rwm'")
    gated.admin(NODE, "systemctl start gpuadmin-gpu-gate.service")
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", "1"]
    assert gated.gpuadmin("status", "--limit", NODE)["result"]["hosts"][NODE]["gpu_gate"] == []
    # a power cut, and an end while the node is off
    gated.gpuadmin("grant", "minji", NODE, "--gpu", "0", "--hours", "1", "--yes")
    (hers,) = [one for one in gated.gpuadmin("grants")["result"]["hosts"][NODE]["grants"] if one["user"] == "minji"]
    path, over = f"/var/lib/gpuadmin/gpu-grants/{hers['id']}.json", int(time.time()) + 20
    gated.admin(NODE, f"sed -i 's/{int(hers['until'])}/{over}/' {path} && grep -q {over} {path}")
    gated.lab("power-cut", NODE)
    assert time.time() < over
    time.sleep(max(0.0, over - time.time()))  # until hers is over
    tries = {name: Tries(gated, name) for name in ("minji", "jiho")}
    gated.lab("start", NODE)
    assert {name: set(one.end()) for name, one in tries.items()} == {"minji": {""}, "jiho": {"1"}}, "from the first on"
    (left,) = gated.gpuadmin("grants")["result"]["hosts"][NODE]["grants"]
    assert left["user"] == "jiho"


@pytest.mark.slow
def test_many_grants_leave_nothing_and_open_nothing(gated: Cluster) -> None:
    seen = grants_in_a_row(gated, NODE, rounds=100, people=20)
    assert seen.drift == {}
    assert seen.opened == ["/dev/nvidia1"], "hers, and never what others were granted meanwhile"
    assert seen.tries > 10_000
