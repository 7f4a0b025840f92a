"""Who holds a GPU without using it: seen, told, and ended; and whose files fill a node. Told to themselves as well.

An hour of the policy has a few seconds here, and the collector's counters are added to; the rest is as on a site. There
is not a driver (tests/support/fake_nvml), and mails are files.
"""

import shlex
from pathlib import Path

import pytest
import yaml

from tests.support import fake_driver
from tests.support.fake_driver import FIRST
from tests.support.holding_gpus import HOLD, act, background, held, policy, running, used_by
from tests.support.lab_cluster import MAKE_IMAGE, Cluster
from tests.support.monitored import asked, watched, within

__all__ = ["watched"]
pytestmark = [pytest.mark.lab, pytest.mark.needs("cc")]
POLICY = "metrics: {idle_hours: 1, idle_notice_hours: 1, idle_stop: true, idle_exempt: [junho], "
AGAIN = (
    "systemctl stop gpuadmin-disk-usage; rm -f /var/lib/gpuadmin/metrics/disk.json; sync; "
    "systemctl start gpuadmin-disk-usage"
)
TRAIN = f"docker run -d --name train --user 1000 --device nvidia.com/gpu=0 tiny /bin/sh -c '{HOLD}'"
#: As if everybody had held what they hold for more than an hour. The service is away for less than its looks may be.
HELD_LONG = """
import json
path = "/var/lib/gpuadmin/metrics/counters.json"
found = json.load(open(path))
for use in found["uses"]:
    use[2] += 4000
    use[3] += 4000
json.dump(found, open(path, "w"))
"""


@pytest.fixture
def gpus(watched: Cluster) -> Cluster:
    """The cluster with minji and junho, who have addresses; a policy that spares junho; and GPUs on node1."""
    settings, users = watched.site / "gpuadmin.yml", watched.site / "users.yml"
    settings.write_text(settings.read_text().replace("metrics: {", POLICY))
    (watched.site / "mails.jsonl").unlink(missing_ok=True)  # of a session that went before
    watched.add("junho")
    registry = yaml.safe_load(users.read_text())
    for user in registry["users"]:
        user["email"] = f"{user['name']}@example.org"
    users.write_text(yaml.safe_dump(registry))
    fake_driver.install(watched, "node1")
    used_by(watched)
    watched.admin("node1", "systemctl restart gpuadmin-metrics-sampler gpuadmin-metrics-mapper")
    fake_driver.refreshed(watched, "node1")
    return watched


@pytest.mark.long
@pytest.mark.story("top", "idle")
def test_what_holds_a_gpu_unused_is_told_and_ended_and_nothing_else(gpus: Cluster, tmp_path: Path) -> None:
    mails = tmp_path / "mails"
    hers, other = background(gpus, "minji", HOLD), background(gpus, "minji", "exec sleep 100001")
    exempt = background(gpus, "junho", HOLD)
    gpus.person("minji", "node1", f"{MAKE_IMAGE} && {TRAIN}")
    inside = int(gpus.person("minji", "node1", "docker inspect --format '{{.State.Pid}}' train"))
    used_by(gpus, hers, exempt, inside)
    everybody = {("minji", ""), ("minji", "train"), ("junho", "")}
    within(300, lambda: held(gpus) == everybody)
    said = gpus.person("minji", "node1", "gpuadmin-me --language en")
    assert "0 NVIDIA H100 80GB HBM3" in said
    assert "train" in said
    assert "junho" not in said

    counted = "gpuadmin_gpu_measured_seconds_total > 0"
    within(300, lambda: {one["user"] for one in asked(gpus, counted)} >= {"minji", "junho"})
    gpus.admin(
        "node1",
        f"systemctl stop gpuadmin-metrics-mapper; python3 -c {shlex.quote(HELD_LONG)}; "
        "systemctl start gpuadmin-metrics-mapper",
    )
    known = {"minji": "tell", "junho": "exempt"}
    within(600, lambda: {one["user"]: one["policy"] for one in gpus.gpuadmin("idle")["result"]["idle"]} == known)
    # a check tells nobody, and remembers nothing
    within(300, lambda: policy(act(gpus, mails, "--check")) == {"minji": "tell", "junho": "nothing"})
    assert not (gpus.site / "mails.jsonl").exists()
    assert not mails.exists()
    with gpus.session("minji", "node1"):
        assert policy(act(gpus, mails, "--yes"))["minji"] == "tell"
    (mail,) = mails.glob("*.eml")
    assert "minji@example.org" in mail.read_text()
    assert running(gpus, hers, other, inside, exempt) == [True] * 4

    # the notice is over
    what = within(300, lambda: (found := act(gpus, mails, "--check"))["stopped"] and found)
    (would,) = what["stopped"]["node1"]
    assert (would["user"], would["status"], would["processes"]) == ("minji", "would stop", 2)
    assert running(gpus, hers, other, inside, exempt) == [True] * 4, "a check ends nothing"
    (done,) = act(gpus, mails, "--yes")["stopped"]["node1"]
    assert (done["user"], done["uuid"], done["status"]) == ("minji", FIRST, "stopped"), done
    assert running(gpus, hers, other, inside, exempt) == [False, True, False, True]
    used_by(gpus, exempt)
    within(300, lambda: held(gpus) == {("junho", "")})
    within(300, lambda: act(gpus, mails, "--check")["stopped"] == {})  # Prometheus hears of it a moment later
    again = act(gpus, mails, "--yes")
    assert (again["stopped"], len(list(mails.glob("*.eml")))) == ({}, 1), "nothing is left to do"
    assert running(gpus, other, exempt) == [True, True]


@pytest.mark.long
@pytest.mark.story("disk")
def test_whose_files_fill_a_disk_is_told_admins_and_each_person_theirs(watched: Cluster) -> None:
    watched.add("junho")
    watched.person("minji", "node1", "mkdir data && head -c 3000000 /dev/urandom >data/hers")
    watched.person("junho", "node1", "mkdir secret && head -c 2000000 /dev/urandom >secret/his && chmod 700 .")
    watched.person("minji", "node1", MAKE_IMAGE)
    for host in ("storage1", "node1"):
        # five minutes after a boot the timer has measured: it would leave what is as new as that
        watched.admin(host, AGAIN)
    found = watched.gpuadmin("disk")["result"]
    homes = {name: places["homes"] for name, places in found["hosts"]["storage1"]["people"].items()}
    assert 3_000_000 <= homes["minji"]["bytes"] < 50_000_000
    assert 2_000_000 <= homes["junho"]["bytes"] < 50_000_000
    assert found["hosts"]["node1"]["people"]["minji"]["docker"]["bytes"] > 0
    (hers,) = [one for host in watched.gpuadmin("disk", "minji")["result"]["hosts"].values() for one in [host["people"]]
               if "homes" in one.get("minji", {})]  # fmt: skip
    assert list(hers) == ["minji"]
    assert any(one["path"].endswith("/data") for one in hers["minji"]["homes"]["largest"])

    for name, own, others in (("minji", "data", ("secret", "junho")), ("junho", "secret", ("/data", "minji"))):
        said = watched.person(name, "node1", "gpuadmin-me disk --language en")
        assert f"/home/{name}/{own}" in said
        assert "Docker on this node" in said
        assert [other for other in others if other in said] == []
    refused = watched.ssh("junho", "node1", "cat /var/lib/gpuadmin/disk-of-people/minji.json")
    assert "Permission denied" in refused.stderr
