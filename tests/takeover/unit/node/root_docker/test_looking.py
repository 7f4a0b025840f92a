"""What is reported of root's Docker: what can be carried, and what cannot; it starts nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import to_plain

from gpuadmin.ansible.reports import parsed
from gpuadmin.takeover.node.root_docker import looking
from gpuadmin.takeover.node.root_docker.api import Daemon
from tests.support.fake_docker import FakeDocker

IMAGE = f"sha256:{'a' * 64}"


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeDocker]:
    found = FakeDocker(tmp_path, tmp_path / "sock")
    found.start()
    yield found
    found.stop()


def test_what_there_is(fake: FakeDocker) -> None:
    fake.image(IMAGE, "tiny:latest")
    fake.volume("data")
    fake.volume("far", Options={"type": "nfs"})
    fake.container("train", IMAGE, "data", running=True, Labels={"owner": "minji\x1b[2J"}, Image="tiny")
    found = parsed("root_docker", to_plain(looking.look(Daemon(str(fake.socket)))))
    assert found["images"] == [{"id": IMAGE, "tags": ["tiny:latest"], "bytes": 5}]
    assert [(one["name"], one["bytes"], bool(one["cannot"])) for one in found["volumes"]] == [
        ("data", 7, False), ("far", 7, True),
    ]  # fmt: skip
    (container,) = found["containers"]
    assert (container["running"], container["volumes"], container["changes"]) == (True, ["data"], 1)
    assert container["labels"] == ["owner=minji?[2J"]
    assert container["command"] == r"docker create --name train --label $'owner=minji\x1b[2J' -v data:/data tiny"
    assert not [one for one in fake.asked if not one.startswith("GET")]


@pytest.mark.holds("a command that was cut off in the middle is not there to be pasted")
def test_a_command_is_whole_or_not_there(fake: FakeDocker) -> None:
    fake.container("train", IMAGE, Image="tiny", Cmd=["x" * looking.LONGEST])
    (container,) = parsed("root_docker", to_plain(looking.look(Daemon(str(fake.socket)))))["containers"]
    assert container["command"] == ""
    assert "too long" in container["differs"][-1]


@pytest.mark.holds("a daemon whose ids are shifted is left alone")
def test_a_daemon_whose_ids_are_shifted(fake: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Daemon, "find", lambda *_: {"SecurityOptions": ["name=userns"]})
    fake.volume("data")
    found = looking.look(Daemon(str(fake.socket)))
    assert "userns-remap" in found.problem
    assert found.volumes == []


def test_a_daemon_that_does_not_run() -> None:
    assert looking.look(None).running is False
