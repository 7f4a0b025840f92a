"""From a row of the survey to an application: what it says, and what is missing in it. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpuadmin.accounts.importing import NO, YES
from gpuadmin.applications.columns import Columns
from gpuadmin.applications.table import Row, Table
from gpuadmin.config import fields
from gpuadmin.config.schema import Applications

_YES = (*YES, "네", "사용", "사용함", "필요", "필요함", "필요합니다")
_NO = (*NO, "아니요", "미사용", "사용안함", "불필요", "필요없음")


@dataclass(frozen=True)
class Application:
    """What one row has. None: it is missing or not valid, and `missing` names it."""

    line: int
    time: datetime | None
    name: str | None
    student_id: str | None
    email: str | None
    user_name: str | None
    keys: tuple[str, ...]
    docker: bool | None
    missing: tuple[str, ...] = ()


def applications(table: Table, columns: Columns, rules: Applications) -> list[Application]:
    """Given the survey's table, return its rows as applications, each checked."""
    return [_application(row, columns, rules) for row in table.rows]


def _application(row: Row, columns: Columns, rules: Applications) -> Application:
    def cell(key: str) -> str:
        return columns.cell(row.cells, key) or ""

    missing: list[str] = []
    name, student_id = person_name(cell("name")), student_number(cell("student_id"), rules)
    email = address(cell("email"))
    keys, problem = public_keys(cell("key"))
    if problem is not None and ("key" in rules.required or cell("key")):
        missing.append(problem)
    if name is None and ("name" in rules.required or cell("name")):
        missing.append("name")
    if student_id is None and ("student_id" in rules.required or cell("student_id")):
        missing.append("student_id")
    if email is None or not _of_domain(email, rules.domains):
        missing.append("email")
    docker = wanted(cell("docker")) if "docker" in columns.places else rules.docker
    if docker is None:
        missing.append("docker")
    if not all(_agreed(row.cells[place], rules.agree) for place in columns.terms):
        missing.append("terms")
    return Application(
        line=row.line,
        time=moment(cell("time")),
        name=name,
        student_id=student_id,
        email=email,
        user_name=cell("user_name") or None,
        keys=keys,
        docker=docker,
        missing=tuple(missing),
    )


def person_name(text: str) -> str | None:
    """A name in plain text; None if it is not one. Nothing that a spreadsheet would take for a formula."""
    text = " ".join(text.split())
    try:
        fields.plain_text(text, longest=60)
    except ValueError:
        return None
    return text if text[:1].isalpha() else None


def student_number(text: str, rules: Applications) -> str | None:
    """A student id without blanks and hyphens, in capitals; None if it is not one."""
    plain = re.sub(r"[\s-]", "", unicodedata.normalize("NFKC", text)).upper()
    if len(plain) > 40:
        return None
    return plain if re.fullmatch(rules.student_id, plain, re.IGNORECASE) else None


def address(text: str) -> str | None:
    """An e-mail address; None if it is not one."""
    try:
        return fields.email(unicodedata.normalize("NFKC", text).strip())
    except ValueError:
        return None


def public_keys(text: str) -> tuple[tuple[str, ...], str | None]:
    """The ssh public keys in a cell, one on a line, or which problem there is with them."""
    lines = [line.strip().strip("\"'").strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        return (), "key_missing"
    if "PRIVATE KEY" in text:
        return (), "key_private"
    try:
        return tuple(dict.fromkeys(fields.ssh_key(line) for line in lines)), None
    except ValueError:
        return (), "key_bad"


def wanted(text: str) -> bool | None:
    """Yes or no; None if it is neither."""
    word = re.sub(r"\s", "", text).casefold()
    return True if word in _YES else False if word in _NO else None


def moment(text: str) -> datetime | None:
    """When a row was sent: ISO 8601, or as Google Forms writes it with the year first. None if it is not."""
    # 2026/11/20 3:04:05 오후 GMT+9, 2026. 11. 20 오후 3:04:05, 2026-11-20 15:04:05
    found = re.search(
        r"(\d{4})[-/.]\s*(\d{1,2})[-/.]\s*(\d{1,2})\.?[\sT]*(오전|오후|[AaPp][Mm])?\s*(\d{1,2}):(\d{2})(?::(\d{2}))?"
        r"\s*(오전|오후|[AaPp][Mm])?",
        text,
    )
    if found is None:
        return None
    year, month, day, before, hour, minute, second, after = found.groups()
    half = (before or after or "").lower()
    hours = int(hour) % 12 + (12 if half in ("오후", "pm") else 0) if half else int(hour)
    try:
        return datetime(int(year), int(month), int(day), hours, int(minute), int(second or 0))
    except ValueError:
        return None


def _of_domain(email: str, domains: Sequence[str]) -> bool:
    domain = email.rpartition("@")[2].casefold()
    return not domains or any(f".{domain}".endswith(f".{allowed.casefold()}") for allowed in domains)


def _agreed(text: str, words: Sequence[str]) -> bool:
    given = " ".join(text.casefold().split()).rstrip(".!")
    return given in {" ".join(unicodedata.normalize("NFC", word).casefold().split()) for word in words}
