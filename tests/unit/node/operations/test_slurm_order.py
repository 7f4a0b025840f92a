"""A node's slurmd and the controller's slurmctld: which may be newer."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.operations import slurm_order
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import queue


@pytest.mark.holds("a node's slurmd is not newer than Slurm's controller")
def test_only_a_newer_slurmd_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "version", lambda daemon: {"slurmctld": [24, 5]}[daemon])
    for fine in (None, [24, 5], [23, 11]):
        assert slurm_order.operate(slurm_order.Document(fine), True).result()["changed"] is False
    with pytest.raises(NodeError, match=r"slurmd is of Slurm 25\.11, and the queue's controller of 24\.05: upgrade"):
        slurm_order.operate(slurm_order.Document([25, 11]), True)


def test_where_there_is_no_controller_yet_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "version", lambda daemon: None)
    slurm_order.operate(slurm_order.Document([25, 11]), False)
