"""Which hosts, which addresses, which ports."""

import socket
from pathlib import Path

import pytest

from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.lab import cluster, firmware, hosts, network, site, state
from gpuadmin.lab.progress import Progress

BASES = {("node", "13"): Path("/cache/node.qcow2"), ("ordinary", "13"): Path("/cache/ordinary.qcow2")}


@pytest.mark.parametrize(
    ("nodes", "ordinary", "expected"),
    [
        (0, 0, ["storage1 10.77.0.10"]),
        (2, 0, ["storage1 10.77.0.10", "node1 10.77.0.11", "node2 10.77.0.12"]),
        (1, 2, ["storage1 10.77.0.10", "node1 10.77.0.11", "plain1 10.77.0.51", "plain2 10.77.0.52"]),
    ],
)
def test_wanted_hosts(nodes: int, ordinary: int, expected: list[str]) -> None:
    assert [f"{one.name} {one.address}" for one in hosts.wanted_hosts(nodes, ordinary)] == expected


def test_too_many_hosts_are_refused() -> None:
    with pytest.raises(ConfigError):
        hosts.wanted_hosts(41, 0)


def test_groups_and_variables(lab: state.Lab) -> None:
    found = {host.name: site.groups(host) for host in lab.hosts}
    assert found == {"storage1": ("storage",), "node1": ("gpu", "golden"), "node2": ("gpu",), "plain1": ("gpu",)}
    node2 = lab.host("node2")
    assert site.variables(lab, node2) == {
        "ansible_host": "127.0.0.1",
        "ansible_port": node2.ssh_port,
        "gpuadmin_address": "10.77.0.12",
    }


def test_hosts_are_kept_when_fewer_are_asked_for(lab: state.Lab) -> None:
    assert hosts.with_hosts(lab, hosts.wanted_hosts(0, 0), {}, set()) == lab


def test_added_hosts_leave_the_others_alone(lab: state.Lab) -> None:
    more = hosts.with_hosts(lab, hosts.wanted_hosts(4, 1), BASES, set())
    assert more.hosts[: len(lab.hosts)] == lab.hosts
    assert [host.name for host in more.hosts[len(lab.hosts) :]] == ["node3", "node4"]


def test_everything_that_must_be_unique_is(lab: state.Lab) -> None:
    for attribute in ("name", "address", "ssh_port"):
        values = [getattr(host, attribute) for host in lab.hosts]
        assert len(set(values)) == len(values)
    macs = [mac for host in lab.hosts for mac in (host.uplink_mac, host.cluster_mac)]
    assert len(set(macs)) == len(macs)
    assert all(mac.startswith("52:54:00:") and len(mac) == 17 for mac in macs)


@pytest.mark.parametrize("firmware", ["", "-uefi"])
def test_all_but_ordinary_nodes_follow_the_firmware(lab: state.Lab, uefi_lab: state.Lab, firmware: str) -> None:
    assert {host.name: host.base for host in (uefi_lab if firmware else lab).hosts} == {
        **dict.fromkeys(("storage1", "node1", "node2"), f"/cache/node{firmware}.qcow2"),
        "plain1": "/cache/ordinary.qcow2",
    }


def up_with_uefi(directory: Path) -> None:
    cluster.up(
        "default", wanted=hosts.wanted_hosts(2, 1), memory_mib=1024, firmware="uefi", site_directory=directory,
        progress=Progress(),
    )  # fmt: skip


def test_a_lab_keeps_its_firmware(lab: state.Lab, tmp_path: Path) -> None:
    state.save(lab)
    with pytest.raises(ConfigError, match="BIOS, not by UEFI"):
        up_with_uefi(tmp_path)
    assert state.load("default") == lab


def test_without_ovmf_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "require", lambda *tools: None)
    monkeypatch.setattr(firmware, "PLACES", ())
    with pytest.raises(GpuadminError) as caught:
        up_with_uefi(tmp_path)
    assert "apt install ovmf" in str(caught.value.hint)
    assert state.load("default") is None


def test_a_port_that_was_taken_meanwhile_is_replaced(lab: state.Lab) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", lab.host("node1").ssh_port))
        other.listen()
        moved = hosts.with_free_ports(lab, set())
    changed = [old.name for old, new in zip(lab.hosts, moved.hosts, strict=True) if old != new]
    assert changed == ["node1"]


def test_free_port_avoids_what_is_taken() -> None:
    first = network.free_port()
    assert network.free_port({first}) != first


def test_unknown_host_is_an_error_that_names_the_known(lab: state.Lab) -> None:
    with pytest.raises(ConfigError) as caught:
        lab.host("node9")
    assert "storage1, node1, node2, plain1" in str(caught.value.hint)
