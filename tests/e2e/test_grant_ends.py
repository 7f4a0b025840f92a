"""What still holds a GPU when its grant has ended is told, and ended by `idle --act`; a neighbour's goes on.

The driver is none (tests/support/fake_nvml); its GPUs are those of the lab, which can be opened and held.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import fake_driver
from tests.support.fake_driver import FIRST
from tests.support.holding_gpus import HOLD, NOBODY, act, background, held, policy, running, used_by
from tests.support.lab_cluster import Cluster
from tests.support.monitored import watched, within

__all__ = ["watched"]
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.needs("cc")]  # light hosts, which have GPUs
WHOLE = NOBODY.partition("[mig]")[0].replace("mig = 1", "mig = 0")
READ = "head -c 16 /dev/nvidia0 2>&1 | tail -c 60"


@pytest.fixture
def gated(watched: Cluster) -> Iterator[Cluster]:
    """node1 has GPUs that are given on request; minji has the first one and jiho the second. Nothing idle is ended."""
    users = watched.site / "users.yml"
    (watched.site / "mails.jsonl").unlink(missing_ok=True)  # of a session that went before
    watched.add("jiho")
    registry = yaml.safe_load(users.read_text())
    for user in registry["users"]:
        user["email"] = f"{user['name']}@example.org"
    users.write_text(yaml.safe_dump(registry))
    fake_driver.install(watched, "node1")
    used_by(watched, text=WHOLE)
    watched.admin("node1", "systemctl restart gpuadmin-metrics-sampler gpuadmin-metrics-mapper")

    def granted(text: str) -> str:
        text = text.replace("metrics: {", "metrics: {idle_notice_hours: 1, idle_stop: false, ")
        return f"{text}\ngpus: {{access: granted}}\n"

    with watched.settings(granted):
        watched.gpuadmin("provision", "--limit", "node1", "--yes")
        yield watched


def test_what_holds_a_gpu_after_its_grant_is_told_and_ended(gated: Cluster, tmp_path: Path) -> None:
    mails = tmp_path / "mails"
    other = background(gated, "minji", "exec sleep 100001")
    for name, gpu in (("minji", "0"), ("jiho", "1")):
        with gated.session(name, "node1"):
            gated.gpuadmin("grant", name, "node1", "--gpu", gpu, "--hours", "2", "--reason", "a deadline", "--yes")
    hers = background(gated, "minji", HOLD)
    his = background(gated, "jiho", HOLD.replace("nvidia0", "nvidia1"))
    used_by(gated, hers, text=WHOLE)
    within(120, lambda: held(gated) == {("minji", "")})
    said = gated.person("minji", "node1", "gpuadmin-me --language en")
    assert "GPU 0: yours until" in said
    assert "GPU 1: jiho until" in said
    assert "a deadline" in said
    assert policy(act(gated, mails, "--check")) == {}

    used_by(gated, text=WHOLE)  # she pauses, and can go on at any time
    gated.gpuadmin("revoke", "minji", "--yes")
    assert "Operation not permitted" in gated.person("minji", "node1", READ)
    assert running(gated, hers, other, his) == [True] * 3, "what was open stays open"
    assert "'Operation not permitted'" in gated.ssh("minji", "node1", "gpuadmin-me check --language en").stdout
    within(300, lambda: policy(act(gated, mails, "--check")) == {"minji": "tell"})
    with gated.session("minji", "node1"):
        assert policy(act(gated, mails, "--yes")) == {"minji": "tell"}
    (mail,) = mails.glob("*.eml")
    assert "minji@example.org" in mail.read_text()
    assert running(gated, hers, other, his) == [True] * 3

    # the notice is over
    found = within(300, lambda: (found := act(gated, mails, "--check"))["stopped"] and found)
    (would,) = found["stopped"]["node1"]
    assert (would["user"], would["uuid"], would["status"]) == ("minji", FIRST, "would stop")
    (done,) = act(gated, mails, "--yes")["stopped"]["node1"]
    assert (done["user"], done["status"]) == ("minji", "stopped"), done
    assert running(gated, hers, other, his) == [False, True, True]
    within(300, lambda: policy(act(gated, mails, "--check")) == {})
