"""What keeps a switch from beginning, what a node loses, and what is known of images, their manifests and roots."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import Subvolume
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    commands,
    grubenv,
    layout,
    manifest,
    places,
    preflight,
    prune,
    records,
    root_facts,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import Manifest, Stream
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import (
    ImageSettings,
    Places,
    Running,
    write_json,
)

from gpuadmin.errors import ConfigError
from gpuadmin.images.facts import check_name, new_name
from tests.support.image_facts import A, B, C
from tests.unit.node.images.conftest import Node, fill


@pytest.mark.parametrize(
    ("last", "root", "output", "status"),
    [
        ({"stage": "confirmed", "root": "b"}, "b", "confirmed", 0),
        ({"stage": "failed", "root": "b", "reason": "sshd is down"}, "a", "failed sshd is down", 3),
        ({"stage": "failed", "root": "b", "reason": "sshd is down"}, "b", "leaving sshd is down", 1),
        ({"stage": "trying", "root": "b"}, "b", "trying", 1),
        ({}, "a", "None", 1),
    ],
)
def test_the_outcome_of_a_trial(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    last: dict[str, object],
    root: str,
    output: str,
    status: int,
) -> None:
    """A root that has failed and still runs is about to reboot: who asks then asks again."""
    monkeypatch.setattr(commands, "journal", lambda _: last)
    monkeypatch.setattr(commands, "running_root", lambda _: SimpleNamespace(name=root))
    assert commands.main(["image-outcome"]) == status
    assert capsys.readouterr().out == f"{output}\n"


@pytest.mark.parametrize(("problem", "status"), [(None, 0), ("sshd is down", 1)])
def test_a_check_ends_with_its_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: str | None, status: int
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(commands, "load_settings", lambda _: ImageSettings())
    monkeypatch.setattr(commands.trial, "check", lambda _places, _settings, name: asked.append(name) or problem)
    assert commands.main(["image-check", "sshd"]) == status
    assert asked == ["sshd"]
    assert capsys.readouterr().err == (f"{problem}\n" if problem else "")


@pytest.mark.parametrize("arguments", [["image-check"], ["image-check", "sshd", "root"], ["nothing"]])
def test_what_is_no_command_is_refused(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(commands, "load_settings", lambda _: ImageSettings())
    with pytest.raises(NodeError, match="usage"):
        commands.main(arguments)


GRUB = (
    "load_env\nsave_env trial\n"
    "linux /roots/$name/vmlinuz rootflags=subvol=/roots/$name panic=5 gpuadmin.trial=$deadline\n"
)
MOUNTS = """30 1 0:25 /roots/base / rw - btrfs /dev/vda2 rw,subvolid=256
31 30 0:25 {var} /var rw - {kind} /dev/vda2 rw,subvolid=257
32 30 0:25 /local /local rw - btrfs /dev/vda2 rw,subvolid=258
33 30 254:1 / {boot} ro - {store} /dev/vda1 ro
"""


def mounts(
    monkeypatch: pytest.MonkeyPatch, node: Node, *, var: str = "/state", kind: str = "btrfs", store: str = "ext4"
) -> None:
    text = MOUNTS.format(var=var, kind=kind, boot=node.places.boot, store=store)
    monkeypatch.setattr(layout, "read_mountinfo", lambda: text)


@pytest.mark.btrfs
def test_a_fit_node_is_completed_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts(monkeypatch, node)
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    (node.top / "incoming").rmdir()
    write_json(node.places.in_state("roots.json"), {"confirmed": [], "images": {}, "refused": {}})
    planned = layout.prepare(node.places, node.settings, check=True)
    assert not (node.top / "incoming").exists()
    done = layout.prepare(node.places, node.settings, check=False)
    assert done.operations == planned.operations
    assert done.operations == [
        "make incoming/ in the top level", "note this node's identity in its state", "note base as a confirmed root",
    ]  # fmt: skip
    assert done.problems == []
    assert (node.top / "incoming").stat().st_mode & 0o7777 == 0o700
    assert records.records(node.places).confirmed == ("base",)
    assert (Path(node.places.state) / "identity/etc/machine-id").exists()
    assert layout.prepare(node.places, node.settings, check=False).operations == []


@pytest.mark.btrfs
def test_a_root_on_trial_is_not_noted_as_confirmed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts(monkeypatch, node)
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    write_json(node.places.in_state("roots.json"), {"confirmed": ["before"], "images": {}, "refused": {}})
    grubenv.write(node.places.boot, current="before")
    assert layout.prepare(node.places, node.settings, check=False).problems == []
    assert records.records(node.places).confirmed == ("before",)


@pytest.mark.btrfs
def test_a_grubenv_that_names_no_root(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts(monkeypatch, node)
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    (Path(node.places.boot) / "grubenv").write_bytes(grubenv.render({"other": "x"}))
    found = layout.prepare(node.places, node.settings, check=False)
    assert found.problems == ["grubenv has no word `current`"]
    assert found.operations == []
    (Path(node.places.boot) / "grubenv").write_bytes(b"x" * grubenv.SIZE)
    (problem,) = layout.prepare(node.places, node.settings, check=False).problems
    assert problem.startswith("grubenv is damaged")


@pytest.mark.btrfs
def test_a_node_whose_places_are_no_subvolumes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mounted is said; a root that is on no btrfs at all is unfit, whatever else it has."""
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    text = "".join(
        line for line in MOUNTS.format(var="/", kind="btrfs", boot=node.places.boot, store="ext4").splitlines(True)
        if " /local " not in line
    )  # fmt: skip
    monkeypatch.setattr(layout, "read_mountinfo", lambda: text)
    assert layout.prepare(node.places, node.settings, check=False).problems == [
        "/dev/vda2/ is mounted on /var; it would have to be the subvolume state",
        "nothing is mounted on /local; it would have to be the subvolume local",
    ]

    def refuse(_places: object) -> None:
        raise NodeError("the root is on ext4")

    monkeypatch.setattr(layout.subvolumes, "running_root", refuse)
    found = layout.prepare(node.places, node.settings, check=False)
    assert (found.problems, found.operations) == (
        ["the root is on ext4: it would have to be installed again, on btrfs"], [],
    )  # fmt: skip


@pytest.mark.btrfs
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"var": "/"}, "on /var; it would have to be the subvolume state"),
        ({"kind": "ext4"}, "on /var; it would have to be the subvolume state"),
        ({}, "panic="),
    ],
)
def test_an_unfit_node_is_not_touched(
    node: Node, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], words: str
) -> None:
    mounts(monkeypatch, node, **change)
    config = GRUB if change else GRUB.replace("panic=5", "")
    (Path(node.places.boot) / "grub.cfg").write_text(config)
    (node.top / "incoming").rmdir()
    found = layout.prepare(node.places, node.settings, check=False)
    assert any(words in problem for problem in found.problems)
    assert found.operations == []
    assert not (node.top / "incoming").exists()


@pytest.mark.btrfs
@pytest.mark.parametrize(("store", "problems"), [("ext4", 0), ("vfat", 0), ("btrfs", 1), ("xfs", 1)])
def test_what_the_boot_partition_may_be(node: Node, monkeypatch: pytest.MonkeyPatch, store: str, problems: int) -> None:
    mounts(monkeypatch, node, store=store)
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    found = layout.examine(node.places).problems
    assert len(found) == problems
    assert all(f"grubenv is on {store}, where GRUB cannot write" in problem for problem in found)


@pytest.mark.btrfs
def test_an_esp_that_is_mounted_elsewhere(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """As distributions have it: the ESP on /boot/efi, and /boot/grub a directory of the root."""
    mounts(monkeypatch, node, store="vfat")
    text = layout.read_mountinfo().replace(node.places.boot, "/boot/efi")
    monkeypatch.setattr(layout, "read_mountinfo", lambda: text)
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    (problem,) = layout.examine(node.places).problems
    assert f"nothing is mounted on {node.places.boot}" in problem
    assert "ESP" in problem


@pytest.mark.btrfs
def test_a_node_without_a_static_entry(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts(monkeypatch, node)
    found = layout.examine(node.places)
    assert any("does not boot by GRUB with a static entry" in problem for problem in found.problems)


@pytest.mark.btrfs
@pytest.mark.parametrize("path", ["/root", "/@", "/snapshots/7/root", "/"])
def test_a_root_that_is_booted_by_its_name(node: Node, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    mounts(monkeypatch, node)
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    (node.top / "incoming").rmdir()
    other = replace(node.places, running=Running(5, path))
    found = layout.prepare(other, node.settings, check=False)
    (problem,) = found.problems
    assert f"the root is the subvolume {path}, booted by its name; it would have to become /roots/NAME" in problem
    assert found.operations == []
    assert not (node.top / "incoming").exists()


@pytest.mark.btrfs
@pytest.mark.parametrize(
    ("loader", "problems"), [("systemd-boot 252.38-1~deb12u1", 1), ("GRUB 2.12", 0), (None, 0), ("", 0)]
)
def test_systemd_boot(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, loader: str | None, problems: int
) -> None:
    mounts(monkeypatch, node)
    (Path(node.places.boot) / "grub.cfg").write_text(GRUB)
    variable = tmp_path / "LoaderInfo"
    if loader is not None:
        variable.write_bytes(b"\6\0\0\0" + f"{loader}\0".encode("utf-16-le"))
    monkeypatch.setattr(layout, "LOADER", str(variable))
    found = layout.examine(node.places).problems
    assert len(found) == problems
    assert all("systemd-boot starts this node; it would need GRUB" in problem for problem in found)


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
    page = Path(__file__).parents[4].joinpath("docs/your-cluster.md").read_text()
    (entry,) = (block for block in page.split("```") if "menuentry" in block)
    assert layout.boot_problems(entry, "ext4") == []
    assert "timeout=0" not in entry, "there would be no way to GRUB's prompt (docs/recovery.md)"


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
        {"stream": {"bytes": float("inf")}},
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


def test_deep_json_is_no_manifest() -> None:
    with pytest.raises(NodeError, match="the manifest is damaged"):
        manifest.parse(b"[" * 100_000)


def test_package_changes() -> None:
    assert manifest.package_changes({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "3"}) == {
        "added": {"d": "3"},
        "removed": {"c": "1"},
        "changed": {"b": ["1", "2"]},
    }


@pytest.mark.holds("an image's name is a plain one for the controller too")
def test_names() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert new_name([], now) == "2026-11-21"
    assert new_name(["2026-11-21", "2026-11-21.2"], now) == "2026-11-21.3"
    for bad in ("", "A", "a+2", "../x", "a b", ".a", "a..b", "a/b", "x" * 65, "-a", "$(x)", "a\n"):
        with pytest.raises(ConfigError):
            check_name(bad)
        with pytest.raises(NodeError):
            places.check_name(bad)


PLACES = Places(boot_id="this boot", running=Running(260, "/roots/one"))
STATS = "[/dev/vda2].write_io_errs    {}\n[/dev/vda2].corruption_errs  0\n"
PENDING = {"stage": "pending", "boot_id": "this boot", "root": "two"}
KNOWN: Any = DesiredState(records={"minji": None}, removed=(("jiho", 20002),))  # type: ignore[dict-item]  # only names are read
NODE: dict[str, Any] = {
    "there": Subvolume(260, True, "a", "", ""), "journal": {}, "grubenv": {"current": "one", "trial": "two"},
    "stats": STATS.format(0), "people": ["minji"],
}  # fmt: skip
#: What a node is like, and what keeps it from being switched.
NODES: dict[str, tuple[dict[str, Any], str | None]] = {
    "one that is well": ({}, None),
    "its root is not there": ({"there": None}, "is not one of roots/"),
    "its root is another subvolume": ({"there": Subvolume(261, True, "a", "", "")}, "is not one of roots/"),
    "a switch waits": ({"journal": PENDING}, "a switch to two waits for this node's reboot"),
    "a switch waited before it booted": ({"journal": {**PENDING, "boot_id": "an earlier one"}}, None),
    "a switch whose trial was never set": ({"journal": PENDING, "grubenv": {"current": "one"}}, None),
    "a switch that is over": ({"journal": {**PENDING, "stage": "failed"}}, None),
    "a trial goes on": ({"journal": {**PENDING, "root": "one", "boot_id": "an earlier one"}}, "trial of one is still"),
    "it is not confirmed": ({"grubenv": {"current": "zero"}}, "one runs and zero is confirmed"),
    "its disk has errors": ({"stats": STATS.format(3)}, r"disk has errors \(\[/dev/vda2\].write_io_errs 3\)"),
    "its disk has ten errors": ({"stats": STATS.format(10)}, "disk has errors"),
    "somebody is unknown": ({"people": ["minji", "sora"]}, "^sora on this node"),
    "somebody who was removed is there": ({"people": ["minji", "jiho"]}, None),
}


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    def state(more: dict[str, Any]) -> None:
        found = {**NODE, **more}
        monkeypatch.setattr(
            preflight.btrfs, "inspect", lambda path: found["there"] if path.endswith("roots/one") else 1
        )
        monkeypatch.setattr(preflight, "journal", lambda _places: found["journal"])
        monkeypatch.setattr(preflight.grubenv, "read", lambda _boot: found["grubenv"])
        monkeypatch.setattr(preflight, "run", lambda _command: found["stats"])
        monkeypatch.setattr(preflight, "load_accounts", lambda _state: KNOWN)
        monkeypatch.setattr(preflight.identity, "people", lambda *_: found["people"])

    return state


@pytest.mark.parametrize(("more", "words"), NODES.values(), ids=NODES.keys())
def test_which_node_is_switched(state: Callable[..., None], more: dict[str, Any], words: str | None) -> None:
    state(more)
    if words is None:
        preflight.preflight(PLACES, ImageSettings())
    else:
        with pytest.raises(NodeError, match=words):
            preflight.preflight(PLACES, ImageSettings())


def test_a_root_that_is_none_of_ours_is_not_switched(state: Callable[..., None]) -> None:
    state({"there": Subvolume(5, False, "a", "", "")})
    with pytest.raises(NodeError, match="run gpuadmin prepare-root"):
        preflight.preflight(replace(PLACES, running=Running(1, "/somewhere")), ImageSettings())


GIB = 1 << 30
WHOLE = Stream("two.btrfs.zst", None, GIB, 4 * GIB, "0" * 64)
IMAGE = Manifest("two", "uuid-2", None, 10_000.0, "debian", "x86_64", "6.12", 4 * GIB, (WHOLE,), {})
NEED, METADATA = 5 * GIB + preflight.SPARE, 4 * GIB // 20 + (64 << 20)
#: What a node has of an image, and is like; what keeps it from receiving it.
IMAGES: dict[str, tuple[dict[str, Any], str | None]] = {
    "one that has room": ({}, None),
    "its clock is slow": ({"now": 10_000.0 - preflight.CLOCK_SLACK + 1}, None),
    "its clock is wrong": ({"now": 10_000.0 - preflight.CLOCK_SLACK - 1}, "this node's clock is wrong"),
    "of another distribution": ({"release": {"ID": "ubuntu"}}, "this node runs ubuntu"),
    "of no distribution": ({"release": {}}, "this node runs None"),
    "another machine": ({"machine": "aarch64"}, "this node is aarch64"),
    "too little room": ({"data": NEED - 1}, "on this node's disk, .* are free"),
    "too little for metadata": ({"metadata": METADATA - 1}, "are left for metadata"),
    "another image of that name": ({"held": {"two": "uuid-1"}}, None),
    "a kernel that is too old": ({"protocol": 0}, "this node knows 0"),
}


@pytest.fixture
def receiving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stream | None]:
    def receive(more: dict[str, Any], *, manifest: Manifest = IMAGE, full: bool = False) -> Stream | None:
        found: dict[str, Any] = {"now": 20_000.0, "release": {"ID": "debian"}, "machine": "x86_64", "held": {},
                                 "protocol": 2, "data": NEED, "metadata": METADATA, **more}  # fmt: skip
        monkeypatch.setattr(preflight.time, "time", lambda: found["now"])
        monkeypatch.setattr(preflight, "os_release", lambda _root: found["release"])
        monkeypatch.setattr(preflight.platform, "machine", lambda: found["machine"])
        monkeypatch.setattr(preflight, "held_images", lambda _places: found["held"])
        monkeypatch.setattr(preflight, "send_version", lambda: found["protocol"])
        monkeypatch.setattr(preflight, "free_bytes", lambda _top: found)
        return preflight.preflight_image(PLACES, manifest, full=full)

    return receive


@pytest.mark.parametrize(("more", "words"), IMAGES.values(), ids=IMAGES.keys())
def test_which_image_is_received(receiving: Callable[..., Any], more: dict[str, Any], words: str | None) -> None:
    if words is None:
        assert receiving(more) == WHOLE
    else:
        with pytest.raises(NodeError, match=words):
            receiving(more)


def test_what_is_received_of_an_image(receiving: Callable[..., Any]) -> None:
    """Nothing of the very one that is here, which needs no room; a difference, unless all of it is asked for."""
    difference = Stream("two-one.btrfs.zst", ("one", "uuid-1"), 1000, 5000, "0" * 64)
    manifest = replace(IMAGE, streams=(WHOLE, difference))
    assert receiving({"held": {"two": "uuid-2"}, "data": 0}) is None
    held = {"held": {"one": "uuid-1"}, "data": NEED}
    assert receiving(held, manifest=manifest) == difference
    assert receiving(held, manifest=manifest, full=True) == WHOLE


NEEDS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "nothing of the oldest": ({}, ["a"], ["a"]),
    "runs": ({"running": "a"}, ["b"], []),
    "boots": ({"current": "a"}, [], []),
    "is to try": ({"trial": "a"}, [], []),
    "confirmed before": ({"confirmed": ["c", "a"]}, ["b"], []),
    "the parent of the newest": ({"newest": ["c", "b", "a"], "parent": "a"}, ["a"], []),
    "the image of a root of another name": ({"trial": "t", "image_of": {"t": "a"}}, ["a"], []),
    "one newest image": ({"running": "a", "current": "a", "confirmed": ["a"], "keep": 1}, ["b", "c"], ["b"]),
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


STATUS = """Package: rsync
Status: {status}
Architecture: amd64
Version: 3.4.1+ds1-5
Description: -
Maintainer: -
Conffiles:
 /etc/default/rsync 5e9ff44d2a1bb1b9a8d9ba4a3ba4be3c

"""


@pytest.mark.needs("dpkg-query")
@pytest.mark.parametrize(
    ("status", "there"),
    [
        ("install ok installed", True),
        ("hold ok installed", True),
        ("install ok unpacked", True),
        ("deinstall ok config-files", False),
    ],
)
def test_packages_of_dpkg(tmp_path: Path, status: str, there: bool) -> None:
    """What was removed but for its settings is not there."""
    database = tmp_path / "usr/lib/sysimage/dpkg"
    database.mkdir(parents=True)
    (database / "status").write_text(STATUS.format(status=status))
    assert root_facts.packages(str(tmp_path)) == ({"rsync": "3.4.1+ds1-5"} if there else {})


USAGE = """Overall:
    Device size:		        8589934592
    Device allocated:		        2726297600
    Device unallocated:		        5863636992
    Used:			        1970782208
    Free (estimated):		        6300000000	(min: 3368181504)
    Free (statfs, df):		        0
    Data ratio:			              1.00
    Metadata ratio:		              {ratio}

Data,single: Size:2000000000, Used:1563636992 (78.18%)
   /dev/vda2	2000000000

Metadata,{profile}: Size:268435456, Used:168435456 (62.75%)
   /dev/vda2	536870912
"""


@pytest.mark.parametrize(("profile", "ratio", "more"), [("single", "1.00", 5863636992), ("DUP", "2.00", 2931818496)])
def test_room_on_a_disk(monkeypatch: pytest.MonkeyPatch, profile: str, ratio: str, more: int) -> None:
    """Metadata that is kept twice takes twice the space; what df says is not asked."""
    monkeypatch.setattr(root_facts, "run", lambda command: USAGE.format(profile=profile, ratio=ratio))
    assert root_facts.free_bytes("/") == {"data": 6300000000, "metadata": 100000000 + more}


@pytest.mark.btrfs
@pytest.mark.parametrize(
    ("remove", "words"),
    [
        ("initrd.img", "has no initrd.img to boot"),
        ("etc/systemd/system/multi-user.target.wants/gpuadmin-trial.service", "no unit that would judge its trial"),
        ("etc/initramfs-tools/scripts/init-top/gpuadmin-trial", "nothing that would end a trial that hangs"),
        ("usr/lib/modules/6.1.0/modules.dep", "has no modules for its kernel"),
    ],
)
def test_what_an_image_needs_to_be_tried(tmp_path: Path, remove: str, words: str) -> None:
    fill(tmp_path, "node1")
    script = tmp_path / root_facts.EARLY
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    root_facts.check_boots(str(tmp_path), "one")
    (tmp_path / remove).unlink()
    with pytest.raises(NodeError, match=words):
        root_facts.check_boots(str(tmp_path), "one")
