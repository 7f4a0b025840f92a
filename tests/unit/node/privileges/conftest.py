"""A host as a tree of files, on which nobody is root but who should be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\nsyslog:x:104:4::/:/sbin/nologin\ngpuadmin:x:900:900::/var/home/gpuadmin:/bin/sh\n"
)
PASSWD += "minji:x:20000:20000::/home/minji:/bin/bash\n"
FILES = {
    "etc/passwd": PASSWD,
    "etc/shadow": "root:*:1::::::\nminji:*:1::::::\n",
    "etc/group": "root:x:0:\nsudo:x:27:gpuadmin\nadm:x:4:syslog\ndocker:x:990:\n",
    "etc/sudoers": "Defaults env_reset\nroot ALL=(ALL:ALL) ALL\n%sudo ALL=(ALL:ALL) ALL\n@includedir /etc/sudoers.d\n",
    "etc/sudoers.d/gpuadmin": "gpuadmin ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "var/lib/dpkg/info/base.list": "/.\n/usr/bin/su\n/bin/mount\n/usr/bin/newuidmap\n/usr/bin/find\n",
    "usr/bin/su": "su",
    "usr/bin/mount": "mount",
    "usr/bin/newuidmap": "newuidmap",
    "usr/bin/find": "find",
}

Host = Callable[..., Place]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """`host({"etc/group": "…"})`: the tree, with other files; `admin`, `declared` and so on as `Place` takes them."""

    tmp_path.chmod(0o755)  # as the root of a host is: keys are read as their owner

    def make(files: dict[str, str] | None = None, **more: Any) -> Place:
        for name, text in {**FILES, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in ("su", "mount", "newuidmap"):
            (tmp_path / "usr/bin" / name).chmod(0o4755)
        return Place(**{"root": str(tmp_path), **more})

    return make
