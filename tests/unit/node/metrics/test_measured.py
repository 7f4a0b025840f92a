"""What the collector has written, for who asks the node itself."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.measured import MOST, measured

from tests.support.metrics_text import values


def directories(at: Path) -> tuple[str, str]:
    for name in ("sampler", "mapper"):
        (at / name).mkdir(exist_ok=True)
    return str(at / "sampler"), str(at / "mapper")


def test_both_and_the_host(tmp_path: Path) -> None:
    both = directories(tmp_path)
    (tmp_path / "sampler/gpus.prom").write_text("gpuadmin_gpus_on_bus 8\n")
    (tmp_path / "mapper/people.prom").write_text('gpuadmin_user_tasks{user="minji"} 3\ngpuadmin_cut_off{us')
    (tmp_path / "mapper/.people.prom.x").write_text("gpuadmin_gpus_on_bus 9\n")
    found = values(measured(both))
    assert (found["gpuadmin_gpus_on_bus"], found['gpuadmin_user_tasks{user="minji"}']) == (8, 3)
    assert found["node_memory_MemTotal_bytes"] > found["node_memory_MemAvailable_bytes"] > 0
    assert "gpuadmin_cut_off" not in measured(both)


def test_one_process_of_the_collector_is_away(tmp_path: Path) -> None:
    both = directories(tmp_path)
    (tmp_path / "mapper/people.prom").write_text("gpuadmin_gpus_on_bus 8\n")
    (tmp_path / "sampler").rmdir()
    assert "gpuadmin_gpus_on_bus" in measured(both)


def test_nothing_is_not_an_empty_answer(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"^the collector has written nothing in .*: .* gpuadmin provision sets it up"):
        measured(directories(tmp_path))


def test_a_file_without_an_end_and_one_that_is_none(tmp_path: Path) -> None:
    both = directories(tmp_path)
    with (tmp_path / "mapper/people.prom").open("wb") as stream:
        stream.write(b"gpuadmin_gpus_on_bus 8\n")
        stream.truncate(MOST * 4)
    assert len(measured(both)) < 1000
    (tmp_path / "mapper/people.prom").unlink()
    os.mkfifo(tmp_path / "mapper/people.prom")
    with pytest.raises(NodeError, match="regular"):
        measured(both)
