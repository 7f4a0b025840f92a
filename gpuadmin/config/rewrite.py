"""Changing a YAML file: what a verb means changes, and comments, order and everything else stay as they were.

ruamel.yaml keeps them, and takes seconds for five thousand people. So it is given only the entries that change, and the
rest of the text is not touched. What came of it is read back: where it is not what was meant, the whole file goes
through ruamel.yaml.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.config.yamlread import Items
from gpuadmin.errors import ConfigError


@dataclass(frozen=True)
class Edit:
    """How a list of a file changes: entries by their position to change or to drop, and new ones for its end."""

    change: Mapping[int, Callable[[Any], None]] = field(default_factory=dict)
    drop: Collection[int] = frozenset()
    add: Sequence[Mapping[str, Any]] = ()

    def apply(self, entries: list[Any]) -> None:
        """Edit a list in place, whoever read it."""
        for index, change in self.change.items():
            change(entries[index])
        for index in sorted(self.drop, reverse=True):
            del entries[index]
        entries.extend(_plain(entry) for entry in self.add)


def with_lists(file: YamlFile, edits: Mapping[str, Edit]) -> YamlFile:
    """Given a file and, for names of its lists, how each changes, return the file with it. Nothing is written.

    Raises ConfigError if it cannot be done without changing something else.
    """

    edits = {name: edit for name, edit in edits.items() if edit.change or edit.drop or edit.add}

    def change(data: Any) -> None:
        for name, edit in edits.items():
            if not data.get(name):
                data[name] = []
            edit.apply(data[name])

    wanted = _plain(file.data)
    change(wanted)
    text = _spliced(file, edits)
    if text is not None:
        found = _read(file, text)
        if (
            found is not None
            # guard: entries that were replaced are read back, too
            and found.data == wanted
        ):
            return found
    return _whole(file, change, wanted)


def with_fields(file: YamlFile, change: Callable[[Any], None]) -> YamlFile:
    """Given a file and what changes its fields, return the file with it. Raises ConfigError as above."""
    wanted = _plain(file.data)
    change(wanted)
    return _whole(file, change, wanted)


def _plain(value: Any) -> Any:
    """A copy, without lines."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _whole(file: YamlFile, change: Callable[[Any], None], wanted: Any) -> YamlFile:
    text = _round_trip(file.text, change)
    found = None if text is None else _read(file, text)
    if (
        found is None
        # guard: a file that is rewritten is read back, and says what was meant
        or found.data != wanted
    ):
        raise ConfigError(
            f"{file.path.name}: cannot be written without changing more than intended",
            hint="an alias (*), a tag (!) or a merge (<<) may be the reason; write the values out, or edit it by hand",
        )
    return found


def _read(file: YamlFile, text: str) -> YamlFile | None:
    try:
        return YamlFile.parse(file.path, text)
    except ConfigError:
        return None


def _round_trip(text: str, change: Callable[[Any], None]) -> str | None:
    """A text with a change of its fields; None if ruamel.yaml cannot read it."""
    from ruamel.yaml import YAML  # most verbs only read
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 100000  # an ssh key stays on one line
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    try:
        data = yaml.load(text) or {}
        change(data)
        yaml.dump(data, stream)
    except (YAMLError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return None  # `change` does not know such a file's tree; the caller says so
    return stream.getvalue()


def _spliced(file: YamlFile, edits: Mapping[str, Edit]) -> str | None:
    """The text with its changed entries replaced and the rest as it was; None if its form does not allow that."""
    lines = file.text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        return None
    places: list[tuple[int, int, str]] = []  # from line, to line, what is there instead
    for name, edit in edits.items():
        entries = file.data.get(name)
        if not entries:
            begin = file.data.lines.get(name, len(lines))  # `retired: []`, `retired:`, or no such line
            if begin < len(lines) and not re.fullmatch(rf"{name}:( *| +\[\] *)\n", lines[begin]):
                return None
            new = "".join(_entry(None, dict(entry), "  ") or "" for entry in edit.add)
            places.append((begin, begin + 1, f"{name}:\n{new}"))
            continue
        if not (isinstance(entries, Items) and entries.block) or len(edit.drop) == len(entries):
            return None
        dash = re.match(r"( *)- ", lines[entries.lines[0]])
        if dash is None:
            return None
        for index, change in edit.change.items():
            first, last = entries.lines[index], entries.ends[index]
            text = _entry("".join(lines[first:last]), change, dash[1])
            if text is None:
                return None
            places.append((first, last, text))
        places += [(entries.lines[index], entries.ends[index], "") for index in edit.drop]
        new = "".join(_entry(None, dict(entry), dash[1]) or "" for entry in edit.add)
        places.append((entries.ends[-1], entries.ends[-1], new))
    for first, last, text in sorted(places, reverse=True):
        lines[first:last] = [text]
    return "".join(lines)


def _entry(text: str | None, change: Any, indent: str) -> str | None:
    """An entry of a list, changed; or a new one, of the fields given. It is indented as the others are."""

    def add(data: Any) -> None:
        data["x"] = [change]

    if text is None:
        found = _round_trip("x: []\n", add)
    else:
        found = _round_trip(f"x:\n{text}", lambda data: change(data["x"][0]))
    if found is None:
        return None
    body = found.partition("\n")[2]
    return "".join(indent + line[2:] if line.startswith("  ") else line for line in body.splitlines(keepends=True))
