"""What keeps a switch from beginning: each thing by itself, and nothing else; test_switch.py has it on real disks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import Subvolume
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import preflight
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import Manifest, Stream
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import ImageSettings, Places, Running

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
def node(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    def node(more: dict[str, Any]) -> None:
        found = {**NODE, **more}
        monkeypatch.setattr(
            preflight.btrfs, "inspect", lambda path: found["there"] if path.endswith("roots/one") else 1
        )
        monkeypatch.setattr(preflight, "journal", lambda _places: found["journal"])
        monkeypatch.setattr(preflight.grubenv, "read", lambda _boot: found["grubenv"])
        monkeypatch.setattr(preflight, "run", lambda _command: found["stats"])
        monkeypatch.setattr(preflight, "load_accounts", lambda _state: KNOWN)
        monkeypatch.setattr(preflight.identity, "people", lambda *_: found["people"])

    return node


@pytest.mark.parametrize(("more", "words"), NODES.values(), ids=NODES.keys())
def test_which_node_is_switched(node: Callable[..., None], more: dict[str, Any], words: str | None) -> None:
    node(more)
    if words is None:
        preflight.preflight(PLACES, ImageSettings())
    else:
        with pytest.raises(NodeError, match=words):
            preflight.preflight(PLACES, ImageSettings())


def test_a_root_that_is_none_of_ours_is_not_switched(node: Callable[..., None]) -> None:
    node({"there": Subvolume(5, False, "a", "", "")})
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
