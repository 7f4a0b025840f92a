"""What prepare-root says of a node's disk, and that it touches none that is unfit."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.images import grubenv, layout, records
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Running, write_json

from tests.unit.node.images.conftest import Node

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
