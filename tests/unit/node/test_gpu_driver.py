"""The module gpu_driver: what it builds, what it reports, and what check mode says of it."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import checked, kernels, pci
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.kernels import Installed
from ansible_collections.gpuadmin.node.plugins.module_utils.operations import gpu_driver

from tests.support.operations import ask

KERNEL = "6.12.57+deb13-amd64"
LIBRARIES = {"/usr/lib/libnvidia-ml.so.1": "550.163.01"}
BARE = Installed({KERNEL: {}}, LIBRARIES)
WHOLE = Installed({KERNEL: {"/x/nvidia.ko": "550.163.01"}}, LIBRARIES)
STATUS = f"nvidia-current/550.163.01, {KERNEL}, x86_64: installed (Differences between built and installed modules)\n"


class Host:
    """A host on which DKMS runs. ``after``: how many of its commands make the driver whole; None: none does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.after, self.status = BARE, 1, 0
        self.commands: list[tuple[str, ...]] = []
        self.sessions: list[str] = []
        monkeypatch.setattr(kernels, "look", lambda: self.seen)
        monkeypatch.setattr(pci, "devices", lambda names: [])
        self.kept: list[Installed] = []  # what was there when the check was made that others are told of
        monkeypatch.setattr(checked, "check", lambda: self.kept.append(self.seen))
        monkeypatch.setattr(gpu_driver, "open_session", lambda seconds: self.sessions.append("open"))
        monkeypatch.setattr(gpu_driver, "close_session", lambda: self.sessions.append("closed"))
        monkeypatch.setattr(background, "perform", self.perform)

    def perform(self, name: str, _: object, arguments: dict[str, Any], **__: object) -> dict[str, Any]:
        self.commands.append(tuple(arguments["command"]))
        if len(self.commands) == self.after:
            self.seen = WHOLE
        return {"status": self.status, "output": STATUS}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def call(*, check: bool = False, **document: object) -> dict[str, Any]:
    return ask("gpu_driver", document, check=check)


def test_a_driver_that_is_whole_is_left_alone(host: Host) -> None:
    host.seen = WHOLE
    assert not call(build=True, version="550")["changed"]
    assert (host.commands, host.sessions) == ([], [])


def test_a_missing_module_is_built(host: Host) -> None:
    words = [f"build the GPU driver's module for kernel {KERNEL}"]
    said = call(build=True, check=True)
    assert (said["changed"], said["operations"], host.commands) == (True, words, [])
    done = call(build=True)
    assert (done["changed"], done["operations"]) == (True, words)
    assert host.commands == [("dkms", "autoinstall", "-k", KERNEL)]
    assert host.sessions == ["open", "closed"]
    assert host.kept == [WHOLE], "not in a check, and after the building"


def test_a_module_that_somebody_deleted_is_installed_again(host: Host) -> None:
    """DKMS believes its records, and autoinstall does nothing (seen with 3.2.2)."""
    host.after = 3
    assert call(build=True)["changed"]
    assert host.commands[1:] == [
        ("dkms", "status", "-k", KERNEL),
        ("dkms", "install", "nvidia-current/550.163.01", "-k", KERNEL, "--force"),
    ]


def test_a_build_that_does_not_help_is_a_failure(host: Host) -> None:
    host.after = 0
    answer = call(build=True)
    assert answer["failed"]
    assert f"kernel {KERNEL} has no module nvidia" in answer["msg"]


def test_a_build_that_fails_says_why_and_closes_the_root(host: Host) -> None:
    host.status = 10
    answer = call(build=True)
    assert answer["failed"]
    assert answer["msg"].startswith(f"`dkms autoinstall -k {KERNEL}` failed: nvidia-current/")
    assert host.sessions == ["open", "closed"]


def test_a_driver_from_elsewhere_is_only_looked_at(host: Host) -> None:
    done = call()
    assert not done["changed"]
    assert "failed" not in done
    assert done["report"]["problems"][0].startswith(f"kernel {KERNEL} has no module nvidia")
    said = call(check=True)
    assert said["changed"], "drift says it"
    assert said["operations"][0].startswith(f"wrong with the GPU driver: kernel {KERNEL}")
    assert host.commands == []
