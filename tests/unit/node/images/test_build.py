"""Building on the golden node, on real btrfs: the mounts, the overlay over /var, sealing, sending, publishing."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import kernels, pci
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    build,
    manifest,
    observe,
    publish,
    records,
    stream,
    subvolumes,
    switch,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    jobs as image_jobs,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import load
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places

from gpuadmin.common.records.images import ImageOptions, ImageOrder
from tests.unit.node.images.conftest import Node, World, confirm, run, sign

pytestmark = pytest.mark.btrfs


@pytest.fixture
def golden(node: Node) -> Iterator[Node]:
    """A fresh node with a /var of its own, on which things are built."""
    (node.top / "state").mkdir()
    (node.top / "state/lib").mkdir()
    (node.top / "state/lib/known").write_text("the node's")
    run("btrfs", "property", "set", "-ts", node.top / "roots/base", "ro", "false")
    for directory in ("proc", "sys", "dev", "run", "tmp"):
        (node.top / "roots/base" / directory).mkdir(exist_ok=True)
    run("btrfs", "property", "set", "-ts", node.top / "roots/base", "ro", "true")
    made = replace(node, places=replace(node.places, var=str(node.top / "state")))
    try:
        yield made
    finally:
        subprocess.run(["umount", "-R", "-l", build.point(made.places)], check=False, capture_output=True)


def change(golden: Node, name: str) -> None:
    build.prepare(golden.places, golden.settings, name)
    inside = Path(build.point(golden.places))
    (inside / "usr/lib/added").write_text("new")
    (inside / "var/lib/package").mkdir()
    (inside / "var/lib/package/data").write_text("a package's")
    (inside / "var/lib/known").write_text("overwritten")
    (inside / "var/cache").mkdir()
    (inside / "var/cache/archive").write_text("x" * 1000)
    (inside / "var/lib/dkms").mkdir()
    (inside / "var/lib/dkms/mok.key").write_text("signs modules for the golden node")
    (inside / "var/lib/dkms/mok.pub").write_text("its certificate")
    build.finish(golden.places, golden.settings, name)


def test_the_node_itself_is_not_touched_by_a_build(golden: Node) -> None:
    change(golden, "new")
    assert not os.path.ismount(build.point(golden.places))
    assert not (golden.top / "roots/base/usr/lib/added").exists()
    assert (golden.top / "state/lib/known").read_text() == "the node's"
    assert not (golden.top / "state/lib/package").exists()
    made = golden.top / "roots/new"
    found = btrfs.inspect(str(made))
    assert found is not None
    assert found.read_only
    assert records.records(golden.places).images["new"] == "new"
    assert (made / "usr/lib/added").read_text() == "new"
    factory = made / "usr/share/gpuadmin/factory-var"
    assert (factory / "lib/package/data").read_text() == "a package's"
    assert not (factory / "cache").exists()
    assert [one.name for one in (factory / "lib/dkms").iterdir()] == ["mok.pub"], "a private key is in no image"


def test_where_what_a_build_writes_is_kept(golden: Node) -> None:
    """The packages' database with the root that it describes; /run and /tmp nowhere; what is in /var/home
    with the node."""
    base, home = golden.top / "roots/base", golden.top / "state/home"
    run("btrfs", "property", "set", "-ts", base, "ro", "false")
    (base / "usr/lib/sysimage/dpkg").mkdir(parents=True)
    run("btrfs", "property", "set", "-ts", base, "ro", "true")
    for directory in (golden.top / "state/lib/dpkg", home):
        directory.mkdir()
    build.prepare(golden.places, golden.settings, "new")
    inside = Path(build.point(golden.places))
    for name in ("var/lib/dpkg/status", "run/x", "tmp/x", "var/home/x"):
        (inside / name).write_text("new")
    build.finish(golden.places, golden.settings, "new")
    made = golden.top / "roots/new"
    assert (made / "usr/lib/sysimage/dpkg/status").read_text() == "new"
    assert not list((golden.top / "state/lib/dpkg").iterdir())
    assert not list((base / "usr/lib/sysimage/dpkg").iterdir())
    assert not [*(made / "run").iterdir(), *(made / "tmp").iterdir()]
    assert (home / "x").exists()


@pytest.mark.holds("what blocks whoever reads it is in no image")
def test_pipes_and_sockets_of_a_package_end_no_build(tmp_path: Path) -> None:
    """postfix has pipes in /var/spool: to copy one waits for somebody who writes to it, and a socket cannot be read."""
    upper = tmp_path / "upper/spool"
    upper.mkdir(parents=True)
    os.mkfifo(upper / "pickup")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(upper / "master"))
    (upper / "main.cf").write_text("a package's")
    assert build.collect_var(str(tmp_path / "upper"), str(tmp_path / "factory")) == 2
    assert [one.name for one in (tmp_path / "factory/spool").iterdir()] == ["main.cf"]


def test_what_packages_put_into_var_stays_whose_it_is(tmp_path: Path) -> None:
    """What root alone may enter is not open in the image; a link is the package's, and not what it names."""
    upper, factory, named = tmp_path / "upper", tmp_path / "factory", tmp_path / "named"
    (upper / "lib/daemon").mkdir(parents=True)
    (upper / "lib/daemon").chmod(0o700)
    (upper / "lib/daemon/key").write_text("secret")
    (upper / "lib/daemon/key").chmod(0o2640)
    named.touch()
    before = named.stat().st_mode & 0o777
    (upper / "lib/daemon/link").symlink_to(named)
    for path in (upper / "lib/daemon", upper / "lib/daemon/key", upper / "lib/daemon/link"):
        os.chown(path, 107, 108, follow_symlinks=False)
    (upper / "lib/daemon/key").chmod(0o2640)
    assert build.collect_var(str(upper), str(factory)) == 4
    made = {path.name: path.lstat() for path in (factory / "lib").rglob("*")} | {
        "daemon": (factory / "lib/daemon").lstat()
    }
    assert {name: (one.st_uid, one.st_gid) for name, one in made.items()} == dict.fromkeys(made, (107, 108))
    assert (made["daemon"].st_mode & 0o7777, made["key"].st_mode & 0o7777) == (0o700, 0o2640)
    assert (named.stat().st_uid, named.stat().st_mode & 0o777) == (0, before)
    assert build.collect_var(str(tmp_path / "nothing"), str(factory)) == 0


def test_directories_of_packages_are_kept_for_new_disks(tmp_path: Path) -> None:
    """As they are on the golden node, with nothing that is in them, and nothing that packages do not have."""
    root, var = tmp_path / "root", tmp_path / "var"
    (root / "usr/lib/sysimage/dpkg/info").mkdir(parents=True)
    (root / "usr/lib/sysimage/dpkg/info/nfs.list").write_text(
        "/.\n/usr\n/var\n/var/lib/nfs\n/var/lib/nfs/sm\n/var/lib/gone\n/var/lib/file\n/var/lib/link\n/var/lib/old\n"
    )
    for name in ("lib/nfs/sm", "lib/private/minji", "lib/old", "elsewhere"):
        (var / name).mkdir(parents=True)
    (var / "lib/link").symlink_to("../elsewhere")
    for name in ("lib/file", "lib/nfs/state", "lib/nfs/sm/host"):
        (var / name).write_text("this node's")
    (var / "lib/nfs/sm").chmod(0o700)
    os.chown(var / "lib/nfs/sm", 107, 108)
    factory = root / "usr/share/gpuadmin/factory-var"
    (factory / "lib/old").mkdir(parents=True, mode=0o711)
    assert build.collect_directories(str(root), str(var)) == 2
    assert sorted(str(path.relative_to(factory)) for path in factory.rglob("*")) == [
        "lib",
        "lib/nfs",
        "lib/nfs/sm",
        "lib/old",
    ]
    facts = (factory / "lib/nfs/sm").stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o777) == (107, 108, 0o700)
    assert (factory / "lib/old").stat().st_mode & 0o777 == 0o711, "what a build put there stays"


def driver(root: Path, module: str | None, libraries: str = "550.163.01") -> None:
    """Put a driver into a root: its libraries, and a module, whose version a test says (see ``versions``)."""
    base, kernel = root / "usr/lib/x86_64-linux-gnu", root / "usr/lib/modules/6.1.0"
    base.mkdir(parents=True, exist_ok=True)
    (base / f"libnvidia-ml.so.{libraries}").write_text("")
    (base / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{libraries}")
    if module is not None:
        (kernel / "nvidia.ko").write_text(module)
        (kernel / "modules.dep").write_text("./nvidia.ko:\n")


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's version is what its file says, without modinfo."""
    monkeypatch.setattr(kernels, "module_version", lambda path: Path(path).read_text())


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (None, r"kernel 6\.1\.0 has no module nvidia, and the libraries are 550\.163\.01: install its headers"),
        ("535.261.03", r"kernel 6\.1\.0: its module nvidia is 535\.261\.03, the libraries are 550\.163\.01"),
    ],
)
def test_an_image_on_which_gpus_would_not_work_is_not_tried(golden: Node, module: str | None, words: str) -> None:
    build.prepare(golden.places, golden.settings, "new")
    driver(Path(build.point(golden.places)), module)
    with pytest.raises(NodeError, match=words):
        build.finish(golden.places, golden.settings, "new")
    assert not (golden.top / "roots/new").exists()


@pytest.mark.usefixtures("versions")
def test_an_image_on_which_gpus_would_not_work_is_not_sealed(golden: Node) -> None:
    change(golden, "new")
    run("btrfs", "property", "set", "-ts", golden.top / "roots/new", "ro", "false")
    driver(golden.top / "roots/new", None)
    with pytest.raises(NodeError, match=r"image new is not used.*has no module nvidia"):
        publish.seal(golden.places, golden.settings, "new", tried=False)
    assert not list((golden.top / "images").iterdir())
    driver_of = golden.top / "roots/new/usr/lib/modules/6.1.0"
    (driver_of / "nvidia.ko").write_text("550.163.01")
    (driver_of / "modules.dep").write_text("./nvidia.ko:\n")
    assert publish.seal(golden.places, golden.settings, "new", tried=False)


def test_an_image_without_a_driver_where_gpus_are_expected(golden: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pci, "devices", lambda *arguments: [])
    build.prepare(golden.places, golden.settings, "new")
    with pytest.raises(NodeError, match="GPUs are expected, and there is no driver"):
        build.finish(golden.places, replace(golden.settings, gpus=8), "new")


def test_the_nodes_own_mounts_do_not_go_with_those_of_a_build(golden: Node) -> None:
    """A mount that is shared with the top level's takes /dev/pts and /sys/fs/cgroup of the node with it."""
    run("mount", "--make-shared", golden.top)
    build.prepare(golden.places, golden.settings, "new")
    inside = build.point(golden.places)
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    mounts = {fields[4]: fields[6:] for fields in lines if fields[4] == inside or fields[4].startswith(f"{inside}/")}
    assert f"{inside}/dev" in mounts
    assert not [point for point, options in mounts.items() if any(one.startswith("shared:") for one in options)]
    assert not [fields for fields in lines if fields[4].startswith(f"{golden.top}/roots/")]


def test_an_image_that_the_golden_node_has_not_booted_is_not_sealed(golden: Node) -> None:
    change(golden, "new")
    with pytest.raises(NodeError, match="has not booted is not built"):
        publish.seal(golden.places, golden.settings, "new")
    switch.run_switch(switch.Switch(golden.places, golden.settings, target="new", kind="build"))
    with pytest.raises(NodeError, match="has not booted is not built"):
        publish.seal(golden.places, golden.settings, "new")
    after = golden.boot()
    confirm(after)
    uuid = publish.seal(after.places, after.settings, "new")
    assert publish.seal(after.places, after.settings, "new") == uuid, "sealing again is the same image"
    assert not list((golden.top / "incoming").iterdir())


def test_nothing_is_built_where_it_may_not_be(golden: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that would lead elsewhere; a node that could not be switched, either."""
    with pytest.raises(NodeError, match="is not a name for an image"):
        build.prepare(golden.places, golden.settings, "../new")

    def refuse(*_given: object) -> None:
        raise NodeError("a trial goes on")

    with monkeypatch.context() as patch:
        patch.setattr(build, "preflight", refuse)
        with pytest.raises(NodeError, match="a trial goes on"):
            build.prepare(golden.places, golden.settings, "new")
    assert [one.name for one in (golden.top / "roots").iterdir()] == ["base"]
    assert not os.path.ismount(build.point(golden.places))
    build.prepare(golden.places, golden.settings, "new")
    kept = Path(golden.places.state, "identity/etc/hostname")
    assert kept.read_text() == "node2\n", "of whoever builds, as it is now"
    with pytest.raises(NodeError, match="there is no root other being built"):
        build.finish(golden.places, golden.settings, "other")
    (golden.top / "roots/new.new/vmlinuz").unlink()
    with pytest.raises(NodeError, match="vmlinuz"):
        build.finish(golden.places, golden.settings, "new")
    assert not (golden.top / "roots/new").exists(), "it would not boot"


def test_a_name_that_is_taken_and_a_build_that_was_cut_off(golden: Node) -> None:
    build.prepare(golden.places, golden.settings, "new")  # and cut off: mounts and a root that is not finished
    change(golden, "new")
    with pytest.raises(NodeError, match="already; choose another name"):
        build.prepare(golden.places, golden.settings, "new")


def test_an_image_that_holds_a_secret_is_refused(golden: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    change(golden, "new")
    monkeypatch.setattr(publish.identity, "strip", lambda *arguments: None)
    with pytest.raises(NodeError, match=r"is not sealed: .*belongs to one node"):
        publish.seal(golden.places, golden.settings, "new", tried=False)
    assert not list((golden.top / "images").iterdir())


@pytest.mark.parametrize(
    ("fault", "words"),
    [("signature", "signature is not by one"), ("name", "is the manifest of new"), ("size", "bytes in the store")],
)
def test_nothing_is_published_that_is_not_right(
    world: World, golden: Node, fault: str, words: str, tmp_path: Path
) -> None:
    change(golden, "new")
    publish.seal(golden.places, golden.settings, "new", tried=False)
    text = publish.send(
        golden.places, golden.settings, "new", [], full=True, who="tester", progress=lambda text: None
    )  # fmt: skip
    directory = Path(golden.places.store) / "new"
    signature, name = sign(world.key, text), "new"
    if fault == "signature":
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "foreign")
        signature = sign(tmp_path / "foreign", text)
    elif fault == "name":
        name = "other"
    else:
        with (directory / "full.btrfs.zst").open("ab") as handle:
            handle.write(b"x")
    with pytest.raises(NodeError, match=words):
        publish.publish(golden.places, golden.settings, name, text, signature)
    assert not (directory / "manifest.json").exists()


def test_a_full_stream_is_added_to_an_image_that_is_there(world: World, golden: Node) -> None:
    settings = golden.settings
    golden.push("one")
    after = golden.boot()
    confirm(after)
    change(after, "new")
    publish.seal(after.places, settings, "new", tried=False)
    first = publish.send(after.places, settings, "new", ["one"], full=False, who="tester", progress=lambda text: None)
    publish.publish(after.places, settings, "new", first, sign(world.key, first))
    again = publish.send(after.places, settings, "new", ["one"], full=True, who="other", progress=lambda text: None)
    assert [item["file"] for item in json.loads(again)["streams"]] == ["from-one.btrfs.zst", "full.btrfs.zst"]
    assert json.loads(again)["uuid"] == json.loads(first)["uuid"]
    assert json.loads(again)["streams"][0] == json.loads(first)["streams"][0]
    files = {path.name for path in (Path(golden.places.store) / "new").iterdir()}
    assert {"from-one.btrfs.zst", "full.btrfs.zst"} <= files


def published(world: World, golden: Node) -> tuple[str, str]:
    """The manifest of an image that is published, and another one of the same image."""
    change(golden, "new")
    publish.seal(golden.places, golden.settings, "new", tried=False)
    first = publish.send(golden.places, golden.settings, "new", [], full=True, who="x", progress=lambda text: None)
    publish.publish(golden.places, golden.settings, "new", first, sign(world.key, first))
    second = first.replace('"by": "x"', '"by": "y"')
    assert second != first
    return first, second


@pytest.mark.parametrize("point", ["signature", "manifest", "name"])
def test_a_cut_while_an_image_is_published_again_leaves_one_that_verifies(
    world: World, golden: Node, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Its manifest has its signature at each moment: without, nobody could use or sign it any more."""
    first, second = published(world, golden)

    class Cut(BaseException):
        pass

    real, written = publish.write_atomic, []

    def write(path: str, *arguments: object, **more: object) -> None:
        if len(written) == {"signature": 0, "manifest": 1, "name": 9}[point]:
            raise Cut
        written.append(path)
        real(path, *arguments, **more)  # type: ignore[arg-type]  # as they came

    def rename(old: str, new: str) -> None:
        if new.endswith(".sig"):
            raise Cut
        Path(old).replace(new)

    with monkeypatch.context() as patched:
        patched.setattr(publish, "write_atomic", write)
        if point == "name":
            patched.setattr(publish.os, "rename", rename)
        with pytest.raises(Cut):
            publish.publish(golden.places, golden.settings, "new", second, sign(world.key, second))
    store = Path(golden.places.store) / "new"
    there = "y" if point == "name" else "x"
    assert load(str(store), golden.settings.signers).raw["by"] == there
    third = first.replace('"by": "x"', '"by": "z"')
    point, written[:] = "manifest", []
    with monkeypatch.context() as patched:  # once more: the manifest that is there keeps its signature
        patched.setattr(publish, "write_atomic", write)
        with pytest.raises(Cut):
            publish.publish(golden.places, golden.settings, "new", third, sign(world.key, third))
    assert load(str(store), golden.settings.signers).raw["by"] == there
    publish.publish(golden.places, golden.settings, "new", second, sign(world.key, second))
    assert load(str(store), golden.settings.signers).raw["by"] == "y"
    assert not list(store.glob("*.new"))


@pytest.mark.holds("an image that is published again just now is not called changed")
def test_an_image_that_is_published_again_while_it_is_read_verifies(
    world: World, golden: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of another admin's push read the manifest of before and the signature of now."""
    _, second = published(world, golden)
    real = manifest.read_bytes

    def read(path: str) -> bytes | None:
        monkeypatch.undo()
        publish.publish(golden.places, golden.settings, "new", second, sign(world.key, second))
        return real(path)

    monkeypatch.setattr(manifest, "read_bytes", read)
    assert load(str(Path(golden.places.store) / "new"), golden.settings.signers).raw["by"] == "y"


@pytest.mark.parametrize("failing", ["btrfs", "zstd"])
def test_half_a_stream_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """What was sent or packed by a program that failed is deleted, whatever came of it."""
    commands = {"btrfs": "printf half", "zstd": "cat"}
    commands[failing] += "; exit 1"
    real = subprocess.Popen
    monkeypatch.setattr(
        publish.subprocess, "Popen", lambda command, **more: real(("sh", "-c", commands[command[0]]), **more)
    )
    with pytest.raises(NodeError, match="sending one failed"):
        publish._send(Places(), "/images/one", None, str(tmp_path / "full"), lambda text: None)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written(golden: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    change(golden, "new")
    publish.seal(golden.places, golden.settings, "new", tried=False)
    monkeypatch.setattr(
        publish.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(NodeError, match="does not take new"):
        publish.send(golden.places, golden.settings, "new", [], full=True, who="x", progress=lambda text: None)


def test_the_whole_by_requests(world: World, golden: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the unit on a node does it: requests in, results out."""
    from contextlib import nullcontext

    monkeypatch.setattr(image_jobs, "mounted", lambda *arguments, **more: nullcontext())
    monkeypatch.setattr(image_jobs.build, "change", lambda *arguments: ["installed nothing"])
    # a machine that runs tests need not run logind
    monkeypatch.setattr(observe, "people", lambda first, last: [])

    def work(node: Node, action: Any, name: str = "", **options: Any) -> dict[str, Any]:
        order = ImageOrder(action, "", name, options=ImageOptions(**options))
        return image_jobs.carry_out(order, node.places, lambda text: None)

    assert work(golden, action="build", name="new", packages=["x"], upgrade=False)["operations"]
    switched = work(golden, action="finish", name="new", trial=True)["report"]
    assert switched["switch"]["armed"] == "new"
    after = golden.boot()
    confirm(after)
    sealed = work(after, action="seal", name="new", parents=[], full=True, who="tester")
    text = sealed["report"]["manifest"]
    work(after, action="publish", name="new", manifest=text, signature=sign(world.key, text))
    facts = observe.observe(after.places, after.settings, records.load_manifest(after.places, "new", after.settings))
    assert facts["running"] == facts["current"] == facts["image"] == "new"
    assert facts["rollback"] == "base"
    assert facts["receives"] == {"bytes": 0, "parent": None, "held": True}
    assert work(after, action="push", name="new")["report"]["switch"]["armed"] is None
    work(after, action="rollback")
    assert after.grub["trial"] == "base"
    assert work(after, action="prune")["operations"] == []


APT = ("apt-get", "-y", "-o", "Dpkg::Options::=--force-confold")
UPDATE = ("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update")
UPGRADE = (*APT, "-o", "APT::Get::Always-Include-Phased-Updates=true", "dist-upgrade")


def test_packages_are_installed_by_apt_get(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    with pytest.raises(NodeError, match="this root has no apt-get"):
        build.package_commands(str(tmp_path), ["x"], False)
    (tmp_path / "usr/bin/apt-get").touch()
    assert build.package_commands(str(tmp_path), ["x"], True) == [UPDATE, UPGRADE, (*APT, "install", "x")]
    assert build.package_commands(str(tmp_path), ["x"], False) == [(*APT, "install", "x")]
    assert build.package_commands(str(tmp_path), [], True) == [UPDATE, UPGRADE]
    assert build.package_commands(str(tmp_path), [], False) == []


@pytest.mark.parametrize(
    ("packages", "upgrade", "done", "commands"),
    [([], False, [], 0), (["x"], False, ["installed x"], 1), ([], True, ["upgraded packages"], 2),
     (["x", "y"], True, ["upgraded packages", "installed x, y"], 3)],
)  # fmt: skip
def test_packages_are_changed_in_the_root_that_is_built(
    packages: list[str], upgrade: bool, done: list[str], commands: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, ran, told = Places(run=str(tmp_path)), list[Any](), list[str]()
    (tmp_path / "build/usr/bin").mkdir(parents=True)
    (tmp_path / "build/usr/bin/apt-get").touch()
    monkeypatch.setattr(build, "run", lambda command, **_more: ran.append(command))
    assert build.change(places, packages, upgrade, told.append) == done
    assert [command[:2] for command in ran] == [("chroot", str(tmp_path / "build"))] * commands
    assert [" ".join(command[command.index("apt-get") :]) for command in ran] == told


def test_cleaning_keeps_the_stream_that_is_wanted(golden: Node) -> None:
    wanted = records.load_manifest(golden.places, "one", golden.settings).streams[0]
    path = Path(stream.stream_path(golden.places, wanted))
    path.with_suffix(".stream.part").write_text("a part")
    (golden.top / "incoming/rubbish").write_text("x")
    (golden.top / "incoming/directory").mkdir()
    run("btrfs", "subvolume", "create", golden.top / "incoming/half")
    removed = stream.clean(golden.places, wanted)
    assert removed == ["incoming/directory", "incoming/half", "incoming/rubbish"]
    assert [entry.name for entry in (golden.top / "incoming").iterdir()] == [f"{path.name}.part"]


def test_another_image_of_the_name_in_the_store_is_not_replaced(world: World, golden: Node) -> None:
    change(golden, "new")
    publish.seal(golden.places, golden.settings, "new", tried=False)
    text = publish.send(golden.places, golden.settings, "new", [], full=True, who="x", progress=lambda text: None)
    publish.publish(golden.places, golden.settings, "new", text, sign(world.key, text))
    there = Path(golden.places.store) / "new"
    for part in ("images", "roots"):
        if btrfs.inspect(golden.places.in_top(part, "new")):
            subvolumes.delete(golden.places.in_top(part, "new"), golden.places)
    change(golden, "new")
    publish.seal(golden.places, golden.settings, "new", tried=False)
    before = sorted((path.name, path.stat().st_size) for path in there.iterdir())
    with pytest.raises(NodeError, match="the store has another image new; choose another name"):
        publish.send(golden.places, golden.settings, "new", [], full=True, who="x", progress=lambda text: None)
    assert sorted((path.name, path.stat().st_size) for path in there.iterdir()) == before
