"""What is wrong with a host itself, and whether what to do about it can work."""

from ansible_collections.gpuadmin.node.plugins.module_utils.causes.machine import machine


def test_a_clock_that_nothing_keeps() -> None:
    # to restart a service that is not installed is not a remedy
    (found,) = machine({"node": True, "clock": {"synchronized": False}, "late": []})
    assert found.code == "clock-free"
    assert "timedatectl set-ntp true" in found.remedy
    assert "install" in found.remedy
