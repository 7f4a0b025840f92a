"""What slurmctld is told of nodes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import operations
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.divided import Part
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.nodes import (
    Node,
    gres_conf,
    known,
    nodes_conf,
)

from gpuadmin.common.names import name_gpu_type
from gpuadmin.common.records.queue import Owns
from tests.support.fake_slurm import slurm

DECLARED = {"name": "gpu1", "address": "10.0.0.1", "gpus": None}
HAS = {"processors": 64, "memory": 100_000, "gpus": 8}


def test_what_a_node_says_now_wins_over_what_was_recorded() -> None:
    (node,) = known([DECLARED], {"gpu1": {**HAS, "gpus": 7}}, {"gpu1": HAS})
    assert node == Node("gpu1", "10.0.0.1", 64, 100_000, 8)
    (node,) = known([DECLARED], {"gpu1": HAS}, {})
    assert node.gpus == 8, "a run that did not look at it takes nothing out"


def test_what_the_inventory_says_of_gpus_wins() -> None:
    (node,) = known([{**DECLARED, "gpus": 4}], {}, {"gpu1": HAS})
    assert node.gpus == 4


@pytest.mark.parametrize(
    "has", [None, {}, {**HAS, "memory": 0}, {**HAS, "gpus": None}, {**HAS, "gpus": -1}, {**HAS, "processors": "many"}]
)
def test_a_node_of_which_nothing_is_known_is_left_out(has: Any) -> None:
    assert known([DECLARED], {}, {"gpu1": has}) == []


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "a b"},
        {"name": "gpu1\nPartitionName=x"},
        {"name": None},
        {"address": "10.0.0.1 Gres=gpu:99"},
        {"address": None},
        {"name": "Default"},
        {"name": "ALL"},
    ],
)
def test_no_line_of_slurm_s_is_made_of_a_name(odd: dict[str, Any]) -> None:
    with pytest.raises(NodeError):
        known([{**DECLARED, **odd}], {}, {"gpu1": HAS})


@pytest.mark.holds("what keeps a GPU from others counts as that GPU")
def test_the_lines() -> None:
    nodes = [
        Node("gpu1", "10.0.0.1", 64, 100_000, 8),
        Node("gpu2", "10.0.0.2", 32, 50_000, 1),
        Node("cpu", "c", 8, 9000, 0),
    ]
    assert nodes_conf(nodes, 48, ("nas", "10.0.0.9")).splitlines()[1:] == [
        "SlurmctldHost=nas(10.0.0.9)",
        "NodeName=gpu1 NodeAddr=10.0.0.1 CPUs=64 RealMemory=95000 Gres=gpu:8 State=UNKNOWN",
        "NodeName=gpu2 NodeAddr=10.0.0.2 CPUs=32 RealMemory=47500 Gres=gpu:1 State=UNKNOWN",
        "NodeName=cpu NodeAddr=c CPUs=8 RealMemory=8550 State=UNKNOWN",
        "PartitionName=gpu Nodes=gpu1,gpu2,cpu Default=YES State=UP MaxTime=48:00:00 DefaultTime=1:00:00"
        " TRESBillingWeights=CPU=0.125000,Mem=0.119850G,GRES/gpu=1.0 DefMemPerCPU=1068 DefCpuPerGPU=8",
    ]
    assert gres_conf(nodes).splitlines()[1:] == [
        "NodeName=gpu1 Name=gpu File=/dev/nvidia[0-7]", "NodeName=gpu2 Name=gpu File=/dev/nvidia0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "share"),
    [
        (Node("gpu1", "a", 4, 1000, 8), "CPU=1.000000,Mem=4.320675G,GRES/gpu=1.0 DefMemPerCPU=237 DefCpuPerGPU=1"),
        (Node("gpu1", "a", 64, 30, 1), "CPU=0.015625,Mem=16.000000G,GRES/gpu=1.0 DefMemPerCPU=1 DefCpuPerGPU=64"),
        (
            Node("gpu1", "a", 64, 100_000, 2, "h100", [Part("", ["/dev/nvidia0"]), *[Part("1g.10gb", ["x"])] * 3]),
            "CPU=0.062500,Mem=0.043127G,GRES/gpu=1.0 DefMemPerCPU=1484 DefCpuPerGPU=16",
        ),
    ],
    ids=["fewer processors than GPUs", "less memory than processors", "one is divided"],
)
def test_nobody_gets_nothing_of_a_node_and_so_all_of_it(node: Node, share: str) -> None:
    """What is 0 for Slurm has no limit. A MIG device is a GPU here."""
    assert nodes_conf([node], 48, ("nas", "10.0.0.9")).endswith(f" TRESBillingWeights={share}\n")


def test_nodes_without_gpus_have_none_to_keep_from_others() -> None:
    (line,) = [line for line in nodes_conf([Node("cpu", "c", 8, 9000, 0)], 48, ("nas", "10.0.0.9")).splitlines()
               if line.startswith("PartitionName")]  # fmt: skip
    assert line.endswith("TRESBillingWeights=GRES/gpu=1.0 DefMemPerCPU=1068")


@pytest.mark.holds("no line for Slurm is made of a controller's name")
@pytest.mark.parametrize("controller", [("nas\nPartitionName=x", "10.0.0.9"), ("nas", "10.0.0.9)\nx"), ("nas", "")])
def test_no_line_is_made_of_a_controller_s_name(controller: tuple[str, str]) -> None:
    with pytest.raises(NodeError, match="is not a host and its address"):
        nodes_conf([Node("gpu1", "10.0.0.1", 64, 100_000, 8)], 48, controller)


def document(tmp_path: Path, hardware: Any) -> operations.SlurmNodes:
    return operations.SlurmNodes(
        nodes=[operations.DeclaredNode("gpu1", "10.0.0.1"), operations.DeclaredNode("gpu2", "10.0.0.2")],
        hardware=hardware, hours=24, address="10.0.0.9", directory=str(tmp_path / "etc"),
    )  # fmt: skip


def test_what_nodes_have_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    state = str(tmp_path)
    operations.write_nodes(document(tmp_path, {"gpu1": HAS, "gpu2": HAS}), False, state=state)
    operations.write_nodes(document(tmp_path, {"gpu2": {**HAS, "gpus": 2}}), False, state=state)
    text = (tmp_path / "etc/nodes.conf").read_text()
    assert "NodeName=gpu1" in text
    assert "NodeName=gpu2 NodeAddr=10.0.0.2 CPUs=64 RealMemory=95000 Gres=gpu:2 " in text


def test_what_is_not_given_stays(tmp_path: Path) -> None:
    """Where GPUs of a node have been divided, only what is said of nodes is written."""
    (tmp_path / "etc").mkdir()
    parts = [{"profile": "7g.80gb", "files": ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3"]}]
    operations.write_nodes(replace(document(tmp_path, {"gpu1": HAS}), slurm_conf="A=1\n"), False, state=str(tmp_path))
    again = document(tmp_path, {"gpu1": {**HAS, "gpus": 1, "parts": parts}})
    operations.write_nodes(again, False, state=str(tmp_path))
    assert (tmp_path / "etc/slurm.conf").read_text() == "A=1\n"
    assert "Type=7g.80gb MultipleFiles=/dev/nvidia0," in (tmp_path / "etc/gres.conf").read_text()
    operations.write_nodes(document(tmp_path, {}), False, state=str(tmp_path))
    assert "Type=7g.80gb" in (tmp_path / "etc/gres.conf").read_text(), "it is remembered"


def test_a_slurm_that_brings_no_included_file_to_nodes(tmp_path: Path) -> None:
    """21.08: slurm.conf has nodes.conf itself, also where only what is said of nodes is written."""
    (tmp_path / "etc").mkdir()
    given = replace(document(tmp_path, {"gpu1": HAS}), slurm_conf="A=1\nInclude nodes.conf\n", lacks=["include"])
    operations.write_nodes(given, False, state=str(tmp_path))
    operations.write_nodes(replace(given, hardware={"gpu2": HAS}, slurm_conf=""), False, state=str(tmp_path))
    conf = (tmp_path / "etc/nodes.conf").read_text()
    assert "NodeName=gpu2" in conf
    assert (tmp_path / "etc/slurm.conf").read_text() == f"A=1\n# Include nodes.conf\n{conf}"


def test_a_check_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    answer = operations.write_nodes(document(tmp_path, {"gpu1": HAS}), True, state=str(tmp_path))
    assert answer.result()["changed"]
    assert [one.name for one in tmp_path.rglob("*")] == ["etc"]


def test_without_any_node_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no node has said yet"):
        operations.write_nodes(document(tmp_path, {}), False, state=str(tmp_path))


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / operations.RECORD).write_text(json.dumps([1]))
    with pytest.raises(NodeError, match=r"slurm-nodes\.json is damaged"):
        operations.write_nodes(document(tmp_path, {"gpu1": HAS}), False, state=str(tmp_path))


@pytest.mark.holds("a configuration that Slurm does not read replaces none")
def test_what_slurm_refuses_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 24.11 says it; scontrol reads what is to be, not what is."""
    (tmp_path / "etc").mkdir()
    slurm(tmp_path, monkeypatch, scontrol=(
        "cd ${SLURM_CONF%/*}; grep -q Frobnicate slurm.conf || { grep -q NodeName=gpu1 nodes.conf; exit; }\n"
        "echo 'scontrol: error: _parse_next_key: Parsing error at unrecognized key: Frobnicate' >&2\n"
        "echo 'scontrol: fatal: Unable to process configuration file' >&2; exit 1"
    ))  # fmt: skip
    good = document(tmp_path, {"gpu1": HAS})
    bad = replace(good, slurm_conf="Frobnicate=1\n")
    for check in (True, False):
        with pytest.raises(NodeError, match="unrecognized key: Frobnicate"):
            operations.write_nodes(bad, check, state=str(tmp_path))
    assert list((tmp_path / "etc").iterdir()) == []
    assert not (tmp_path / operations.RECORD).exists()
    operations.write_nodes(good, False, state=str(tmp_path))
    assert sorted(one.name for one in (tmp_path / "etc").iterdir()) == [
        "cgroup.conf", "gres.conf", "nodes.conf", "slurm.conf",
    ]  # fmt: skip


@pytest.mark.parametrize("scontrol", ["echo 'Slurmctld(primary) at nas is DOWN'; exit 1", "sleep 9"])
def test_a_controller_that_is_down_keeps_no_configuration_from_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scontrol: str
) -> None:
    (tmp_path / "etc").mkdir()
    monkeypatch.setattr(operations, "READ", 0.2)
    slurm(tmp_path, monkeypatch, scontrol=scontrol)
    operations.write_nodes(document(tmp_path, {"gpu1": HAS}), False, state=str(tmp_path))
    assert (tmp_path / "etc/nodes.conf").exists()


@pytest.mark.holds("a partition that goes stays while there are jobs")
@pytest.mark.parametrize(("jobs", "stays"), [([], False), (["minji"], True), (None, True)])
def test_a_partition_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: list[str] | None, stays: bool
) -> None:
    """Slurm would end its jobs. What slurmctld does not say may be jobs."""
    (tmp_path / "etc").mkdir()
    monkeypatch.setattr(operations.queue, "owners", lambda: jobs)
    before = replace(document(tmp_path, {"gpu1": HAS}), owned=[Owns("phd", ["gpu1"])])
    operations.write_nodes(before, False, state=str(tmp_path))
    assert "PartitionName=own-phd Nodes=gpu1 State=UP" in (tmp_path / "etc/nodes.conf").read_text()
    operations.write_nodes(document(tmp_path, {"gpu1": HAS}), False, state=str(tmp_path))
    kept = "PartitionName=own-phd Nodes=gpu1 State=DRAIN PreemptMode=OFF" in (tmp_path / "etc/nodes.conf").read_text()
    assert kept == stays


@pytest.mark.holds("no line for Slurm is made of a GPU's name")
@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"), ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("H100", "h100"),
        ("x\nPartitionName=y", "x-partitionname-y"), ("  ", ""), ("a" * 60, "a" * 40),
    ],
)  # fmt: skip
def test_what_slurm_calls_a_model(model: str, kind: str) -> None:
    assert name_gpu_type(model) == kind


def test_the_type_of_a_node() -> None:
    """What the inventory says of it wins; nothing where nobody knows."""
    has = {"gpu1": {**HAS, "model": "NVIDIA H100 80GB HBM3"}}
    assert known([DECLARED], {}, has)[0].type == "h100-80gb-hbm3"
    assert known([{**DECLARED, "model": "H100"}], {}, has)[0].type == "h100"
    (plain,) = known([DECLARED], {}, {"gpu1": {**HAS, "model": None}})
    assert plain.type == ""
    typed = replace(plain, type="h100")
    assert "Gres=gpu:h100:8 " in nodes_conf([typed], 48, ("nas", "10.0.0.9"))
    assert gres_conf([typed]).splitlines()[1:] == ["NodeName=gpu1 Name=gpu Type=h100 File=/dev/nvidia[0-7]"]
