"""Templates of a site: its own come first, and what is wrong with one is a sentence that names it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuadmin.errors import ConfigError
from gpuadmin.templates import HINT, Templates

NAME = "notice.en.j2"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Where a site has its own of a template."""
    (tmp_path / "templates/mail").mkdir(parents=True)
    return tmp_path / "templates/mail" / NAME


def rendered(own: Path) -> str:
    return Templates("mail", own.parents[2]).rendered(NAME, {"days": 3})


def test_the_site_s_own_comes_first_and_gpuadmins_is_there_for_the_others(own: Path) -> None:
    own.write_text("\ufeffin {{ days }} days")
    assert rendered(own) == "in 3 days"
    own.unlink()
    with pytest.raises(ConfigError, match=r"^templates/mail/notice\.en\.j2: UndefinedError: "):
        rendered(own)


@pytest.mark.parametrize(
    ("make", "words", "hint"),
    [
        (lambda own: own.write_bytes(b"x\n\xb5"), ":2: is not UTF-8", "UTF-8"),
        (os.mkfifo, ": is a named pipe", "a file that you can read"),
        (lambda own: own.mkdir(), ": ", "a file that you can read"),
        (lambda own: own.symlink_to(own), ": Too many levels of symbolic links", "a file that you can read"),
        (lambda own: own.write_text("{% if %}"), ":1: Expected an expression", HINT),
        (lambda own: own.write_text("{{ 1 // 0 }}"), ": ZeroDivisionError: ", HINT),
        (lambda own: own.write_text("{% include '../x' %}"), ": TemplateNotFound: ", HINT),
    ],
)
def test_what_is_wrong_with_it(own: Path, make: Callable[[Path], object], words: str, hint: str) -> None:
    make(own)
    with pytest.raises(ConfigError) as caught:
        rendered(own)
    assert caught.value.message.startswith(f"templates/mail/{NAME}{words}")
    assert "Errno" not in caught.value.message
    assert hint in str(caught.value.hint)
