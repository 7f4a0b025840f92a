"""Accounts as a host's own files have them: no hash is told, and nothing has no end."""

import json
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.common.records.adoption import Directory
from gpuadmin.takeover.node.adoption import accounts, bounds
from gpuadmin.takeover.node.renumbering import journal
from gpuadmin.takeover.node.renumbering.journal import Renumbering

HASH = "$6$salt$hashhashhash"


def place(tmp_path: Path, **files: str | bytes) -> Place:
    (tmp_path / "etc").mkdir(exist_ok=True)
    given = {"passwd": "root:x:0:0:root:/root:/bin/bash\n", "shadow": "", "group": "", **files}
    for name, text in given.items():
        path = tmp_path / "etc" / name.replace("_", ".")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Place(root=str(tmp_path))


@pytest.mark.holds("no password hash leaves a host")
def test_of_a_password_only_its_state_is_told(tmp_path: Path) -> None:
    names = {"set": HASH, "locked": f"!{HASH}", "none": "*", "empty": ""}
    found = accounts.accounts(
        place(
            tmp_path,
            passwd="".join(f"{name}:x:1001:1001:A,B:/home/{name}:/bin/bash\n" for name in (*names, "missing")),
            shadow="".join(f"{name}:{secret}:1:0:9:7::19754:\n" for name, secret in names.items()),
        )
    )
    assert {one.name: one.password for one in found} == {name: name for name in (*names, "missing")}
    assert {one.expires for one in found} == {19754, None}
    assert "hash" not in json.dumps(found, default=vars).replace("missing", "")


@pytest.mark.holds("an end that gpuadmin has set for a while is nobody's last day")
@pytest.mark.parametrize("verb", ["renumber", "move-homes"])
@pytest.mark.root
def test_who_is_kept_out_meanwhile_is_told_as_they_were(tmp_path: Path, verb: str) -> None:
    """`usermod --expiredate 1` is how admins lock somebody, too: that has no plan beside it."""
    people = (
        Renumbering("minji", 1001, 20001), Renumbering("jdoe", 1002, 20002, was="j.doe"),
        Renumbering("sora", 1003, 20003),
    )  # fmt: skip
    before = {"minji": [HASH, "20800", False], "jdoe": [f"!{HASH}", "", None], "sora": [HASH, "", False]}
    lines = {"minji": 1, "j.doe": 1, "choi": 1, "sora": 19754}
    given = place(
        tmp_path,
        passwd="".join(f"{name}:x:1001:1001::/home/{name}:/bin/bash\n" for name in lines),
        shadow="".join(f"{name}:!{HASH}:1:0:9:7::{end}:\n" for name, end in lines.items()),
    )
    Path(given.path(given.state)).mkdir(parents=True)
    journal.begin(given.path(given.state), journal.Journal(people, before, verb))
    found = {one.name: (one.password, one.expires, one.closed) for one in accounts.accounts(given)}
    assert found == {
        "minji": ("set", 20800, verb), "j.doe": ("locked", None, verb),
        "choi": ("locked", 1, ""), "sora": ("locked", 19754, ""),
    }  # fmt: skip


@given(st.text(st.characters(exclude_characters=":\n"), min_size=1, max_size=60))
def test_whatever_the_field_has_the_state_is_a_word(field: str) -> None:
    assert accounts.state(field) in {"set", "none", "locked"}


@pytest.mark.parametrize(
    ("field", "state"),
    [(None, "missing"), ("", "empty"), ("!", "none"), ("*", "none"), ("!!", "none"), ("!*", "none"),
     (f"!{HASH}", "locked"), (f"!!{HASH}", "locked"), ("!AbCdEfGhIjKlM", "locked"), (HASH, "set")],
)  # fmt: skip
def test_states_of_a_password(field: "str | None", state: str) -> None:
    assert accounts.state(field) == state


def test_lines_that_are_no_entries_are_passed_over(tmp_path: Path) -> None:
    passwd = b"+::::::\n# x\nshort:x\nminji:x:1001:1001:\xff\x1b[2J:/home/minji:/bin/bash\n"
    (one,) = accounts.accounts(place(tmp_path, passwd=passwd))
    assert (one.name, one.uid) == ("minji", 1001)
    assert one.gecos.isprintable()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("김민지,,,a@b.kr".encode(), "김민지,,,a@b.kr"),
        ("김민지,,,a@b.kr".encode("euc-kr"), "김민지,,,a@b.kr"),
        ("똠방각하".encode("cp949"), "똠방각하"),
        ("José García".encode("latin-1"), "Jos\ufffd Garc\ufffda"),
        ("Müßig".encode("latin-1"), "M\ufffd\ufffdig"),
        (b"\xa4\xa1\xa4\xa2", "\ufffd" * 4),
        (b"Kim", "Kim"),
    ],
)
def test_names_in_hangul_of_before_utf8(tmp_path: Path, data: bytes, text: str) -> None:
    (one,) = accounts.accounts(place(tmp_path, passwd=b"minji:x:1001:1001:" + data + b":/home/minji:/bin/bash\n"))
    assert one.gecos == text


def test_a_host_with_too_many_accounts_is_told_up_to_a_bound(tmp_path: Path) -> None:
    many = "".join(f"u{number}:x:{number}:1:{'g' * 1000}:/:/bin/sh\n" for number in range(bounds.MOST + 9))
    found = accounts.accounts(place(tmp_path, passwd=many))
    assert len(found) == bounds.MOST
    assert max(len(one.gecos) for one in found) == bounds.LINE


def test_groups_of_people_and_those_that_are_root(tmp_path: Path) -> None:
    text = "root:x:0:\nmail:x:8:minji\ndocker:x:990:minji,jiho\nlab:x:1100:minji\n"
    found = {one.name: one.members for one in accounts.groups(place(tmp_path, group=text))}
    assert found == {"root": [], "docker": ["minji", "jiho"], "lab": ["minji"]}


def test_ranges_and_lines_that_are_none(tmp_path: Path) -> None:
    text = "# x\n\nminji:100000:65536\n1001:5:6\njiho:1:2:3\nx:-1:y\nevil\x1b[2J\n"
    found = accounts.subids(place(tmp_path, subuid=text))
    assert found.subgid == []
    assert [(one.name, one.start) for one in found.subuid] == [
        ("minji", 100000), ("1001", 5), ("jiho:1:2:3", None), ("x:-1:y", None), ("evil?[2J", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("passwd: files systemd\n", []),
        ("passwd:\tfiles [!NOTFOUND=return] sss # ldap\n", ["sss"]),
        ("group: ldap\n", []),
        ("", []),
        ("passwd: compat ldap winbind\npasswd: nis\n", ["ldap", "winbind"]),
    ],
)
def test_where_names_come_from(tmp_path: Path, text: str, sources: list[str]) -> None:
    assert accounts.directory(place(tmp_path, nsswitch_conf=text)) == Directory(sources, [])
