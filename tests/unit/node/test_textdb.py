"""What is not understood in a database comes out byte for byte."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import Table, decode, encode, members, number
from hypothesis import given
from hypothesis import strategies as st


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
