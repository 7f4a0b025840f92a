"""What every section shares: bounds, and no secrets."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings.place import (
    LONGEST,
    LONGEST_KEY,
    MOST,
    bounded,
    files,
    lines_of,
    without_secrets,
)

from tests.unit.node.host_settings.conftest import Host


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("MYSQL_PASSWORD=geheim x", "MYSQL_PASSWORD=(hidden) x"),
        ('Environment="TOKEN_OF_X = geheim y"', 'Environment="TOKEN_OF_X = (hidden) y"'),
        ("mysqldump --password geheim all", "mysqldump --password (hidden) all"),
        ("curl https://minji:geheim@example.org/", "curl https://minji:(hidden)@example.org/"),
        ("username=x,password=geheim,vers=3", "username=x,password=(hidden),vers=3"),
        ("api-key='a geheim'", "api-key=(hidden)"),
        # no secrets
        ("%sudo ALL=(ALL) NOPASSWD: ALL", "%sudo ALL=(ALL) NOPASSWD: ALL"),
        ("passwordauthentication yes", "passwordauthentication yes"),
        ("@include common-password\nsession optional x", "@include common-password\nsession optional x"),
        ("passwd: files systemd", "passwd: files systemd"),
    ],
)
@pytest.mark.holds("a password in a file is not reported")
def test_what_looks_like_a_secret_is_left_out(text: str, left: str) -> None:
    assert bounded({"x": text}) == {"x": left}
    assert without_secrets(text) == left


@pytest.mark.holds("the settings of a section have an end")
def test_what_is_reported_has_bounds() -> None:
    found = bounded({"x\x1b[2J\n" + "y" * 1000: "a\x1b]0;evil\x07\nb\tc", "long": "line\n" * LONGEST})
    (first, second) = found.items()
    assert first[0].startswith("x?[2J y")
    assert len(first[0]) == LONGEST_KEY
    assert first[1] == "a?]0;evil?\nb?c"
    assert len(second[1]) <= LONGEST
    assert f"({5 * LONGEST} characters)" in second[1], "one that is cut is not the same as a shorter one"
    with pytest.raises(NodeError, match="more than"):
        bounded({str(number): "" for number in range(MOST + 1)})


def test_lines_that_say_something() -> None:
    assert lines_of("# no\n\n a \t b\n;no\n", "#;") == ["a b"]


def test_what_is_no_file_is_not_read(host: Host, tmp_path: Path) -> None:
    place = host({"etc/x/a": "1\n", "etc/x/b~": "2", "etc/x/d/below": "3"})
    os.mkfifo(tmp_path / "etc/x/pipe")
    (tmp_path / "etc/x/zero").symlink_to("/dev/zero")
    assert dict(files(place, ["/etc/x", "/etc/none"])) == {"/etc/x/a": ["1"]}


@pytest.mark.holds("a program that failed has not said that there is nothing")
def test_a_program_that_failed_said_nothing(host: Host) -> None:
    place = host(programs={"true": "x\n", "false": 1})
    assert place.output("true") == "x\n"
    assert place.output("none") is None
    with pytest.raises(NodeError, match="it does not work"):
        place.output("false")
    assert place.output("false", failing=True) == ""
