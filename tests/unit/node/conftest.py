"""A host to work on: a directory that looks like a node's root."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import BOUNDS

from tests.support.storage import Storage, mounted

PASSWD = """root:x:0:0:root:/root:/bin/bash
# kept: a comment

daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
gpuadmin:x:900:900::/var/home/gpuadmin:/bin/bash
video-user:x:1000:1000::/home/video-user:/bin/bash
"""
SHADOW = """root:*:20000:0:99999:7:::
daemon:*:20000:0:99999:7:::
gpuadmin:!:20000:0:99999:7:::
video-user:$y$secret:20000:0:99999:7:::
"""
GROUP = """root:x:0:
daemon:x:1:
video:x:44:gpuadmin,video-user
gpuadmin:x:900:
video-user:x:1000:
"""
GSHADOW = """root:*::
daemon:*::
video:*::gpuadmin,video-user
gpuadmin:!::
video-user:!::
"""
SUBUID = "video-user:100000:65536\n"


@pytest.fixture(autouse=True)
def a_small_reserve() -> Iterator[None]:
    """Copies leave a share of the disk free, up to 16 GiB: the tests need no such machine."""
    with pytest.MonkeyPatch.context() as patch:  # not `monkeypatch`: it would be undone last, after what umounts
        patch.setitem(vars(BOUNDS), "most", 64 << 20)
        yield


@pytest.fixture
def host(tmp_path: Path) -> Host:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    for name, text, mode in (
        ("passwd", PASSWD, 0o644),
        ("shadow", SHADOW, 0o640),
        ("group", GROUP, 0o644),
        ("gshadow", GSHADOW, 0o640),
        ("subuid", SUBUID, 0o644),
        ("subgid", SUBUID, 0o644),
    ):
        path = root / "etc" / name
        path.write_text(text)
        path.chmod(mode)
    return Host(root=str(root), subvolume="/roots/a", network=lambda _path: None)


@pytest.fixture
def etc(host: Host) -> Callable[[str], str]:
    """Given a file's name, return its text."""
    return lambda name: (Path(host.root) / "etc" / name).read_text()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    """A storage host on a btrfs of its own, for tests of the mark `btrfs`."""
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        yield Storage(point)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree, with files beside and below directories."""
    top = tmp_path / "top"
    for path in ("a/b/c", "a/z", "other/secret", "z"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(b"x")
    return top
