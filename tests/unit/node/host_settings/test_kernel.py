"""The kernel and the driver, from files like those of /proc and /sys."""

from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import kernel

from tests.unit.node.host_settings.conftest import Host


def test_release_and_command_line(host: Host) -> None:
    place = host(
        {
            "proc/sys/kernel/osrelease": "6.12.0\n",
            "proc/cmdline": "root=UUID=x ro quiet console=tty0 console=ttyS0\n",
            "etc/os-release": 'PRETTY_NAME="Debian 13"\n',
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        }
    )
    found = kernel.kernel(place)
    assert found.pop("architecture")
    assert found == {
        "release": "6.12.0", "distribution": "Debian 13", "command line: root": "UUID=x",
        "command line: ro": "is there",
        "command line: quiet": "is there", "command line: console": "tty0\nttyS0",
        "transparent_hugepage enabled": "madvise",
    }  # fmt: skip


def test_what_nobody_has_set_is_not_compared(host: Host) -> None:
    place = host(
        {
            "proc/sys/vm/swappiness": "60\n",
            "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
            "proc/sys/net/ipv4/conf/all/rp_filter": "2\n",
            "proc/sys/net/ipv4/conf/enp1s0/rp_filter": "2\n",
            "proc/sys/fs/file-nr": "1\t0\t9\n",
            "proc/sys/kernel/random/uuid": "x\n",
            "proc/sys/kernel/hostname": "x\n",
            "proc/sys/net/ipv4/tcp_mem": "1 2 3\n",
        }
    )
    assert kernel.sysctl(place) == {
        "vm.swappiness": "60", "net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.conf.all.rp_filter": "2",
    }  # fmt: skip


def test_the_driver_and_its_gpus(host: Host) -> None:
    assert kernel.driver(host()) == {"nvidia": "is not loaded"}
    one = "Model: \t\t NVIDIA H100\nVideo BIOS: \t {}\nGPU UUID: \t GPU-1\n"
    place = host(
        {
            "sys/module/nvidia/version": "580.1\n",
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1  Release\n",
            "proc/driver/nvidia/params": "ModifyDeviceFiles: 1\n",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": one.format("96.00"),
            "proc/driver/nvidia/gpus/0000:02:00.0/information": one.format("97.00"),
        }
    )
    assert kernel.driver(place) == {
        "nvidia": "580.1", "nvidia kind": "NVIDIA UNIX Open Kernel Module for x86_64",
        "parameter ModifyDeviceFiles": "1",
        "GPUs NVIDIA H100": "2", "Video BIOS of NVIDIA H100": "96.00\n97.00",
    }  # fmt: skip
