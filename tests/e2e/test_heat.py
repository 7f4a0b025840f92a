"""How hot a room is, and what it draws, from a BMC to Prometheus: OpenIPMI's simulator on the monitor host."""

import base64
import json

import pytest

from tests.support import simulated_bmc
from tests.support.lab_cluster import Cluster
from tests.support.monitored import asked, watched, within
from tests.support.simulated_bmc import WORKAROUND, Sensor

__all__ = ["watched"]
pytestmark = pytest.mark.lab
MONITOR, PORT, PLACE = "storage1", 6230, "/run/simulated-bmc"
#: No address of loopback: the unit's filter has those in any case.
ADDRESS = "10.9.0.1"
SENSORS = [
    Sensor("Inlet Temp", kind=1, unit=1, raw=24, upper=45),
    Sensor("Fan1A", kind=4, unit=18, raw=45, factor=100, lower=5),
    Sensor("PS2 Status", kind=8, bits=(0, 3)),
]
#: The root of a light host is read-only, too. What apt says of it is the result.
INSTALL = (
    "btrfs property set -ts / ro false; "
    "DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends openipmi >/dev/null; code=$?; "
    "btrfs property set -ts / ro true; exit $code"
)
KNOWN = (
    "stat -c %U:%a /var/lib/gpuadmin/monitoring/ipmi.yml; "
    "systemctl show -P IPAddressAllow prometheus-ipmi-exporter; "
    "ss -Hltn 'sport = :9290' | awk '{print $4}'; "
    "grep -rls s[e]ldom-said /etc /run/credentials /var/lib/gpuadmin /proc/[0-9]*/cmdline /proc/[0-9]*/environ"
)


def start_bmc(cluster: Cluster) -> None:
    """A BMC that has the password seldom-said."""
    cluster.admin(MONITOR, INSTALL)
    cluster.admin(MONITOR, f"mkdir -p {PLACE}; ip address replace {ADDRESS}/32 dev lo")
    for name, text in simulated_bmc.files(PLACE, PORT, SENSORS).items():
        own = text.replace('"secret"', '"seldom-said"').replace("127.0.0.1", ADDRESS)
        coded = base64.b64encode(own.encode()).decode()
        cluster.admin(MONITOR, f"echo {coded} | base64 -d >{PLACE}/{name}; chmod 755 {PLACE}/chassis 2>/dev/null; true")
    cluster.admin(MONITOR, f"echo 1 >{PLACE}/power")
    command = f"ipmi_sim -n -c {PLACE}/lan.conf -f {PLACE}/commands -s {PLACE}"
    cluster.admin(MONITOR, f"systemd-run --quiet --unit=simulated-bmc --collect {command}")


@pytest.mark.slow
def test_a_room_is_measured_by_its_bmcs(watched: Cluster) -> None:
    start_bmc(watched)
    password = watched.site.parent / "sensors-password"
    password.write_text("seldom-said\n")
    password.chmod(0o600)
    own = watched.site / "inventory/own.yml"
    bmc = {"address": f"{ADDRESS}:{PORT}", "kind": "ipmi"}
    own.write_text(json.dumps({"gpu": {"hosts": {"node2": {"bmc": bmc, "place": "room 301"}}}}))
    sensors = {"user": "admin", "password_file": str(password), "workarounds": [WORKAROUND]}
    more = f"\nbmc: {json.dumps({'sensors': sensors})}\n"
    try:
        with watched.settings(
            lambda text: text.replace("metrics: {", "metrics: {power_budgets: {room 301: 12000}, ") + more
        ):
            watched.gpuadmin("provision", "--limit", MONITOR, "--yes")
            (inlet,) = within(300, lambda: asked(watched, "max by (instance, place, name) (ipmi_temperature_celsius)"))
            assert inlet == {"instance": "node2", "place": "room 301", "name": "Inlet Temp", "value": 24}
            (lost,) = within(300, lambda: asked(watched, 'ALERTS{alertname="SupplyLost"}'))
            assert (lost["instance"], lost["name"]) == ("node2", "PS2 Status")
            assert asked(watched, "place:budget_watts") == [
                {"__name__": "place:budget_watts", "place": "room 301", "value": 12000}
            ]
            assert watched.gpuadmin("top")["result"]["power"]["room 301"]["budget"] == 12000
            mode, addresses, listens, *secret = watched.admin(MONITOR, KNOWN).splitlines()
            assert (mode, listens) == ("root:600", "127.0.0.1:9290")
            assert f"{ADDRESS}/32" in addresses
            places = {one for one in secret if "/run/credentials/" not in one}
            assert places <= {"/var/lib/gpuadmin/monitoring/ipmi.yml"}, "the password is nowhere else"
            again = watched.gpuadmin("provision", "--limit", MONITOR, "--yes")
            assert again["hosts"][MONITOR]["status"] == "ok"
        # a site that wants it no more has the password nowhere
        watched.gpuadmin("provision", "--limit", MONITOR, "--yes")
        state = watched.admin(
            MONITOR, f"systemctl is-active prometheus-ipmi-exporter; {KNOWN.rpartition(';')[2]}; true"
        )
        assert state.split() == ["inactive"]
    finally:
        own.unlink()
        watched.admin(MONITOR, f"systemctl stop simulated-bmc; ip address del {ADDRESS}/32 dev lo")
