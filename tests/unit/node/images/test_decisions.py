"""Decisions about images, as tables: parents, batches, plans, pruning, streams, and what grubenv and grub.cfg hold."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import grubenv, layout, manifest, places, prune
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import occupants

from gpuadmin.errors import ConfigError
from gpuadmin.images.build import BuildRequest, build_phases, build_plan, choose_parent
from gpuadmin.images.facts import Facts, check_name, new_name
from gpuadmin.images.prune import prune_store
from gpuadmin.images.push import batches, chains, links, plan_push, slowest_steps, time_spent
from tests.unit.images.facts import A, B, C, entry, node, pending


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
    assert choose_parent(node(held=golden), [*held.values()], facts) == expected


def test_what_was_refused_is_nobodys_parent() -> None:
    facts = Facts({"a": entry("a", 1), "b": entry("b", 2)})
    both = {"a": A, "b": B}
    assert choose_parent(node(held=both), [node(held=both)], facts) == "b"
    assert choose_parent(node(held=both), [node(held=both, refused={"b": "panicked"})], facts) == "a"


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


FULL = {"receives": {"bytes": 5e8, "parent": None, "held": False}}
SMALL = {"receives": {"bytes": 5e6, "parent": None, "held": False}}


@pytest.mark.parametrize(
    ("changes", "sizes", "full", "expected"),
    [
        ([FULL] * 5, [1, 4], False, [["n2", "n3", "n4", "n5"]]),
        ([FULL] * 4, [2, 2], False, [["n1", "n2"], ["n3", "n4"]]),
        ([FULL, {}, FULL], [3], False, [["n1", "n3"]]),
        ([SMALL] * 3, [3], False, []),
        ([{}] * 3, [3], False, []),
        ([{"receives": {"bytes": 5e8, "parent": "a", "held": False}}] * 3, [3], True, [["n1", "n2", "n3"]]),
        ([FULL, {"receives": {"bytes": 0, "parent": None, "held": True}}], [2], True, []),
        ([], [], False, []),
    ],
)
def test_chains(changes: list[dict[str, Any]], sizes: list[int], full: bool, expected: list[list[str]]) -> None:
    nodes = {f"n{number}": node(**one) for number, one in enumerate(changes, 1)}
    assert chains(nodes, sizes, {name: name for name in nodes}, full=full) == expected


def test_a_chain_is_of_nodes_with_names_or_addresses_of_ipv4() -> None:
    nodes = {name: node(**FULL) for name in ("n1", "n2", "n3")}
    addresses = {"n1": "10.0.0.1", "n2": "fd00::2", "n3": "gpu3"}
    assert chains(nodes, [3], addresses, full=False) == [["n1", "n3"]]


def test_links_of_a_chain() -> None:
    assert links([["a", "b", "c"]], {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}, 7370) == {
        "a": {"port": 7370, "previous": "", "next": "10.0.0.2"},
        "b": {"port": 7370, "previous": "10.0.0.1", "next": "10.0.0.3"},
        "c": {"port": 7370, "previous": "10.0.0.2", "next": ""},
    }


CONFIRMED = {"stage": "confirmed", "time": 1000.0, "ended": 1064.5, "uptime": 41.5}


@pytest.mark.parametrize(
    ("steps", "last", "expected"),
    [
        ({"fetch": 3.0}, CONFIRMED, {"fetch": 3.0, "reboot": 23.0, "boot": 41.5}),
        (
            {"fetch": 3.0},
            {**CONFIRMED, "ended": 1000.0},
            {"fetch": 3.0, "reboot": 0.0, "boot": 41.5},
        ),  # its clock was set
        ({}, CONFIRMED, {"boot": 41.5}),  # made ready by an earlier run
        ({"fetch": 3.0}, {**CONFIRMED, "stage": "failed"}, {"fetch": 3.0}),
        ({"fetch": 3.0}, {"stage": "confirmed", "time": 1000.0, "ended": 1064.5}, {"fetch": 3.0}),  # an older node's
        ({"fetch": 3.0}, {}, {"fetch": 3.0}),
    ],
)
def test_where_the_time_of_a_push_went(
    steps: dict[str, float], last: dict[str, Any], expected: dict[str, float]
) -> None:
    assert time_spent(steps, last) == expected


@pytest.mark.parametrize(
    ("spent", "words"),
    [
        ({"n1": {"clean": 0.1, "fetch": 3.2, "boot": 41.5}}, "boot 42 s, fetch 3 s"),
        ({"n1": {"fetch": 3.2}, "n2": {"fetch": 9.0, "boot": 40.0}}, "boot 40 s (n2), fetch 9 s (n2)"),
        ({"n1": {"fetch": 3.2}, "n2": {}}, "fetch 3 s"),
        ({}, ""),
    ],
)
def test_the_slowest_node_of_each_step(spent: dict[str, dict[str, float]], words: str) -> None:
    assert slowest_steps(spent) == words


@pytest.mark.parametrize(
    ("changes", "force", "action", "words"),
    [
        ({}, False, "push", "receives 6.2 MB as the difference to a"),
        ({"receives": {"bytes": 5e8, "parent": None, "held": False}}, False, "push", "receives 500.0 MB in full"),
        ({"receives": {"bytes": 0, "parent": None, "held": True}}, False, "push", "holds the image already"),
        ({"image": "b", "receives": {"bytes": 0, "parent": None, "held": True}}, False, "none", "already"),
        ({"people": ["minji"], "gpu_work": ["jiho"]}, False, "refuse", "in use by jiho, minji: --when-idle waits"),
        ({"people": ["minji"]}, True, "push", "sends away: minji"),
        ({"refused": {"b": "it panicked"}}, False, "push", "tries again what failed there: it panicked"),
        ({"problem": "the parent is missing"}, True, "refuse", "the parent is missing"),
        (
            {"last": {"stage": "pending", "root": "c", "image": "c"}, "trial": "c"},
            False,
            "refuse",
            "waits for its reboot",
        ),
        (
            {"last": {"stage": "pending", "root": "b", "image": "b"}, "trial": "b"},
            False,
            "push",
            "ready since an earlier",
        ),
        ({"last": pending("c", "c"), "trial": "c"}, False, "refuse", "waits for its reboot"),
        ({"last": pending("b", "b"), "trial": "b"}, False, "push", "ready since an earlier"),
        ({"last": pending("a", "b")}, False, "push", "its outcome is waited for"),
        ({"last": pending("a", "c")}, False, "refuse", "a switch to a is on trial"),
    ],
)
def test_the_plan_of_a_push(changes: dict[str, Any], force: bool, action: str, words: str) -> None:
    plan = plan_push(node(**changes), "b", reboot=True, force=force)
    assert plan.action == action
    assert words in " ".join(plan.summary)


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
    "only",
    [{"image": "a"}, {"current": "a"}, {"trial": "a+2"}, {"confirmed": ["b", "a"]}],
    ids=["runs", "boots", "is to try", "can go back to"],
)
def test_the_store_keeps_what_one_node_needs_for_one_reason(only: dict[str, Any]) -> None:
    """Each reason by itself: a node that needs the oldest image for nothing else."""
    store = {name: entry(name, number, full=True) for number, name in enumerate("abc")}
    rest = {"running": "b", "image": "b", "current": "b", "trial": "", "confirmed": ["b"]}
    assert prune_store(Facts(store, {"n": node(**rest)}), 1) == ["a"]
    assert prune_store(Facts(store, {"n": node(**{**rest, **only})}), 1) == []


NEEDS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "nothing of the oldest": ({}, ["a"], ["a"]),
    "runs": ({"running": "a"}, ["b"], []),
    "boots": ({"current": "a"}, [], []),
    "is to try": ({"trial": "a"}, [], []),
    "confirmed before": ({"confirmed": ["c", "a"]}, ["b"], []),
    "the parent of the newest": ({"newest": ["c", "b", "a"], "parent": "a"}, ["a"], []),
    "the image of a root of another name": ({"trial": "t", "image_of": {"t": "a"}}, ["a"], []),
}


@pytest.mark.parametrize(("needs", "roots", "images"), NEEDS.values(), ids=NEEDS.keys())
def test_a_node_keeps_what_it_needs_for_one_reason(needs: dict[str, Any], roots: list[str], images: list[str]) -> None:
    """`c` runs and boots, `b` was confirmed before; the two newest images stay, and the oldest for one reason alone."""
    needs = dict(needs)
    parents = {"a": None, "b": None, "c": needs.pop("parent", None)}
    given = {
        "running": "c", "current": "c", "trial": "", "confirmed": ["c", "b"], "image_of": {}, "newest": ["c", "b", "a"],
        "keep": 2, **needs,
    }  # fmt: skip
    assert prune.decide(["a", "b", "c"], parents, **given) == (roots, images)


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
    assert prune.decide(roots, images, **given) == expected


def test_phases_of_a_build_that_was_cut_off() -> None:
    assert build_phases(node(), "b") == ["main", "finish", "seal"]
    assert build_phases(node(running="b", current="b", roots=["a", "b"]), "b") == ["seal"]
    assert build_phases(node(held={"a": A, "b": B}), "b") == ["seal"]
    with pytest.raises(ConfigError, match="sshd does not greet"):
        build_phases(node(roots=["a", "b"], refused={"b": "sshd does not greet"}), "b")


def test_a_build_that_was_cut_off_after_it_was_finished_is_tried() -> None:
    assert build_phases(node(roots=["a", "b"]), "b") == ["finish", "seal"]
    assert build_phases(node(roots=["a", "b.new"]), "b") == ["main", "finish", "seal"]


@pytest.mark.parametrize(
    ("request_", "phases", "parent", "words"),
    [
        (
            BuildRequest("b", upgrade=True),
            ["main", "finish", "seal"],
            "a",
            ["upgrade all", "on trial", "difference to a"],
        ),
        (BuildRequest("b", shell=True, full=True), ["main", "seal"], "a", ["in a shell", "and in full"]),
        (BuildRequest("b", playbook=Path("/x.yml")), ["main"], None, ["run /x.yml", "in full"]),
        (BuildRequest("b"), ["seal"], None, ["seal b"]),
    ],
)
def test_the_plan_of_a_build(request_: BuildRequest, phases: list[str], parent: str | None, words: list[str]) -> None:
    plan = build_plan("node1", node(people=["minji"]), request_, phases, parent, {"node2": "no answer"})
    text = " ".join(step.action for step in plan.steps)
    assert all(word in text for word in words)
    assert ("minji" in " ".join(plan.warnings)) == ("finish" in phases)
    assert "node2 was not asked" in plan.warnings[-1]


def test_who_is_on_a_node(tmp_path: Path) -> None:
    listed = (
        "5 20001 minji - 812 user pts/0 no -\n6 20001 minji - 813 manager - no -\n7 20002 jiho - 9 manager - no -\n"
        "c1 900 gpuadmin - 4 user - no -\n8 20003 sora seat0\n"
    )
    assert occupants.people(20000, 49999, listed) == ["minji", "sora"]
    process = tmp_path / "42"
    (process / "fd").mkdir(parents=True)
    (process / "fd/3").symlink_to("/dev/nvidia3")
    (process / "cgroup").write_text("0::/user.slice/user-20007.slice/user@20007.service/user.slice/docker-1.scope\n")
    uid = process.stat().st_uid
    assert occupants.gpu_users(uid, str(tmp_path)) == ["uid 20007"]
    assert occupants.gpu_users(uid + 1, str(tmp_path)) == []
    (process / "fd/3").unlink()
    (process / "fd/3").symlink_to("/dev/nvidiactl")
    assert occupants.gpu_users(uid, str(tmp_path)) == []


def test_who_is_there_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is not answered is not taken for "nobody"."""
    loginctl = tmp_path / "loginctl"
    loginctl.write_text("#!/bin/sh\necho 'Connection refused' >&2\nexit 1\n")
    loginctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeError, match="not known who is logged in: Connection refused"):
        occupants.people(20000, 49999)


def test_names() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert new_name([], now) == "2026-11-21"
    assert new_name(["2026-11-21", "2026-11-21.2"], now) == "2026-11-21.3"
    for bad in ("", "A", "a+2", "../x", "a b", ".a", "a..b", "a/b", "x" * 65, "-a", "$(x)", "a\n"):
        with pytest.raises(ConfigError):
            check_name(bad)
        with pytest.raises(NodeError):
            places.check_name(bad)


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


def test_grubenv_is_a_block_of_1024_bytes() -> None:
    block = grubenv.render({"current": "a", "trial": "b+2"})
    assert len(block) == 1024
    assert grubenv.parse(block) == {"current": "a", "trial": "b+2"}
    for bad in (block[:-1], b"x" * 1024, b""):
        with pytest.raises(NodeError, match="damaged"):
            grubenv.parse(bad)
    with pytest.raises(NodeError, match="do not fit"):
        grubenv.render({"current": "a" * 1100})


LINE = "linux /roots/$name/vmlinuz rootflags=subvol=/roots/$name gpuadmin.trial=$deadline panic=5\n"
GOOD = f"load_env\nsave_env trial\n{LINE}"


@pytest.mark.parametrize(
    ("config", "kind", "words"),
    [
        (GOOD, "ext4", []),
        (GOOD, "vfat", []),
        (GOOD, "btrfs", ["GRUB cannot write"]),
        (GOOD.replace("panic=5", ""), "ext4", ["panic="]),
        (GOOD.replace("/roots/", "/"), "ext4", ["takes no root from /roots"]),
        (
            "linux /boot/vmlinuz root=LABEL=x",
            "",
            ["nothing is mounted", "load_env", "save_env", "/roots", "of a trial", "panic"],
        ),
    ],
)
def test_what_grub_must_do(config: str, kind: str, words: list[str]) -> None:
    found = layout.boot_problems(config, kind)
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_the_entry_that_the_docs_give_is_one_that_prepare_root_takes() -> None:
    page = Path(__file__).parents[4].joinpath("docs/adopting.md").read_text()
    (entry,) = (block for block in page.split("```") if "menuentry" in block)
    assert layout.boot_problems(entry, "ext4") == []
    assert "timeout=0" not in entry, "there would be no way to GRUB's prompt (docs/recovery.md)"
