"""What was flashed into a machine."""

from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import firmware

from tests.unit.node.host_settings.conftest import Host


def test_bios_processor_and_disks(host: Host) -> None:
    place = host(
        {
            "sys/class/dmi/id/bios_version": "2.1\n",
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: X\nmicrocode\t: 0x1\n\nprocessor\t: 1\nmodel name\t: X\n",
            "proc/meminfo": "MemTotal:       16384000 kB\n",
            "sys/class/nvme/nvme0/model": "SSD\n",
            "sys/class/nvme/nvme0/firmware_rev": "A1\n",
            "sys/class/nvme/nvme1/model": "SSD\n",
            "sys/class/nvme/nvme1/firmware_rev": "A2\n",
            "sys/class/infiniband/mlx5_0/board_id": "MT_1\n",
            "sys/class/infiniband/mlx5_0/fw_ver": "28.1\n",
            "sys/class/net/lo/mtu": "65536\n",
            "sys/class/net/none0/device/x": "",  # it is a card here, and the kernel knows none of the name
        }
    )
    assert firmware.firmware(place) == {
        "bios version": "2.1", "processors": "2", "model name": "X", "microcode": "0x1", "memory": "16 GiB",
        "NVMe SSD": "A1\nA2", "InfiniBand MT_1": "28.1",
    }  # fmt: skip
