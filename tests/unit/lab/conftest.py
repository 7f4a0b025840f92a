"""A lab in a temporary directory, that no QEMU belongs to."""

from pathlib import Path

import pytest

from gpuadmin.lab import disk, hosts, state

BASES = {(name, "13"): Path(f"/cache/{name}.qcow2") for name in disk.LAYOUTS}


@pytest.fixture(autouse=True)
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("GPUADMIN_LAB_ACCEL", "GPUADMIN_LAB_OVMF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def lab() -> state.Lab:
    return hosts.with_hosts(state.Lab("default", 1024, 5555), hosts.wanted_hosts(2, 1), BASES, set())


@pytest.fixture
def uefi_lab() -> state.Lab:
    return hosts.with_hosts(state.Lab("default", 1024, 5555, firmware="uefi"), hosts.wanted_hosts(2, 1), BASES, set())
