"""Time: zone, service, servers, and how far off."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import clock

from tests.unit.node.host_settings.conftest import Host

ACTIVE = "inactive\nactive\n" + "inactive\n" * 5


@pytest.mark.parametrize(("offset", "words"), [("0.000012", "less than 0.1 s"), ("-3.21", "3.2 s"), ("x", "unknown")])
def test_a_clock_that_is_off_shows(host: Host, offset: str, words: str) -> None:
    place = host(
        {"etc/chrony/chrony.conf": "pool 2.debian.pool.ntp.org iburst\nmakestep 1 3\n"},
        {
            "timedatectl show": "Timezone=Asia/Seoul\nLocalRTC=no\nNTPSynchronized=yes\n",
            "systemctl is-active": ACTIVE,
            "chronyc": f"A,x,3,1.2,{offset},0.1\n",
        },
    )
    assert clock.clock(place) == {
        "zone": "Asia/Seoul", "in step": "yes", "hardware clock in local time": "no", "service": "chrony",
        "servers": "pool 2.debian.pool.ntp.org iburst", "off by": words,
    }  # fmt: skip


def test_a_systemd_that_does_not_answer_is_unknown(host: Host) -> None:
    with pytest.raises(NodeError):
        clock.clock(host())
