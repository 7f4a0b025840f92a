"""The account that gpuadmin logs in as: what is missing, what is refused, and that nothing else is touched."""

import os
import re
import stat
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import admin
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.admin import (
    Observed,
    Place,
    Plan,
    Wanted,
    add_key,
    below,
    execute,
    has_key,
    plan,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished

from tests.support.sites import public_key

KEY, OTHER = public_key("admin"), public_key("other")
WANTED = Wanted("gpuadmin", 900, "/var/home/gpuadmin", KEY, "/home", 20000, 49999)
ROOTS = (Place("/var/home"), Place("/var"), Place("/"))
OWN = Place("/var/home/gpuadmin", 900, 900)
THERE = Observed(900, "/var/home/gpuadmin", keys=f"{KEY}\n".encode(), gid=900, above=ROOTS, there=OWN)


def test_what_a_host_lacks() -> None:
    found = plan(WANTED, Observed())
    assert (found.account, found.key, found.home) == (True, True, "/var/home/gpuadmin")
    made, added = found.operations(WANTED)
    assert made == "make the account gpuadmin (uid 900, home /var/home/gpuadmin)"
    assert added.startswith("let gpuadmin log in with the key ssh-ed25519 …")
    assert added.endswith(" admin")
    assert plan(WANTED, THERE).operations(WANTED) == []
    assert plan(WANTED, Observed(above=ROOTS, there=OWN)).account
    assert (below("/homes/a", "/home"), below("/home", "/home")) == (False, True)


def test_an_account_that_is_there_keeps_its_uid_and_home() -> None:
    there = Place("/opt/gpuadmin", 998, 998, stat.S_IFDIR | 0o770)
    observed = Observed(998, "/opt/gpuadmin", holder="somebody", gid=998, comment="gpuadmin", there=there)
    for one in (observed, replace(observed, comment="", uid=1000, there=replace(there, uid=1000))):
        found = plan(WANTED, one)
        assert (found.account, found.key, found.home) == (False, True, "/opt/gpuadmin")


def test_a_system_account_that_is_meant() -> None:
    """By its uid, or since it lets the key in already: somebody prepared it for gpuadmin."""
    there = replace(THERE, uid=998, there=replace(OWN, uid=998))
    assert not plan(WANTED, there).key
    assert plan(replace(WANTED, uid=998), replace(there, keys=None)).key


def directory(path: str, uid: int = 0, mode: int = 0o755, gid: int = 0) -> Place:
    return Place(path, uid, gid, stat.S_IFDIR | mode)


REFUSED = {
    "from a directory": (WANTED, Observed(elsewhere=True), "comes from a directory"),
    "a person's uid": (WANTED, replace(THERE, uid=20000), "which is a person's"),
    "the first uid is 1000": (replace(WANTED, first=1000), replace(THERE, uid=1000), "which is a person's"),
    "a wanted uid of people": (replace(WANTED, uid=49999), Observed(), "which is a person's"),
    "a home under the homes": (WANTED, replace(THERE, home="/home/gpuadmin"), "mounted over it"),
    "a new home under the homes": (replace(WANTED, homes="/var/home"), Observed(), "mounted over it"),
    "root": (replace(WANTED, name="root"), THERE, "cannot be the name of its account"),
    "another root": (WANTED, replace(THERE, uid=0), "has uid 0"),
    "no home": (WANTED, replace(THERE, home=""), "home ''"),
    "a name that is none": (replace(WANTED, name="a b"), Observed(), "cannot be the name of its account"),
    "two lines of keys": (replace(WANTED, key=f"{KEY}\n{OTHER}"), Observed(), "public key"),
    "a uid that is taken": (WANTED, Observed(holder="postgres"), "uid 900 is postgres's here"),
    "a web server": (WANTED, replace(THERE, uid=33, keys=None), r"\(uid 33\): .* would get sudo; choose another"),
    "a database": (WANTED, replace(THERE, uid=110, keys=None), r"would get sudo; .* say so: --uid 110"),
    "a person's directory as new home": (
        WANTED,
        Observed(above=ROOTS, there=directory("/var/home/gpuadmin", 20001)),
        r"is there already, and belongs to uid 20001; move it away, or give --home",
    ),
    "root's directory as new home": (WANTED, Observed(there=directory("/etc")), "there already"),
    "a file of that uid": (WANTED, Observed(there=Place("/x", 900, 0, stat.S_IFREG | 0o644)), "there already"),
    "its own, which others can write": (WANTED, Observed(there=directory("/x", 900, 0o777)), "there already"),
    "a new home in a person's directory": (
        WANTED,
        Observed(above=(directory("/local/kim", 20001), *ROOTS)),
        r"/local/kim, where the home of gpuadmin would be, belongs to uid 20001; give --home",
    ),
    "a new home where everybody can write": (
        WANTED,
        Observed(above=(directory("/tmp", 0, 0o1777), *ROOTS)),
        r"/tmp, .* can be written by others \(mode 1777\)",
    ),
    "a new home where a group can write": (WANTED, Observed(above=(directory("/x", 0, 0o775, 50),)), "by others"),
    "a new home below a file": (WANTED, Observed(above=(Place("/x", mode=stat.S_IFREG | 0o644),)), "not a directory"),
    "an account with somebody's home": (
        WANTED,
        replace(THERE, there=directory("/var/home/gpuadmin", 20001)),
        "the home of gpuadmin, belongs to uid 20001; correct that, or choose another admin.user",
    ),
    "an account with a home in somebody's": (WANTED, replace(THERE, above=(directory("/x", 20001),)), "belongs to"),
    "an account without a home": (WANTED, replace(THERE, there=None), "is not a directory; make it"),
    "an account with a file as home": (
        WANTED,
        replace(THERE, there=Place("/var/home/gpuadmin", 900, 900, stat.S_IFREG | 0o644)),
        "is not a directory",
    ),
}


@pytest.mark.parametrize(("wanted", "observed", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(wanted: Wanted, observed: Observed, words: str) -> None:
    with pytest.raises(NodeError, match=words):
        plan(wanted, observed)


@pytest.mark.parametrize(
    ("line", "there"),
    [
        (KEY, True),
        (KEY.rsplit(" ", 1)[0] + " another comment", True),
        (OTHER, False),
        (f"# {KEY}", False),
        (f'command="true" {KEY}', False),
        (f"{OTHER}\n\n{KEY}", True),
        ("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), False),
    ],
)
def test_which_lines_let_the_key_in(line: str, there: bool) -> None:
    assert has_key(line.encode(), KEY) == there


def test_a_key_is_added_and_the_others_stay(tmp_path: Path) -> None:
    uid, gid = os.geteuid(), os.getegid()
    add_key(str(tmp_path), KEY, uid, gid)
    path = tmp_path / ".ssh/authorized_keys"
    assert path.read_text() == f"{KEY}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.write_bytes(b"# \xff\nno-pty " + OTHER.encode())
    add_key(str(tmp_path), KEY, uid, gid)
    assert path.read_bytes() == b"# \xff\nno-pty " + OTHER.encode() + f"\n{KEY}\n".encode()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".ssh").symlink_to("elsewhere")
    with pytest.raises(NodeError, match=r"\.ssh is not a directory"):
        add_key(str(tmp_path), KEY, os.geteuid(), os.getegid())
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with pytest.raises(NodeError, match=r"\.ssh is not a directory"):
        admin.read_authorized_keys(str(tmp_path))


def test_a_file_that_is_a_link_is_not_read_and_named_as_people_know_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root's own")
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh/authorized_keys").symlink_to("../secret")
    for act in (
        lambda: add_key(str(tmp_path), KEY, os.geteuid(), os.getegid()),
        lambda: admin.read_authorized_keys(str(tmp_path)),
    ):
        with pytest.raises(NodeError, match=rf"^{tmp_path}/\.ssh/authorized_keys is a symbolic link"):
            act()
    assert (tmp_path / "secret").read_text() == "root's own"


def test_a_directory_that_is_exchanged_meanwhile_gets_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key goes to the directory that was looked at, and to nothing that a link leads to by then."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    elsewhere.mkdir()
    read = admin.read_bytes

    def exchanging(path: str) -> bytes | None:
        (home / ".ssh").rename(home / "old")
        (home / ".ssh").symlink_to(elsewhere)
        return read(path)

    monkeypatch.setattr(admin, "read_bytes", exchanging)
    add_key(str(home), KEY, os.geteuid(), os.getegid())
    assert list(elsewhere.iterdir()) == []
    assert (home / "old/authorized_keys").read_text() == f"{KEY}\n"


def test_a_directory_of_anothers_gets_no_key(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    with pytest.raises(NodeError, match="not a directory of uid"):
        add_key(str(tmp_path), KEY, os.geteuid() + 1, os.getegid())
    assert list((tmp_path / ".ssh").iterdir()) == []


def test_a_new_account_has_no_password_and_no_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """sshd lets nobody into an account that is locked, where PAM is off."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(admin, "open_root", nullcontext)
    monkeypatch.setattr(admin, "run", lambda words, **_: ran.append(words))
    execute(Plan(str(tmp_path / "gpuadmin"), account=True, key=False), replace(WANTED, home=str(tmp_path / "gpuadmin")))
    (words,) = ran
    assert words[words.index("--password") + 1] == "*"
    assert words[words.index("--uid") + 1] == "900"


@pytest.mark.root
def test_a_host_is_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Links are followed: a home that is in people's homes by one is refused, too."""
    (tmp_path / "passwd").write_text("www-data:x:33:34:www-data:/var/www:/usr/sbin/nologin\n")
    monkeypatch.setattr(admin, "PASSWD", str(tmp_path / "passwd"))
    found = admin.observe(replace(WANTED, name="www-data"))
    assert (found.uid, found.gid, found.comment) == (33, 34, "www-data")
    homes, link = tmp_path / "homes", tmp_path / "link"
    homes.mkdir()
    link.symlink_to(homes)
    wanted = replace(WANTED, name="gpuadmin-test", home=str(link / "admin"), homes=str(homes))
    found = replace(admin.observe(wanted), holder=None)
    assert {place.path for place in found.above} >= {str(link), str(tmp_path), "/"}
    assert str(homes) in {place.path for place in found.above}
    found = replace(found, above=tuple(one for one in found.above if one.path in (str(link), str(homes))))
    with pytest.raises(NodeError, match="by a link"):
        plan(wanted, found)
    (homes / "admin").mkdir()
    os.chown(homes / "admin", 20001, 20001)
    assert admin.observe(wanted).there == Place(str(link / "admin"), 20001, 20001, stat.S_IFDIR | 0o755)


@pytest.mark.root
def test_a_link_as_home_is_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What it leads to may be fine now, and another directory tomorrow."""
    (tmp_path / "real").mkdir(mode=0o755)
    os.chown(tmp_path / "real", 900, 900)
    link = tmp_path / "gpuadmin"
    link.symlink_to("real")
    (tmp_path / "passwd").write_text(f"gpuadmin:x:900:900::{link}:/bin/bash\n")
    monkeypatch.setattr(admin, "PASSWD", str(tmp_path / "passwd"))
    found = admin.observe(replace(WANTED, home=str(link)))
    with pytest.raises(NodeError, match="is not a directory"):
        plan(WANTED, replace(found, above=ROOTS))


def test_a_home_among_peoples_is_not_even_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They may be on a file server that is away."""
    (tmp_path / "passwd").write_text("gpuadmin:x:900:900::/home/gpuadmin:/bin/bash\n")
    monkeypatch.setattr(admin, "PASSWD", str(tmp_path / "passwd"))
    monkeypatch.setattr(admin, "_place", lambda *_: pytest.fail("looked at"))
    with pytest.raises(NodeError, match="mounted over it"):
        plan(WANTED, admin.observe(WANTED))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2", None),
        ("authorizedkeysfile /etc/none /var/lib/gpuadmin/keys/%u %h/.ssh/authorized_keys", None),
        ("authorizedkeysfile {}/%u", None),  # root has put the key there
        ("authorizedkeysfile /etc/none/%u",
         "gpuadmin could not log in: sshd reads keys from /etc/none/gpuadmin (AuthorizedKeysFile), not from "),
        ("authorizedkeysfile none", "sshd reads keys from no file"),
        ("authorizedkeysfile .ssh/authorized_keys\nallowgroups staff admins",
         "could not log in: sshd lets none of gpuadmin's groups in (AllowGroups); correct it there"),
        ("authorizedkeysfile .ssh/authorized_keys\nallowgroups gpuadmin", None),
        ("authorizedkeysfile .ssh/authorized_keys\nallowusers jiho", "sshd does not let gpuadmin in (AllowUsers)"),
    ],
)  # fmt: skip
def test_an_account_that_sshd_would_refuse(tmp_path: Path, settings: str, why: str | None) -> None:
    """bootstrap said "refuses our login (permission denied)" when all was made, and never why."""
    (tmp_path / "gpuadmin").write_text(f"{KEY}\n")
    found = Finished((), 0, settings.format(tmp_path), "")
    with pytest.raises(NodeError, match=re.escape(why)) if why else nullcontext():
        admin.refuse_by_sshd(WANTED, "/var/home/gpuadmin", lambda _: found)


def test_an_sshd_that_cannot_be_asked_is_in_nobodys_way() -> None:
    admin.refuse_by_sshd(WANTED, "/var/home/gpuadmin", lambda _: Finished((), 255, "", "sshd: no hostkeys available"))
