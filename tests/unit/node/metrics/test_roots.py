"""What the node's records say of its image, as Prometheus gets it."""

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places, Running
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import roots
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.exposition import Samples

from tests.support.metrics_text import values

PENDING = {"stage": "pending", "image": "term2", "root": "term2", "time": 1000.5, "boot_id": "a"}
SINCE = "gpuadmin_image_pending_since_timestamp_seconds"


def said(state: Path, running: str, journal: dict[str, Any] | None = None) -> dict[str, float]:
    for name, what in (("images.json", {}), ("roots.json", {"images": {"term1+2": "term1"}}), ("switch.json", journal)):
        if what is not None:
            (state / name).write_text(json.dumps(what))
    samples = Samples()
    roots.put(samples, Places(root=str(state), state=str(state), running=Running(5, f"/roots/{running}")))
    return values(samples.render())


def test_a_node_without_images(tmp_path: Path) -> None:
    samples = Samples()
    roots.put(samples, Places(state=str(tmp_path)))
    assert samples.render() == ""


def test_a_confirmed_root_waits_for_nobody(tmp_path: Path) -> None:
    found = said(tmp_path, "term1+2", {**PENDING, "stage": "confirmed"})
    assert found == {'gpuadmin_image_info{image="term1"}': 1}


@pytest.mark.parametrize(("running", "trial"), [("term1+2", "false"), ("term2", "true")])
def test_a_switch_that_is_not_confirmed(tmp_path: Path, running: str, trial: str) -> None:
    found = said(tmp_path, running, PENDING)
    assert found[f'{SINCE}{{image="term2",trial="{trial}"}}'] == 1000.5


@pytest.mark.parametrize("read_only", [True, False])
def test_a_root_that_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool) -> None:
    found = btrfs.Subvolume(5, read_only, "u", "", "")
    monkeypatch.setattr(btrfs, "inspect", lambda path: found)
    assert said(tmp_path, "term2")["gpuadmin_image_root_writable"] == (0 if read_only else 1)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 9}'])
def test_records_that_are_damaged_are_not_taken_for_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.json").write_text("{}")
    (tmp_path / "switch.json").write_text(text)
    with pytest.raises(NodeError):
        roots.put(Samples(), Places(state=str(tmp_path), running=Running(5, "/roots/term2")))
