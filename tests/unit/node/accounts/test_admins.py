"""The site's declared admins: who is made, who is ended, and what sudo is told."""

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import admin, admins, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.admin import Observed, Wanted
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.admin import Place as Directory
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.admins import (
    ENDED,
    Admin,
    People,
    converge,
    gone,
    look,
    sudoers,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.sites import public_key

KEY, OTHER = public_key("jiwon"), public_key("second")
PEOPLE = People("/home", 20000, 49999)
JIWON = Admin("jiwon", 901, (KEY, OTHER), True, 20900)
GUEST = Admin("guest", 902, (KEY,), False)
PASSWD = "root:x:0:0:::\njiwon:x:901:901::/var/home/jiwon:/bin/bash\nold:x:903:903:::\nminji:x:20000:20000:::\n"
SHADOW = "root:*:1::::::\njiwon:*:1::::::\nold:*:1::::::\nminji:*:1::::::\n"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host on which jiwon has an account without keys; `ran` has the commands that were run there."""
    for name, text in (("PASSWD", PASSWD), ("SHADOW", SHADOW)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(admins, name, str(tmp_path / name))
    monkeypatch.setattr(admins, "SUDOERS", str(tmp_path / "sudoers"))
    home = {901: Observed(901, "/var/home/jiwon", gid=901)}

    def observe(wanted: Wanted) -> Observed:
        found = home.get(wanted.uid)
        return Observed() if found is None else replace(found, there=_home(wanted))

    monkeypatch.setattr(admins, "observe", observe)
    monkeypatch.setattr(admins, "open_root", nullcontext)
    return tmp_path


@pytest.fixture
def ran(host: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(admins, "run", lambda command, *, what: found.append(" ".join(command)) or "")
    monkeypatch.setattr(admins, "execute", lambda plan, one: found.append(f"{one.name} {one.key[-5:]}"))
    monkeypatch.setattr(admins, "validate", lambda operations, check: found.append("visudo"))
    monkeypatch.setattr(admins, "write", lambda files: found.append("write"))
    return found


def test_what_is_missing(host: Path) -> None:
    found = look([JIWON, GUEST], PEOPLE)
    assert [one.split(" with")[0] for one in found.operations] == [
        "let jiwon log in", "let jiwon log in", "make the account guest (uid 902, home /var/home/guest)",
        "let guest log in", "account jiwon: valid until 2027-03-22", f"write {host}/sudoers",
    ]  # fmt: skip


def test_it_is_done_in_an_order_that_a_power_cut_may_end(ran: list[str], host: Path) -> None:
    (host / "sudoers").write_text(sudoers([Admin("old", 903, (KEY,))]))
    converge(look([JIWON], PEOPLE))
    assert ran == [
        "chage --expiredate 1 old", f"jiwon {KEY[-5:]}", f"jiwon {OTHER[-5:]}", "chage --expiredate 20900 jiwon",
        "visudo", "write",
    ]  # fmt: skip


def test_again_nothing_is_to_be_done(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "SHADOW").write_text("jiwon:*:1:::::20900:\nold:*:1:::::1:\n")
    monkeypatch.setattr(
        admins, "observe", lambda one: Observed(901, "/var/home/jiwon", keys=f"{KEY}\n{OTHER}\n".encode(), gid=901,
        there=_home(one)),
    )  # fmt: skip
    (host / "sudoers").write_text(sudoers([JIWON]))
    (host / "sudoers").chmod(0o440)
    assert list(look([JIWON], PEOPLE).operations) == []


def _home(one: Wanted) -> Directory:
    return Directory(f"/var/home/{one.name}", one.uid, one.uid)


@pytest.mark.parametrize("uid", [903, 1005])
def test_who_was_declared_is_ended_whatever_their_uid(host: Path, uid: int) -> None:
    """An account that was made by hand has a uid of its own."""
    (host / "PASSWD").write_text(f"old:x:{uid}:{uid}::/none:/bin/sh\n")
    (host / "sudoers").write_text(sudoers([Admin("old", 903, (KEY,))]))
    assert list(look([], PEOPLE).expiry) == [("old", ENDED)]


def _keys_file(host: Path, text: str) -> Path:
    """authorized_keys of jiwon, whose home is below the host now."""
    home = host / "jiwon"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/authorized_keys").write_text(text)
    (host / "PASSWD").write_text(f"jiwon:x:901:901::{home}:/bin/sh\n")
    return home / ".ssh/authorized_keys"


@pytest.mark.parametrize(
    ("before", "now", "gone_now"),
    [
        ((KEY, OTHER), (KEY,), (OTHER,)),  # exchanged
        ((KEY, OTHER), (KEY, OTHER), ()),
        ((KEY,), None, (KEY,)),  # nobody's any more
        ((KEY,), (KEY, OTHER), ()),
    ],
)
def test_which_keys_are_taken_away(
    host: Path, before: tuple[str, ...], now: tuple[str, ...] | None, gone_now: tuple[str, ...]
) -> None:
    _keys_file(host, f'{KEY}\nfrom="10.0.0.1" {OTHER}\n')
    (host / "sudoers").write_text(sudoers([Admin("jiwon", 901, before)]))
    found = look([] if now is None else [Admin("jiwon", 901, now)], PEOPLE)
    assert [key for _, _, keys in found.taken for key in keys] == [" ".join(key.split()[:2]) for key in gone_now]
    assert sum("take the key" in words for words in found.operations) == len(gone_now)


def test_a_key_that_was_never_declared_stays(host: Path) -> None:
    own = public_key("own")
    file = _keys_file(host, f'# {KEY}\n{own}\n{KEY} laptop\nfrom="10.0.0.1" {KEY}')
    admin.remove_keys(str(host / "jiwon"), [KEY], os.getuid())
    assert file.read_text() == f"# {KEY}\n{own}\n"


@pytest.mark.root
@pytest.mark.holds("keys are taken out of no directory of another's")
def test_a_directory_of_anothers_keeps_its_keys(host: Path) -> None:
    file = _keys_file(host, f"{KEY}\n")
    os.chown(file.parent, 33000, 33000)
    admin.remove_keys(str(host / "jiwon"), [KEY], 33001)
    assert file.read_text() == f"{KEY}\n"


def test_a_former_admins_link_stops_nothing(host: Path) -> None:
    file = _keys_file(host, "")
    file.unlink()
    file.parent.rmdir()
    file.parent.symlink_to("/etc")
    (host / "sudoers").write_text(sudoers([Admin("jiwon", 901, (KEY,))]))
    found = look([], PEOPLE)
    assert (list(found.taken), list(found.expiry)) == ([], [("jiwon", ENDED)])


def test_who_is_ended(host: Path) -> None:
    (host / "sudoers").write_text(sudoers([Admin(name, 903, (KEY,)) for name in ("old", "minji", "away")]))
    assert list(look([], PEOPLE).expiry) == [("old", ENDED)], "minji is a person now, away is gone already"


def test_sudo_is_for_those_who_may(host: Path) -> None:
    text = sudoers([JIWON, GUEST])
    assert "jiwon ALL=(ALL:ALL) NOPASSWD: ALL" in text
    assert "guest ALL" not in text
    assert gone(text, [JIWON]) == ["guest"]
    assert gone(sudoers([]), []) == []
    assert gone("# old minji\nx", []) == [], "a file of somebody else's names nobody"
    assert gone(text.replace("guest", "../x"), [JIWON]) == []


@pytest.mark.parametrize(
    "refused", [Admin("root", 901, (KEY,)), Admin("minji", 20000, (KEY,)), Admin("a b", 901, (KEY,))]
)
def test_who_is_refused(host: Path, refused: Admin) -> None:
    with pytest.raises(NodeError):
        look([refused], PEOPLE)


@pytest.mark.holds("a check makes no admins")
def test_a_check_makes_nobody(ran: list[str]) -> None:
    document = operations.AdminsOrder(
        [Admin("jiwon", 901, [KEY])], people_homes="/home", uid_first=20000, uid_last=49999
    )
    planned = operations.converge_admins(document, True)
    assert ran == []
    assert operations.converge_admins(document, False).operations == planned.operations
    assert ran
