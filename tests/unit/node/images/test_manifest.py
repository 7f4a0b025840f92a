"""An image's manifest: which stream a node receives, and what is damaged or hostile in one."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import manifest

from tests.support.image_facts import A, B, C

STREAMS = (
    manifest.Stream("full.btrfs.zst", None, 500, 900, "0" * 64),
    manifest.Stream("from-a.btrfs.zst", ("a", A), 6, 9, "1" * 64),
    manifest.Stream("from-b.btrfs.zst", ("b", B), 4, 9, "2" * 64),
)


@pytest.mark.parametrize(
    ("held", "full", "streams", "expected"),
    [
        ({}, False, STREAMS, "full.btrfs.zst"),
        ({"a": A}, False, STREAMS, "from-a.btrfs.zst"),
        ({"a": A, "b": B}, False, STREAMS, "from-b.btrfs.zst"),
        ({"a": A}, True, STREAMS, "full.btrfs.zst"),
        ({"a": C}, False, STREAMS, "full.btrfs.zst"),
        ({"a": C}, False, STREAMS[1:], "is another one"),
        ({}, False, STREAMS[1:], "is not on this node"),
    ],
)
def test_the_stream_a_node_receives(
    held: dict[str, str], full: bool, streams: tuple[manifest.Stream, ...], expected: str
) -> None:
    image = manifest.Manifest("c", C, None, 0.0, "debian", "x86_64", "6.1", 1, streams, {})
    if expected.endswith(".zst"):
        assert manifest.choose_stream(image, held, full=full).file == expected
    else:
        with pytest.raises(NodeError, match=expected):
            manifest.choose_stream(image, held, full=full)


def test_a_stream_of_a_version_that_the_node_does_not_know() -> None:
    newer = manifest.Stream("full.btrfs.zst", None, 500, 900, "0" * 64, 2)
    image = manifest.Manifest("c", C, None, 0.0, "debian", "x86_64", "6.1", 1, (newer,), {})
    assert manifest.choose_stream(image, {}, protocol=2) == newer
    with pytest.raises(NodeError, match="a newer kernel and btrfs-progs are needed here"):
        manifest.choose_stream(image, {}, protocol=1)


def document(**changes: Any) -> bytes:
    """A manifest, with fields changed; `stream` changes its only stream."""
    stream = {"file": "full.btrfs.zst", "parent": None, "bytes": 5, "stream_bytes": 9, "sha256": "0" * 64}
    raw = {
        "format": 1, "name": "a", "uuid": A, "parent": None, "created": 1.0, "distribution": "debian",
        "machine": "x86_64", "kernel": "6.1", "size": 1, "streams": [{**stream, **changes.pop("stream", {})}],
    }  # fmt: skip
    return manifest.render({**raw, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"stream": {"file": "../../../etc/passwd"}}, {"stream": {"file": "/etc/passwd.btrfs.zst"}},
        {"stream": {"file": "a/b.btrfs.zst"}}, {"stream": {"file": "full.btrfs.zst\n"}},
        {"stream": {"sha256": "0" * 63}}, {"stream": {"sha256": "Z" * 64}}, {"stream": {"bytes": "many"}},
        {"stream": {"parent": {"name": "b"}}},
        {"stream": {"parent": {"name": "../b", "uuid": B}}}, {"stream": {"parent": {"name": "b", "uuid": "x"}}},
        {"streams": []}, {"uuid": "x"}, {"uuid": f"{A}\n"}, {"name": "../a"}, {"name": "a+2"}, {"format": 2},
        {"parent": {"name": "b", "uuid": "../../x"}}, {"created": "soon"},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_is_damaged_or_hostile(changes: dict[str, Any]) -> None:
    """Signed or not: its names become paths, its digests file names."""
    assert manifest.parse(document()).name == "a"
    with pytest.raises(NodeError):
        manifest.parse(document(**changes))


def test_package_changes() -> None:
    assert manifest.package_changes({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "3"}) == {
        "added": {"d": "3"},
        "removed": {"c": "1"},
        "changed": {"b": ["1", "2"]},
    }
