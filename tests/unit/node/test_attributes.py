"""Extended attributes: those that a host's policy sets are nobody's, and a file system may have none."""

import errno
import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import attribute_names


def test_names_without_those_of_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listxattr", lambda _: ["user.b", "security.selinux", "security.capability", "user.a"])
    assert attribute_names(str(tmp_path)) == ["security.capability", "user.a", "user.b"]


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EPERM])
def test_a_file_system_without_attributes_has_none(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(_: object) -> list[str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listxattr", refuse)
    assert attribute_names("x") == []


def test_attributes_that_cannot_be_read_are_not_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> list[str]:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "listxattr", broken)
    with pytest.raises(OSError, match="input/output error"):
        attribute_names("x")
