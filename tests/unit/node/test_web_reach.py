"""gpuadmin-me web: what somebody reads, in both languages, and what they read where there is no link."""

import json
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import peercred_service
from ansible_collections.gpuadmin.node.plugins.module_utils import web_links as links
from ansible_collections.gpuadmin.node.plugins.module_utils import web_reach as web
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.web_reach import TEXTS, Reach, lines

LINK = "https://monitor.example:9443/enter?link=link~node1~minji~1~a~b"
WAY = {"minutes": 60, "forward": "9443:10.0.0.5:9443", "through": "10.0.0.1", "direct": True}


@pytest.mark.parametrize("language", TEXTS)
def test_a_browser_that_reaches_it_and_one_that_does_not(language: str) -> None:
    printed = lines(LINK, "minji", Reach("9443:10.0.0.5:9443", "10.0.0.1", True), TEXTS[language])
    assert f"    {LINK}" in printed
    assert "    ssh -N -L 9443:10.0.0.5:9443 minji@10.0.0.1" in printed
    assert "    https://localhost:9443/enter?link=link~node1~minji~1~a~b" in printed
    assert ("10 minutes" if language == "en" else "10분 동안") in printed[0]
    only = lines(LINK, "minji", Reach("9443:127.0.0.1:9443", "10.0.0.5", False), TEXTS[language])
    assert f"    {LINK}" not in only
    assert "    ssh -N -L 9443:127.0.0.1:9443 minji@10.0.0.5" in only


def test_both_languages_say_the_same_things() -> None:
    assert set(TEXTS["en"]) == set(TEXTS["ko"])
    for key, text in TEXTS["en"].items():
        assert text.count("{minutes}") == TEXTS["ko"][key].count("{minutes}")
    words = set(re.findall(r'Refused\("([a-z-]+)"\)', Path(str(links.__file__)).read_text()))
    assert len(words) == 7, "as many as there are"
    assert set(web.REFUSALS["en"]) == set(web.REFUSALS["ko"]) == {*words, links.FAILED, links.BUSY}


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, str]]:
    """A service that answers once each, and the settings beside it."""
    base = Path(tempfile.mkdtemp(prefix="web.", dir="/tmp"))
    (base / "reach.json").write_text(json.dumps(WAY))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(base / "s"))
        listener.listen()

        def serve() -> None:
            for one in answers:
                with listener.accept()[0] as channel:
                    channel.sendall(one)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield str(base / "reach.json"), str(base / "s")
        thread.join(10)
    shutil.rmtree(base)


def test_a_link(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(f"0 {LINK}\n".encode(), f"0 {LINK}\n".encode()) as places:
        assert (web.main("en", *places), web.main("ko", *places)) == (0, 0)
    printed = capsys.readouterr().out
    assert printed.count(LINK) == 2
    assert "다른 사람에게 전달하지 마세요" in printed


@pytest.mark.parametrize(
    ("language", "answer", "text"),
    [
        ("en", "locked", "Your account is locked. Ask the admins."),
        ("ko", "locked", "계정이 잠겨 있습니다. 관리자에게 문의해 주세요."),
        ("ko", "Your account is asleep.", "Your account is asleep."),  # of another version
    ],
)
def test_a_refusal(language: str, answer: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(f"1 {answer}\n".encode()) as places:
        assert web.main(language, *places) == 1
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", f"{text}\n")


@pytest.mark.parametrize("said", [b"", b"0", b"x y\n", b"0" * 5000, b"\xff\xfe\n"])
def test_an_answer_that_is_none(said: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(said) as places:
        assert web.main("en", *places) == 1
    assert "does not answer" in capsys.readouterr().err


def test_no_dashboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert web.main("ko", str(tmp_path / "none"), str(tmp_path / "s")) == 1
    assert "대시보드가 없습니다" in capsys.readouterr().err


def test_a_service_that_does_not_listen(tmp_path: Path) -> None:
    assert peercred_service.ask(str(tmp_path / "s"), 1) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"forward": "x"}'])
def test_settings_that_nobody_wrote(text: str, tmp_path: Path) -> None:
    (tmp_path / "reach.json").write_text(text)
    with pytest.raises(NodeError, match="tell your admins"):
        web.load(str(tmp_path / "reach.json"))
