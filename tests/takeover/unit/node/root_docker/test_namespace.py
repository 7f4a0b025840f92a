"""A person's user namespace: ids as in a container, nothing of root's, an end."""

import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.root_docker.namespace import Person, inside, person

MINJI = Person("minji", 31001, 31001, 3_000_000, 4_000_000, 65536)


def _ids() -> list[int]:
    return [*os.getresuid(), *os.getresgid(), *os.getgroups()]


def _made(path: str) -> None:
    Path(path).mkdir()
    os.chown(path, 1000, 1000)


def _read(path: str) -> str:
    return Path(path).read_text()


def _fail() -> None:
    raise NodeError("as it should")


@pytest.mark.root  # a user namespace with many ids
@pytest.mark.holds("what is done for a person is done as that person")
def test_it_is_the_person(tmp_path: Path) -> None:
    assert inside(MINJI, _ids) == [0] * 7
    for place in (tmp_path, *tmp_path.parents):
        if place != Path("/tmp") and len(place.parts) > 2:
            place.chmod(0o711)
    place = tmp_path / "hers"
    place.mkdir()
    os.chown(place, 31001, 31001)
    inside(MINJI, _made, str(place / "inner"))
    facts = (place / "inner").stat()
    assert (facts.st_uid, facts.st_gid) == (3_000_999, 4_000_999)
    secret = tmp_path / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    (place / "link").symlink_to(secret)
    with pytest.raises(NodeError, match="ermission denied"):
        inside(MINJI, _read, str(place / "link"))


@pytest.mark.root  # a user namespace with many ids
@pytest.mark.holds("what a person stops is not waited for")
def test_it_ends() -> None:
    with pytest.raises(NodeError, match="as it should"):
        inside(MINJI, _fail)
    begun = time.monotonic()
    with pytest.raises(NodeError, match="no answer within"):
        inside(MINJI, time.sleep, 60, seconds=0.5)
    with pytest.raises(NodeError, match="was ended"):
        inside(MINJI, os._exit, 1)
    assert time.monotonic() - begun < 20


@pytest.mark.holds("ids that nobody knows the place of are not written")
@pytest.mark.parametrize("text", ["", "jiho:1:2\n", "minji:1:2\nminji:9:2\n", "minji:1\n"])
def test_ranges_that_are_not_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/subuid").write_text(text)
    (tmp_path / "etc/subgid").write_text("minji:100:10\n")
    with pytest.raises(NodeError, match="not one"):
        person("minji", 31001, 31001, str(tmp_path))
    (tmp_path / "etc/subuid").write_text("minji:200:20\n")
    assert person("minji", 31001, 31001, str(tmp_path)) == Person("minji", 31001, 31001, 200, 100, 10)
