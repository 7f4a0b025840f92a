"""What says of an account that it is a service's."""

import struct
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from gpuadmin.common.records.adoption import Used
from gpuadmin.takeover.node.adoption import used

NOW = 2_000_000_000.0
UNITS = """Id=jenkins.service
User=jenkins

Id=user@1001.service
User=1001

Id=jupyter@minji.service
User=minji

Id=cron.service
User=
"""


def place(tmp_path: Path, **days: int) -> Place:
    """A host on which these have logged in so many days ago."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").touch()
    names = {"minji": 1001, "jenkins": 1002, "jiho": 1003}
    lines = (f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n" for name, uid in names.items())
    (tmp_path / "etc/passwd").write_text("".join(lines))
    (tmp_path / "var/log").mkdir(parents=True)
    with (tmp_path / "var/log/lastlog").open("wb") as stream:
        for name, ago in days.items():
            stream.seek(names[name] * 292)
            stream.write(struct.pack("i32s256s", int(NOW) - ago * 86400, b"pts/0", b"10.0.0.9"))
    return Place(root=str(tmp_path))


def test_a_unit_of_its_own_and_the_last_login(tmp_path: Path) -> None:
    found = used.used(place(tmp_path, minji=1, jiho=700), UNITS, NOW)
    assert found == Used({"jenkins": "jenkins.service"}, {"minji": 1, "jiho": 700})


@pytest.mark.parametrize("days", [{}, {"minji": 400}])
def test_a_file_that_nothing_writes_any_more_says_nothing(tmp_path: Path, days: dict[str, int]) -> None:
    assert used.used(place(tmp_path, **days), "", NOW).idle is None
