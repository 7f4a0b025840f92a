"""User quotas of real ext4 and xfs, which the kernel of a test's machine need not have: homes held to amounts."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.user_quotas import UserQuotas, rounded

from gpuadmin.lab.programs import search_path
from tests.support import home_quotas_program
from tests.support.own_kernel import run_in_own_kernel

MODULES = ("fs/quota/quota_tree.ko", "fs/quota/quota_v2.ko")


def disk(path: Path, *make: str) -> Path:
    with path.open("wb") as stream:
        stream.truncate(400 << 20)
    subprocess.run([*make, str(path)], check=True, capture_output=True, env={"PATH": search_path()})
    return path


@pytest.mark.needs("mkfs.ext4", "mkfs.xfs", "linux.uml")
def test_the_kernel_holds_homes_to_amounts_and_lets_them_go(tmp_path: Path) -> None:
    ext4, xfs = ("mkfs.ext4", "-q", "-F"), ("mkfs.xfs", "-q", "-f")
    disks = {
        "a": disk(tmp_path / "a", *ext4, "-O", "quota,project", "-E", "quotatype=usrquota:prjquota"),
        "b": disk(tmp_path / "b", *xfs),
        "c": disk(tmp_path / "c", *ext4),
        "d": disk(tmp_path / "d", *xfs),
    }
    said = run_in_own_kernel(Path(home_quotas_program.__file__), tmp_path, MODULES, disks)
    expected = []
    for fstype, point in (("ext4", "/run/ubda"), ("xfs", "/run/ubdb")):
        expected += [
            f"{fstype} set 2",
            f"{fstype} again True",
            f"{fstype} below",
            f"{fstype} above Disk quota exceeded",
            f"{fstype} neighbour",
            f"{fstype} counted True True",
            f"{fstype} less Disk quota exceeded",
            f"{fstype} back 2",
            f"{fstype} free",
            f"{fstype} carried [20001, 20002, 20003] something on {point}, by its quotas"
            f" ['{point} (all of it, by its quotas)'] []",
            f"{fstype} shared 1 1",
            f"{fstype} shared again True",
            f"{fstype} shared below",
            f"{fstype} shared above {'Disk quota exceeded' if fstype == 'ext4' else 'No space left on device'}",
            f"{fstype} shared free",
        ]
    assert [line.strip() for line in said[:-4]] == expected
    told = "people are told their amounts, and nothing enforces them: user quotas of"
    assert said[-4:] == [
        f"ext4 off [] [] /run/ubdc/homes: {told} /run/ubdc are off (mount it with usrquota)",
        "ext4 users []",
        f"xfs off [] [] /run/ubdd/homes: {told} /run/ubdd are off (mount it with uquota)",
        "xfs users []",
    ]


@pytest.mark.root
def test_what_has_no_quotas_has_none_and_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert UserQuotas(str(tmp_path / "file")).enforced() is False
    with pytest.raises(OSError, match="nowhere"):
        UserQuotas(str(tmp_path / "nowhere")).enforced()


@pytest.mark.holds("quotas that are only counted hold nobody to them")
def test_quotas_that_are_only_counted_hold_nobody_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = UserQuotas("/dev/x")
    for flags, held in ((0, False), (1, False), (2, False), (3, True), (0x33, True)):
        said = bytes((1, 0, flags, 0))

        def ask(command: int, uid: int, data: ctypes.Array[ctypes.c_char], said: bytes = said) -> bool:
            data[0:4] = said
            return True

        monkeypatch.setattr(quotas, "_ask", ask)
        assert quotas.enforced() is held


def test_a_limit_is_a_whole_number_of_any_file_systems_blocks() -> None:
    assert [rounded(one) for one in (1, 65536, 65537)] == [65536, 65536, 131072]
