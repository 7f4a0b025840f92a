"""Reading people and keys from files: CSV or YAML, validated whole before anything is changed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuadmin.accounts.requests import Request, request
from gpuadmin.common.names import KEY_TYPES
from gpuadmin.config.fields import ssh_key
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.errors import ConfigError
from gpuadmin.reading import UTF16, decode_table, decoded, expanded, read_limited, separator

MOST_OF_KEYS = 1024 * 1024  # bytes of a file of public keys
MOST_ROWS = 20_000
COLUMNS = ("name", "uid", "email", "key", "expires", "docker", "group", "note")
ENCODINGS = ("utf-8", "cp949")  # the default of `applications.encodings`; Korean Excel writes the second
YES, NO = ("yes", "true", "1", "y", "예"), ("no", "false", "0", "n", "아니오")


def read_keys(given: Sequence[str], option: str = "--key") -> tuple[str, ...]:
    """Given the values of an option, each a public key or a file of them, return the keys. Raises ConfigError, with the
    first mistake, the file and the line.
    """
    keys: list[str] = []
    for item in given:
        if item.split(" ", 1)[0] in KEY_TYPES:
            keys.append(_valid(item, option))
            continue
        if _PRIVATE.search(item):
            raise ConfigError(f"{option}: holds a private key, which must not be handed over", hint=_ANOTHER)
        if not is_file(item):
            raise ConfigError(
                f"{option} {item[:60]!r}: neither a public key nor a file",
                hint="give the content of a .pub file in quotes, or the file's path",
            )
        path = expanded(item)
        raw = read_limited(path, MOST_OF_KEYS)
        text = decoded(raw, path) if raw.startswith(UTF16) else raw.decode("utf-8-sig", errors="replace")
        if _PRIVATE.search(text):
            public = path.with_name(f"{path.name}.pub")
            hint = f"the public one is {public}" if public.is_file() else _ANOTHER
            raise ConfigError(f"{option} {path}: is a private key, which must not be handed over", hint=hint)
        found = [
            _valid(line, f"{option} {path}:{number}")
            for number, line in enumerate(text.splitlines(), start=1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not found:
            raise ConfigError(f"{option} {path}: holds no key", hint="name the .pub file")
        keys.extend(found)
    return tuple(keys)


_PRIVATE = re.compile(r"^(-----BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File)", re.MULTILINE)
_ANOTHER = "the public one ends with .pub; ssh-keygen -y -f PRIVATE prints it"


def _valid(text: str, where: str) -> str:
    try:
        return ssh_key(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}", hint="a public key is what the .pub file holds, in one line") from None


def is_file(text: str) -> bool:
    """Whether an argument is the path of a file, whatever else somebody may have typed."""
    try:
        return expanded(text).is_file()
    except (OSError, ValueError, ConfigError):  # too long for a name, or in the home of an unknown user
        return False


def read_people(source: str) -> list[Request]:
    """Given a CSV or YAML file, return the people in it. Raises ConfigError naming the file and the line."""
    path = Path(source)
    try:
        raw = read_limited(path)
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None
    table = path.suffix not in (".yml", ".yaml")
    if not table:
        rows = _yaml_rows(path, decoded(raw, path))
    else:
        rows = _csv_rows(path, decode_table(path.name, raw, ENCODINGS))
    problems, requests = [], []
    for where, fields in rows:
        try:
            requests.append(request(fields))
        except ConfigError as error:
            # a table's column is `key`, of a person who may have several
            message = error.message.replace("keys.0: ", "key: ") if table else error.message
            problems.append(f"{where}: {message}")
    if problems:  # guard: a file with one mistake adds nobody
        raise ConfigError("\n  ".join(problems), hint="correct these lines; nothing was changed")
    if not requests:
        raise ConfigError(f"{source}: names nobody")
    return requests


def _yaml_rows(path: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    # a bare list of people is as good as one under `users:`
    file = YamlFile.parse(path, text, or_list=True)
    bare = isinstance(file.data, list)
    people = file.data if bare else file.data.get("users")
    if not isinstance(people, list):
        raise ConfigError(f"{path.name}: must hold a list of people under `users:`")
    rows = []
    for index, entry in enumerate(people):
        where = file.where((index,) if bare else ("users", index))
        if not isinstance(entry, dict):
            raise ConfigError(f"{where}: must be a person with fields (name: …), not {type(entry).__name__}")
        rows.append((where, {str(name): value for name, value in entry.items()}))
    return rows


def _csv_rows(path: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=separator(text))
    rows: list[tuple[str, dict[str, Any]]] = []
    try:
        header = [str(name).strip().lower() for name in reader.fieldnames or []]
        unknown = [name for name in header if name not in COLUMNS]
        if unknown or "name" not in header:  # guard: a column that is not known is refused
            # guard: a line of a file that is no table of people is not shown -> f"unknown column {unknown[0]!r}"
            what = f"unknown column {unknown[0]!r}" if "name" in header else "no column 'name'"
            raise ConfigError(f"{path.name}:1: {what}", hint=f"the columns are: {', '.join(COLUMNS)}")
        reader.fieldnames = header
        for row in reader:
            where = f"{path.name}:{reader.line_num}"
            if len(rows) == MOST_ROWS:
                raise ConfigError(f"{where}: holds more than {MOST_ROWS} people", hint="is it the right file?")
            if None in row or any(value is None for value in row.values()):  # guard: a row of another length is refused
                raise ConfigError(f"{where}: has another number of columns than line 1")
            rows.append((where, _typed(where, {name: value.strip() for name, value in row.items()})))
    except csv.Error as error:
        raise ConfigError(f"{path.name}:{reader.line_num}: is not valid CSV: {error}") from None
    return rows


def _typed(where: str, row: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {name: value for name, value in row.items() if value}
    if "key" in fields:
        fields["keys"] = [fields.pop("key")]
    if "uid" in fields:
        # guard: a uid is a number
        if not (fields["uid"].isdecimal() and fields["uid"].isascii() and len(fields["uid"]) <= 10):
            raise ConfigError(f"{where}: uid: {fields['uid'][:40]!r} is not a number")
        fields["uid"] = int(fields["uid"])
    if "docker" in fields:
        word = fields["docker"].lower()
        if word not in YES + NO:  # guard: docker is yes or no
            raise ConfigError(f"{where}: docker: {fields['docker']!r} is neither yes nor no")
        fields["docker"] = word in YES
    fields.setdefault("name", "")
    return fields
