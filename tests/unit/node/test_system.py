"""What kind of host it is, whom it knows, and what is in it."""

import re
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import lookup, people
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import copy_server, retention
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import KEY as PLAIN
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import valid_name
from ansible_collections.gpuadmin.node.plugins.module_utils.system import (
    is_debian,
    parse_dpkg_status,
    parse_os_release,
    units,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import Table, decode, encode, members, number
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.common.records.people import PersonEntry


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID=debian\nVERSION_CODENAME=trixie\n", True),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', True),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', False),
        ("# nothing\nID=alpine\n", False),
        ("", False),
    ],
)
def test_debian_and_its_kin(text: str, expected: bool) -> None:
    assert is_debian(parse_os_release(text)) is expected


def test_dpkg_status_counts_only_what_is_configured() -> None:
    text = (
        "Package: a\nStatus: install ok installed\nVersion: 1\n\n"
        "Package: b\nStatus: deinstall ok config-files\n\n"
        "Package: c\nStatus: install ok half-configured\n\n"
        "Package: d\nStatus: hold ok installed\nDescription: x\n Package: e\n"
    )
    assert parse_dpkg_status(text) == ["a", "d"]


def test_units_of_a_systemd_that_does_not_answer_are_not_none() -> None:
    assert units(("sh", "-c", "echo b.service active; echo; echo a.service; exit 1")) == ["a.service", "b.service"]
    with pytest.raises(NodeError, match="does not say what it has: Failed to list units: Connection timed out"):
        units(("sh", "-c", "echo Failed to list units: Connection timed out >&2; exit 1"))
    with pytest.raises(NodeError, match="No such file"):
        units(("/nonexistent/systemctl",))


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEwH0f5bI8ZzvWgIbc5uK1h6H8l2fFrj1v6J2p7mWb2T"


@pytest.mark.parametrize(
    "name",
    [
        "../x", "-rf", "a b", "{{ x }}", "a\nb", "minji\n", "a" * 33, "김민지", "", "A", "1a", "a:b", ".", "a/b", "a.b",
        None, 5,
    ],
)  # fmt: skip
def test_names(name: object) -> None:
    assert not valid_name(name)


@pytest.mark.parametrize(
    "key", ["restrict " + KEY, KEY + "\n" + KEY, " " + KEY, "ssh-dss AAAAB3NzaC1kc3MAAACB", KEY + "\r", "# comment"]
)
def test_keys(key: str) -> None:
    assert not PLAIN.match(key)


def test_the_longest_name_and_a_comment_in_hangul_are_fine() -> None:
    assert valid_name("a" * 32)
    assert PLAIN.match(KEY + " 민지 @ home")


PAGE = Path(__file__).resolve().parents[3] / "docs/security.md"


def test_the_page_says_what_holds() -> None:
    table = PAGE.read_text().partition("## Limits that are not settings")[2].partition("\n## ")[0]
    said = dict(re.findall(r"^\| ([^|]+) \| ([0-9]+)[^|]* \|", table, re.MULTILINE))
    assert {what: int(number) for what, number in said.items()} == {
        "a second copy stays after it came": retention.COPY_DAYS,
        "sets that the backup host takes in 24 hours": copy_server.PER_DAY,
    }


NOBODY = 2**31 - 7  # a uid that no host gives


def test_whom_this_host_knows_and_whom_it_does_not() -> None:
    assert lookup.system_lookup("root") == (0, 0)
    assert lookup.find_name(0) == "root"
    assert lookup.owner(0) == "root (uid 0)"
    assert lookup.system_lookup("gpuadmin-nobody-has-this") is None
    assert lookup.find_name(NOBODY) is None
    assert lookup.owner(NOBODY) == f"uid {NOBODY}"


@pytest.mark.parametrize(
    "given_",
    [
        [PersonEntry("root", 0)],
        [PersonEntry("minji", 20000), PersonEntry("minji", 20001)],
        [PersonEntry("minji", 20000), PersonEntry("jiho", 20000)],
    ],
)
def test_people_who_cannot_be_told_apart_are_refused(given_: list[PersonEntry]) -> None:
    with pytest.raises(NodeError):
        people.parse(given_)


@given(st.binary(max_size=300))
def test_any_bytes_survive(data: bytes) -> None:
    assert encode(Table.parse("passwd", decode(data)).text()) == data


@given(st.text(alphabet="a:x#+-\n\r\x0c 1\u2028", max_size=60))
def test_any_lines_survive(text: str) -> None:
    assert Table.parse("group", text).text() == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("root:x:0:\n", "root:x:0:\nnew:x:5:\n"),
        ("root:x:0:", "root:x:0:\nnew:x:5:\n"),
        ("root:x:0:\n+:::\n", "root:x:0:\nnew:x:5:\n+:::\n"),
        ("root:x:0:\r\n# c\n\nbroken\n", "root:x:0:\r\n# c\n\nbroken\nnew:x:5:\n"),
        ("", "new:x:5:\n"),
    ],
)
def test_append(before: str, after: str) -> None:
    table = Table.parse("group", before)
    table.set("new", ["new", "x", "5", ""])
    assert table.text() == after


def test_an_entry_that_would_break_the_file_is_refused() -> None:
    table = Table.parse("group", "")
    for fields in (["a", "x", "1"], ["a", "x", "1", "b\nroot::0:0:"], ["a", "x", "1", "b:c"]):
        with pytest.raises(ValueError, match="not a group entry"):
            table.set("a", fields)


def test_small_parts() -> None:
    assert members("a,,b\r") == ["a", "b"]
    assert [number(text) for text in ("0", "-1", "", "1 ", "٣", "99999999999")] == [0, None, None, None, None, None]
