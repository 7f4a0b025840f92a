"""Decisions about images, as tables: parents, batches, plans, pruning, streams, and what grubenv and grub.cfg hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import grubenv, image_prune, layout, manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.errors import ConfigError
from gpuadmin.images import Facts, batches, build_phases, check_name, choose_parent, new_name, plan_push, prune_store

A, B, C = (f"{digit * 8}-0000-0000-0000-000000000000" for digit in "abc")


def entry(name: str, created: int, *parents: str, full: bool = False) -> dict[str, Any]:
    streams = [{"file": f"from-{one}.btrfs.zst", "parent": {"name": one, "uuid": A}} for one in parents]
    streams += [{"file": "full.btrfs.zst", "parent": None}] if full else []
    return {"manifest": {"name": name, "created": created, "streams": streams}, "problem": None}


def node(**changes: Any) -> dict[str, Any]:
    return {
        "running": "a",
        "current": "a",
        "trial": "",
        "image": "a",
        "held": {"a": A},
        "roots": ["a"],
        "confirmed": ["a"],
        "refused": {},
        "last": {},
        "people": [],
        "receives": {"bytes": 6_250_000, "parent": "a", "held": False},
        **changes,
    }


@pytest.mark.parametrize(
    ("golden", "nodes", "store", "expected"),
    [
        ({"a": A}, {}, {}, "a"),
        ({"a": A, "b": B}, {"n": {"a": A, "b": B}}, {"a": 1, "b": 2}, "b"),
        ({"a": A, "b": B}, {"n": {"a": A}}, {"a": 1, "b": 2}, "a"),
        ({"a": A, "b": B}, {"n": {"b": B}, "m": {"a": A}}, {"a": 1, "b": 2}, None),
        ({"a": A}, {"n": {"a": B}}, {"a": 1}, None),
        ({"base": A, "b": B}, {"n": {"base": A, "b": B}}, {"b": 5}, "b"),
        ({}, {"n": {"a": A}}, {}, None),
    ],
)
def test_the_parent_is_the_newest_that_all_hold(
    golden: dict[str, str], nodes: dict[str, dict[str, str]], store: dict[str, int], expected: str | None
) -> None:
    facts = Facts({name: entry(name, created) for name, created in store.items()})
    held = {name: node(held=images) for name, images in nodes.items()}
    assert choose_parent(node(held=golden), held, facts) == expected


@pytest.mark.parametrize(
    ("count", "canary", "batch", "expected"),
    [
        (5, 1, "2", [1, 2, 2]),
        (5, 1, "100%", [1, 4]),
        (6, 0, "50%", [3, 3]),
        (1, 1, "10", [1]),
        (3, 5, "1", [3]),
        (0, 1, "2", []),
        (200, 1, "10%", [1, *[20] * 9, 19]),
        (3, 1, "1%", [1, 1, 1]),
    ],
)
def test_batches(count: int, canary: int, batch: str, expected: list[int]) -> None:
    assert batches(count, canary=canary, batch=batch) == expected
    assert sum(expected) == count


@pytest.mark.parametrize("batch", ["0", "0%", "101%", "-1", "x", ""])
def test_batches_that_are_none(batch: str) -> None:
    with pytest.raises(ConfigError):
        batches(3, canary=1, batch=batch)


@pytest.mark.parametrize(
    ("changes", "force", "action", "words"),
    [
        ({}, False, "push", "receives 6.2 MB as the difference to a"),
        ({"receives": {"bytes": 5e8, "parent": None, "held": False}}, False, "push", "receives 500.0 MB in full"),
        ({"receives": {"bytes": 0, "parent": None, "held": True}}, False, "push", "holds the image already"),
        ({"image": "b", "receives": {"bytes": 0, "parent": None, "held": True}}, False, "none", "already"),
        ({"people": ["minji"]}, False, "refuse", "minji logged in"),
        ({"people": ["minji"]}, True, "push", "warned: minji"),
        ({"problem": "the parent is missing"}, True, "refuse", "the parent is missing"),
        ({"last": {"stage": "pending", "root": "b"}, "trial": "b"}, False, "refuse", "waits for its reboot"),
    ],
)
def test_the_plan_of_a_push(changes: dict[str, Any], force: bool, action: str, words: str) -> None:
    plan = plan_push(node(**changes), "b", reboot=True, force=force)
    assert plan.action == action
    assert words in " ".join(plan.words)


@pytest.mark.parametrize(
    ("store", "nodes", "keep", "expected"),
    [
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, full=True)}, {}, 1, ["a"]),
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, "a")}, {}, 1, []),
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, "a", full=True)}, {}, 1, ["a"]),
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, full=True)}, {"n": node(image="a")}, 1, []),
        (
            {"a": entry("a", 1, full=True), "b": entry("b", 2, full=True)},
            {"n": node(image="b", current="b", confirmed=["b", "a+2"])},
            1,
            [],
        ),
        ({"a": entry("a", 1), "b": entry("b", 2, "a"), "c": entry("c", 3, "b")}, {}, 1, []),
        ({"a": entry("a", 1), "b": entry("b", 2), "c": entry("c", 3)}, {}, 2, ["a"]),
    ],
)
def test_what_the_store_loses(store: dict[str, Any], nodes: dict[str, Any], keep: int, expected: list[str]) -> None:
    assert prune_store(Facts(store, nodes), keep) == expected
    assert prune_store(Facts(store, nodes, {"n9": "does not answer"}), keep) == []


@pytest.mark.parametrize(
    ("roots", "images", "keyword", "expected"),
    [
        (["a"], {"a": None}, {}, ([], [])),
        (
            ["a", "b", "c"],
            {"a": None, "b": "a", "c": "b"},
            {"running": "c", "current": "c", "confirmed": ["c", "b", "a"]},
            (["a"], ["a"]),
        ),
        (["a", "b"], {"a": None, "b": "a"}, {"running": "a", "current": "b", "confirmed": ["b", "a"]}, ([], [])),
        (
            ["a", "b", "b+2"],
            {"a": None, "b": "a"},
            {"running": "b+2", "current": "b+2", "confirmed": ["b+2", "a"], "image_of": {"b+2": "b"}},
            (["b"], []),
        ),
        (["a", "b"], {"a": None, "b": "a", "c": "a"}, {"newest": ["c", "b", "a"], "keep": 1}, (["b"], ["b"])),
        (["a", "t"], {"a": None}, {"trial": "t"}, ([], [])),
    ],
)
def test_what_a_node_loses(
    roots: list[str], images: dict[str, str | None], keyword: dict[str, Any], expected: tuple[list[str], list[str]]
) -> None:
    given: dict[str, Any] = {
        "running": "a",
        "current": "a",
        "trial": "",
        "confirmed": ["a"],
        "image_of": {},
        "newest": sorted(images, reverse=True),
        **keyword,
    }
    assert image_prune.decide(roots, images, **given) == expected


def test_phases_of_a_build_that_was_cut_off() -> None:
    assert build_phases(node(), "b") == ["main", "finish", "seal"]
    assert build_phases(node(running="b", current="b", roots=["a", "b"]), "b") == ["seal"]
    assert build_phases(node(held={"a": A, "b": B}), "b") == ["seal"]
    with pytest.raises(ConfigError, match="sshd does not greet"):
        build_phases(node(roots=["a", "b"], refused={"b": "sshd does not greet"}), "b")


def test_names() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert new_name([], now) == "2026-11-21"
    assert new_name(["2026-11-21", "2026-11-21.2"], now) == "2026-11-21.3"
    for bad in ("", "A", "a+2", "../x", "a b", ".a", "a..b", "a/b", "x" * 65, "-a", "$(x)"):
        with pytest.raises(ConfigError):
            check_name(bad)


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


def test_package_changes() -> None:
    assert manifest.package_changes({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "3"}) == {
        "added": {"d": "3"},
        "removed": {"c": "1"},
        "changed": {"b": ["1", "2"]},
    }


def test_grubenv_is_a_block_of_1024_bytes() -> None:
    block = grubenv.render({"current": "a", "trial": "b+2"})
    assert len(block) == 1024
    assert grubenv.parse(block) == {"current": "a", "trial": "b+2"}
    for bad in (block[:-1], b"x" * 1024, b""):
        with pytest.raises(NodeError, match="damaged"):
            grubenv.parse(bad)
    with pytest.raises(NodeError, match="do not fit"):
        grubenv.render({"current": "a" * 1100})


GOOD = "load_env\nsave_env trial\nlinux /roots/$name/vmlinuz rootflags=subvol=/roots/$name panic=5\n"


@pytest.mark.parametrize(
    ("config", "kind", "words"),
    [
        (GOOD, "ext4", []),
        (GOOD, "vfat", []),
        (GOOD, "btrfs", ["GRUB cannot write"]),
        (GOOD.replace("panic=5", ""), "ext4", ["panic="]),
        (GOOD.replace("/roots/", "/"), "ext4", ["takes no root from /roots"]),
        ("linux /boot/vmlinuz root=LABEL=x", "", ["GRUB cannot write", "load_env", "save_env", "/roots", "panic"]),
    ],
)
def test_what_grub_must_do(config: str, kind: str, words: list[str]) -> None:
    found = layout.boot_problems(config, kind)
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))
