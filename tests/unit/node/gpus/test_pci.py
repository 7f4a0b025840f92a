"""What the bus shows, without a driver."""

from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import pci

from tests.support.gpu_node import Node

NAMES = """# a list
10de  NVIDIA Corporation
\t2330  GH100 [H100 SXM5 80GB]
\t\t10de 16c1  a subsystem
102b  Matrox Electronics Systems Ltd.
\t2330  another vendor's
"""


def test_gpus_of_the_bus(node: Node, tmp_path: Path) -> None:
    (tmp_path / "pci.ids").write_text(NAMES)
    node.gpu("0000:01:00.0", current_link_width="8", max_link_width="16")
    node.gpu("0000:02:00.0", None, current_link_width="63", max_link_width="Unknown")
    node.gpu("0000:04:00.0", "mgag200", vendor="0x102b", **{"class": "0x030000"})
    node.gpu("0000:05:00.0", "nvme", **{"class": "0x010802"})
    node.gpu("0000:06:00.0", "snd_hda_intel", **{"class": "0x040300"})  # the sound of a GPU
    first, second = pci.devices(str(node.bus), (str(tmp_path / "missing"), str(tmp_path / "pci.ids")))
    assert first == pci.OnBus("0000:01:00.0", "0x10de", "0x2330", "nvidia", 8, 16, "GH100 [H100 SXM5 80GB]")
    assert (second.driver, second.width, second.width_max) == (None, None, None)
    assert pci.summary(str(node.bus)) == ["0000:01:00.0 nvidia", "0000:02:00.0 none"]


def test_a_host_without_gpus(node: Node) -> None:
    assert pci.devices(str(node.bus)) == []
    assert pci.devices(str(node.bus / "missing")) == []


def test_a_device_that_goes_meanwhile(node: Node) -> None:
    node.gpu("0000:01:00.0")
    (node.bus / "0000:01:00.0/class").unlink()
    assert pci.devices(str(node.bus), ()) == []


def test_nvswitches_are_counted(node: Node) -> None:
    node.gpu("0000:01:00.0")
    assert pci.switches(str(node.bus)) == 0
    node.gpu("0000:07:00.0", None, **{"class": "0x068000"})
    node.gpu("0000:08:00.0", None, **{"class": "0x068000", "vendor": "0x8086"})
    assert pci.switches(str(node.bus)) == 1
    assert [one.address for one in pci.devices(str(node.bus), ())] == ["0000:01:00.0"], "a switch is not a GPU"
