"""Keys as sshd would judge them; homes whose owner wants root's code to follow, wait or read for ever."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import read_small
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import home as homes
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import keys
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject

from tests.support.sites import public_key

KEY = public_key("minji")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (KEY, None),
        (f'from="10.0.0.0/8",no-pty {KEY}', None),
        (KEY.rsplit(" ", 1)[0][:-8], "cut or damaged: it ends in the middle"),
        ("ssh-ed25519", "has no key after its kind"),
        ("ssh-ed25519 AAAA*AAA", "not base64"),
        (KEY.replace("ssh-ed25519 ", "ssh-rsa "), "of another kind"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "is a private key"),
        ("hello", "is not a public key"),
        ("ssh-dss AAAAB3NzaC1kc3MAAAABAQ==", "DSA"),
    ],
)
def test_one_line(line: str, problem: str | None) -> None:
    found = keys.key(line)["problem"]
    assert found is None if problem is None else problem in found


def test_a_key_is_reported_by_its_fingerprint_alone() -> None:
    (found,) = keys.parse_keys(f"# mine\n\n{KEY}\n".encode())
    assert (found["line"], found["kind"], found["problem"]) == (3, "ssh-ed25519", None)
    assert found["fingerprint"].startswith("SHA256:")
    assert KEY.split()[1] not in str(found)


def test_there_is_an_end_to_keys() -> None:
    found = keys.parse_keys(b"x\n" * 100_000 + b"y" * 200_000)
    assert len(found) == keys.MOST_KEYS + 1
    assert "too large" in found[-1]["problem"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "minji"
    (path / ".ssh").mkdir(parents=True)
    (path / ".ssh/authorized_keys").write_text(KEY)
    for one in (path, path / ".ssh", path / ".ssh/authorized_keys"):
        one.chmod(0o700)
    return path


def of(home: Path, uid: int | None = None, file: str = keys.USUAL[0]) -> dict[str, object]:
    return keys.read_home_keys(str(home), os.geteuid() if uid is None else uid, "/home/minji", file=file)


@pytest.mark.parametrize("file", [".ssh/authorized_keys2", "keys"])
def test_a_file_of_keys_elsewhere_in_a_home(home: Path, file: str) -> None:
    (home / ".ssh/authorized_keys").rename(home / file)
    assert (of(home, file=file)["path"], of(home, file=file)["problem"]) == (f"/home/minji/{file}", None)
    assert of(home)["problem"] == "is missing"


@pytest.mark.root
def test_a_home_has_the_second_file_of_sshds_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".ssh/authorized_keys").rename(home / ".ssh/authorized_keys2")
    monkeypatch.setattr(homes, "_by_passwd", lambda subject, name: None)
    found = homes.home(Subject(name="minji", homes=f"/{home.parent.name}", root=str(home.parent.parent)))
    assert [(one["path"][-16:], one["problem"]) for one in found["keys"]] == [
        ("/authorized_keys", "is missing"), ("authorized_keys2", None),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [".", ".ssh", ".ssh/authorized_keys"])
def test_what_others_may_write_sshd_does_not_read(home: Path, name: str) -> None:
    (home / name).chmod(0o770)
    assert "has mode 0770: others may write it" in str(of(home)["problem"])


@pytest.mark.root
def test_what_is_somebody_elses(home: Path) -> None:
    os.chown(home / ".ssh", 20001, 20001)
    assert of(home, 20000)["problem"] == "/home/minji/.ssh belongs to uid 20001"


@pytest.mark.holds("a link in place of a file of keys is not followed")
def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root:secret")
    (home / ".ssh/authorized_keys").unlink()
    (home / ".ssh/authorized_keys").symlink_to(tmp_path / "secret")
    found = of(home)
    assert found["keys"] == []
    (home / ".ssh/authorized_keys").unlink()
    (home / ".ssh").rmdir()
    (home / ".ssh").symlink_to(tmp_path)
    assert of(home)["problem"] == "is a symbolic link"


@pytest.mark.holds("what is not a regular file is not read")
def test_a_pipe_is_not_waited_for(home: Path) -> None:
    (home / ".ssh/authorized_keys").unlink()
    os.mkfifo(home / ".ssh/authorized_keys", 0o600)
    assert of(home)["problem"] == "is not a regular file"


def test_a_file_without_an_end_is_read_up_to_a_bound(home: Path) -> None:
    with (home / ".ssh/authorized_keys").open("r+b") as stream:
        stream.truncate(1 << 40)
    assert "too large" in str(of(home)["keys"])


@pytest.mark.root
@pytest.mark.parametrize(("node", "who"), [(True, 20001), (False, 0)], ids=["node", "storage host"])
def test_a_home_is_read_as_sshd_reads_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: bool, who: int
) -> None:
    """On a node a home of mode 0700 is on NFS, where root is nobody (root_squash): each one's keys looked refused."""
    tmp_path.chmod(0o755)
    asked = set()
    for one in (home, home / ".ssh", home / ".ssh/authorized_keys"):
        os.chown(one, 20001, 20001)
    monkeypatch.setattr(keys, "read_small", lambda name, at: asked.add(os.geteuid()) or read_small(name, at))
    monkeypatch.setattr(homes, "_by_passwd", lambda subject, name: None)
    subject = Subject(name="minji", uid=20001, homes=f"/{tmp_path.name}", root=str(tmp_path.parent), node=node)
    found = homes.home(subject)
    (keys_there,) = found["keys"]
    assert (asked, keys_there["problem"], len(keys_there["keys"])) == ({who}, None, 1)
    assert os.geteuid() == 0
