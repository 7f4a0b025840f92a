"""Images on a node that boots by UEFI: the same static entry, grubenv on the ESP. On a lab of its own, of one node."""

from collections.abc import Iterator

import pytest

from tests.support import imaging
from tests.support.imaging import Whole, build_broken, cut_power_at, has_package, node_report, words
from tests.support.lab_cluster import LAB, REPOSITORY, Cluster
from tests.support.labs import provisioned_lab
from tests.support.where import IMAGE

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.virtual(IMAGE)]
NODE = "node1"


@pytest.fixture(scope="module")
def with_image() -> Iterator[Cluster]:
    """A storage host and the golden node with the image `one`, a package more, built, tried and running."""
    with provisioned_lab(
        f"{LAB}-uefi", REPOSITORY / ".cache" / "e2e-uefi", "--nodes", "1", "--firmware", "uefi"
    ) as lab:
        if "imaged" not in lab.lab("status"):
            imaging.prepare(lab)
        yield lab


@pytest.fixture
def uefi(with_image: Cluster) -> Cluster:
    """That lab as it was."""
    return imaging.restore(with_image)


def test_what_boots(uefi: Cluster) -> None:
    """Firmware finds GRUB on the ESP, and GRUB its entry and grubenv."""
    assert uefi.admin(NODE, "findmnt -no FSTYPE,OPTIONS /boot/grub").startswith("vfat ro")
    assert uefi.admin(NODE, "ls /boot/grub/EFI/BOOT").split() == ["BOOTX64.EFI"]
    assert uefi.admin(NODE, "lsblk -no PARTTYPENAME /dev/vda1").strip() == "EFI System"
    assert uefi.admin(NODE, "test -d /sys/firmware/efi && echo yes").strip() == "yes"
    entry = (REPOSITORY / "gpuadmin/lab/guest/node/grub.cfg").read_text()
    assert uefi.admin(NODE, "cat /boot/grub/grub.cfg") == entry, "the entry that nodes with a BIOS have"


def test_rollback_and_push(uefi: Cluster) -> None:
    """The image that was built here was tried by a boot; back to the root before it, and forth again."""
    whole = Whole(uefi, NODE)
    whole.check("one")
    assert words(uefi, NODE)["trial"] == ""
    assert has_package(uefi, NODE)
    uefi.gpuadmin("rollback-image", "--yes")
    whole.check("base")
    assert not has_package(uefi, NODE)
    uefi.gpuadmin("push-image", "one", "--yes")
    whole.check("one")


def test_an_image_that_panics_falls_back(uefi: Cluster) -> None:
    whole = Whole(uefi, NODE)
    build_broken(uefi, "panics-without-init")
    document = uefi.gpuadmin("push-image", "panics-without-init", "--yes", code=3)
    assert document["hosts"][NODE]["status"] == "failed"
    whole.check("one")
    assert words(uefi, NODE)["trial"] == "", "GRUB cleared it on FAT before it loaded the kernel"
    assert "panics-without-init" in node_report(uefi, NODE)["refused"]


@pytest.mark.parametrize("point", ["trial:before", "trial:after"])
def test_power_cut_around_the_word_on_the_esp(uefi: Cluster, point: str) -> None:
    """FAT has no journal: a cut leaves the word as it was or as it was to be, and a node that boots."""
    whole = Whole(uefi, NODE)
    uefi.gpuadmin("rollback-image", "--yes")
    cut_power_at(uefi, NODE, point)
    whole.check("base" if point == "trial:before" else "one")
    whole.complete()
