"""What hosts and files say is shown, and nothing in it is obeyed: no control character, no markup, whatever it is."""

import io
import json
import os
import pty
import re
import sys
import threading
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.answers import Answers
from gpuadmin.common.text import UNSEEN
from gpuadmin.console import agree, ask, echo
from gpuadmin.display import join_lines, make_console, show_hosts, show_plan, styled
from gpuadmin.errors import ConfigError
from gpuadmin.jsontext import json_text
from gpuadmin.plan import Plan, Step
from gpuadmin.progress import Progress
from gpuadmin.records import Record, show_run
from gpuadmin.results import HostResult
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.report import show, write
from gpuadmin.terminal import SafeConsole
from gpuadmin.text import visible

pytestmark = pytest.mark.holds(
    "JSON holds nothing that a terminal obeys", "a text is shown without what a terminal obeys"
)


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u200b\u2066\u3164\r\x08\x7f[/a][bold]:smile:\udc80"
hostile = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x07\r\n\t\u202e\u2066\u200b\u200d\ufeff\u3164\x7f\udc80[]/\\"))
)


def unseen(text: str) -> set[str]:
    """The characters of a text that are not printable, but for line feeds."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {character for character in text if unicodedata.category(character) in kinds and character != "\n"}


def report(text: str) -> dict[str, Any]:
    """A report of a reset in which a host has said `text` wherever it can."""
    return {
        "cluster": text, "begun": text, "last": text, "who": [text],
        "term": "2026-2", "phases": {"wipe": "pending"}, "staying": {text: text}, "kept": {f"{text}2": text},
        "leaving": [{"name": text, "of": text, "uid": 20000, "home": text, "problem": text, "files": 1, "bytes": 1,
                     "verified": None}],
        "bytes_freed": 1, "scratch": {text: {"entries": 1, "bytes": 1}},
        "backup": {"name": text, "path": text, "created": text, "until": text, "copies": {text: text},
                   "uncopied": {text: {text: text}}},
        "leftovers": [text], "pending": {"wipe": {text: text}}, "unknown": {text: text},
    }  # fmt: skip


def laid_out(text: str) -> SafeConsole:
    """Say a text in every way that has a layout."""
    console = make_console(json=False)
    show_plan(console, Plan(text, (Step(text, text),), (text,)), check=True)
    show_hosts(console, {text: HostResult("failed", [text, f"write /{text}/a"], text)}, check=False)
    with Progress(console, verbose=1) as progress:
        progress.task(text)
        progress.host(text, "failed", text)
        progress.host(text, "progress", text)
    show(console, report(text), Path("/x"))
    return console


def everything(text: str) -> None:
    """Say a text in every way there is."""
    laid_out(text).print(text, styled((text, "bold"), text))
    echo(text)
    echo(text, err=True, colour="red")
    ConfigError(text, hint=text).show()


@pytest.mark.holds("lines of a table are as many as there are", "styled text is one line of output")
def test_nothing_that_a_host_says_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a line feed in it would be an outcome that nobody had."""
    text = "x\nnode9: done\r\nnode9: done"
    laid_out(text).print(text, styled((text, "bold"), text), join_lines([text]))
    echo(Answers(unknown={text: text}).summary)
    output = capsys.readouterr().out
    assert output.count("node9") > 20
    assert [line for line in output.splitlines() if line.strip().startswith("node9")] == []


@given(hostile)
def test_nothing_that_a_host_says_is_obeyed(text: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        everything(text)
    assert unseen(out.getvalue()) == set()
    assert unseen(err.getvalue()) == set()


def test_it_is_shown_as_escapes_and_no_markup_is_taken_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    everything(HOSTILE)
    out, err = capsys.readouterr()
    for text in (out, err):
        assert r"\x1b]0;owned\x07\x1b[2J\x9b31mU+202Egnp.exeU+200BU+2066U+3164" in text
        assert "[/a][bold]:smile:U+DC80" in text
    assert unseen(out + err) == set()


def test_on_a_terminal_only_our_own_styles_are_sent() -> None:
    master, slave = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        while True:
            try:
                block = os.read(master, 65536)
            except OSError:
                return
            if not block:
                return
            seen.append(block)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "w") as stream, redirect_stdout(stream):
        console = make_console(json=False)
        assert console.is_terminal
        everything(HOSTILE)
        stream.flush()
    reader.join(10)
    os.close(master)
    text = b"".join(seen).decode()
    # CSI with digits (colours, moving up, erasing a line, the cursor), which rich itself sends
    ours = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", text).replace("\r\n", "\n").replace("\r", "")
    assert "\x1b[2J" not in text
    assert unseen(ours) == set()


@given(hostile)
def test_json_holds_the_text_and_nothing_that_is_obeyed(text: str) -> None:
    document = json_text({"result": {text: [text]}})
    assert unseen(document) == set()
    document.encode()
    value = json.loads(document)["result"]
    assert value == {text: [text]} or any("\ud800" <= character <= "\udfff" for character in text)
    assert "예" in json_text("예")


@given(hostile)
def test_escapes_are_plain_and_shown_once(text: str) -> None:
    assert unseen(visible(text)) == set()
    assert visible(visible(text)) == visible(text)


def test_the_characters_are_those_of_unicode() -> None:
    pattern = re.compile(f"[{UNSEEN}]")
    every = map(chr, range(sys.maxunicode + 1))
    assert not [one for one in every if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")
                and not pattern.match(one)]  # fmt: skip
    assert not pattern.search("abc 예시 ünïcode → … — \u00a0")


def test_the_page_and_the_record(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "2026-2")
    journal.directory.mkdir()
    page = write(journal, report(HOSTILE))
    for file in (page, page.with_name("report.json")):
        assert unseen(file.read_text()) == set()
    plan = Plan(title=HOSTILE, question=HOSTILE, steps=(Step(HOSTILE, HOSTILE),)).document()
    record = Record.begin(tmp_path, "backup", arguments=[HOSTILE], check=False, plan=plan)
    host = {"status": HOSTILE, "changed": [HOSTILE], "message": HOSTILE}
    record.finish({"status": "failed", "hosts": {HOSTILE: host}}, 3)
    for file in record.directory.iterdir():
        assert unseen(file.read_text()) == set()
    run, _result, _log = show_run(tmp_path, record.id)
    assert run["plan"]["title"] == HOSTILE


def test_questions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nword\n"))
    assert not agree(HOSTILE)
    assert ask(HOSTILE) == "word"
    out, err = capsys.readouterr()
    assert unseen(out + err) == set()
