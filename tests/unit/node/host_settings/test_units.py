"""Units and timers."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import units
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings.place import Settings

from tests.unit.node.host_settings.conftest import Host

PROGRAMS = {
    "systemctl list-unit-files": "ssh.service enabled enabled\nx.service static -\nx.timer enabled enabled\n"
    "user@20000.service enabled -\ncron.service masked enabled\n",
    "systemctl list-units --failed": "y.service loaded failed failed Y\nuser@20000.service loaded failed failed\n",
    "systemctl list-units --type=timer": "x.timer loaded active waiting X\nz.timer loaded active waiting Z\n",
}


def test_units_that_somebody_decided(host: Host, tmp_path: Path) -> None:
    place = host({"etc/systemd/system/ssh.service.d/x.conf": "[Service]\nEnvironment=TOKEN=x\n"}, PROGRAMS)
    (tmp_path / "etc/systemd/system/cron.service").symlink_to("/dev/null")
    assert units.units(place) == {
        "ssh.service": "enabled",
        "cron.service": "masked",
        "failed y.service": "yes",
        "/etc/systemd/system/ssh.service.d/x.conf": "[Service]\nEnvironment=TOKEN=x",
    }
    assert units.timers(place) == {"x.timer": "enabled, active", "z.timer": "not enabled by itself, active"}


def test_snaps_are_told_by_name_and_not_by_what_refreshes_bring(host: Host) -> None:
    """snapd writes a unit for each revision, and services that name it; which snaps are there counts."""

    def settings(*revisions: int, snap: str = "lxd") -> Settings:
        named = [f"snap-{snap}-{one}.mount" for one in revisions]
        service = f"[Unit]\nRequires={named[-1]}\nAfter={named[-1]} snapd.apparmor.service\n"
        files = {f"etc/systemd/system/{name}": f"[Mount]\nWhat={name}\n" for name in named}
        listed = {"systemctl list-unit-files": "".join(f"{name} enabled enabled\n" for name in named)}
        failed = {"systemctl list-units --failed": f"{named[0]} loaded failed failed\n"}
        given = files | {f"etc/systemd/system/snap.{snap}.daemon.service": service}
        return units.units(host(given, PROGRAMS | listed | failed))

    assert settings(24322) == settings(24322, 28373)
    assert settings(24322, snap=r"a\x2db-2") == settings(1, snap=r"a\x2db-2")
    assert settings(24322)["snap-lxd.mount"] == "enabled"
    assert settings(24322)["failed snap-lxd.mount"] == "yes"
    assert settings(24322) != settings(24322, snap="docker")


def test_a_systemd_that_does_not_answer_is_unknown(host: Host) -> None:
    for programs in ({}, {"systemctl": 1}):
        with pytest.raises(NodeError):
            units.units(host(programs=programs))
        with pytest.raises(NodeError):
            units.timers(host(programs=programs))
