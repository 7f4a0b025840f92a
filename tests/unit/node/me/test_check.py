"""gpuadmin-me check: the rules of a diagnosis, in words for people, with nobody else's names."""

import os

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.me import check

from gpuadmin.common.causes.cause import Cause


def test_the_remedy_comes_first() -> None:
    found = [
        Cause("docker-disk", "x", "y", values={"left": "1.0 MB"}),
        Cause("container", "x", "y", values={"container": "train", "status": 3}),
    ]
    assert check.lines(found, 20, "node1", "en") == [
        "* docker system prune",
        "  because: the disk of Docker's data on this node is full: 1.0 MB left",
        "- docker logs train",
        "  because: your container train ended with 3",
    ]
    assert check.lines(found, 20, "node1", "ko")[1] == "  이유: 이 노드의 Docker 디스크가 가득 찼습니다: 1.0 MB 남음"
    assert check.lines([], 20, "node1", "en") == [
        "node1: 20 things were checked, and none of them keeps you from working. "
        "Not checked: your keys, log-ins from outside, your programs."
    ]
    assert check.lines([], 20, "node1", "ko")[0].startswith("node1: 20가지를 확인했고")


def test_what_a_cause_does_not_say_is_not_made_up() -> None:
    assert "?" in check.lines([Cause("homes-full", "x", "y")], 20, "node1", "en")[1]


def test_what_only_root_may_read_is_not_looked_at() -> None:
    asked = set(collect.parts(Subject(name="minji", own=True)))
    assert not asked & {"keys", "pam_account", "sshd", "units", "image"}
    assert {"home", "docker", "gpus", "account"} <= asked


def test_without_a_process_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(check, "collect", refused)
    found, looked = check.find_causes(Subject(name="minji", uid=os.getuid(), own=True))
    assert looked == 0
    assert [cause.code for cause in found] == ["tasks"]
    assert check.lines(found, 20, "node1", "en")[0] == "* End processes that you do not need: ps -u $USER"
