"""Reading YAML: PyYAML's composer in C, values as YAML 1.2 has them and dates, and the line of each.

What is written goes through ruamel.yaml, which keeps comments and order (rewrite.py); a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, ClassVar

import yaml

from gpuadmin.config.yamlmistake import YamlMistake, in_words

MOST_VALUES = 200_000  # in one file: more than ten thousand people have
MOST_BY_ALIAS = 10_000  # values that aliases may stand for, together: 400 bytes of them can stand for 10^9
DEEPEST = 50
LONGEST_NUMBER = 100  # digits

_TAG = "tag:yaml.org,2002:"
#: Of YAML 1.1, which PyYAML knows, these are the same in YAML 1.2.
_SAME = (f"{_TAG}null", f"{_TAG}timestamp", f"{_TAG}merge")
#: And these are YAML 1.2's: how each is written without quotes, and its first character.
_KINDS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(0b_*[01][01_]*|0o_*[0-7][0-7_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|_*[0-9][0-9_]*)", "-+0123456789"),
    "float": (
        r"[-+]?(\._*[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
}


class Fields(dict[Any, Any]):
    """A mapping, and the line of each of its keys, counted from 0."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[Any, int] = {}


class Items(list[Any]):
    """A sequence, the line of each of its items, counted from 0, and the line behind the last word of each."""

    __slots__ = ("block", "ends", "lines")

    def __init__(self, *, block: bool) -> None:
        super().__init__()
        self.lines: list[int] = []
        self.ends: list[int] = []
        self.block = block  # each item on lines of its own, behind a dash, and without an alias


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # without libyaml it is only slower
    """PyYAML's loader with the values of YAML 1.2; it ends where a text holds too much, before there is a tree."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [one for one in kinds if one[0] in _SAME]
        for first, kinds in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._depth = 0

    def descend_resolver(self, parent: Any, _index: Any) -> None:
        """Count a node that begins. PyYAML calls this for each but an alias."""
        self._values += 1
        self._depth += 1
        if self._values > MOST_VALUES:
            raise YamlMistake(f"it holds more than {MOST_VALUES} values; is it the right file?", _line(parent))
        if self._depth > DEEPEST + 1:
            raise YamlMistake(f"is nested too deeply: {DEEPEST} levels are enough", _line(parent))

    def ascend_resolver(self) -> None:
        """Count a node that is complete."""
        self._depth -= 1


for _kind, (_written, _first) in _KINDS.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"({_written})\Z"), list(_first))


def read_yaml(text: str) -> Any:
    """Given a text of one document, return what it holds, of Fields, Items and plain values; None if there is none.

    Raises YamlMistake.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
        return None if node is None else _Reader(loader).value(node)[0]
    except yaml.MarkedYAMLError as error:
        raise in_words(error, text) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1 if isinstance(error.position, int) else None
        raise YamlMistake(f"holds a character that no YAML file may hold ({error.reason})", line) from None
    except UnicodeEncodeError as error:  # half of a pair of surrogates
        raise YamlMistake("contains an invalid character", text.count("\n", 0, error.start) + 1) from None


class _Reader:
    """Makes values of nodes."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        # nodes: their value, the line behind it, and how many values it holds; None: it is not complete yet
        self._known: dict[Any, tuple[Any, int, int] | None] = {}
        self._values = self._by_alias = 0

    def value(self, node: Any) -> tuple[Any, int]:
        """Given a node, return its value, and the line behind its last word."""
        if node in self._known:
            return self._again(node)
        self._known[node], before = None, self._values
        self._values += 1
        end = node.end_mark.line + bool(node.end_mark.column)
        if isinstance(node, yaml.ScalarNode):
            value = self._scalar(node)
        else:
            value, last = self._items(node) if isinstance(node, yaml.SequenceNode) else self._fields(node)
            end = end if node.flow_style else last
        self._known[node] = value, end, self._values - before
        return value, end

    def _again(self, node: Any) -> tuple[Any, int]:
        """What an alias stands for."""
        known, line = self._known[node], _line(node)
        if known is None:  # guard: an alias does not stand in what it stands for
            raise YamlMistake("an alias (*) is in the value that it stands for", line)
        value, end, weight = known
        self._by_alias += weight
        self._values += weight
        if self._by_alias > MOST_BY_ALIAS:  # guard: aliases stand for a bounded number of values
            raise YamlMistake(f"its aliases (*) stand for more than {MOST_BY_ALIAS} values; write them out", line)
        return value, end

    def _items(self, node: Any) -> tuple[Items, int]:
        items, end, before = Items(block=not node.flow_style), 0, self._by_alias
        for below in node.value:
            item, end = self.value(below)
            items.lines.append(below.start_mark.line)
            items.ends.append(end)
            items.append(item)
        items.block = items.block and self._by_alias == before
        return items, end

    def _fields(self, node: Any) -> tuple[Fields, int]:
        fields, end, merged = Fields(), 0, []
        for name, below in node.value:
            line = name.start_mark.line
            key, _ = self.value(name)
            value, end = self.value(below)
            if name.tag == f"{_TAG}merge":
                merged.append((value, line))
                continue
            if not isinstance(key, Hashable):
                raise YamlMistake("has a list or fields where the name of a field has to be", line + 1)
            if key in fields:
                raise YamlMistake(f"has the field {str(key)[:60]!r} twice; keep one of them", line + 1)
            fields[key] = value
            fields.lines[key] = line
        for value, line in merged:
            _merge(fields, value, line)
        return fields, end

    def _scalar(self, node: Any) -> Any:
        """The value of a text. Another program's tag means nothing here: it is a text."""
        text, tag, kind = node.value, node.tag, node.tag.removeprefix(_TAG)
        if kind in ("str", "merge", tag):
            return text
        if self._loader.resolve(yaml.ScalarNode, text, (True, False)) != tag:
            problem = f"{text[:40]!r} is no {kind[:40]}, as the tag before it says; leave the tag out"
            raise YamlMistake(problem, _line(node))
        if kind in ("null", "bool"):
            return None if kind == "null" else text.lower() == "true"
        if kind == "int":
            return _int(text, _line(node))
        if kind == "float":
            return self._loader.construct_yaml_float(node)
        try:
            return self._loader.construct_yaml_timestamp(node)
        except (ValueError, OverflowError):  # 2027-02-30: its field refuses it, with what else is wrong in the file
            return text


def _int(text: str, line: int) -> int:
    digits = text.replace("_", "")
    if len(digits) > LONGEST_NUMBER:
        raise YamlMistake(f"holds a number of {len(digits)} digits; a text is put into quotes", line)
    # YAML 1.2 has no octal number without an `o`: 017 is seventeen
    return int(digits, 0 if digits.lstrip("-+")[:2] in ("0b", "0o", "0x") else 10)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _merge(fields: Fields, value: Any, line: int) -> None:
    """`<<: *x`: the fields of another mapping, or of several, that it does not have itself."""
    for other in value if isinstance(value, list) else [value]:
        if not isinstance(other, Fields):
            raise YamlMistake("`<<` takes the fields of another value: <<: *name", line + 1)
        for key, item in other.items():
            if key not in fields:
                fields[key] = item
                fields.lines[key] = line
