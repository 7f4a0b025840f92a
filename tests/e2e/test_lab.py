"""The lab itself: its boot loader, its power cuts, its snapshots. On a lab of its own, of one host."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lab_cluster import LAB as PREFIX
from tests.support.where import MACHINES

pytestmark = [pytest.mark.lab, pytest.mark.virtual(MACHINES)]

GPUADMIN = str(Path(sys.executable).parent / "gpuadmin")
LAB = f"{PREFIX}-boot"
HOST = "storage1"


def lab(verb: str, *arguments: str, code: int = 0) -> str:
    """Run `gpuadmin lab VERB`, which must end with that code. Returns stdout, and on failure stderr."""
    done = subprocess.run(
        [GPUADMIN, "lab", verb, "--name", LAB, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == code, f"lab {verb} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def on_host(command: str) -> str:
    """Run a shell command on the host as root."""
    return lab("ssh", HOST, "sudo sh -ec '" + command.replace("'", "'\\''") + "'").strip()


def status() -> dict[str, Any]:
    """What `lab status --json` says of the host."""
    host: dict[str, Any] = json.loads(lab("status", "--json"))["hosts"][0]
    return host


@pytest.fixture(scope="module", autouse=True, params=["bios", pytest.param("uefi", marks=pytest.mark.slow)])
def one_host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one host with a node's disk, saved as it came up."""
    lab("down", "--purge")
    site = tmp_path_factory.mktemp("lab") / "site"
    lab("up", "--nodes", "0", "--firmware", request.param, "--site", str(site))
    lab("save", "fresh")
    yield site
    lab("down", "--purge")


def trial(root: str) -> None:
    """Set the root that is to boot next time only."""
    on_host(f"mount -o remount,rw /boot/grub; grub-editenv /boot/grub/grubenv set trial={root}")
    on_host("mount -o remount,ro /boot/grub; sync")


def booted_root() -> str:
    """The root that the host runs on."""
    return on_host("findmnt -no FSROOT /")


def firmware() -> str:
    """What the host was booted by."""
    return on_host("test -d /sys/firmware/efi && echo uefi || echo bios")


def test_disk_is_laid_out_as_a_node() -> None:
    assert booted_root() == "/roots/base"
    assert firmware() == json.loads(lab("status", "--json"))["firmware"]
    assert on_host("btrfs property get -ts / ro") == "ro=true"
    assert on_host("findmnt -no FSROOT /var") == "/state"
    assert on_host("findmnt -no FSROOT /local") == "/local"
    assert on_host("findmnt -no FSROOT /var/lib/dpkg") == "/roots/base/usr/lib/sysimage/dpkg"
    boot_partition = {"bios": "ext4 ro", "uefi": "vfat ro"}[firmware()]
    assert on_host("findmnt -no FSTYPE,OPTIONS /boot/grub").startswith(boot_partition)
    assert on_host("findmnt -no FSTYPE /srv/storage") == "btrfs"
    assert on_host("systemctl is-system-running --wait || true") == "running"
    tops = on_host("mount -o subvolid=5 LABEL=gpuadmin /mnt; ls /mnt; umount /mnt").split()
    assert sorted(tops) == ["images", "incoming", "local", "roots", "state"]


def test_site_has_the_host_key_that_the_host_has(one_host: Path) -> None:
    key = on_host("cat /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    assert key in (one_host / "known_hosts").read_text()


def test_up_again_keeps_what_runs(one_host: Path) -> None:
    (one_host / "users.yml").write_text("users: []  # mine\nretired: []\n")
    before = status()["pid"]
    lab("up", "--nodes", "0")
    assert status()["pid"] == before
    assert "mine" in (one_host / "users.yml").read_text()


def test_power_cut_loses_what_was_not_flushed_and_nothing_else() -> None:
    on_host("echo flushed > /var/flushed; sync; echo lost > /dev/shm/lost")
    machine = on_host("cat /etc/machine-id")
    assert "power cut" in lab("power-cut", HOST)
    assert status()["running"] is False
    assert "off already" in lab("power-cut", HOST)
    lab("start", HOST)
    assert on_host("cat /var/flushed") == "flushed"
    assert on_host("ls /dev/shm") == ""
    assert on_host("cat /etc/machine-id") == machine
    assert on_host("btrfs property get -ts / ro") == "ro=true"


def test_restore_of_a_running_and_of_a_cut_lab() -> None:
    on_host("touch /var/after-the-snapshot; sync")
    for condition in ("running", "off"):
        if condition == "off":
            lab("power-cut", HOST)
        lab("restore", "fresh")
        off_by = time.time() - float(on_host("date +%s.%N"))
        assert abs(off_by) < 20, f"{condition}: the clock is {off_by:.1f} s behind"
        assert on_host("ls /var/after-the-snapshot 2>/dev/null || true") == ""


def test_errors_say_what_there_is() -> None:
    assert "there is: fresh" in lab("restore", "nothing", code=2)
    assert "its hosts are storage1" in lab("power-cut", "node7", code=2)
    lab("power-cut", HOST)
    assert "is off" in lab("save", "other", code=2)
    lab("restore", "fresh")


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["rm -f /mnt/roots/next/usr/sbin/init /mnt/roots/next/usr/bin/dash", "true"])
def test_trial_root_boots_once_and_a_broken_one_never_stays(damage: str) -> None:
    lab("restore", "fresh")
    on_host(
        "mount -o subvolid=5 LABEL=gpuadmin /mnt; btrfs subvolume snapshot /mnt/roots/base /mnt/roots/next;"
        f"{damage}; sync; btrfs property set -ts /mnt/roots/next ro true; btrfs filesystem sync /mnt; umount /mnt"
    )
    trial("next")
    lab("power-cut", HOST)
    lab("start", HOST)
    assert booted_root() == ("/roots/next" if damage == "true" else "/roots/base")
    assert "trial=\n" in on_host("grub-editenv /boot/grub/grubenv list") + "\n"


@pytest.mark.slow
def test_trial_root_that_is_not_there() -> None:
    lab("restore", "fresh")
    trial("nowhere")
    lab("power-cut", HOST)
    lab("start", HOST)
    assert booted_root() == "/roots/base"


@pytest.mark.slow
def test_interrupted_up_leaves_nothing_that_down_does_not_find() -> None:
    lab("power-cut", HOST)
    with subprocess.Popen(
        [GPUADMIN, "lab", "up", "--name", LAB, "--nodes", "0"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while not status()["running"] and time.monotonic() < deadline:
            time.sleep(0.1)  # between two looks at a lab that starts
        process.send_signal(2)
        assert process.wait(timeout=60) == 130
    running = status()
    assert running["running"] is True
    lab("down")
    words = Path(f"/proc/{running['pid']}/cmdline")
    # What is left may be a process that nobody has waited for yet; it has no command line.
    assert not words.exists() or words.read_bytes() == b""
