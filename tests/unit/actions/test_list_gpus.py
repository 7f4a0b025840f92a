"""list-gpus, from its command line to what people and programs see of it."""

import json
from typing import Any

import pytest

from gpuadmin.actions import list_gpus
from gpuadmin.results import HostResult, RunResult
from gpuadmin.terminal import SafeConsole
from tests.support.fake_ansible import Ansible, Cli, ansible
from tests.support.gpu_reports import DEVICE, DRIVER, GPU, node

__all__ = ["ansible"]


def shown(ansible: Ansible, cli: Cli, found: dict[str, Any], code: int = 4) -> str:
    """What is printed of node1, with node2 away."""
    gone = HostResult("unreachable", message="does not answer (timed out)")
    ansible.answer = RunResult({"node1": HostResult("ok", reports={"gpus": found}), "node2": gone})
    ended, out, err = cli("list-gpus")
    assert ended == code, err
    return out


def row(out: str) -> list[str]:
    line = next(line for line in out.splitlines() if line.split()[:1] == ["node1"])
    return [cell for cell in line.split("  ") if cell.strip()]


def expect(ansible: Ansible, text: str) -> None:
    assert ansible.site is not None
    path = ansible.site / "inventory/host_vars/node1.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_one_look_in_check_mode(ansible: Ansible, cli: Cli) -> None:
    expect(ansible, "gpus: 2\n")
    out = shown(ansible, cli, node(GPU, GPU | {"index": 1, "address": "0000:02:00.0"}))
    (invocation,) = ansible.asked
    assert (invocation.playbook, invocation.check) == ("list-gpus", True)
    cells = [cell.strip() for cell in row(out)]
    assert cells == [
        "node1", "0", "NVIDIA H100", "85.5 GB", "GPU-1", "165", "550.163.01", "12.4", "off", "×16", "on",
    ]  # fmt: skip
    assert "node1: 2 of 2 GPUs answer" in out
    assert "node2: unknown: does not answer (timed out)" in out


def test_the_document(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({name: HostResult("ok", reports={"gpus": node(GPU)}) for name in ("node1", "node2")})
    expect(ansible, "gpus: 1\ngpu_model: H100\n")
    code, out, err = cli("list-gpus", "--json")
    assert code == 0, err
    found = json.loads(out)["result"]
    assert [found["nodes"][name]["expected"] for name in ("node1", "node2")] == [1, None]
    assert found["nodes"]["node1"]["nvml"]["gpus"][0]["uuid"] == "GPU-1"
    assert found["unknown"] == {}


def test_what_is_wrong_has_its_words(ansible: Ansible, cli: Cli) -> None:
    expect(ansible, "gpus: 8\n")
    lost = {"index": 1, "problem": "GPU_IS_LOST", "address": None, "unknown": {}, "lacks": []}
    worse = ["7 of 8 expected GPUs answer", "GPU 1 does not answer: GPU_IS_LOST"]
    bad = GPU | {"ecc_uncorrected": 3, "pcie_width": 8, "mig_pending": True, "serial": None, "lacks": ["serial"]}
    out = shown(ansible, cli, node(bad, lost, broken=["GPU 0: 3 memory errors"], worse=worse))
    for text in (
        "×8 of ×16",
        "on, 3 uncorrected",
        "off, on after a reset",
        "  GPU 0: 3 memory errors",
    ):
        assert text in out
    assert "node1: 1 of 8 GPUs answer; 2 on the PCI bus" in out
    assert all(f"  {line}" in out for line in worse)
    assert "—" in row(out)[5]
    assert [line.split()[1:3] for line in out.splitlines() if line.split()[:1] == ["node1"]][1] == ["1", "GPU_IS_LOST"]


def test_mig_is_on_and_its_devices_are_not_known(ansible: Ansible, cli: Cli) -> None:
    out = shown(ansible, cli, node(GPU | {"mig": True, "mig_pending": True, "mig_devices": None}))
    assert "device" not in " ".join(row(out))


def test_mig_devices_are_below_their_gpu(ansible: Ansible, cli: Cli) -> None:
    mig = {"index": 2, "uuid": "MIG-1", "name": "H100 MIG 1g.10gb", "memory": 10200547328, "unknown": {}, "lacks": []}
    out = shown(ansible, cli, node(GPU | {"mig": True, "mig_pending": True, "mig_devices": [mig]}))
    assert "on: 1 device" in out
    assert "0.2" in out
    assert "MIG-1" in out


UUID = "GPU-11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("width", "columns", "note"),
    [
        (200, "Node GPU Model Memory UUID Serial Driver CUDA MIG PCIe ECC", ""),
        (140, "Node GPU Model Memory UUID Serial MIG PCIe ECC", ""),
        (120, "Node GPU Model Memory Driver CUDA MIG PCIe ECC", "No room for UUID, Serial: -v shows them, "),
        (80, "Node GPU Model Memory MIG PCIe ECC", "No room for UUID, Serial: -v shows them, "),
        (70, "Node GPU Model Memory MIG PCIe", "No room for UUID, Serial, ECC: -v shows them, "),
        (60, "Node GPU Model Memory", "No room for UUID, Serial, ECC, PCIe, MIG: -v shows them, "),
    ],
)
def test_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, columns: str, note: str
) -> None:
    """A GPU is one line, whatever the width; what has no room is named, and -v has it."""
    monkeypatch.setattr(
        list_gpus, "make_console", lambda json: SafeConsole(width=width, highlight=False, emoji=False, markup=False)
    )
    gpu = GPU | {"name": "NVIDIA H100 80GB HBM3", "uuid": UUID, "serial": "1650522000001", "pcie_width": 8}
    worst = gpu | {
        "index": 1,
        "mig": True,
        "mig_pending": True,
        "mig_devices": [GPU | {"name": f"{gpu['name']} MIG 1g"}],
    }
    found = {"gpu10": node(gpu, worst) | {"expected": 2}}
    list_gpus.show(found, {})
    plain = capsys.readouterr().out
    assert plain.splitlines()[1].split() == columns.split()
    # two GPUs and a MIG device, which is called by what its GPU has not in its name already
    assert [line.split()[:3][1:] for line in plain.splitlines() if line.startswith(" gpu10")] == [
        ["0", first := "NVIDIA" if width == 200 else "H100"], ["1", first], ["1.0", "MIG"],
    ]  # fmt: skip
    assert note in plain
    assert ("No room" in plain) is bool(note)
    assert max(map(len, plain.splitlines())) <= width
    list_gpus.show(found, {}, whole=True)
    whole = capsys.readouterr().out
    assert "No room" not in whole
    for text in (UUID, "1650522000001", "×8 of ×16", "on: 1 device", "550.163.01", "12.4"):
        assert text in whole
    assert max(map(len, whole.splitlines())) <= width


def test_without_a_driver_the_bus_is_shown(ansible: Ansible, cli: Cli) -> None:
    bare = DEVICE | {"driver": None, "name": "GH100 [H100 SXM5 80GB]", "width": 8}
    driver = DRIVER | {"module": None, "libraries": None}
    worse = ["the module nvidia is not loaded"]
    out = shown(ansible, cli, node(pci=[bare], nvml=None, driver=driver, worse=worse))
    assert "GH100 [H100 SXM5 80GB]" in out
    assert "×8 of ×16" in out
    assert "0 GPUs answer, the inventory does not say how many it should have; 1 on the PCI bus" in out
    assert "  the module nvidia is not loaded" in out


@pytest.mark.parametrize(
    ("text", "line"), [("{}\n", "node1: no GPU\n"), ("gpus: 0\n", "node1: no GPU, and none is expected\n")]
)
def test_a_node_without_gpus(ansible: Ansible, cli: Cli, text: str, line: str) -> None:
    expect(ansible, text)
    assert line in shown(ansible, cli, node(nvml=None))


def test_what_a_node_says_is_data(ansible: Ansible, cli: Cli) -> None:
    out = shown(ansible, cli, node(GPU | {"name": "[red]x\x1b[31m\nnode9"}))
    assert "\x1b[31m" not in out
    assert "[red]x" in out
    assert not [line for line in out.splitlines() if line.startswith("node9")]
