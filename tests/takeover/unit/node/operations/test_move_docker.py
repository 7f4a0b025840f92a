"""What a host is asked for while root's Docker is carried over: in check mode nothing is done."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background

from gpuadmin.takeover.node.operations import move_docker
from gpuadmin.takeover.node.operations.move_docker import Document


@pytest.mark.holds("check mode carries nothing and removes nothing")
@pytest.mark.parametrize(
    ("step", "words"),
    [("carry", ["carry volume data"]), ("discard", ["remove volume data", "remove container train"])],
)
def test_check_mode(monkeypatch: pytest.MonkeyPatch, step: Any, words: list[str]) -> None:
    monkeypatch.setattr(background, "perform", lambda *_, **__: pytest.fail("check mode"))
    document = Document(step, "/data", "minji", 20000, volumes=["data"], containers={"c1": "train"})
    assert list(move_docker.operate(document, True).operations) == words
