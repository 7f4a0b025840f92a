"""Exports as spreadsheets write them, and as nobody should."""

import csv
import io
import unicodedata
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.applications.columns import find_columns
from gpuadmin.applications.form import moment, person_name, public_keys, student_number, wanted
from gpuadmin.applications.matching import latest
from gpuadmin.applications.read import read_form, read_members, with_map
from gpuadmin.applications.table import parse_table, read_table
from gpuadmin.config.schema import Applications
from gpuadmin.errors import ConfigError
from gpuadmin.reading import LARGEST
from tests.support.sites import public_key

KEY = public_key("minji")
RULES = Applications()
HEADER = "타임스탬프,이메일 주소,이름,학번 (예: 20231234),SSH 공개키,Docker 사용,이용 수칙 동의"
ROW = f"2026/11/20 3:04:05 오후 GMT+9,minji@example.ac.kr,김민지,2023-1234,{KEY},예,동의합니다"

GOOD: dict[str, bytes] = {
    "UTF-8": f"{HEADER}\n{ROW}\n".encode(),
    "UTF-8 with a mark, CRLF": f"\ufeff{HEADER}\r\n{ROW}\r\n".encode(),
    "CP949": f"{HEADER}\n{ROW}\n".encode("cp949"),
    "quoted, with blanks and blank rows": (
        "\n" + ",".join(f'" {title} "' for title in HEADER.split(",")) + "\n,,,,,,\n" + ROW + "\n,,\n"
    ).encode(),
    "other order and other words": (
        "이용약관 동의,Email Address *,Full name,Student ID,SSH public key [one line],Do you need Docker?,Timestamp\n"
        f"예,minji@example.ac.kr,김민지,20231234,{KEY},필요,2026-11-20T15:04:05\n"
    ).encode(),
    "semicolons, with a mark, and a title with a comma": (
        "\ufeff" + HEADER.replace(",", ";").replace("이용 수칙 동의", "이용 수칙 동의 (예, 아니요)") + "\r\n"
        + ROW.replace(",", ";") + "\r\n"
    ).encode(),
    "tabs": f"{HEADER}\n{ROW}\n".replace(",", "\t").encode("cp949"),
    "semicolons in quoted titles of a table with commas": (
        HEADER.replace("학번 (예: 20231234)", '"학번 (a;b;c;d;e;f;g;h;i)"') + "\n" + ROW + "\n"
    ).encode(),
    "a key of many lines": (HEADER + "\n" + ROW.replace(KEY, f'"\n{KEY}\n{KEY}"') + "\n").encode(),
    "decomposed Hangul": unicodedata.normalize("NFD", f"{HEADER}\n{ROW}\n").encode(),
}  # fmt: skip


@pytest.mark.parametrize("raw", GOOD.values(), ids=GOOD.keys())
def test_the_same_application_from_every_export(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "answers.csv"
    path.write_bytes(raw)
    (application,) = read_form(path, RULES)
    assert application.name == "김민지"
    assert application.student_id == "20231234"
    assert application.email == "minji@example.ac.kr"
    assert application.keys == (KEY,)
    assert application.docker is True
    assert application.time == datetime(2026, 11, 20, 15, 4, 5)
    assert application.missing == ()


MISSING: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "nothing": ({}, ()),
    "no key": ({"key": ""}, ("key_missing",)),
    "a private key": ({"key": '"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA"'}, ("key_private",)),
    "a key that is cut off": ({"key": KEY[:40]}, ("key_bad",)),
    "a key with options": ({"key": f'"command=""id"" {KEY}"'}, ("key_bad",)),
    "a key that is a template": ({"key": KEY + "{{ x }}"}, ("key_bad",)),
    "a formula for a name": ({"name": "=HYPERLINK(0)"}, ("name",)),
    "a name of two lines": ({"name": '"김민지\nroot"'}, ()),
    "a name with a control character": ({"name": "김\x07민지"}, ("name",)),
    "a name with a template": ({"name": "{{ lookup('pipe') }}"}, ("name",)),
    "no student id": ({"student_id": ""}, ("student_id",)),
    "words for a student id": ({"student_id": "졸업생"}, ("student_id",)),
    "an injected header": ({"email": '"a@example.org\nBcc: b@example.org"'}, ("email",)),
    "two addresses": ({"email": '"a@example.org, b@example.org"'}, ("email",)),
    "docker maybe": ({"docker": "글쎄요"}, ("docker",)),
    "not agreed": ({"terms": ""}, ("terms",)),
    "agreed to something else": ({"terms": "동의하지 않습니다"}, ("terms",)),
    "nothing at all but an address": (
        {"name": "", "student_id": "", "key": "", "docker": "", "terms": ""},
        ("key_missing", "name", "student_id", "docker", "terms"),
    ),
}


def form(**cells: str) -> str:
    row = {
        "email": "minji@example.ac.kr", "name": "김민지", "student_id": "20231234", "key": KEY, "docker": "yes",
        "terms": "I agree.",
    } | cells  # fmt: skip
    return f"{','.join(row)}\n{','.join(row.values())}\n"


@pytest.mark.parametrize(("cells", "missing"), MISSING.values(), ids=MISSING.keys())
def test_what_is_missing(tmp_path: Path, cells: dict[str, str], missing: tuple[str, ...]) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(form(**cells), newline="")
    (application,) = read_form(path, RULES)
    assert application.missing == missing


def test_what_the_site_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("mail,login\na@cs.example.ac.kr,minji\nb@example.org,jiho\nc@notexample.ac.kr,x\n")
    rules = Applications.model_validate(
        {"required": [], "domains": ["example.ac.kr"], "columns": {"terms": []}, "docker": False}
    )
    first, second, third = read_form(path, rules)
    assert (first.missing, second.missing, third.missing) == ((), ("email",), ("email",))
    assert first.user_name == "minji"
    assert first.docker is False


WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b"\n,,\n", "is empty"),
    "UTF-16": ("이름".encode("utf-16"), "is not CSV text"),
    "a zip": (b"PK\x03\x04\x14rest", "is a spreadsheet"),
    "binary": (b"a,b\n\x00,c\n", "is not CSV text"),
    "no encoding": (b"\xff\xff\xff", "is neither of utf-8, cp949"),
    "an open quote": (b'email\n"a\n', "answers.csv:2: is not valid CSV"),
    "a huge cell": (b"email\n" + b"x" * 200_000 + b"\n", "is not valid CSV"),
    "too many cells": (b"email,terms\na,b,c\n", "answers.csv:2: has more cells"),
    "no address": (b"name,terms\nx,y\n", "answers.csv:1: no column for email"),
    "no key": ("email,이름,학번,동의\n".encode(), "no column for key"),
    "no terms": (b"email,name,student id,ssh key\n", "no column for the agreed terms"),
    "two addresses": ("이메일,이메일 주소,이름\n".encode(), "email could be '이메일' or '이메일 주소'"),
}


@pytest.mark.parametrize(("raw", "words"), WRONG.values(), ids=WRONG.keys())
def test_files_that_are_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    path = tmp_path / "answers.csv"
    path.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        read_form(path, RULES)
    assert words in caught.value.message


def test_a_line_of_another_file_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("root:$y$secret:20001:0:99999:7:::\ndaemon:*:20001:0:99999:7:::\n")
    for rules in (RULES, with_map(RULES, ["email=이메일"]), with_map(RULES, ["terms=동의"])):
        with pytest.raises(ConfigError, match="is it the right file") as caught:
            read_form(tmp_path / "shadow", rules)
        assert "secret" not in f"{caught.value.message} {caught.value.hint}"
    (tmp_path / "form.csv").write_text("Email,무엇\n")
    with pytest.raises(ConfigError, match="the titles are: 'Email', '무엇'"):
        read_form(tmp_path / "form.csv", RULES)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    with path.open("wb") as stream:
        stream.truncate(LARGEST + 1)
    with pytest.raises(ConfigError, match="is larger than 16 MiB"):
        read_form(path, RULES)
    with pytest.raises(ConfigError, match="No such file"):
        read_form(tmp_path / "none.csv", RULES)


def test_many_rows_are_quick(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    lines = [f"a{number}@example.org,이름,2023{number:06},{KEY},예" for number in range(20_000)]
    path.write_text("\n".join(["email,name,student id,ssh key,동의", *lines]))
    assert len(read_form(path, RULES)) == 20_000


def test_columns_by_name(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(
        f"이메일,이메일 주소,부르는 이름,번호,열쇠,약속 1,약속 2\nx,a@example.org,민지,20231234,{KEY},예,네\n"
    )
    given = ["email=이메일 주소", "name=부르는  이름", "student_id=번호", "key=열쇠", "terms=약속 1", "terms=약속 2"]
    (application,) = read_form(path, with_map(RULES, given))
    assert application.email == "a@example.org"
    assert application.name == "민지"
    assert application.missing == ()
    site = Applications.model_validate(
        {"columns": {"email": "이메일 주소", "name": "없음", "student_id": "번호", "key": "열쇠", "terms": ["약속 1"]}}
    )
    with pytest.raises(ConfigError, match="no column with the title '없음'"):
        read_form(path, site)
    assert read_form(path, with_map(site, ["name=부르는 이름"])), "--map wins"


@pytest.mark.parametrize("given", ["email", "email=", "x=y", "members.key=z", "=x", "members.=x", ""])
def test_maps_that_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="must be KEY=TITLE"):
        with_map(RULES, [given])


def test_a_form_that_asks_for_no_agreement() -> None:
    assert with_map(RULES, ["terms="]).columns.terms == []


def test_the_groups_list(tmp_path: Path) -> None:
    path = tmp_path / "group.csv"
    path.write_bytes("학번,이름,이메일\n2023 1234,김민지,Minji@example.ac.kr\n,이지호,\nx,=1,y\n".encode("cp949"))
    first, second, third = read_members(path, RULES)
    assert (first.student_id, first.name, first.email) == ("20231234", "김민지", "Minji@example.ac.kr")
    assert (second.student_id, second.name, second.email) == (None, "이지호", None)
    assert (third.student_id, third.name, third.email) == (None, None, None)
    path.write_text("이름\n민지\n")
    with pytest.raises(ConfigError, match="no column for email"):
        read_members(path, RULES)


TIMES = [
    ("2026/11/20 3:04:05 오후 GMT+9", datetime(2026, 11, 20, 15, 4, 5)),
    ("2026. 11. 20 오후 3:04:05", datetime(2026, 11, 20, 15, 4, 5)),
    ("2026/11/20 12:04:05 오전 GMT+9", datetime(2026, 11, 20, 0, 4, 5)),
    ("2026-11-20 12:04 PM", datetime(2026, 11, 20, 12, 4)),
    ("2026-11-20T15:04:05Z", datetime(2026, 11, 20, 15, 4, 5)),
    ("11/20/2026 15:04:05", None),
    ("2026-13-20 15:04", None),
    ("2026-11-20 99:04", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_times(text: str, expected: datetime | None) -> None:
    assert moment(text) == expected


def test_the_latest_of_an_address_counts(tmp_path: Path) -> None:
    header = "time,email,name,student id,ssh key,agreement\n"

    def row(time: str, name: str, email: str = "a@example.org", key: str = KEY) -> str:
        return f"{time},{email},{name},20231234,{key},yes\n"

    def counting(text: str) -> tuple[list[str | None], list[str]]:
        path = tmp_path / "answers.csv"
        path.write_text(header + text)
        found, notes = latest(read_form(path, RULES))
        return [application.name for application in found], notes

    late, early = "2026-11-20 15:00", "2026-11-19 15:00"
    assert counting(row(late, "late") + row(early, "early"))[0] == ["late"]
    assert counting(row(early, "early") + row(late, "late", "A@example.org"))[0] == ["late"]
    assert counting(row("?", "first") + row(early, "last"))[0] == ["last"], "without all times the order decides"
    names, notes = counting(row(early, "x", key=public_key("z")) + row(late, "y") + row(late, "z", "c@example.org"))
    assert names == ["y", "z"]
    assert notes == ["a@example.org: line 3 counts, the latest (with another ssh key); not line 2"]


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8))
def test_what_was_written_is_read(rows: list[list[str]]) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["a", "b", "c"], *rows])
    text = stream.getvalue()
    try:
        table = parse_table("x.csv", text)
    except ConfigError:
        assert "\r" in text.replace("\r\n", "") or "\0" in text
        return
    expected = [tuple(cell.strip() for cell in row) for row in rows]
    assert [row.cells for row in table.rows] == [row for row in expected if any(row)]


@given(raw=st.binary(max_size=300))
def test_no_bytes_are_a_traceback(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"email,name,student id,key,docker,terms\n" + raw)
    try:
        table = read_table(path, ["utf-8", "cp949"])
        found = read_form(path, with_map(RULES, ["terms=terms", "key=key"]))
    except ConfigError:
        return
    assert len(found) == len(table.rows)


@given(text=st.text())
def test_no_cell_is_a_traceback(text: str) -> None:
    name, number = person_name(text), student_number(text, RULES)
    assert name is None or (name.isprintable() and not name.startswith(("=", "+", "-", "@")))
    assert number is None or number.isalnum()
    moment(text)
    wanted(text)
    keys, problem = public_keys(text)
    assert bool(keys) == (problem is None)


def test_titles_of_long_tables_are_shown_in_part() -> None:
    table = parse_table("x.csv", ",".join("x" * 200 for _ in range(100)) + "\n")
    with pytest.raises(ConfigError) as caught:
        find_columns(table, ["email"], {}, required=["email"])
    assert len(caught.value.message) < 3000
