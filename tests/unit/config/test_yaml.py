"""Reading and changing YAML: two readers agree, lines are right, and a change touches nothing else."""

import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gpuadmin.config import rewrite
from gpuadmin.config.fields import iso_date
from gpuadmin.config.rewrite import Edit, with_fields, with_lists
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.config.yamlmistake import YamlMistake
from gpuadmin.config.yamlread import read_yaml
from gpuadmin.errors import ConfigError

pytestmark = pytest.mark.holds(
    "an alias does not stand in what it stands for", "entries that were replaced are read back, too"
)


SCALARS = (
    "", "~", "null", "Null", "true", "True", "tRue", "yes", "on", "0", "-1", "+1", "017", "0o17", "0x1F",
    "0b101", "1_000", "_", "-", "+", ".", "-_", "0x", "1.5", ".5", "5.", "1e3", "1e400", "-0.0", ".inf",
    "-.inf", "2027-02-28", "2027-2-8", "2027-02-28 10:00:00", "2027-02-28T10:00:00.5", "2027-02-28t10:00:00",
    "2027-02-28 10:00:00+0930",
    "12:30", "12:30:45", "25:00:00", "1:2", "'20000'", '"a\\tb"', "a b", "조교", "=", "<<", "!!str 5",
    "!!int 5", "a#b", "a # b", "|\n  x\n  y", ">-\n  x\n  y",
)  # fmt: skip


RUAMEL_FALLS = {"_", "-_", "0x", "=", "<<", "+", "-"}


def ruamel(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize("scalar", SCALARS)
def test_both_readers_say_the_same_of_a_value(scalar: str) -> None:
    """What one takes for a number and the other for a text would change when a file is written."""
    text = f"a: {scalar}\n"
    try:
        expected = ruamel(text)
    except Exception:
        assert scalar in RUAMEL_FALLS
        return
    assert read_yaml(text) == expected
    assert type(read_yaml(text)["a"]) is type(expected["a"])


@given(st.text("0123456789-+.:_eExXob TZinfa~", min_size=1, max_size=12))
@example(".0_")
@example("._0")
def test_both_readers_say_the_same_of_odd_values(scalar: str) -> None:
    text = f"a: {scalar}\n"
    try:
        found, expected = read_yaml(text), ruamel(text)
    except Exception:
        return  # one of them refuses it
    if isinstance(found, dict) and isinstance(found["a"], datetime):
        return  # with a zone ruamel.yaml gives UTC; nobody may write a time in a site
    assert repr(found) == repr(expected)


BROKEN = {
    "a tab": ("a:\n\tb: 1\n", 2, "tab"),
    "a second colon": ("a: b: c\n", 1, "into quotes"),
    "a quote that is open": ("x: 1\na: 'b\nc: d\n", 2, "a quote is opened"),
    "a bracket that is open": ("a: [1, 2\nb: 3\n", 1, "opens a bracket"),
    "indentation": ("a:\n  - b: 1\n   c: 2\n", 3, "not indented like the items"),
    "an entry below nothing": ("retired: []\nusers: []\n  - name: minji\n", 3, "is closed with `[]`"),
    "an entry below nothing, not indented": ("users: []  # nobody\n\n- name: minji\n", 3, "is closed with `[]`"),
    "a field below nothing": ("a: {}\n  b: 1\n", 2, "or `{}`"),
    "a quote that is open, below nothing": ("a: []\nb: 'c\n", 2, "a quote is opened"),
    "a long number": ("a: " + "9" * 5000 + "\n", 1, "5000 digits"),
    "a field twice": ("a: 1\nb: 2\na: 3\n", 3, "the field 'a' twice"),
    "a field that is a list": ("? [a]\n: b\n", 1, "name of a field"),
    "an alias of nothing": ("a: *b\n", 1, "stands for nothing"),
    "an alias in itself": ("a: &b [*b]\n", 1, "is in the value"),
    "two values of one name": ("a: &x 1\nb: &x 2\n", 2, "give each a name of its own"),
    "too many values": ("- \n" * 200_001, 1, "more than 200000 values"),
    "a merge of a text": ("a:\n  <<: b\n", 2, "`<<`"),
    "a second document": ("a: 1\n---\nb: 2\n", 2, "second document"),
    "a control character": ("a: 1\nb: \x01\n", 2, "no YAML file may hold"),
    "a wrong tag": ("a: !!int x\n", 1, "tag"),
    "a tag that YAML does not have": ("a: !!integer 1\n", 1, "is no integer"),
    "depth": ("[" * 200 + "]" * 200, 1, "nested too deeply"),
    "a merge": ("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", 0, ""),
}


@pytest.mark.parametrize(("text", "line", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_is_said_in_words_with_its_line(text: str, line: int, words: str) -> None:
    if not line:
        assert read_yaml(text) == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}
        return
    with pytest.raises(YamlMistake) as caught:
        read_yaml(text)
    assert (caught.value.line, words in caught.value.problem) == (line, True), caught.value.problem


@pytest.mark.parametrize("text", ["2027-02-30", "2027-02-28 25:00:00", "2027-02-28T10:00:00+99:99", "0000-00-00"])
def test_a_day_that_there_is_not_is_for_its_field_to_refuse(text: str) -> None:
    assert read_yaml(f"a: {text}\n") == {"a": text}
    with pytest.raises(ValueError, match=r"does not exist; write YYYY-MM-DD"):
        iso_date(text)


PEOPLE = """\
# The people.
users:
  # who teaches
  - name: minji  # first
    uid: 20000

    keys: ["a"]
  - {name: jiho, uid: 20001}   # flow

  # who left soon
  - name: yuna
    note: |
      two lines,
      # no comment
# at the end of the list
retired: []
# the end
"""


def find_open_file(text: str) -> YamlFile:
    return YamlFile.parse(Path("users.yml"), text)


def test_a_change_touches_its_own_lines_alone() -> None:
    def lock(entry: Any) -> None:
        entry["locked"] = True

    edit = Edit(change={0: lock}, drop=[1], add=[{"name": "seo", "expires": date(2027, 2, 28)}])
    found = with_lists(find_open_file(PEOPLE), {"users": edit, "retired": Edit(add=[{"name": "jiho", "uid": 20001}])})
    expected = PEOPLE.replace('    keys: ["a"]\n', '    keys: ["a"]\n    locked: true\n')
    expected = expected.replace("  - {name: jiho, uid: 20001}   # flow\n", "")
    expected = expected.replace("      # no comment\n", "      # no comment\n  - name: seo\n    expires: 2027-02-28\n")
    expected = expected.replace("retired: []\n", "retired:\n  - name: jiho\n    uid: 20001\n")
    assert found.text == expected


FORMS = {
    "dashes at the margin": "users:\n- name: a\n  uid: 1\n- name: b\n  uid: 2\n",
    "dashes far in": "users:\n      - name: a\n        uid: 1\n      - name: b\n        uid: 2\n",
    "dashes alone": "users:\n  -\n    name: a\n    uid: 1\n  -\n    name: b\n    uid: 2\n",
    "all in one line": "users: [{name: a, uid: 1}, {name: b, uid: 2}]\n",
    "flow over lines": "users:\n  - {name: a,\n     uid: 1}\n  - {name: b, uid: 2}\n",
    "no end of line": "users:\n  - name: a\n    uid: 1\n  - name: b\n    uid: 2",
    "a document's marks": "---\nusers:\n  - name: a\n    uid: 1\n  - name: b\n    uid: 2\n...\n",
    "Windows": "users:\r\n  - name: a\r\n    uid: 1\r\n  - name: b\r\n    uid: 2\r\n",
    "anchors": "users:\n  - name: a\n    uid: &x 1\n    note: *x\n  - name: b\n    uid: 2\n",
    "a merge": "x: &x {uid: 1}\nusers:\n  - name: a\n    <<: *x\n  - name: b\n    uid: 2\n",
    "quotes": "\"users\":\n  - 'name': a\n    uid: 1\n  - {\"name\": 'b', uid: 2}\n",
    "retired before": "retired:\nusers:\n  - name: a\n    uid: 1\n  - name: b\n    uid: 2\n",
    "a next line": "users:\n  - name: a\u2028x\n    uid: 1\n  - name: b\n    uid: 2\n",
    "a line separator in quotes": 'users:\n  - name: "a\u2028x\x0c"\n    uid: 1\n  - name: b\n    uid: 2\n',
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("index", [0, 1])
def test_whatever_the_form_the_content_is_what_was_meant(text: str, index: int) -> None:
    def change(entry: Any) -> None:
        entry["uid"] = 7

    try:
        file = find_open_file(text)
    except ConfigError:
        return  # refused when it is read
    plain = [dict(entry) for entry in file.data["users"]]
    edits = {
        "users": Edit(change={index: change}, add=[{"name": "c"}]),
        "retired": Edit(add=[{"name": "d", "uid": 9}]),
    }
    found = with_lists(file, edits)
    plain[index]["uid"] = 7
    assert found.data["users"] == [*plain, {"name": "c"}]
    assert found.data["retired"] == [{"name": "d", "uid": 9}]
    dropped = with_lists(file, {"users": Edit(drop=[index])})
    assert [entry["name"] for entry in dropped.data["users"]] == [plain[1 - index]["name"]]


@pytest.mark.holds("a file that is rewritten is read back, and says what was meant")
def test_a_rewrite_that_says_something_else_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the writer makes of a file: it is read back, and what is not meant is refused."""
    monkeypatch.setattr(rewrite, "_spliced", lambda file, edits: file.text.replace("20000", "20009"))
    monkeypatch.setattr(rewrite, "_round_trip", lambda text, change: text)
    with pytest.raises(ConfigError, match="cannot be written"):
        with_lists(find_open_file(PEOPLE), {"users": Edit(drop=[1])})


def test_fields_are_changed_and_comments_stay() -> None:
    def change(data: Any) -> None:
        data["term"]["name"] = "2027-1"
        del data["term"]["next"]

    text = "# The cluster.\nname: x  # ours\nterm:\n  name: 2026-2\n  next: {name: 2027-1}\n# end\n"
    found = with_fields(find_open_file(text), change)
    assert found.data == {"name": "x", "term": {"name": "2027-1"}}
    assert re.findall(r"#.*", found.text) == ["# The cluster.", "# ours", "# end"]


LINES = {
    "unclosed bracket line2": (
        2,
        "name: x\nadmin: {user: gpuadmin\nterm:\n  name: a\n  deadline: 2027-01-31\nmail:\n  host: x\n",
    ),
    "unclosed list": (2, "a: 1\nkeys: [a, b\nc: 1\nd: 2\n"),
    "unclosed quote line 2": (2, "a: 1\nb: 'x\nc: 1\nd: 2\ne: 3\n"),
    "unclosed dquote": (2, 'a: 1\nb: "x\nc: 1\nd: "2"\ne: 3\n'),
    "unclosed squote, one below": (3, "users:\n  - name: a\n    note: 'x\n    email: 'a@b'\n    uid: 3\n"),
    "missing colon": (2, "a: 1\nb\nc: 1\n"),
    "missing colon nested": (3, "users:\n  - name: a\n    uid 20000\n    email: x\n    note: y\n"),
    "missing colon first": (1, "name x\nb: 1\n"),
    "missing colon first below comments": (2, "# c\nname x\n\n# d\n\nb: 1\n"),
    "bad indent": (3, "a:\n  b: 1\n   c: 2\nd: 1\n"),
    "bad dedent": (3, "a:\n    b: 1\n  c: 2\nd: 1\n"),
    "list indent": (4, "users:\n  - name: a\n    uid: 1\n   - name: b\n"),
    "list dedent": (4, "users:\n  - name: a\n    uid: 1\n - name: b\n"),
    "tab": (2, "a:\n\tb: 1\n"),
    "stray text": (3, "a: 1\n\nfoo bar\n\n\nb: 1\n"),
    "first indented": (2, "  a: 1\nb: 2\n"),
    "end text2": (1, "{a: 1} b\n"),
    "end text3": (2, "a: 1\n}\n"),
    "quote then text": (1, "a: 'x' y\nb: 1\n"),
    "value colon": (1, "a: b: c\nd: 1\n"),
    "key no space": (2, "a: 1\nb:2\nc: 3\n"),
    "multi comment": (3, "users:\n  - name: a\n    uid 20000\n\n\n    # x\n    email: x\n"),
}


@pytest.mark.parametrize(("line", "text"), LINES.values(), ids=LINES.keys())
def test_a_mistake_is_where_somebody_made_it(line: int, text: str) -> None:
    """Not where the parser gave up, which is the line after it, or the next that holds something."""
    with pytest.raises(ConfigError, match=rf"^x\.yml:{line}: is not valid YAML: ") as caught:
        YamlFile.parse(Path("x.yml"), text)
    assert "end of the content" not in caught.value.message
