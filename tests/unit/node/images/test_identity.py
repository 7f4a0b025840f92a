"""What belongs to a node: taken, put into other roots, and never in an image."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import identity, trial
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import ImageSettings, Places

from tests.unit.node.images.conftest import fill


@pytest.fixture
def root(tmp_path: Path) -> Path:
    fill(tmp_path / "root", "node2")
    (tmp_path / "root/etc/systemd/network").mkdir()
    (tmp_path / "root/etc/systemd/network/10-x.network").write_text("[Match]\nMACAddress=x\n")
    (tmp_path / "state").mkdir()
    return tmp_path / "root"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    fill(tmp_path / "other", "node1")
    return tmp_path / "other"


def state(root: Path) -> str:
    return str(root.parent / "state")


def test_taken_from_one_root_and_put_into_another(root: Path, other: Path) -> None:
    assert "etc/machine-id" in identity.capture(str(root), state(root))
    assert identity.capture(str(root), state(root)) == []
    assert identity.differences(str(root), state(root)) == []
    # what only the other had goes, what only this node has comes
    (other / "etc/ssh/ssh_host_rsa_key").write_text("node1's\n")
    assert "etc/ssh/ssh_host_rsa_key" in identity.differences(str(other), state(root))
    identity.apply(str(other), state(root))
    assert identity.differences(str(other), state(root)) == []
    assert (other / "etc/hostname").read_text() == "node2\n"
    assert not (other / "etc/ssh/ssh_host_rsa_key").exists()
    assert (other / "etc/systemd/network/10-x.network").exists()
    key = other / "etc/ssh/ssh_host_ed25519_key"
    assert key.read_text() == "node2 secret\n"
    assert key.stat().st_mode & 0o777 == 0o600
    assert (root.parent / "state/identity").stat().st_mode & 0o777 == 0o700


def test_further_paths_of_the_site(root: Path, other: Path) -> None:
    (root / "etc/licence").mkdir()
    (root / "etc/licence/a.key").write_text("1")
    identity.capture(str(root), state(root), ("etc/licence/*.key",))
    assert identity.apply(str(other), state(root), ("etc/licence/*.key",))
    assert (other / "etc/licence/a.key").read_text() == "1"


@pytest.mark.parametrize("lost", ["etc/machine-id", "etc/hostname", "etc/fstab", "etc/ssh/ssh_host_ed25519_key"])
def test_a_root_that_is_nobody_is_not_taken_for_the_node(root: Path, lost: str) -> None:
    identity.capture(str(root), state(root))
    (root / lost).unlink()
    if lost == "etc/machine-id":
        (root / lost).write_text("")
    with pytest.raises(NodeError, match="identity is not taken"):
        identity.capture(str(root), state(root))
    assert (root.parent / "state/identity" / lost).exists()


def test_an_incomplete_truth_is_not_applied(root: Path, other: Path) -> None:
    with pytest.raises(NodeError, match="not complete"):
        identity.apply(str(other), state(root))
    assert (other / "etc/hostname").read_text() == "node1\n"


@pytest.mark.parametrize("name", identity.REQUIRED)
def test_an_identity_that_a_power_cut_emptied_is_not_applied(root: Path, other: Path, name: str) -> None:
    identity.capture(str(root), state(root))
    (root.parent / "state/identity" / name).write_bytes(b"")
    with pytest.raises(NodeError, match="not complete"):
        identity.apply(str(other), state(root))
    assert (other / "etc/hostname").read_text() == "node1\n"


def test_what_is_stored_of_the_identity_is_on_the_disk_before_it_has_its_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = [], identity.write_atomic

    def write(path: str, *arguments: Any, sync: bool = True, **more: Any) -> None:
        if sync:
            synced.append(os.path.relpath(path, root.parent / "state/identity"))
        real(path, *arguments, sync=sync, **more)

    monkeypatch.setattr(identity, "write_atomic", write)
    assert {*identity.capture(str(root), state(root))} == {*synced}


def test_an_image_is_nobody(root: Path) -> None:
    for path in (
        "root/.bash_history",
        "root/.ssh/authorized_keys",
        "var/log/syslog",
        "etc/shadow-",
        "tmp/x",
        "home/minji/x",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("secret")
    found = " ".join(identity.leftovers(str(root), 20000, 49999))
    for word in ("/etc/hostname", "machine-id", "ssh_host", "history", "syslog", "minji", "shadow-"):
        assert word in found
    identity.strip(str(root), 20000, 49999)
    assert identity.leftovers(str(root), 20000, 49999) == []
    assert (root / "etc/machine-id").read_bytes() == b""
    assert (root / "etc/systemd/network").is_dir(), "a package's directory stays"
    assert (root / "etc/passwd").read_text().splitlines()[-1].startswith("gpuadmin:")
    assert (root / "etc/group").read_text() == "root:x:0:\nvideo:x:44:\n"
    assert (root / "etc/subuid").read_text() == ""


def test_each_thing_that_must_not_be_in_an_image_is_seen_by_itself(root: Path) -> None:
    (root / "etc/gshadow").write_text("video:!:minji,root:minji,root\n")
    account = (root / "etc/passwd").read_text()
    identity.strip(str(root), 20000, 49999)
    assert (root / "etc/gshadow").read_text() == "video:!:root:root\n"
    (root / "etc/passwd").write_text(account)
    assert identity.leftovers(str(root), 20000, 49999) == ["the account minji is a person's"]
    identity.strip(str(root), 20000, 49999)
    state = root / "var/lib/gpuadmin"
    state.mkdir(parents=True)
    assert f"{state} is a node's state" in identity.leftovers(str(root), 20000, 49999)


def test_a_link_of_the_identity_replaces_what_is_there_and_is_never_followed(root: Path, other: Path) -> None:
    outside = root.parent / "outside"
    outside.write_text("kept")
    (root / "etc/resolv.conf").symlink_to("../run/one")
    identity.capture(str(root), state(root))
    (other / "etc/resolv.conf").symlink_to("../run/two")
    (other / "etc/hosts").unlink(missing_ok=True)
    (other / "etc/hostname").unlink()
    (other / "etc/hostname").symlink_to(outside)
    changed = identity.apply(str(other), state(root))
    assert {"etc/resolv.conf", "etc/hostname"} <= {*changed}
    assert (other / "etc/resolv.conf").readlink() == Path("../run/one")
    assert not (other / "etc/hostname").is_symlink()
    assert outside.read_text() == "kept"


@pytest.mark.holds("what is in /var is not replaced")
def test_var_gets_what_it_lacks_and_keeps_what_it_has(tmp_path: Path) -> None:
    factory, var = tmp_path / "factory", tmp_path / "var"
    (factory / "lib/new").mkdir(parents=True)
    (factory / "lib/new/file").write_text("from the image")
    (factory / "lib/both").write_text("from the image")
    (factory / "lib/link").symlink_to("new")
    (factory / "lib/new").chmod(0o750)
    (var / "lib").mkdir(parents=True)
    (var / "lib/both").write_text("the node's")
    trial.fill_var(str(factory), str(var))
    assert (var / "lib/both").read_text() == "the node's"
    assert (var / "lib/new/file").read_text() == "from the image"
    assert (var / "lib/link").readlink() == Path("new")
    assert (var / "lib/new").stat().st_mode & 0o777 == 0o750
    assert trial.fill_var(str(factory), str(var)) == []


def brought(directory: Path) -> tuple[Path, Path]:
    """What an image brings for /var, and a /var without it."""
    factory, var = directory / "factory", directory / "var"
    (factory / "lib/new").mkdir(parents=True)
    for name in ("file", "new/one", "new/two"):
        (factory / "lib" / name).write_text("from the image")
    (var / "lib").mkdir(parents=True)
    return factory, var


def test_a_power_cut_leaves_no_half_of_a_file_in_var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory, var = brought(tmp_path)

    class Cut(BaseException):
        pass

    def half(_source: str, target: str, **_more: object) -> None:
        Path(target).write_text("from")
        raise Cut

    for name in ("file", "new"):
        with monkeypatch.context() as patched:
            patched.setattr(trial.shutil, "copyfile", half)
            with pytest.raises(Cut):
                trial.fill_var(str(factory), str(var))
        assert not (var / "lib" / name).exists()
        (factory / "lib/file").rename(factory / "zfile") if name == "file" else None
    assert {os.path.relpath(path, var) for path in trial.fill_var(str(factory), str(var))} == {
        "zfile", "lib/new", "lib/new/one", "lib/new/two",
    }  # fmt: skip
    assert (var / "lib/new/one").read_text() == (var / "zfile").read_text() == "from the image"
    (factory / "zfile").rename(factory / "lib/file")
    trial.fill_var(str(factory), str(var))
    assert {path.name for path in (var / "lib").iterdir()} == {"file", "new"}


@pytest.mark.holds("a /var that is full is not filled with what never gets a name")
def test_a_full_var_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial goes back, and the old root's image has none of these files: they stayed for ever."""
    factory, var = brought(tmp_path)
    real = trial.shutil.copyfile

    def full(source: str, target: str, **more: Any) -> None:
        real(source, target, **more)
        if target.endswith("one"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trial.shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space"):
        trial.fill_var(str(factory), str(var))
    assert list((var / "lib").iterdir()) == []


@pytest.mark.holds("what comes into /var is on the disk before it has its name")
def test_what_comes_into_var_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory, var = tmp_path / "factory", tmp_path / "var"
    (factory / "lib").mkdir(parents=True)
    (factory / "lib/file").write_text("from the image")
    var.mkdir()
    named: list[bool] = []
    monkeypatch.setattr(trial, "sync_filesystem", lambda path: named.append((var / "lib/file").exists()))
    trial.fill_var(str(factory), str(var))
    assert named == [False, True]


def test_at_boot_a_root_takes_the_identity(root: Path, other: Path, tmp_path: Path) -> None:
    identity.capture(str(root), state(root))
    (tmp_path / "var").mkdir()
    places = Places(root=str(other), var=str(tmp_path / "var"), state=state(root), run=str(tmp_path / "run"))
    assert "/etc/hostname" in trial.take_identity(places, ImageSettings())
    assert (other / "etc/hostname").read_text() == "node2\n"
    assert trial.take_identity(places, ImageSettings()) == []


def test_running_the_checks(tmp_path: Path) -> None:
    for name, text in (("10-good", "exit 0"), ("20-bad", "echo first\necho the reason\nexit 1"), ("30-no-program", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n" if text else "#!/no/such/program\n")
        (tmp_path / name).chmod(0o755)
    failed = trial.run_checks([str(path) for path in sorted(tmp_path.iterdir())])
    assert failed["20-bad"] == "the reason"
    assert set(failed) == {"20-bad", "30-no-program"}
    assert os.access(tmp_path / "10-good", os.X_OK)


def test_a_link_is_replaced_and_not_written_through(root: Path, other: Path, tmp_path: Path) -> None:
    """Else what an image links to would be overwritten, in whatever tree that is."""
    identity.capture(str(root), state(root))
    precious = tmp_path / "precious"
    precious.write_text("another's")
    (other / "etc/hostname").unlink()
    (other / "etc/hostname").symlink_to(precious)
    identity.apply(str(other), state(root))
    assert precious.read_text() == "another's"
    assert not (other / "etc/hostname").is_symlink()
    assert (other / "etc/hostname").read_text() == "node2\n"


def test_a_key_that_others_may_read_is_not_the_node_s_own(root: Path, other: Path) -> None:
    """Mode and owner belong to it as its content does."""
    identity.capture(str(root), state(root))
    identity.apply(str(other), state(root))
    key = other / "etc/ssh/ssh_host_ed25519_key"
    key.chmod(0o644)
    assert identity.differences(str(other), state(root)) == ["etc/ssh/ssh_host_ed25519_key"]
    identity.apply(str(other), state(root))
    assert key.stat().st_mode & 0o777 == 0o600
