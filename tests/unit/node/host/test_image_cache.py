"""The cache of images: fetched once, bounded, and what a registry answers is no path."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host import image_cache

from gpuadmin.common.records.mirror import DockerMirror

MB = 10**6


class Registry:
    """A registry that stores a blob when somebody asks for it, as a pull-through cache does."""

    def __init__(self, directory: Path, images: dict[str, list[bytes]]) -> None:
        self.directory, self.asked, self.answers = directory, [], {}  # type: ignore[var-annotated]
        for image, blobs in images.items():
            name, tag = image.split(":")
            digests = [f"sha256:{hashlib.sha256(blob).hexdigest()}" for blob in blobs]
            whole = {"config": {"digest": digests[0]}, "layers": [{"digest": one} for one in digests[1:]]}
            mine = {
                "digest": "sha256:" + hashlib.sha256(name.encode()).hexdigest(),
                "platform": {"architecture": "amd64"},
            }
            other = {"digest": "sha256:" + "0" * 64, "platform": {"architecture": "s390x"}}
            self.answers[f"{name}/manifests/{tag}"] = json.dumps({"manifests": [other, mine]}).encode()
            self.answers[f"{name}/manifests/{mine['digest']}"] = json.dumps(whole).encode()
            self.answers |= {f"{name}/blobs/{one}": blob for one, blob in zip(digests, blobs, strict=True)}

    def __call__(self, url: str) -> Iterator[bytes]:
        path = url.removeprefix("http://here:5000/v2/")
        if path not in self.answers:
            raise OSError(f"no {path}")
        self.asked.append(path)
        if "/blobs/" in path:
            self.store(path.rpartition(":")[2], len(self.answers[path]), used=1e9)
        yield self.answers[path]

    def store(self, digest: str, size: int, used: float) -> Path:
        path = self.directory / image_cache._BLOBS / digest[:2] / digest / "data"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.truncate(size)
        os.utime(path, (used, used))
        return path


def wanted(directory: Path, *images: str, most: str = "100M") -> DockerMirror:
    return DockerMirror(str(directory), most, "http://here:5000", images)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def run(tmp_path: Path, registry: Registry, *images: str, most: str = "100M") -> int:
    (tmp_path / image_cache.RECORD).write_text(json.dumps(vars(wanted(tmp_path, *images, most=most))))
    return image_cache.main(str(tmp_path), registry)


def test_an_image_is_fetched_once_and_one_that_is_not_there_keeps_no_other_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = Registry(tmp_path, {"library/python:3.12": [b"config", b"layer"], "lab/torch:2": [b"c2", b"l2"]})
    assert run(tmp_path, registry, "nobody/has:1", "python:3.12", "lab/torch:2") == 1
    assert "nobody/has:1" in capsys.readouterr().err
    assert len([path for path in registry.asked if "/blobs/" in path]) == 4
    registry.asked.clear()
    assert run(tmp_path, registry, "python:3.12", "lab/torch:2") == 0
    assert not [path for path in registry.asked if "/blobs/" in path]


@pytest.mark.holds("the cache is no larger than it may be")
def test_what_was_longest_not_asked_for_goes_first_and_the_sites_own_last(tmp_path: Path) -> None:
    registry = Registry(tmp_path, {"lab/torch:2": [b"x", b"y"]})
    old, new = registry.store("a" * 64, 70 * MB, used=1e6), registry.store("b" * 64, 70 * MB, used=2e6)
    assert run(tmp_path, registry, "lab/torch:2") == 0
    assert (old.exists(), new.exists()) == (False, True)
    kept = [path for path in tmp_path.rglob("data") if path.stat().st_size == 1]
    assert len(kept) == 2
    assert image_cache.prune(wanted(tmp_path), set()) == []


@pytest.mark.holds("the cache leaves a tenth of its disk to others")
def test_a_disk_that_is_nearly_full_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(tmp_path, {})
    there = registry.store("a" * 64, 50 * MB, used=1e6)

    class Usage:
        total, used, free = 1000 * MB, 960 * MB, 40 * MB

    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage)
    assert image_cache.prune(wanted(tmp_path), set()) == ["deleted 50.0 MB that nobody asked for lately, of 50.0 MB"]
    assert not there.exists()


@pytest.mark.holds("what a registry calls a digest is one before it is a path")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"config": {"digest": "sha256:../../../etc/passwd"}, "layers": []}, "no digest"),
        ({"manifests": [{"digest": "/etc", "platform": {"architecture": "amd64"}}]}, "no digest"),
        ([], "no manifest"),
    ],
)
def test_what_a_registry_answers_is_looked_at(tmp_path: Path, answer: Any, words: str) -> None:
    with pytest.raises(NodeError, match=words):
        image_cache.fetch("a:1", wanted(tmp_path), lambda _url: iter([json.dumps(answer).encode()]))
    with pytest.raises(NodeError, match="too large"):
        image_cache.fetch("a:1", wanted(tmp_path), lambda _url: iter([b" " * (5 << 20)]))


def test_a_host_that_keeps_no_images_does_nothing(tmp_path: Path) -> None:
    assert image_cache.main(str(tmp_path)) == 0
