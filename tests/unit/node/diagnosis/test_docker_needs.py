"""newuidmap and its like, and units that somebody masked: by files alone, and no link is followed."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.docker_needs import (
    find_mapper_faults,
    list_masked_units,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject


@pytest.mark.root
def test_mappers(tmp_path: Path) -> None:
    subject = Subject(root=str(tmp_path))
    (tmp_path / "usr/bin").mkdir(parents=True)
    assert find_mapper_faults(subject) == ["/usr/bin/newuidmap is not installed", "/usr/bin/newgidmap is not installed"]
    for name in ("newuidmap", "newgidmap"):
        (tmp_path / "usr/bin" / name).touch()
        (tmp_path / "usr/bin" / name).chmod(0o4755)
    assert find_mapper_faults(subject) == []
    path = tmp_path / "usr/bin/newuidmap"
    for mode, words in ((0o755, "is not setuid root (mode 0755)"), (0o4750, "has mode 4750: people cannot run it")):
        path.chmod(mode)
        assert find_mapper_faults(subject) == [f"/usr/bin/newuidmap {words}"]
    path.chmod(0o4755)
    os.chown(path, 20000, 20000)
    path.chmod(0o4755)
    assert find_mapper_faults(subject) == ["/usr/bin/newuidmap is not setuid root (mode 4755)"]
    os.chown(path, 0, 0)
    path.chmod(0o755)
    # as Fedora has it: vfs_cap_data, version 2, CAP_SETUID
    os.setxattr(path, "security.capability", bytes.fromhex("0100000280000000000000000000000000000000"))
    assert find_mapper_faults(subject) == []


def test_masked(tmp_path: Path) -> None:
    home = str(tmp_path / "home/minji")
    assert list_masked_units(home) == []
    units = tmp_path / "home/minji/.config/systemd/user"
    units.mkdir(parents=True)
    (units / "docker.service").symlink_to("/dev/null")
    (units / "docker.socket").write_text("[Socket]\n")
    assert list_masked_units(home) == ["docker.service"]
    # what is behind a link of theirs is not looked at
    (tmp_path / "home/minji/.config").rename(tmp_path / "elsewhere")
    (tmp_path / "home/minji/.config").symlink_to(tmp_path / "elsewhere")
    assert list_masked_units(home) == []
