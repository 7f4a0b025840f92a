"""The driver's errors in the kernel's log, and what only looks like one."""

import errno
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import xid

TEXT = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (f"4,1200,98000000,-;{TEXT}", ("0000:41:00.0", 79, 98)),
        ("3,1,5,-;NVRM: Xid (PCI:0000:C1:00.0): 48, pid='<unknown>'", ("0000:c1:00.0", 48, 0)),
        ("4,1,5,-;NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE", ("0000:01:00.0", 94, 0)),
        ("4,1,5,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a", ("0000:3b:00.0", 13, 0)),
        (
            "4,1,5,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
            "Required)",
            ("0000:3b:00.0", 154, 0),
        ),
        (
            "4,1,5,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 "
            "(None)",
            None,
        ),
        ("4,1,5,-;NVRM: Xid (PCI:0000:3b:00 me): 13, pid=9", None),
        (f"12,1200,98000000,-;{TEXT}", None),  # written by a program: facility 1
        (f"4,1,5,-;program: {TEXT}", None),
        ("4,1,5,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module", None),
        ("4,1,5,-;NVRM: Xid (PCI:0000:41:00): 999999", None),
        ("", None),
        (";", None),
        ("4;NVRM: Xid (PCI:0000:41:00): 79", None),
    ],
)
def test_a_record(record: str, found: tuple[str, int, int] | None) -> None:
    assert xid.parse(record) == found


def test_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records come one by one, as the kernel gives them; one that was overwritten meanwhile is passed over."""
    (tmp_path / "kmsg").touch()
    again = TEXT.replace("79", "31")
    records: list[object] = [
        f"4,1,1000000,-;{TEXT}".encode(), OSError(errno.EPIPE, "Broken pipe"), b"6,2,2000000,-;usb 1-1: new device",
        f"4,3,3000000,-;{TEXT}".encode(), f"4,4,4000000,-;{again}".encode(), BlockingIOError(errno.EAGAIN, "later"),
    ]  # fmt: skip

    def read(_handle: int, _size: int) -> object:
        record = records.pop(0)
        if isinstance(record, OSError):
            raise record
        return record

    monkeypatch.setattr(xid.os, "read", read)
    found = xid.read(str(tmp_path / "kmsg"))
    monkeypatch.undo()
    assert records == []
    assert found == [
        {"address": "0000:41:00.0", "xid": 31, "count": 1, "seconds": 4},
        {"address": "0000:41:00.0", "xid": 79, "count": 2, "seconds": 3},
    ]


def test_a_log_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        xid.read(str(tmp_path / "missing"))


def test_no_error_is_both() -> None:
    assert not set(xid.STAY_AWAY) & set(xid.WORSE)
