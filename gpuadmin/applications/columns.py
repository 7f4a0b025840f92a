"""Which column is what: by what the site or --map says, else by its usual title."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.applications.table import Table
from gpuadmin.errors import ConfigError

# As forms are titled; compared without blanks, punctuation, capitals, and what is in brackets: see `_bare`.
TITLES: dict[str, frozenset[str]] = {
    key: frozenset(words.split())
    for key, words in {
        "time": "타임스탬프 제출일시 제출시간 응답일시 응답시간 등록일시 timestamp time submittedat",
        "name": "이름 성명 실명 본명 name fullname yourname realname",
        "student_id": "학번 학번사번 사번 studentid studentnumber studentno",
        "email": "이메일 이메일주소 메일 메일주소 전자우편 email emailaddress mail",
        "user_name": "계정 계정명 계정이름 희망계정 희망계정명 희망계정이름 희망아이디 아이디 사용자명 "
        "username loginname login account",
        "key": "key ssh공개키 ssh키 공개키 sshkey sshpublickey publickey publicsshkey sshpubkey",
        "docker": "docker docker사용 docker사용여부 docker필요여부 도커 도커사용 도커사용여부 "
        "usedocker doyouneeddocker",
        "terms": "이용수칙동의 이용약관동의 이용규칙동의 약관동의 수칙동의 동의 개인정보동의 개인정보수집동의 "
        "개인정보수집및이용동의 terms termsofuse agreement iagreetotheterms iagreetothetermsofuse "
        "iaccepttheterms iacceptthetermsofuse",
    }.items()
}


@dataclass(frozen=True)
class Columns:
    """The place of each column. `terms` are those that all have to be agreed to."""

    places: Mapping[str, int]
    terms: tuple[int, ...] = ()

    def cell(self, cells: Sequence[str], key: str) -> str | None:
        """A row's cell; None if the table has no such column."""
        place = self.places.get(key)
        return None if place is None else cells[place]


def find_columns(
    table: Table,
    keys: Sequence[str],
    given: Mapping[str, str | None],
    *,
    required: Sequence[str],
    terms: Sequence[str] | None = (),
    prefix: str = "",
) -> Columns:
    """Given a table and what the site says (key -> title), return the place of each of `keys`.

    `terms`: titles of what must be agreed to, None to look for them. `prefix` is what --map puts before a key. Raises
    ConfigError if a title is not there, is there twice, or a required column is not found.
    """
    places = {}
    for key in keys:
        title = given.get(key)
        place = _titled(table, title, f"{prefix}{key}") if title is not None else _recognised(table, key, prefix)
        if place is not None:
            places[key] = place
    missing = [key for key in required if key not in places]
    if missing:
        raise ConfigError(
            f"{table.name}:1: no column for {missing[0]}; the titles are: {_titles(table)}",
            hint=f"--map '{prefix}{missing[0]}=TITLE', or applications in gpuadmin.yml",
        )
    if terms is None:
        found = tuple(place for place, title in enumerate(table.header) if _bare(title) in TITLES["terms"])
        if not found:
            raise ConfigError(
                f"{table.name}:1: no column for the agreed terms; the titles are: {_titles(table)}",
                hint="--map terms=TITLE; where the form asks for none: applications: {columns: {terms: []}}",
            )
        return Columns(places, found)
    return Columns(places, tuple(_titled(table, title, "terms") for title in terms))


def _titled(table: Table, title: str, key: str) -> int:
    places = [place for place, other in enumerate(table.header) if _same(other) == _same(title)]
    if len(places) != 1:
        number = "no column" if not places else f"{len(places)} columns"
        raise ConfigError(
            f"{table.name}:1: {number} with the title {title!r} ({key}); the titles are: {_titles(table)}",
            hint=f"--map '{key}=TITLE', or applications in gpuadmin.yml",
        )
    return places[0]


def _recognised(table: Table, key: str, prefix: str) -> int | None:
    places = [place for place, title in enumerate(table.header) if _bare(title) in TITLES[key]]
    if len(places) > 1:
        titles = [table.header[place] for place in places]
        say = f"say which: --map '{prefix}{key}=TITLE', or applications in gpuadmin.yml"
        alike = len({_same(title) for title in titles}) == 1  # no --map can tell them apart
        raise ConfigError(
            f"{table.name}:1: {key} could be {' or '.join(map(repr, titles))}",
            hint="give one of these columns another title in the file" if alike else say,
        )
    return places[0] if places else None


def _same(title: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", title).casefold().split())


def _bare(title: str) -> str:
    """`이메일 주소 (학교 메일) *` -> `이메일주소`"""
    without = re.sub(r"\([^()]*\)|\[[^][]*\]", "", unicodedata.normalize("NFKC", title).casefold())
    return "".join(character for character in without if character.isalnum())


def _titles(table: Table) -> str:
    # guard: a line of a file that is no form's is not shown
    if not any(_bare(title) in known for title in table.header for known in TITLES.values()):
        return "none that forms usually have; is it the right file?"
    return ", ".join(repr(title[:60]) for title in table.header[:30])
