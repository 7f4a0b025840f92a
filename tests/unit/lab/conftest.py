"""A lab in a temporary directory, that no QEMU belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuadmin.lab import hosts, state


@pytest.fixture(autouse=True)
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GPUADMIN_LAB_ACCEL", raising=False)
    return tmp_path


@pytest.fixture
def lab() -> state.Lab:
    bases = {"node": Path("/cache/node.qcow2"), "ordinary": Path("/cache/ordinary.qcow2")}
    return hosts.with_hosts(state.Lab("default", 1024, 5555), 2, 1, bases, set())
