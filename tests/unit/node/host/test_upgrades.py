"""What waits on a host, by apt itself; what is held; what is upgraded of it; and what is looked at then."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host import upgrades
from ansible_collections.gpuadmin.node.plugins.module_utils.host.operations import UpgradeOrder, upgrade_host
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import Root
from ansible_collections.gpuadmin.node.plugins.module_utils.root.packages import Done

from gpuadmin.common.records.hosts import Update, Updates, Waiting
from tests.support.package_repository import Package, index

INSTALLED = {
    "sample": "1.0",
    "tool": "1.0",
    "meta": "1",
    "libcuda1": "550-1",
    "nvidia-container-toolkit": "1",
    "kept": "1",
}
STABLE = [
    Package("sample", "1.1"), Package("meta", "2", "newdep"), Package("newdep", "1"), Package("libcuda1", "560-1"),
    Package("nvidia-container-toolkit", "2"), Package("kept", "2", "ghost"),
]  # fmt: skip
SECURITY = [Package("tool", "1.1", "newdep")]
TOOL = Update("1.0", "1.1", True)
REST = {
    "sample": Update("1.0", "1.1", False), "meta": Update("1", "2", False), "newdep": Update("", "1", False),
    "nvidia-container-toolkit": Update("1", "2", False),
}  # fmt: skip


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """A host in a directory, with apt's lists of two repositories. What would be run in the unit is in the list."""
    lines = index(tmp_path / "stable", STABLE, suite="stable") + index(
        tmp_path / "security", SECURITY, suite="stable-security", label="Lab-Security"
    )
    root = tmp_path / "root"
    for one in ("etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/lib/dpkg", "var/cache/apt/archives/partial"):
        (root / one).mkdir(parents=True)
    (root / "etc/apt/sources.list").write_text(lines)
    status = root / "var/lib/dpkg/status"
    status.write_text("".join(
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: all\nMaintainer: x\n"
        "Description: x\n\n" for name, version in INSTALLED.items()
    ))  # fmt: skip
    options = (
        "apt-get",
        "--yes",
        "-o",
        f"Dir={root}",
        "-o",
        f"Dir::State::status={status}",
        "-o",
        "Debug::NoLocking=1",
    )
    subprocess.run([*options, "-qq", "update"], check=True)
    ran: list[Sequence[str]] = []
    monkeypatch.setattr(upgrades.packages, "APT", options)
    monkeypatch.setattr(upgrades.packages, "in_unit", lambda command, *_: ran.append(command) or Done(0, ""))
    monkeypatch.setattr(upgrades, "installed_packages", lambda: sorted(INSTALLED))
    for name in ("PINS", "BEFORE", "COUNTED"):
        monkeypatch.setattr(upgrades, name, str(tmp_path / name))
    monkeypatch.setattr(upgrades, "interrupted", lambda: False)
    monkeypatch.setattr(upgrades, "failed_units", lambda: ["old.service", "user@1000.service"])
    monkeypatch.setattr(upgrades.kernels, "boot_problems", list)
    monkeypatch.setattr(upgrades.guard, "inspect", lambda path: Root(path, None, False))
    monkeypatch.setattr(upgrades, "os_release", lambda: {"ID": "debian"})
    return ran


@pytest.mark.needs("dpkg-deb")
def test_what_waits_is_what_apt_would_do_without_the_driver(apt: list[Sequence[str]]) -> None:
    assert upgrades.plan(False)[0] == {**REST, "tool": TOOL}
    assert upgrades.plan(False, hold=False)[0]["libcuda1"] == Update("550-1", "560-1", False)
    assert upgrades.plan(True)[0] == {"newdep": REST["newdep"], "tool": TOOL}, "with what it needs"
    assert apt == []


@pytest.mark.needs("dpkg-deb")
@pytest.mark.holds("what is upgraded is what was shown")
def test_only_what_was_shown_is_upgraded(apt: list[Sequence[str]]) -> None:
    with pytest.raises(NodeError, match=r"more waits than was shown \(tool\): run it again"):
        upgrades.upgrade(True, {"tool": "1.0.9", "newdep": "1"})
    assert apt == []
    done = upgrades.upgrade(True, {"tool": "1.1", "newdep": "1", "since": "gone"})
    assert sorted(done) == ["newdep (new) → 1", "tool 1.0 → 1.1"]
    assert [command[-4:] for command in apt] == [("--only-upgrade", "--no-remove", "install", "tool=1.1")]
    assert json.loads(Path(upgrades.BEFORE).read_text()) == ["old.service"]


@pytest.mark.needs("dpkg-deb")
def test_an_interrupted_dpkg_goes_on_first(apt: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "interrupted", lambda: True)
    upgrades.upgrade(True, {"tool": "1.1", "newdep": "1"})
    assert [command[0] for command in apt] == ["dpkg", "apt-get"]
    assert apt[0][-2:] == ("--configure", "-a")


@pytest.mark.needs("dpkg-deb")
@pytest.mark.holds("what an upgrade broke is not taken for how the host was before the next one")
def test_what_failed_since_the_upgrade(apt: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert upgrades.problems() == []
    upgrades.upgrade(True, {"tool": "1.1", "newdep": "1"})
    monkeypatch.setattr(upgrades, "failed_units", lambda: ["old.service", "new.service", "user@1.service"])
    for _ in range(2):
        assert upgrades.problems() == ["new.service has failed since the upgrade"]
        upgrades.upgrade(True, {"tool": "1.1", "newdep": "1"})
    monkeypatch.setattr(upgrades, "failed_units", list)
    assert upgrades.problems() == []


@pytest.mark.needs("dpkg-deb")
@pytest.mark.holds("a kernel without the driver's module is not booted")
def test_a_kernel_without_the_module_is_a_problem(apt: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades.kernels, "boot_problems", lambda: ["kernel 6.13 has no module nvidia"])
    assert upgrades.problems() == ["kernel 6.13 has no module nvidia"]


@pytest.mark.needs("dpkg-deb")
@pytest.mark.holds("a node with images is not upgraded in place")
def test_who_is_not_upgraded(apt: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert upgrades.look(True, fetch=True).held == ["libcuda1"]
    assert [command[-1] for command in apt] == ["update"]
    monkeypatch.setattr(upgrades, "os_release", lambda: {"ID": "fedora"})
    with pytest.raises(NodeError, match="Debian and Ubuntu alone"):
        upgrades.look(False, fetch=False)
    monkeypatch.setattr(upgrades.guard, "inspect", lambda path: Root(path, "/root", True))
    with pytest.raises(NodeError, match=r"its root is read-only\. Nodes with images: .*push-image"):
        upgrades.look(False, fetch=False)


@pytest.mark.needs("dpkg-deb")
def test_what_waits_is_counted_with_its_first_day(apt: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "reboot_reasons", lambda: ["kernel 6.13"])
    assert upgrades.waiting() is None
    Path(upgrades.COUNTED).write_text('{"tool": 5, "upgraded": 3}')
    upgrades.main()
    assert upgrades.waiting() == Waiting(1, 5, ["kernel 6.13"])
    monkeypatch.setattr(upgrades.guard, "inspect", lambda path: Root(path, "/root", True))
    assert upgrades.waiting() is None


@pytest.mark.holds("libraries of the driver are not upgraded below a running module")
def test_what_is_the_driver() -> None:
    driver = ["nvidia-driver-cuda", "libnvidia-ml1", "libcuda1", "nvidia-kernel-open-dkms", "linux-modules-nvidia-580",
              "cuda-drivers", "firmware-nvidia-gsp", "xserver-xorg-video-nvidia"]  # fmt: skip
    others = ["libnvidia-container1", "nvidia-container-toolkit", "linux-image-amd64", "cuda-toolkit-12", "libcudart12"]
    assert upgrades.held([*driver, *others]) == driver


@pytest.mark.parametrize(
    ("line", "update"),
    [
        ("Inst libc6 [2.41-1] (2.41-2 Debian:13.2/stable, Debian-Security:13/stable-security [amd64])",
         ("2.41-1", "2.41-2", True)),
        ("Inst vim [1:9-1] (1:9-2 Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security [amd64]) []",
         ("1:9-1", "1:9-2", True)),
        ("Inst own [1] (2 localhost [all])", ("1", "2", False)),
        ("Inst new (2~rc1 Debian:13/stable [all])", ("", "2~rc1", False)),
    ],
)  # fmt: skip
def test_lines_of_a_simulation(line: str, update: tuple[Any, ...]) -> None:
    (found,) = upgrades.parse_simulation(f"Reading…\n{line}\nConf x (1 y [all])\n").values()
    assert found == Update(*update)


@pytest.mark.parametrize(
    ("installed", "boots", "asks", "reasons"),
    [
        (["RUNNING", "9.9"], "9.9", True, ["kernel 9.9"]),
        (["RUNNING"], "RUNNING", False, []),
        (["RUNNING"], "RUNNING", True, ["a package asks for it"]),
        (["9.9"], "9.9", False, []),  # a container runs its machine's kernel
        ([], None, False, []),
    ],
)
def test_why_a_host_should_boot(
    tmp_path: Path, installed: list[str], boots: str | None, asks: bool, reasons: list[str]
) -> None:
    for name in installed:
        (tmp_path / "lib/modules" / name.replace("RUNNING", os.uname().release) / "kernel").mkdir(parents=True)
    if boots:
        (tmp_path / "vmlinuz").symlink_to(f"boot/vmlinuz-{boots.replace('RUNNING', os.uname().release)}")
    if asks:
        (tmp_path / "run").mkdir()
        (tmp_path / "run/reboot-required").touch()
    assert upgrades.reboot_reasons(str(tmp_path)) == reasons


@pytest.mark.holds("a check upgrades nothing", "a host that is not well is not passed over")
def test_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    found = Updates({"tool": TOOL}, [], [], False, ["x.service has failed since the upgrade"])
    monkeypatch.setattr(upgrades.packages, "wait_for_another", asked.append)
    monkeypatch.setattr(upgrades, "upgrade", lambda *given: asked.append(given) or ["tool 1.0 → 1.1"])
    monkeypatch.setattr(upgrades, "look", lambda *given: asked.append(given) or found)
    order = UpgradeOrder("upgrade", True, {"tool": "1.1"})
    assert upgrade_host(order, True).operations == ()
    assert asked == [5400, (True, False)]
    assert upgrade_host(order, False).operations == ["tool 1.0 → 1.1"]
    assert asked[2:] == [5400, (True, {"tool": "1.1"}), (True, False)]
    assert upgrade_host(UpgradeOrder("look"), True).problem is None
    assert asked[-1] == (False, True)
    well = upgrade_host(UpgradeOrder("well"), False)
    assert well.problem == "x.service has failed since the upgrade"
