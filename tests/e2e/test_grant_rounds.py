"""A hundred grants begin and end in a row, on a node with a hundred people, while one of them opens all devices."""

import json
import statistics
from collections.abc import Iterator

import pytest

from tests.support import gated_cluster
from tests.support.gated_cluster import NODE, opened
from tests.support.lab_cluster import REPOSITORY, Cluster

pytestmark = pytest.mark.lab
PEOPLE, ROUNDS = 100, 100
CONTROL = "/run/systemd/system.control/user-{}.slice.d/50-DeviceAllow.conf"
#: Opens everything until it is told to stop; then says how often each opened.
GREEDY = """
import json, os
found = {"/dev/gpu-a": 0, "/dev/gpu-b": 0, "/dev/null": 0, "tries": 0}
while not os.path.exists("/tmp/enough"):
    found["tries"] += 1
    for path in ("/dev/gpu-a", "/dev/gpu-b", "/dev/null"):
        try:
            os.close(os.open(path, os.O_RDONLY))
            found[path] += 1
        except OSError:
            pass
print(json.dumps(found))
"""


@pytest.fixture
def gated(cluster: Cluster) -> Iterator[Cluster]:
    with gated_cluster.gated(cluster) as found:
        yield found


def test_a_hundred_grants_leave_nothing_behind(gated: Cluster) -> None:
    crowd = (
        f"for n in $(seq 30001 {30000 + PEOPLE}); do "
        "systemd-run --quiet --slice user-$n.slice --unit person-$n sleep 3600 || exit 1; done; "
        "systemctl stop gpuadmin-gpu-gate.timer; systemctl start gpuadmin-gpu-gate.service"
    )
    gated.admin(NODE, crowd)
    gated.person("minji", NODE, f"cat > /tmp/greedy.py <<'E'\n{GREEDY}E\n")
    gated.person("minji", NODE, "systemd-run --user --quiet --unit greedy sh -c 'python3 /tmp/greedy.py > /tmp/greedy'")
    script = (REPOSITORY / "tests/support/grant_rounds.py").read_text()
    gated.admin(NODE, f"cat > /root/rounds.py <<'E'\n{script}E\n")
    uid = gated.admin(NODE, "id -u minji").strip()
    took = sorted(json.loads(gated.admin(NODE, f"python3 -IB /root/rounds.py {uid} {ROUNDS}")))
    gated.person("minji", NODE, "touch /tmp/enough; while systemctl --user -q is-active greedy; do sleep 0.1; done")
    greedy = json.loads(gated.person("minji", NODE, "cat /tmp/greedy"))
    print(
        f"\n{len(took)} reconciliations with {PEOPLE} people: median {statistics.median(took):.0f} ms, "
        f"p95 {took[int(0.95 * len(took))]:.0f} ms, most {took[-1]:.0f} ms; {greedy}"
    )
    assert greedy["/dev/gpu-a"] > 0, "while it was granted"
    assert greedy["/dev/gpu-b"] == 0
    assert greedy["/dev/null"] == greedy["tries"] > 0
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", ""]
    assert len(took) == 2 * ROUNDS
    # nothing is left of them: hers is what somebody has who never had a grant
    lists = gated.admin(NODE, f"cat {CONTROL.format(uid)} | md5sum; cat {CONTROL.format(30001)} | md5sum").splitlines()
    assert lists[0] == lists[1]
