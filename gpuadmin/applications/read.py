"""From the two files to the three lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuadmin.applications.columns import find_columns
from gpuadmin.applications.form import Application, address, applications, person_name, student_number
from gpuadmin.applications.group import Member
from gpuadmin.applications.table import read_table
from gpuadmin.config.schema import Applications, FormColumns, MemberColumns
from gpuadmin.errors import ConfigError

_FORM = ("time", "name", "student_id", "email", "user_name", "key", "docker")
_MEMBERS = ("name", "student_id", "email")


def with_map(rules: Applications, given: Sequence[str]) -> Applications:
    """Given what the site says and what --map says (`KEY=TITLE`), return both; --map wins. Raises ConfigError."""
    columns = rules.columns.model_dump()
    members = rules.members.model_dump()
    terms: list[str] | None = None
    for item in given:
        key, separator, title = item.partition("=")
        title = title.strip()
        if key == "terms" and separator:
            terms = [*(terms or []), *([title] if title else [])]
        elif key in _FORM and title:
            columns[key] = title
        elif key.removeprefix("members.") in _MEMBERS and key.startswith("members.") and title:
            members[key.removeprefix("members.")] = title
        else:
            known = ", ".join((*_FORM, "terms", *(f"members.{name}" for name in _MEMBERS)))
            raise ConfigError(f"--map {item!r}: must be KEY=TITLE", hint=f"the keys are: {known}")
    if terms is not None:
        columns["terms"] = terms
    return rules.model_copy(
        update={
            "columns": FormColumns.model_validate(columns),
            "members": MemberColumns.model_validate(members),
        }
    )


def read_form(path: Path, rules: Applications) -> list[Application]:
    """Given the survey's export, return its rows as applications. Raises ConfigError naming file and line."""
    table = read_table(path, rules.encodings)
    given: Mapping[str, str | None] = {key: getattr(rules.columns, key) for key in _FORM}
    columns = find_columns(table, _FORM, given, required=("email", *rules.required), terms=rules.columns.terms)
    return applications(table, columns, rules)


def read_members(path: Path, rules: Applications) -> list[Member]:
    """Given the group's list, return its rows. It needs a column of addresses, of student ids, or both."""
    table = read_table(path, rules.encodings)
    given: Mapping[str, str | None] = rules.members.model_dump()
    columns = find_columns(table, _MEMBERS, given, required=(), prefix="members.")
    if not {"email", "student_id"} & set(columns.places):
        find_columns(table, _MEMBERS, given, required=("email",), prefix="members.")
    return [
        Member(
            line=row.line,
            name=person_name(columns.cell(row.cells, "name") or ""),
            student_id=student_number(columns.cell(row.cells, "student_id") or "", rules),
            email=address(columns.cell(row.cells, "email") or ""),
        )
        for row in table.rows
    ]
